//! Fused loops, tile by tile, or over rows; see [`super::rows`].
//!
//! A dense input is read where it lies and a dense output is written where it belongs; other views
//! are gathered into, or scattered from, a tile in the first-level cache.

use std::cell::RefCell;

use super::program::Frame;
use super::rows;
use super::sources::Sources;
use super::stream;
use super::walk;
use crate::error::Result;
use crate::exec::environment::{Environment, PreparedThunk, try_parallel};
use crate::exec::memory::Memory;
use crate::plan::cost::tiles::{HALVED_WORK, TASK_WORK};
use crate::plan::element::program::{Home, Register};
use crate::plan::thunk::row_loop::RowLoop;
use crate::plan::thunk::{Load, LoopThunk, PickedWalk};
use crate::plan::view::{PRIVATE, offset_in};

/// Where a loop's output goes.
struct Target<'p> {
    register: Register,
    base: *mut u8,
    size: usize,
    walk: &'p PickedWalk,
    /// The register is the last step's memory and may be written in place.
    direct: bool,
    is_dense: bool,
    /// It goes past the caches.
    streams: bool,
    /// The input that is asked for meanwhile.
    ahead: Option<usize>,
}

struct Targets<'p>(Vec<Target<'p>>);
// SAFETY: tasks write disjoint ranges of the loop, and stores are one to one.
unsafe impl Sync for Targets<'_> {}

/// A fused loop with its addresses resolved.
pub struct Running<'p> {
    thunk: &'p LoopThunk,
    sources: Sources<'p>,
    targets: Targets<'p>,
    /// Set where it goes over rows.
    rows: Option<&'p RowLoop>,
    tile: usize,
}

impl<'p> Running<'p> {
    /// The loop of `thunk` on `memory`; results into allocations for which `streams` holds, and
    /// that it does not also read, go past the caches.
    pub fn new(
        thunk: &'p LoopThunk,
        memory: &Memory,
        streams: &dyn Fn(u32) -> bool,
    ) -> Result<Running<'p>> {
        let program = &thunk.program;
        let targets = thunk.stores.iter().enumerate().map(|(at, store)| {
            let register = store.register;
            let is_slot = matches!(program.homes[register.0 as usize], Home::Slot(_));
            let is_only = thunk.stores[..at].iter().all(|s| s.register != register);
            let buffer = store.view.slice.allocation;
            let streams =
                store.is_dense && buffer < PRIVATE && streams(buffer) && !thunk.reads(buffer);
            Target {
                register,
                base: memory.first(&store.view),
                size: program.types[register.0 as usize].size_bytes(),
                walk: &store.walk,
                direct: store.is_dense && is_slot && is_only && !streams,
                is_dense: store.is_dense,
                streams,
                ahead: None,
            }
        });
        let mut targets: Vec<Target<'_>> = targets.collect();
        share_out(&thunk.loads, &mut targets);
        Ok(Running {
            thunk,
            sources: Sources::new(memory, program, &thunk.loads)?,
            targets: Targets(targets),
            rows: None,
            tile: program.tile(thunk.count),
        })
    }

    /// The same where nobody else runs parts of other loops meanwhile.
    fn alone(thunk: &'p LoopThunk, environment: &Environment<'_>) -> Result<Running<'p>> {
        let streams = stream::pays(traffic(thunk).saturating_mul(environment.crowd));
        let mut running = Running::new(thunk, &environment.memory, &|_| streams)?;
        // Results that go past the caches are written from tiles.
        if let Some(rows) = thunk.rows.as_deref()
            && running.targets.0.iter().all(|target| !target.streams)
        {
            running.rows = Some(rows);
            running.tile = rows.tile * rows.row;
        }
        Ok(running)
    }

    /// Tasks that are worth a thread.
    fn tasks(&self, environment: &Environment<'_>) -> usize {
        if !self.thunk.is_shared || environment.threads <= 1 {
            return 1;
        }
        let work = self.thunk.work();
        let tiles = self.thunk.count.div_ceil(self.tile);
        let most = (work / TASK_WORK).min(tiles);
        let tasks = environment.threads.min(most).max(1);
        match work / tasks >= HALVED_WORK {
            true => (2 * tasks).min(tiles),
            false => tasks,
        }
    }

    /// Finds what lies in a row tile's scratch where it is now.
    pub fn rebase(&mut self, memory: &Memory) {
        self.sources.rebase(memory);
        for (target, store) in self.targets.0.iter_mut().zip(&self.thunk.stores) {
            if store.view.slice.allocation >= PRIVATE {
                target.base = memory.first(&store.view);
            }
        }
    }

    /// Finds what lies at places that indices name where it is now.
    fn locate(&mut self, memory: &Memory) {
        self.sources.locate(memory);
        for (target, store) in self.targets.0.iter_mut().zip(&self.thunk.stores) {
            if !store.view.dynamic.is_empty() {
                target.base = memory.first(&store.view);
            }
        }
    }

    /// What a thread needs to run parts of the loop.
    pub fn frame(&self) -> Result<Frame> {
        match self.rows {
            Some(rows) => rows::frame(rows),
            None => self.sources.frame(&self.thunk.program, self.tile),
        }
    }

    /// Computes elements `range`, whole rows where it goes over such; [`Running::finish`] must follow once before others read
    /// them.
    pub fn range(&self, frame: &mut Frame, range: std::ops::Range<usize>) {
        if let Some(rows) = self.rows {
            let place = |result: usize, first: usize| {
                let target = &self.targets.0[result];
                let offset = offset_in(target.walk, first as i64) as isize;
                let at = target.base.wrapping_offset(offset * target.size as isize);
                (at, target.size)
            };
            // SAFETY: a store has a place for every element of the loop; the plan made sure that nothing is written that is still
            // to be read; the frame is this loop's.
            return unsafe { rows::range(rows, &self.sources, place, frame, range) };
        }
        let mut start = range.start;
        while start < range.end {
            let rest = range.end - start;
            let n = self.tile.min(rest).min(self.sources.limit(start));
            self.sources.fill(frame, start, n);
            self.store_tile(frame, start, n);
            start += n;
        }
    }

    /// Makes what this thread has computed visible to those that it tells about it.
    pub fn finish(&self) {
        if self.targets.0.iter().any(|target| target.streams) {
            hlorun_kernels::stream::finish();
        }
    }

    /// Computes a tile whose inputs are filled in.
    fn store_tile(&self, frame: &mut Frame, start: usize, n: usize) {
        for target in &self.targets.0 {
            if target.direct {
                // SAFETY: a dense store has an element for every position of the loop.
                frame.bind(target.register, unsafe {
                    target.base.add(start * target.size)
                });
            }
        }
        // SAFETY: inputs were filled with `n` elements, direct outputs have room for them.
        unsafe { frame.run(&self.thunk.program, n) };
        for target in &self.targets.0 {
            if target.direct {
                continue;
            }
            let from = frame.pointer(target.register).cast_const();
            // SAFETY: stores have a place for every position of the loop; a register that is an input
            // bound to the very place it goes to copies onto itself.
            unsafe {
                if target.is_dense {
                    let to = target.base.add(start * target.size);
                    if target.streams {
                        let ahead = target
                            .ahead
                            .map(|input| self.sources.dense(input, start + n));
                        hlorun_kernels::stream::stream(from, to, n * target.size, ahead);
                    } else {
                        std::ptr::copy(from, to, n * target.size);
                    }
                } else {
                    walk::scatter(target.walk, target.size, target.base, start, n, from);
                }
            }
        }
    }
}

/// Lets each output that is streamed ask for one of the inputs; to ask for more of them is no gain.
fn share_out(loads: &[Load], targets: &mut [Target<'_>]) {
    let inputs = (0..loads.len()).filter(|&input| loads[input].is_dense);
    let streaming = targets.iter_mut().filter(|target| target.streams);
    for (target, input) in streaming.zip(inputs) {
        target.ahead = Some(input);
    }
}

/// Bytes that loops over `thunk`'s elements move, roughly.
pub fn traffic(thunk: &LoopThunk) -> usize {
    let read = thunk.loads.iter().flat_map(|load| load.views());
    read.chain(thunk.stores.iter().map(|store| &store.view))
        .filter(|view| view.slice.allocation < PRIVATE)
        .map(|view| view.count() * view.element_type.size_bytes())
        .fold(0, usize::saturating_add)
}

/// A fused loop with all done that its runs share; `None` where it has no elements, several threads run it, or preparing
/// fails.
pub fn prepare<'t>(
    thunk: &'t LoopThunk,
    environment: &Environment<'_>,
) -> Option<PreparedThunk<'t>> {
    if thunk.count == 0 {
        return None;
    }
    let running = Running::alone(thunk, environment).ok()?;
    if running.tasks(environment) > 1 {
        return None;
    }
    let frame = running.frame().ok()?;
    let state = RefCell::new((running, frame));
    Some(Box::new(move |environment| {
        let (running, frame) = &mut *state.borrow_mut();
        running.locate(&environment.memory);
        if running.rows.is_none() {
            running.sources.refresh(frame);
        }
        running.range(frame, 0..thunk.count);
        running.finish();
        Ok(())
    }))
}

/// Runs a fused loop.
pub fn run(thunk: &LoopThunk, environment: &Environment<'_>) -> Result<()> {
    if thunk.count == 0 {
        return Ok(());
    }
    let running = Running::alone(thunk, environment)?;
    let tile = running.tile;
    let tasks = running.tasks(environment);
    let share = thunk.count.div_ceil(tasks).next_multiple_of(tile);
    try_parallel(environment, tasks, &|task| {
        let begin = (task * share).min(thunk.count);
        let end = (begin + share).min(thunk.count);
        if begin < end {
            running.range(&mut running.frame()?, begin..end);
            running.finish();
        }
        Ok(())
    })
}
