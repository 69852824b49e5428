//! What a call of a library returns: values in the types the text declares, and workspaces.

use crate::library::results::{declared, is_bytes};
use crate::module::{HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::types::{ArrayShape, PrimitiveType};

/// The type in which a call with such a result is computed.
pub fn compute_type(result: PrimitiveType) -> PrimitiveType {
    match result {
        PrimitiveType::F64 | PrimitiveType::C64 | PrimitiveType::C128 => result,
        _ => PrimitiveType::F32,
    }
}

impl Builder<'_> {
    /// Rounds to the type of a result; eight bits saturate.
    pub fn rounded(&mut self, x: InstructionId, ty: PrimitiveType) -> InstructionId {
        let largest = match ty {
            PrimitiveType::F8E4M3FN => Some(448.0),
            PrimitiveType::F8E4M3FNUZ => Some(240.0),
            PrimitiveType::F8E5M2 | PrimitiveType::F8E5M2FNUZ => Some(57344.0),
            _ => None,
        };
        let mut x = x;
        if let Some(largest) = largest {
            let low = self.filled(-largest, x);
            let high = self.filled(largest, x);
            x = self.clamped(low, x, high);
        }
        self.as_type(x, ty)
    }

    /// `x` between arrays of the same sizes.
    pub fn clamped(
        &mut self,
        low: InstructionId,
        x: InstructionId,
        high: InstructionId,
    ) -> InstructionId {
        let shape = self.shape(x);
        let ty = shape.element_type;
        self.add_array(HloOpcode::Clamp, ty, &shape.dims, &[low, x, high], &[])
    }

    /// The result of `id`: `values` in order, rounded and as large as it declares them.
    pub fn returned(
        &mut self,
        id: InstructionId,
        values: &[InstructionId],
    ) -> Option<InstructionId> {
        let instruction = self.module.instruction(id);
        let is_tuple = instruction.shape().as_tuple().is_some();
        let shapes = declared(instruction)
            .into_iter()
            .map(|shape| shape.cloned());
        let shapes: Vec<ArrayShape> = shapes.collect::<Option<_>>()?;
        let mut values = values.iter().copied();
        let mut elements = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let is_work = is_tuple && !elements.is_empty() && is_bytes(&shape);
            elements.push(match (!is_work).then(|| values.next()).flatten() {
                Some(value) => {
                    let value = self.rounded(value, shape.element_type);
                    self.reshape(value, &shape.dims)
                }
                // A workspace: nobody may read it.
                None => self.zeros(shape.element_type, &shape.dims),
            });
        }
        match (is_tuple, elements.as_slice()) {
            (true, _) => Some(self.tuple(&elements)),
            (false, &[one]) => Some(one),
            _ => None,
        }
    }
}
