//! `map`, `scan`: a computation applied at every element, or along a dimension.

use super::common::*;
use super::{Context, signature};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{Shape, ShapeId};
use crate::verify::inferred::{InferredShape, dims_fit, show};

/// `map`: the computation's scalar type, in the operands' dimensions.
pub fn map(i: InstructionRef<'_>) -> Infer {
    if i.operand_ids().is_empty() {
        return Err("has no operands, expected at least one".to_owned());
    }
    let operand = array(i, 0)?;
    for k in 1..i.operand_ids().len() {
        want_dims(i, k, &operand.dims, " like operand 0")?;
    }
    if i.attribute(AttrKey::Dimensions).is_some() {
        let dims = ints(i, AttrKey::Dimensions)?;
        if dims.len() != operand.rank() || dims.iter().enumerate().any(|(d, &n)| n != d as i64) {
            return Err(format!(
                "dimensions={} is not all {} dimensions of operand 0 in order",
                list(dims),
                operand.rank()
            ));
        }
    }
    let function = need_computation(i, AttrKey::ToApply)?;
    match signature::root(i, function)?.shape() {
        Shape::Array(result) if result.rank() == 0 => {
            Ok(InferredShape::array(result.element_type, &operand.dims))
        }
        _ => Err(format!(
            "to_apply {} returns {}, expected a scalar",
            signature::name(i, function),
            show(i.module.shapes(), signature::root(i, function)?.shape_id())
        )),
    }
}

/// The called computations of `map` and `scan`.
pub fn check(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    let function = need_computation(i, AttrKey::ToApply)?;
    if i.opcode() == HloOpcode::Scan {
        return check_scan(i, cx);
    }
    let types: Vec<_> = arrays(i)?.iter().map(|a| a.element_type).collect();
    let result = match signature::root(i, function)?.array_shape() {
        Some(root) => root.element_type,
        None => return Ok(()),
    };
    signature::scalar_function(i, "to_apply", function, &types, &[result])
}

/// The parts of a scan: how many operands are inputs, how many results are outputs.
struct Scan<'m> {
    inputs: usize,
    carries: usize,
    outputs: usize,
    dim: usize,
    length: i64,
    results: Vec<ShapeId>,
    root: Vec<ShapeId>,
    function: crate::module::ComputationId,
    function_root: InstructionRef<'m>,
}

/// The parts of a tuple, or the one thing that is no tuple.
fn parts(i: InstructionRef<'_>, id: ShapeId) -> Vec<ShapeId> {
    match i.module.shapes().get(id) {
        Shape::Tuple(parts) => parts.to_vec(),
        _ => vec![id],
    }
}

fn scan_parts(i: InstructionRef<'_>) -> Result<Scan<'_>, String> {
    let operands = i.operand_ids().len();
    let given = need_int(i, AttrKey::NumCarries)?;
    let carries = usize::try_from(given)
        .ok()
        .filter(|&n| n <= operands)
        .ok_or_else(|| format!("num_carries={given}, but there are {operands} operands"))?;
    let function = need_computation(i, AttrKey::ToApply)?;
    let function_root = signature::root(i, function)?;
    let results = parts(i, i.shape_id());
    let root = parts(i, function_root.shape_id());
    if results.len() != root.len() || results.len() < carries {
        return Err(format!(
            "declares {} results, but to_apply {} returns {}, {carries} of them carried",
            results.len(),
            signature::name(i, function),
            root.len()
        ));
    }
    let dim = one_dimension(i)?;
    let inputs = operands - carries;
    let outputs = results.len() - carries;
    let scanned = match inputs {
        0 => results
            .first()
            .and_then(|&id| i.module.shapes().get(id).as_array())
            .ok_or_else(|| "has neither inputs nor outputs to scan along".to_owned())?,
        _ => array(i, 0)?,
    };
    let dim = dimension("dimension", dim, scanned.rank())?;
    Ok(Scan {
        inputs,
        carries,
        outputs,
        dim,
        length: scanned.dims[dim],
        results,
        root,
        function,
        function_root,
    })
}

/// `scan`: outputs stacked along the dimension, then the final carries.
pub fn scan(i: InstructionRef<'_>) -> Infer {
    let scan = scan_parts(i)?;
    for k in 0..scan.inputs {
        let input = array(i, k)?;
        if input.dims.get(scan.dim) != Some(&scan.length) {
            return Err(format!(
                "{}, expected size {} in dimension {}",
                describe(i, k),
                scan.length,
                scan.dim
            ));
        }
    }
    let table = i.module.shapes();
    let mut inferred = Vec::with_capacity(scan.results.len());
    for &id in &scan.root[..scan.outputs] {
        let Some(slice) = table.get(id).as_array() else {
            return Err(format!(
                "to_apply {} returns {}, expected arrays as outputs",
                signature::name(i, scan.function),
                show(table, scan.function_root.shape_id())
            ));
        };
        if scan.dim > slice.rank() {
            return Err(format!(
                "the output {} of to_apply cannot be stacked along dimension {}",
                show(table, id),
                scan.dim
            ));
        }
        let mut dims = slice.dims.clone();
        dims.insert(scan.dim, scan.length);
        inferred.push(InferredShape::Array {
            element_type: slice.element_type,
            dims,
        });
    }
    for k in scan.inputs..scan.inputs + scan.carries {
        inferred.push(InferredShape::Same(operand_shape(i, k)?));
    }
    match (i.shape(), inferred.len()) {
        (Shape::Tuple(_), 1) | (_, 0 | 2..) => Ok(InferredShape::Tuple(inferred)),
        (_, 1) => Ok(InferredShape::one_or_tuple(inferred)),
    }
}

fn check_scan(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    let scan = scan_parts(i)?;
    let function = scan.function;
    signature::parameter_count(i, "to_apply", function, scan.inputs + scan.carries)?;
    for (k, &id) in i.module.computation(function).parameters.iter().enumerate() {
        if k >= scan.inputs {
            let expected = operand_shape(i, k)?;
            signature::parameter(i, cx, "to_apply", function, k, expected, " as carried")?;
            continue;
        }
        let input = array(i, k)?;
        let mut dims = input.dims.clone();
        dims.remove(scan.dim);
        let found = i.module.instruction(id);
        let fits = found.array_shape().is_some_and(|found| {
            found.element_type == input.element_type && dims_fit(&found.dims, &dims)
        });
        if !fits {
            return Err(format!(
                "parameter {k} of to_apply {} is {}, expected {}: {} without dimension {}",
                signature::name(i, function),
                show(i.module.shapes(), found.shape_id()),
                InferredShape::array(input.element_type, &dims).display(i.module.shapes()),
                describe(i, k),
                scan.dim
            ));
        }
    }
    for (k, &id) in scan.root[scan.outputs..].iter().enumerate() {
        if !cx.same(id, operand_shape(i, scan.inputs + k)?) {
            return Err(format!(
                "to_apply {} returns {} as carry {k}, but {}",
                signature::name(i, function),
                show(i.module.shapes(), id),
                describe(i, scan.inputs + k)
            ));
        }
    }
    Ok(())
}
