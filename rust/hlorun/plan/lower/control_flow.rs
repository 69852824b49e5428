//! Loops and branches.
//!
//! The state of a loop is one buffer per leaf for all trips: the initial value is copied in, the
//! body reads it and copies its results back at the end. Copies are dropped by `assign` wherever
//! the two sides never hold different live values, so that a loop usually copies nothing. What
//! `state-in-place` leaves where its initial value lies has no buffer.

use super::{Lowering, Scope, Value, collect_leaves};
use crate::error::{HloError, Result};
use crate::library::known_trip_count;
use crate::module::{AttrKey, ComputationId, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::thunk::BufferKind;
use crate::plan::thunk::{
    ConditionalThunk, CopyThunk, Thunk, ThunkKind, ThunkSequence, WhileThunk,
};
use crate::plan::view::{ArrayView, major_to_minor};
use crate::types::ShapeId;

impl<'m> Lowering<'m> {
    pub(super) fn while_loop(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let callee = |key| {
            instruction
                .computation_attribute(key)
                .ok_or_else(|| HloError::execution("while without body or condition"))
        };
        let (condition, body) = (callee(AttrKey::Condition)?, callee(AttrKey::Body)?);
        let initial = self.operand(scope, instruction, 0)?;
        let mut sources = Vec::new();
        collect_leaves(&initial, &mut sources);
        let in_place = self.state_in_place(body, &initial);
        let mut state = Vec::new();
        let value = self.state(instruction, body, (&sources, &in_place), &mut state)?;
        if sources.len() != state.len() {
            return Err(unsupported(
                instruction,
                "loop state that holds tokens or workspaces".into(),
            ));
        }
        for (source, leaf) in sources.into_iter().zip(&state) {
            if source.slice.allocation != leaf.slice.allocation {
                self.buffers[leaf.slice.allocation as usize].kind = BufferKind::State;
                self.copy(scope, instruction.id, source, leaf.clone());
            }
        }
        let (condition, predicate) = self.computation(condition, std::slice::from_ref(&value))?;
        let Value::Array(predicate) = predicate else {
            return Err(unsupported(
                instruction,
                "a condition that returns no array".into(),
            ));
        };
        let (mut body, results) = self.body(body, &value)?;
        let mut leaves = Vec::new();
        collect_leaves(&results, &mut leaves);
        if leaves.len() != state.len() {
            return Err(unsupported(
                instruction,
                "a body whose result differs from its parameter".into(),
            ));
        }
        self.write_back(instruction, leaves, &state, &mut body)?;
        let packs = self.pack_invariant_operands(instruction.id, &mut body);
        scope.thunks.extend(packs);
        scope.push(
            instruction.id,
            ThunkKind::While(Box::new(WhileThunk {
                condition,
                predicate,
                body,
                trip_count: known_trip_count(instruction),
                is_brief: false,
                bytecode: None,
            })),
        );
        Ok(value)
    }

    /// The state of a loop: buffers of its own, or the initial value itself where that stays in place and
    /// lies as a buffer of its own would. Buffers are laid out as the parameter of the body is, which may
    /// differ from the loop's own shape: every trip reads them.
    fn state(
        &mut self,
        instruction: InstructionRef<'m>,
        body: ComputationId,
        (sources, in_place): (&[ArrayView], &[bool]),
        state: &mut Vec<ArrayView>,
    ) -> Result<Value> {
        let parameters = &self.module.computation(body).parameters;
        let shape = match parameters.first() {
            Some(&parameter) => self.module.instruction(parameter).shape_id(),
            None => instruction.shape_id(),
        };
        self.check_tuple(instruction, shape)?;
        self.value_of(instruction, shape, "values", &mut |own, array| {
            let (at, order) = (state.len(), major_to_minor(array));
            let view = match sources.get(at) {
                Some(source)
                    if in_place.get(at) == Some(&true)
                        && *source == ArrayView::of_shape(source.slice, array)
                        && source.slice.size == super::dense_size(instruction, array)? =>
                {
                    source.clone()
                }
                _ => own.allocate(instruction, array.element_type, &array.dims, &order)?,
            };
            state.push(view.clone());
            Ok(view)
        })
    }

    /// Copies the results of a body into the state. Results that live in the state themselves, as
    /// when a body swaps two leaves, or at a place that the state names, go through memory of their
    /// own, so that the order of the copies does not matter.
    fn write_back(
        &mut self,
        instruction: InstructionRef<'m>,
        results: Vec<ArrayView>,
        state: &[ArrayView],
        body: &mut ThunkSequence,
    ) -> Result<()> {
        let mut copies = Vec::new();
        for (result, leaf) in results.into_iter().zip(state) {
            if result.dims != leaf.dims || result.element_type != leaf.element_type {
                return Err(unsupported(
                    instruction,
                    "a body whose result shape differs from its parameter".into(),
                ));
            }
            if result.slice == leaf.slice && result.strides == leaf.strides && result.offset == 0 {
                continue;
            }
            let indices = result.dynamic.iter().map(|index| index.slice.allocation);
            let in_state = std::iter::once(result.slice.allocation)
                .chain(indices)
                .any(|read| state.iter().any(|s| s.slice.allocation == read));
            if in_state {
                let slice = self.buffer(leaf.slice.size, BufferKind::Temp, Some(instruction.id));
                let scratch = ArrayView {
                    slice,
                    ..leaf.clone()
                };
                body.push(self.copy_thunk(instruction, result, scratch.clone()));
                copies.push((scratch, leaf.clone()));
            } else {
                copies.push((result, leaf.clone()));
            }
        }
        for (source, destination) in copies {
            body.push(self.copy_thunk(instruction, source, destination));
        }
        Ok(())
    }

    fn copy_thunk(
        &self,
        instruction: InstructionRef<'_>,
        source: ArrayView,
        destination: ArrayView,
    ) -> Thunk {
        let elidable = self.interchangeable(&source, &destination);
        Thunk {
            instruction: instruction.id,
            kind: ThunkKind::Copy(Box::new(CopyThunk::new(source, destination, elidable))),
        }
    }

    pub(super) fn conditional(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let selector = self.array_operand(scope, instruction, 0)?;
        let mut outputs = Vec::new();
        let value = self.allocate_value(instruction, instruction.shape_id(), &mut outputs)?;
        let mut branches = Vec::new();
        for (k, branch) in branches_of(instruction)?.into_iter().enumerate() {
            let argument = self.operand(scope, instruction, k + 1)?;
            let (mut thunks, result) = self.computation(branch, std::slice::from_ref(&argument))?;
            let mut leaves = Vec::new();
            collect_leaves(&result, &mut leaves);
            if leaves.len() != outputs.len() {
                return Err(unsupported(
                    instruction,
                    "branches whose results differ from the conditional's".into(),
                ));
            }
            for (source, destination) in leaves.into_iter().zip(&outputs) {
                thunks.push(self.copy_thunk(instruction, source, destination.clone()));
            }
            branches.push(thunks);
        }
        scope.push(
            instruction.id,
            ThunkKind::Conditional(Box::new(ConditionalThunk { selector, branches })),
        );
        Ok(value)
    }

    /// Views of the entry's parameters, one buffer per array leaf, row-major as NumPy has them.
    pub fn entry_parameter(
        &mut self,
        instruction: InstructionRef<'m>,
        leaves: &mut Vec<ArrayView>,
    ) -> Result<Value> {
        self.check_tuple(instruction, instruction.shape_id())?;
        self.parameter_value(instruction, instruction.shape_id(), leaves)
    }

    /// Recursion is bounded by the check in [`Lowering::entry_parameter`].
    fn parameter_value(
        &mut self,
        instruction: InstructionRef<'m>,
        shape: ShapeId,
        leaves: &mut Vec<ArrayView>,
    ) -> Result<Value> {
        self.value_of(instruction, shape, "parameters", &mut |own, array| {
            let size = super::dense_size(instruction, array)?;
            let kind = BufferKind::Parameter(leaves.len() as u32);
            let slice = own.buffer(size, kind, Some(instruction.id));
            let order = crate::plan::view::identity_order(array.rank());
            let view = ArrayView::dense(slice, array.element_type, &array.dims, &order);
            leaves.push(view.clone());
            Ok(view)
        })
    }
}

/// The branches of a conditional.
fn branches_of(instruction: InstructionRef<'_>) -> Result<Vec<ComputationId>> {
    let found = instruction.branch_computations();
    found.ok_or_else(|| HloError::execution("conditional without branches"))
}
