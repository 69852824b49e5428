//! Whether a called computation takes what its caller gives and returns what its caller needs.

use super::Context;
use super::common::describe;
use crate::module::{ComputationId, InstructionRef};
use crate::types::{ArrayShape, PrimitiveType, Shape, ShapeId};
use crate::verify::inferred::{show, show_array};

/// The root of a computation.
pub fn root<'m>(
    i: InstructionRef<'m>,
    computation: ComputationId,
) -> Result<InstructionRef<'m>, String> {
    match i.module.computation(computation).root {
        Some(root) => Ok(i.module.instruction(root)),
        None => Err(format!("calls {}, which has no root", name(i, computation))),
    }
}

/// `%name` of a computation.
pub fn name(i: InstructionRef<'_>, computation: ComputationId) -> String {
    format!("%{}", i.module.str(i.module.computation(computation).name))
}

/// That `computation`, which `role` says, has `count` parameters.
pub fn parameter_count(
    i: InstructionRef<'_>,
    role: &str,
    computation: ComputationId,
    count: usize,
) -> Result<(), String> {
    let found = i.module.computation(computation).parameters.len();
    if found == count {
        return Ok(());
    }
    Err(format!(
        "{role} {} has {found} parameters, expected {count}",
        name(i, computation)
    ))
}

/// That the shape found is the one expected.
fn same(
    i: InstructionRef<'_>,
    cx: &Context<'_>,
    what: impl Fn() -> String,
    [found, expected]: [ShapeId; 2],
    because: &str,
) -> Result<(), String> {
    if cx.same(found, expected) {
        return Ok(());
    }
    let (table, what) = (i.module.shapes(), what());
    let (found, expected) = (show(table, found), show(table, expected));
    Err(format!("{what} {found}, expected {expected}{because}"))
}

/// That parameter `number` has the shape `expected`, which `because` explains.
pub fn parameter(
    i: InstructionRef<'_>,
    cx: &Context<'_>,
    role: &str,
    computation: ComputationId,
    number: usize,
    expected: ShapeId,
    because: &str,
) -> Result<(), String> {
    let Some(&id) = i.module.computation(computation).parameters.get(number) else {
        return Err(format!(
            "{role} {} has no parameter {number}",
            name(i, computation)
        ));
    };
    let found = i.module.instruction(id).shape_id();
    let what = || format!("parameter {number} of {role} {} is", name(i, computation));
    same(i, cx, what, [found, expected], because)
}

/// That the root has the shape `expected`, which `because` explains.
pub fn result(
    i: InstructionRef<'_>,
    cx: &Context<'_>,
    role: &str,
    computation: ComputationId,
    expected: ShapeId,
    because: &str,
) -> Result<(), String> {
    let found = root(i, computation)?.shape_id();
    let what = || format!("{role} {} returns", name(i, computation));
    same(i, cx, what, [found, expected], because)
}

/// That a computation takes exactly the operands and returns exactly the declared result.
pub fn call(
    i: InstructionRef<'_>,
    cx: &Context<'_>,
    role: &str,
    computation: ComputationId,
) -> Result<(), String> {
    parameter_count(i, role, computation, i.operand_ids().len())?;
    for (k, operand) in i.operands().enumerate() {
        parameter(i, cx, role, computation, k, operand.shape_id(), "")
            .map_err(|message| format!("{message}: {}", describe(i, k)))?;
    }
    result(
        i,
        cx,
        role,
        computation,
        i.shape_id(),
        ", which the caller declares",
    )
}

fn is_scalar(shape: &Shape, element_type: PrimitiveType) -> bool {
    matches!(shape, Shape::Array(array)
        if array.rank() == 0 && array.element_type == element_type)
}

/// That a computation takes scalars of the types `parameters` and returns one of `results`, or a
/// tuple of them when there are several.
pub fn scalar_function(
    i: InstructionRef<'_>,
    role: &str,
    computation: ComputationId,
    parameters: &[PrimitiveType],
    results: &[PrimitiveType],
) -> Result<(), String> {
    let table = i.module.shapes();
    parameter_count(i, role, computation, parameters.len())?;
    let found = &i.module.computation(computation).parameters;
    for (number, (&id, &expected)) in found.iter().zip(parameters).enumerate() {
        let shape = i.module.instruction(id);
        if !is_scalar(shape.shape(), expected) {
            return Err(format!(
                "parameter {number} of {role} {} is {}, expected {}",
                name(i, computation),
                show(table, shape.shape_id()),
                show_array(&ArrayShape::new(expected, &[]))
            ));
        }
    }
    let root = root(i, computation)?;
    let fits = match (root.shape(), results) {
        (Shape::Tuple(parts), _) => {
            parts.len() == results.len()
                && parts
                    .iter()
                    .zip(results)
                    .all(|(&part, &expected)| is_scalar(table.get(part), expected))
                && results.len() != 1
        }
        (shape, [expected]) => is_scalar(shape, *expected),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let expected: Vec<String> = results.iter().map(|t| format!("{}[]", t.name())).collect();
    Err(format!(
        "{role} {} returns {}, expected {}",
        name(i, computation),
        show(table, root.shape_id()),
        match &expected[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        }
    ))
}
