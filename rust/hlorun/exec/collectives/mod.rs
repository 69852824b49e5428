//! Collectives among the devices that run.
//!
//! In: a planned collective and a device's environment. Out: the device's results. Promise: the same
//! bits whatever the number of threads and processes and whoever comes first, since values are
//! combined in the order of the group; and no device waits for one that will not come.

mod meeting;
mod movement;
mod network;
mod reduction;
mod session;

pub use meeting::Meeting;
pub use network::{Network, Transport};

use super::environment::Environment;
use crate::error::Result;
use crate::plan::collective::{CollectiveKind, CollectiveThunk};
use session::Session;

/// Sends what devices of other processes need; [`run`] does the rest later.
pub fn start(thunk: &CollectiveThunk, environment: &Environment<'_>) -> Result<()> {
    if environment
        .meeting
        .is_none_or(|meeting| !meeting.is_spread())
    {
        return Ok(());
    }
    match Session::begin(thunk, environment)? {
        Some(session) => send(&session),
        None => Ok(()),
    }
}

fn send(session: &Session<'_>) -> Result<()> {
    match session.thunk.kind {
        CollectiveKind::AllReduce => reduction::send_shares(session, &session.inputs),
        CollectiveKind::ReduceScatter { dimension } => reduction::send_pieces(session, dimension),
        CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast => movement::send(session),
        CollectiveKind::RaggedAllToAll => movement::send_ragged(session),
    }
}

/// Runs a collective; returns when this device's results are there and its operands are free.
pub fn run(thunk: &CollectiveThunk, environment: &Environment<'_>) -> Result<()> {
    let Some(session) = Session::begin(thunk, environment)? else {
        movement::receive_nothing(thunk, environment);
        return Ok(());
    };
    if let CollectiveKind::AllReduce = thunk.kind {
        return reduction::all_reduce(&session);
    }
    if !thunk.is_started {
        send(&session)?;
    }
    match thunk.kind {
        CollectiveKind::ReduceScatter { dimension } => {
            reduction::reduce_scatter(&session, dimension)
        }
        CollectiveKind::RaggedAllToAll => movement::ragged(&session),
        CollectiveKind::AllReduce
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast => movement::run(&session),
    }
}
