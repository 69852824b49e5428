//! The rules of every family of operations, and the one place that dispatches to them.
//!
//! Each family has one file. Its `infer` looks at one instruction and its operands; its `check`,
//! where there is one, looks at the computations the instruction calls.

pub mod assemble;
pub mod batch_norm;
pub mod collective;
pub mod common;
pub mod control_flow;
pub mod convolution;
pub mod custom_call;
pub mod dot;
pub mod dynamic_index;
pub mod dynamic_shape;
pub mod elementwise;
pub mod fft_linalg;
pub mod gather_scatter;
pub mod host;
pub mod map_scan;
pub mod movement;
pub mod ordering;
pub mod random;
pub mod reduce;
pub mod replica_groups;
pub mod signature;
pub mod sort;
pub mod unknown;
pub mod window;

use super::inferred::{InferredShape, ShapeClasses};
use crate::module::opcode::elementwise_classes;
use crate::module::{HloModule, InstructionRef, OpClass};
use crate::types::{ArrayShape, Shape, ShapeId};
use common::Infer;

/// What checks of one module share.
pub struct Context<'m> {
    /// The module.
    pub module: &'m HloModule,
    /// Its shapes up to layouts.
    pub classes: ShapeClasses,
}

impl Context<'_> {
    /// Whether two shapes are the same up to layouts and dynamic flags.
    pub fn same(&self, a: ShapeId, b: ShapeId) -> bool {
        self.classes.same(self.module.shapes(), a, b)
    }
}

/// The shape an instruction must have, from its operands and attributes. `Err` says in one
/// sentence what about those is wrong.
///
/// Where an operand or the result has an unbounded dimension, nothing is inferred.
pub fn infer_shape(i: InstructionRef<'_>) -> Infer {
    check_arity(i)?;
    if i.operands().any(|o| is_unbounded(o.shape())) || is_unbounded(i.shape()) {
        return Ok(InferredShape::AsDeclared);
    }
    match i.opcode().class() {
        OpClass::Unary => elementwise::unary(i),
        OpClass::Binary => elementwise::binary(i),
        OpClass::Compare => elementwise::compare(i),
        OpClass::Select => elementwise::select(i),
        OpClass::Clamp => elementwise::clamp(i),
        OpClass::Convert => elementwise::convert(i),
        OpClass::BitcastConvert => elementwise::bitcast_convert(i),
        OpClass::Complex => elementwise::complex(i),
        OpClass::Constant => elementwise::constant(i),
        OpClass::Parameter => elementwise::parameter(i),
        OpClass::Iota => elementwise::iota(i),
        OpClass::Tuple => elementwise::tuple(i),
        OpClass::Movement => movement::infer(i),
        OpClass::Assemble => assemble::infer(i),
        OpClass::DynamicIndex => dynamic_index::infer(i),
        OpClass::GatherScatter => gather_scatter::infer(i),
        OpClass::Dot => dot::infer(i),
        OpClass::Convolution => convolution::infer(i),
        OpClass::Reduce => reduce::infer(i),
        OpClass::Window => window::infer(i),
        OpClass::Map => map_scan::map(i),
        OpClass::Scan => map_scan::scan(i),
        OpClass::Sort => sort::infer(i),
        OpClass::Fft => fft_linalg::fft(i),
        OpClass::LinearAlgebra => fft_linalg::linear_algebra(i),
        OpClass::BatchNorm => batch_norm::infer(i),
        OpClass::Random => random::infer(i),
        OpClass::ControlFlow => control_flow::infer(i),
        OpClass::CustomCall => custom_call::infer(i),
        OpClass::Collective => collective::infer(i),
        OpClass::DeviceId => ordering::device_id(i),
        OpClass::DynamicShape => dynamic_shape::infer(i),
        OpClass::Ordering => ordering::infer(i),
        OpClass::AsyncCopy => ordering::async_copy(i),
        OpClass::HostTransfer => host::infer(i),
        OpClass::Unknown => unknown::infer(i),
    }
}

/// What shape inference leaves open: called computations, groups of devices, pairs.
pub fn check(i: InstructionRef<'_>, cx: &Context<'_>) -> Result<(), String> {
    match i.opcode().class() {
        OpClass::GatherScatter => gather_scatter::check(i, cx),
        OpClass::Reduce => reduce::check(i, cx),
        OpClass::Window => window::check(i, cx),
        OpClass::Map | OpClass::Scan => map_scan::check(i, cx),
        OpClass::Sort => sort::check(i, cx),
        OpClass::ControlFlow => control_flow::check(i, cx),
        OpClass::CustomCall => custom_call::check(i, cx),
        OpClass::Collective => collective::check(i, cx),
        OpClass::AsyncCopy => ordering::check_copy_pair(i),
        OpClass::HostTransfer => host::check(i, cx),
        elementwise_classes!()
        | OpClass::BitcastConvert
        | OpClass::Constant
        | OpClass::Parameter
        | OpClass::Iota
        | OpClass::Tuple
        | OpClass::Movement
        | OpClass::Assemble
        | OpClass::DynamicIndex
        | OpClass::Dot
        | OpClass::Convolution
        | OpClass::Fft
        | OpClass::LinearAlgebra
        | OpClass::BatchNorm
        | OpClass::Random
        | OpClass::DeviceId
        | OpClass::DynamicShape
        | OpClass::Ordering
        | OpClass::Unknown => Ok(()),
    }
}

fn is_unbounded(shape: &Shape) -> bool {
    matches!(shape, Shape::Array(array) if array.dims.contains(&ArrayShape::UNBOUNDED))
}

fn check_arity(i: InstructionRef<'_>) -> Result<(), String> {
    let arity = i.opcode().arity();
    let count = i.operand_ids().len();
    let min = usize::from(arity.min);
    let max = arity.max.map(usize::from);
    if count >= min && max.is_none_or(|max| count <= max) {
        return Ok(());
    }
    let expected = match max {
        Some(max) if max == min => min.to_string(),
        Some(max) => format!("{min} to {max}"),
        None => format!("at least {min}"),
    };
    Err(format!(
        "has {count} operands, but {} takes {expected}",
        i.opcode_name()
    ))
}
