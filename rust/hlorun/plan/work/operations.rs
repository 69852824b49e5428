//! Counts the operations of thunks that are no loops, reductions or products: of each [`OpKind`].

use super::counts::Counts;
use super::elements;
use crate::library::lapack::{LinalgOp, Routine};
use crate::plan::cost::{narrow_convolution, small_matrices, windowed};
use crate::plan::element::program::Program;
use crate::plan::ops::combiner::Combiner;
use crate::plan::ops::convolution::ConvolutionOp;
use crate::plan::ops::fft::{FftKind, FftOp};
use crate::plan::ops::rng_bit_generator::Algorithm;
use crate::plan::ops::sort::SortOp;
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::view::ArrayView;
use crate::types::PrimitiveType;

fn elements(views: &[ArrayView]) -> f64 {
    views.iter().map(|view| view.count() as f64).sum()
}

/// Counts what an operation computes. Long because each kind is a case.
pub fn count(op: &OpThunk, counts: &mut Counts) {
    let ty = op
        .inputs
        .first()
        .map_or(PrimitiveType::F32, |view| view.element_type);
    let (inputs, outputs) = (elements(&op.inputs), elements(&op.outputs));
    match &op.kind {
        OpKind::Gather(gather) => {
            let window = product(&gather.slice_sizes);
            counts.add("gather", ty, outputs / window.max(1.0));
            counts.add("gathered", ty, outputs);
        }
        OpKind::Scatter(scatter) => {
            let updates = &op.inputs[scatter.count + 1..];
            let sizes: Vec<i64> = scatter
                .update_window_dims
                .iter()
                .map(|&dim| updates[0].dims[dim])
                .collect();
            let class = match scatter.combiner.shortcut {
                Some(_) => "scattered",
                None => "scattered-general",
            };
            counts.add(
                "scatter",
                ty,
                elements(&updates[..1]) / product(&sizes).max(1.0),
            );
            counts.add(class, ty, elements(updates));
        }
        OpKind::Sort(sort) => count_sort(sort, op, counts),
        OpKind::TopK(_) => counts.add("top-k", ty, inputs),
        OpKind::ReduceWindow(window) => {
            let sizes: Vec<i64> = window.window.0.iter().map(|d| d.size).collect();
            let longest = sizes.iter().copied().max().unwrap_or(1);
            let has_kernel = window.combiner.shortcut.is_some();
            match has_kernel && longest >= windowed::LONG {
                true => counts.add("running-window", ty, outputs),
                false => {
                    count_windows(&window.combiner, ty, outputs * product(&sizes), counts);
                }
            }
        }
        OpKind::SelectAndScatter(select) => {
            let sizes: Vec<i64> = select.window.0.iter().map(|d| d.size).collect();
            let windows = op.inputs.get(1).map_or(0.0, |view| view.count() as f64);
            counts.add("selected-window", ty, windows * product(&sizes));
        }
        OpKind::Convolution(convolution) => count_convolution(convolution, op, counts),
        OpKind::RngBitGenerator(generator) => {
            let class = match generator.algorithm {
                Algorithm::Philox => "philox",
                Algorithm::ThreeFry => "threefry",
            };
            let sizes = op.outputs.iter();
            let bytes: usize = sizes.map(|v| v.count() * v.element_type.size_bytes()).sum();
            counts.add(class, PrimitiveType::U32, bytes as f64 / 4.0);
        }
        OpKind::Rng(_) => counts.add("rng", ty, outputs),
        OpKind::Fft(fft) => count_fft(fft, op, counts),
        OpKind::Linalg(linalg) => count_linalg(linalg, op, counts),
        OpKind::BlockDot(_) | OpKind::CudnnAttention(_) | OpKind::Custom(_) => {
            counts.add("custom-call", ty, inputs + outputs);
        }
        OpKind::BitcastConvert(_)
        | OpKind::Identity
        | OpKind::Zeros
        | OpKind::Refused(_)
        | OpKind::DimensionSize(_) => {}
    }
}

fn product(sizes: &[i64]) -> f64 {
    sizes.iter().map(|&size| size as f64).product()
}

/// Bytes that a gather or scatter moves at indices, and in how many windows; `None` for other operations.
pub fn scattered(op: &OpThunk) -> Option<(u64, u64)> {
    let (view, window) = match &op.kind {
        OpKind::Gather(gather) => (&op.outputs[0], product(&gather.slice_sizes)),
        OpKind::Scatter(scatter) => {
            let updates = &op.inputs[scatter.count + 1];
            let sizes = scatter.update_window_dims.iter();
            (
                updates,
                sizes.map(|&dim| updates.dims[dim] as f64).product(),
            )
        }
        _ => return None,
    };
    let count = view.count();
    let bytes = count * view.element_type.size_bytes();
    Some((bytes as u64, (count as f64 / window.max(1.0)) as u64))
}

fn count_windows(combiner: &Combiner, ty: PrimitiveType, amount: f64, counts: &mut Counts) {
    match combiner.shortcut {
        Some(_) => counts.add("window", ty, amount),
        None => {
            let steps = steps_of(&combiner.program);
            counts.add("window-general", ty, amount * steps);
        }
    }
}

fn steps_of(program: &Program) -> f64 {
    program.steps.len().max(1) as f64
}

fn count_sort(sort: &SortOp, op: &OpThunk, counts: &mut Counts) {
    let Some(first) = op.inputs.first() else {
        return;
    };
    let length = first.dims.get(sort.dimension).copied().unwrap_or(1).max(1) as f64;
    let total = first.count() as f64;
    let ty = first.element_type;
    let rows = if total > length { "rows" } else { "row" };
    let levels = length.log2().max(1.0);
    match &sort.keys {
        Some(_) => {
            counts.add(&format!("sort-{rows}"), ty, total);
            counts.add(&format!("sort-{rows}-levels"), ty, total * levels);
        }
        None => counts.add(
            "sort-compared",
            ty,
            total * levels * steps_of(&sort.comparator),
        ),
    }
    for operand in &op.inputs[1..] {
        counts.add("gathered", operand.element_type, operand.count() as f64);
    }
}

fn count_convolution(convolution: &ConvolutionOp, op: &OpThunk, counts: &mut Counts) {
    let ([_, kernel, ..], [output]) = (op.inputs.as_slice(), op.outputs.as_slice()) else {
        return;
    };
    let ty = kernel.element_type;
    elements::epilogue(&convolution.epilogue, ty, output.count(), counts);
    let outputs = output.count() as f64;
    let features = kernel.dims[convolution.kernel.outer].max(1) as f64;
    let groups = convolution
        .feature_group_count
        .max(convolution.batch_group_count)
        .max(1) as f64;
    let spatial = convolution.kernel.spatial.iter();
    let window: f64 = spatial.map(|&dim| kernel.dims[dim] as f64).product();
    let depth = window * kernel.dims[convolution.kernel.feature] as f64;
    let flops = 2.0 * outputs * depth;
    let per_group = features / groups;
    if depth == window && per_group <= 1.0 {
        counts.add("depthwise", ty, flops);
    } else if per_group <= narrow_convolution::MAX_FEATURES as f64 {
        counts.add("narrow-convolution", ty, flops);
    } else {
        counts.add("product", ty, flops);
        // What a window costs beside products is measured by elements of patches, for each group, whether they are copied
        // or read in place; a window of one element needs none.
        let patches = outputs / per_group * depth;
        let class = match (window > 1.0, has_dense_features(convolution, op)) {
            (true, true) => "patch",
            (true, false) => "patch-apart",
            (false, _) => "operand",
        };
        counts.add(class, ty, patches);
        counts.add("result", ty, outputs);
    }
}

/// Whether the features of an input lie side by side, so that patches are copied in rows of them.
fn has_dense_features(convolution: &ConvolutionOp, op: &OpThunk) -> bool {
    op.inputs[0].strides.get(convolution.input.feature) == Some(&1)
}

fn count_fft(fft: &FftOp, op: &OpThunk, counts: &mut Counts) {
    let [output] = op.outputs.as_slice() else {
        return;
    };
    let is_real = matches!(fft.kind, FftKind::RealForward | FftKind::RealInverse);
    let input = &op.inputs[fft.operand];
    let ty = match input.element_type {
        PrimitiveType::F32 | PrimitiveType::C64 => PrimitiveType::C64,
        _ => PrimitiveType::C128,
    };
    let complex = match fft.kind {
        FftKind::RealInverse => input.count(),
        _ => output.count(),
    };
    for (at, &length) in fft.lengths.iter().enumerate() {
        let is_last = at + 1 == fft.lengths.len();
        let class = match (is_last, is_real) {
            (true, true) => "fft-real",
            (true, false) => "fft",
            (false, _) => "fft-columns",
        };
        let levels = (length.max(2) as f64).log2();
        counts.add(class, ty, complex as f64 * levels);
    }
}

/// Counts multiplications of a factorization or a solve, up to a constant factor, and elements. Batches of small
/// matrices are classes of their own.
fn count_linalg(linalg: &LinalgOp, op: &OpThunk, counts: &mut Counts) {
    let Some(matrix) = linalg.operands.first().and_then(|&at| op.inputs.get(at)) else {
        return;
    };
    let [batch @ .., rows, columns] = matrix.dims.as_slice() else {
        return;
    };
    let (m, n) = (rows.max(columns), rows.min(columns));
    let batch = product(batch);
    let (long, short) = (*m as f64, *n as f64);
    let amount = match linalg.routine {
        Routine::Trsm => {
            let right = linalg.operands.get(1).and_then(|&at| op.inputs.get(at));
            right.map_or(0.0, |right| right.count() as f64) * short
        }
        _ => batch * long * short * short,
    };
    let is_small = m.saturating_mul(*n) <= small_matrices::MAX_ELEMENTS as i64
        && batch >= small_matrices::MIN_TOGETHER as f64;
    let has_vectors = matches!(
        linalg.routine,
        Routine::Syevd | Routine::Gesdd | Routine::Geev | Routine::Gees
    );
    let vectors = if has_vectors && linalg.vectors {
        "-vectors"
    } else {
        ""
    };
    let size = if is_small { "-small" } else { "" };
    let name = format!("{:?}{vectors}{size}", linalg.routine).to_lowercase();
    counts.add(&name, matrix.element_type, amount);
    let elements = match linalg.routine {
        Routine::Trsm => amount / short.max(1.0),
        _ => batch * long * short,
    };
    counts.add(&format!("{name}-elements"), matrix.element_type, elements);
}
