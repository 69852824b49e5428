//! Products whose rows of A lie anywhere: a table says where each begins.
//!
//! In: pointers to rows, of which an output has one for each term, and B, in strips or in place. Out: rows of C. Promise:
//! sums run in blocks of the depth in ascending order, each block one sum in registers; how rows and columns are cut never
//! changes a bit. Nothing of A is copied.
//!
//! A convolution is such a product: a term is a position of its window, and an output that sees no input there points to
//! zeros (Dukhan, "The Indirect Convolution Algorithm", 2019).

use std::ops::Range;

use super::ahead::{Ahead, UNROLL, prefetch_a, prefetch_near, prefetch_row};
use super::epilogue::{Epilogue, TileEpilogue, Vectors};
use super::micro::{Destination, Real, Source, multiply_add_row, store_tile};
use super::strips::Job;
use super::tiles::{KC, Tiles};
use super::{Outcome, pack};
use crate::elementwise;
use crate::scratch::Scratch;
use crate::{DType, Isa};

/// A product of `rows`\[row, term\]\[depth\] and B\[term, depth, columns\], summed over terms and depth.
#[derive(Clone, Copy, Debug)]
pub struct Indirect {
    /// `F32` or `F64`.
    pub dtype: DType,
    /// Columns of B and C.
    pub columns: usize,
    /// Rows of A that an output sums over.
    pub terms: usize,
    /// Elements of a row of A.
    pub depth: usize,
}

/// Rows of C to compute, and what they see.
pub struct IndirectRows<'t> {
    /// The indirection buffer: where rows of A begin, for each of `terms` as many as there are rows of C.
    pub table: &'t [*const u8],
    /// How many rows of C.
    pub count: usize,
    /// The terms that the table has, of all that there are: sums of the ones before are in C.
    pub terms: Range<usize>,
    /// Columns to compute. They begin with a strip, and end with one or with the last column.
    pub columns: Range<usize>,
    /// The first of these columns in the first row of C.
    pub c: *mut u8,
    /// Elements from one row of C to the next.
    pub c_row: isize,
    /// What is done to the sums of all terms.
    pub epilogue: &'t Epilogue,
    /// Row and column of the whole result at which `c` lies.
    pub origin: [usize; 2],
    /// Called before each block of the depth and some columns; it may unwind.
    pub check: &'t dyn Fn(),
}

/// Where B is.
pub enum IndirectOperand<'b> {
    /// In strips, as [`Indirect::pack`] makes them.
    Strips(*const u8),
    /// Where it lies. What is multiplied is copied, block by block, which suits an operand that is read once.
    InPlace {
        /// Where a term begins.
        term: &'b dyn Fn(usize) -> *const u8,
        /// Elements to the next step of the depth, and to the next column.
        steps: [isize; 2],
    },
}

/// Columns of B whose strips of one block stay in the second-level cache.
const CACHED_COLUMNS: usize = 256;
/// How many times longer than usual a block of few columns is at most.
const MAX_LONGER: usize = 4;

/// A tile of C: some rows of a strip, for a block of the depth.
struct Tile<E> {
    /// Where rows of A begin: as many as the kernel has, for every term.
    rows: *const *const E,
    /// Entries from one term to the next.
    next: usize,
    terms: usize,
    /// The first element of each row of A, and how many.
    first: usize,
    depth: usize,
    /// The strip, from the block on.
    b: *const E,
    ahead: Ahead,
    c: *mut E,
    c_row: isize,
    /// Columns to write.
    width: usize,
    /// Scale of the old C, not read when zero.
    beta: E,
    epilogue: TileEpilogue,
}

/// A compiled tile.
type Kernel<E> = unsafe fn(&Tile<E>);

#[inline(always)]
unsafe fn tile<T: Vectors<E>, E: Real, const R: usize, const NR: usize>(t: &Tile<E>) {
    for r in 0..R as isize {
        prefetch_row::<E, NR>(t.c.wrapping_offset(r * t.c_row));
    }
    if !t.epilogue.is_empty() {
        t.epilogue.prefetch::<E>(R, NR);
    }
    let mut sums = [[E::ZERO; NR]; R];
    let (mut b, mut ahead) = (t.b, t.ahead);
    // SAFETY: the caller's contract; `b` is moved past the end with wrapping arithmetic only.
    unsafe {
        for term in 0..t.terms {
            let rows = t.rows.add(term * t.next).cast::<[*const E; R]>();
            let rows = rows.read_unaligned().map(|row| row.wrapping_add(t.first));
            for p in 0..t.depth {
                if p.is_multiple_of(UNROLL) {
                    rows.iter()
                        .for_each(|row| prefetch_a(row.wrapping_add(p), 1));
                }
                prefetch_near::<E, NR>(b, NR as isize);
                ahead.ask::<E, NR>(term * t.depth + p);
                multiply_add_row::<T, E, R, NR>(&mut sums, b, |r| rows[r].add(p));
                b = b.wrapping_add(NR);
            }
        }
        let to = Destination {
            c: t.c,
            c_row: t.c_row,
            width: t.width,
        };
        store_tile::<T, E, R, NR>(&to, [E::ONE, t.beta], &t.epilogue, &sums);
    }
}

/// The kernels of one tier.
pub(super) struct Kernels<E: 'static> {
    lanes: usize,
    /// By vectors of a strip less one, and rows less one.
    tiles: &'static [&'static [Kernel<E>]],
}

// The bytes of a vector, and for strips of one vector, two and so on the rows of a tile.
macro_rules! tier {
    ($module:ident, $tier:ty, $bytes:literal, $([$vectors:literal: $($rows:literal)*])*, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<E: Real, const R: usize, const NR: usize>(t: &Tile<E>)
            where
                $tier: Vectors<E>,
            {
                // SAFETY: the caller's contract.
                unsafe { tile::<$tier, E, R, NR>(t) }
            }

            pub const fn kernels32() -> Kernels<f32> {
                const L: usize = $bytes / 4;
                Kernels { lanes: L, tiles: &[$(&[$(run::<f32, $rows, { $vectors * L }>),*]),*] }
            }

            pub const fn kernels64() -> Kernels<f64> {
                const L: usize = $bytes / 8;
                Kernels { lanes: L, tiles: &[$(&[$(run::<f64, $rows, { $vectors * L }>),*]),*] }
            }
        }
    };
}

tier!(portable, elementwise::Portable, 16, [1: 1 2 3 4] [2: 1 2 3 4],);
#[cfg(target_arch = "x86_64")]
tier!(avx2, elementwise::Avx2, 32, [1: 1 2 3 4 5 6 7 8] [2: 1 2 3 4 5 6],
    #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(avx512, elementwise::Avx512, 64,
    [1: 1 2 3 4 5 6 7 8] [2: 1 2 3 4 5 6 7 8] [3: 1 2 3 4 5 6 7 8] [4: 1 2 3 4 5 6],
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
// A vector is two registers, as in `micro`.
#[cfg(target_arch = "aarch64")]
tier!(neon, elementwise::Neon, 32, [1: 1 2 3 4 5 6 7 8] [2: 1 2 3 4 5 6],);

/// Types of [`Indirect`] products.
trait HasKernels: Real + Source<Self> {
    fn indirect() -> Kernels<Self>;
}

impl HasKernels for f32 {
    fn indirect() -> Kernels<f32> {
        of_tier!(Isa::active(), kernels32())
    }
}

impl HasKernels for f64 {
    fn indirect() -> Kernels<f64> {
        of_tier!(Isa::active(), kernels64())
    }
}

/// `$body`, in which `$E` is the type of the product.
macro_rules! with_type {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $E = f32;
                $body
            }
            _ => {
                type $E = f64;
                $body
            }
        }
    };
}

/// A strip of columns.
struct Strip {
    columns: Range<usize>,
    /// How many vectors wide.
    vectors: usize,
}

impl Indirect {
    /// The product, if there are kernels for it.
    pub fn new(dtype: DType, columns: usize, terms: usize, depth: usize) -> Option<Indirect> {
        matches!(dtype, DType::F32 | DType::F64).then_some(Indirect {
            dtype,
            columns,
            terms,
            depth,
        })
    }

    /// Elements of a vector, and most vectors of a strip.
    fn widths(&self) -> [usize; 2] {
        with_type!(self.dtype, E => {
            let kernels = E::indirect();
            [kernels.lanes, kernels.tiles.len()]
        })
    }

    /// Most steps of a block of the depth: its strips stay in the second-level cache. The same with every instruction set, as
    /// blocks decide how sums are grouped.
    fn most_steps(&self) -> usize {
        KC * (CACHED_COLUMNS / self.columns.max(1)).clamp(1, MAX_LONGER)
    }

    /// Terms of a block of the depth: about the same in all of them. A table of some of the terms begins and ends where a
    /// block does, or with the last.
    pub fn block_terms(&self) -> usize {
        let most = (self.most_steps() / self.depth.max(1)).max(1);
        evenly(self.terms, most)
    }

    /// Steps of a part of a term, where that is more than a block.
    pub(super) fn part_steps(&self) -> usize {
        evenly(self.depth, self.most_steps())
    }

    /// Columns of a strip; the last one may have fewer.
    pub fn strip(&self) -> usize {
        let [lanes, most] = self.widths();
        lanes * most
    }

    /// Rows of C that are computed at a time, by strips as wide as B has.
    pub fn tile_rows(&self) -> usize {
        with_type!(self.dtype, E => {
            let kernels = E::indirect();
            let vectors = self.columns.div_ceil(kernels.lanes);
            kernels.tiles[vectors.clamp(1, kernels.tiles.len()) - 1].len()
        })
    }

    /// Columns that B has in strips.
    fn padded(&self) -> Option<usize> {
        self.columns.checked_next_multiple_of(self.widths()[0])
    }

    /// Bytes of B in strips; `None` where they overflow.
    pub fn packed_size(&self) -> Option<usize> {
        self.padded()?
            .checked_mul(self.terms)?
            .checked_mul(self.depth)?
            .checked_mul(self.dtype.size_bytes())
    }

    fn strip_at(&self, first: usize) -> Strip {
        let [lanes, most] = self.widths();
        let columns = first..self.columns.min(first + lanes * most);
        Strip {
            vectors: columns.len().div_ceil(lanes),
            columns,
        }
    }

    /// Copies what one term multiplies into the strip at `to` that begins with column `first`: element (p, j) of B is
    /// `p * steps[0] + j * steps[1]` elements behind `from`.
    ///
    /// # Safety
    /// These elements are readable, `to` has room for [`Indirect::packed_size`] bytes, and nobody else writes this term of
    /// the strip.
    pub unsafe fn pack(
        &self,
        term: usize,
        first: usize,
        from: *const u8,
        steps: [isize; 2],
        to: *mut u8,
    ) {
        let strip = self.strip_at(first);
        with_type!(self.dtype, E => {
            let row = strip.vectors * self.widths()[0];
            let at = place(first, self.terms * self.depth, term * self.depth, row);
            let to = to.cast::<E>().wrapping_add(at);
            // SAFETY: the caller's contract; a strip has room for all terms.
            unsafe { self.copy::<E>(&strip, 0..self.depth, from.cast(), steps, to) }
        });
    }

    /// Copies some steps of a term into a strip, from `to` on.
    unsafe fn copy<E: HasKernels>(
        &self,
        strip: &Strip,
        depth: Range<usize>,
        from: *const E,
        steps: [isize; 2],
        to: *mut E,
    ) {
        let at = depth.start as isize * steps[0] + strip.columns.start as isize * steps[1];
        let job = Job::<E, E> {
            from: from.wrapping_offset(at),
            lane: steps[1],
            step: steps[0],
            count: strip.columns.len(),
            width: strip.vectors * self.widths()[0],
            depth: depth.len(),
            to,
        };
        // SAFETY: the caller's contract.
        unsafe { (E::loops().pack)(&job) }
    }

    /// [`Indirect::pack`] of all strips of a term, on slices; `false`, and nothing written, where one is too short.
    pub fn pack_bytes(&self, term: usize, from: &[u8], steps: [isize; 2], to: &mut [u8]) -> bool {
        let sizes = [self.depth, self.columns];
        let end = pack::extent(sizes, steps, self.dtype.size_bytes());
        let fits = end.is_some_and(|end| end <= from.len())
            && self.packed_size().is_some_and(|size| size <= to.len())
            && term < self.terms;
        if fits {
            for first in (0..self.columns).step_by(self.strip()) {
                // SAFETY: what is read ends at `end`; `to` has room for all strips.
                unsafe { self.pack(term, first, from.as_ptr(), steps, to.as_mut_ptr()) };
            }
        }
        fits
    }

    /// Computes rows of C, on this thread.
    ///
    /// # Errors
    /// When there is no memory for strips of a block.
    ///
    /// # Safety
    /// Every entry of the table has `depth` readable elements behind it; `operand` is B; the rows of C are writable, hold the
    /// sums of earlier terms, if there are any, and overlap nothing else; the epilogue was made for elements of `dtype`, and its
    /// operands have one for every row and column from `origin` on.
    pub unsafe fn run(&self, rows: &IndirectRows<'_>, operand: &IndirectOperand<'_>) -> Outcome {
        with_type!(self.dtype, E => {
            // SAFETY: the caller's contract.
            unsafe { self.blocks::<E>(rows, operand) }
        })
    }

    /// Blocks of the depth in ascending order: of several terms, or of a part of one.
    unsafe fn blocks<E: HasKernels>(
        &self,
        rows: &IndirectRows<'_>,
        operand: &IndirectOperand<'_>,
    ) -> Outcome {
        assert_eq!(rows.table.len(), rows.terms.len() * rows.count);
        let kernels = E::indirect();
        let strip = self.strip();
        let cached = (CACHED_COLUMNS / strip).max(1) * strip;
        let many = self.block_terms();
        assert!(rows.terms.start.is_multiple_of(many));
        let room = match operand {
            IndirectOperand::Strips(_) => 0,
            IndirectOperand::InPlace { .. } => {
                let columns = cached
                    .min(rows.columns.len())
                    .next_multiple_of(kernels.lanes);
                columns * many * self.part_steps()
            }
        };
        let mut scratch = Scratch::new::<E>(room)?;
        for first in rows.columns.clone().step_by(cached) {
            let columns = first..rows.columns.end.min(first + cached);
            let mut term = rows.terms.start;
            while term < rows.terms.end {
                let next = rows.terms.end.min(term + many);
                for step in (0..self.depth).step_by(self.part_steps()) {
                    let block = Block {
                        terms: term..next,
                        steps: step..self.depth.min(step + self.part_steps()),
                    };
                    (rows.check)();
                    // SAFETY: the caller's contract; the scratch has room for strips of a block.
                    unsafe {
                        let right = self.right(operand, &columns, &block, scratch.get());
                        self.block(&kernels, rows, &right, &columns, &block);
                    }
                }
                term = next;
            }
        }
        Ok(())
    }

    /// Where a block finds strips; those of an operand in place are copied to `room`.
    unsafe fn right<E: HasKernels>(
        &self,
        operand: &IndirectOperand<'_>,
        columns: &Range<usize>,
        block: &Block,
        room: *mut E,
    ) -> Right<E> {
        let (term, steps) = match *operand {
            IndirectOperand::Strips(packed) => return Right::Packed(packed.cast()),
            IndirectOperand::InPlace { term, steps } => (term, steps),
        };
        for first in columns.clone().step_by(self.strip()) {
            let strip = self.strip_at(first);
            let width = strip.vectors * self.widths()[0];
            let mut to = room.wrapping_add((first - columns.start) * block.len());
            for at in block.terms.clone() {
                // SAFETY: the caller's contract.
                unsafe { self.copy(&strip, block.steps.clone(), term(at).cast(), steps, to) };
                to = to.wrapping_add(block.steps.len() * width);
            }
        }
        Right::Copied {
            strips: room,
            first: columns.start,
        }
    }

    /// One block of the depth, by some columns.
    unsafe fn block<E: HasKernels>(
        &self,
        kernels: &Kernels<E>,
        rows: &IndirectRows<'_>,
        right: &Right<E>,
        columns: &Range<usize>,
        block: &Block,
    ) {
        let width = kernels.lanes * kernels.tiles.len();
        // The first step of the block, and all there are.
        let step = block.terms.start * self.depth + block.steps.start;
        let steps = self.terms * self.depth;
        let is_last = step + block.len() == steps;
        // Strips as wide as there are kernels for, and a last one.
        let whole = columns.start..columns.end - columns.len() % width;
        for columns in [whole.clone(), whole.end..columns.end] {
            if columns.is_empty() {
                continue;
            }
            let vectors = columns.len().min(width).div_ceil(kernels.lanes);
            let row = vectors * kernels.lanes;
            let kernels = kernels.tiles[vectors - 1];
            let tiles = Tiles::new(rows.count, kernels.len());
            for tile in 0..tiles.count {
                let own = tiles.get(tile);
                let entry = (block.terms.start - rows.terms.start) * rows.count + own.start;
                for first in columns.clone().step_by(width) {
                    let b = match *right {
                        Right::Packed(packed) => {
                            packed.wrapping_add(place(first, steps, step, row))
                        }
                        Right::Copied {
                            strips,
                            first: zero,
                        } => strips.wrapping_add((first - zero) * block.len()),
                    };
                    // The same strip in the next block; after the last block, the strip at the same place in the next group
                    // of columns, if it is as wide.
                    let ahead = match *right {
                        Right::Packed(packed) => {
                            let (first, step) = match is_last {
                                true => (columns.end + first - columns.start, 0),
                                false => (first, step + block.len()),
                            };
                            let next = packed.wrapping_add(place(first, steps, step, row)).cast();
                            let bytes = (row * size_of::<E>()) as isize;
                            (!is_last || first + row <= rows.columns.end)
                                .then(|| Ahead::part(next, bytes, block.len(), tile, tiles.count))
                                .flatten()
                        }
                        Right::Copied { .. } => None,
                    };
                    let c = own.start as isize * rows.c_row;
                    let column = first - rows.columns.start;
                    let part = Tile {
                        rows: rows.table[entry..].as_ptr().cast(),
                        next: rows.count,
                        terms: block.terms.len(),
                        first: block.steps.start,
                        depth: block.steps.len(),
                        b,
                        ahead: ahead.unwrap_or(Ahead::nothing(b)),
                        c: rows.c.cast::<E>().wrapping_offset(c + column as isize),
                        c_row: rows.c_row,
                        width: row.min(columns.end - first),
                        beta: if block.is_first() { E::ZERO } else { E::ONE },
                        epilogue: match is_last {
                            true => rows
                                .epilogue
                                .at(rows.origin[0] + own.start, rows.origin[1] + column),
                            false => TileEpilogue::NONE,
                        },
                    };
                    // SAFETY: a tile of the product; the table has as many entries for each of these terms.
                    unsafe { kernels[own.len() - 1](&part) }
                }
            }
        }
    }
}

/// The size of parts of `count`, each at most `most`, that are as many as needed and about the same; not zero.
fn evenly(count: usize, most: usize) -> usize {
    let count = count.max(1);
    count.div_ceil(count.div_ceil(most))
}

/// Elements before a step of the strip that begins with column `first`, of `steps` in all: earlier strips are whole.
fn place(first: usize, steps: usize, step: usize, width: usize) -> usize {
    first * steps + step * width
}

/// A block of the depth.
struct Block {
    terms: Range<usize>,
    steps: Range<usize>,
}

/// Where the strips of B are: all of them, or those of a block and some columns.
enum Right<E> {
    Packed(*const E),
    Copied { strips: *const E, first: usize },
}

impl Block {
    /// Steps of all terms.
    fn len(&self) -> usize {
        self.terms.len() * self.steps.len()
    }

    fn is_first(&self) -> bool {
        self.terms.start == 0 && self.steps.start == 0
    }
}
