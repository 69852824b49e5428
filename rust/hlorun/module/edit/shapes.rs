//! Modules of other sizes and other types.

use super::super::attributes::AttrValue;
use super::super::hlo_module::{HloModule, NewInstruction};
use super::super::ids::{Id, IdMap, InstructionId};
use super::super::opcode::HloOpcode;
use super::super::part::outer_config;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType, Shape, ShapeId, ShapeTable};

/// The module in which every dimension of `from` elements has `to`, and what speaks of all of them
/// (slices, sizes of windows and of dynamic slices). Constants that shrink keep their first elements.
pub fn resized(module: &HloModule, from: i64, to: i64) -> HloModule {
    let mut made = module.clone();
    let resize = |value: &mut i64| {
        if *value == from {
            *value = to;
        }
    };
    let map = reshape(&mut made, |shape| shape.dims.iter_mut().for_each(resize));
    let all = made.instructions.iter_mut();
    all.for_each(|data| data.shape = map[data.shape.index()]);
    if let Some(layout) = &mut made.config.entry_computation_layout {
        for shape in layout.parameters.iter_mut().chain([&mut layout.result]) {
            *shape = map[shape.index()];
        }
    }
    let mut sizes = Vec::new();
    for attribute in &mut made.attributes {
        match &mut attribute.value {
            AttrValue::Ints(range) if attribute.key.holds_sizes() => sizes.push(range.range()),
            AttrValue::Slice(dimensions) => {
                dimensions.iter_mut().for_each(|d| resize(&mut d.limit));
            }
            AttrValue::Window(window) => window.0.iter_mut().for_each(|d| resize(&mut d.size)),
            AttrValue::Shape(shape) => *shape = map[shape.index()],
            AttrValue::Shapes(shapes) => shapes.iter_mut().for_each(|s| *s = map[s.index()]),
            _ => {}
        }
    }
    for range in sizes {
        made.ints[range].iter_mut().for_each(resize);
    }
    made.literals
        .iter_mut()
        .for_each(|literal| resize_literal(literal, from, to));
    made
}

/// Replaces the table of shapes by that of changed arrays; the new id of each.
fn reshape(module: &mut HloModule, change: impl Fn(&mut ArrayShape)) -> Vec<ShapeId> {
    let old = std::mem::replace(&mut module.shapes, ShapeTable::new());
    let mut map: Vec<ShapeId> = Vec::with_capacity(old.len());
    for shape in old.iter() {
        // Parts come before wholes.
        let shape = match shape {
            Shape::Array(array) => {
                let mut array = array.clone();
                change(&mut array);
                Shape::Array(array)
            }
            Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(|p| map[p.index()]).collect()),
            Shape::Buffer(part) => Shape::Buffer(map[part.index()]),
            other => other.clone(),
        };
        map.push(module.shapes.intern(shape));
    }
    map
}

fn resize_literal(literal: &mut Literal, from: i64, to: i64) {
    let shape = literal.shape.clone();
    literal.shape.dims.iter_mut().for_each(|dim| {
        if *dim == from {
            *dim = to;
        }
    });
    let LiteralValue::Array(bytes) = &mut literal.value else {
        return;
    };
    if to > from || shape.dims == literal.shape.dims {
        return;
    }
    let size = shape.element_type.size_bytes();
    let mut kept = Vec::new();
    'elements: for (element, chunk) in bytes.chunks_exact(size).enumerate() {
        let mut rest = element as i64;
        for (&dim, &left) in shape.dims.iter().zip(&literal.shape.dims).rev() {
            if rest % dim.max(1) >= left {
                continue 'elements;
            }
            rest /= dim.max(1);
        }
        kept.extend_from_slice(chunk);
    }
    *bytes = kept.into();
}

/// The type in which nearly nothing is rounded.
fn wide(ty: PrimitiveType) -> PrimitiveType {
    match ty {
        PrimitiveType::C64 => PrimitiveType::C128,
        ty if ty.is_floating() => PrimitiveType::F64,
        ty => ty,
    }
}

/// The module with `f64` in place of every narrower floating-point type; its parameters keep their types,
/// its results do not. `None` where a tuple of narrow values comes from or goes to what knows their types: the
/// caller, a custom call, another process.
pub fn widened(module: &HloModule) -> Option<HloModule> {
    let mut made = module.clone();
    let narrow: Vec<ShapeId> = made.instructions.iter().map(|data| data.shape).collect();
    let old = made.shapes.clone();
    let map = reshape(&mut made, |shape| {
        shape.element_type = wide(shape.element_type);
    });
    let count = module.instruction_count();
    // What keeps its type; its users read a conversion of it.
    let mut keeps = IdMap::new(count, false);
    for index in 0..count {
        let id = InstructionId::from_index(index);
        let data = module.instruction_data(id);
        let is_entry = module.entry == Some(data.computation);
        keeps[id] = match data.opcode {
            HloOpcode::Parameter => is_entry,
            HloOpcode::GetTupleElement => module.operand_ids(id).iter().all(|&o| keeps[o]),
            opcode => knows_types(opcode),
        };
    }
    for index in 0..count {
        let id = InstructionId::from_index(index);
        let shape = match keeps[id] {
            true => made.shapes.import(&old, narrow[index]),
            false => map[narrow[index].index()],
        };
        made.instruction_data_mut(id).shape = shape;
    }
    convert_operands(module, &mut made, &keeps, &narrow, &old)?;
    for attribute in &mut made.attributes {
        match &mut attribute.value {
            AttrValue::Shape(shape) => *shape = made.shapes.import(&old, *shape),
            AttrValue::Shapes(shapes) => {
                for shape in shapes {
                    *shape = made.shapes.import(&old, *shape);
                }
            }
            _ => {}
        }
    }
    made.config = outer_config(module);
    Some(made)
}

/// Whether an operation gives or takes bits of a certain type, not values.
fn knows_types(opcode: HloOpcode) -> bool {
    use HloOpcode as Op;
    matches!(
        opcode,
        Op::Constant
            | Op::BitcastConvert
            | Op::CustomCall
            | Op::Rng
            | Op::Infeed
            | Op::Outfeed
            | Op::Send
            | Op::Recv
    )
}

/// Puts conversions between what keeps its type and what does not.
fn convert_operands(
    module: &HloModule,
    made: &mut HloModule,
    keeps: &IdMap<InstructionId, bool>,
    narrow: &[ShapeId],
    old: &ShapeTable,
) -> Option<()> {
    let is_changed = |shape: ShapeId| match old.get(shape) {
        Shape::Array(array) => wide(array.element_type) != array.element_type,
        Shape::Tuple(_) | Shape::Buffer(_) => true,
        Shape::Token | Shape::Opaque => false,
    };
    let mut conversions: IdMap<InstructionId, Option<InstructionId>> =
        IdMap::new(module.instruction_count(), None);
    for index in 0..module.instruction_count() {
        let id = InstructionId::from_index(index);
        let data = module.instruction_data(id);
        let wants_narrow = knows_types(data.opcode);
        if wants_narrow && data.opcode == HloOpcode::CustomCall {
            let called = module.instruction(id).called_computations();
            called.into_iter().next().is_none().then_some(())?;
        }
        if data.opcode == HloOpcode::GetTupleElement && keeps[id] {
            continue;
        }
        for (at, &operand) in module.operand_ids(id).iter().enumerate() {
            let shape = narrow[operand.index()];
            if keeps[operand] == wants_narrow || !is_changed(shape) {
                continue;
            }
            let new = match conversions[operand] {
                Some(new) => new,
                None => {
                    let new = convert(made, operand, wants_narrow, shape, old)?;
                    conversions[operand] = Some(new);
                    new
                }
            };
            made.operand_ids_mut(id)[at] = new;
        }
    }
    for computation in module.computation_ids() {
        let root = module.computation(computation).root;
        let Some(root) = root.filter(|&root| keeps[root] && is_changed(narrow[root.index()]))
        else {
            continue;
        };
        let new = match conversions[root] {
            Some(new) => new,
            None => convert(made, root, false, narrow[root.index()], old)?,
        };
        made.computation_mut(computation).root = Some(new);
    }
    Some(())
}

/// Converts `operand`, to its narrow shape or to the wide one; `None` when it is no array.
fn convert(
    made: &mut HloModule,
    operand: InstructionId,
    to_narrow: bool,
    narrow: ShapeId,
    old: &ShapeTable,
) -> Option<InstructionId> {
    let mut shape = old.get(narrow).as_array()?.clone();
    if !to_narrow {
        shape.element_type = wide(shape.element_type);
    }
    let shape = made.shapes.array(shape);
    let computation = made.instruction_data(operand).computation;
    let name = format!("wide.{}", made.instruction_count());
    let name = made.text_mut().add(name.as_bytes());
    let new = made.add_instruction(
        computation,
        NewInstruction {
            name,
            text: name,
            opcode: HloOpcode::Convert,
            shape,
            operands: &[operand],
            attributes: &[],
            immediate: 0,
        },
    );
    // Right behind its operand, where a schedule wants it.
    let instructions = &mut made.computation_mut(computation).instructions;
    instructions.pop();
    let at = instructions.iter().position(|&id| id == operand);
    instructions.insert(at.map_or(0, |at| at + 1), new);
    Some(new)
}
