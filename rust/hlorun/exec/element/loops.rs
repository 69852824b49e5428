//! Fused loops, tile by tile.
//!
//! A dense input is read where it lies and a dense output is written where it belongs; other views
//! are gathered into, or scattered from, a tile in the first-level cache.

use std::cell::RefCell;

use super::gaps::Gaps;
use super::joined::Joined;
use super::program::Frame;
use super::stream;
use super::walk;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, PreparedThunk, try_parallel};
use crate::exec::memory::Memory;
use crate::plan::cost::tiles::{HALVED_WORK, MOST_REPEATED, TASK_WORK};
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::{Home, Program, Register};
use crate::plan::faults::{self, Fault};
use crate::plan::schedule::tiles::row_of;
use crate::plan::thunk::{Load, LoadKind, LoopThunk, PickedWalk};
use crate::plan::view::{PRIVATE, Walk};

/// An input of a running loop.
struct Source<'p> {
    load: &'p Load,
    base: *const u8,
    size: usize,
    /// Writes indices that grow by a step as its elements, where there is such a kernel.
    iota: Option<hlorun_kernels::Iota>,
    /// Makes its elements of indices.
    from_index: hlorun_kernels::Unary,
    /// Its register is filled once for all tiles.
    is_constant: bool,
    /// Elements after which it repeats, if they are few.
    period: Option<usize>,
    /// Set where it has several pieces; `base` then means nothing.
    joined: Option<Joined>,
}

/// Inputs of a running loop, ready to be put into a frame.
pub struct Sources<'p> {
    sources: Vec<Source<'p>>,
    /// Elements after which tiles end, so that an input that lies in rows is read where it is.
    run: usize,
}

// SAFETY: addresses are only read, and the memory outlives the loop.
unsafe impl Sync for Sources<'_> {}

impl<'p> Sources<'p> {
    /// The inputs `loads`, addresses resolved.
    ///
    /// Errors: an element type that has no kernels, which compilation refuses.
    pub fn new(memory: &Memory, program: &Program, loads: &'p [Load]) -> Result<Sources<'p>> {
        let sources = loads
            .iter()
            .map(|load| {
                let is_constant = load.is_constant();
                let ty = program.types[load.register.0 as usize];
                let size = ty.size_bytes();
                let (base, joined) = match &load.kind {
                    LoadKind::View(view) => (memory.first(view).cast_const(), None),
                    LoadKind::Iota => (std::ptr::null(), None),
                    LoadKind::Joined(pieces) => {
                        (std::ptr::null(), Some(Joined::new(memory, pieces, size)))
                    }
                };
                let to = dtype(ty).ok_or_else(|| HloError::execution("a type without kernels"))?;
                // Scratch of a row tile is never larger than the tile.
                let is_fixed = !load.is_dense && !is_constant && load.private().is_none();
                let period = is_fixed.then(|| period(&load.walk)).flatten();
                Ok(Source {
                    load,
                    base,
                    size,
                    iota: hlorun_kernels::iota(to),
                    from_index: hlorun_kernels::convert(hlorun_kernels::DType::S64, to),
                    is_constant,
                    period,
                    joined,
                })
            })
            .collect::<Result<Vec<Source<'_>>>>()?;
        let run = sources
            .iter()
            .filter(|source| source.period.is_none())
            .filter_map(|source| row_of(source.load))
            .min();
        Ok(Sources {
            sources,
            run: run.unwrap_or(usize::MAX),
        })
    }

    /// Finds the inputs that lie in a row tile's scratch where they are now.
    pub fn rebase(&mut self, memory: &Memory) {
        for source in &mut self.sources {
            if let Some(view) = source.load.private() {
                source.base = memory.first(view).cast_const();
            }
        }
    }

    /// Finds the inputs at places that indices name where they are now.
    pub fn locate(&mut self, memory: &Memory) {
        for source in &mut self.sources {
            if let LoadKind::View(view) = &source.load.kind
                && !view.dynamic.is_empty()
            {
                source.base = memory.first(view).cast_const();
            }
        }
    }

    /// Where a dense input has its element `at`, which may be one that it does not have.
    fn dense(&self, input: usize, at: usize) -> *const u8 {
        let source = &self.sources[input];
        source.base.wrapping_add(at.wrapping_mul(source.size))
    }

    /// Where an input has the element `offset` elements after its first one, and the bytes of an element.
    pub fn element(&self, input: usize, offset: i64) -> (*const u8, usize) {
        let source = &self.sources[input];
        let bytes = offset as isize * source.size as isize;
        (source.base.wrapping_offset(bytes), source.size)
    }

    /// Asks for elements `start..start + n` of all dense inputs, which are read soon.
    pub fn expect(&self, start: usize, n: usize) {
        for (input, source) in self.sources.iter().enumerate() {
            if source.load.is_dense && matches!(source.load.kind, LoadKind::View(_)) {
                hlorun_kernels::stream::expect::<true>(self.dense(input, start), n * source.size);
            }
        }
    }

    /// Most elements of a tile that begins at `start`.
    pub fn limit(&self, start: usize) -> usize {
        walk::rest_of_run(self.run, start)
    }

    /// A frame for `program` with these inputs; what never changes is filled in.
    pub fn frame(&self, program: &Program, tile: usize) -> Result<Frame> {
        let staged = self
            .sources
            .iter()
            .filter(|s| !s.load.is_dense && s.period.is_none())
            .map(|s| s.load.register);
        let is_constant = |register: Register| {
            let constants = self.sources.iter().filter(|source| source.is_constant);
            constants
                .into_iter()
                .any(|source| source.load.register == register)
        };
        let mut frame = Frame::with_staging(program, tile, staged, is_constant)?;
        if self.sources.iter().any(|s| s.period.is_some()) {
            let tile = frame.tile();
            let repeated = |s: &Source<'_>| s.period.map(|n| s.repeated(n, tile)).transpose();
            frame.periods = self.sources.iter().map(repeated).collect::<Result<_>>()?;
        }
        self.fill_constants(&frame);
        Ok(frame)
    }

    /// Reads again what a frame holds of inputs from one run to the next: single elements and repeated rows.
    pub fn refresh(&self, frame: &mut Frame) {
        let is_held = |s: &Source<'_>| s.is_constant || s.period.is_some();
        if faults::holds(Fault::HoldsOldInputs, !self.sources.iter().any(is_held)) {
            return;
        }
        for (source, repeated) in self.sources.iter().zip(&mut frame.periods) {
            if let (Some(period), Some(repeated)) = (source.period, repeated) {
                source.repeat(period, repeated);
            }
        }
        self.fill_constants(frame);
    }

    fn fill_constants(&self, frame: &Frame) {
        for source in self.sources.iter().filter(|source| source.is_constant) {
            let register = source.load.register;
            let (to, count) = (frame.pointer(register), frame.constant_room(register));
            // SAFETY: staging holds so many elements, and the base one.
            unsafe { hlorun_kernels::fill(source.size, source.base, to, count) };
        }
    }

    /// Lets the inputs hold elements `start..start + n` of the loop.
    pub fn fill(&self, frame: &mut Frame, start: usize, n: usize) {
        for (at, source) in self.sources.iter().enumerate() {
            let register = source.load.register;
            if let (Some(period), Some(Some(repeated))) = (source.period, frame.periods.get(at)) {
                let at = start % period * source.size;
                // A period and a tile have room, and the period begins before its end.
                frame.bind(register, repeated.as_ptr().wrapping_add(at).cast_mut());
                continue;
            }
            match &source.load.kind {
                LoadKind::View(_) if source.load.is_dense => {
                    // SAFETY: a dense view has an element for every position of the loop.
                    let at = unsafe { source.base.add(start * source.size) };
                    frame.bind(register, at.cast_mut());
                }
                LoadKind::View(_) if source.is_constant => {}
                LoadKind::View(_) => {
                    // SAFETY: the walk stays inside the view, the staging holds a tile.
                    unsafe {
                        if let Some(offset) = walk::run_at(&source.load.walk, start, n) {
                            let at = source.base.offset(offset as isize * source.size as isize);
                            frame.bind(register, at.cast_mut());
                            continue;
                        }
                        frame.unbind(register);
                        walk::gather(
                            &source.load.walk,
                            source.size,
                            source.base,
                            start,
                            n,
                            frame.pointer(register),
                        );
                    }
                }
                LoadKind::Iota => iota(source, start, n, frame.pointer(register)),
                LoadKind::Joined(_) => source.join(frame, start, n),
            }
        }
    }
}

impl Source<'_> {
    /// Lets a joined input hold elements `start..start + n`.
    fn join(&self, frame: &mut Frame, start: usize, n: usize) {
        let (Some(joined), register) = (&self.joined, self.load.register) else {
            return;
        };
        if let Some(at) = joined.run_at(start, n) {
            return frame.bind(register, at.cast_mut());
        }
        frame.unbind(register);
        // SAFETY: the input has an element for every position of the loop, and the staging holds a tile.
        unsafe { joined.gather(start, n, frame.pointer(register)) };
    }

    /// Its first `period + tile` elements: a tile may begin anywhere in a period.
    fn repeated(&self, period: usize, tile: usize) -> Result<AlignedBytes> {
        let mut bytes = AlignedBytes::uninitialized((period + tile) * self.size)?;
        self.repeat(period, &mut bytes);
        Ok(bytes)
    }

    /// Fills `bytes` with its first elements, of which a period has room there.
    fn repeat(&self, period: usize, bytes: &mut AlignedBytes) {
        let to = bytes.as_mut_ptr();
        // SAFETY: the walk has a period's elements inside the view; the rest is copied from what is
        // written already.
        unsafe {
            match self.load.kind {
                LoadKind::View(_) => {
                    walk::gather(&self.load.walk, self.size, self.base, 0, period, to);
                }
                LoadKind::Iota => iota(self, 0, period, to),
                // Its rows follow each other; they have no period.
                LoadKind::Joined(_) => {}
            }
        }
        let (mut done, all) = (period * self.size, bytes.len());
        while done < all {
            let more = done.min(all - done);
            bytes.as_uninit_mut().copy_within(..more, done);
            done += more;
        }
    }
}

/// Elements after which a walk begins again, where they are few and it does so often.
fn period(walk: &Walk) -> Option<usize> {
    let outer = walk.iter().take_while(|step| step.1 == 0).count();
    let count = |steps: &[(i64, i64)]| {
        let sizes = steps.iter().map(|step| step.0);
        sizes.fold(1i64, i64::saturating_mul)
    };
    let (times, period) = (count(&walk[..outer]), count(&walk[outer..]));
    let pays = times.saturating_mul(period) >= 4 * MOST_REPEATED;
    (pays && times > 1 && (1..=MOST_REPEATED).contains(&period)).then_some(period as usize)
}

/// Writes the indices of elements `start..start + n` as elements of the source.
fn iota(source: &Source<'_>, start: usize, n: usize, out: *mut u8) {
    const CHUNK: usize = 256;
    let walk = &source.load.walk;
    if let Some(iota) = source.iota {
        return walk::pieces(walk, start, n, |first, step, done, count| {
            // SAFETY: `out` is a whole tile of such elements.
            unsafe { iota(first, step, out.add(done * source.size), count) };
        });
    }
    let mut values = [0i64; CHUNK];
    let mut done = 0;
    while done < n {
        let count = CHUNK.min(n - done);
        walk::pieces(walk, start + done, count, |offset, stride, at, len| {
            for (i, value) in values[at..at + len].iter_mut().enumerate() {
                *value = offset + i as i64 * stride;
            }
        });
        // SAFETY: `values` holds `count` elements and `out` a whole tile.
        unsafe {
            (source.from_index)(values.as_ptr().cast(), out.add(done * source.size), count);
        }
        done += count;
    }
}

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
    /// Set where it goes over rows and the gaps between them.
    gaps: Option<Gaps>,
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
            gaps: None,
            tile: program.tile(thunk.count),
        })
    }

    /// The same where nobody else runs parts of other loops meanwhile.
    fn alone(thunk: &'p LoopThunk, environment: &Environment<'_>) -> Result<Running<'p>> {
        let streams = stream::pays(traffic(thunk).saturating_mul(environment.crowd));
        let mut running = Running::new(thunk, &environment.memory, &|_| streams)?;
        running.over_gaps(&environment.memory);
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

    /// Lets it go over gaps between rows, if that suits it. Nobody else may write into these meanwhile.
    fn over_gaps(&mut self, memory: &Memory) {
        let program = &self.thunk.program;
        let is_slot =
            |register: Register| matches!(program.homes[register.0 as usize], Home::Slot(_));
        let mut targets = self.targets.0.iter();
        if targets.all(|target| is_slot(target.register) && !target.streams) {
            self.gaps = Gaps::of(self.thunk, memory);
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
        if self.gaps.is_some() {
            self.over_gaps(memory);
        }
    }

    /// What a thread needs to run parts of the loop.
    pub fn frame(&self) -> Result<Frame> {
        self.sources.frame(&self.thunk.program, self.tile)
    }

    /// Computes elements `range`; [`Running::finish`] must follow once before others read them.
    pub fn range(&self, frame: &mut Frame, range: std::ops::Range<usize>) {
        if let Some(gaps) = &self.gaps {
            // SAFETY: the inputs are bound to `n` elements.
            return gaps.range(frame, range, |frame, n| unsafe {
                frame.run(&self.thunk.program, n);
            });
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
        running.sources.refresh(frame);
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
