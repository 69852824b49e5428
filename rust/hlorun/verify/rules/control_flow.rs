//! `while`, `conditional`, `call`, `fusion`, `async-*`: results are those of computations.

use super::common::*;
use super::ordering::element;
use super::{Context, custom_call, signature};
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, ComputationId, HloOpcode, InstructionRef};
use crate::types::{PrimitiveType, Shape};
use crate::verify::inferred::{InferredShape, show};

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    match i.opcode() {
        HloOpcode::While => same_as_operand(i, 0),
        HloOpcode::Conditional => {
            let branches = branches(i)?;
            match branches.first() {
                Some(&branch) => Ok(InferredShape::Same(signature::root(i, branch)?.shape_id())),
                None => Err("has no branches".to_owned()),
            }
        }
        HloOpcode::Call | HloOpcode::Fusion => Ok(InferredShape::Same(
            signature::root(i, called(i)?)?.shape_id(),
        )),
        HloOpcode::AsyncStart => async_start(i),
        HloOpcode::AsyncUpdate => same_as_operand(i, 0),
        _ => element(i, 0, 1),
    }
}

/// The computation of a call, a fusion or an async operation; older texts use the other key.
fn called(i: InstructionRef<'_>) -> Result<ComputationId, String> {
    let (key, other) = match i.opcode() {
        HloOpcode::Call => (AttrKey::ToApply, AttrKey::Calls),
        _ => (AttrKey::Calls, AttrKey::ToApply),
    };
    match i.computation_attribute(other) {
        Some(computation) if i.attribute(key).is_none() => Ok(computation),
        _ => need_computation(i, key),
    }
}

/// The branches of a conditional, in the order of their index; `true` comes first.
fn branches(i: InstructionRef<'_>) -> Result<Vec<ComputationId>, String> {
    match i.attribute(AttrKey::BranchComputations) {
        Some(AttrValue::Computations(branches)) => Ok(branches.to_vec()),
        Some(AttrValue::Computation(branch)) => Ok(vec![*branch]),
        Some(_) => Err("attribute branch_computations is no list of computations".to_owned()),
        None => Ok(vec![
            need_computation(i, AttrKey::TrueComputation)?,
            need_computation(i, AttrKey::FalseComputation)?,
        ]),
    }
}

fn async_start(i: InstructionRef<'_>) -> Infer {
    match i.shape().as_tuple() {
        Some([_, _, rest @ ..]) => {
            let operands = i
                .operands()
                .map(|operand| InferredShape::Same(operand.shape_id()));
            let result = signature::root(i, called(i)?)?.shape_id();
            let mut parts = vec![
                InferredShape::Tuple(operands.collect()),
                InferredShape::Same(result),
            ];
            parts.extend(rest.iter().map(|&id| InferredShape::Same(id)));
            Ok(InferredShape::Tuple(parts))
        }
        _ => Err(format!(
            "declares {}, expected a tuple of the operands, the result and contexts",
            show(i.module.shapes(), i.shape_id())
        )),
    }
}

/// The called computations.
pub fn check(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    match i.opcode() {
        HloOpcode::While => check_while(i, cx),
        HloOpcode::Conditional => check_conditional(i, cx),
        HloOpcode::Call => {
            signature::call(i, cx, "to_apply", called(i)?)?;
            custom_call::check_aliasing(i, cx)
        }
        HloOpcode::Fusion => {
            need_word(i, AttrKey::Kind, &["kLoop", "kInput", "kOutput", "kCustom"])?;
            signature::call(i, cx, "calls", called(i)?)?;
            custom_call::check_aliasing(i, cx)
        }
        HloOpcode::AsyncStart => {
            let wrapped = called(i)?;
            signature::parameter_count(i, "calls", wrapped, i.operand_ids().len())?;
            for (k, operand) in i.operands().enumerate() {
                signature::parameter(i, cx, "calls", wrapped, k, operand.shape_id(), "")?;
            }
            Ok(())
        }
        _ => check_async_chain(i),
    }
}

fn check_while(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    let state = operand_shape(i, 0)?;
    let condition = need_computation(i, AttrKey::Condition)?;
    let body = need_computation(i, AttrKey::Body)?;
    for (role, computation) in [("condition", condition), ("body", body)] {
        signature::parameter_count(i, role, computation, 1)?;
        signature::parameter(
            i,
            cx,
            role,
            computation,
            0,
            state,
            ", the shape of the loop's state",
        )?;
    }
    signature::result(
        i,
        cx,
        "body",
        body,
        state,
        ", the shape of the loop's state",
    )?;
    let root = signature::root(i, condition)?;
    match root.array_shape() {
        Some(shape) if shape.rank() == 0 && shape.element_type == PrimitiveType::Pred => Ok(()),
        _ => Err(format!(
            "condition {} returns {}, expected pred[]",
            signature::name(i, condition),
            show(i.module.shapes(), root.shape_id())
        )),
    }
}

fn check_conditional(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    let branches = branches(i)?;
    let index = scalar(i, 0)?;
    let fits = match index.element_type {
        PrimitiveType::Pred => branches.len() == 2,
        PrimitiveType::S32 => i.attribute(AttrKey::BranchComputations).is_some(),
        _ => false,
    };
    if !fits {
        return Err(format!(
            "{} for {} branches, expected pred[] for two or s32[] for branch_computations",
            describe(i, 0),
            branches.len()
        ));
    }
    if i.operand_ids().len() != branches.len() + 1 {
        return Err(format!(
            "has {} operands for {} branches, expected the index and one for each",
            i.operand_ids().len(),
            branches.len()
        ));
    }
    for (k, &branch) in branches.iter().enumerate() {
        let role = format!("branch {k}");
        signature::parameter_count(i, &role, branch, 1)?;
        let argument = operand_shape(i, k + 1)?;
        signature::parameter(i, cx, &role, branch, 0, argument, "")
            .map_err(|message| format!("{message}: {}", describe(i, k + 1)))?;
        let because = ", which the conditional declares";
        signature::result(i, cx, &role, branch, i.shape_id(), because)?;
    }
    Ok(())
}

/// `async-update` and `async-done` continue what an `async-start` began, with its computation.
fn check_async_chain(i: InstructionRef<'_>) -> Result<(), String> {
    let Some(operand) = i.operand(0) else {
        return Err(describe(i, 0));
    };
    if !matches!(
        operand.opcode(),
        HloOpcode::AsyncStart | HloOpcode::AsyncUpdate
    ) {
        return Err(format!(
            "operand 0 %{} is {}, expected an async-start or async-update",
            operand.name(),
            operand.opcode_name()
        ));
    }
    let named = |i: InstructionRef<'_>| {
        i.computation_attribute(AttrKey::Calls)
            .or(i.computation_attribute(AttrKey::ToApply))
    };
    if let (Some(here), Some(there)) = (named(i), named(operand))
        && here != there
    {
        return Err(format!(
            "calls {}, but operand 0 %{} calls {}",
            signature::name(i, here),
            operand.name(),
            signature::name(i, there)
        ));
    }
    let thread = |i: InstructionRef<'_>| match i.attribute(AttrKey::AsyncExecutionThread) {
        Some(AttrValue::String(name)) => Some(i.module.str(*name).into_owned()),
        _ if i.opcode() == HloOpcode::AsyncStart => Some("main".to_owned()),
        _ => None,
    };
    if let (Some(here), Some(there)) = (thread(i), thread(operand))
        && here != there
    {
        return Err(format!(
            "runs on thread \"{here}\", but operand 0 %{} on \"{there}\"",
            operand.name()
        ));
    }
    match operand.shape() {
        Shape::Tuple(parts) if parts.len() >= 2 => Ok(()),
        _ => Err(format!(
            "{}, expected a tuple of operands, result and contexts",
            describe(i, 0)
        )),
    }
}
