//! Instructions: what all of them have.

use std::borrow::Cow;

use prost::Message;
use prost::bytes::Bytes;

use super::{Writer, computation_number, literal::write_literal};
use crate::error::{HloError, Result};
use crate::module::accuracy;
use crate::module::attributes::AttrValue;
use crate::module::metadata::OpMetadata as ModuleMetadata;
use crate::module::words;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::proto::schema::*;
use crate::text::printer::{callees, unescape};

/// Whether the field of an attribute is `bytes`, which hold anything.
fn is_bytes(key: AttrKey) -> bool {
    matches!(
        key,
        AttrKey::BackendConfig | AttrKey::InfeedConfig | AttrKey::OutfeedConfig
    )
}

impl Writer<'_> {
    pub(super) fn instruction(
        &mut self,
        instruction: InstructionRef<'_>,
    ) -> Result<HloInstructionProto> {
        let data = instruction.data();
        let mut proto = HloInstructionProto {
            name: self.name(instruction.id),
            opcode: Bytes::from(instruction.opcode_name().into_owned()),
            shape: self.shape(data.shape),
            id: self.id(instruction.id),
            operand_ids: instruction
                .operand_ids()
                .iter()
                .map(|&id| self.id(id))
                .collect(),
            ..HloInstructionProto::default()
        };
        let mut called = callees(instruction);
        // The proto has the body first.
        if instruction.opcode() == HloOpcode::While {
            let key = |key| instruction.computation_attribute(key);
            called = [key(AttrKey::Body), key(AttrKey::Condition)]
                .into_iter()
                .flatten()
                .collect();
        }
        proto.called_computation_ids = called.into_iter().map(computation_number).collect();
        match instruction.opcode() {
            HloOpcode::Parameter => proto.parameter_number = i64::from(data.immediate),
            HloOpcode::GetTupleElement => proto.tuple_index = i64::from(data.immediate),
            HloOpcode::Iota => proto.dimensions = vec![i64::from(data.immediate)],
            HloOpcode::Constant => {
                let literal = instruction.literal().and_then(write_literal);
                proto.literal = literal.map(|literal| Bytes::from(literal.encode_to_vec()));
            }
            // What no version means.
            HloOpcode::CustomCall => proto.custom_call_api_version = 1,
            _ => {}
        }
        for attribute in instruction.attributes() {
            if let AttrValue::Raw(text) | AttrValue::String(text) = attribute.value
                && !is_bytes(attribute.key)
            {
                let text = unescape(self.module.text().bytes(text));
                self.require_unicode(&text, || {
                    let name = instruction.name();
                    format!("the attribute {} of %{name}", self.key_text(attribute.key))
                })?;
            }
            self.attribute(instruction, attribute.key, &attribute.value, &mut proto)?;
        }
        self.defaults(instruction, &mut proto);
        Ok(proto)
    }

    /// What the text leaves out and the proto does not.
    fn defaults(&self, instruction: InstructionRef<'_>, proto: &mut HloInstructionProto) {
        match instruction.opcode() {
            HloOpcode::Convolution | HloOpcode::CustomCall => {
                proto.feature_group_count = proto.feature_group_count.max(1);
                proto.batch_group_count = proto.batch_group_count.max(1);
            }
            HloOpcode::Dot | HloOpcode::RaggedDot => {
                proto.dot_dimension_numbers.get_or_insert_default();
            }
            HloOpcode::Map if proto.dimensions.is_empty() => {
                let rank = instruction.array_shape().map_or(0, |shape| shape.rank());
                proto.dimensions = (0..rank as i64).collect();
            }
            _ => {}
        }
        if matches!(
            instruction.opcode(),
            HloOpcode::Convolution | HloOpcode::Dot | HloOpcode::RaggedDot | HloOpcode::CustomCall
        ) {
            let config = proto.precision_config.get_or_insert_default();
            if config.operand_precision.is_empty() && instruction.opcode() != HloOpcode::CustomCall
            {
                config.operand_precision = vec![0; 2];
            }
        }
        if proto.window.is_none()
            && matches!(
                instruction.opcode(),
                HloOpcode::Convolution | HloOpcode::ReduceWindow | HloOpcode::SelectAndScatter
            )
        {
            proto.window = Some(Box::default());
        }
    }

    #[cold]
    pub(super) fn unsupported(&self, instruction: InstructionRef<'_>, key: AttrKey) -> HloError {
        let (key, name) = (self.key_text(key), instruction.name());
        let message =
            format!("the attribute {key} of %{name} is not written to protos in the form it has");
        HloError::unsupported(message, name)
    }

    fn key_text(&self, key: AttrKey) -> Cow<'_, str> {
        match key {
            AttrKey::Other(text) => self.module.str(text),
            known => Cow::Borrowed(known.name().unwrap_or_default()),
        }
    }

    /// Attributes that instructions of all opcodes may have; whether `key` is one of them.
    pub(super) fn common_attribute(
        &self,
        instruction: InstructionRef<'_>,
        key: AttrKey,
        value: &AttrValue,
        proto: &mut HloInstructionProto,
    ) -> Result<bool> {
        let text = self.module.text();
        match (key, value) {
            (AttrKey::Metadata, AttrValue::Raw(raw)) => {
                let metadata = self.metadata(text.bytes(*raw));
                proto.metadata = Some(Box::new(
                    metadata.ok_or_else(|| self.unsupported(instruction, key))?,
                ));
            }
            (AttrKey::BackendConfig, AttrValue::Raw(raw)) => proto.backend_config = self.text(*raw),
            (AttrKey::BackendConfig, AttrValue::String(string)) => {
                proto.backend_config = Bytes::from(unescape(text.bytes(*string)));
            }
            (AttrKey::FrontendAttributes, AttrValue::Raw(raw)) => {
                proto.frontend_attributes = self.frontend_attributes(text.bytes(*raw));
            }
            (AttrKey::Sharding, AttrValue::Sharding(sharding)) => {
                proto.sharding = Some(Box::new(self.sharding(text.bytes(sharding.text))?));
            }
            (AttrKey::ControlPredecessors, AttrValue::Instructions(ids)) => {
                proto.control_predecessor_ids = ids.iter().map(|&id| self.id(id)).collect();
            }
            (AttrKey::ResultAccuracy, AttrValue::Raw(raw)) => {
                let accuracy = result_accuracy(text.bytes(*raw));
                proto.result_accuracy = Some(Box::new(
                    accuracy.ok_or_else(|| self.unsupported(instruction, key))?,
                ));
            }
            (AttrKey::Statistics, AttrValue::Raw(raw)) => {
                let statistics = statistics(text.bytes(*raw));
                proto.statistics_viz = Some(Box::new(
                    statistics.ok_or_else(|| self.unsupported(instruction, key))?,
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What `metadata={…}` says, braces included.
    pub(super) fn metadata(&self, text: &[u8]) -> Option<OpMetadata> {
        let metadata = ModuleMetadata::read(text).ok()?;
        let number = |key: &str| {
            let found = metadata.other.iter().find(|(other, _)| other == key);
            found
                .and_then(|(_, value)| value.parse::<i64>().ok())
                .unwrap_or(0)
        };
        let string = |text: &Option<String>| Bytes::from(text.clone().unwrap_or_default());
        let int = |number: Option<i64>| number.unwrap_or(0) as i32;
        let frame = metadata
            .stack_frame_id
            .and_then(|id| self.frames.number(id));
        Some(OpMetadata {
            op_type: string(&metadata.op_type),
            op_name: string(&metadata.op_name),
            source_file: string(&metadata.source_file),
            source_line: int(metadata.source_line),
            source_end_line: int(metadata.source_end_line),
            source_column: int(metadata.source_column),
            source_end_column: int(metadata.source_end_column),
            profile_type: metadata
                .profile_type
                .iter()
                .map(|&kind| kind as i32)
                .collect(),
            size_of_generated_code_in_bytes: number("size_of_generated_code_in_bytes"),
            size_of_memory_working_set_in_bytes: number("size_of_memory_working_set_in_bytes"),
            deduplicated_name: string(&metadata.deduplicated_name),
            stack_frame_id: frame.unwrap_or(0) as i32,
            scheduling_name: string(&metadata.scheduling_name),
        })
    }
}

/// `{mode=highest}`, `{tolerance={atol=0.1,rtol=0,ulps=2}}`.
fn result_accuracy(text: &[u8]) -> Option<ResultAccuracy> {
    use crate::text::printer::braces::inside;
    use accuracy::ResultAccuracy as Asked;
    let mut proto = ResultAccuracy::default();
    let mode = |word: &[u8]| words::number_of(words::ACCURACY, word);
    match Asked::read(text) {
        Some(Asked::Default) => proto.mode = Some(mode(b"default")?),
        Some(Asked::Highest) => proto.mode = Some(mode(b"highest")?),
        Some(Asked::Tolerance { atol, rtol, ulps }) => {
            proto.tolerance = Some(Box::new(Tolerance { atol, rtol, ulps }));
        }
        None => return inside(text).is_empty().then_some(proto),
    }
    Some(proto)
}

/// `{visualizing_index=0,name=33}`.
fn statistics(text: &[u8]) -> Option<StatisticsViz> {
    use crate::text::printer::braces::{inside, key_value, parts};
    let mut viz = StatisticsViz::default();
    for part in parts(inside(text), true) {
        let (key, value) = key_value(part)?;
        let value = std::str::from_utf8(value).ok()?;
        if key == b"visualizing_index" {
            viz.stat_index_to_visualize = value.parse().ok()?;
        } else {
            viz.statistics.push(Statistic {
                stat_name: Bytes::copy_from_slice(key),
                stat_val: value.parse().ok()?,
            });
        }
    }
    Some(viz)
}
