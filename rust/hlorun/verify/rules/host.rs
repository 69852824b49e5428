//! `infeed`, `outfeed`, `send`, `recv` and their `-done`: traffic with a host or another device.

use super::common::*;
use super::ordering::{element, token};
use crate::module::attributes::AttrValue;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{PrimitiveType, Shape, ShapeId};
use crate::verify::inferred::{InferredShape, show};

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let context = || InferredShape::array(PrimitiveType::U32, &[]);
    let optional_token = |k: usize| {
        if i.operand(k).is_some() {
            token(i, k)
        } else {
            Ok(())
        }
    };
    match i.opcode() {
        HloOpcode::Infeed => {
            optional_token(0)?;
            // Texts from before tokens declare the data alone.
            match declared_parts(i) {
                Some([data, last]) if matches!(i.module.shapes().get(*last), Shape::Token) => {
                    Ok(InferredShape::Tuple(vec![
                        InferredShape::Same(*data),
                        InferredShape::Token,
                    ]))
                }
                _ if i.operand_ids().is_empty() => Ok(InferredShape::AsDeclared),
                _ => Err(format!(
                    "declares {}, expected a tuple of the data and a token",
                    show(i.module.shapes(), i.shape_id())
                )),
            }
        }
        HloOpcode::Outfeed => {
            optional_token(1)?;
            Ok(match i.shape() {
                Shape::Tuple(parts) if parts.is_empty() => InferredShape::AsDeclared,
                _ => InferredShape::Token,
            })
        }
        HloOpcode::Send => {
            optional_token(1)?;
            let data = InferredShape::Same(operand_shape(i, 0)?);
            Ok(InferredShape::Tuple(vec![
                data,
                context(),
                InferredShape::Token,
            ]))
        }
        HloOpcode::Recv => {
            optional_token(0)?;
            match declared_parts(i) {
                Some([data, _, _]) => Ok(InferredShape::Tuple(vec![
                    InferredShape::Same(*data),
                    context(),
                    InferredShape::Token,
                ])),
                _ => Err(format!(
                    "declares {}, expected a tuple of the data, u32[] and a token",
                    show(i.module.shapes(), i.shape_id())
                )),
            }
        }
        HloOpcode::RecvDone => {
            let data = element(i, 0, 0)?;
            Ok(InferredShape::Tuple(vec![data, InferredShape::Token]))
        }
        _ => Ok(InferredShape::Token),
    }
}

fn declared_parts(i: InstructionRef<'_>) -> Option<&[ShapeId]> {
    i.shape().as_tuple()
}

/// That `outfeed_shape` is the shape of what is fed.
pub fn check(i: InstructionRef<'_>, cx: &super::Context<'_>) -> Result<(), String> {
    if let (HloOpcode::Outfeed, Some(AttrValue::Shape(shape))) =
        (i.opcode(), i.attribute(AttrKey::OutfeedShape))
        && !cx.same(*shape, operand_shape(i, 0)?)
    {
        return Err(format!(
            "{}, but outfeed_shape is {}",
            describe(i, 0),
            show(i.module.shapes(), *shape)
        ));
    }
    Ok(())
}
