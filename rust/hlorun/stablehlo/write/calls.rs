//! Calls: of functions, of composites, of functions that somebody else has.

use std::fmt::Write;

use super::{Body, Writer};
use crate::module::HloOpcode;
use crate::stablehlo::attributes::{API_VERSION, Fields};
use crate::stablehlo::table::{COMPOSED, COMPOSITES};
use crate::stablehlo::tree::Operation;
use crate::stablehlo::types::write_list;
use crate::stablehlo::{Declined, Read};
use crate::text::printer::{write_escaped, write_string_or_dict};
use crate::types::PrimitiveType;

/// What the conversion to HLO understands itself: how names of such targets begin.
const UNDERSTOOD: &[&[u8]] = &[
    b"AggregateToTopK",
    b"ApproxTopK",
    b"LayoutConstraint",
    b"MoveTo",
    b"SPMD",
    b"Sharding",
    b"SparseActivations",
    b"TopK",
    b"annotate_device_placement",
    b"chlo.",
    b"mhlo.",
    b"ragged_all_to_all",
    b"sdy.",
    b"shape_assertion",
    b"stablehlo.",
    b"tf.",
    b"xla.",
];

/// The version of the interface whose configuration is a dictionary.
const TYPED: &str = "API_VERSION_TYPED_FFI";

impl<'a> Writer<'_, 'a> {
    pub fn call(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let callee = self.artifact.text(fields.need("callee")?)?;
        fields.finish()?;
        self.call_of(body, operation, callee)
    }

    fn call_of(&mut self, body: &mut Body, operation: &Operation<'a>, callee: &[u8]) -> Read<()> {
        let (name, orders) = self.function(callee)?;
        for (value, order) in operation.results.clone().zip(orders) {
            self.orders[value as usize] = order;
        }
        let tail = format!(", to_apply=%{}", &self.texts[name]);
        let names = self.names_of(self.tree.operands(operation));
        self.emit_of(body, operation, HloOpcode::Call, &names, &tail)
    }

    pub fn composite(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let name = self.artifact.text(fields.need("name")?)?;
        let decomposition = self.artifact.text(fields.need("decomposition")?)?;
        let attributes = fields.need("composite_attributes")?;
        let attributes = self.artifact.dictionary(attributes)?;
        let version = self.artifact.integer(fields.need("version")?)?;
        fields.finish()?;
        let unknown = Declined::because("a composite that is not known");
        let unknown = unknown.naming(&String::from_utf8_lossy(name));
        if !matches!(version, 0..=2) || !operation.regions.is_empty() {
            return Err(unknown);
        }
        if name == b"chlo.top_k" {
            return self.top_k(body, operation, &attributes);
        }
        let opcode = COMPOSITES.iter().find(|row| row.0 == name);
        match opcode {
            _ if !attributes.is_empty() => Err(unknown),
            Some(&(_, opcode)) => {
                let names = self.names_of(self.tree.operands(operation));
                self.emit_of(body, operation, opcode, &names, "")
            }
            None if COMPOSED.contains(&name) && self.is_real(operation)? => {
                self.call_of(body, operation, decomposition)
            }
            None => Err(unknown),
        }
    }

    /// Complex functions in what a composite is composed of are written out by jaxlib.
    fn is_real(&self, operation: &Operation<'a>) -> Read<bool> {
        let array = self.array(operation.results.start)?;
        Ok(!array.element_type.is_complex())
    }

    fn top_k(
        &mut self,
        body: &mut Body,
        operation: &Operation<'a>,
        attributes: &[(&[u8], u32)],
    ) -> Read<()> {
        let &[(b"k", k)] = attributes else {
            return Err(Declined::because("other attributes of top-k"));
        };
        let tail = format!(", k={}, largest=true", self.artifact.integer(k)?);
        let names = self.names_of(self.tree.operands(operation));
        self.emit_of(body, operation, HloOpcode::TopK, &names, &tail)
    }

    pub fn custom_call(&mut self, body: &mut Body, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let target = self.artifact.text(fields.need("call_target_name")?)?;
        if UNDERSTOOD.iter().any(|start| target.starts_with(start)) {
            return Err(Declined::because("a custom call that is not known")
                .naming(&String::from_utf8_lossy(target)));
        }
        let called = fields.need("called_computations")?;
        if !self.artifact.list(called)?.is_empty() {
            return Err(Declined::because("a custom call that calls"));
        }
        let mut tail = String::from(", custom_call_target=\"");
        write_escaped(&mut tail, target);
        tail.push('"');
        if self.artifact.boolean(fields.need("has_side_effect")?)? {
            tail.push_str(", custom_call_has_side_effect=true");
        }
        self.constraints(operation, fields.need("operand_layouts")?, &mut tail)?;
        self.aliases(&mut fields, operation, &mut tail)?;
        let version = fields.need("api_version")?;
        let version = self.artifact.word(version, &API_VERSION)?;
        let has_dictionary = fields
            .get("mhlo.backend_config")
            .is_some_and(|config| !self.artifact.is_text(config));
        match (version, has_dictionary) {
            ("API_VERSION_ORIGINAL", false) => {}
            // The version may be the original one then: the dictionary alone says it.
            ("API_VERSION_ORIGINAL" | TYPED, true) => {
                let _ = write!(tail, ", api_version={TYPED}");
            }
            (TYPED, false) | (_, true) => return Err(Declined::because("another configuration")),
            (version, false) => {
                let _ = write!(tail, ", api_version={version}");
            }
        }
        self.frontend_attributes(&mut fields, &mut tail)?;
        // Sharding means nothing on one device.
        fields.get("sdy.sharding");
        fields.get("sdy.sharding_rule");
        let config = self.config(&mut fields)?;
        let results: Vec<u32> = operation.results.clone().collect();
        let orders = self.listed_orders(fields.need("result_layouts")?, &results)?;
        fields.finish()?;
        for (&value, order) in results.iter().zip(orders.unwrap_or_default()) {
            self.orders[value as usize] = order;
        }
        self.custom(body, operation, [&tail, &config])
    }

    /// Writes a custom call, whose configuration stands behind its metadata.
    fn custom(
        &mut self,
        body: &mut Body,
        operation: &Operation<'a>,
        [tail, config]: [&str; 2],
    ) -> Read<()> {
        let location = Some(operation.location);
        let results: Vec<u32> = operation.results.clone().collect();
        let names = self.names_of(self.tree.operands(operation));
        let name = match &results[..] {
            &[result] => {
                self.begin(body, result, location, "custom-call")?;
                self.names[result as usize].clone()
            }
            _ => {
                let name = self.name_at(location, "custom-call")?;
                self.put_head(body, name.clone(), false)?;
                name
            }
        };
        self.put_shapes(body, &results)?;
        self.put_call(body, HloOpcode::CustomCall, &names, tail)?;
        let (metadata, _) = self.locations.of(self.artifact, operation.location)?;
        body.text.push_str(metadata);
        body.text.push_str(config);
        body.text.push('\n');
        match results.len() {
            1 => Ok(()),
            _ => self.parts(body, &name, &results, location),
        }
    }

    /// Appends how the operands have to lie, if the list says so.
    fn constraints(&mut self, operation: &Operation<'a>, list: u32, out: &mut String) -> Read<()> {
        let operands = self.tree.operands(operation);
        let Some(orders) = self.listed_orders(list, operands)? else {
            return Ok(());
        };
        out.push_str(", operand_layout_constraints={");
        for (at, (&value, order)) in operands.iter().zip(orders).enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            let own = std::mem::replace(&mut self.orders[value as usize], order);
            self.put_shape(out, value)?;
            self.orders[value as usize] = own;
        }
        out.push('}');
        Ok(())
    }

    fn aliases(
        &self,
        fields: &mut Fields<'a>,
        operation: &Operation<'a>,
        out: &mut String,
    ) -> Read<()> {
        let list = self.artifact.list(fields.need("output_operand_aliases")?)?;
        for (at, &alias) in list.iter().enumerate() {
            let alias = self.artifact.alias(alias)?;
            let operands = self.tree.operands(operation).len() as i64;
            if alias.operand < 0 || alias.operand >= operands {
                return Err(Declined::because("an operand that is not there"));
            }
            out.push_str(if at > 0 {
                ", {"
            } else {
                ", output_to_operand_aliasing={{"
            });
            write_list(out, &alias.output);
            let _ = write!(out, "}}: ({}, {{", alias.operand);
            write_list(out, &alias.operand_index);
            out.push_str("})");
        }
        out.push_str(if list.is_empty() { "" } else { "}" });
        Ok(())
    }

    fn frontend_attributes(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        let Some(attributes) = fields.get("mhlo.frontend_attributes") else {
            return Ok(());
        };
        let mut mark = ", frontend_attributes={";
        for (key, value) in self.artifact.dictionary(attributes)? {
            out.push_str(mark);
            let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            if key.is_empty() || !key.iter().all(is_name) {
                return Err(Declined::because("a name that HLO does not have"));
            }
            out.push_str(&String::from_utf8_lossy(key));
            out.push_str("=\"");
            write_escaped(out, self.artifact.text(value)?);
            out.push('"');
            mark = ",";
        }
        out.push_str(if mark == "," { "}" } else { "" });
        Ok(())
    }

    /// The configuration, behind a comma: a string, or a dictionary as MLIR prints it.
    fn config(&self, fields: &mut Fields<'a>) -> Read<String> {
        let string = self.artifact.text(fields.need("backend_config")?)?;
        let mut out = String::new();
        let Some(dictionary) = fields.get("mhlo.backend_config") else {
            if !string.is_empty() {
                out.push_str(", backend_config=");
                write_string_or_dict(&mut out, string);
            }
            return Ok(out);
        };
        if !string.is_empty() {
            return Err(Declined::because("two configurations"));
        }
        out.push_str(", backend_config={");
        for (at, (key, value)) in self
            .artifact
            .dictionary(dictionary)?
            .into_iter()
            .enumerate()
        {
            out.push_str(if at > 0 { ", " } else { "" });
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let starts = key.first().is_some_and(|byte| !byte.is_ascii_digit());
            if !starts || !key.iter().all(is_word) {
                return Err(Declined::because("a name that MLIR quotes"));
            }
            out.push_str(&String::from_utf8_lossy(key));
            out.push_str(" = ");
            self.config_value(value, &mut out)?;
        }
        out.push('}');
        Ok(out)
    }

    fn config_value(&self, value: u32, out: &mut String) -> Read<()> {
        if self.artifact.is_boolean(value) {
            let value = self.artifact.boolean(value)?;
            let _ = write!(out, "{value}");
            return Ok(());
        }
        if self.artifact.is_text(value) {
            let text = self.artifact.text(value)?;
            let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            if !text.iter().all(is_plain) {
                return Err(Declined::because("a string that MLIR escapes"));
            }
            let _ = write!(out, "\"{}\"", String::from_utf8_lossy(text));
            return Ok(());
        }
        let (number, element) = self.artifact.typed_integer(value)?;
        let bits = 8 * element.size_bytes();
        let (kind, number) = match element {
            PrimitiveType::Pred => return Err(Declined::because("a number of one bit")),
            _ if element.is_signed_integral() => ("i", i128::from(number)),
            _ if element.is_unsigned_integral() && bits < 64 => {
                ("ui", i128::from(number as u64 & ((1 << bits) - 1)))
            }
            _ if element.is_unsigned_integral() => ("ui", i128::from(number as u64)),
            _ => return Err(Declined::because("a number that is no integer")),
        };
        let _ = write!(out, "{number} : {kind}{bits}");
        Ok(())
    }
}
