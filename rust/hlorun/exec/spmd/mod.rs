//! Collectives among the devices that run.
//!
//! In: a planned collective and a device's environment. Out: the device's results. Promise: the same
//! bits whatever the number of threads and processes and whoever comes first, since values are
//! combined in the order of the group; and no device waits for one that will not come.

pub(crate) mod movement;
pub(crate) mod permute_slices;
pub(crate) mod reduction;
pub(crate) mod session;
pub(crate) mod together;
pub(crate) mod transfer;

use std::sync::{Mutex, PoisonError};

use super::environment::Environment;
use super::parallel::ParallelLoop;
use super::rendezvous::Posts;
use crate::error::Result;
use crate::plan::spmd::collective::{CollectiveKind, CollectiveThunk};
use crate::plan::thunk::GemmThunk;
use session::Session;

/// Sends what devices of other processes need; [`run`] does the rest later.
pub fn start(thunk: &CollectiveThunk, environment: &Environment<'_>) -> Result<()> {
    if environment
        .rendezvous
        .is_none_or(|rendezvous| !rendezvous.is_spread())
    {
        return Ok(());
    }
    match Session::begin(thunk, environment)? {
        Some(session) => send(&session),
        None => Ok(()),
    }
}

fn send(session: &Session<'_>) -> Result<()> {
    match &session.thunk.kind {
        CollectiveKind::AllReduce => reduction::send_shares(session, &session.inputs),
        CollectiveKind::ReduceScatter { dimension } => reduction::send_pieces(session, *dimension),
        CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast => movement::send(session),
        CollectiveKind::RaggedAllToAll => movement::send_ragged(session),
        CollectiveKind::PermuteSlices(slices) => permute_slices::send(session, slices),
        CollectiveKind::Send { .. } | CollectiveKind::Receive { .. } => Ok(()),
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
    receive(&session)
}

/// All but all-reduce, once everything is sent.
fn receive(session: &Session<'_>) -> Result<()> {
    match &session.thunk.kind {
        CollectiveKind::ReduceScatter { dimension } => {
            reduction::reduce_scatter(session, *dimension)
        }
        CollectiveKind::RaggedAllToAll => movement::ragged(session),
        CollectiveKind::PermuteSlices(slices) => permute_slices::run(session, slices),
        CollectiveKind::Send {
            targets,
            instruction,
        } => transfer::send(session, targets, *instruction),
        CollectiveKind::Receive { sources, .. } => transfer::receive(session, sources),
        CollectiveKind::AllReduce
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast => movement::run(session),
    }
}

/// Runs a collective of devices that are all here: `environments` are those of every device.
/// Results that are the same memory on all of them are written once. `products` are the operands of
/// an all-reduce that are still to be computed.
pub fn run_together(
    thunk: &CollectiveThunk,
    products: &[Option<Box<GemmThunk>>],
    environments: &[Environment<'_>],
    parallel: &ParallelLoop<'_>,
) -> Result<()> {
    let mut sessions = Vec::with_capacity(environments.len());
    for environment in environments {
        match Session::begin(thunk, environment)? {
            Some(session) => sessions.push(session),
            None => movement::receive_nothing(thunk, environment),
        }
    }
    // By group, and in its order.
    sessions.sort_by_key(|session| (session.group, session.rank));
    let groups: Vec<&mut [Session<'_>]> =
        sessions.chunk_by_mut(|a, b| a.group == b.group).collect();
    if let CollectiveKind::AllReduce = thunk.kind {
        return groups.into_iter().try_for_each(|group| {
            let members: Vec<&Session<'_>> = group.iter().collect();
            together::all_reduce(&members, products, parallel)
        });
    }
    for group in groups {
        let posts: Posts = group
            .iter()
            .map(|session| Some(session.post(session.inputs.clone())))
            .collect();
        for session in group {
            session.posts = Some(posts.clone());
        }
    }
    let failure = Mutex::new(None);
    let sessions = &sessions;
    parallel(sessions.len(), &|at| {
        let session = &sessions[at];
        let is_written_by_another = session.rank > 0
            && session
                .posts
                .iter()
                .flat_map(|posts| posts.first())
                .flatten()
                .any(|first| {
                    let pairs = first.outputs.iter().zip(&session.outputs);
                    pairs.clone().count() > 0
                        && pairs.into_iter().all(|(a, b)| a.pointer == b.pointer)
                });
        if !is_written_by_another && let Err(error) = receive(session) {
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            match &*failure {
                Some((other, _)) if *other < at => {}
                _ => *failure = Some((at, error)),
            }
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}
