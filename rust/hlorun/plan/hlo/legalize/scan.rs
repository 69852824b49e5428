//! `scan` as a loop.
//!
//! In: a flattened module. Out: the same without `scan`. One trip takes one slice of every input
//! along the scanned dimension, the last first when `is_reverse`; what `to_apply` returns is written
//! into the outputs at the same place, and the carries are handed on. `is_associative` only allows
//! another order, so it changes nothing here.

use crate::error::{HloError, Result};
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::builder::emit_computation;
use crate::plan::hlo::inline;
use crate::plan::hlo::legalize::replace;
use crate::plan::hlo::pass::PassContext;
use crate::types::{Shape, ShapeId};

/// Replaces every `scan`, inner ones first.
pub fn run(module: &mut HloModule, cx: &mut PassContext<'_>) -> Result<usize> {
    let is_scan = |instruction: InstructionRef<'_>| instruction.opcode() == HloOpcode::Scan;
    replace::each(module, cx, is_scan, |b, id| {
        to_loop(b.module, b.computation, id)
    })
}

/// The parts of a scan.
struct Scan {
    function: ComputationId,
    inputs: Vec<InstructionId>,
    carries: Vec<InstructionId>,
    outputs: Vec<ShapeId>,
    returns_tuple: bool,
    dim: usize,
    length: i64,
    is_reverse: bool,
}

fn parts(module: &HloModule, id: InstructionId) -> Option<Scan> {
    let scan = module.instruction(id);
    let carries = usize::try_from(scan.int(AttrKey::NumCarries)?).ok()?;
    let operands = scan.operand_ids();
    let inputs = operands.len().checked_sub(carries)?;
    let (results, returns_tuple) = match scan.shape() {
        Shape::Tuple(parts) => (parts.to_vec(), true),
        _ => (vec![scan.shape_id()], false),
    };
    let outputs = results.len().checked_sub(carries)?;
    let dim = usize::try_from(*scan.dimensions().first()?).ok()?;
    let scanned = match inputs {
        0 => module.shapes().get(*results.first()?).as_array()?,
        _ => scan.operand(0)?.array_shape()?,
    };
    Some(Scan {
        function: scan.computation_attribute(AttrKey::ToApply)?,
        inputs: operands[..inputs].to_vec(),
        carries: operands[inputs..].to_vec(),
        outputs: results[..outputs].to_vec(),
        returns_tuple,
        dim,
        length: *scanned.dims.get(dim)?,
        is_reverse: scan.bool(AttrKey::IsReverse) == Some(true),
    })
}

/// Appends the loop to `computation`; returns what stands for the scan's result.
fn to_loop(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Result<InstructionId> {
    let scan = parts(module, id).ok_or_else(|| HloError::execution("a scan without its parts"))?;
    let length = i32::try_from(scan.length).map_err(|_| {
        crate::plan::error::unsupported(
            module.instruction(id),
            "a scan of more steps than s32".into(),
        )
    })?;
    let mut outside = Builder {
        module,
        computation,
        like: id,
    };
    // The state: a counter, the inputs, the outputs, the carries.
    let mut state = vec![outside.scalar_s32(0)];
    state.extend_from_slice(&scan.inputs);
    for &shape in &scan.outputs {
        let shape = outside.module.shapes().get(shape).as_array().cloned();
        let shape = shape.ok_or_else(|| HloError::execution("a scan whose output is no array"))?;
        let zeros = outside.zeros(shape.element_type, &shape.dims);
        state.push(zeros);
    }
    state.extend_from_slice(&scan.carries);
    let first = 1 + scan.inputs.len();
    if length == 0 {
        // No trip changes the state, and a body would have slices that the inputs have not.
        return Ok(result(&mut outside, &scan, &state[first..]));
    }
    let initial = outside.tuple(&state);
    let shape = outside.module.instruction_data(initial).shape;

    let (condition, parameter) = emit_computation(outside.module, id, shape);
    let mut inside = Builder {
        module: outside.module,
        computation: condition,
        like: id,
    };
    let counter = inside.get_tuple_element(parameter, 0);
    let end = inside.scalar_s32(length);
    let goes_on = inside.less(counter, end);
    inside.module.computation_mut(condition).root = Some(goes_on);

    let body = step(inside.module, id, &scan, shape, length)?;
    let mut outside = Builder {
        module,
        computation,
        like: id,
    };
    let repeated = outside.repeat(initial, condition, body);
    let results: Vec<InstructionId> = (first..state.len())
        .map(|k| outside.get_tuple_element(repeated, k))
        .collect();
    Ok(result(&mut outside, &scan, &results))
}

/// What stands for the scan, of its outputs and carries.
fn result(b: &mut Builder<'_>, scan: &Scan, results: &[InstructionId]) -> InstructionId {
    match results {
        &[only] if !scan.returns_tuple => only,
        _ => b.tuple(results),
    }
}

/// The body of the loop.
fn step(
    module: &mut HloModule,
    id: InstructionId,
    scan: &Scan,
    shape: ShapeId,
    length: i32,
) -> Result<ComputationId> {
    let (body, parameter) = emit_computation(module, id, shape);
    let mut b = Builder {
        module,
        computation: body,
        like: id,
    };
    let leaves = 1 + scan.inputs.len() + scan.outputs.len() + scan.carries.len();
    let state: Vec<InstructionId> = (0..leaves)
        .map(|k| b.get_tuple_element(parameter, k))
        .collect();
    let counter = state[0];
    let place = if scan.is_reverse {
        let last = b.scalar_s32(length.saturating_sub(1));
        b.elementwise(HloOpcode::Subtract, &[last, counter])
    } else {
        counter
    };
    let (inputs, rest) = state[1..].split_at(scan.inputs.len());
    let (outputs, carries) = rest.split_at(scan.outputs.len());
    let mut arguments = Vec::with_capacity(inputs.len() + carries.len());
    for &input in inputs {
        let slice = b.window(input, scan.dim, place, 1);
        let mut dims = b.shape(input).dims;
        dims.remove(scan.dim);
        arguments.push(b.reshape(slice, &dims));
    }
    arguments.extend_from_slice(carries);
    let root = inline::clone_body(b.module, scan.function, body, &arguments)?;
    let count = outputs.len() + carries.len();
    let returned: Vec<InstructionId> =
        match b.module.shapes().get(b.module.instruction_data(root).shape) {
            Shape::Tuple(_) => (0..count).map(|k| b.get_tuple_element(root, k)).collect(),
            _ => vec![root],
        };
    let one = b.scalar_s32(1);
    let mut next = vec![b.plus(counter, one)];
    next.extend_from_slice(inputs);
    for (&output, &row) in outputs.iter().zip(&returned) {
        let mut dims = b.shape(output).dims;
        dims[scan.dim] = 1;
        let row = b.reshape(row, &dims);
        next.push(b.set_window(output, row, scan.dim, place));
    }
    next.extend_from_slice(&returned[outputs.len()..]);
    let root = b.tuple(&next);
    // Layouts of the results may differ from the state's; the loop's type is the latter.
    b.module.instruction_data_mut(root).shape = shape;
    b.module.computation_mut(body).root = Some(root);
    Ok(body)
}
