//! Instructions: `HloInstructionProto` → `%name = shape opcode(operands), key=value, …`.

use std::fmt::Write;

use super::Writer;
use super::heads::{Head, Heads};
use super::literal::written;
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, TextRef};
use crate::proto::schema::{
    OriginalValueProto, ResultAccuracy, StatisticsViz, instruction as field,
};
use crate::proto::wire::{Present, View};
use crate::text::attribute_table::{computation_attributes, extra_attributes};
use crate::text::prepared::{PreparedInstruction, PreparedValue};
use crate::text::printer::{write_literal, write_string_or_dict};
use crate::text::tables::OPCODES;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType};

/// Elements of a constant that are written out; the values of larger ones go past the text.
const MOST_WRITTEN: i64 = 1024;

const RARE: Present = Present::of(&[
    field::is_composite,
    field::sharding,
    field::frontend_attributes,
    field::control_predecessor_ids,
    field::statistics_viz,
    field::result_accuracy,
    field::original_value,
]);
const CALLS: Present = Present::of(&[field::called_computation_ids]);
const METADATA: Present = Present::of(&[field::metadata]);

impl Writer<'_> {
    pub(super) fn instruction(&mut self, at: u32, root: i64, heads: &mut Heads<'_>) -> Result<()> {
        let first = self.prepared.operands.len() as u32;
        let number = self.prepared.instructions.len() as u32;
        let knows_operands = heads.write(at, number, &mut self.prepared.operands);
        let heads = &*heads;
        let proto = heads.view(at);
        let head = heads.head(at);
        let start = if head.id == root { "  ROOT %" } else { "  %" };
        self.out.push_str(start);
        let name_start = self.out.len();
        self.put_checked(head.name);
        let name = TextRef::new(name_start, self.out.len());
        self.out.push_str(" = ");
        let shape = self.put_numbered_shape(head.shape)?;
        self.out.push(' ');
        let opcode_start = self.out.len();
        let opcode = match self.window_at(head.opcode) {
            Some(window) => OPCODES.at_start(window, head.opcode.len()),
            None => OPCODES.get(head.opcode),
        };
        match (opcode, self.window_at(head.opcode)) {
            (None, _) => self.put_name(head.opcode, "an opcode")?,
            // Zeros at its end do not count.
            (Some(known), Some(window)) => self.put_start(window, known.name().len()),
            (Some(known), None) => self.out.push_str(known.name()),
        }
        let opcode = opcode.unwrap_or(HloOpcode::Unknown);
        let opcode_text = TextRef::new(opcode_start, self.out.len());
        self.out.push('(');
        let literal = self.prepared.literals.len() as u32;
        match opcode {
            HloOpcode::Parameter => self.put_int(proto.int(field::parameter_number)),
            HloOpcode::Constant => self.constant(proto)?,
            _ => self.put_instructions(heads.operands_of(at).iter().map(|&at| heads.head(at)))?,
        }
        let close = self.out.len() as u32;
        self.out.push(')');
        self.noted = self.out.len();
        let first_attribute = self.prepared.attributes.len() as u32;
        self.attributes(opcode, at, heads)?;
        self.out.push('\n');
        // The text has no operands of these.
        let has_none = matches!(opcode, HloOpcode::Parameter | HloOpcode::Constant);
        let is_known = knows_operands
            && opcode != HloOpcode::Unknown
            && (!has_none || heads.operands_of(at).is_empty());
        self.prepared.instructions.push(PreparedInstruction {
            name,
            shape,
            opcode,
            opcode_text,
            operands: is_known.then_some((first, self.prepared.operands.len() as u32)),
            close,
            literal,
            attributes: (first_attribute, self.prepared.attributes.len() as u32),
            attributes_end: self.noted as u32,
        });
        Ok(())
    }

    /// What stands behind the operands.
    #[inline]
    fn attributes(&mut self, opcode: HloOpcode, at: u32, heads: &Heads<'_>) -> Result<()> {
        let proto = heads.view(at);
        for &key in extra_attributes(opcode) {
            match key {
                AttrKey::SliceSizes if opcode != HloOpcode::Gather => {
                    self.slice_sizes(proto, heads.head(at).shape)?;
                }
                _ => self.attribute(key, opcode, proto)?,
            }
        }
        if proto.has_any(CALLS) {
            let called = proto.numbers(field::called_computation_ids);
            self.calls(&called, opcode, at, heads)?;
        }
        if proto.has_any(RARE) {
            self.rare(proto, heads)?;
        }
        if proto.has_any(METADATA) {
            let start = self.out.len();
            self.metadata(proto.each(field::metadata), ", ")?;
            let value = TextRef::new(start + ", metadata=".len(), self.out.len());
            if self.out.len() > start {
                self.note(start, AttrKey::Metadata, PreparedValue::Raw(value));
            }
        }
        let config = proto.bytes(field::backend_config);
        if !config.is_empty() {
            self.out.push_str(", backend_config=");
            write_string_or_dict(&mut self.out, config);
        }
        Ok(())
    }

    /// Notes the attribute that was written from `start` on, if those before it are noted.
    #[inline]
    pub(super) fn note(&mut self, start: usize, key: AttrKey, value: PreparedValue) {
        if start == self.noted {
            self.prepared.attributes.push((key, value));
            self.noted = self.out.len();
        }
    }

    fn constant(&mut self, proto: View<'_, '_>) -> Result<()> {
        let literal = match proto.find(field::literal) {
            Some(bytes) => self.read_literal(bytes)?,
            None => Literal {
                shape: ArrayShape::new(PrimitiveType::Pred, &[]),
                value: LiteralValue::Elided,
            },
        };
        match written(&literal) <= MOST_WRITTEN {
            true => write_literal(&mut self.out, &literal),
            false => self.out.push_str("{...}"),
        }
        self.push_literal(literal);
        self.check_length()
    }

    /// Appends the computations that it calls.
    fn calls(&mut self, ids: &[i64], opcode: HloOpcode, at: u32, heads: &Heads<'_>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let keys: &[AttrKey] = match opcode {
            // The proto has the body first.
            HloOpcode::While => &[AttrKey::Body, AttrKey::Condition],
            HloOpcode::Conditional if is_two_way(at, heads) => {
                &[AttrKey::TrueComputation, AttrKey::FalseComputation]
            }
            HloOpcode::Conditional => &[AttrKey::BranchComputations],
            HloOpcode::CustomCall if ids.len() > 1 => &[AttrKey::CalledComputations],
            HloOpcode::Unknown => &[AttrKey::CalledComputations],
            _ => computation_attributes(opcode),
        };
        let is_list = matches!(
            keys.first(),
            Some(AttrKey::BranchComputations | AttrKey::CalledComputations)
        );
        let keys = match keys {
            [AttrKey::ToApply, _] => &keys[..1],
            keys => keys,
        };
        if keys.is_empty() || !is_list && ids.len() != keys.len() {
            return Err(self.fault(format!(
                "expected {} computations that {} '{}' calls, found {}",
                keys.len(),
                opcode.name(),
                heads.head(at).name,
                ids.len()
            )));
        }
        if is_list {
            self.key(keys[0]);
            self.out.push('{');
            for (at, &id) in ids.iter().enumerate() {
                self.out.push_str(if at > 0 { ", " } else { "" });
                self.put_computation(id)?;
            }
            self.out.push('}');
            return Ok(());
        }
        for (&key, &id) in keys.iter().zip(ids) {
            let start = self.out.len();
            self.key(key);
            if let Some(number) = self.put_computation(id)? {
                self.note(start, key, PreparedValue::Computation(number));
            }
        }
        Ok(())
    }

    /// Attributes that every opcode may have and few instructions do: those of [`RARE`].
    #[inline(never)]
    fn rare(&mut self, proto: View<'_, '_>, heads: &Heads<'_>) -> Result<()> {
        if proto.is(field::is_composite) {
            self.out.push_str(", is_composite=true");
        }
        if let Some(sharding) = self.message(proto, field::sharding)? {
            self.out.push_str(", sharding=");
            self.sharding(&sharding)?;
        }
        self.frontend_attributes(proto, field::frontend_attributes)?;
        let predecessors = proto.numbers(field::control_predecessor_ids);
        if !predecessors.is_empty() {
            self.out.push_str(", control-predecessors={");
            let mut named = Vec::with_capacity(predecessors.len());
            for &id in &predecessors {
                named.push(heads.need(id, self)?);
            }
            self.put_instructions(named.into_iter())?;
            self.out.push('}');
        }
        let viz: Option<StatisticsViz> = self.message(proto, field::statistics_viz)?;
        if let Some(viz) = viz.filter(|viz| !viz.statistics.is_empty()) {
            self.put(format_args!(
                ", statistics={{visualizing_index={}",
                viz.stat_index_to_visualize
            ));
            for statistic in &viz.statistics {
                self.out.push(',');
                self.put_name(&statistic.stat_name, "a statistic")?;
                self.put(format_args!("={}", statistic.stat_val));
            }
            self.out.push('}');
        }
        self.result_accuracy(proto)?;
        self.original_value(proto)
    }

    fn result_accuracy(&mut self, proto: View<'_, '_>) -> Result<()> {
        let accuracy = self.message(proto, field::result_accuracy)?;
        let Some(accuracy): Option<ResultAccuracy> = accuracy else {
            return Ok(());
        };
        if let Some(tolerance) = &accuracy.tolerance {
            self.put(format_args!(
                ", result_accuracy={{tolerance={{atol={},rtol={},ulps={}}}}}",
                tolerance.atol, tolerance.rtol, tolerance.ulps
            ));
        } else if accuracy.mode == Some(1) {
            self.out.push_str(", result_accuracy={mode=highest}");
        }
        Ok(())
    }

    /// `origin={…}`: one part per leaf, in the order of the leaves.
    fn original_value(&mut self, proto: View<'_, '_>) -> Result<()> {
        let original = self.message(proto, field::original_value)?;
        let Some(original): Option<OriginalValueProto> = original else {
            return Ok(());
        };
        if original.is_synthetic_call {
            self.out.push_str(", origin={[synthetic_call]}");
            return Ok(());
        }
        if original.elements.is_empty() {
            return Ok(());
        }
        let is_tuple = original.elements.len() > 1 || !original.elements[0].shape_index.is_empty();
        if is_tuple
            && original
                .elements
                .iter()
                .any(|element| element.shape_index.len() != 1)
        {
            // A tree, whose shape the elements alone do not tell.
            return Ok(());
        }
        self.out.push_str(if is_tuple {
            ", origin={("
        } else {
            ", origin={"
        });
        for (at, element) in original.elements.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            self.out.push('{');
            if let Some(array) = &element.original_array {
                self.put_string(&array.instruction_name);
                if !array.shape_index.is_empty() {
                    self.out.push_str(" {");
                    self.put_list(&array.shape_index);
                    self.out.push('}');
                }
            }
            self.out.push('}');
        }
        let _ = self.out.write_str(if is_tuple { ")}" } else { "}" });
        Ok(())
    }
}

/// Whether a conditional chooses by a truth value: two branches by anything else are a list.
fn is_two_way(at: u32, heads: &Heads<'_>) -> bool {
    let chooser = heads.operands_of(at).first().map(|&at| heads.head(at));
    heads.view(at).numbers(field::called_computation_ids).len() == 2
        && chooser.is_some_and(Head::is_predicate)
}
