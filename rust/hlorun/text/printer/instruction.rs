//! Instructions: `name = shape opcode(operands), attributes`.

use std::fmt::Write;

use super::braces::{is_json_dict, write_original_value};
use super::computation::Frame;
use super::fingerprint::write_digest;
use super::literal::{is_all, write_literal};
use super::metadata::{MetadataStyle, write_metadata};
use super::{PrintSubcomputationMode, Printer};
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionId, InstructionRef};
use crate::text::attribute_table::{
    SHARED, computation_attributes, extra_attributes, is_attribute_of,
};
use crate::types::{Literal, LiteralValue};

/// Operands that compact printing shows.
const COMPACT_OPERANDS: usize = 4;
/// Elements of a constant that is never too large to show.
const SMALL_CONSTANT: i64 = 10;
/// Elements of an integer constant that is too large to be essential.
const LARGE_ESSENTIAL_CONSTANT: i64 = 500_000;

impl Printer<'_> {
    /// Everything before the computations an instruction calls. `frame` is the computation it is
    /// printed in, if it is.
    pub(super) fn write_head(
        &mut self,
        instruction: InstructionRef<'_>,
        mut frame: Option<&mut Frame>,
    ) {
        let options = self.options;
        if !options.canonicalize_instruction_names {
            self.write_instruction_name(instruction.id);
            self.out.push_str(" = ");
        } else if let Some(frame) = frame.as_deref_mut() {
            let number = frame.canonical_number(instruction.id);
            let _ = write!(self.out, "tmp_{number} = ");
        }
        if options.print_result_shape {
            self.write_shape_of(instruction.id, options.include_layout_in_shapes);
            self.out.push(' ');
        }
        let wrapped = match instruction.opcode() {
            HloOpcode::AsyncStart | HloOpcode::AsyncUpdate | HloOpcode::AsyncDone
                if options.syntax_sugar_async_ops =>
            {
                self.wrapped_instruction(instruction.id)
            }
            _ => None,
        };
        match wrapped {
            Some(wrapped) => {
                self.out.push_str(&wrapped.opcode_name());
                self.out.push_str(match instruction.opcode() {
                    HloOpcode::AsyncStart => "-start",
                    HloOpcode::AsyncUpdate => "-update",
                    _ => "-done",
                });
            }
            None => self.out.push_str(&instruction.opcode_name()),
        }
        self.out.push('(');
        self.write_operands(instruction, frame);
        self.out.push(')');
        self.write_extra_attributes(instruction, wrapped);
    }

    fn write_extra_attributes(
        &mut self,
        instruction: InstructionRef<'_>,
        wrapped: Option<InstructionRef<'_>>,
    ) {
        let opcode = instruction.opcode();
        if self.options.print_extra_attributes {
            for &key in extra_attributes(opcode) {
                self.write_attribute(instruction, key);
            }
            if opcode == HloOpcode::AsyncStart
                && let Some(wrapped) = wrapped
            {
                self.write_extra_attributes(wrapped, None);
                // What the start says as well is not said twice.
                self.write_common_attributes(wrapped, Some(instruction));
            }
        }
        if self.options.print_subcomputation_mode != PrintSubcomputationMode::NameOnly {
            return;
        }
        let is_hidden = match opcode {
            HloOpcode::AsyncStart => wrapped.is_some(),
            // The start says it already.
            HloOpcode::AsyncUpdate | HloOpcode::AsyncDone => true,
            _ => false,
        };
        if !is_hidden {
            for &key in computation_attributes(opcode) {
                self.write_called(instruction, key);
            }
        }
    }

    /// `, calls=name`; for custom calls always as a list.
    fn write_called(&mut self, instruction: InstructionRef<'_>, key: AttrKey) {
        let Some(value) = instruction.attribute(key) else {
            return;
        };
        match (instruction.opcode(), key, value) {
            (_, _, AttrValue::Bool(false)) => {}
            (HloOpcode::CustomCall, _, AttrValue::Computation(id)) => {
                self.out.push_str(", called_computations={");
                self.write_computation_name(*id);
                self.out.push('}');
            }
            (HloOpcode::CustomCall, _, AttrValue::Computations(ids)) if ids.is_empty() => {}
            (_, AttrKey::Calls, AttrValue::Computations(ids)) => {
                for (i, &id) in ids.iter().enumerate() {
                    self.out.push_str(if i > 0 { ", " } else { ", calls=" });
                    self.write_computation_name(id);
                }
            }
            _ => {
                self.write_key(key);
                self.write_value(value, instruction);
            }
        }
    }

    /// Sharding, frontend attributes and their like, but for those that `outer` has.
    fn write_common_attributes(
        &mut self,
        instruction: InstructionRef<'_>,
        outer: Option<InstructionRef<'_>>,
    ) {
        // Most have none of them.
        if !instruction
            .attributes()
            .iter()
            .any(|a| SHARED.contains(&a.key))
        {
            return;
        }
        for key in SHARED {
            let shown = match key {
                AttrKey::FrontendAttributes => self.options.print_frontend_attributes,
                AttrKey::ControlPredecessors => self.options.print_control_dependencies,
                _ => true,
            };
            if shown && outer.is_none_or(|outer| outer.attribute(key).is_none()) {
                self.write_attribute(instruction, key);
            }
        }
    }

    /// Everything after the computations an instruction calls.
    pub(super) fn write_tail(&mut self, instruction: InstructionRef<'_>) {
        let options = self.options;
        self.write_common_attributes(instruction, None);
        if options.print_original_value {
            self.write_original_value(instruction, AttrKey::OriginalValue);
            self.write_original_value(instruction, AttrKey::Origin);
        }
        if options.print_metadata
            && let Some(AttrValue::Raw(text)) = instruction.attribute(AttrKey::Metadata)
        {
            let start = self.out.len();
            self.out.push_str(", metadata={");
            let style = MetadataStyle {
                only_op_name: options.print_metadata_only_op_name,
                frames: self.frame_style,
            };
            let text = self.module.text().bytes(*text);
            if write_metadata(&mut self.out, text, &self.frames, style) {
                self.out.push('}');
            } else {
                self.out.truncate(start);
            }
        }
        if options.print_backend_config {
            self.write_backend_config(instruction);
        }
        if options.print_extra_attributes {
            self.write_unknown_attributes(instruction);
            if instruction.opcode() == HloOpcode::AsyncStart
                && options.syntax_sugar_async_ops
                && let Some(wrapped) = self.wrapped_instruction(instruction.id)
            {
                self.write_unknown_attributes(wrapped);
            }
        }
    }

    fn write_original_value(&mut self, instruction: InstructionRef<'_>, key: AttrKey) {
        if let Some(AttrValue::Raw(text)) = instruction.attribute(key) {
            self.write_key(key);
            let bytes = self.module.text().bytes(*text);
            if is_json_dict(bytes) {
                write_original_value(&mut self.out, bytes);
            } else {
                self.out.push_str(&String::from_utf8_lossy(bytes));
            }
        }
    }

    /// Attributes that this opcode is not known to have, in the order of the text.
    fn write_unknown_attributes(&mut self, instruction: InstructionRef<'_>) {
        let opcode = instruction.opcode();
        for attribute in instruction.attributes() {
            let key = attribute.key;
            // XLA reads a mode, but who takes part follows from the groups and the channel.
            if is_attribute_of(opcode, key) || key == AttrKey::Mode {
                continue;
            }
            if let (AttrKey::Other(name), AttrValue::Raw(value)) = (key, &attribute.value) {
                let text = self.module.text();
                if text.bytes(name) == b"inferred_dimension" && text.bytes(*value) == b"-1" {
                    continue;
                }
            }
            self.write_key(key);
            self.write_value(&attribute.value, instruction);
        }
    }

    fn write_operands(&mut self, instruction: InstructionRef<'_>, mut frame: Option<&mut Frame>) {
        match instruction.opcode() {
            HloOpcode::Parameter => {
                if self.options.print_parameter_number {
                    let _ = write!(self.out, "{}", instruction.data().immediate);
                }
                return;
            }
            HloOpcode::Constant => {
                if let Some(literal) = instruction.literal() {
                    self.write_constant(literal);
                }
                return;
            }
            _ => {}
        }
        let operands = instruction.operand_ids();
        let shown = match self.options.compact_operands {
            true => operands.len().min(COMPACT_OPERANDS),
            false => operands.len(),
        };
        let interval = self.options.print_operand_index_annotation_interval;
        for (i, &operand) in operands[..shown].iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
                if interval != 0 && i % interval == 0 {
                    let _ = write!(self.out, "/*index={i}*/");
                }
            }
            self.write_operand(operand, frame.as_deref_mut());
        }
        if shown < operands.len() {
            let _ = write!(self.out, ", ...(+{})", operands.len() - shown);
        }
    }

    fn write_operand(&mut self, operand: InstructionId, frame: Option<&mut Frame>) {
        let options = self.options;
        if options.print_operand_shape {
            self.write_shape_of(operand, options.include_layout_in_shapes);
        }
        let space = if options.print_operand_shape { " " } else { "" };
        if options.canonicalize_instruction_names {
            if let Some(frame) = frame {
                let number = frame.canonical_number(operand);
                let _ = write!(self.out, "{space}tmp_{number}");
            }
        } else if options.print_operand_names {
            self.out.push_str(space);
            self.write_instruction_name(operand);
        }
    }

    fn write_constant(&mut self, literal: &Literal) {
        if self.is_exact {
            return write_digest(&mut self.out, literal);
        }
        let shape = &literal.shape;
        let is_array = matches!(literal.value, LiteralValue::Array(_));
        let count = shape.element_count().unwrap_or(i64::MAX);
        let shown = if self.options.print_only_essential_constants {
            for value in [0, 1] {
                if is_all(literal, value) {
                    let _ = write!(self.out, "{value}");
                    return;
                }
            }
            is_array && shape.element_type.is_integral() && count <= LARGE_ESSENTIAL_CONSTANT
        } else {
            self.options.print_large_constants || (is_array && count <= SMALL_CONSTANT)
        };
        if shown {
            write_literal(&mut self.out, literal);
        } else {
            self.out.push_str("{...}");
        }
    }
}
