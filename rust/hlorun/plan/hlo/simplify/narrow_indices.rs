//! `narrow-indices`: indices that a reduction chooses among, in half the bits.
//!
//! Applies to operands of a `reduce` of several, `argmax` for one, that are 64 bits wide: all of them count, which is an
//! `iota` that is repeated or moved, up to what 32 bits hold, as their initial values do, and the reducer only compares
//! them with each other and chooses among them. Its other operands are narrower. Values and indices then have vectors of
//! as many elements, and the reducer is one piece of vector bytecode. What it chose is converted back.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::gather_scatter::become_one;
use super::readers::{Readers, replace_each};
use crate::error::Result;
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloComputation, HloModule, HloOpcode, InstructionId,
    NewInstruction,
};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::hlo::loops::induction_variable;
use crate::types::{ArrayShape, PrimitiveType};

/// Name by which it is switched off.
pub const NAME: &str = "narrow-indices";

/// What indices are, and what they become.
const WIDE: PrimitiveType = PrimitiveType::S64;
const NARROW: PrimitiveType = PrimitiveType::S32;

/// Runs the pass on all computations; the number of reductions that changed.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let is_wanted = |module: &HloModule, id| {
        module.instruction_data(id).opcode == HloOpcode::Reduce && module.operand_ids(id).len() > 2
    };
    replace_each(module, is_wanted, |module, id, readers| {
        let reduction = Reduction::of(module, id, readers);
        if let Some(reduction) = &reduction {
            reduction.replace(module)?;
        }
        Ok(reduction.is_some())
    })
}

/// An operand that counts.
struct Index {
    /// From the operand back to the iota.
    chain: Vec<InstructionId>,
    initial: i32,
}

/// A reduction that can be replaced.
struct Reduction {
    id: InstructionId,
    reducer: ComputationId,
    /// Of each array, whether and how it counts.
    indices: Vec<Option<Index>>,
    /// The results that are read, each with its number.
    results: Vec<(InstructionId, usize)>,
}

impl Reduction {
    fn of(module: &HloModule, id: InstructionId, users: &Readers) -> Option<Reduction> {
        let reduce = module.instruction(id);
        let operands = reduce.operand_ids();
        let (arrays, initial) = operands.split_at(operands.len() / 2);
        let mut indices = Vec::new();
        for (&array, &initial) in arrays.iter().zip(initial) {
            let shape = module.instruction(array).array_shape()?;
            let is_wide = shape.element_type.size_bytes() >= WIDE.size_bytes();
            indices.push(match is_wide {
                true => Some(Index::of(module, array, initial)?),
                false => None,
            });
        }
        let reducer = reduce.computation_attribute(AttrKey::ToApply)?;
        let is_changed = indices.iter().any(Option::is_some);
        if !is_changed || !only_chooses(module, reducer) {
            return None;
        }
        let root = module.computation(reduce.computation()).root;
        let readers = users.get(&id).into_iter().flatten();
        let results = readers.map(|&reader| {
            let data = module.instruction_data(reader);
            let is_element = data.opcode == HloOpcode::GetTupleElement;
            is_element.then_some((reader, data.immediate as usize))
        });
        let results = results.collect::<Option<Vec<_>>>()?;
        (root != Some(id)).then_some(Reduction {
            id,
            reducer,
            indices,
            results,
        })
    }

    fn replace(&self, module: &mut HloModule) -> Result<()> {
        let reducer = self.narrow_reducer(module)?;
        let mut operands: SmallVec<[InstructionId; 8]> =
            SmallVec::from_slice(module.operand_ids(self.id));
        let count = self.indices.len();
        let shape = module.instruction_data(self.id).shape;
        let mut parts = module
            .shapes()
            .get(shape)
            .as_tuple()
            .unwrap_or(&[])
            .to_vec();
        let mut builder = Builder {
            computation: module.instruction_data(self.id).computation,
            module,
            like: self.id,
        };
        let b = &mut builder;
        for (k, index) in self.indices.iter().enumerate() {
            let Some(index) = index else { continue };
            operands[k] = index.narrow(b);
            operands[count + k] = b.scalar_s32(index.initial);
            if let Some(part) = parts.get_mut(k) {
                *part = narrow_shape(b.module, *part);
            }
        }
        let mut attributes = b.module.attributes_of(self.id).to_vec();
        for attribute in &mut attributes {
            if attribute.key == AttrKey::ToApply {
                attribute.value = AttrValue::Computation(reducer);
            }
        }
        let shape = b.module.shapes_mut().tuple(&parts);
        let reduce = b.add(HloOpcode::Reduce, shape, &operands, &attributes, 0);
        for &(result, k) in &self.results {
            if self.indices[k].is_some() {
                let narrow = b.get_tuple_element(reduce, k);
                become_one(b.module, result, HloOpcode::Convert, &[narrow]);
            } else {
                b.module.set_operands(result, &[reduce]);
            }
        }
        Ok(())
    }

    /// The reducer, whose wide values are all indices, with narrow ones.
    fn narrow_reducer(&self, module: &mut HloModule) -> Result<ComputationId> {
        let old = module.computation(self.reducer);
        let (name, text, parameters) = (old.name, old.text, old.parameters.clone());
        let new = module.add_computation(HloComputation {
            name,
            text,
            ..HloComputation::default()
        });
        let mut arguments = Vec::new();
        for parameter in parameters {
            let data = module.instruction_data(parameter).clone();
            let argument = module.add_instruction(new, NewInstruction::like(&data, &[], &[]));
            module.computation_mut(new).parameters.push(argument);
            arguments.push(argument);
        }
        let root = inline::clone_body(module, self.reducer, new, &arguments)?;
        module.computation_mut(new).root = Some(root);
        for id in module.computation(new).instructions.clone() {
            let shape = module.instruction_data(id).shape;
            let shape = match module.shapes().get(shape).as_tuple().map(<[_]>::to_vec) {
                Some(mut parts) => {
                    for part in &mut parts {
                        *part = narrow_shape(module, *part);
                    }
                    module.shapes_mut().tuple(&parts)
                }
                None => narrow_shape(module, shape),
            };
            module.instruction_data_mut(id).shape = shape;
        }
        Ok(new)
    }
}

impl Index {
    /// An operand and its initial value, if both are small.
    fn of(module: &HloModule, array: InstructionId, initial: InstructionId) -> Option<Index> {
        let fits = |value: i64| faults::holds(Fault::CutsIndices, i32::try_from(value).is_ok());
        let initial = induction_variable::constant(module, initial)?;
        let mut chain = vec![array];
        let mut at = module.instruction(array);
        loop {
            let shape = at.array_shape()?;
            if shape.element_type != WIDE || !shape.is_static() {
                return None;
            }
            match at.opcode() {
                HloOpcode::Iota => {
                    let dimension = at.int(AttrKey::IotaDimension)?;
                    let size = *shape.dims.get(usize::try_from(dimension).ok()?)?;
                    return (fits(size) && fits(initial)).then_some(Index {
                        chain,
                        initial: initial as i32,
                    });
                }
                HloOpcode::Broadcast
                | HloOpcode::Reshape
                | HloOpcode::Transpose
                | HloOpcode::Reverse
                | HloOpcode::Slice => at = at.operand(0)?,
                _ => return None,
            }
            chain.push(at.id);
        }
    }

    /// The operand in narrow integers.
    fn narrow(&self, b: &mut Builder<'_>) -> InstructionId {
        let mut operands: SmallVec<[InstructionId; 1]> = SmallVec::new();
        for &id in self.chain.iter().rev() {
            let dims = b.shape(id).dims;
            let data = b.module.instruction_data(id).clone();
            let attributes = b.module.attributes_of(id).to_vec();
            let shape = b.module.shapes_mut().array(ArrayShape::new(NARROW, &dims));
            let new = b.add(data.opcode, shape, &operands, &attributes, data.immediate);
            operands = SmallVec::from_slice(&[new]);
        }
        operands[0]
    }
}

/// A shape of wide integers with narrow ones; another one as it is.
fn narrow_shape(module: &mut HloModule, shape: crate::types::ShapeId) -> crate::types::ShapeId {
    let Some(array) = module.shapes().get(shape).as_array() else {
        return shape;
    };
    if array.element_type != WIDE {
        return shape;
    }
    let dims = array.dims.clone();
    module.shapes_mut().array(ArrayShape::new(NARROW, &dims))
}

/// Whether the wide values of a reducer are its parameters and what is chosen among them, and are only compared with each
/// other.
fn only_chooses(module: &HloModule, reducer: ComputationId) -> bool {
    let mut wide: FxHashSet<InstructionId> = FxHashSet::default();
    let computation = module.computation(reducer);
    computation.instructions.iter().all(|&id| {
        let instruction = module.instruction(id);
        let is_wide = instruction
            .array_shape()
            .is_some_and(|shape| shape.element_type == WIDE);
        if is_wide {
            wide.insert(id);
        }
        let operands = instruction.operand_ids();
        let are_wide = |operands: &[InstructionId]| operands.iter().all(|id| wide.contains(id));
        let is_any = operands.iter().any(|id| wide.contains(id));
        match instruction.opcode() {
            HloOpcode::Parameter => true,
            HloOpcode::Select if is_wide => operands.len() == 3 && are_wide(&operands[1..]),
            HloOpcode::Maximum | HloOpcode::Minimum if is_wide => are_wide(operands),
            HloOpcode::Compare if is_any => are_wide(operands),
            HloOpcode::Tuple => Some(id) == computation.root,
            _ => !is_wide && !is_any,
        }
    })
}
