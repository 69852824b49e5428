//! Convolutions that read their inputs where they lie, by a table of pointers: no patches are made.
//!
//! In: a convolution in `f32` or `f64`, of arrays of its type, whose features lie side by side in the input and in the
//! result. Promise: memory is bounded by the kernel, which is copied into strips, and by a table of bounded size for each
//! task; the bits of an output depend on the shapes alone.

use std::ops::Range;

use hlorun_kernels::IndirectRows;

use super::im2col::Geometry;
use super::positions::Positions;
use super::walk::{Shared, try_split};
use crate::buffers::{AlignedBytes, reserve};
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::convolution::{MAX_ROWS, MIN_ROWS, PACK_GRAIN, TABLE, TASKS};
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::schedule::kernel_strips::{KernelStrips, Lay};

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
}

impl<'a> Arrays<'a> {
    /// Without strips.
    pub fn new(input: &'a RawArray, kernel: &'a RawArray, output: &'a RawArray) -> Arrays<'a> {
        Arrays {
            input,
            kernel,
            output,
            strips: None,
        }
    }
}

/// A convolution with its kernel in strips.
pub struct Indirections {
    geometry: Geometry,
    positions: Positions,
    layout: KernelStrips,
    size: usize,
    input: Shared,
    output: Shared,
    strips: Shared,
    _packed: Option<AlignedBytes>,
    /// What an output sees where its window leaves the input.
    zeros: AlignedBytes<u8>,
    feature_groups: usize,
    /// Images of the result, and its step from one to the next.
    batches: usize,
    out_batch: i64,
}

fn lay(array: &RawArray) -> Lay<'_> {
    Lay {
        element_type: array.element_type,
        dims: &array.dims,
        strides: &array.strides,
    }
}

/// Copies a kernel into strips.
fn pack(
    op: &ConvolutionOp,
    kernel: &RawArray,
    layout: &KernelStrips,
    strips: Shared,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let source = Shared::new(kernel.pointer);
    let (strides, size) = (&kernel.strides, kernel.element_type.size_bytes());
    let product = &layout.product;
    let grain = (PACK_GRAIN / product.depth.saturating_mul(product.columns)).max(1);
    try_split(environment, layout.parts(), grain, &|range| {
        for nth in range {
            let part = layout.part(op, strides, nth);
            let from = source.at(part.from as isize * size as isize);
            // SAFETY: parts lie in the kernel; strips have room for all of them, and each is written by one task.
            unsafe { product.pack(part.term, from, part.steps, strips.at(part.to as isize)) };
        }
        Ok(())
    })
}

/// What one task computes.
struct Piece {
    group: usize,
    block: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// The strips of the kernel of `op`, if it is to read its inputs where they lie.
pub fn layout(op: &ConvolutionOp, arrays: &Arrays<'_>) -> Option<KernelStrips> {
    KernelStrips::of(op, [arrays.input, arrays.kernel, arrays.output].map(lay))
}

impl Indirections {
    /// The convolution; packs its kernel, unless it comes with strips.
    pub fn new(
        op: &ConvolutionOp,
        geometry: Geometry,
        layout: KernelStrips,
        arrays: &Arrays<'_>,
        environment: &OpEnvironment<'_>,
    ) -> Result<Indirections> {
        let Arrays {
            input,
            kernel,
            output,
            strips,
        } = *arrays;
        let size = input.element_type.size_bytes();
        let (strips, packed) = match strips {
            Some(strips) => (strips, None),
            None => {
                let packed = AlignedBytes::uninitialized(layout.bytes)?;
                let strips = Shared::new(packed.shared_ptr());
                pack(op, kernel, &layout, strips, environment)?;
                (strips, Some(packed))
            }
        };
        Ok(Indirections {
            strips,
            _packed: packed,
            zeros: AlignedBytes::zeroed(geometry.features * size)?,
            input: Shared::new(input.pointer),
            output: Shared::new(output.pointer),
            feature_groups: op.feature_group_count,
            batches: output.dims[op.output.outer] as usize,
            out_batch: output.strides[op.output.outer],
            positions: Positions::of_output(op, output),
            geometry,
            layout,
            size,
        })
    }

    /// Computes the result.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        let length = self.positions.length;
        let blocks = self.positions.blocks * self.layout.groups;
        let rows = length.div_ceil(TASKS).clamp(MIN_ROWS, MAX_ROWS);
        let tiles = (length / rows).max(1);
        let strip = self.layout.product.strip();
        let strips = self.layout.product.columns.div_ceil(strip);
        // Columns are cut only where there are few tiles: each task of a tile makes a table.
        let parts = TASKS.div_ceil(tiles.saturating_mul(blocks)).min(strips);
        let share = |whole: usize, parts: usize, part: usize| whole * part / parts;
        let piece = |index: usize| {
            let (part, index) = (index % parts, index / parts);
            let (tile, index) = (index % tiles, index / tiles);
            let column =
                |part| (share(strips, parts, part) * strip).min(self.layout.product.columns);
            Piece {
                group: index / self.positions.blocks,
                block: index % self.positions.blocks,
                rows: share(length, tiles, tile)..share(length, tiles, tile + 1),
                columns: column(part)..column(part + 1),
            }
        };
        try_split(environment, blocks * tiles * parts, 1, &|mut range| {
            range.try_for_each(|index| self.piece(&piece(index), environment))
        })
    }

    fn piece(&self, piece: &Piece, environment: &OpEnvironment<'_>) -> Result<()> {
        let feature = piece.group * self.layout.product.columns + piece.columns.start;
        let at = piece.block as i64 * self.out_batch
            + piece.rows.start as i64 * self.positions.out_step
            + feature as i64;
        let c = self.output.at(at as isize * self.size as isize);
        self.rows(piece, c, environment)
    }

    /// Computes rows of the result, which begin at `c`.
    fn rows(&self, piece: &Piece, c: *mut u8, environment: &OpEnvironment<'_>) -> Result<()> {
        let product = &self.layout.product;
        let count = piece.rows.len();
        let block = product.block_terms();
        let many = (TABLE / count / block)
            .max(1)
            .saturating_mul(block)
            .min(product.terms);
        let mut table: Vec<*const u8> = Vec::new();
        reserve(&mut table, many * count)?;
        let check = || environment.check();
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
                check: &check,
            };
            let strips = self
                .strips
                .at((piece.group * self.layout.group_bytes) as isize);
            // SAFETY: entries point to inputs of the group, or to as many zeros; the strips are packed; positions of the
            // result lie inside it, and tasks have rows and columns of their own.
            unsafe { product.run(&rows, strips) };
        }
        Ok(())
    }

    /// Lists where the rows of some positions begin: what they see at each of `terms`.
    fn fill(&self, table: &mut Vec<*const u8>, piece: &Piece, terms: &Range<usize>) {
        let count = piece.rows.len();
        let size = self.size as isize;
        let (first_batch, first_feature) = match self.feature_groups {
            1 => (piece.group * self.batches, 0),
            _ => (0, piece.group * self.layout.product.depth),
        };
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
