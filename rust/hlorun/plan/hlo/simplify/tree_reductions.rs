//! `tree-reductions`: a reduction of the results of windows that lie side by side reads what the windows read.
//!
//! In: a `reduce` of a `reduce-window` that nobody else reads, as XLA:CPU makes them of long reductions. Out: the `reduce` alone,
//! which fuses with what computes its operand. It adds floats in another order.
//!
//! Legal where both fold with one operation that may be regrouped; every element lies in one window; the dimensions in which
//! windows have extent are reduced; and the value that the windows begin with changes nothing: it is the operation's identity,
//! or the value with which the other one begins, of an operation that gives the same however often it takes a value.

use super::facts::{Number, is, splat};
use super::readers::{Readers, replace_each};
use crate::error::Result;
use crate::module::attributes::WindowDimension;
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::faults::{self, Fault};
use crate::plan::ops::combiner::{Combiner, Shortcut};
use crate::types::ArrayShape;
use hlorun_kernels::BinaryOp;

/// Name by which it is switched off.
pub const NAME: &str = "tree-reductions";

/// Runs the pass on all computations; the number of reductions that read other arrays.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let is_reduce =
        |module: &HloModule, id| module.instruction_data(id).opcode == HloOpcode::Reduce;
    replace_each(module, is_reduce, |module, id, readers| {
        // Long reductions are trees of several levels; each window is read by the one before it.
        let mut reader = id;
        while let Some(operands) = operands(module, id, reader, readers) {
            reader = module.operand_ids(id)[0];
            module.set_operands(id, &operands);
        }
        Ok(reader != id)
    })
}

/// What the reduction reads instead, and begins with. `reader` alone reads its windows.
fn operands(
    module: &HloModule,
    id: InstructionId,
    reader: InstructionId,
    readers: &Readers,
) -> Option<[InstructionId; 2]> {
    let reduction = module.instruction(id);
    let &[folded, init] = reduction.operand_ids() else {
        return None;
    };
    let windows = module.instruction(folded);
    if windows.opcode() != HloOpcode::ReduceWindow || readers.get(&folded)?[..] != [reader] {
        return None;
    }
    let &[array, first] = windows.operand_ids() else {
        return None;
    };
    let is_root = module.computation(windows.computation()).root == Some(folded);
    let op = operation(reduction)?;
    if is_root
        || operation(windows)? != op
        || !begins_with_nothing(module, op, [first, init])
        || !lie_side_by_side(reduction, windows, module.instruction(array).array_shape()?)
    {
        return None;
    }
    Some([array, init])
}

/// The only operation of a reducer.
fn operation(fold: InstructionRef<'_>) -> Option<BinaryOp> {
    match Combiner::of(fold, AttrKey::ToApply, 2, 1).ok()?.shortcut? {
        Shortcut::Binary(op) => Some(op),
        Shortcut::First | Shortcut::Second => None,
    }
}

/// Whether the operation may be regrouped, and the first of two initial values has no effect beside the second one.
fn begins_with_nothing(module: &HloModule, op: BinaryOp, inits: [InstructionId; 2]) -> bool {
    use BinaryOp as B;
    let [first, second] = inits;
    match op {
        // Beside a negative zero a positive one decides on the sign of a sum of zeros.
        B::Add if is_zero(module, first) => is_zero(module, second),
        B::Add => is(module, first, Number::NegativeZero),
        B::Xor => is(module, first, Number::Zero),
        B::Multiply => is(module, first, Number::One),
        B::Maximum | B::Minimum | B::And | B::Or => {
            let values = inits.map(|init| splat(module, init));
            first == second || matches!(values, [Some(a), Some(b)] if a == b)
        }
        _ => false,
    }
}

/// Whether a number is zero, or both its parts are: complex numbers are added part by part.
fn is_zero(module: &HloModule, id: InstructionId) -> bool {
    match splat(module, id) {
        Some((ty, element)) if ty.is_complex() => element.iter().all(|&byte| byte == 0),
        _ => is(module, id, Number::Zero),
    }
}

/// Whether every element of `array` lies in one window, and results of windows along one dimension are reduced.
fn lie_side_by_side(
    reduction: InstructionRef<'_>,
    windows: InstructionRef<'_>,
    array: &ArrayShape,
) -> bool {
    let (Some(window), Some(results)) = (windows.window(), windows.array_shape()) else {
        return false;
    };
    let is_static = array.is_static() && results.is_static();
    if !is_static || window.0.len() != array.rank() || array.rank() != results.rank() {
        return false;
    }
    let sizes = array.dims.iter().zip(&results.dims);
    let mut all = window.0.iter().zip(sizes).zip(0i64..);
    all.all(|((d, (&size, &count)), dim)| {
        let is_reduced = reduction.dimensions().contains(&dim);
        d.is_trivial() || is_reduced && holds_each_once(d, size, count)
    })
}

/// Whether each of `size` elements lies in one of `count` windows.
fn holds_each_once(d: &WindowDimension, size: i64, count: i64) -> bool {
    let is_dense = d.window_dilation == 1 && d.base_dilation == 1;
    let has_all = d.padding_low >= 0 && d.padding_high >= 0;
    let are_apart = faults::holds(Fault::FoldsOverlappingWindows, d.stride == d.size);
    let end = count.checked_mul(d.stride);
    let needed = d.padding_low.checked_add(size);
    is_dense && has_all && are_apart && end.is_some() && end >= needed && needed.is_some()
}
