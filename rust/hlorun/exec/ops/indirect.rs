//! Convolutions that read their inputs in place, by a table of pointers: no patches are made. Where rows of the window are
//! read as one, those that leave the input are copied.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type, whose features are contiguous in the input and in the
//! result. Promise: memory is bounded by one copy of the kernel and a table of bounded size for each task; the order of
//! each sum depends on the shapes alone.

use std::ops::Range;

use hlorun_kernels::{Epilogue, IndirectOperand, IndirectRows};

use super::im2col::Geometry;
use super::positions::{Positions, row_length};
use super::walk::{Shared, try_split};
use crate::buffers::{AlignedBytes, reserve};
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::indirect_convolution::{
    MIN_ROW, MIN_TILE, PACK_GRAIN, TABLE_ENTRIES, TASKS, TILE_BYTES,
};
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::schedule::kernel_strips::{KernelSlice, KernelStrips};
use crate::plan::view::StridedArray;
use crate::types::Dims;

/// What a convolution reads and writes, in one type.
#[derive(Clone, Copy)]
pub struct Arrays<'a> {
    /// Images.
    pub input: &'a RawArray,
    /// Weights.
    pub kernel: &'a RawArray,
    /// Result.
    pub output: &'a RawArray,
    /// The kernel in strips, where the plan has them.
    pub strips: Option<Shared>,
    /// What is done to the sums.
    pub epilogue: &'a Epilogue,
}

impl<'a> Arrays<'a> {
    /// Without strips.
    pub fn new(input: &'a RawArray, kernel: &'a RawArray, output: &'a RawArray) -> Arrays<'a> {
        Arrays {
            input,
            kernel,
            output,
            strips: None,
            epilogue: Epilogue::none(),
        }
    }

    /// How input, kernel and result lie.
    pub fn strided(&self) -> [StridedArray<'a>; 3] {
        [self.input, self.kernel, self.output].map(|array| StridedArray {
            element_type: array.element_type,
            dims: &array.dims,
            strides: &array.strides,
        })
    }
}

/// A convolution, and how it is cut.
pub struct IndirectConvolution<'a> {
    op: &'a ConvolutionOp,
    geometry: Geometry,
    positions: Positions,
    kernel_strips: KernelStrips,
    /// Bytes of an element.
    size: usize,
    input: Shared,
    output: Shared,
    kernel: Shared,
    kernel_strides: Dims,
    /// The kernel in strips, unless it is read in place.
    strips: Option<Shared>,
    _packed: Option<AlignedBytes>,
    /// What an output sees where its window leaves the input.
    zeros: AlignedBytes<u8>,
    epilogue: &'a Epilogue,
    /// Parts that the positions of a block are cut into.
    tiles: usize,
    /// Images of the result.
    batches: usize,
}

/// What one task computes.
struct Piece {
    group: usize,
    block: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The strips of the kernel of `op`, if it is to read its inputs in place, and to write its result where that lies.
pub fn kernel_strips(op: &ConvolutionOp, arrays: &Arrays<'_>) -> Option<KernelStrips> {
    let strips = KernelStrips::of(op, arrays.strided())?;
    let [_, _, output] = arrays.strided();
    let positions: i64 = op.output.spatial.iter().map(|&d| output.dims[d]).product();
    let row = row_length(op, output);
    (row == positions || row >= MIN_ROW).then_some(strips)
}

impl<'a> IndirectConvolution<'a> {
    /// The convolution; packs its kernel, unless it comes with strips or is read once.
    pub fn new(
        op: &'a ConvolutionOp,
        geometry: Geometry,
        kernel_strips: KernelStrips,
        arrays: &Arrays<'a>,
        environment: &OpEnvironment<'_>,
    ) -> Result<IndirectConvolution<'a>> {
        let Arrays {
            input,
            kernel,
            output,
            strips,
            epilogue,
        } = *arrays;
        let size = input.element_type.size_bytes();
        let positions = Positions::of_output(op, output);
        let product = &kernel_strips.product;
        let most = (TILE_BYTES / (product.depth * size).max(1))
            .min(TABLE_ENTRIES / product.block_terms())
            .max(MIN_TILE);
        let all = positions.length * positions.blocks;
        let rows = all.div_ceil(TASKS).clamp(MIN_TILE, most);
        let mut convolution = IndirectConvolution {
            strips,
            epilogue,
            _packed: None,
            zeros: AlignedBytes::zeroed(kernel_strips.product.depth * size)?,
            input: Shared::new(input.pointer),
            output: Shared::new(output.pointer),
            kernel: Shared::new(kernel.pointer),
            kernel_strides: kernel.strides.clone(),
            batches: output.dims[op.output.outer] as usize,
            tiles: (positions.length / rows).max(1),
            positions,
            op,
            geometry,
            kernel_strips,
            size,
        };
        if strips.is_none() && convolution.tiles * convolution.positions.blocks > 1 {
            let packed = AlignedBytes::uninitialized(kernel_strips.bytes)?;
            let strips = Shared::new(packed.shared_ptr());
            convolution.pack(strips, environment)?;
            convolution._packed = Some(packed);
            convolution.strips = Some(strips);
        }
        Ok(convolution)
    }

    /// Copies the kernel into strips.
    fn pack(&self, strips: Shared, environment: &OpEnvironment<'_>) -> Result<()> {
        let product = &self.kernel_strips.product;
        let (strip, columns) = (product.strip(), product.columns);
        let each = columns.div_ceil(strip);
        let grain = (PACK_GRAIN / product.depth.saturating_mul(strip)).max(1);
        try_split(
            environment,
            self.kernel_strips.parts() * each,
            grain,
            &|range| {
                for at in range {
                    let (part, from) = self.part(at / each);
                    let (first, to) = (at % each * strip, strips.at(part.to as isize));
                    // SAFETY: parts lie in the kernel; strips have room for all of them, and each is written by one task.
                    unsafe { product.pack(part.term, first, from, part.steps, to) };
                }
                Ok(())
            },
        )
    }

    /// A part of the kernel, and where it begins.
    fn part(&self, nth: usize) -> (KernelSlice, *mut u8) {
        let part = self.kernel_strips.part(self.op, &self.kernel_strides, nth);
        let from = self.kernel.at(part.from as isize * self.size as isize);
        (part, from)
    }

    /// Whether the epilogue is done to the sums: where it is the same for all rows, or positions are rows of a matrix.
    pub fn does_epilogue(&self) -> bool {
        self.epilogue.is_by_columns() || self.positions.is_matrix()
    }

    /// Computes the result.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let (length, tiles) = (self.positions.length, self.tiles);
        let blocks = self.positions.blocks * self.kernel_strips.groups;
        let strip = self.kernel_strips.product.strip();
        let strips = self.kernel_strips.product.columns.div_ceil(strip);
        // Columns are cut only where there are few tiles: each task of a tile makes a table.
        let column_cuts = TASKS.div_ceil(tiles.saturating_mul(blocks)).min(strips);
        let share = |whole: usize, parts: usize, part: usize| whole * part / parts;
        // Rows are cut where tiles of the product end.
        let unit = self.kernel_strips.product.tile_rows();
        let row = |tile| (share(length.div_ceil(unit), tiles, tile) * unit).min(length);
        let column = |part| {
            (share(strips, column_cuts, part) * strip).min(self.kernel_strips.product.columns)
        };
        // Tasks that follow one another read the same part of the kernel, or of the input where that is larger: it stays in a
        // cache.
        let kernel_is_larger = self.kernel_is_larger();
        let piece = |index: usize| {
            let (index, cut) = (index / (tiles * column_cuts), index % (tiles * column_cuts));
            let (tile, part) = match kernel_is_larger {
                true => (cut % tiles, cut / tiles),
                false => (cut / column_cuts, cut % column_cuts),
            };
            Piece {
                group: index / self.positions.blocks,
                block: index % self.positions.blocks,
                rows: row(tile)..row(tile + 1),
                columns: column(part)..column(part + 1),
            }
        };
        try_split(
            environment,
            blocks * tiles * column_cuts,
            1,
            &|mut range| range.try_for_each(|index| self.piece(&piece(index), environment)),
        )
    }

    /// Whether a group's kernel has more elements than its inputs of a block. Both have the input features as a factor; inputs
    /// are taken to be as many as outputs.
    fn kernel_is_larger(&self) -> bool {
        let product = &self.kernel_strips.product;
        let window = product.terms.saturating_mul(self.kernel_strips.joined);
        window.saturating_mul(product.columns) > self.positions.length
    }

    fn piece(&self, piece: &Piece, environment: &OpEnvironment<'_>) -> Result<()> {
        let feature = piece.group * self.kernel_strips.product.columns + piece.columns.start;
        let at = self.positions.start(piece.block)
            + piece.rows.start as i64 * self.positions.out_step
            + feature as i64;
        let c = self.output.at(at as isize * self.size as isize);
        self.rows(piece, c, environment)
    }

    /// Computes rows of the result, which begin at `c`.
    fn rows(&self, piece: &Piece, c: *mut u8, environment: &OpEnvironment<'_>) -> Result<()> {
        let product = &self.kernel_strips.product;
        let count = piece.rows.len();
        let block = product.block_terms();
        let many = (TABLE_ENTRIES / count / block)
            .max(1)
            .saturating_mul(block)
            .min(product.terms);
        let mut table: Vec<*const u8> = Vec::new();
        reserve(&mut table, many * count)?;
        let check = || environment.check();
        let first_part = piece.group * product.terms;
        let term = |term: usize| self.part(first_part + term).1.cast_const();
        let operand = match self.strips {
            Some(strips) => {
                let own = strips.at((piece.group * self.kernel_strips.group_bytes) as isize);
                IndirectOperand::Strips(own)
            }
            None => IndirectOperand::InPlace {
                term: &term,
                steps: self.part(first_part).0.steps,
            },
        };
        for first in (0..product.terms).step_by(many) {
            let terms = first..product.terms.min(first + many);
            // Entries may point to these until the product is done.
            let _edges = match self.kernel_strips.joined {
                1 => {
                    self.fill(&mut table, piece, &terms);
                    None
                }
                width => Some(self.fill_joined(&mut table, piece, &terms, width)?),
            };
            let rows = IndirectRows {
                table: &table,
                count,
                terms,
                columns: piece.columns.clone(),
                c,
                c_row: self.positions.out_step as isize,
                epilogue: match self.does_epilogue() {
                    true => self.epilogue,
                    false => Epilogue::none(),
                },
                origin: [
                    piece.block * self.positions.length + piece.rows.start,
                    piece.group * product.columns + piece.columns.start,
                ],
                check: &check,
            };
            // SAFETY: entries point to inputs of the group, or to as many zeros; the kernel lies where parts are, or in
            // strips; positions of the result lie inside it, and tasks have rows and columns of their own. Operands of the epilogue
            // have an element for every position and feature.
            unsafe { product.run(&rows, &operand)? };
        }
        Ok(())
    }

    /// Lists where the rows of some positions begin: what they see at each of `terms`.
    fn fill(&self, table: &mut Vec<*const u8>, piece: &Piece, terms: &Range<usize>) {
        let count = piece.rows.len();
        table.clear();
        table.resize(terms.len() * count, self.zeros.as_ptr());
        self.inputs(piece, terms.clone(), |window, seen| {
            let table = &mut table[(window - terms.start) * count..];
            seen.each(table, |entry, input| *entry = input);
        });
    }

    /// The same where `width` positions of the window, a row of it, are a term. Outputs that see a part of it get a row of
    /// their own, with zeros for the rest; these are returned.
    fn fill_joined(
        &self,
        table: &mut Vec<*const u8>,
        piece: &Piece,
        terms: &Range<usize>,
        width: usize,
    ) -> Result<AlignedBytes<u8>> {
        let count = piece.rows.len();
        table.clear();
        table.resize(terms.len() * count, self.zeros.as_ptr());
        // An output that sees both ends of a row sees all of it, and one that sees neither nothing.
        let mut ends: Vec<u8> = Vec::new();
        reserve(&mut ends, terms.len() * count)?;
        ends.resize(terms.len() * count, 0);
        let size = self.geometry.features * self.size;
        let behind = (width - 1) * size;
        for term in terms.clone() {
            let first = (term - terms.start) * count;
            for (end, position) in [(LAST, width - 1), (FIRST, 0)] {
                let window = term * width + position;
                self.inputs(piece, window..window + 1, |_, mut seen| {
                    seen.input = seen
                        .input
                        .wrapping_sub(if end == LAST { behind } else { 0 });
                    seen.each(&mut table[first..], |entry, input| *entry = input);
                    seen.each(&mut ends[first..], |ends, _| *ends |= end);
                });
            }
        }
        let is_part = |ends: u8| ends == FIRST || ends == LAST;
        let parts = ends.iter().filter(|&&ends| is_part(ends)).count();
        let mut edges = AlignedBytes::<u8>::zeroed(parts * width * size)?;
        let mut room = edges.as_mut_slice().chunks_exact_mut(width * size);
        let start = piece.block * self.positions.length + piece.rows.start;
        for (at, _) in ends.iter().enumerate().filter(|(_, ends)| is_part(**ends)) {
            let Some(row) = room.next() else { break };
            let (first, positions) = self.geometry.seen_of_row(start + at % count);
            let to = &mut row[first * size..][..positions * size];
            // SAFETY: positions of a row that are seen follow one another, in the window and in the input.
            unsafe {
                let from = table[at].wrapping_add(first * size);
                hlorun_kernels::copy(from, to.as_mut_ptr(), to.len());
            }
            table[at] = row.as_ptr();
        }
        Ok(edges)
    }

    /// Calls `f(window, seen)` for what the rows of a piece see at each of `windows`.
    fn inputs(&self, piece: &Piece, windows: Range<usize>, mut f: impl FnMut(usize, Seen)) {
        let size = self.size as isize;
        let (first_batch, first_feature) =
            (self.op).first_of(piece.group, self.batches, self.geometry.features);
        let start = piece.block * self.positions.length + piece.rows.start;
        let positions = start..start + piece.rows.len();
        self.geometry
            .runs(&positions, &windows, first_batch, |start, window, run| {
                let input = (first_feature as i64 + run.input) as isize * size;
                let seen = Seen {
                    row: start + run.first,
                    step: run.step,
                    count: run.count,
                    input: self.input.at(input),
                    input_step: run.input_step as isize * size,
                };
                f(window, seen);
            });
    }
}

/// An output sees the first position of a row of the window, or the last one.
const FIRST: u8 = 1;
const LAST: u8 = 2;

/// What some rows see at one position of the window.
struct Seen {
    /// The first row, from the piece's first one on, rows from one to the next, and how many.
    row: usize,
    step: usize,
    count: usize,
    /// Where the inputs of the first row are, and bytes to those of the next.
    input: *const u8,
    input_step: isize,
}

impl Seen {
    /// Calls `f(entry, input)` for the entry of each row, of a list with one for each row of the piece.
    fn each<T>(&self, list: &mut [T], mut f: impl FnMut(&mut T, *const u8)) {
        let list = &mut list[self.row..];
        let mut input = self.input;
        let mut next = |entry: &mut T| {
            f(entry, input);
            input = input.wrapping_offset(self.input_step);
        };
        match self.step {
            1 => list[..self.count].iter_mut().for_each(&mut next),
            step => list
                .iter_mut()
                .step_by(step)
                .take(self.count)
                .for_each(&mut next),
        }
    }
}
