//! `reduce-window`, `select-and-scatter`, and the arithmetic of windows that convolution shares.

use super::common::*;
use super::{Context, signature};
use crate::module::attributes::{AttrValue, Window, WindowDimension};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{Dims, PrimitiveType};
use crate::verify::inferred::InferredShape;

/// The `window` of `rank` dimensions; an absent one is a window over no dimension.
pub fn window(i: InstructionRef<'_>, rank: usize) -> Result<&[WindowDimension], String> {
    let dims: &[WindowDimension] = match i.attribute(AttrKey::Window) {
        None => &[],
        Some(AttrValue::Window(window)) => {
            let Window(dims) = &**window;
            dims
        }
        Some(_) => return Err("attribute window is not of the form {size=… …}".to_owned()),
    };
    if dims.len() != rank {
        return Err(format!(
            "window has {} dimensions, expected {rank}",
            dims.len()
        ));
    }
    Ok(dims)
}

/// Number of positions of a window along a dimension of size `base`.
pub fn positions(d: usize, base: i64, w: &WindowDimension) -> Result<i64, String> {
    for (what, value) in [
        ("size", w.size),
        ("stride", w.stride),
        ("window dilation (rhs_dilate)", w.window_dilation),
        ("base dilation (lhs_dilate)", w.base_dilation),
    ] {
        if value < 1 {
            return Err(format!(
                "the {what} of the window in dimension {d} is {value}, expected at least 1"
            ));
        }
    }
    let dilated = |n: i64, step: i64| match n {
        0 => Some(0),
        n => (n - 1).checked_mul(step).and_then(|n| n.checked_add(1)),
    };
    let what = "the size of the padded and dilated base or window";
    let extent = size(dilated(w.size, w.window_dilation), what)?;
    let base = size(
        dilated(base, w.base_dilation)
            .and_then(|n| n.checked_add(w.padding_low))
            .and_then(|n| n.checked_add(w.padding_high)),
        what,
    )?;
    if base < 0 {
        return Err(format!(
            "the padding of the window in dimension {d} takes more elements than there are"
        ));
    }
    Ok(if extent > base {
        0
    } else {
        (base - extent) / w.stride + 1
    })
}

/// The dimensions of all positions of the window over `dims`.
fn windowed(i: InstructionRef<'_>, dims: &[i64]) -> Result<Dims, String> {
    window(i, dims.len())?
        .iter()
        .zip(dims)
        .enumerate()
        .map(|(d, (w, &base))| positions(d, base, w))
        .collect()
}

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    if i.opcode() == HloOpcode::SelectAndScatter {
        let operand = array(i, 0)?;
        let source = windowed(i, &operand.dims)?;
        want_type(i, 1, operand.element_type, " like operand 0")?;
        want_dims(i, 1, &source, ", one element per window")?;
        scalar(i, 2)?;
        want_type(i, 2, operand.element_type, " like operand 0")?;
        return same_as_operand(i, 0);
    }
    let n = super::reduce::operand_pairs(i)?;
    let dims = windowed(i, &array(i, 0)?.dims)?;
    let parts = (0..n)
        .map(|k| Ok(InferredShape::array(array(i, n + k)?.element_type, &dims)))
        .collect::<Result<_, String>>()?;
    Ok(InferredShape::one_or_tuple(parts))
}

/// The called computations.
pub fn check(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    if i.opcode() != HloOpcode::SelectAndScatter {
        return super::reduce::check(i, cx);
    }
    let t = array(i, 0)?.element_type;
    let select = need_computation(i, AttrKey::SelectComputation)?;
    signature::scalar_function(i, "select", select, &[t, t], &[PrimitiveType::Pred])?;
    let scatter = need_computation(i, AttrKey::ScatterComputation)?;
    signature::scalar_function(i, "scatter", scatter, &[t, t], &[t])
}
