//! The `HloModule` line, and the module as a whole.

use std::fmt::Write;

use foldhash::HashSet;

use super::Printer;
use super::attributes::write_frontend_attributes;
use super::braces::{inside, is_list_of_fields, write_compact};
use super::metadata::FrameStyle;
use super::order::{callees, computation_order};
use crate::module::TextRef;
use crate::module::config::AliasKind;
use crate::module::{AttrKey, ComputationId, HloOpcode, InstructionRef};
use crate::types::ShapeStyle;

/// Attributes of the header that have a place of their own.
const KNOWN: [&str; 10] = [
    "is_scheduled",
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
    "frontend_attributes",
];

impl<'m> Printer<'m> {
    pub(super) fn write_module(&mut self) {
        self.indent(self.options.indent_amount);
        self.write_header();
        if self.options.print_metadata && self.frame_style != FrameStyle::Identity {
            self.frames.write(&mut self.out);
        }
        self.out.push_str("\n\n");
        let hidden = self.sugared_computations();
        for id in computation_order(self.module, self.options.canonicalize_computations) {
            if !hidden.contains(&id) {
                self.write_computation(id, self.options.indent_amount, true);
                self.out.push_str("\n\n");
            }
        }
    }

    pub(super) fn indent(&mut self, levels: usize) {
        for _ in 0..levels {
            self.out.push_str("  ");
        }
    }

    /// Computations that `xxx-start(…)` says all about.
    pub(in crate::text) fn sugared_computations(&self) -> HashSet<ComputationId> {
        let mut hidden = HashSet::default();
        if !self.options.syntax_sugar_async_ops {
            return hidden;
        }
        let module = self.module;
        let instructions = || {
            module
                .computation_ids()
                .flat_map(|id| &module.computation(id).instructions)
                .map(|&id| module.instruction(id))
        };
        let is_sugared = |instruction: InstructionRef<'_>| {
            instruction.opcode() == HloOpcode::AsyncStart
                && self.wrapped_instruction(instruction.id).is_some()
        };
        for instruction in instructions().filter(|&i| is_sugared(i)) {
            hidden.extend(instruction.computation_attribute(AttrKey::Calls));
        }
        if !hidden.is_empty() {
            // What others call as well has to be there.
            for instruction in instructions().filter(|&i| !is_sugared(i)) {
                for called in callees(instruction) {
                    hidden.remove(&called);
                }
            }
        }
        if let Some(entry) = module.entry {
            hidden.remove(&entry);
        }
        hidden
    }

    pub(super) fn write_header(&mut self) {
        let module = self.module;
        let config = &module.config;
        self.out.push_str("HloModule ");
        if self.options.print_ids {
            self.out.push_str(&module.str(module.name));
        }
        if config.is_scheduled {
            self.out.push_str(", is_scheduled=true");
        }
        self.write_aliasing();
        if config.alias_passthrough_params {
            self.out.push_str(", alias_passthrough_params=true");
        }
        self.write_entry_layout();
        for key in [
            "allow_spmd_sharding_propagation_to_parameters",
            "allow_spmd_sharding_propagation_to_output",
        ] {
            if let Some(value) = self.header_value(key) {
                let mut text = String::new();
                write_compact(&mut text, value);
                if !text.starts_with('{') {
                    text = format!("{{{text}}}");
                }
                if text != "{false}" {
                    let _ = write!(self.out, ", {key}={text}");
                }
            }
        }
        for (key, count) in [
            ("replica_count", config.replica_count),
            ("num_partitions", config.num_partitions),
        ] {
            if let Some(count) = count.filter(|&count| count != 1) {
                let _ = write!(self.out, ", {key}={count}");
            }
        }
        if let Some(value) = self.header_value("frontend_attributes")
            && !inside(value).is_empty()
        {
            self.out.push_str(", frontend_attributes=");
            if is_list_of_fields(value) {
                write_frontend_attributes(&mut self.out, value);
            } else {
                self.out.push_str(&String::from_utf8_lossy(value));
            }
        }
        for &(key, value) in &config.attributes {
            let key = module.str(key);
            if !KNOWN.contains(&&*key) {
                let _ = write!(self.out, ", {key}={}", module.str(value));
            }
        }
    }

    /// The value of an attribute of the header, as written; never empty.
    fn header_value(&self, key: &str) -> Option<&'m [u8]> {
        let text = self.module.text();
        self.module
            .config
            .attributes
            .iter()
            .find(|(name, _)| text.bytes(*name) == key.as_bytes())
            .map(|(_, value)| text.bytes(*value))
            .filter(|value| !value.is_empty())
    }

    /// `input_output_alias` and `buffer_donor`, sorted as XLA keeps them.
    fn write_aliasing(&mut self) {
        let config = &self.module.config;
        let mut aliases: Vec<_> = config.input_output_alias.iter().collect();
        aliases.sort_by(|a, b| a.output.cmp(&b.output));
        if !aliases.is_empty() {
            self.out.push_str(", input_output_alias={ ");
            self.write_list(
                aliases.iter().map(|alias| {
                    let kind = match alias.kind {
                        AliasKind::MayAlias => "may-alias",
                        AliasKind::MustAlias => "must-alias",
                    };
                    format!(
                        "{}: ({}, {}, {kind})",
                        alias.output, alias.parameter, alias.parameter_index
                    )
                }),
                ", ",
            );
            self.out.push_str(" }");
        }
        let mut donors: Vec<_> = config.buffer_donor.iter().collect();
        donors.sort_by(|a, b| {
            (a.parameter, &a.parameter_index).cmp(&(b.parameter, &b.parameter_index))
        });
        donors.dedup();
        if !donors.is_empty() {
            self.out.push_str(", buffer_donor={ ");
            self.write_list(
                donors
                    .iter()
                    .map(|donor| format!("({}, {})", donor.parameter, donor.parameter_index)),
                ", ",
            );
            self.out.push_str(" }");
        }
    }

    /// Whether XLA makes a configuration of its own for the header. It does that before it looks at the
    /// entry computation's layouts, which are then taken for row-major.
    fn has_own_config(&self) -> bool {
        let config = &self.module.config;
        let spmd = |&(key, _): &(TextRef, TextRef)| {
            self.module
                .text
                .bytes(key)
                .starts_with(b"allow_spmd_sharding_propagation_to_")
        };
        config.alias_passthrough_params
            || config.stands_alone
            || config.replica_count.is_some_and(|count| count != 1)
            || config.num_partitions.is_some_and(|count| count != 1)
            || config.attributes.iter().any(spmd)
    }

    /// The layouts the text gives, or those of the entry computation's parameters and root.
    fn write_entry_layout(&mut self) {
        let module = self.module;
        let (parameters, result, style) = match &module.config.entry_computation_layout {
            Some(layout) => (
                layout.parameters.clone(),
                layout.result,
                ShapeStyle::CANONICAL,
            ),
            None => {
                let Some((_, entry)) = module.entry_computation() else {
                    return;
                };
                let Some(root) = entry.root else {
                    return;
                };
                let shape = |id: &_| module.instruction_data(*id).shape;
                (
                    entry.parameters.iter().map(shape).collect(),
                    shape(&root),
                    match self.has_own_config() {
                        true => ShapeStyle::ROW_MAJOR,
                        false => ShapeStyle::CANONICAL,
                    },
                )
            }
        };
        self.out.push_str(", entry_computation_layout={(");
        for (i, id) in parameters.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
                if i % 5 == 0 {
                    let _ = write!(self.out, "/*index={i}*/");
                }
            }
            let _ = write!(self.out, "{}", module.shapes().display(id, style));
        }
        let _ = write!(self.out, ")->{}}}", module.shapes().display(result, style));
    }
}
