//! `__cudnn$convForwardGraph`, written out: a convolution and the operations that
//! `serialized_graph` lists, as `uid:[type]name(uids);` in order.
//!
//! In: a call. Out: HLO in `f32`. Every `scale`, `invscale` and `add` takes the call's next operand;
//! an `amax` is a result of its own, behind the first.

use foldhash::HashMap;

use crate::error::Result;
use crate::library::Config;
use crate::library::convolution::{graph, takes_operand};
use crate::module::{AttrKey, Attribute, HloOpcode, InstructionId};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::types::PrimitiveType;

/// Writes the call out.
pub fn run(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    write(b, id).map_err(|what| unsupported(b.module.instruction(id), what))
}

fn write(b: &mut Builder<'_>, id: InstructionId) -> std::result::Result<InstructionId, String> {
    let config = Config::of(b.module.instruction(id));
    let operations = graph(b.module.instruction(id))?;
    let (results, is_tuple) = b.results(id);
    let result = results
        .first()
        .cloned()
        .ok_or("a convolution without result")?;
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let [input, kernel, more @ ..] = operands.as_slice() else {
        return Err("a convolution of fewer than two operands".into());
    };
    let instruction = b.module.instruction(id);
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
    // The operation itself checks that all of it fits.
    let ty = PrimitiveType::F32;
    let sides = [b.as_type(*input, ty), b.as_type(*kernel, ty)];
    let mut product = b.add_array(
        HloOpcode::Convolution,
        ty,
        &result.dims,
        &sides,
        &attributes,
    );
    if let Some(scale) = config.number("conv_result_scale").filter(|&s| s != 1.0) {
        let scale = b.filled(scale, product);
        product = b.times(product, scale);
    }
    let mut known: HashMap<String, InstructionId> = HashMap::default();
    let mut left = more.iter().copied();
    let mut next = || left.next().ok_or("fewer operands than the graph has");
    let (mut last, mut largest) = (product, Vec::new());
    for operation in operations {
        let malformed = || format!("the graph operation {operation:?}");
        let name = operation.name.as_str();
        let x = match known.get(&operation.argument) {
            Some(&x) => x,
            None if name == "conv" => product,
            None => return Err(malformed()),
        };
        let operand = if takes_operand(name) {
            Some(next()?)
        } else {
            None
        };
        let y = match (name, operand) {
            ("conv", _) => x,
            ("scale" | "invscale", Some(scale)) => {
                let scale = b.spread(scale, x);
                let inverse = name == "invscale";
                let opcode = [HloOpcode::Multiply, HloOpcode::Divide][usize::from(inverse)];
                b.elementwise(opcode, &[x, scale])
            }
            ("add", Some(addend)) => {
                let addend = b.as_type(addend, ty);
                let addend = b.fitted(addend, &result.dims);
                let addend = addend.ok_or("an addend of other sizes")?;
                b.plus(x, addend)
            }
            ("relu", _) => b.activate(x, crate::library::gemm::Activation::Relu),
            ("amax", _) => {
                let amax = crate::plan::hlo::emit::largest_magnitude(b, x);
                largest.push(amax);
                amax
            }
            _ => return Err(malformed()),
        };
        if name != "amax" {
            last = y;
        }
        known.insert(operation.uid, y);
    }
    let main = b.rounded(last, result.element_type);
    if !is_tuple {
        return Ok(main);
    }
    let mut elements = vec![main];
    let mut largest = largest.into_iter();
    for shape in &results[1..] {
        let is_one = shape.element_type.is_floating() && shape.element_count() == Some(1);
        elements.push(match is_one.then(|| largest.next()).flatten() {
            Some(amax) => {
                let amax = b.as_type(amax, shape.element_type);
                b.reshape(amax, &shape.dims)
            }
            // A workspace: nobody may read it.
            None => b.zeros(shape.element_type, &shape.dims),
        });
    }
    Ok(b.tuple(&elements))
}
