//! Runs `convolution` as matrix products: of inputs read in place ([`super::indirect`]), or of patches (im2col).
//!
//! Promise: memory is bounded by patches, and by copies of the kernel, of operands in another type and of results of
//! another type or layout; how work is cut depends on the shapes only, so results are the same for every number of threads. Low floats
//! accumulate in `f32` and round once, integers wrap in the result's type.

use std::ops::Range;

use hlorun_kernels::{DType, Epilogue, Gemm, Matrix, Scratch};

use super::im2col::{Geometry, Tile};
use super::indirect::{Arrays, IndirectConvolution};
use super::pack_kernel::pack_kernel;
use super::phases::{self, Phase};
use super::positions::{Positions, merged, pick};
use super::walk::{Shared, try_split};
use super::{depthwise, indirect, weighted_rows};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::epilogue;
use crate::exec::parallel::OpEnvironment;
use crate::module::attributes::WindowDimension;
use crate::plan::cost::convolution::{
    FEW_TILES, LARGE_WEIGHTS, MAX_TILE, MIN_SHARED, MIN_TILE, PATCH_BYTES, TILE_BYTES,
};
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::schedule::kernel_strips::KernelStrips;
use crate::types::{Dims, PrimitiveType};

/// Runs `op`: input, kernel, the operands of its epilogue and, where the plan packed it, the kernel in strips; one array out.
pub fn run(
    op: &ConvolutionOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let (&[ref input, ref kernel, ref others @ ..], [output]) = (inputs, outputs) else {
        return Err(HloError::execution(
            "convolution takes an input and a kernel",
        ));
    };
    let (operands, strips) = others.split_at(op.epilogue_operands().min(others.len()));
    let size = output.element_type.size_bytes();
    let epilogue = epilogue::resolve(&op.epilogue, operands, size, 0)?;
    if !sums(op, [input, kernel], output, strips, &epilogue, environment)? {
        apply_epilogue(op, output, &epilogue, environment)?;
    }
    Ok(())
}

/// Applies an epilogue to results that are in memory.
fn apply_epilogue(
    op: &ConvolutionOp,
    output: &RawArray,
    epilogue: &Epilogue,
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    if epilogue.is_empty() || output.count() == 0 {
        return Ok(());
    }
    let ty = dtype(output.element_type).filter(|ty| matches!(ty, DType::F32 | DType::F64));
    let ty =
        ty.ok_or_else(|| HloError::execution("an epilogue of another type than f32 and f64"))?;
    let columns = output.dims[op.output.feature] as usize;
    let mut whole = Gemm::dense(ty, output.count() / columns, columns, 0);
    let steps = (0..output.dims.len()).filter(|&d| d != op.output.feature && output.dims[d] > 1);
    if let Some(step) = steps.map(|d| output.strides[d]).min() {
        whole.c.row_stride = step as isize;
    }
    // SAFETY: the plan has epilogues for results alone that are matrices in memory, with features in their columns.
    unsafe {
        hlorun_kernels::apply_epilogue(&whole, output.pointer, epilogue, &environment.products())?
    };
    Ok(())
}

/// Computes the result; returns whether the epilogue is applied.
fn sums(
    op: &ConvolutionOp,
    [input, kernel]: [&RawArray; 2],
    output: &RawArray,
    strips: &[RawArray],
    epilogue: &Epilogue,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    if output.count() == 0 {
        return Ok(true);
    }
    if input.count() == 0 || kernel.count() == 0 {
        clear(output)?;
        return Ok(false);
    }
    let compute = compute_type(input, kernel, output)?;
    let input = Typed::new(input, compute)?;
    let kernel = Typed::new(kernel, compute)?;
    if output.element_type == compute {
        let arrays = Arrays {
            input: &input.array,
            kernel: &kernel.array,
            output,
            strips: strips.first().map(|strips| Shared::new(strips.pointer)),
            epilogue,
        };
        return in_type(op, &arrays, environment);
    }
    let wide_size = output.count().checked_mul(compute.size_bytes());
    let wide_size = wide_size.ok_or_else(|| HloError::execution("convolution too large"))?;
    let mut wide = AlignedBytes::uninitialized(wide_size)?;
    let result = RawArray::over(&mut wide, compute, &output.dims);
    let arrays = Arrays::new(&input.array, &kernel.array, &result);
    in_type(op, &arrays, environment)?;
    Typed::new(&result, output.element_type)?
        .array
        .copy_to(output);
    Ok(false)
}

/// Sums of nothing.
fn clear(output: &RawArray) -> Result<()> {
    let mut zero = AlignedBytes::zeroed(16)?;
    let zero = RawArray::over(&mut zero, output.element_type, &[]);
    super::reduce_window::broadcast(&zero, output);
    Ok(())
}

/// The type products are summed in.
pub fn compute_type(
    input: &RawArray,
    kernel: &RawArray,
    output: &RawArray,
) -> Result<PrimitiveType> {
    use PrimitiveType as P;
    let all = [input, kernel, output].map(|array| array.element_type);
    if all.iter().any(|&ty| dtype(ty).is_none()) {
        return Err(HloError::execution(
            "a product of an element type without kernels",
        ));
    }
    let has = |ty: P| all.contains(&ty);
    Ok(if has(P::C128) || (has(P::C64) && has(P::F64)) {
        P::C128
    } else if has(P::C64) {
        P::C64
    } else if has(P::F64) {
        P::F64
    } else if all.iter().any(|ty| ty.is_floating()) {
        P::F32
    } else if all.iter().any(|ty| ty.size_bytes() > 4) {
        P::S64
    } else {
        P::S32
    })
}

/// An array in a given type, converted where needed.
pub struct Typed {
    /// The array.
    pub array: RawArray,
    _bytes: Option<AlignedBytes>,
}

impl Typed {
    /// `array` in the type `ty`; a copy is row-major.
    pub fn new(array: &RawArray, ty: PrimitiveType) -> Result<Typed> {
        if array.element_type == ty {
            return Ok(Typed {
                array: array.clone(),
                _bytes: None,
            });
        }
        let (Some(from), Some(to)) = (dtype(array.element_type), dtype(ty)) else {
            return Err(HloError::execution("an element type without kernels"));
        };
        let dense = array.to_row_major()?;
        let size = array.count().checked_mul(ty.size_bytes());
        let size = size.ok_or_else(|| HloError::execution("array too large"))?;
        let mut bytes = AlignedBytes::uninitialized(size)?;
        // SAFETY: both blocks hold as many elements.
        unsafe {
            hlorun_kernels::convert(from, to)(dense.as_ptr(), bytes.as_mut_ptr(), array.count());
        }
        Ok(Typed {
            array: RawArray::over(&mut bytes, ty, &array.dims),
            _bytes: Some(bytes),
        })
    }
}

/// The same convolution with the images as one more spatial dimension, where the input has them side
/// by side, as the gradient of a kernel has: so patches are copied in runs of images.
fn images_innermost(
    op: &ConvolutionOp,
    arrays: [&RawArray; 3],
) -> Option<(ConvolutionOp, [RawArray; 3])> {
    let [input, _, output] = arrays;
    let stride = |dim: usize| input.strides[dim].unsigned_abs();
    let images = op.input.outer;
    let is_innermost = input.dims[images] >= 8
        && stride(images) == 1
        && (input.dims[op.input.feature] == 1 || stride(op.input.feature) > 1)
        && op.batch_group_count == 1
        && op.feature_group_count == 1
        && output.dims[op.output.outer] == input.dims[images];
    if !is_innermost {
        return None;
    }
    let mut op = op.clone();
    op.window.0.push(WindowDimension::default());
    let mut arrays = arrays.map(RawArray::clone);
    let moved = [(0, op.input.outer), (2, op.output.outer)];
    for (array, images) in moved {
        let (count, stride) = (arrays[array].dims[images], arrays[array].strides[images]);
        arrays[array].dims.push(count);
        arrays[array].strides.push(stride);
        arrays[array].dims[images] = 1;
    }
    arrays[1].dims.push(1);
    arrays[1].strides.push(1);
    let sides = [&mut op.input, &mut op.kernel, &mut op.output];
    for (side, array) in sides.into_iter().zip(&arrays) {
        side.spatial.push(array.dims.len() - 1);
    }
    Some((op, arrays))
}

/// Operands and result in one type. Returns whether the epilogue is applied, as do the functions below.
fn in_type(
    op: &ConvolutionOp,
    arrays: &Arrays<'_>,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let &Arrays {
        input,
        kernel,
        output,
        ..
    } = arrays;
    if let Some((op, [input, kernel, output])) = images_innermost(op, [input, kernel, output]) {
        by_layout(&op, &Arrays::new(&input, &kernel, &output), environment)?;
        return Ok(false);
    }
    let Some(phases) = phases::cut(op, kernel, output) else {
        return by_layout(op, arrays, environment);
    };
    // A row of a phase has another number in the whole result: its sums get only what all rows get alike.
    let takes_epilogue = |phase: &Phase| {
        let arrays = Arrays::new(input, &phase.kernel, &phase.output);
        phase.kernel.count() > 0 && indirect::kernel_strips(&phase.op, &arrays).is_some()
    };
    let does_epilogue = arrays.epilogue.is_by_columns() && phases.iter().all(takes_epilogue);
    for phase in phases {
        environment.check();
        if phase.kernel.count() == 0 {
            clear(&phase.output)?;
            continue;
        }
        let arrays = Arrays {
            epilogue: match does_epilogue {
                true => arrays.epilogue,
                false => Epilogue::none(),
            },
            ..Arrays::new(input, &phase.kernel, &phase.output)
        };
        by_layout(&phase.op, &arrays, environment)?;
    }
    Ok(does_epilogue)
}

fn by_layout(
    op: &ConvolutionOp,
    arrays: &Arrays<'_>,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let output = arrays.output;
    let spatial_dims = pick(&output.dims, &op.output.spatial);
    let spatial_strides = pick(&output.strides, &op.output.spatial);
    if merged(&spatial_dims, &spatial_strides).is_some() {
        return linear(op, arrays, environment);
    }
    if let Some(strips) = indirect::kernel_strips(op, arrays) {
        let geometry = Geometry::new(op, arrays.input, output, environment)?;
        return in_place(op, geometry, strips, arrays, environment);
    }
    // A result of odd layout is computed channels last and moved.
    let mut order = vec![op.output.outer];
    order.extend_from_slice(&op.output.spatial);
    order.push(op.output.feature);
    let dims: Dims = order.iter().map(|&d| output.dims[d]).collect();
    let mut bytes = AlignedBytes::uninitialized(output.byte_size())?;
    let dense = RawArray::over(&mut bytes, output.element_type, &dims);
    let mut view = output.clone();
    for (at, &d) in order.iter().enumerate() {
        view.strides[d] = dense.strides[at];
    }
    view.pointer = dense.pointer;
    let output_view = Arrays {
        output: &view,
        epilogue: Epilogue::none(),
        ..*arrays
    };
    linear(op, &output_view, environment)?;
    view.copy_to(output);
    Ok(false)
}

/// A convolution that reads its inputs where they lie.
fn in_place(
    op: &ConvolutionOp,
    geometry: Geometry,
    strips: KernelStrips,
    arrays: &Arrays<'_>,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let convolution = IndirectConvolution::new(op, geometry, strips, arrays, environment)?;
    convolution.run(environment)?;
    Ok(convolution.does_epilogue())
}

/// A result whose spatial dimensions have one stride.
fn linear(
    op: &ConvolutionOp,
    arrays: &Arrays<'_>,
    environment: &OpEnvironment<'_>,
) -> Result<bool> {
    let &Arrays {
        input,
        kernel,
        output,
        ..
    } = arrays;
    let groups = op.feature_group_count * op.batch_group_count;
    let geometry = Geometry::new(op, input, output, environment)?;
    if let Some(has_epilogue) = depthwise::run(op, &geometry, arrays, environment)? {
        return Ok(has_epilogue);
    }
    if weighted_rows::run(op, &geometry, kernel, input, output, environment)? {
        return Ok(false);
    }
    if let Some(strips) = indirect::kernel_strips(op, arrays) {
        return in_place(op, geometry, strips, arrays, environment);
    }
    let weights = pack_kernel(op, kernel, groups as i64, false)?;
    let positions = Positions::of(op, &geometry, input, output);
    let size = input.element_type.size_bytes();
    let columns = (output.dims[op.output.feature] as usize) / groups;
    let k = geometry.positions_in_window() * geometry.features;
    let patch = [k, geometry.features].map(|n| (n * size).max(1));
    let cut = Cut::of(&positions, patch, columns, groups);
    let job = Job {
        dtype: dtype(input.element_type).unwrap_or(DType::F32),
        size,
        input: Shared::new(input.pointer),
        output: Shared::new(output.pointer),
        weights: weights.pointer(),
        geometry: &geometry,
        positions: &positions,
        feature_step: output.strides[op.output.feature],
        in_feature_step: input.strides[op.input.feature],
        columns,
        out_batch: output.strides[op.output.outer],
        in_batch: input.strides[op.input.outer],
        op,
        batches: output.dims[op.output.outer] as usize,
    };
    let piece = |index: usize| {
        let (t, index) = (index % cut.tiles, index / cut.tiles);
        Piece {
            group: index / positions.blocks,
            block: index % positions.blocks,
            rows: t * cut.rows..((t + 1) * cut.rows).min(positions.length),
        }
    };
    if cut.is_shared {
        (0..cut.jobs).try_for_each(|index| job.run(&piece(index), environment))?;
        return Ok(false);
    }
    // A product on the thread of its task is one step: whether the run is to end is looked at before each.
    let one_by_one = |count: usize, task: &(dyn Fn(usize) + Sync)| {
        (0..count).for_each(|index| (environment.parallel)(1, &|_| task(index)));
    };
    let alone = OpEnvironment {
        parallel: &one_by_one,
        threads: 1,
    };
    try_split(environment, cut.jobs, 1, &|mut range| {
        range.try_for_each(|index| job.run(&piece(index), &alone))
    })?;
    Ok(false)
}

/// How positions are cut into products; it depends on the shapes only.
struct Cut {
    /// Positions of a product.
    rows: usize,
    /// Products of a block, and of all blocks and groups.
    tiles: usize,
    jobs: usize,
    /// Whether all threads share each product, rather than take one each.
    is_shared: bool,
}

impl Cut {
    /// `bytes` are those of a patch, and of the features of one position of its window.
    fn of(positions: &Positions, bytes: [usize; 2], columns: usize, groups: usize) -> Cut {
        let [patch, features] = bytes;
        let blocks = positions.blocks * groups;
        // Patches hold all features of at least one position of the window.
        let most = PATCH_BYTES / features;
        let cut = |rows: usize, is_shared: bool| {
            let rows = rows.min(most).min(positions.length).max(1);
            let tiles = positions.length.div_ceil(rows);
            Cut {
                rows,
                tiles,
                jobs: blocks * tiles,
                is_shared,
            }
        };
        let own = cut((TILE_BYTES / patch).clamp(MIN_TILE, MAX_TILE), false);
        // All threads share a product of few tiles, or of weights that none should lay out for itself.
        if own.jobs < FEW_TILES || patch.saturating_mul(columns) >= LARGE_WEIGHTS {
            cut((PATCH_BYTES / patch).max(MIN_SHARED), true)
        } else {
            own
        }
    }
}

/// What one task computes.
struct Piece {
    group: usize,
    block: usize,
    /// Positions of the block.
    rows: Range<usize>,
}

/// What every tile of a convolution shares. Strides are in elements.
struct Job<'a> {
    dtype: DType,
    size: usize,
    input: Shared,
    output: Shared,
    weights: Shared,
    geometry: &'a Geometry,
    positions: &'a Positions,
    feature_step: i64,
    in_feature_step: i64,
    /// Output features of a group.
    columns: usize,
    out_batch: i64,
    in_batch: i64,
    op: &'a ConvolutionOp,
    batches: usize,
}

impl Job<'_> {
    fn run(&self, piece: &Piece, environment: &OpEnvironment<'_>) -> Result<()> {
        let row = |step: i64| piece.rows.start as i64 * step;
        let out_feature = (piece.group * self.columns) as i64;
        let at = piece.block as i64 * self.out_batch
            + row(self.positions.out_step)
            + out_feature * self.feature_step;
        let c = self.element(self.output, at);
        let mut gemm = Gemm {
            n: self.columns,
            b: Matrix::row_major(self.columns, 0),
            c: Matrix {
                row_stride: self.positions.out_step as isize,
                col_stride: self.feature_step as isize,
                batch_stride: 0,
            },
            ..Gemm::dense(self.dtype, piece.rows.len(), 0, 0)
        };
        environment.check();
        let Some(step) = self.positions.in_step else {
            return self.by_patches(piece, gemm, c, environment);
        };
        let (first_batch, first_feature) = self.first_of_group(piece.group);
        let at = (first_batch + piece.block) as i64 * self.in_batch
            + row(step)
            + first_feature as i64 * self.in_feature_step;
        gemm.k = self.geometry.features;
        gemm.a = Matrix {
            row_stride: step as isize,
            col_stride: self.in_feature_step as isize,
            batch_stride: 0,
        };
        // SAFETY: positions have one stride in the input and in the result, and lie inside.
        unsafe {
            let a = self.element(self.input, at);
            let parallel = environment.products();
            hlorun_kernels::gemm(&gemm, a, self.weights_from(piece, 0), c, &parallel)?;
        }
        Ok(())
    }

    fn first_of_group(&self, group: usize) -> (usize, usize) {
        self.op
            .first_of(group, self.batches, self.geometry.features)
    }

    fn element(&self, array: Shared, at: i64) -> *mut u8 {
        array.at(at as isize * self.size as isize)
    }

    /// The weights of a piece, from a window position on.
    fn weights_from(&self, piece: &Piece, window: usize) -> *mut u8 {
        let windows = self.geometry.positions_in_window();
        let row = (piece.group * windows + window) * self.geometry.features;
        self.element(self.weights, (row * self.columns) as i64)
    }

    /// Sums products of patches, each of which holds as many window positions as there is room for.
    fn by_patches(
        &self,
        piece: &Piece,
        mut gemm: Gemm,
        c: *mut u8,
        environment: &OpEnvironment<'_>,
    ) -> Result<()> {
        let (features, windows) = (self.geometry.features, self.geometry.positions_in_window());
        let (first_batch, first_feature) = self.first_of_group(piece.group);
        let window_bytes = piece.rows.len() * features * self.size;
        let step = (PATCH_BYTES / window_bytes.max(1)).clamp(1, windows);
        let width = self.geometry.width();
        let step = if step > width {
            step / width * width
        } else {
            step
        };
        let mut scratch = Scratch::new::<u8>(step * window_bytes)?;
        let patches = Shared::new(scratch.get());
        let start = piece.block * self.positions.length + piece.rows.start;
        for window in (0..windows).step_by(step) {
            let tile = Tile {
                positions: start..start + piece.rows.len(),
                windows: window..(window + step).min(windows),
                first_batch,
                first_feature,
            };
            environment.check();
            // SAFETY: the scratch holds the tile; kernel, patches and result have the sizes given.
            unsafe {
                gemm.a = self
                    .geometry
                    .fill_by_all(&tile, self.input, patches, environment);
                gemm.k = tile.windows.len() * features;
                gemm.beta = if window == 0 { 0.0 } else { 1.0 };
                let weights = self.weights_from(piece, window);
                let parallel = environment.products();
                hlorun_kernels::gemm(&gemm, patches.get(), weights, c, &parallel)?;
            }
        }
        Ok(())
    }
}
