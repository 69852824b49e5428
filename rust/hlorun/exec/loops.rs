//! Fused loops, tile by tile.
//!
//! A dense input is read where it lies and a dense output is written where it belongs; other views
//! are gathered into, or scattered from, a tile in the first-level cache.

use super::environment::{Environment, try_parallel};
use super::memory::Memory;
use super::program::Frame;
use super::walk;
use crate::error::Result;
use crate::plan::program::{Home, Program, Register};
use crate::plan::thunk::{Load, LoadKind, LoopThunk};
use crate::types::PrimitiveType;

/// Rows of fewer elements are gathered into tiles of several.
const MIN_RUN: i64 = 512;

/// Elements times steps from which a second thread pays.
const PARALLEL_WORK: usize = 1 << 16;

/// An input of a running loop.
struct Source<'p> {
    load: &'p Load,
    base: *const u8,
    size: usize,
    /// Its register is filled once for all tiles.
    is_constant: bool,
}

/// Inputs of a running loop, ready to be put into a frame.
pub struct Sources<'p> {
    sources: Vec<Source<'p>>,
}

// SAFETY: addresses are only read, and the memory outlives the loop.
unsafe impl Sync for Sources<'_> {}

impl<'p> Sources<'p> {
    /// The inputs `loads`, addresses resolved.
    pub fn new(memory: &Memory, program: &Program, loads: &'p [Load]) -> Sources<'p> {
        let sources = loads
            .iter()
            .map(|load| {
                let (base, is_constant) = match &load.kind {
                    LoadKind::View(view) => (
                        memory.first(view).cast_const(),
                        !load.walk.is_empty() && load.walk.iter().all(|s| s.1 == 0),
                    ),
                    LoadKind::Iota => (std::ptr::null(), false),
                };
                Source {
                    load,
                    base,
                    size: program.types[load.register.0 as usize].size_bytes(),
                    is_constant,
                }
            })
            .collect();
        Sources { sources }
    }

    /// Elements after which tiles end, so that an input that lies in rows is read where it is.
    pub fn run_length(&self) -> usize {
        let rows = self.sources.iter().filter(|s| !s.load.is_dense);
        rows.filter_map(|s| s.load.walk.last())
            .filter(|step| step.1 == 1 && step.0 >= MIN_RUN)
            .map(|step| step.0 as usize)
            .min()
            .unwrap_or(usize::MAX)
    }

    /// A frame for `program` with these inputs; what never changes is filled in.
    pub fn frame(&self, program: &Program, tile: usize) -> Result<Frame> {
        let staged = self
            .sources
            .iter()
            .filter(|s| !s.load.is_dense)
            .map(|s| s.load.register);
        let frame = Frame::with_staging(program, tile, staged)?;
        for source in &self.sources {
            if source.is_constant {
                // SAFETY: staging holds a whole tile, and the base one element.
                unsafe {
                    hlorun_kernels::fill(
                        source.size,
                        source.base,
                        frame.pointer(source.load.register),
                        frame.tile(),
                    );
                }
            }
        }
        Ok(frame)
    }

    /// Lets the inputs hold elements `start..start + n` of the loop.
    pub fn fill(&self, program: &Program, frame: &mut Frame, start: usize, n: usize) {
        for source in &self.sources {
            let register = source.load.register;
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
                LoadKind::Iota => {
                    let ty = program.types[register.0 as usize];
                    iota(source.load, ty, start, n, frame.pointer(register));
                }
            }
        }
    }
}

/// Writes the indices of elements `start..start + n` as `ty`.
fn iota(load: &Load, ty: PrimitiveType, start: usize, n: usize, out: *mut u8) {
    const CHUNK: usize = 256;
    let Some(to) = crate::plan::elementwise::dtype(ty) else {
        return;
    };
    let convert = hlorun_kernels::convert(hlorun_kernels::DType::S64, to);
    let mut values = [0i64; CHUNK];
    let mut done = 0;
    while done < n {
        let count = CHUNK.min(n - done);
        walk::pieces(
            &load.walk,
            start + done,
            count,
            |offset, stride, at, len| {
                for (i, value) in values[at..at + len].iter_mut().enumerate() {
                    *value = offset + i as i64 * stride;
                }
            },
        );
        // SAFETY: `values` holds `count` elements and `out` a whole tile.
        unsafe {
            convert(
                values.as_ptr().cast(),
                out.add(done * ty.size_bytes()),
                count,
            );
        }
        done += count;
    }
}

/// Where a loop's output goes.
struct Target<'p> {
    register: Register,
    base: *mut u8,
    size: usize,
    walk: &'p crate::plan::view::Walk,
    /// The register is the last step's memory and may be written in place.
    direct: bool,
    /// Written past the caches, from the tile.
    streams: bool,
    is_dense: bool,
}

struct Targets<'p>(Vec<Target<'p>>);
// SAFETY: tasks write disjoint ranges of the loop, and stores are one to one.
unsafe impl Sync for Targets<'_> {}

/// Runs a fused loop.
pub fn run(thunk: &LoopThunk, environment: &Environment<'_>) -> Result<()> {
    if thunk.count == 0 {
        return Ok(());
    }
    let program = &thunk.program;
    let sources = Sources::new(&environment.memory, program, &thunk.loads);
    let targets = Targets(
        thunk
            .stores
            .iter()
            .enumerate()
            .map(|(at, store)| {
                let register = store.register;
                let is_slot = matches!(program.homes[register.0 as usize], Home::Slot(_));
                let is_only = thunk.stores[..at].iter().all(|s| s.register != register);
                let size = program.types[register.0 as usize].size_bytes();
                let streams =
                    store.is_dense && is_slot && thunk.count * size >= hlorun_kernels::STREAM_BYTES;
                Target {
                    register,
                    base: environment.memory.first(&store.view),
                    size,
                    walk: &store.walk,
                    direct: store.is_dense && is_slot && is_only && !streams,
                    streams,
                    is_dense: store.is_dense,
                }
            })
            .collect(),
    );
    let tile = Frame::tile_for(program, thunk.count);
    let run = sources.run_length();
    let work = thunk.count * (program.steps.len() + 1);
    let tasks = if work < PARALLEL_WORK {
        1
    } else {
        environment.threads.min(thunk.count.div_ceil(tile)).max(1)
            * if environment.threads > 1 { 2 } else { 1 }
    };
    let share = thunk.count.div_ceil(tasks).next_multiple_of(tile);
    try_parallel(environment, tasks, &|task| {
        let begin = (task * share).min(thunk.count);
        let end = (begin + share).min(thunk.count);
        if begin == end {
            return Ok(());
        }
        let mut frame = sources.frame(program, tile)?;
        let mut start = begin;
        while start < end {
            let n = tile.min(end - start).min(walk::rest_of_run(run, start));
            sources.fill(program, &mut frame, start, n);
            store_tile(program, &mut frame, &targets, start, n);
            start += n;
        }
        if targets.0.iter().any(|target| target.streams) {
            hlorun_kernels::stream_fence();
        }
        Ok(())
    })
}

fn store_tile(program: &Program, frame: &mut Frame, targets: &Targets<'_>, start: usize, n: usize) {
    for target in &targets.0 {
        if target.direct {
            // SAFETY: a dense store has an element for every position of the loop.
            frame.bind(target.register, unsafe {
                target.base.add(start * target.size)
            });
        }
    }
    // SAFETY: inputs were filled with `n` elements, direct outputs have room for them.
    unsafe { frame.run(program, n) };
    for target in &targets.0 {
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
                    hlorun_kernels::stream_copy(from, to, n * target.size);
                } else {
                    std::ptr::copy(from, to, n * target.size);
                }
            } else {
                walk::scatter(target.walk, target.size, target.base, start, n, from);
            }
        }
    }
}
