//! Instructions: `HloInstructionProto` → `%name = shape opcode(operands), key=value, …`.

use std::fmt::Write;

use super::Writer;
use super::heads::Heads;
use super::literal::read_literal;
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode};
use crate::proto::schema::HloInstructionProto;
use crate::text::attribute_table::{computation_attributes, extra_attributes};
use crate::text::printer::{write_literal, write_string_or_dict};
use crate::text::tables::OPCODES;
use crate::types::{ArrayShape, Literal, LiteralValue, PrimitiveType};

/// Elements of a constant that are written out; the values of larger ones go past the text.
const MOST_WRITTEN: i64 = 1024;

impl Writer<'_> {
    pub(super) fn instruction(
        &mut self,
        proto: &HloInstructionProto,
        root: i64,
        heads: &Heads<'_>,
    ) -> Result<()> {
        let start = if proto.id == root { "  ROOT %" } else { "  %" };
        self.out.push_str(start);
        self.put_name(&proto.name, "an instruction")?;
        self.out.push_str(" = ");
        self.put_shape(&proto.shape)?;
        self.out.push(' ');
        self.put_name(&proto.opcode, "an opcode")?;
        self.out.push('(');
        let opcode = OPCODES.get(&proto.opcode).unwrap_or(HloOpcode::Unknown);
        match opcode {
            HloOpcode::Parameter => self.put_int(proto.parameter_number),
            HloOpcode::Constant => self.constant(proto)?,
            _ => self.put_instructions(&proto.operand_ids, heads)?,
        }
        self.out.push(')');
        for &key in extra_attributes(opcode) {
            self.attribute(key, opcode, proto)?;
        }
        self.calls(opcode, proto, heads)?;
        self.common(proto, heads)?;
        self.out.push('\n');
        Ok(())
    }

    fn constant(&mut self, proto: &HloInstructionProto) -> Result<()> {
        let literal = match &proto.literal {
            Some(bytes) => read_literal(bytes.clone(), self.limits, self.filename())?,
            None => Literal {
                shape: ArrayShape::new(PrimitiveType::Pred, &[]),
                value: LiteralValue::Elided,
            },
        };
        match literal.shape.element_count() {
            Some(count) if count <= MOST_WRITTEN => write_literal(&mut self.out, &literal),
            _ => self.out.push_str("{...}"),
        }
        self.push_literal(literal);
        Ok(())
    }

    fn calls(
        &mut self,
        opcode: HloOpcode,
        proto: &HloInstructionProto,
        heads: &Heads<'_>,
    ) -> Result<()> {
        let ids = &proto.called_computation_ids;
        if ids.is_empty() {
            return Ok(());
        }
        let keys: &[AttrKey] = match opcode {
            // The proto has the body first.
            HloOpcode::While => &[AttrKey::Body, AttrKey::Condition],
            HloOpcode::Conditional if is_two_way(proto, heads) => {
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
                String::from_utf8_lossy(&proto.name),
                ids.len()
            )));
        }
        if is_list {
            self.put(format_args!(", {}={{", keys[0].name().unwrap_or_default()));
            for (at, &id) in ids.iter().enumerate() {
                self.out.push_str(if at > 0 { ", " } else { "" });
                self.put_computation(id)?;
            }
            self.out.push('}');
            return Ok(());
        }
        for (key, &id) in keys.iter().zip(ids) {
            self.put(format_args!(", {}=", key.name().unwrap_or_default()));
            self.put_computation(id)?;
        }
        Ok(())
    }

    /// Attributes of all opcodes.
    fn common(&mut self, proto: &HloInstructionProto, heads: &Heads<'_>) -> Result<()> {
        if proto.is_composite {
            self.out.push_str(", is_composite=true");
        }
        if let Some(sharding) = &proto.sharding {
            self.out.push_str(", sharding=");
            self.sharding(sharding)?;
        }
        if let Some(attributes) = &proto.frontend_attributes {
            self.frontend_attributes(&attributes.map)?;
        }
        if !proto.control_predecessor_ids.is_empty() {
            self.out.push_str(", control-predecessors={");
            self.put_instructions(&proto.control_predecessor_ids, heads)?;
            self.out.push('}');
        }
        if let Some(viz) = proto
            .statistics_viz
            .as_ref()
            .filter(|viz| !viz.statistics.is_empty())
        {
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
        self.result_accuracy(proto);
        self.original_value(proto)?;
        if let Some(metadata) = &proto.metadata {
            self.metadata(metadata, ", ");
        }
        if !proto.backend_config.is_empty() {
            self.out.push_str(", backend_config=");
            write_string_or_dict(&mut self.out, &proto.backend_config);
        }
        Ok(())
    }

    fn result_accuracy(&mut self, proto: &HloInstructionProto) {
        let Some(accuracy) = &proto.result_accuracy else {
            return;
        };
        if let Some(tolerance) = &accuracy.tolerance {
            self.put(format_args!(
                ", result_accuracy={{tolerance={{atol={},rtol={},ulps={}}}}}",
                tolerance.atol, tolerance.rtol, tolerance.ulps
            ));
        } else if accuracy.mode == Some(1) {
            self.out.push_str(", result_accuracy={mode=highest}");
        }
    }

    /// `origin={…}`: one part per leaf, in the order of the leaves.
    fn original_value(&mut self, proto: &HloInstructionProto) -> Result<()> {
        let Some(original) = &proto.original_value else {
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
fn is_two_way(proto: &HloInstructionProto, heads: &Heads<'_>) -> bool {
    let chooser = proto.operand_ids.first().and_then(|&id| heads.get(id));
    proto.called_computation_ids.len() == 2 && chooser.is_some_and(|head| head.is_predicate)
}
