//! `send` and `recv-done` over channels.
//!
//! In: a session of one device. Out: messages in the queues of a channel, or what they bring.
//! Promise: a message is fetched in the order in which it was sent; a send that its bounds rule out
//! still takes its place in the order, and brings zeros.

use super::movement::{pack, receive_nothing, unpack};
use super::session::Session;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::module::InstructionId;
use crate::plan::spmd::groups::Bounds;

/// First byte of a message without data.
const EMPTY: u8 = 0;
/// First byte of a message with data.
const FULL: u8 = 1;

/// Sends the operands to whom `targets` says.
pub fn send(
    session: &Session<'_>,
    targets: &[Vec<(u32, Option<Bounds>)>],
    instruction: InstructionId,
) -> Result<()> {
    let Some(rendezvous) = session.rendezvous() else {
        return Ok(());
    };
    let device = session.environment.device;
    let execution = rendezvous.count_send(instruction, device);
    for &(target, bounds) in &targets[device as usize] {
        let mut message = vec![EMPTY];
        if bounds.is_none_or(|(first, last)| (first..=last).contains(&execution)) {
            message[0] = FULL;
            for input in &session.inputs {
                pack(input, &mut message);
            }
        }
        rendezvous.post(session, target, message)?;
    }
    Ok(())
}

/// Receives the results from whom `sources` says.
pub fn receive(session: &Session<'_>, sources: &[Option<u32>]) -> Result<()> {
    let source = sources[session.environment.device as usize];
    let (Some(rendezvous), Some(source)) = (session.rendezvous(), source) else {
        receive_nothing(session.thunk, session.environment);
        return Ok(());
    };
    let mut message = rendezvous.fetch(session, source)?;
    if message.first() == Some(&EMPTY) {
        receive_nothing(session.thunk, session.environment);
        return Ok(());
    }
    let size: usize = session.outputs.iter().map(RawArray::byte_size).sum();
    // Long messages of other processes come in parts.
    while !rendezvous.is_local(source) && message.len() < size + 1 {
        message.extend(rendezvous.fetch(session, source)?);
    }
    if message.len() != size + 1 {
        return Err(session.error(format_args!(
            "{} sent {} bytes where {size} are received; do both sides of the channel have one shape?",
            session.thunk.devices.name(source),
            message.len().saturating_sub(1)
        )));
    }
    unpack(&message[1..], &session.outputs);
    Ok(())
}
