//! Sizes of values, and operation counts of single opcodes.
//!
//! In: an instruction. Out: elements, bytes or operations as floating-point numbers, so that no size
//! a text can state overflows.

use crate::module::attributes::{ConvolutionDimensionNumbers, WindowDimension};
use crate::module::{AttrKey, AttrValue, HloModule, InstructionRef};
use crate::types::{ArrayShape, Shape, ShapeId, ShapeIndex};

/// Bytes of a pointer, which is what a tuple holds for each element.
pub(super) const POINTER: f64 = 8.0;
/// Most arrays of one shape that are told apart.
pub(super) const MAX_LEAVES: usize = 1 << 20;

/// Elements of an array, or of a tuple's first array.
pub(super) fn elements(instruction: InstructionRef<'_>) -> f64 {
    let shapes = instruction.module.shapes();
    let mut id = instruction.shape_id();
    loop {
        match shapes.get(id) {
            Shape::Array(array) => return count(array),
            Shape::Tuple(parts) if !parts.is_empty() => id = parts[0],
            _ => return 0.0,
        }
    }
}

pub(super) fn count(array: &ArrayShape) -> f64 {
    array.dims.iter().map(|&d| d as f64).product()
}

/// Bytes of a value itself: an array's elements, a tuple's table of pointers.
pub(super) fn size(module: &HloModule, id: ShapeId) -> f64 {
    match module.shapes().get(id) {
        Shape::Array(array) => count(array) * array.element_type.size_bytes() as f64,
        Shape::Tuple(parts) => POINTER * parts.len() as f64,
        Shape::Opaque => POINTER,
        Shape::Buffer(inner) => match module.shapes().get(*inner) {
            Shape::Array(array) => count(array) * array.element_type.size_bytes() as f64,
            _ => POINTER,
        },
        Shape::Token => 0.0,
    }
}

pub(super) fn size_of(instruction: InstructionRef<'_>) -> f64 {
    size(instruction.module, instruction.shape_id())
}

/// The arrays of a shape with their indices.
pub(super) fn arrays(instruction: InstructionRef<'_>) -> Vec<(ShapeIndex, f64)> {
    let module = instruction.module;
    if instruction.array_shape().is_some() {
        return vec![(ShapeIndex::default(), size_of(instruction))];
    }
    let leaves = module.shapes().leaves(instruction.shape_id(), MAX_LEAVES);
    leaves
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, id)| module.shapes().get(*id).as_array().is_some())
        .map(|(index, id)| (index, size(module, id)))
        .collect()
}

pub(super) fn logarithm(value: f64, round: fn(f64) -> f64) -> f64 {
    if value < 2.0 {
        0.0
    } else {
        round(value.log2())
    }
}

/// Whether a transpose leaves every element where it is in memory.
pub(super) fn is_bitcast(transpose: InstructionRef<'_>) -> bool {
    let (Some(from), Some(to)) = (
        transpose.operand(0).and_then(|o| o.array_shape()),
        transpose.array_shape(),
    ) else {
        return false;
    };
    let permutation = transpose.dimensions();
    if permutation.len() != to.rank() || from.rank() != to.rank() {
        return false;
    }
    let wide = |shape: &ArrayShape| -> Vec<usize> {
        let order = shape.minor_to_major();
        order
            .iter()
            .map(|&d| usize::from(d))
            .filter(|&d| shape.dims.get(d) != Some(&1))
            .collect()
    };
    let moved: Option<Vec<usize>> = wide(to)
        .into_iter()
        .map(|d| permutation.get(d).map(|&d| d as usize))
        .collect();
    moved == Some(wide(from))
}

pub(super) fn last_dimension(instruction: Option<InstructionRef<'_>>) -> f64 {
    let shape = instruction.and_then(|i| i.array_shape());
    shape.and_then(|s| s.dims.last()).map_or(0.0, |&d| d as f64)
}

pub(super) fn dot_flops(instruction: InstructionRef<'_>, contracting: &[i64]) -> f64 {
    let Some(lhs) = instruction.operand(0).and_then(|o| o.array_shape()) else {
        return 0.0;
    };
    let width: f64 = contracting
        .iter()
        .filter_map(|&d| lhs.dims.get(usize::try_from(d).ok()?))
        .map(|&size| size as f64)
        .product();
    2.0 * elements(instruction) * width
}

pub(super) fn windows(instruction: InstructionRef<'_>) -> &[WindowDimension] {
    instruction.window().map_or(&[], |window| &window.0)
}

/// How often a reduce-window applies its function. A window that always covers a whole dimension is
/// a reduction whose result is broadcast.
pub(super) fn window_reductions(instruction: InstructionRef<'_>) -> f64 {
    let window = windows(instruction);
    let outputs = elements(instruction);
    let size: f64 = window.iter().map(|d| d.size as f64).product();
    let reduced = window.iter().filter(|d| d.size != 1).count();
    let padded = window
        .iter()
        .filter(|d| d.padding_low != 0 || d.padding_high != 0)
        .count();
    let whole = window.iter().position(|d| {
        d.size != 1
            && d.padding_low > 0
            && d.padding_low == d.padding_high
            && (d.size - 1) / 2 == d.padding_low
            && d.size % 2 == 1
    });
    if let (1, 1, Some(dim), Some(shape)) = (reduced, padded, whole, instruction.array_shape())
        && shape
            .dims
            .get(dim)
            .is_some_and(|&d| window[dim].padding_low == d - 1)
    {
        let span = shape.dims[dim] as f64;
        return outputs / span + (span - 1.0);
    }
    (size - 1.0) * outputs
}

pub(super) fn convolution_flops(instruction: InstructionRef<'_>) -> f64 {
    let Some(AttrValue::DimLabels(numbers)) = instruction.attribute(AttrKey::DimLabels) else {
        return 0.0;
    };
    let shape = |k: usize| instruction.operand(k).and_then(|o| o.array_shape());
    let (Some(lhs), Some(rhs), Some(out)) = (shape(0), shape(1), instruction.array_shape()) else {
        return 0.0;
    };
    let at = |shape: &ArrayShape, dim: i64| {
        usize::try_from(dim)
            .ok()
            .and_then(|d| shape.dims.get(d))
            .copied()
            .unwrap_or(1)
    };
    let numbers: &ConvolutionDimensionNumbers = numbers;
    let group = |key| instruction.int(key).unwrap_or(1).max(1);
    let input = at(lhs, numbers.input_feature) / group(AttrKey::FeatureGroupCount);
    let batch = at(lhs, numbers.input_batch) / group(AttrKey::BatchGroupCount);
    let mut products = input as f64 * at(out, numbers.output_feature) as f64 * batch as f64;
    for (k, dim) in windows(instruction).iter().enumerate() {
        let dims = |list: &[i64]| list.get(k).copied().unwrap_or(-1);
        products *= valid_positions(
            dim,
            at(lhs, dims(&numbers.input_spatial)),
            at(rhs, dims(&numbers.kernel_spatial)),
            at(out, dims(&numbers.output_spatial)),
        );
    }
    2.0 * products
}

/// Longest side of a spatial dimension that is walked; see [`valid_positions`].
const MAX_WALK: i64 = 1 << 22;

/// Pairs of a kernel and an output position along one dimension that meet an element of the input,
/// not padding or a hole. Where both sides are longer than [`MAX_WALK`], all pairs.
fn valid_positions(dim: &WindowDimension, input: i64, kernel: i64, output: i64) -> f64 {
    let (walked, counted, step, stride) = if kernel <= output {
        (kernel, output, dim.window_dilation, dim.stride)
    } else {
        (output, kernel, dim.stride, dim.window_dilation)
    };
    if walked > MAX_WALK {
        return kernel as f64 * output as f64;
    }
    let low = i128::from(dim.padding_low);
    (0..i128::from(walked))
        .map(|k| {
            let start = k * i128::from(step) - low;
            let count = hits(start, i128::from(stride), i128::from(counted), dim, input);
            count as f64
        })
        .sum()
}

/// How many of `start + i * stride`, `i < count`, are the place of an input element.
fn hits(start: i128, stride: i128, count: i128, dim: &WindowDimension, input: i64) -> i128 {
    let dilation = i128::from(dim.base_dilation.max(1));
    let stride = stride.max(1);
    let last = (i128::from(input) - 1) * dilation;
    let from = (-start).max(0).div_euclid(stride) + i128::from((-start).max(0) % stride != 0);
    let to = (last - start).div_euclid(stride).min(count - 1);
    if input <= 0 || last < start || from > to {
        return 0;
    }
    // Solutions of `start + i * stride ≡ 0` lie `period` apart, if there are any.
    let (divisor, inverse) = extended_gcd(stride.rem_euclid(dilation), dilation);
    if start % divisor != 0 {
        return 0;
    }
    let period = dilation / divisor;
    let residue = ((-start / divisor).rem_euclid(period) * inverse.rem_euclid(period)) % period;
    let first = from + (residue - from).rem_euclid(period);
    if first > to {
        0
    } else {
        (to - first) / period + 1
    }
}

/// The greatest common divisor of `a` and `b`, and what `a` is to be multiplied with to become it
/// modulo `b`.
fn extended_gcd(a: i128, b: i128) -> (i128, i128) {
    let (mut old, mut rest) = (a, b);
    let (mut old_factor, mut factor) = (1, 0);
    while rest != 0 {
        let quotient = old / rest;
        (old, rest) = (rest, old - quotient * rest);
        (old_factor, factor) = (factor, old_factor - quotient * factor);
    }
    (old.max(1), old_factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_as_a_walk_counts_them() {
        for (stride, dilation, base, low) in [
            (1, 1, 1, 0),
            (2, 1, 1, 1),
            (1, 2, 3, 2),
            (3, 1, 2, -1),
            (4, 3, 6, 5),
        ] {
            for (input, kernel, output) in [(8, 3, 8), (5, 7, 4), (1, 1, 1), (4, 9, 9)] {
                let dim = WindowDimension {
                    size: kernel,
                    stride,
                    padding_low: low,
                    window_dilation: dilation,
                    base_dilation: base,
                    ..WindowDimension::default()
                };
                let mut walked = 0;
                for k in 0..kernel {
                    for o in 0..output {
                        let at = o * stride - low + k * dilation;
                        walked += i64::from(at >= 0 && at % base == 0 && at / base < input);
                    }
                }
                let counted = valid_positions(&dim, input, kernel, output);
                assert_eq!(counted, walked as f64, "{dim:?} {input} {output}");
            }
        }
    }
}
