//! Shadow runs: each thunk on copies of exactly what it declares to touch.
//!
//! In: a thunk and the memory of a run. Out: the same bytes, or an error that names the thunk. It
//! proves that [`Thunk::each_access`] tells the truth, which planning and the plan checker rely on.
//!
//! For every allocation that a thunk declares there is a block whose pages may be touched only where
//! they hold declared bytes; all others have no address. These pages hold poison everywhere else.
//! What is not declared as written has to stay as it was, and a second run over other poison has to
//! give the same bytes: nothing undeclared was read, and everything declared was written.
//!
//! [`Shadow`] says which executions these are, where a loop has many.

use std::ops::Range;

use hlorun_kernels::OutOfMemory;

use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, RunThunk};
use crate::exec::memory::Memory;
use crate::exec::shadow::Shadow;
use crate::plan::ops::OpKind;
use crate::plan::thunk::{Access, Effect, Place, Thunk, ThunkKind};
use crate::plan::view::PRIVATE;

/// Bytes that stand for what a thunk must not read: as floats NaN and a small number.
const POISON: [u8; 2] = [0xFF, 0x15];

/// Declared bytes of one allocation.
struct Declared {
    allocation: u32,
    /// From the first byte to one past the last, in the allocation.
    hull: Range<usize>,
    /// Bytes that hold what they held before.
    given: Vec<Range<usize>>,
    /// Bytes that are the result.
    written: Vec<Range<usize>>,
}

/// Whether a thunk of this kind has a shadow: it runs by itself and holds no others.
pub fn applies(thunk: &Thunk) -> bool {
    !matches!(
        thunk.kind,
        ThunkKind::While(_)
            | ThunkKind::Conditional(_)
            | ThunkKind::Collective(_)
            | ThunkKind::CollectiveStart(_)
            | ThunkKind::Observe(_)
            | ThunkKind::Nop
    )
}

/// Whether running it again does the same.
fn repeats(thunk: &Thunk) -> bool {
    match &thunk.kind {
        ThunkKind::Op(op) => !matches!(op.kind, OpKind::Custom(_) | OpKind::Rng(_)),
        _ => true,
    }
}

/// Runs a thunk that [`applies`], by `run`.
pub fn run(
    thunk: &Thunk,
    environment: &Environment<'_>,
    shadow: &Shadow<'_>,
    run: RunThunk,
) -> Result<()> {
    let declared = declared(thunk);
    let bytes = |own: &Declared| {
        [&own.given, &own.written]
            .map(|ranges| total(ranges))
            .iter()
            .sum()
    };
    if !shadow.wants(
        thunk,
        declared.iter().map(bytes).fold(0, usize::saturating_add),
    ) {
        let memory = environment.memory.clone();
        return run(thunk, &environment.over(memory));
    }
    run_twice(thunk, &declared, environment, run).map_err(|fault| match fault {
        Fault::Failed(error) => error,
        Fault::Lies(what) => HloError::execution(format!(
            "the shadow run found a fault of hlorun in {}, a {}: {what}",
            shadow.module.instruction(thunk.instruction).name(),
            thunk.kind.name(),
        )),
    })
}

/// Bytes of some ranges.
fn total(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

fn run_twice(
    thunk: &Thunk,
    declared: &[Declared],
    environment: &Environment<'_>,
    run: RunThunk,
) -> std::result::Result<(), Fault> {
    let first = once(thunk, declared, environment, POISON[0], run)?;
    if repeats(thunk) {
        let second = once(thunk, declared, environment, POISON[1], run)?;
        for ((own, one), other) in declared.iter().zip(&first).zip(&second) {
            for range in &own.written {
                let local = own.local(range);
                if one.bytes(local.clone()) != other.bytes(local) {
                    return Err(own.lie(
                        "its result depends on bytes that it does not declare, or it does not write \
                         all that it declares",
                    ));
                }
            }
        }
    }
    for (own, block) in declared.iter().zip(&first) {
        for range in &own.written {
            let result = block.bytes(own.local(range));
            // SAFETY: declared bytes lie inside the allocation, which lives as long as the run; no
            // other thunk of this run is at work.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    result.as_ptr(),
                    environment.memory.base(own.allocation).add(range.start),
                    result.len(),
                );
            }
        }
    }
    Ok(())
}

/// What a shadow run can end with.
enum Fault {
    /// The thunk itself failed, or there is no memory.
    Failed(HloError),
    /// It does something else than it declares.
    Lies(String),
}

impl From<HloError> for Fault {
    fn from(error: HloError) -> Fault {
        Fault::Failed(error)
    }
}

impl Declared {
    /// A range of the allocation, in the block.
    fn local(&self, range: &Range<usize>) -> Range<usize> {
        range.start - self.hull.start..range.end - self.hull.start
    }

    fn lie(&self, what: &str) -> Fault {
        Fault::Lies(format!(
            "{what} (allocation {}, bytes {:?})",
            self.allocation, self.hull
        ))
    }
}

/// What a thunk declares, allocation by allocation.
fn declared(thunk: &Thunk) -> Vec<Declared> {
    let mut found: Vec<Declared> = Vec::new();
    thunk.each_access(&mut |access| {
        let Some(hull) = access.hull().filter(|_| access.slice.allocation < PRIVATE) else {
            return;
        };
        let hull = hull.start as usize..hull.end as usize;
        let allocation = access.slice.allocation;
        let at = found.iter().position(|own| own.allocation == allocation);
        let at = at.unwrap_or_else(|| {
            found.push(Declared {
                allocation,
                hull: hull.clone(),
                given: Vec::new(),
                written: Vec::new(),
            });
            found.len() - 1
        });
        let own = &mut found[at];
        own.hull = own.hull.start.min(hull.start)..own.hull.end.max(hull.end);
        let (given, written) = parts(&access);
        own.given.extend(given);
        own.written.extend(written);
    });
    found
}

/// The bytes of an access that hold what they held before, and those that are results.
fn parts(access: &Access<'_>) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let footprint = access.footprint();
    let is_exact = footprint.is_exact || matches!(access.place, Place::Slice);
    let runs: Vec<Range<usize>> = footprint
        .runs
        .iter()
        .map(|run| run.start as usize..run.end as usize)
        .collect();
    match access.effect {
        Effect::Read => (runs, Vec::new()),
        // Where the places are known only to the run, the others among them stay as they were.
        Effect::WritePart if is_exact => (Vec::new(), runs),
        Effect::WritePart | Effect::Update => (runs.clone(), runs),
        Effect::Write => (Vec::new(), runs),
    }
}

/// Runs the thunk on blocks of their own.
fn once(
    thunk: &Thunk,
    declared: &[Declared],
    environment: &Environment<'_>,
    poison: u8,
    run: RunThunk,
) -> std::result::Result<Vec<Block>, Fault> {
    let memory = &environment.memory;
    let mut blocks = Vec::with_capacity(declared.len());
    let mut bases = vec![std::ptr::null_mut(); memory.len()];
    for own in declared {
        let real = memory.base(own.allocation).wrapping_add(own.hull.start);
        let used: Vec<Range<usize>> = own
            .given
            .iter()
            .chain(&own.written)
            .map(|range| own.local(range))
            .collect();
        let mut block = Block::new(own.hull.len(), real as usize, used)?;
        block.poison(poison);
        for range in &own.given {
            // SAFETY: as in `run`.
            let from = unsafe {
                std::slice::from_raw_parts(
                    memory.base(own.allocation).add(range.start),
                    range.len(),
                )
            };
            block.bytes_mut(own.local(range)).copy_from_slice(from);
        }
        bases[own.allocation as usize] = block.start().wrapping_sub(own.hull.start);
        blocks.push(block);
    }
    let before = blocks.iter().map(Block::snapshot);
    let before: Vec<Vec<Vec<u8>>> = before.collect::<Result<_>>()?;
    run(thunk, &environment.over(Memory::new(bases)))?;
    for ((own, block), mut before) in declared.iter().zip(&blocks).zip(before) {
        for range in own.written.iter().filter(|range| !range.is_empty()) {
            let (part, range) = block.find(own.local(range));
            before[part][range.clone()].copy_from_slice(&block.part(part)[range]);
        }
        if (0..before.len()).any(|part| before[part] != block.part(part)) {
            return Err(own.lie("it writes bytes that it does not declare"));
        }
    }
    Ok(blocks)
}

/// Bytes on pages of their own among pages that nobody may touch, as close to the end of them as the
/// address they stand for allows.
struct Block {
    map: *mut u8,
    #[cfg(unix)]
    map_size: usize,
    /// Bytes from the mapping's start to the first byte.
    offset: usize,
    /// The pages that may be touched, by bytes from the mapping's start; in order and apart.
    open: Vec<Range<usize>>,
}

/// What addresses are kept a multiple of, as far as those of the memory are.
#[cfg(unix)]
const ALIGNMENT: usize = crate::buffers::ALIGNMENT;

/// Pages between two parts that are opened with them: fewer bytes than a call of the system costs.
#[cfg(unix)]
const NEAR: usize = 16;

#[cfg(unix)]
impl Block {
    /// Room for `len` bytes at an address that is `like` modulo a cache line; those of the ranges
    /// `used`, and few others, may be touched.
    fn new(len: usize, like: usize, used: Vec<Range<usize>>) -> Result<Block> {
        // SAFETY: asks for a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let out_of_memory = || HloError::from(OutOfMemory { bytes: len });
        let inner = len
            .checked_add(2 * ALIGNMENT + page)
            .ok_or_else(out_of_memory)?
            / page
            * page;
        let map_size = inner + 2 * page;
        // SAFETY: a mapping of its own, released in `drop`.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(out_of_memory());
        }
        let latest = inner - len;
        let offset = page + latest - (latest + ALIGNMENT - like % ALIGNMENT) % ALIGNMENT;
        let block = Block {
            map: map.cast(),
            map_size,
            offset,
            open: pages(used, offset, page),
        };
        for part in &block.open {
            // SAFETY: pages of this mapping.
            let opened = unsafe {
                let start = block.map.add(part.start).cast();
                #[cfg(target_os = "linux")]
                // It is advice: without it there are only more page faults.
                libc::madvise(start, part.len(), libc::MADV_HUGEPAGE);
                libc::mprotect(start, part.len(), libc::PROT_READ | libc::PROT_WRITE)
            };
            if opened != 0 {
                return Err(out_of_memory());
            }
        }
        Ok(block)
    }
}

#[cfg(not(unix))]
impl Block {
    fn new(_: usize, _: usize, _: Vec<Range<usize>>) -> Result<Block> {
        Err(HloError::execution(
            "shadow runs need a system with mmap and mprotect",
        ))
    }
}

/// The pages that hold any of the ranges, which begin at `offset`.
#[cfg(unix)]
fn pages(mut used: Vec<Range<usize>>, offset: usize, page: usize) -> Vec<Range<usize>> {
    used.retain(|range| !range.is_empty());
    used.sort_unstable_by_key(|range| range.start);
    let mut open: Vec<Range<usize>> = Vec::new();
    for range in used {
        let start = (offset + range.start) / page * page;
        let end = (offset + range.end).next_multiple_of(page);
        match open.last_mut() {
            Some(last) if start <= last.end + NEAR * page => last.end = last.end.max(end),
            _ => open.push(start..end),
        }
    }
    open
}

impl Block {
    /// The first byte.
    fn start(&self) -> *mut u8 {
        self.map.wrapping_add(self.offset)
    }

    /// All bytes of a part that may be touched.
    fn part(&self, part: usize) -> &[u8] {
        let range = &self.open[part];
        // SAFETY: open pages of this mapping; a fresh mapping is zero.
        unsafe { std::slice::from_raw_parts(self.map.add(range.start), range.len()) }
    }

    fn part_mut(&mut self, part: usize) -> &mut [u8] {
        let range = &self.open[part];
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(range.start), range.len()) }
    }

    /// Copies of all parts.
    fn snapshot(&self) -> Result<Vec<Vec<u8>>> {
        let copy = |part| {
            let bytes = self.part(part);
            let mut copy = Vec::new();
            if copy.try_reserve_exact(bytes.len()).is_err() {
                return Err(OutOfMemory { bytes: bytes.len() }.into());
            }
            copy.extend_from_slice(bytes);
            Ok(copy)
        };
        (0..self.open.len()).map(copy).collect()
    }

    fn poison(&mut self, poison: u8) {
        for part in 0..self.open.len() {
            self.part_mut(part).fill(poison);
        }
    }

    /// The part that holds a used range, and where in it.
    fn find(&self, used: Range<usize>) -> (usize, Range<usize>) {
        let at = self.offset + used.start;
        let after = self.open.partition_point(|part| part.start <= at);
        let part = after.saturating_sub(1);
        let start = at - self.open[part].start;
        (part, start..start + used.len())
    }

    fn bytes(&self, used: Range<usize>) -> &[u8] {
        if used.is_empty() {
            return &[];
        }
        let (part, range) = self.find(used);
        &self.part(part)[range]
    }

    fn bytes_mut(&mut self, used: Range<usize>) -> &mut [u8] {
        if used.is_empty() {
            return &mut [];
        }
        let (part, range) = self.find(used);
        &mut self.part_mut(part)[range]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[cfg(unix)]
        // SAFETY: the mapping is this block's own.
        unsafe {
            libc::munmap(self.map.cast(), self.map_size);
        }
    }
}
