//! Moves a run of elements between a strided walk and contiguous memory.

use super::picks::picks;
use crate::plan::cost::tiles::{
    MAX_LINE_ROW, MAX_LISTED, MAX_REPEATS, MIN_LINE_ROWS, MIN_REPEATED, MIN_SHORT_ROWS,
};
use crate::plan::thunk::PickedWalk;
use crate::plan::thunk::picked_walk::Block;
use crate::plan::view::Walk;
use crate::plan::view::offset_in;
use hlorun_kernels::strided::line_rows::{LineRows, MIN_BYTES};
use hlorun_kernels::strided::picks::Picks;

mod scatter;

pub use scatter::scatter;

/// Calls `f(offset, stride, done, count)` for every piece of a row among elements
/// `start..start + n`: `count` elements from `offset`, `stride` apart, after `done` others.
#[inline(always)]
pub fn pieces(walk: &Walk, start: usize, n: usize, mut f: impl FnMut(i64, i64, usize, usize)) {
    let walk = walk.as_slice();
    let Some((&(size, stride), rows)) = walk.split_last() else {
        if n > 0 {
            f(0, 0, 0, n);
        }
        return;
    };
    let mut inner = start as i64 % size;
    let mut rest = start as i64 / size;
    // Rows are counted along the fastest of their dimensions here, along the others where that ends.
    let (&(times, step), outer) = rows.split_last().unwrap_or((&(1, 0), &[]));
    let mut left = times - rest % times;
    let mut row = rest % times * step;
    rest /= times;
    let mut index: smallvec::SmallVec<[i64; 6]> = smallvec::SmallVec::from_elem(0, outer.len());
    for (&(size, stride), index) in outer.iter().zip(&mut index).rev() {
        *index = rest % size;
        rest /= size;
        row += *index * stride;
    }
    let mut done = 0usize;
    while done < n {
        let count = ((size - inner) as usize).min(n - done);
        f(row + inner * stride, stride, done, count);
        done += count;
        inner = 0;
        row += step;
        left -= 1;
        if left == 0 {
            left = times;
            row += carry(outer, &mut index) - times * step;
        }
    }
}

/// Moves on along the outer dimensions; how far that is.
#[inline(never)]
fn carry(outer: &[(i64, i64)], index: &mut [i64]) -> i64 {
    let mut moved = 0;
    for (&(size, stride), index) in outer.iter().zip(index).rev() {
        *index += 1;
        moved += stride;
        if *index < size {
            break;
        }
        moved -= stride * size;
        *index = 0;
    }
    moved
}

/// Bytes up to which a run is written here: a call takes longer.
const SHORT: usize = 256;

/// Writes `count` times the element at `from`.
///
/// # Safety
///
/// There is one element at `from`, and room for `count` at `to`.
#[inline(always)]
unsafe fn fill_run<T: Copy>(from: *const T, to: *mut T, count: usize) {
    /// Elements that are written at once.
    const AT_ONCE: usize = 8;
    // SAFETY: the caller's promise; every step lies inside the run.
    unsafe {
        let value = from.read_unaligned();
        if count >= AT_ONCE {
            let values = [value; AT_ONCE];
            let mut at = 0;
            while at + AT_ONCE <= count {
                to.add(at).cast::<[T; AT_ONCE]>().write_unaligned(values);
                at += AT_ONCE;
            }
            if at < count {
                let last = to.add(count - AT_ONCE).cast::<[T; AT_ONCE]>();
                last.write_unaligned(values);
            }
            return;
        }
        for i in 0..count {
            to.add(i).write_unaligned(value);
        }
    }
}

/// Elements of a row that a walk repeats, and how often; `None` where copying `n` elements row by row is as fast.
fn repeated_row(walk: &Walk, size: usize, n: usize) -> Option<(usize, usize)> {
    let [.., (times, 0), (row, 1)] = *walk.as_slice() else {
        return None;
    };
    let is_short = row as usize * size < MIN_BYTES || n * size < MIN_LINE_ROWS;
    (is_short && row * times >= MIN_REPEATED).then_some((row as usize, times as usize))
}

/// Copies elements `start..start + n` of a walk whose rows are repeated: a row once, then what is written already.
///
/// # Safety
///
/// All elements the walk reaches from `base` are readable and `out` holds `n` elements.
unsafe fn gather_repeated<T: Copy>(
    walk: &Walk,
    (row, times): (usize, usize),
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    let outer = &walk[..walk.len() - 2];
    let mut done = 0;
    while done < n {
        let at = start + done;
        let count = rest_of_run(row * times, at).min(n - done);
        let offset = offset_in(outer, (at / (row * times)) as i64);
        // SAFETY: the caller's promise; what is read from `out` was written before.
        unsafe {
            let (from, to) = (base.offset(offset as isize), out.add(done));
            let mut written = row.min(count);
            let first = at % row;
            let end = (row - first).min(written);
            let size = size_of::<T>();
            hlorun_kernels::copy(from.add(first).cast(), to.cast(), end * size);
            hlorun_kernels::copy(from.cast(), to.add(end).cast(), (written - end) * size);
            while written < count {
                let more = written.min(count - written);
                let behind = to.add(written).cast();
                hlorun_kernels::copy(to.cast(), behind, more * size);
                written += more;
            }
        }
        done += count;
    }
}

/// The offset of element `start`, when elements `start..start + n` lie side by side.
pub fn run_at(walk: &Walk, start: usize, n: usize) -> Option<i64> {
    let &(size, stride) = walk.last()?;
    if stride != 1 {
        return None;
    }
    let inner = start as i64 % size;
    if inner + n as i64 > size {
        return None;
    }
    Some(inner + offset_in(&walk[..walk.len() - 1], start as i64 / size))
}

/// Elements from `start` to the end of its run.
pub fn rest_of_run(run: usize, start: usize) -> usize {
    run - start % run
}

/// Copies elements `start..start + n` of a walk from `base` to contiguous memory at `out`.
///
/// # Safety
///
/// All elements the walk reaches from `base` are readable and `out` holds `n` elements.
pub unsafe fn gather(
    picked: &PickedWalk,
    size: usize,
    base: *const u8,
    start: usize,
    n: usize,
    out: *mut u8,
) {
    by_size!(size, T => {
        let (base, out) = (base.cast::<T>(), out.cast::<T>());
        let walk: &Walk = picked;
        if let Some(repeated) = repeated_row(walk, size, n) {
            // SAFETY: the caller's promise.
            return unsafe { gather_repeated(walk, repeated, base, start, n, out) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            if let [.., (count, 0)] = *walk.as_slice() && is_repeated_few(walk) {
                let block = (walk, 1, count as usize);
                return gather_whole(block, base, start, n, out, |from, step, rows, to| {
                    let (step, count) = (step * size as isize, count as usize);
                    hlorun_kernels::strided::repeat(size, rows, step, count, from.cast(), to.cast());
                });
            }
            let lines = line_rows(walk, size).filter(|_| n * size >= MIN_LINE_ROWS);
            if let Some(rows) = lines.filter(|rows| rows.elements > FEW) {
                return gather_line_rows(walk, rows, base, start, n, out);
            }
            if let Some(block) = picks(picked, size, n) {
                return gather_picked(walk, block, base, start, n, out);
            }
            match *walk.as_slice() {
                [.., (times, _), (2, _)] if times >= MIN_SHORT_ROWS => {
                    gather_short_rows::<T, 2>(walk, base, start, n, out);
                }
                [.., (times, _), (3, _)] if times >= MIN_SHORT_ROWS => {
                    gather_short_rows::<T, 3>(walk, base, start, n, out);
                }
                [.., (times, _), (4, _)] if times >= MIN_SHORT_ROWS => {
                    gather_short_rows::<T, 4>(walk, base, start, n, out);
                }
                _ => match listed_block(walk, size).filter(|_| n >= MAX_LISTED) {
                    Some(depth) => gather_blocks((walk, depth), base, start, n, out),
                    None => gather_pieces(walk, base, start, n, out),
                },
            }
        }
    })
}

/// Rows of up to so many elements are picked, or copied by a loop for their length; longer ones by cache lines.
const FEW: usize = 4;

/// [`gather`] of blocks whose elements are picked by vectors.
///
/// # Safety
/// As for that.
unsafe fn gather_picked<T: Copy>(
    walk: &Walk,
    block: &Block<Picks>,
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    for_picked(
        (walk, block),
        start,
        n,
        // SAFETY: the caller's promise; parts of blocks lie inside the walk and the output.
        |start, n, done| unsafe { gather_pieces(walk, base, start, n, out.add(done)) },
        // SAFETY: as above, of whole blocks.
        |offset, step, blocks, done| unsafe {
            let (from, to) = (base.offset(offset), out.add(done));
            let step = step * size_of::<T>() as isize;
            block.copy.copy(from.cast(), step, blocks, to.cast());
        },
    );
}

/// [`for_blocks`] of those that are copied by vectors; steps that are fewer than a block has are parts.
#[inline(always)]
fn for_picked<C>(
    (walk, block): (&Walk, &Block<C>),
    start: usize,
    n: usize,
    part: impl Fn(usize, usize, usize),
    whole: impl Fn(isize, isize, usize, usize),
) {
    let steps = |offset: isize, step: isize, times: usize, done: usize| {
        if times < block.times {
            return part(start + done, times * block.count, done);
        }
        for (first, blocks) in block.runs(times) {
            let offset = offset + first as isize * step;
            let done = done + first * block.count;
            whole(offset, step * block.times as isize, blocks, done);
        }
    };
    for_blocks((walk, block.depth, block.count), start, n, &part, steps);
}

/// Whether each element is repeated a few times, by vectors that hold the same lanes all the time.
fn is_repeated_few(walk: &Walk) -> bool {
    matches!(*walk.as_slice(), [.., (times, _), (2..=MAX_REPEATS, 0)] if times >= MIN_SHORT_ROWS)
}

/// How many inner dimensions of a walk are gathered by a list of offsets; `None` where rows are not short.
fn listed_block(walk: &Walk, size: usize) -> Option<usize> {
    let &(row, _) = walk.last()?;
    let is_short = |count: i64| usize::try_from(count).is_ok_and(|count| count <= MAX_LISTED);
    if row as usize * size >= MIN_BYTES {
        return None;
    }
    let (mut depth, mut count) = (0, 1i64);
    for &(times, _) in walk.iter().rev() {
        match count.checked_mul(times).filter(|&count| is_short(count)) {
            Some(all) => count = all,
            None => break,
        }
        depth += 1;
    }
    (depth > 0).then_some(depth)
}

/// The rows of a walk, if they have [`MIN_BYTES`] to [`MAX_LINE_ROW`] bytes, and are contiguous or one element over and
/// over.
fn line_rows(walk: &Walk, size: usize) -> Option<LineRows> {
    let &[.., (_, step), (row, stride)] = walk.as_slice() else {
        return None;
    };
    let elements = usize::try_from(row).ok()?;
    let bytes = elements.checked_mul(size)?;
    (matches!(stride, 0 | 1) && size <= 8 && (MIN_BYTES..=MAX_LINE_ROW).contains(&bytes)).then_some(
        LineRows {
            elem_size: size,
            elements,
            is_repeated: stride == 0,
            step: step as isize * size as isize,
        },
    )
}

/// Elements `start..start + n` of a walk in blocks, each of which is all `size` elements of the `depth` inner dimensions:
/// `whole(offset, step, count, done)` for `count` blocks that lie `step` elements apart, after `done` other elements, and
/// `part(start, n, done)` for the elements of a block at either end.
#[inline(always)]
fn for_blocks(
    (walk, depth, size): (&Walk, usize, usize),
    start: usize,
    n: usize,
    part: impl Fn(usize, usize, usize),
    whole: impl Fn(isize, isize, usize, usize),
) {
    let outer = &walk[..walk.len() - depth];
    let (&(times, step), outer) = outer.split_last().unwrap_or((&(1, 0), &[]));
    let (times, step) = (times as usize, step as isize);
    if start == 0 && outer.is_empty() && n == times * size {
        // The whole of a short walk, as steps of a loop take it: without a division.
        return whole(0, step, times, 0);
    }
    // Most other runs begin and end with a block: nothing is prepared for parts that are not there.
    let mut done = match start % size {
        0 => 0,
        into => (size - into).min(n),
    };
    if done > 0 {
        part(start, done, 0);
    }
    while n - done >= size {
        let at = (start + done) / size;
        let first = at % times;
        let count = (times - first).min((n - done) / size);
        let offset = offset_in(outer, (at / times) as i64) as isize;
        whole(offset + first as isize * step, step, count, done);
        done += count * size;
    }
    if done < n {
        part(start + done, n - done, done);
    }
}

/// [`gather`] of [blocks](for_blocks): `write(from, step, count, to)` copies `count` blocks that lie `step` elements apart.
/// Parts of a block are copied piece by piece.
///
/// # Safety
/// As for [`gather`]; `write` reads and writes the elements of its blocks alone.
#[inline(always)]
unsafe fn gather_whole<T: Copy>(
    blocks: (&Walk, usize, usize),
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
    write: impl Fn(*const T, isize, usize, *mut T),
) {
    // SAFETY: the caller's promise; blocks lie inside the walk and the output.
    unsafe {
        for_blocks(
            blocks,
            start,
            n,
            |start, n, done| gather_pieces(blocks.0, base, start, n, out.add(done)),
            |offset, step, count, done| write(base.offset(offset), step, count, out.add(done)),
        );
    }
}

/// [`gather`] of rows of cache lines.
///
/// # Safety
/// As for that.
unsafe fn gather_line_rows<T: Copy>(
    walk: &Walk,
    rows: LineRows,
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let block = (walk, 1, rows.elements);
        gather_whole(block, base, start, n, out, |from, _, count, to| {
            rows.write(from.cast(), to.cast(), count);
        });
    }
}

/// [`gather`] of blocks of the `depth` inner dimensions, whose offsets are listed once.
///
/// # Safety
/// As for that.
unsafe fn gather_blocks<T: Copy>(
    (walk, depth): (&Walk, usize),
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    let inner = &walk[walk.len() - depth..];
    let size: usize = inner.iter().map(|&(times, _)| times as usize).product();
    // Contiguous rows are copied by words: the first and the last of each, which may share bytes.
    let (row, is_dense) = walk
        .last()
        .map_or((1, false), |&(n, stride)| (n as usize, stride == 1));
    let bytes = if is_dense { row * size_of::<T>() } else { 0 };
    // SAFETY: the caller's promise; a row has one word at least and two at most.
    unsafe {
        match bytes {
            4..8 => by_words::<T, u32>((walk, depth, size, row), base, start, n, out),
            8..16 => by_words::<T, u64>((walk, depth, size, row), base, start, n, out),
            16.. => by_words::<T, [u64; 2]>((walk, depth, size, row), base, start, n, out),
            _ => by_words::<T, T>((walk, depth, size, 1), base, start, n, out),
        }
    }
}

/// Lists the offsets of every `row`th element of a walk, which are the first of a row each where it has such; returns how
/// many.
fn list_offsets(walk: &[(i64, i64)], row: usize, offsets: &mut [[isize; 2]]) -> usize {
    let outer = if row == 1 {
        walk
    } else {
        &walk[..walk.len() - 1]
    };
    let mut count = 1;
    for &(times, stride) in outer {
        // Each becomes as many, from the last one on, so that none is written over before it is read.
        let times = times as usize;
        for at in (0..count).rev() {
            let first = offsets[at][0];
            for i in (0..times).rev() {
                offsets[at * times + i][0] = first + i as isize * stride as isize;
            }
        }
        count *= times;
    }
    count
}

/// The same by words of `W`: rows of `row` elements are copied by their first and their last word.
///
/// # Safety
/// As for that; a row has the bytes of one word at least, and of two at most.
unsafe fn by_words<T: Copy, W: Copy>(
    (walk, depth, size, row): (&Walk, usize, usize, usize),
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    let inner = &walk[walk.len() - depth..];
    let unit = size_of::<T>() as isize;
    let back = (row * size_of::<T>() - size_of::<W>()) as isize;
    let ends = if back == 0 { 1 } else { 2 };
    // Bytes from the beginning of a block to a word, in the array and in the output.
    let mut words = [[0isize; 2]; 2 * MAX_LISTED];
    let rows = list_offsets(inner, row, &mut words);
    let count = rows * ends;
    for at in (0..rows).rev() {
        let (from, to) = (words[at][0] * unit, (at * row) as isize * unit);
        for end in 0..ends {
            let behind = end as isize * back;
            words[at * ends + end] = [from + behind, to + behind];
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        let block = (walk, depth, size);
        gather_whole(block, base, start, n, out, |from, step, blocks, to| {
            for block in 0..blocks {
                let from = from.offset(block as isize * step).cast::<u8>();
                let to = to.add(block * size).cast::<u8>();
                for &[f, t] in &words[..count] {
                    let word = from.offset(f).cast::<W>().read_unaligned();
                    to.offset(t).cast::<W>().write_unaligned(word);
                }
            }
        });
    }
}

/// [`gather`] piece by piece.
///
/// # Safety
/// As for that.
unsafe fn gather_pieces<T: Copy>(walk: &Walk, base: *const T, start: usize, n: usize, out: *mut T) {
    let size = size_of::<T>();
    pieces(walk, start, n, |offset, stride, done, count| {
        // SAFETY: the caller's promise.
        unsafe {
            let from = base.offset(offset as isize);
            let to = out.add(done);
            match stride {
                1 => hlorun_kernels::copy(from.cast(), to.cast(), count * size),
                0 if count * size > SHORT => {
                    hlorun_kernels::fill(size, from.cast(), to.cast(), count);
                }
                0 => fill_run(from, to, count),
                _ if count * size > SHORT => {
                    let stride = stride as isize * size as isize;
                    let dense = size as isize;
                    hlorun_kernels::copy_row(size, count, from.cast(), stride, to.cast(), dense);
                }
                _ => {
                    for i in 0..count {
                        to.add(i)
                            .write(from.offset(i as isize * stride as isize).read_unaligned());
                    }
                }
            }
        }
    });
}

/// [`gather`] of a walk whose rows have S elements.
///
/// # Safety
/// As for that.
unsafe fn gather_short_rows<T: Copy, const S: usize>(
    walk: &Walk,
    base: *const T,
    start: usize,
    n: usize,
    out: *mut T,
) {
    let stride = walk.last().map_or(0, |&(_, stride)| stride as isize);
    // SAFETY: the caller's promise.
    unsafe {
        gather_whole(
            (walk, 1, S),
            base,
            start,
            n,
            out,
            |from, step, rows, to| match stride {
                1 => short_rows::<T, S>(from, step, 1, rows, to),
                _ => short_rows::<T, S>(from, step, stride, rows, to),
            },
        );
    }
}

/// Copies `rows` rows of S elements.
///
/// # Safety
/// All elements are there, and `to` has room for them.
#[inline(always)]
unsafe fn short_rows<T: Copy, const S: usize>(
    from: *const T,
    step: isize,
    stride: isize,
    rows: usize,
    to: *mut T,
) {
    for row in 0..rows {
        for i in 0..S {
            // SAFETY: the caller's promise.
            unsafe {
                let value = from.offset(row as isize * step + i as isize * stride);
                to.add(row * S + i).write(value.read_unaligned());
            }
        }
    }
}

#[cfg(test)]
mod tests;
