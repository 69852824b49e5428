//! all-reduce and reduce-scatter.
//!
//! Every member combines one part of the elements for all, in the order of the group, so that a
//! result has the same bits on every device and in every run.

use std::ops::Range;

use super::movement::{pack, piece};
use super::session::Session;
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::element::program::Frame;
use crate::exec::rendezvous::Posts;
use crate::plan::element::elementwise::Kernel;
use crate::plan::spmd::collective::Combiner;
use crate::types::strided;

/// Elements combined at once: runs long enough for the memory to stream, and few enough that those of
/// eight members stay in the second-level cache until the result overwrites them.
pub const TILE: usize = 8192;

/// Combines tiles of values.
pub struct Accumulator<'c> {
    combiner: &'c Combiner,
    frame: Frame,
    /// The accumulator's tile.
    sum: AlignedBytes,
    /// A tile of values in the accumulator's type.
    value: AlignedBytes,
    size: usize,
}

/// Runs a conversion between element types.
///
/// # Safety
///
/// Both sides hold `count` elements of their types.
unsafe fn convert(kernel: &Kernel, from: *const u8, to: *mut u8, count: usize) {
    if let Kernel::Unary(convert) = kernel {
        // SAFETY: by the caller's promise.
        unsafe { convert(from, to, count) }
    }
}

impl<'c> Accumulator<'c> {
    /// Room for tiles.
    pub fn new(combiner: &'c Combiner) -> Result<Accumulator<'c>> {
        let size = combiner.accumulator.size_bytes();
        Ok(Accumulator {
            combiner,
            frame: Frame::new(&combiner.program, TILE)?,
            sum: AlignedBytes::uninitialized(size * TILE)?,
            value: AlignedBytes::uninitialized(size * TILE)?,
            size,
        })
    }

    /// Combines `count` elements of each of `values`, in order, and writes the result to all
    /// `targets`.
    ///
    /// # Safety
    ///
    /// Each value holds and each target has room for `count <= TILE` elements of the operand's
    /// type. A target is one of the values, or overlaps none.
    pub unsafe fn combine(&mut self, values: &[*const u8], targets: &[*mut u8], count: usize) {
        let program = &self.combiner.program;
        let [first, rest @ ..] = values else { return };
        let direct = match (targets, &self.combiner.conversions) {
            ([target], None) if !values.contains(&target.cast_const()) => Some(*target),
            _ => None,
        };
        let sum = direct.unwrap_or(self.sum.as_mut_ptr());
        let kernel = match (&program.steps[..], &self.combiner.conversions) {
            ([step], None) if step.operands[..2] == program.inputs[..] => match step.kernel {
                Kernel::Binary(kernel) => Some(kernel),
                _ => None,
            },
            _ => None,
        };
        // SAFETY: all tiles hold `count` elements; a kernel may write onto its operand; the results
        // of a longer program lie in the frame's own memory.
        unsafe {
            match (kernel, rest) {
                (Some(kernel), [second, rest @ ..]) => {
                    kernel(*first, *second, sum, count);
                    for values in rest {
                        kernel(sum, *values, sum, count);
                    }
                }
                _ => {
                    self.start(sum, *first, count);
                    for values in rest {
                        self.add(sum, *values, count);
                    }
                }
            }
            if direct.is_none() {
                for &target in targets {
                    match &self.combiner.conversions {
                        Some((_, narrow)) => convert(narrow, sum, target, count),
                        None => std::ptr::copy_nonoverlapping(sum, target, count * self.size),
                    }
                }
            }
        }
    }

    /// Makes `sum` the `count` values, in the accumulator's type.
    ///
    /// # Safety
    ///
    /// `values` holds `count <= TILE` elements of the operand's type, `sum` has room for them.
    unsafe fn start(&mut self, sum: *mut u8, values: *const u8, count: usize) {
        // SAFETY: by the caller's promise.
        unsafe {
            match &self.combiner.conversions {
                Some((widen, _)) => convert(widen, values, sum, count),
                None => std::ptr::copy_nonoverlapping(values, sum, count * self.size),
            }
        }
    }

    /// Combines `sum` with `count` further values.
    ///
    /// # Safety
    ///
    /// As for [`Accumulator::start`].
    unsafe fn add(&mut self, sum: *mut u8, values: *const u8, count: usize) {
        let program = &self.combiner.program;
        let mut values = values.cast_mut();
        // SAFETY: all tiles hold `count` elements; a kernel may write onto its operand; the results
        // of a longer program lie in the frame's own memory.
        unsafe {
            if let Some((widen, _)) = &self.combiner.conversions {
                convert(widen, values, self.value.as_mut_ptr(), count);
                values = self.value.as_mut_ptr();
            }
            if let [step] = &program.steps[..]
                && let Kernel::Binary(kernel) = step.kernel
                && step.operands[..2] == program.inputs[..]
            {
                kernel(sum, values, sum, count);
                return;
            }
            self.frame.bind(program.inputs[0], sum);
            self.frame.bind(program.inputs[1], values);
            self.frame.run(program, count);
            let result = self.frame.pointer(program.outputs[0]);
            std::ptr::copy_nonoverlapping(result, sum, count * self.size);
        }
    }
}

/// The elements of `total` that the member at `rank` combines.
fn share(total: usize, rank: usize, members: usize) -> Range<usize> {
    // Whole cache lines, so that no two members write one.
    let unit = 64;
    let blocks = total.div_ceil(unit);
    let at = |rank: usize| (blocks * rank / members * unit).min(total);
    at(rank)..at(rank + 1)
}

/// Whether element `i` of both lies at the same place of its memory.
pub fn same_places(a: &RawArray, b: &RawArray) -> bool {
    a.count() == 0 || strided::same_places(&a.dims, &a.strides, &b.strides)
}

/// The elements of every operand that the member at `rank` combines.
fn shares(session: &Session<'_>, rank: usize) -> Vec<Range<usize>> {
    let counts = session.outputs.iter().map(RawArray::count);
    counts
        .map(|count| share(count, rank, session.members.len()))
        .collect()
}

/// Bytes of all of them.
fn bytes_of(session: &Session<'_>, rank: usize) -> usize {
    let sizes = session.outputs.iter().map(|o| o.element_type.size_bytes());
    let shares = shares(session, rank);
    shares
        .iter()
        .zip(sizes)
        .map(|(s, size)| s.len() * size)
        .sum()
}

/// Sends the elements that members of other processes combine; `shown` lie as results do.
pub fn send_shares(session: &Session<'_>, shown: &[RawArray]) -> Result<()> {
    for to in session.remote() {
        let mut bytes = Vec::with_capacity(bytes_of(session, to));
        for (array, share) in shown.iter().zip(shares(session, to)) {
            let size = array.element_type.size_bytes();
            if share.is_empty() {
                continue;
            }
            // SAFETY: the share lies inside the dense array.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(
                    array.pointer.add(share.start * size),
                    share.len() * size,
                )
            });
        }
        session.send(to, &bytes)?;
    }
    Ok(())
}

/// Combines element by element; everybody gets everything.
pub fn all_reduce(session: &Session<'_>) -> Result<()> {
    let members = session.members.len();
    // What each member shows lies as results do: dense, in one order. It may be the result's memory.
    let mut shown = Vec::with_capacity(session.inputs.len());
    for (input, output) in session.inputs.iter().zip(&session.outputs) {
        let is_shared = input.pointer == output.pointer;
        if is_shared || (members > 1 && same_places(input, output)) {
            shown.push(input.clone());
        } else {
            input.copy_to(output);
            shown.push(output.clone());
        }
    }
    if members == 1 {
        return Ok(());
    }
    if !session.thunk.is_started {
        send_shares(session, &shown)?;
    }
    let posts = session.meet(shown)?;
    let messages = receive_remote(session, &posts, bytes_of(session, session.rank))?;
    let result = combine_share(session, &posts, &messages)?;
    for to in session.remote() {
        session.send(to, &result)?;
    }
    for from in session.remote() {
        let bytes = session.receive(from, bytes_of(session, from))?;
        let mut rest = &bytes[..];
        for (output, share) in session.outputs.iter().zip(shares(session, from)) {
            let size = output.element_type.size_bytes();
            let (here, after) = rest.split_at((share.len() * size).min(rest.len()));
            // SAFETY: the share lies inside the dense result, and only its owner's values go there.
            unsafe {
                let to = output.pointer.add(share.start * size);
                std::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len());
            }
            rest = after;
        }
    }
    session.part()
}

/// What members of other processes send, `size` bytes each; empty for members of this one.
fn receive_remote(session: &Session<'_>, posts: &Posts, size: usize) -> Result<Vec<Vec<u8>>> {
    let members = posts.iter().enumerate();
    members
        .map(|(from, post)| match post {
            Some(_) => Ok(Vec::new()),
            None => session.receive(from, size),
        })
        .collect()
}

/// Combines this member's share of every operand into the results of all members of this process, and
/// returns it where other processes wait for it.
fn combine_share(session: &Session<'_>, posts: &Posts, messages: &[Vec<u8>]) -> Result<Vec<u8>> {
    let is_spread = session.remote().next().is_some();
    let mut result = Vec::new();
    let mut before = 0;
    for (k, share) in shares(session, session.rank).into_iter().enumerate() {
        let size = session.outputs[k].element_type.size_bytes();
        let mut accumulator = Accumulator::new(&session.thunk.combiners[k])?;
        for start in share.clone().step_by(TILE) {
            let count = TILE.min(share.end - start);
            // SAFETY: every member's array has the elements of the share; messages hold exactly the
            // shares, one operand after the other. Nobody else touches these elements until all part.
            unsafe {
                let here = start * size;
                let there = before + (start - share.start) * size;
                let values: Vec<*const u8> = posts
                    .iter()
                    .zip(messages)
                    .map(|(post, message)| match post {
                        Some(post) => post.inputs[k].pointer.add(here).cast_const(),
                        None => message.as_ptr().add(there),
                    })
                    .collect();
                let mut targets: Vec<*mut u8> = posts
                    .iter()
                    .flatten()
                    .map(|post| post.outputs[k].pointer.add(here))
                    .collect();
                if is_spread {
                    let at = result.len();
                    result.resize(at + count * size, 0);
                    targets.push(result[at..].as_mut_ptr());
                }
                accumulator.combine(&values, &targets, count);
            }
        }
        before += share.len() * size;
    }
    Ok(result)
}

/// Sends each member of another process the piece it combines.
pub fn send_pieces(session: &Session<'_>, dimension: usize) -> Result<()> {
    let members = session.members.len();
    for to in session.remote() {
        let mut bytes = Vec::new();
        for input in &session.inputs {
            pack(&piece(input, dimension, to, members), &mut bytes);
        }
        session.send(to, &bytes)?;
    }
    Ok(())
}

/// Combines element by element; the member at `rank` gets piece `rank`.
pub fn reduce_scatter(session: &Session<'_>, dimension: usize) -> Result<()> {
    let members = session.members.len();
    let posts = session.meet(session.inputs.clone())?;
    let size = session.outputs.iter().map(RawArray::byte_size).sum();
    let messages = receive_remote(session, &posts, size)?;
    let mut before = 0;
    for (k, output) in session.outputs.iter().enumerate() {
        combine_pieces(session, k, |from| {
            let (dims, element_type) = (output.dims.clone(), output.element_type);
            match &posts[from] {
                Some(post) => piece(&post.inputs[k], dimension, session.rank, members),
                None => RawArray {
                    pointer: messages[from].as_ptr().wrapping_add(before).cast_mut(),
                    element_type,
                    strides: RawArray::row_major_strides(&dims),
                    dims,
                },
            }
        })?;
        before += output.byte_size();
    }
    session.part()
}

/// Combines the arrays `of` gives for every member into result `k`.
fn combine_pieces(session: &Session<'_>, k: usize, of: impl Fn(usize) -> RawArray) -> Result<()> {
    let output = &session.outputs[k];
    let size = output.element_type.size_bytes();
    // Pieces that do not lie as the result does are copied together first.
    let mut copies = Vec::new();
    let mut values = Vec::with_capacity(session.members.len());
    for from in 0..session.members.len() {
        let array = of(from);
        if same_places(&array, output) {
            values.push(array.pointer.cast_const());
            continue;
        }
        let mut bytes = AlignedBytes::uninitialized(output.byte_size())?;
        let copy = RawArray {
            pointer: bytes.as_mut_ptr(),
            ..output.clone()
        };
        array.copy_to(&copy);
        values.push(bytes.as_ptr());
        copies.push(bytes);
    }
    let mut accumulator = Accumulator::new(&session.thunk.combiners[k])?;
    let total = output.count();
    let mut start = 0;
    while start < total {
        let count = TILE.min(total - start);
        // SAFETY: every array holds `total` elements in the order of the dense result.
        unsafe {
            let values: Vec<*const u8> = values.iter().map(|v| v.add(start * size)).collect();
            accumulator.combine(&values, &[output.pointer.add(start * size)], count);
        }
        start += count;
    }
    Ok(())
}
