//! `__cudnn$convForwardGraph`, written out: a convolution and the operations that
//! `serialized_graph` lists, as `uid:[type]name(uids);` in order.
//!
//! In: a call. Out: HLO in `f32`. Every `scale`, `invscale` and `add` takes the call's next operand;
//! an `amax` is a result of its own, behind the first.

use foldhash::HashMap;

use crate::error::Result;
use crate::library::Config;
use crate::library::convolution::{graph, takes_operand};
use crate::library::gemm::Activation;
use crate::module::{AttrKey, Attribute, HloOpcode, InstructionId};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::emit::largest_magnitude;
use crate::types::{ArrayShape, PrimitiveType};

/// Writes the call out.
pub fn run(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    write(b, id).map_err(|what| unsupported(b.module.instruction(id), what))
}

fn write(b: &mut Builder<'_>, id: InstructionId) -> std::result::Result<InstructionId, String> {
    let operations = graph(b.module.instruction(id))?;
    let (results, is_tuple) = b.results(id);
    let [result, more_results @ ..] = results.as_slice() else {
        return Err("a convolution without result".into());
    };
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let [input, kernel, more @ ..] = operands.as_slice() else {
        return Err("a convolution of fewer than two operands".into());
    };
    let product = convolution(b, id, [*input, *kernel], &result.dims);
    let mut known: HashMap<String, InstructionId> = HashMap::default();
    let mut left = more.iter().copied();
    let (mut last, mut largest) = (product, Vec::new());
    for operation in operations {
        let malformed = || format!("the graph operation {operation:?}");
        let name = operation.name.as_str();
        let x = match known.get(&operation.argument) {
            Some(&x) => x,
            None if name == "conv" => product,
            None => return Err(malformed()),
        };
        let operand = match takes_operand(name) {
            true => Some(left.next().ok_or("fewer operands than the graph has")?),
            false => None,
        };
        let y = apply(b, (name, operand), x, &result.dims)?.ok_or_else(malformed)?;
        match name {
            "amax" => largest.push(y),
            _ => last = y,
        }
        known.insert(operation.uid, y);
    }
    let main = b.rounded(last, result.element_type);
    match is_tuple {
        true => Ok(with_amaxes(b, main, more_results, largest)),
        false => Ok(main),
    }
}

/// The convolution itself, scaled; the operation checks that all of it fits.
fn convolution(
    b: &mut Builder<'_>,
    id: InstructionId,
    sides: [InstructionId; 2],
    dims: &[i64],
) -> InstructionId {
    let instruction = b.module.instruction(id);
    let scale = Config::of(instruction).number("conv_result_scale");
    let keys = [
        AttrKey::Window,
        AttrKey::DimLabels,
        AttrKey::FeatureGroupCount,
    ];
    let attributes: Vec<Attribute> = keys
        .iter()
        .filter_map(|&key| {
            let value = instruction.attribute(key)?.clone();
            Some(Attribute { key, value })
        })
        .collect();
    let sides = sides.map(|side| b.as_type(side, PrimitiveType::F32));
    let opcode = HloOpcode::Convolution;
    let product = b.add_array(opcode, PrimitiveType::F32, dims, &sides, &attributes);
    match scale.filter(|&scale| scale != 1.0) {
        Some(scale) => {
            let scale = b.filled(scale, product);
            b.times(product, scale)
        }
        None => product,
    }
}

/// One operation of the graph on `x`; `None` where there is none of that name.
fn apply(
    b: &mut Builder<'_>,
    operation: (&str, Option<InstructionId>),
    x: InstructionId,
    dims: &[i64],
) -> std::result::Result<Option<InstructionId>, String> {
    Ok(Some(match operation {
        ("conv", _) => x,
        (name @ ("scale" | "invscale"), Some(scale)) => {
            let scale = b.spread(scale, x);
            let opcode = match name {
                "scale" => HloOpcode::Multiply,
                _ => HloOpcode::Divide,
            };
            b.elementwise(opcode, &[x, scale])
        }
        ("add", Some(addend)) => {
            let addend = b.as_type(addend, PrimitiveType::F32);
            let addend = b.fitted(addend, dims);
            b.plus(x, addend.ok_or("an addend of other sizes")?)
        }
        ("relu", _) => b.activate(x, Activation::Relu),
        ("amax", _) => largest_magnitude(b, x),
        _ => return Ok(None),
    }))
}

/// The tuple of the call: behind its result each `amax` in turn, and workspaces, which nobody may read.
fn with_amaxes(
    b: &mut Builder<'_>,
    main: InstructionId,
    shapes: &[ArrayShape],
    amaxes: Vec<InstructionId>,
) -> InstructionId {
    let mut elements = vec![main];
    let mut amaxes = amaxes.into_iter();
    for shape in shapes {
        let is_one = shape.element_type.is_floating() && shape.element_count() == Some(1);
        elements.push(match is_one.then(|| amaxes.next()).flatten() {
            Some(amax) => {
                let amax = b.as_type(amax, shape.element_type);
                b.reshape(amax, &shape.dims)
            }
            None => b.zeros(shape.element_type, &shape.dims),
        });
    }
    b.tuple(&elements)
}
