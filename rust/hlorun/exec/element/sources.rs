//! Inputs of fused loops and reductions, as a run brings them to a tile.
//!
//! In: loads. Out: their elements, in a tile's registers, or where they lie for code over rows. A dense input is read where it
//! lies; other views are gathered into a tile in the first-level cache.

use super::joined::Joined;
use super::program::Frame;
use super::walk;
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::memory::Memory;
use crate::plan::cost::tiles::MOST_REPEATED;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::{Program, Register};
use crate::plan::faults::{self, Fault};
use crate::plan::schedule::tiles::row_of;
use crate::plan::thunk::{Load, LoadKind};
use crate::plan::view::{Walk, offset_in};

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
    pub fn dense(&self, input: usize, at: usize) -> *const u8 {
        let source = &self.sources[input];
        source.base.wrapping_add(at.wrapping_mul(source.size))
    }

    /// Where an input has the element `offset` elements after its first one, and the bytes of an element.
    pub fn element(&self, input: usize, offset: i64) -> (*const u8, usize) {
        let source = &self.sources[input];
        let bytes = offset as isize * source.size as isize;
        (source.base.wrapping_offset(bytes), source.size)
    }

    /// Where an input has element `start` of the loop, and the bytes of an element.
    pub fn first(&self, input: usize, start: usize) -> (*mut u8, usize) {
        let offset = offset_in(&self.sources[input].load.walk, start as i64);
        let (address, size) = self.element(input, offset);
        (address.cast_mut(), size)
    }

    /// Copies elements `start..start + n` of an input to `to`.
    ///
    /// # Safety
    /// There is room for them, and the loop has them.
    pub unsafe fn copy(&self, input: usize, start: usize, n: usize, to: *mut u8) {
        let source = &self.sources[input];
        match (&source.load.kind, &source.joined) {
            (LoadKind::Iota, _) => iota(source, start, n, to),
            // SAFETY: the caller's promise; the walk stays inside the view, and what is joined has as many elements.
            (_, Some(joined)) => unsafe { joined.gather(start, n, to) },
            // SAFETY: as above.
            _ => unsafe { walk::gather(&source.load.walk, source.size, source.base, start, n, to) },
        }
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
