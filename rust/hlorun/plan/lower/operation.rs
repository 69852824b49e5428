//! Operations of `plan::ops`, and memory for results of any shape.
//!
//! In: an instruction whose operands have values. Out: a thunk, and its result's arrays, each laid out
//! as its shape says.

use super::{Lowering, Scope, Value, collect_leaves};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::error::unsupported;
use crate::plan::limits::MAX_LEAVES;
use crate::plan::ops::{self, OpKind};
use crate::plan::thunk::ThunkKind;
use crate::plan::view::{ArrayView, major_to_minor};
use crate::types::{ArrayShape, PrimitiveType, Shape, ShapeId};

/// Deepest nesting of a tuple shape.
const MAX_TUPLE_DEPTH: usize = 256;

impl<'m> Lowering<'m> {
    /// An operation of `plan::ops`.
    pub(super) fn operation(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let kind = ops::plan(instruction)?;
        let mut inputs = Vec::new();
        for k in 0..instruction.operand_ids().len() {
            collect_leaves(&self.operand(scope, instruction, k)?, &mut inputs);
        }
        let mut outputs = Vec::new();
        let computation = self.module.computation(instruction.data().computation);
        let is_seen = computation.root == Some(instruction.id);
        let value = match instruction.shape().as_tuple() {
            Some(parts) if !is_seen => {
                self.check_tuple(instruction, instruction.shape_id())?;
                let mut elements = Vec::with_capacity(parts.len());
                for (k, &part) in parts.iter().enumerate() {
                    elements.push(if self.is_workspace(&kind, k, part) {
                        // Nothing is there, but results keep their places.
                        outputs.push(self.allocate(instruction, PrimitiveType::U8, &[0], &[0])?);
                        Value::Nothing
                    } else {
                        self.allocate_shape(instruction, part, &mut outputs)?
                    });
                }
                Value::Tuple(elements.into())
            }
            _ => self.allocate_value(instruction, instruction.shape_id(), &mut outputs)?,
        };
        for k in 0..kind.updated_operands() {
            if let (Some(input), Some(output)) = (inputs.get_mut(k), outputs.get(k))
                && input.dims == output.dims
                && input.element_type == output.element_type
            {
                // The copy is dropped where the operand is not needed any more.
                let operand = std::mem::replace(input, output.clone());
                self.copy(scope, instruction.id, operand, output.clone());
            }
        }
        scope.push(
            instruction.id,
            ThunkKind::Op(Box::new(ops::OpThunk {
                kind,
                inputs,
                outputs,
            })),
        );
        Ok(value)
    }

    fn is_workspace(&self, kind: &OpKind, k: usize, shape: ShapeId) -> bool {
        let shape = self.module.shapes().get(shape).as_array();
        shape.is_some_and(|shape| kind.is_workspace(k, shape.element_type, shape.rank()))
    }

    /// Memory for every array of a shape, laid out as the shape says; `leaves` receives the arrays.
    pub(super) fn allocate_value(
        &mut self,
        instruction: InstructionRef<'_>,
        shape: ShapeId,
        leaves: &mut Vec<ArrayView>,
    ) -> Result<Value> {
        self.check_tuple(instruction, shape)?;
        self.allocate_shape(instruction, shape, leaves)
    }

    /// Recursion is bounded by [`MAX_TUPLE_DEPTH`], which the caller checks.
    fn allocate_shape(
        &mut self,
        instruction: InstructionRef<'_>,
        shape: ShapeId,
        leaves: &mut Vec<ArrayView>,
    ) -> Result<Value> {
        self.value_of(instruction, shape, "values", &mut |own, array| {
            let order = major_to_minor(array);
            let view = own.allocate(instruction, array.element_type, &array.dims, &order)?;
            leaves.push(view.clone());
            Ok(view)
        })
    }

    /// The value of a shape, whose arrays `make` makes; recursion is bounded as above.
    pub(super) fn value_of(
        &mut self,
        instruction: InstructionRef<'_>,
        shape: ShapeId,
        what: &str,
        make: &mut dyn FnMut(&mut Self, &ArrayShape) -> Result<ArrayView>,
    ) -> Result<Value> {
        let module = self.module;
        match module.shapes().get(shape) {
            Shape::Array(array) => make(self, array).map(Value::Array),
            Shape::Tuple(parts) => parts
                .iter()
                .map(|&part| self.value_of(instruction, part, what, make))
                .collect::<Result<Vec<_>>>()
                .map(|parts| Value::Tuple(parts.into())),
            Shape::Token => Ok(Value::Nothing),
            Shape::Opaque | Shape::Buffer(_) => Err(unsupported(
                instruction,
                format!("{what} of opaque or buffer type"),
            )),
        }
    }

    /// Refuses tuples that are too deep or too wide to walk.
    pub fn check_tuple(&self, instruction: InstructionRef<'_>, shape: ShapeId) -> Result<()> {
        let shapes = self.module.shapes();
        // Depth first: indices of leaves cost as much as they are deep.
        if !shapes.is_deeper_than(shape, MAX_TUPLE_DEPTH)
            && shapes.leaves(shape, MAX_LEAVES).is_some()
        {
            return Ok(());
        }
        Err(unsupported(
            instruction,
            format!("tuples deeper than {MAX_TUPLE_DEPTH} or of more than {MAX_LEAVES} arrays"),
        ))
    }
}
