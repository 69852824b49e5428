//! Rules for folds.

use super::rule::{Change, Rule};
use crate::module::attributes::WindowDimension;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::map::{is_liftable, lifted};
use crate::types::{Dims, PrimitiveType};

/// All of them.
pub(super) const RULES: &[Rule] = &[of_one_element];

/// A fold that reads one element for each result is its reducer, of the initial value and that element.
fn of_one_element(b: &mut Builder<'_>) -> Option<Change> {
    let fold = b.module.instruction(b.like);
    let opcode = fold.opcode();
    if !matches!(opcode, HloOpcode::Reduce | HloOpcode::ReduceWindow) {
        return None;
    }
    let &[operand, init] = fold.operand_ids() else {
        return None;
    };
    let shape = fold.array_shape().filter(|shape| shape.is_static())?;
    let (ty, dims) = (shape.element_type, shape.dims.clone());
    let reducer = fold.computation_attribute(AttrKey::ToApply)?;
    if !is_elementwise_of(b.module, reducer, ty) {
        return None;
    }
    let of = |id: InstructionId| {
        let shape = b.module.instruction(id).array_shape()?;
        (shape.is_static() && shape.element_type == ty).then(|| shape.clone())
    };
    if of(init)?.element_count() != Some(1) {
        return None;
    }
    let read = of(operand)?.dims;
    let elements = match opcode {
        HloOpcode::Reduce => {
            let mut sizes = fold.dimensions().iter().map(|&d| read.get(d as usize));
            sizes
                .all(|size| size == Some(&1))
                .then(|| b.reshape(operand, &dims))?
        }
        _ => at_windows(b, operand, &dims)?,
    };
    let init = b.reshape(init, &[]);
    let init = b.broadcast(init, &dims);
    let computation = b.module.computation(reducer);
    let (instructions, root) = (computation.instructions.clone(), computation.root?);
    lifted(b, &[init, elements], &instructions, root).map(Change::Same)
}

/// Whether a reducer is made of elementwise instructions, and takes and gives elements of type `ty`.
fn is_elementwise_of(module: &HloModule, reducer: ComputationId, ty: PrimitiveType) -> bool {
    let computation = module.computation(reducer);
    let of_type = |&id: &InstructionId| {
        let shape = module.instruction(id).array_shape();
        shape.is_some_and(|shape| shape.element_type == ty)
    };
    let mut all = computation.instructions.iter();
    computation.root.as_ref().is_some_and(of_type)
        && all.all(|id| {
            let instruction = module.instruction(*id);
            is_liftable(instruction)
                && (instruction.opcode() != HloOpcode::Parameter || of_type(id))
        })
}

/// The elements of `operand` that the windows hold, if each of the `results` windows holds one.
fn at_windows(
    b: &mut Builder<'_>,
    operand: InstructionId,
    results: &[i64],
) -> Option<InstructionId> {
    let window = b.module.instruction(b.like).window()?.clone();
    let sizes = b.shape(operand).dims;
    if window.0.len() != results.len() || sizes.len() != results.len() {
        return None;
    }
    let mut limits = Dims::new();
    for ((d, &count), &size) in window.0.iter().zip(results).zip(&sizes) {
        let at_its_place = WindowDimension {
            size: 1,
            stride: 1,
            ..*d
        };
        if !faults::holds(Fault::ReadsOneOfMany, d.size == 1)
            || !at_its_place.is_trivial()
            || d.stride < 1
            || count < 1
        {
            return None;
        }
        let limit = (count - 1).checked_mul(d.stride)?.checked_add(1)?;
        limits.push((limit <= size).then_some(limit)?);
    }
    let mut elements = operand;
    for (dim, (d, &limit)) in window.0.iter().zip(&limits).enumerate() {
        elements = b.strided_slice(elements, dim, (0, limit, d.stride));
    }
    Some(elements)
}
