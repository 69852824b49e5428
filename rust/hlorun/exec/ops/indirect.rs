//! Convolutions that read their inputs in place, by a table of pointers: no patches are made.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type, whose features are contiguous in the input and in the
//! result. Promise: memory is bounded by one copy of the kernel and a table of bounded size for each task; the order of
//! each sum depends on the shapes alone.

use std::ops::Range;

use hlorun_kernels::{Epilogue, IndirectOperand, IndirectRows};

use super::im2col::Geometry;
use super::positions::Positions;
use super::walk::{Shared, try_split};
use crate::buffers::{AlignedBytes, reserve};
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::indirect_convolution::{
    MAX_TILE, MIN_TILE, PACK_GRAIN, TABLE_ENTRIES, TASKS,
};
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::schedule::kernel_strips::{KernelSlice, KernelStrips, StridedArray};
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
    /// Features of the result.
    features: i64,
    /// Parts that the positions of a block are cut into.
    tiles: usize,
    /// Images of the result, and its step from one to the next.
    batches: usize,
    out_batch: i64,
}

fn strided(array: &RawArray) -> StridedArray<'_> {
    StridedArray {
        element_type: array.element_type,
        dims: &array.dims,
        strides: &array.strides,
    }
}

/// What one task computes.
struct Piece {
    group: usize,
    block: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The strips of the kernel of `op`, if it is to read its inputs in place.
pub fn kernel_strips(op: &ConvolutionOp, arrays: &Arrays<'_>) -> Option<KernelStrips> {
    KernelStrips::of(
        op,
        [arrays.input, arrays.kernel, arrays.output].map(strided),
    )
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
        let rows = positions.length.div_ceil(TASKS).clamp(MIN_TILE, MAX_TILE);
        let mut convolution = IndirectConvolution {
            strips,
            epilogue,
            features: output.dims[op.output.feature],
            _packed: None,
            zeros: AlignedBytes::zeroed(geometry.features * size)?,
            input: Shared::new(input.pointer),
            output: Shared::new(output.pointer),
            kernel: Shared::new(kernel.pointer),
            kernel_strides: kernel.strides.clone(),
            batches: output.dims[op.output.outer] as usize,
            out_batch: output.strides[op.output.outer],
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

    /// Whether positions follow one another in memory as rows of a matrix, so that the epilogue is done to the sums.
    pub fn has_rows(&self) -> bool {
        let is_one = self.positions.blocks == 1;
        self.positions.out_step == self.features
            && (is_one || self.out_batch == self.features * self.positions.length as i64)
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
        let piece = |index: usize| {
            let (part, index) = (index % column_cuts, index / column_cuts);
            let (tile, index) = (index % tiles, index / tiles);
            let column = |part| {
                (share(strips, column_cuts, part) * strip).min(self.kernel_strips.product.columns)
            };
            Piece {
                group: index / self.positions.blocks,
                block: index % self.positions.blocks,
                rows: share(length, tiles, tile)..share(length, tiles, tile + 1),
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

    fn piece(&self, piece: &Piece, environment: &OpEnvironment<'_>) -> Result<()> {
        let feature = piece.group * self.kernel_strips.product.columns + piece.columns.start;
        let at = piece.block as i64 * self.out_batch
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
            self.fill(&mut table, piece, &terms);
            let rows = IndirectRows {
                table: &table,
                count,
                terms,
                columns: piece.columns.clone(),
                c,
                c_row: self.positions.out_step as isize,
                epilogue: match self.has_rows() {
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
        let size = self.size as isize;
        let depth = self.kernel_strips.product.depth;
        let (first_batch, first_feature) = self.op.first_of(piece.group, self.batches, depth);
        let start = piece.block * self.positions.spatial + piece.rows.start;
        let positions = start..start + count;
        table.clear();
        table.resize(terms.len() * count, self.zeros.as_ptr());
        self.geometry
            .runs(&positions, terms, first_batch, |start, window, run| {
                let mut at = (window - terms.start) * count + start + run.first;
                let mut input = (first_feature as i64 + run.input) as isize * size;
                for _ in 0..run.count {
                    table[at] = self.input.at(input);
                    at += run.step;
                    input += run.input_step as isize * size;
                }
            });
    }
}
