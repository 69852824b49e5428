//! The scalar computations of `reduce`, `sort`, `scatter`, `map` and their kin, as programs.
//!
//! In: a flattened computation over scalars. Out: a [`Program`] whose inputs are its parameters in
//! order and whose outputs are its root's leaves; it runs on any number of lanes at once. Outputs
//! always have memory of their own: one that is a parameter or constant is copied.

use hlorun_kernels::Side;
use rustc_hash::{FxHashMap, FxHashSet};

use super::elementwise;
use super::program::Meaning;
use super::program::{Program, ProgramBuilder, Register};
use crate::error::{HloError, Result};
use crate::module::opcode::elementwise_classes;
use crate::module::{ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::error::{elided_constant, unsupported};
use crate::types::PrimitiveType;

/// Compiles `computation`.
///
/// Errors: `HloError::Unsupported` naming the instruction that has no elementwise meaning on
/// scalars (a loop, say).
pub fn compile(module: &HloModule, computation: ComputationId) -> Result<Program> {
    let root = module
        .computation(computation)
        .root
        .ok_or_else(|| HloError::execution("a called computation has no root"))?;
    compile_values(module, computation, &[root])
}

/// Compiles what `values`, instructions of `computation`, need and no more; their leaves are the
/// outputs.
///
/// Errors: as [`compile`].
pub fn compile_values(
    module: &HloModule,
    computation: ComputationId,
    values: &[InstructionId],
) -> Result<Program> {
    let mut builder = ProgramBuilder::new();
    let data = module.computation(computation);
    let mut needed: FxHashSet<InstructionId> = FxHashSet::default();
    let mut open = values.to_vec();
    while let Some(id) = open.pop() {
        if needed.insert(id) {
            open.extend_from_slice(module.operand_ids(id));
        }
    }
    let mut registers: FxHashMap<InstructionId, Vec<Register>> = FxHashMap::default();
    for &parameter in &data.parameters {
        let instruction = module.instruction(parameter);
        let Some(shape) = instruction.array_shape() else {
            return Err(unsupported(
                instruction,
                "a computation applied element by element takes scalars, not tuples".into(),
            ));
        };
        let register = builder.input(shape.element_type);
        registers.insert(parameter, vec![register]);
    }
    for &id in &data.instructions {
        if needed.contains(&id) && !registers.contains_key(&id) {
            let result = lower(&mut builder, module.instruction(id), &registers)?;
            registers.insert(id, result);
        }
    }
    let mut outputs = Vec::new();
    for value in values {
        let result = registers
            .get(value)
            .ok_or_else(|| HloError::execution("a value of another computation"))?;
        outputs.extend_from_slice(result);
    }
    for output in &mut outputs {
        if !builder.is_computed(*output) {
            let ty = builder.ty(*output);
            *output = builder.reinterpret(*output, ty);
        }
    }
    Ok(builder.finish(&outputs))
}

/// The code of one instruction of scalars.
fn lower(
    builder: &mut ProgramBuilder,
    instruction: InstructionRef<'_>,
    values: &FxHashMap<InstructionId, Vec<Register>>,
) -> Result<Vec<Register>> {
    let ids = instruction.operand_ids();
    let all = |index: usize| ids.get(index).and_then(|id| values.get(id));
    let scalar = |index: usize| {
        all(index)
            .and_then(|registers| registers.first().copied())
            .ok_or_else(|| HloError::execution("operand used before it is defined"))
    };
    let refuse = |what: String| Err(unsupported(instruction, what));
    let shape = instruction.array_shape();
    if shape.is_some_and(|shape| shape.element_count() != Some(1)) {
        return refuse("arrays inside a computation applied element by element".into());
    }
    let register = match instruction.opcode().class() {
        elementwise_classes!() => {
            let registers = (0..ids.len()).map(scalar).collect::<Result<Vec<_>>>()?;
            emit(builder, instruction, &registers)?
        }
        OpClass::Constant => {
            let literal = instruction.literal().and_then(|l| l.bytes());
            match (shape, literal) {
                (Some(shape), Some(bytes)) => builder.constant(shape.element_type, bytes),
                _ => return Err(elided_constant(instruction)),
            }
        }
        OpClass::Iota => {
            let ty = shape.map_or(PrimitiveType::S32, |s| s.element_type);
            builder.constant(ty, &[0; 16])
        }
        OpClass::Movement if !instruction.changes_element_type() => scalar(0)?,
        OpClass::Movement | OpClass::BitcastConvert => {
            let register = scalar(0)?;
            let size = builder.ty(register).size_bytes();
            match shape.map(|shape| shape.element_type) {
                Some(ty) if ty.size_bytes() == size => builder.reinterpret(register, ty),
                _ => {
                    let name = instruction.opcode_name();
                    return refuse(format!("{name} of another width on scalars"));
                }
            }
        }
        OpClass::Tuple if instruction.opcode() == HloOpcode::Tuple => {
            let elements = (0..ids.len()).filter_map(all);
            return Ok(elements.flatten().copied().collect());
        }
        OpClass::Tuple => {
            let index = instruction.tuple_index().unwrap_or(0);
            let element = all(0).and_then(|registers| registers.get(index));
            *element.ok_or_else(|| HloError::execution("tuple index out of range"))?
        }
        _ => {
            let name = instruction.opcode_name();
            return refuse(format!(
                "{name} inside a computation applied element by element"
            ));
        }
    };
    Ok(vec![register])
}

/// Adds the elementwise `instruction` to a program.
pub fn emit(
    builder: &mut ProgramBuilder,
    instruction: InstructionRef<'_>,
    operands: &[Register],
) -> Result<Register> {
    let Some(shape) = instruction.array_shape() else {
        return Err(unsupported(
            instruction,
            format!("{} of tuples", instruction.opcode_name()),
        ));
    };
    let types: smallvec::SmallVec<[_; 3]> = operands.iter().map(|&r| builder.ty(r)).collect();
    let op = elementwise::meaning(instruction, &types);
    if let [left, right] = *operands {
        // A constant on one side needs no array of its own.
        let sides = [(Side::Right, right, left), (Side::Left, left, right)];
        for (side, constant, array) in sides {
            if let Some(value) = builder.constant_value(constant)
                && builder.constant_value(array).is_none()
                && let Some(kernel) =
                    elementwise::kernel_with_scalar(instruction, types[0], side, value)
            {
                let side = Some(side);
                let meaning = op.map(|op| Meaning { op, side });
                return Ok(builder.known_step(kernel, meaning, &[array], shape.element_type));
            }
        }
    }
    let kernel = elementwise::kernel(instruction, &types, shape.element_type)?;
    let meaning = op.map(Meaning::of);
    Ok(builder.known_step(kernel, meaning, operands, shape.element_type))
}
