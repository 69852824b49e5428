//! Collectives that only move data: all-gather, all-to-all, permute, broadcast, ragged all-to-all.
//!
//! Every member copies what it receives out of the senders' operands; members of other processes
//! send theirs as bytes.

use super::session::Session;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::environment::Environment;
use crate::exec::memory::read_integer;
use crate::plan::spmd::collective::{CollectiveKind, CollectiveThunk};

/// `count` positions of `array` along `dimension`, from `start` on.
pub fn slice(array: &RawArray, dimension: usize, start: i64, count: i64) -> RawArray {
    let mut part = array.clone();
    part.dims[dimension] = count;
    let bytes = start * array.strides[dimension] * array.element_type.size_bytes() as i64;
    // SAFETY: the caller's positions are inside the array; an empty part is never read, so only its
    // address may lie outside.
    part.pointer = part.pointer.wrapping_offset(bytes as isize);
    part
}

/// Piece `rank` of `array`, cut into `count` equal ones.
pub fn piece(array: &RawArray, dimension: usize, rank: usize, count: usize) -> RawArray {
    let size = array.dims[dimension] / count as i64;
    slice(array, dimension, size * rank as i64, size)
}

/// Appends the elements of `array` to `bytes`, row-major.
pub fn pack(array: &RawArray, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + array.byte_size(), 0);
    array.copy_to(&over(array, bytes[start..].as_mut_ptr()));
}

/// A row-major array like `array` at `pointer`.
fn over(array: &RawArray, pointer: *mut u8) -> RawArray {
    RawArray {
        pointer,
        element_type: array.element_type,
        dims: array.dims.clone(),
        strides: RawArray::row_major_strides(&array.dims),
    }
}

/// Fills arrays from consecutive packed ones.
pub fn unpack(mut bytes: &[u8], arrays: &[RawArray]) {
    for array in arrays {
        let (here, rest) = bytes.split_at(array.byte_size().min(bytes.len()));
        if here.len() == array.byte_size() {
            over(array, here.as_ptr().cast_mut()).copy_to(array);
        }
        bytes = rest;
    }
}

/// The parts of its operands that member `from` sends to member `to`.
fn outgoing(session: &Session<'_>, inputs: &[RawArray], from: usize, to: usize) -> Vec<RawArray> {
    let count = session.members.len();
    match &session.thunk.kind {
        CollectiveKind::AllToAll {
            dimension: Some(dimension),
        } => inputs
            .iter()
            .map(|input| piece(input, *dimension, to, count))
            .collect(),
        CollectiveKind::AllToAll { dimension: None } => vec![inputs[to].clone()],
        _ if sends(session, from, to) => inputs.to_vec(),
        _ => Vec::new(),
    }
}

/// Where member `to` puts them.
fn incoming(session: &Session<'_>, outputs: &[RawArray], from: usize, to: usize) -> Vec<RawArray> {
    let count = session.members.len();
    match &session.thunk.kind {
        CollectiveKind::AllToAll {
            dimension: Some(dimension),
        }
        | CollectiveKind::AllGather { dimension } => outputs
            .iter()
            .map(|output| piece(output, *dimension, from, count))
            .collect(),
        CollectiveKind::AllToAll { dimension: None } => vec![outputs[from].clone()],
        _ if sends(session, from, to) => outputs.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether member `to` receives anything from member `from`.
fn sends(session: &Session<'_>, from: usize, to: usize) -> bool {
    match &session.thunk.kind {
        CollectiveKind::Permute { sources } => {
            sources[session.members[to] as usize] == Some(session.members[from])
        }
        CollectiveKind::Broadcast => from == 0,
        _ => true,
    }
}

/// Makes the results zero, as those of a device nobody sends to are.
pub fn receive_nothing(thunk: &CollectiveThunk, environment: &Environment<'_>) {
    for output in &thunk.outputs {
        let size = output.count() * output.element_type.size_bytes();
        // SAFETY: results are dense and have this many bytes.
        unsafe { environment.memory.first(output).write_bytes(0, size) };
    }
}

/// Sends whole operands or equal pieces of them to other processes.
pub fn send(session: &Session<'_>) -> Result<()> {
    for to in session.remote() {
        let mut bytes = Vec::new();
        for part in outgoing(session, &session.inputs, session.rank, to) {
            pack(&part, &mut bytes);
        }
        session.send(to, &bytes)?;
    }
    Ok(())
}

/// Receives whole operands or equal pieces of them.
pub fn run(session: &Session<'_>) -> Result<()> {
    let here = session.rank;
    let posts = session.meet(session.inputs.clone())?;
    let mut received = false;
    for (from, post) in posts.iter().enumerate() {
        let targets = incoming(session, &session.outputs, from, here);
        received |= !targets.is_empty();
        match post {
            Some(post) => {
                for (source, target) in outgoing(session, &post.inputs, from, here)
                    .iter()
                    .zip(&targets)
                {
                    source.copy_to(target);
                }
            }
            None => {
                let size = targets.iter().map(RawArray::byte_size).sum();
                unpack(&session.receive(from, size)?, &targets);
            }
        }
    }
    if !received {
        receive_nothing(session.thunk, session.environment);
    }
    session.part()
}

/// One update of a ragged exchange, as its sender describes it.
struct Update {
    source: i64,
    size: i64,
    target: i64,
}

/// The updates a member with the operands `inputs` sends to member `to`.
fn updates(session: &Session<'_>, inputs: &[RawArray], to: usize) -> Result<Vec<Update>> {
    let per_member = inputs[2].count() / session.members.len();
    let rows = inputs[0].dims[0];
    (0..per_member)
        .map(|i| {
            let at = (to * per_member + i) as isize;
            let read = |array: &RawArray| {
                let offset = at * array.strides[0] as isize;
                // SAFETY: the row has `members * per_member` elements of this type.
                unsafe {
                    let size = array.element_type.size_bytes() as isize;
                    read_integer(array.pointer.offset(offset * size), array.element_type)
                }
            };
            let update = Update {
                source: read(&inputs[2]),
                size: read(&inputs[3]),
                target: read(&inputs[4]),
            };
            let fits = update.size >= 0
                && update.source >= 0
                && update
                    .source
                    .checked_add(update.size)
                    .is_some_and(|end| end <= rows);
            match fits {
                true => Ok(update),
                false => Err(session.error(format_args!(
                    "rows {} to {} are sent, but the operand has {rows}",
                    update.source,
                    update.source.saturating_add(update.size)
                ))),
            }
        })
        .collect()
}

/// The rows of the result an update goes to.
fn target(session: &Session<'_>, offset: i64, size: i64) -> Result<RawArray> {
    let output = &session.outputs[0];
    let rows = output.dims[0];
    if offset < 0 || size < 0 || offset.checked_add(size).is_none_or(|end| end > rows) {
        return Err(session.error(format_args!(
            "rows {offset} to {} are received, but the result has {rows}",
            offset.saturating_add(size)
        )));
    }
    Ok(slice(output, 0, offset, size))
}

/// Sends rows whose numbers the operands hold to other processes.
pub fn send_ragged(session: &Session<'_>) -> Result<()> {
    for to in session.remote() {
        let list = updates(session, &session.inputs, to)?;
        let mut header: Vec<u8> = Vec::new();
        let mut bytes = Vec::new();
        for update in &list {
            header.extend(update.target.to_le_bytes());
            header.extend(update.size.to_le_bytes());
            pack(
                &slice(&session.inputs[0], 0, update.source, update.size),
                &mut bytes,
            );
        }
        session.send(to, &header)?;
        session.send(to, &bytes)?;
    }
    Ok(())
}

/// Receives rows whose numbers the operands hold.
pub fn ragged(session: &Session<'_>) -> Result<()> {
    let posts = session.meet(session.inputs.clone())?;
    session.inputs[1].copy_to(&session.outputs[0]);
    let per_member = session.inputs[2].count() / session.members.len();
    for (from, post) in posts.iter().enumerate() {
        match post {
            Some(post) => {
                for update in updates(session, &post.inputs, session.rank)? {
                    let rows = target(session, update.target, update.size)?;
                    slice(&post.inputs[0], 0, update.source, update.size).copy_to(&rows);
                }
            }
            None => {
                let header = session.receive(from, per_member * 16)?;
                let mut targets = Vec::with_capacity(per_member);
                for entry in header.chunks_exact(16) {
                    let mut numbers = entry.chunks_exact(8).map(|bytes| {
                        let mut number = [0; 8];
                        number.copy_from_slice(bytes);
                        i64::from_le_bytes(number)
                    });
                    let (offset, size) = (numbers.next(), numbers.next());
                    targets.push(target(session, offset.unwrap_or(-1), size.unwrap_or(-1))?);
                }
                let size = targets.iter().map(RawArray::byte_size).sum();
                unpack(&session.receive(from, size)?, &targets);
            }
        }
    }
    session.part()
}
