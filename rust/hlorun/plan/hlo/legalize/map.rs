//! `map`, written out.
//!
//! In: a flattened module. Out: the same without `map`. The computation's instructions are applied to
//! whole arrays; its constants are repeated everywhere. One that holds something else than elementwise
//! instructions of single elements becomes a `scan` without carries, which is a loop over the elements.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{HloError, Result};
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, Effects, HloModule, HloOpcode, InstructionId,
    InstructionRef, OpClass,
};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::replace;
use crate::plan::hlo::pass::PassContext;
use crate::types::Dims;

/// Replaces every `map`, inner ones first.
pub fn run(module: &mut HloModule, cx: &mut PassContext<'_>) -> Result<usize> {
    let is_map = |instruction: InstructionRef<'_>| {
        let function = instruction.computation_attribute(AttrKey::ToApply);
        instruction.opcode() == HloOpcode::Map
            && !function.is_some_and(|function| has_effects(instruction.module, function))
    };
    replace::each(module, cx, is_map, |b, id| {
        write(b, id).ok_or_else(|| HloError::execution("a map without its parts"))
    })
}

/// Whether the lowering refuses to apply `function`, because nothing says how often it runs.
fn has_effects(module: &HloModule, function: ComputationId) -> bool {
    let effect = Effects::default().of_computation(module, function);
    effect.must_run()
}

fn write(b: &mut Builder<'_>, id: InstructionId) -> Option<InstructionId> {
    let map = b.module.instruction(id);
    let function = map.computation_attribute(AttrKey::ToApply)?;
    let operands = map.operand_ids().to_vec();
    let computation = b.module.computation(function);
    let (instructions, root) = (computation.instructions.clone(), computation.root?);
    let all = || instructions.iter().map(|&id| b.module.instruction(id));
    if !all().all(is_liftable) {
        let value = scanned(b, &operands, function, root)?;
        return Some(sized(b, value, &operands));
    }
    let value = lifted(b, &operands, &instructions, root)?;
    // What reads operands has their sizes.
    Some(match reads_any(b, value, &operands) {
        true => value,
        false => sized(b, value, &operands),
    })
}

/// Whether an instruction on single elements means the same for all elements of whole arrays.
pub(crate) fn is_liftable(instruction: InstructionRef<'_>) -> bool {
    let is_one = |i: InstructionRef<'_>| {
        let shape = i.array_shape();
        shape.is_some_and(|shape| shape.element_count() == Some(1))
    };
    let class = instruction.opcode().class();
    let is_known = match class {
        elementwise_classes!() | OpClass::Constant | OpClass::Parameter | OpClass::Iota => true,
        OpClass::Movement => !instruction.changes_element_type(),
        OpClass::BitcastConvert => true,
        _ => false,
    };
    is_known && is_one(instruction) && instruction.operands().all(is_one)
}

/// `root`, and those of `instructions` that come before it, on whole arrays.
pub(crate) fn lifted(
    b: &mut Builder<'_>,
    operands: &[InstructionId],
    instructions: &[InstructionId],
    root: InstructionId,
) -> Option<InstructionId> {
    let dims = b.shape(*operands.first()?).dims;
    let mut values: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for &id in instructions {
        let data = b.module.instruction_data(id).clone();
        let ty = b.shape(id).element_type;
        let read = b.module.operand_ids(id).iter();
        let read = read.map(|operand| values.get(operand).copied());
        let read: Vec<InstructionId> = read.collect::<Option<_>>()?;
        let value = match data.opcode.class() {
            OpClass::Parameter => *operands.get(data.immediate as usize)?,
            OpClass::Movement => *read.first()?,
            OpClass::Constant => {
                let constant = b.add(data.opcode, data.shape, &[], &[], data.immediate);
                let constant = b.reshape(constant, &[]);
                b.broadcast(constant, &dims)
            }
            OpClass::Iota => b.zeros(ty, &dims),
            _ => {
                let attributes = b.module.attributes_of(id).iter();
                // What it waits for is elsewhere.
                let attributes = attributes.filter(|a| a.key != AttrKey::ControlPredecessors);
                let attributes: Vec<Attribute> = attributes.cloned().collect();
                b.add_array(data.opcode, ty, &dims, &read, &attributes)
            }
        };
        values.insert(id, value);
    }
    values.get(&root).copied()
}

/// The computation at one element after the other.
fn scanned(
    b: &mut Builder<'_>,
    operands: &[InstructionId],
    function: ComputationId,
    root: InstructionId,
) -> Option<InstructionId> {
    let shape = b.shape(*operands.first()?);
    let line = [shape.element_count()?];
    let flat: Vec<InstructionId> = operands.iter().map(|&x| b.reshape(x, &line)).collect();
    let attributes = [
        b.ints(AttrKey::Dimensions, &[0]),
        Attribute {
            key: AttrKey::NumCarries,
            value: AttrValue::Int(0),
        },
        Attribute {
            key: AttrKey::ToApply,
            value: AttrValue::Computation(function),
        },
    ];
    let ty = b.shape(root).element_type;
    let result = b.add_array(HloOpcode::Scan, ty, &line, &flat, &attributes);
    Some(b.reshape(result, &shape.dims))
}

/// Whether a lifted value comes from any of the operands.
fn reads_any(b: &Builder<'_>, value: InstructionId, operands: &[InstructionId]) -> bool {
    let mut seen = FxHashSet::default();
    let mut work = vec![value];
    while let Some(id) = work.pop() {
        if operands.contains(&id) {
            return true;
        }
        if seen.insert(id) {
            work.extend(b.module.operand_ids(id));
        }
    }
    false
}

/// `value` with the dynamic sizes of the operands.
fn sized(b: &mut Builder<'_>, value: InstructionId, operands: &[InstructionId]) -> InstructionId {
    let mut value = value;
    let shape = b.shape(value);
    for dim in 0..shape.rank() {
        let is_dynamic = |&&x: &&InstructionId| {
            let shape = b.module.instruction(x).array_shape();
            shape.is_some_and(|shape| shape.is_dynamic_dimension(dim))
        };
        let Some(&operand) = operands.iter().find(is_dynamic) else {
            continue;
        };
        let size = b.dimension_size(operand, dim);
        let dimension = b.ints(AttrKey::Dimensions, &[dim as i64]);
        let dims: Dims = shape.dims.clone();
        let of = [value, size];
        let ty = shape.element_type;
        value = b.add_array(HloOpcode::SetDimensionSize, ty, &dims, &of, &[dimension]);
    }
    value
}
