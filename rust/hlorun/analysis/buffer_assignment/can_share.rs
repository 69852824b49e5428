//! May an instruction write its result over an operand that it is the last to read?
//!
//! [`can_share`] has XLA's general rules, which an assignment may rely on; backends allow more, and
//! [`works_in_place`] knows what.

use foldhash::HashSet;
use smallvec::{SmallVec, smallvec};

use crate::analysis::dataflow::{HloAliasAnalysis, HloDataflowAnalysis, PositionId};
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, OpClass};
use crate::types::{ArrayShape, Shape};

/// Whether the part `to` of `user`'s result may lie where the part `from` of an operand does.
pub fn can_share(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    alias: &HloAliasAnalysis,
    from: PositionId,
    user: InstructionId,
    to: PositionId,
) -> bool {
    let positions = &dataflow.positions;
    let operand = positions.instruction(from);
    let instruction = module.instruction(user);
    if module.instruction(operand).opcode() == HloOpcode::Constant
        || instruction.opcode() == HloOpcode::Copy
        || positions.shape(from) != positions.shape(to)
    {
        return false;
    }
    let (from_index, to_index) = (positions.index(from), positions.index(to));
    let operands = module.operand_ids(user);
    let numbers: Vec<usize> = (0..operands.len())
        .filter(|&i| operands[i] == operand)
        .collect();
    let Some(&first) = numbers.first() else {
        return false;
    };
    let in_place = alias.in_place_pairs(user).iter().any(|pair| {
        numbers.contains(&(pair.operand as usize))
            && pair.operand_index == from_index
            && pair.output == to_index
    });
    if in_place {
        return true;
    }
    match instruction.opcode() {
        HloOpcode::Fusion => {
            let kind = instruction.enumeration(AttrKey::Kind);
            let elementwise = matches!(kind.as_deref(), Some("kLoop" | "kInput"));
            let parameter = instruction
                .computation_attribute(AttrKey::Calls)
                .and_then(|callee| module.computation(callee).parameters.get(first).copied());
            elementwise && parameter.is_some_and(|p| only_elementwise_uses(module, dataflow, p))
        }
        HloOpcode::While | HloOpcode::Conditional => true,
        HloOpcode::DynamicUpdateSlice | HloOpcode::Scatter | HloOpcode::SetDimensionSize => {
            numbers == [0]
        }
        HloOpcode::TriangularSolve => numbers == [1],
        HloOpcode::Sort => {
            let users = dataflow.users.of(operand);
            let only_user = users.iter().all(|(other, _)| *other == user);
            let same_place = numbers.len() == 1 && to_index.0.first() == Some(&(first as i64));
            only_user && (operands.len() == 1 || same_place)
        }
        _ => is_elementwise(module, user, first),
    }
}

/// Whether `user` is known to leave right results when the part `to` of its result lies in the very
/// bytes of the part `from` of an operand that nobody else needs: by the general rules, or because
/// each element is read before the same bytes are written.
pub fn works_in_place(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    alias: &HloAliasAnalysis,
    from: PositionId,
    user: InstructionId,
    to: PositionId,
) -> bool {
    if can_share(module, dataflow, alias, from, user, to) {
        return true;
    }
    let positions = &dataflow.positions;
    let shapes = (
        module.shapes().get(positions.shape(from)),
        module.shapes().get(positions.shape(to)),
    );
    let (Shape::Array(read), Shape::Array(written)) = shapes else {
        return false;
    };
    let same_places = read.dims == written.dims
        && read.minor_to_major() == written.minor_to_major()
        && read.element_type.size_bytes() == written.element_type.size_bytes();
    let operand = positions.instruction(from);
    let operands = module.operand_ids(user).iter();
    let mut numbers = operands.enumerate().filter(|(_, id)| **id == operand);
    let instruction = module.instruction(user);
    let part = positions.index(to).0.first().copied();
    match instruction.opcode() {
        HloOpcode::Fusion => {
            let callee = instruction.computation_attribute(AttrKey::Calls);
            let parameters = callee.map(|callee| &module.computation(callee).parameters);
            // The only element is read before the only element is written.
            let is_single = |array: &ArrayShape| array.dims.iter().all(|&dim| dim == 1);
            let same_size = read.element_type.size_bytes() == written.element_type.size_bytes();
            is_single(read) && is_single(written) && same_size
                || same_places
                    && numbers.all(|(number, _)| {
                        // A module made from a dump of its memory does not say what a fusion computes.
                        let Some(parameters) = parameters else {
                            return true;
                        };
                        let parameter = parameters.get(number).copied();
                        parameter.is_some_and(|p| only_elementwise_uses(module, dataflow, p))
                    })
        }
        HloOpcode::AllReduce | HloOpcode::AllReduceStart => {
            same_places && numbers.all(|(number, _)| part.is_none_or(|part| part == number as i64))
        }
        HloOpcode::Cholesky => same_places,
        HloOpcode::CustomCall => {
            let target = instruction.custom_call_target().unwrap_or_default();
            let place = match target.as_ref() {
                // What is added to the product is where the product is accumulated.
                target if target.starts_with("__cublas$") => 2,
                "__cusolver$cholesky" => 0,
                _ => return false,
            };
            same_places
                && part.is_none_or(|part| part == 0)
                && numbers.all(|(number, _)| number == place)
        }
        _ => same_places && numbers.all(|(number, _)| is_elementwise(module, user, number)),
    }
}

/// Whether everything that depends on `start` inside its computation reads it element by element.
fn only_elementwise_uses(
    module: &HloModule,
    dataflow: &HloDataflowAnalysis,
    start: InstructionId,
) -> bool {
    /// Most instructions that are gone through to look for one.
    const FEW: usize = 32;
    let mut stack: SmallVec<[InstructionId; FEW]> = smallvec![start];
    let mut few: SmallVec<[InstructionId; FEW]> = smallvec![start];
    let mut others: HashSet<InstructionId> = HashSet::default();
    while let Some(id) = stack.pop() {
        for &(user, operand) in dataflow.users.of(id) {
            let is_tuple = module.instruction(user).opcode() == HloOpcode::Tuple;
            if !is_tuple && !is_elementwise(module, user, operand as usize) {
                return false;
            }
            if few.contains(&user) {
                continue;
            }
            if few.len() < FEW {
                few.push(user);
            } else if !others.insert(user) {
                continue;
            }
            stack.push(user);
        }
    }
    true
}

fn is_elementwise(module: &HloModule, id: InstructionId, operand: usize) -> bool {
    let instruction = module.instruction(id);
    match instruction.opcode().class() {
        OpClass::Unary
        | OpClass::Binary
        | OpClass::Compare
        | OpClass::Convert
        | OpClass::BitcastConvert
        | OpClass::Complex => true,
        // A scalar predicate or bound is read once for all elements.
        OpClass::Select | OpClass::Clamp => {
            let scalar = |o: crate::module::InstructionRef<'_>| match o.shape() {
                Shape::Array(array) => array.rank() == 0,
                _ => false,
            };
            let whole = !instruction.operand(operand).is_some_and(scalar);
            whole || matches!(instruction.shape(), Shape::Array(a) if a.rank() == 0)
        }
        OpClass::Map => true,
        OpClass::Movement => instruction.opcode() == HloOpcode::Copy,
        OpClass::DynamicIndex => {
            instruction.opcode() == HloOpcode::DynamicUpdateSlice && operand == 0
        }
        OpClass::Constant
        | OpClass::Parameter
        | OpClass::Iota
        | OpClass::Tuple
        | OpClass::Assemble
        | OpClass::GatherScatter
        | OpClass::Dot
        | OpClass::Convolution
        | OpClass::Reduce
        | OpClass::Window
        | OpClass::Scan
        | OpClass::Sort
        | OpClass::Fft
        | OpClass::LinearAlgebra
        | OpClass::BatchNorm
        | OpClass::Random
        | OpClass::ControlFlow
        | OpClass::CustomCall
        | OpClass::Collective
        | OpClass::DeviceId
        | OpClass::DynamicShape
        | OpClass::Ordering
        | OpClass::AsyncCopy
        | OpClass::HostTransfer
        | OpClass::Unknown => false,
    }
}
