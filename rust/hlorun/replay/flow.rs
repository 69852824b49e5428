//! How values pass between a caller and the computations it calls.

use super::build::Builder;
use super::{Flow, Step};
use crate::analysis::dataflow::{PositionId, graph};
use crate::error::{HloError, Result};
use crate::module::{AttrKey, ComputationId, HloOpcode, InstructionId, InstructionRef};
use crate::plan::error::unsupported;
use crate::types::PrimitiveType;

impl<'a> Builder<'a> {
    /// Pairs of values at corresponding positions that are not the same value.
    fn flow(
        &self,
        from: impl Iterator<Item = PositionId>,
        to: impl Iterator<Item = PositionId>,
    ) -> Flow {
        from.zip(to)
            .filter_map(|(from, to)| {
                Some((self.dataflow.value_at(from)?, self.dataflow.value_at(to)?))
            })
            .filter(|(from, to)| from != to)
            .collect()
    }

    fn flow_between(&self, from: InstructionId, to: InstructionId) -> Flow {
        let positions = &self.dataflow.positions;
        self.flow(positions.of(from), positions.of(to))
    }

    fn root(&self, computation: ComputationId) -> Result<InstructionId> {
        self.module
            .computation(computation)
            .root
            .ok_or_else(|| HloError::execution("a computation has no root"))
    }

    fn parameter(&self, computation: ComputationId, number: usize) -> Result<InstructionId> {
        let parameters = &self.module.computation(computation).parameters;
        parameters.get(number).copied().ok_or_else(|| {
            let name = self.module.str(self.module.computation(computation).name);
            HloError::execution(format!("`{name}` has no parameter {number}"))
        })
    }

    fn operand(&self, instruction: InstructionRef<'a>, number: usize) -> Result<InstructionId> {
        let operands = instruction.operand_ids();
        operands.get(number).copied().ok_or_else(|| {
            let name = instruction.name();
            HloError::execution(format!("`{name}` has no operand {number}"))
        })
    }

    pub(super) fn while_step(&mut self, instruction: InstructionRef<'a>) -> Result<Step> {
        let Some((condition, body)) = graph::while_computations(self.module, instruction.id) else {
            return Err(unsupported(instruction, "it has no computations".into()));
        };
        let init = self.operand(instruction, 0)?;
        let (at_condition, at_body) = (self.parameter(condition, 0)?, self.parameter(body, 0)?);
        let (root, decided) = (self.root(body)?, self.root(condition)?);
        let predicate = self.value_at(self.dataflow.positions.root(decided))?;
        let to = [at_condition, at_body, instruction.id];
        Ok(Step::While {
            instruction: instruction.name().into(),
            predicate: self.access(predicate, None)?,
            condition,
            body,
            enter: to.map(|to| self.flow_between(init, to)),
            again: to.map(|to| self.flow_between(root, to)),
        })
    }

    pub(super) fn conditional(&mut self, instruction: InstructionRef<'a>) -> Result<Step> {
        let operand = self.operand(instruction, 0)?;
        let position = self.dataflow.positions.root(operand);
        let selector = self.value_at(position)?;
        let element = self.array_at(position).map(|a| a.element_type);
        let is_predicate = element == Some(PrimitiveType::Pred);
        if !is_predicate && element != Some(PrimitiveType::S32) {
            let what = "it chooses by something that is no predicate and no s32";
            return Err(unsupported(instruction, what.into()));
        }
        let mut branches = Vec::new();
        let computations = graph::branches(self.module, instruction.id);
        for (number, branch) in computations.into_iter().enumerate() {
            let argument = self.operand(instruction, number + 1)?;
            let enter = self.flow_between(argument, self.parameter(branch, 0)?);
            let leave = self.flow_between(self.root(branch)?, instruction.id);
            branches.push((branch, enter, leave));
        }
        if branches.is_empty() {
            return Err(unsupported(instruction, "it has no branches".into()));
        }
        Ok(Step::Conditional {
            instruction: instruction.name().into(),
            selector: self.access(selector, None)?,
            is_predicate,
            branches,
        })
    }

    pub(super) fn call(&mut self, instruction: InstructionRef<'a>) -> Result<Step> {
        let is_async = instruction.opcode() == HloOpcode::AsyncStart;
        let key = match is_async {
            true => AttrKey::Calls,
            false => AttrKey::ToApply,
        };
        let callee = instruction
            .computation_attribute(key)
            .ok_or_else(|| unsupported(instruction, "it calls no computation".into()))?;
        let mut enter = Flow::new();
        for number in 0..instruction.operand_ids().len() {
            let parameter = self.parameter(callee, number)?;
            enter.extend(self.flow_between(self.operand(instruction, number)?, parameter));
        }
        let positions = &self.dataflow.positions;
        let whole = positions.root(instruction.id);
        // An async operation's result is the second part of what it starts.
        let result = match is_async {
            true => positions.child(whole, 1),
            false => Some(whole),
        };
        let result = result
            .ok_or_else(|| unsupported(instruction, "its shape has no second part".into()))?;
        let root = self.root(callee)?;
        let leave = self.flow(positions.of(root), (result.0..).map(PositionId));
        Ok(Step::Call {
            callee,
            enter,
            leave,
        })
    }
}
