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

/// Runs a collective; returns when this device's results are there and its operands are free.
pub fn run(thunk: &CollectiveThunk, environment: &Environment<'_>) -> Result<()> {
    let Some(session) = Session::begin(thunk, environment)? else {
        movement::receive_nothing(thunk, environment);
        return Ok(());
    };
    match thunk.kind {
        CollectiveKind::AllReduce => reduction::all_reduce(&session),
        CollectiveKind::ReduceScatter { dimension } => {
            reduction::reduce_scatter(&session, dimension)
        }
        CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast => movement::run(&session),
        CollectiveKind::RaggedAllToAll => movement::ragged(&session),
    }
}
