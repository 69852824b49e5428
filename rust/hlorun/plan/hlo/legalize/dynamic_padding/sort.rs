//! Sorts of arrays with dynamic dimensions.
//!
//! In: a `sort` with operands of dynamic size. Out: the same, in which padding comes last: each
//! element brings along whether it is padding, and the comparator asks for that first.

use smallvec::SmallVec;

use super::{Padding, Sizes};
use crate::error::Result;
use crate::module::{AttrKey, AttrValue, ComputationId, HloOpcode, InstructionId};
use crate::plan::hlo::builder::{Builder, emit_computation};
use crate::plan::hlo::legalize::map;
use crate::types::{ArrayShape, PrimitiveType};

impl Padding<'_> {
    pub(crate) fn sort(&mut self, id: InstructionId) -> Result<InstructionId> {
        let dim = self.dimension(id)?;
        let operands: SmallVec<[InstructionId; 4]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        let sizes: Vec<Sizes> = operands.iter().map(|&o| self.sizes_of(o)).collect();
        let mut along = sizes.iter().flatten().filter(|&&(d, _)| d == dim);
        let Some(&(_, size)) = along.next() else {
            return Ok(self.keep_parts(id, sizes));
        };
        let Some(comparator) = self.comparator(id) else {
            return Err(self.refuse(id, "along a dimension of dynamic size"));
        };
        let dims = self.dims(operands[0]);
        let mut attributes = self.module.attributes_of(id).to_vec();
        for attribute in &mut attributes {
            if attribute.key == AttrKey::ToApply {
                attribute.value = AttrValue::Computation(comparator);
            }
        }
        let mut b = self.builder(id);
        let inside = b.inside(&dims, dim, size);
        let padding = b.elementwise(HloOpcode::Not, &[inside]);
        let mut sorted: SmallVec<[InstructionId; 4]> = operands.clone();
        sorted.push(padding);
        let shapes: SmallVec<[_; 4]> = sorted
            .iter()
            .map(|&o| b.module.instruction_data(o).shape)
            .collect();
        let shape = b.module.shapes_mut().tuple(&shapes);
        let sort = b.add(HloOpcode::Sort, shape, &sorted, &attributes, 0);
        let mut parts = Vec::with_capacity(operands.len());
        for (index, mut sizes) in sizes.into_iter().enumerate() {
            let part = self.builder(id).get_tuple_element(sort, index);
            sizes.push((dim, size));
            self.set_sizes(part, sizes);
            parts.push(part);
        }
        if let [part] = parts[..]
            && self.module.instruction(id).array_shape().is_some()
        {
            return Ok(part);
        }
        let tuple = self.builder(id).tuple(&parts);
        self.tuples.insert(tuple);
        Ok(tuple)
    }

    /// The comparator of a sort with one more operand, which says what is padding.
    fn comparator(&mut self, id: InstructionId) -> Option<ComputationId> {
        let instruction = self.module.instruction(id);
        let count = instruction.operand_ids().len();
        let own = instruction.computation_attribute(AttrKey::ToApply)?;
        let computation = self.module.computation(own);
        let (instructions, root) = (computation.instructions.clone(), computation.root?);
        let mut all = instructions.iter().map(|&id| self.module.instruction(id));
        if !all.all(map::is_liftable) {
            return None;
        }
        let mut types: SmallVec<[PrimitiveType; 4]> = SmallVec::new();
        for &operand in instruction.operand_ids() {
            types.push(self.module.instruction(operand).array_shape()?.element_type);
        }
        types.push(PrimitiveType::Pred);
        let scalars: SmallVec<[_; 8]> = types
            .iter()
            .flat_map(|&ty| [ty, ty])
            .map(|ty| self.module.shapes_mut().array(ArrayShape::new(ty, &[])))
            .collect();
        let (new, first) = emit_computation(self.module, id, scalars[0]);
        let mut inside = Builder {
            module: self.module,
            computation: new,
            like: id,
        };
        let mut parameters: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[first]);
        for (number, &shape) in scalars.iter().enumerate().skip(1) {
            parameters.push(inside.add(HloOpcode::Parameter, shape, &[], &[], number as u32));
        }
        let before = map::lifted(&mut inside, &parameters[..2 * count], &instructions, root)?;
        let (lhs, rhs) = (parameters[2 * count], parameters[2 * count + 1]);
        let differ = inside.elementwise(HloOpcode::Xor, &[lhs, rhs]);
        let root = inside.elementwise(HloOpcode::Select, &[differ, rhs, before]);
        let data = self.module.computation_mut(new);
        data.parameters.extend_from_slice(&parameters[1..]);
        data.root = Some(root);
        Some(new)
    }
}
