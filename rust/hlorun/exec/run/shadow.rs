//! Shadow runs: each thunk on copies of exactly what it declares to touch.
//!
//! In: a thunk and the memory of a run. Out: the same bytes, or an error that names the thunk. It
//! proves that [`Thunk::each_access`] tells the truth, which planning and the plan checker rely on.
//!
//! For every allocation that a thunk declares there is a block between two pages that nobody may
//! touch; all others have no address. The block holds the declared bytes and poison everywhere else.
//! What is not declared as written has to stay as it was, and a second run over other poison has to
//! give the same bytes: nothing undeclared was read, and everything declared was written.

use std::ops::Range;

use crate::error::{HloError, Result};
use crate::exec::environment::{Environment, RunThunk};
use crate::exec::memory::Memory;
use crate::module::HloModule;
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
    module: &HloModule,
    run: RunThunk,
) -> Result<()> {
    run_twice(thunk, environment, run).map_err(|fault| match fault {
        Fault::Failed(error) => error,
        Fault::Lies(what) => HloError::execution(format!(
            "the shadow run found a fault of hlorun in {}, a {}: {what}",
            module.instruction(thunk.instruction).name(),
            thunk.kind.name(),
        )),
    })
}

fn run_twice(
    thunk: &Thunk,
    environment: &Environment<'_>,
    run: RunThunk,
) -> std::result::Result<(), Fault> {
    let declared = declared(thunk);
    let first = once(thunk, &declared, environment, POISON[0], run)?;
    if repeats(thunk) {
        let second = once(thunk, &declared, environment, POISON[1], run)?;
        for ((own, one), other) in declared.iter().zip(&first).zip(&second) {
            for range in &own.written {
                let local = range.start - own.hull.start..range.end - own.hull.start;
                if one.bytes()[local.clone()] != other.bytes()[local] {
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
            let local = range.start - own.hull.start..range.end - own.hull.start;
            // SAFETY: declared bytes lie inside the allocation, which lives as long as the run; no
            // other thunk of this run is at work.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    block.bytes()[local.clone()].as_ptr(),
                    environment.memory.base(own.allocation).add(range.start),
                    local.len(),
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
        let mut block = Block::new(own.hull.len(), real as usize)?;
        block.all_mut().fill(poison);
        for range in &own.given {
            let local = range.start - own.hull.start..range.end - own.hull.start;
            // SAFETY: as in `run`.
            let from = unsafe {
                std::slice::from_raw_parts(
                    memory.base(own.allocation).add(range.start),
                    range.len(),
                )
            };
            block.bytes_mut()[local].copy_from_slice(from);
        }
        bases[own.allocation as usize] = block.start().wrapping_sub(own.hull.start);
        blocks.push(block);
    }
    let before: Vec<Vec<u8>> = blocks.iter().map(|block| block.all().to_vec()).collect();
    run(thunk, &environment.over(Memory::new(bases)))?;
    for ((own, block), mut before) in declared.iter().zip(&blocks).zip(before) {
        let offset = block.offset;
        for range in &own.written {
            let local = range.start - own.hull.start..range.end - own.hull.start;
            before[local.start + offset..local.end + offset].copy_from_slice(&block.bytes()[local]);
        }
        if before != block.all() {
            return Err(own.lie("it writes bytes that it does not declare"));
        }
    }
    Ok(blocks)
}

/// Bytes between two pages that nobody may touch, as close to the second as the address they stand
/// for allows.
struct Block {
    map: *mut u8,
    map_size: usize,
    page: usize,
    /// Bytes from the first page that may be touched to the first byte.
    offset: usize,
    len: usize,
}

/// What addresses are kept a multiple of, as far as those of the memory are.
const ALIGNMENT: usize = crate::buffers::ALIGNMENT;

#[cfg(unix)]
impl Block {
    /// Room for `len` bytes at an address that is `like` modulo a cache line.
    fn new(len: usize, like: usize) -> Result<Block> {
        // SAFETY: asks for a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let out_of_memory =
            || HloError::execution(format!("out of memory: cannot allocate {len} bytes"));
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
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(out_of_memory());
        }
        let mut block = Block {
            map: map.cast(),
            map_size,
            page,
            offset: 0,
            len,
        };
        // SAFETY: pages of this mapping.
        let opened = unsafe {
            libc::mprotect(
                block.map.add(page).cast(),
                inner,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if opened != 0 {
            return Err(out_of_memory());
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the same pages. It is advice: without it there are only more page faults.
        unsafe {
            libc::madvise(block.map.add(page).cast(), inner, libc::MADV_HUGEPAGE);
        }
        let latest = inner - len;
        block.offset = latest - (latest + ALIGNMENT - like % ALIGNMENT) % ALIGNMENT;
        Ok(block)
    }
}

#[cfg(not(unix))]
impl Block {
    fn new(_: usize, _: usize) -> Result<Block> {
        Err(HloError::execution(
            "shadow runs need a system with mmap and mprotect",
        ))
    }
}

impl Block {
    /// The first byte.
    fn start(&self) -> *mut u8 {
        self.map.wrapping_add(self.page + self.offset)
    }

    /// All bytes that may be touched.
    fn all(&self) -> &[u8] {
        // SAFETY: pages of this mapping between the first and the last; a fresh mapping is zero.
        unsafe {
            std::slice::from_raw_parts(self.map.add(self.page), self.map_size - 2 * self.page)
        }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.map.add(self.page), self.map_size - 2 * self.page)
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.all()[self.offset..self.offset + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.offset..self.offset + self.len;
        &mut self.all_mut()[range]
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
