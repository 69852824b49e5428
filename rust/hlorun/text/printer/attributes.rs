//! Values of attributes, each in its one canonical form.

use std::fmt::Write;

use super::Printer;
use super::braces::{
    inside, is_json_dict, is_list_of_fields, key_value, parts, quoted, sort_json, without_comments,
    write_compact, write_named_axes,
};
use super::escape::{unescape, write_escaped};
use super::fingerprint::write_digest;
use super::float::write_g;
use super::literal::write_typed_literal;
use super::sharding::{write_iota, write_sharding};
use super::values::{
    write_dim_labels, write_padding, write_result_accuracy, write_slice, write_statistics,
    write_window,
};
use crate::module::accuracy::ResultAccuracy;
use crate::module::attributes::{OutputOperandAlias, ReplicaGroups};
use crate::module::mesh_groups::{iota_devices, mesh_groups};
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionRef};
use crate::text::attribute_table::{always_printed, is_left_out_when_empty};
use crate::types::ShapeStyle;
use crate::types::primitive_type::NumberClass;

/// Most devices a replica group list is spelled out for.
const MAX_DEVICES: i64 = 1 << 20;

impl Printer<'_> {
    /// Appends `, key=value` unless the value is the default, which XLA leaves out.
    pub(super) fn write_attribute(&mut self, instruction: InstructionRef<'_>, key: AttrKey) {
        if matches!(key, AttrKey::Index | AttrKey::IotaDimension) {
            // Stands in the instruction itself, also where no text said it.
            self.write_key(key);
            let _ = write!(self.out, "{}", instruction.data().immediate);
            return;
        }
        let Some(value) = instruction.attribute(key) else {
            if let Some(text) = always_printed(instruction.opcode(), key) {
                self.write_key(key);
                self.out.push_str(text);
            } else if key == AttrKey::Dimensions && instruction.opcode() == HloOpcode::Map {
                let rank = instruction.array_shape().map_or(0, |shape| shape.rank());
                self.write_key(key);
                self.write_braced(0..rank, ",");
            } else if key == AttrKey::OutfeedShape
                && let Some(operand) = instruction.operand(0)
            {
                self.write_key(key);
                self.write_value(&AttrValue::Shape(operand.shape_id()), instruction);
            }
            return;
        };
        if self.is_default(instruction, key, value) {
            return;
        }
        match (key, value) {
            // What is not of the expected form stays as it was written.
            (_, AttrValue::Raw(text)) if !is_list_of_fields(self.module.text().bytes(*text)) => {
                self.write_key(key);
                self.write_value(value, instruction);
            }
            (AttrKey::ChannelId, _) if !self.options.print_channel_id => {
                self.out.push_str(", channel_id");
            }
            (AttrKey::ParameterReplication, _) if !self.options.print_ids && !self.is_exact => {}
            (AttrKey::InfeedConfig | AttrKey::OutfeedConfig, _)
                if !self.options.print_infeed_outfeed_config => {}
            (AttrKey::FrontendAttributes, AttrValue::Raw(text)) => {
                let text = self.module.text().bytes(*text);
                self.out.push_str(", frontend_attributes=");
                write_frontend_attributes(&mut self.out, text);
            }
            (AttrKey::ResultAccuracy, AttrValue::Raw(text)) => {
                let text = without_comments(self.module.text().bytes(*text));
                let digits = self.digits();
                write_result_accuracy(&mut self.out, &text, digits);
            }
            (AttrKey::Statistics, AttrValue::Raw(text)) => {
                let text = self.module.text().bytes(*text);
                let digits = self.digits();
                write_statistics(&mut self.out, text, digits);
            }
            (AttrKey::Domain, AttrValue::Raw(text)) => {
                let text = self.module.text().bytes(*text);
                self.write_domain(text);
            }
            _ => {
                self.write_key(key);
                self.write_value(value, instruction);
            }
        }
    }

    /// `, key=`.
    pub(super) fn write_key(&mut self, key: AttrKey) {
        self.out.push_str(", ");
        match key {
            AttrKey::Other(text) => self.out.push_str(&self.module.str(text)),
            known => self.out.push_str(known.name().unwrap_or("")),
        }
        self.out.push('=');
    }

    fn is_default(&self, instruction: InstructionRef<'_>, key: AttrKey, value: &AttrValue) -> bool {
        let text = |text| self.module.text().bytes(text);
        match value {
            AttrValue::Bool(value) => {
                !value && !matches!(key, AttrKey::Largest | AttrKey::IsAssociative)
            }
            AttrValue::Int(value) => match key {
                AttrKey::FeatureGroupCount | AttrKey::BatchGroupCount => *value == 1,
                AttrKey::InferredDimension => *value == -1,
                _ => false,
            },
            AttrValue::Ints(list) => list.len == 0 && is_left_out_when_empty(key),
            AttrValue::Aliasing(list) => list.is_empty() && is_left_out_when_empty(key),
            AttrValue::Instructions(list) => list.is_empty() && is_left_out_when_empty(key),
            AttrValue::String(string) => string.len == 0 && is_left_out_when_empty(key),
            AttrValue::Enums(words) => {
                key == AttrKey::OperandPrecision
                    && words.iter().all(|&word| text(word) == b"default")
            }
            AttrValue::Enum(word) => match key {
                AttrKey::PaddingType => text(*word) == b"PADDING_INVALID",
                AttrKey::CustomCallSchedule => text(*word) == b"SCHEDULE_NONE",
                AttrKey::ApiVersion => text(*word) == b"API_VERSION_ORIGINAL",
                AttrKey::Algorithm => text(*word) == b"unset",
                AttrKey::TransposeA => text(*word) == b"TRANSPOSE_INVALID",
                AttrKey::Type if instruction.opcode() == HloOpcode::Compare => {
                    default_comparison(instruction) == Some(text(*word))
                }
                _ => false,
            },
            AttrValue::Window(window) => {
                window.0.is_empty() && instruction.opcode() != HloOpcode::CustomCall
            }
            AttrValue::Raw(raw) => match key {
                AttrKey::FrontendAttributes | AttrKey::Statistics => inside(text(*raw)).is_empty(),
                AttrKey::ResultAccuracy => {
                    let read = ResultAccuracy::read(text(*raw));
                    read == Some(ResultAccuracy::Default) || inside(text(*raw)).is_empty()
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Items with a separator between them.
    pub(super) fn write_list<T: std::fmt::Display>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        separator: &str,
    ) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(separator);
            }
            let _ = write!(self.out, "{item}");
        }
    }

    /// Items in braces, with a separator between them.
    fn write_braced<T: std::fmt::Display>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        separator: &str,
    ) {
        self.out.push('{');
        self.write_list(items, separator);
        self.out.push('}');
    }

    /// What `write` makes of each id, in braces.
    fn write_each<Id: Copy>(&mut self, ids: &[Id], mut write: impl FnMut(&mut Self, Id)) {
        self.out.push('{');
        for (i, &id) in ids.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            write(self, id);
        }
        self.out.push('}');
    }

    /// Appends a value as XLA writes it. A table: a case for every kind of value.
    pub(super) fn write_value(&mut self, value: &AttrValue, instruction: InstructionRef<'_>) {
        match value {
            AttrValue::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            AttrValue::Int(value) => {
                let _ = write!(self.out, "{value}");
            }
            AttrValue::Float(value) if self.is_exact => write_g(&mut self.out, *value, 17),
            AttrValue::Float(value) => write_g(&mut self.out, f64::from(*value as f32), 6),
            AttrValue::Ints(range) => self.write_braced(self.module.int_list(*range), ","),
            AttrValue::Enum(word) => self.out.push_str(&self.module.str(*word)),
            AttrValue::Enums(words) => {
                let module = self.module;
                self.write_braced(words.iter().map(|&word| module.str(word)), ",");
            }
            AttrValue::String(text) => {
                let bytes = unescape(self.module.text().bytes(*text));
                self.out.push('"');
                write_escaped(&mut self.out, &bytes);
                self.out.push('"');
            }
            AttrValue::Computation(id) => self.write_computation_name(*id),
            AttrValue::Computations(ids) => self.write_each(ids, Self::write_computation_name),
            AttrValue::Instructions(ids) => self.write_each(ids, Self::write_instruction_name),
            AttrValue::Window(window) => write_window(&mut self.out, &window.0),
            AttrValue::Padding(dims) => write_padding(&mut self.out, dims),
            AttrValue::Slice(dims) => write_slice(&mut self.out, dims),
            AttrValue::DimLabels(labels) => write_dim_labels(&mut self.out, labels),
            AttrValue::ReplicaGroups(groups) => self.write_replica_groups(groups),
            AttrValue::Pairs(pairs) => {
                self.write_braced(pairs.iter().map(|(a, b)| format!("{{{a},{b}}}")), ",");
            }
            AttrValue::Bools(list) => self.write_braced(list.iter(), ","),
            AttrValue::Aliasing(list) => {
                let text = |alias: &OutputOperandAlias| {
                    let (output, operand) = (&alias.output, alias.operand);
                    format!("{output}: ({operand}, {})", alias.operand_index)
                };
                self.write_braced(list.iter().map(text), ", ");
            }
            AttrValue::Sharding(sharding) => {
                let text = self.module.text().bytes(sharding.text);
                write_sharding(&mut self.out, text, self.options.print_metadata);
            }
            AttrValue::Shape(id) => self.write_shape(*id, true),
            AttrValue::Shapes(ids) => self.write_each(ids, |out, id| out.write_shape(id, true)),
            AttrValue::Literal(id) if self.is_exact => {
                let literal = self.module.literal(*id);
                let _ = write!(
                    self.out,
                    "{} ",
                    literal.shape.display(ShapeStyle::CANONICAL)
                );
                write_digest(&mut self.out, literal);
            }
            AttrValue::Literal(id) => {
                write_typed_literal(&mut self.out, self.module.literal(*id));
            }
            AttrValue::Raw(text) => {
                let bytes = self.module.text().bytes(*text);
                if instruction
                    .attribute(AttrKey::SliceSizes)
                    .is_some_and(|sizes| std::ptr::eq(sizes, value))
                {
                    write_compact(&mut self.out, bytes);
                } else {
                    self.out.push_str(&String::from_utf8_lossy(bytes));
                }
            }
        }
    }

    fn write_replica_groups(&mut self, groups: &ReplicaGroups) {
        match groups {
            ReplicaGroups::List(groups) => self.write_groups(groups),
            ReplicaGroups::Iota {
                tile,
                reshape,
                transpose,
            } => {
                if self.options.print_full_replica_group_list
                    && let Some(devices) = iota_devices(reshape, transpose, MAX_DEVICES)
                    && let Some(&count) = tile.first().filter(|&&count| count > 0)
                {
                    let size = (devices.len() / count as usize).max(1);
                    let groups: Vec<Vec<i64>> = devices.chunks(size).map(<[i64]>::to_vec).collect();
                    self.write_groups(&groups);
                    return;
                }
                self.out.push('[');
                self.write_list(tile, ",");
                self.out.push(']');
                let identity: Vec<i64> = (0..reshape.len() as i64).collect();
                let transpose = if transpose.is_empty() {
                    &identity
                } else {
                    transpose
                };
                write_iota(&mut self.out, reshape, transpose);
            }
            ReplicaGroups::Mesh(text) => {
                let text = self.module.text().bytes(*text);
                let groups = self
                    .options
                    .print_full_replica_group_list
                    .then(|| mesh_groups(text, MAX_DEVICES))
                    .flatten();
                match groups {
                    Some(groups) => self.write_groups(&groups),
                    None if text.starts_with(b"mesh[") => {
                        write_named_axes(&mut self.out, text, ",");
                    }
                    None => self.out.push_str(&String::from_utf8_lossy(text)),
                }
            }
        }
    }

    fn write_groups(&mut self, groups: &[Vec<i64>]) {
        self.out.push('{');
        for (i, group) in groups.iter().enumerate() {
            self.out.push_str(if i > 0 { ",{" } else { "{" });
            self.write_list(group, ",");
            self.out.push('}');
        }
        self.out.push('}');
    }

    /// `domain={kind="sharding", entry={…}, exit={…}}`.
    fn write_domain(&mut self, text: &[u8]) {
        let fields: Vec<_> = parts(inside(text), true)
            .into_iter()
            .filter_map(key_value)
            .collect();
        self.out.push_str(", domain={");
        let mut first = true;
        for name in ["kind", "entry", "exit"] {
            let Some((_, value)) = fields.iter().find(|(key, _)| *key == name.as_bytes()) else {
                continue;
            };
            if !std::mem::take(&mut first) {
                self.out.push_str(", ");
            }
            let _ = write!(self.out, "{name}=");
            if name == "kind" {
                self.out.push_str(&String::from_utf8_lossy(value));
            } else {
                write_sharding(&mut self.out, value, self.options.print_metadata);
            }
        }
        self.out.push('}');
    }

    /// `, backend_config=…`: bare where it looks like JSON, else quoted.
    pub(super) fn write_backend_config(&mut self, instruction: InstructionRef<'_>) {
        let unescaped;
        let config: &[u8] = match instruction.attribute(AttrKey::BackendConfig) {
            Some(AttrValue::String(text)) => {
                unescaped = unescape(self.module.text().bytes(*text));
                &unescaped
            }
            Some(AttrValue::Raw(text)) => {
                let bytes = self.module.text().bytes(*text);
                match quoted(bytes) {
                    Some(middle) => {
                        unescaped = unescape(middle);
                        &unescaped
                    }
                    None => bytes,
                }
            }
            _ => return,
        };
        if config.is_empty() {
            return;
        }
        self.out.push_str(", backend_config=");
        let sorted = self
            .options
            .sort_backend_config
            .then(|| sort_json(config))
            .flatten();
        let config = sorted.as_deref().map_or(config, str::as_bytes);
        write_string_or_dict(&mut self.out, config);
    }
}

/// Appends bare what looks like JSON, else quoted and escaped.
pub fn write_string_or_dict(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_json_dict(bytes) => out.push_str(text),
        _ => {
            out.push('"');
            write_escaped(out, bytes);
            out.push('"');
        }
    }
}

/// Appends `{a="x",b={…}}`, sorted.
pub fn write_frontend_attributes(out: &mut String, text: &[u8]) {
    let mut all: Vec<(&[u8], Vec<u8>)> = parts(inside(text), true)
        .into_iter()
        .filter_map(key_value)
        .map(|(key, value)| match quoted(value) {
            Some(middle) => (key, unescape(middle)),
            None => (key, value.to_vec()),
        })
        .collect();
    all.sort();
    out.push('{');
    for (i, (key, value)) in all.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&String::from_utf8_lossy(key));
        out.push('=');
        write_string_or_dict(out, value);
    }
    out.push('}');
}

/// What compares of the operands' type are when the text does not say.
fn default_comparison(instruction: InstructionRef<'_>) -> Option<&'static [u8]> {
    let element_type = instruction.operand(0)?.array_shape()?.element_type;
    Some(match element_type.class() {
        NumberClass::Signed => b"SIGNED",
        NumberClass::Unsigned | NumberClass::Pred => b"UNSIGNED",
        NumberClass::Float | NumberClass::Complex => b"FLOAT",
    })
}
