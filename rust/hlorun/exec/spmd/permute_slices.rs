//! Collective-permute of slices in place.
//!
//! A member copies what it receives out of the sender's input into its own result, which otherwise
//! is its output operand. Members of other processes send the slices as bytes.

use super::movement::{pack, slice, unpack};
use super::session::Session;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::memory::read_integer;
use crate::plan::spmd::permute_slices::{PermuteSlices, Slice};

/// The part of `array` that begins at the scalars `starts`.
fn part(array: &RawArray, starts: &[RawArray], sizes: &[i64]) -> RawArray {
    let mut part = array.clone();
    for (dimension, (start, &size)) in starts.iter().zip(sizes).enumerate() {
        // SAFETY: the scalar has its type.
        let start = unsafe { read_integer(start.pointer, start.element_type) };
        let last = array.dims[dimension] - size;
        part = slice(&part, dimension, start.clamp(0, last), size);
    }
    part
}

fn source(slice: &Slice, inputs: &[RawArray]) -> RawArray {
    let starts = &inputs[slice.input_starts.clone()];
    part(&inputs[slice.input], starts, &slice.sizes)
}

fn target(slice: &Slice, session: &Session<'_>) -> RawArray {
    let starts = &session.inputs[slice.output_starts.clone()];
    part(&session.outputs[slice.output], starts, &slice.sizes)
}

fn sends(session: &Session<'_>, plan: &PermuteSlices, from: usize, to: usize) -> bool {
    plan.sources[session.members[to] as usize] == Some(session.members[from])
}

/// Sends slices to other processes.
pub fn send(session: &Session<'_>, plan: &PermuteSlices) -> Result<()> {
    for to in session.remote() {
        if sends(session, plan, session.rank, to) {
            let mut bytes = Vec::new();
            for slice in &plan.slices {
                pack(&source(slice, &session.inputs), &mut bytes);
            }
            session.send(to, &bytes)?;
        }
    }
    Ok(())
}

/// Receives slices.
pub fn run(session: &Session<'_>, plan: &PermuteSlices) -> Result<()> {
    let posts = session.meet(session.inputs.clone())?;
    for (number, output) in session.outputs.iter().enumerate() {
        session.inputs[plan.first_output + number].copy_to(output);
    }
    for (from, post) in posts.iter().enumerate() {
        if !sends(session, plan, from, session.rank) {
            continue;
        }
        let targets: Vec<RawArray> = plan.slices.iter().map(|s| target(s, session)).collect();
        match post {
            Some(post) => {
                for (slice, target) in plan.slices.iter().zip(&targets) {
                    source(slice, &post.inputs).copy_to(target);
                }
            }
            None => {
                let size = targets.iter().map(RawArray::byte_size).sum();
                unpack(&session.receive(from, size)?, &targets);
            }
        }
    }
    session.part()
}
