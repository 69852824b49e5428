//! Layouts: XLA gives most instructions the layout of an operand, and a transpose that layout permuted.
//!
//! The order in which a plan sums is that of the layouts, so that they are part of what a module means.

use super::{Body, Writer};
use crate::module::HloOpcode;
use crate::stablehlo::table::Form;
use crate::stablehlo::tree::Operation;
use crate::stablehlo::types::write_list;
use crate::stablehlo::{Declined, Read};

/// The dimensions of an array, minor to major; `None` for the default layout (last dimension minor-most).
pub type Order = Option<Box<[i64]>>;

impl<'a> Writer<'_, 'a> {
    /// Appends the shape of a value.
    pub fn put_shape(&self, out: &mut String, value: u32) -> Read<()> {
        let text = self.shape(value)?;
        let Some(order) = &self.orders[value as usize] else {
            out.push_str(text);
            return Ok(());
        };
        out.push_str(&text[..text.find('{').unwrap_or(text.len())]);
        out.push('{');
        write_list(out, order);
        out.push('}');
        Ok(())
    }

    /// Appends the shape of what holds `values`: of the value, or of a tuple of them.
    pub fn put_shapes(&self, body: &mut Body, values: &[u32]) -> Read<()> {
        if let &[value] = values {
            return self.put_shape(&mut body.text, value);
        }
        body.text.push('(');
        for (at, &value) in values.iter().enumerate() {
            body.text.push_str(if at > 0 { ", " } else { "" });
            self.put_shape(&mut body.text, value)?;
            self.check_length(body)?;
        }
        body.text.push(')');
        Ok(())
    }

    /// The order in a list of layouts, one for each of `values`; `None` where the list is empty.
    pub fn listed_orders(&self, list: u32, values: &[u32]) -> Read<Option<Vec<Order>>> {
        let list = self.artifact.list(list)?;
        if list.is_empty() {
            return Ok(None);
        }
        if list.len() != values.len() {
            return Err(Declined::because("another number of layouts"));
        }
        let orders = list.iter().zip(values).map(|(&layout, &value)| {
            let Ok(array) = self.array(value) else {
                return Ok(None);
            };
            let rank = array.dims.len() as i64;
            let order = self.artifact.indices(layout)?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..rank) {
                return Err(Declined::because("a layout of other dimensions"));
            }
            Ok(unless_usual(order))
        });
        Ok(Some(orders.collect::<Read<_>>()?))
    }

    /// Gives the results of an operation the layouts that XLA does, where that follows from its operands.
    pub fn infer_orders(&mut self, operation: &Operation<'a>) -> Read<()> {
        let operands = self.tree.operands(operation);
        let order = |at: usize| {
            let value = operands.get(at).copied();
            value.and_then(|value| self.orders[value as usize].clone())
        };
        let first = operation.results.start as usize;
        match operation.row.form {
            Form::Transpose => self.transpose_order(operation)?,
            Form::Plain | Form::Accurate | Form::Compare => {
                use HloOpcode::*;
                let opcode = operation.row.opcode;
                // A constant is the second of two wherever that is the same.
                let at = usize::from(is_commutative(opcode) && self.is_fixed(operands));
                let keeps = !matches!(opcode, AfterAll | PartitionId | ReplicaId | Reshape);
                if keeps && let Ok(array) = self.array(operation.results.start) {
                    let rank = array.dims.len();
                    self.orders[first] = order(at).filter(|order| order.len() == rank);
                }
            }
            Form::Scalars => {
                let at = usize::from(operation.row.opcode == HloOpcode::Clamp);
                self.orders[first] = order(at);
            }
            Form::Dimensions
            | Form::ReducePrecision
            | Form::SelectAndScatter
            | Form::Scatter
            | Form::Sort
            | Form::OptimizationBarrier
            | Form::Same
            | Form::While
            | Form::Cholesky => {
                let orders: Vec<Order> = (0..operation.results.len()).map(order).collect();
                for (value, order) in operation.results.clone().zip(orders) {
                    self.orders[value as usize] = order;
                }
            }
            Form::TriangularSolve => self.orders[first] = order(1),
            _ => {}
        }
        Ok(())
    }

    fn transpose_order(&mut self, operation: &Operation<'a>) -> Read<()> {
        let mut fields = self.fields(operation)?;
        let permutation = self.artifact.integers(fields.need("permutation")?)?;
        let &[operand] = self.tree.operands(operation) else {
            return Err(Declined::because("another number of operands"));
        };
        let rank = permutation.len() as i64;
        let usual = || (0..rank).rev().collect();
        let order: Vec<i64> = match &self.orders[operand as usize] {
            Some(order) => order.to_vec(),
            None => usual(),
        };
        let moved = order.iter().map(|dim| {
            let at = permutation.iter().position(|from| from == dim);
            at.map(|at| at as i64)
                .ok_or(Declined::because("a permutation that is none"))
        });
        let moved = moved.collect::<Read<Vec<i64>>>()?;
        self.orders[operation.results.start as usize] = unless_usual(moved);
        Ok(())
    }

    /// Whether the first of two operands is constant and the second is not.
    fn is_fixed(&self, operands: &[u32]) -> bool {
        matches!(operands, &[a, b] if self.is_constant_like(a) && !self.is_constant_like(b))
    }

    /// Whether a value is a constant, or one that is spread out.
    fn is_constant_like(&self, value: u32) -> bool {
        let operation = self.tree.values[value as usize].operation;
        let Some(operation) = operation.map(|id| &self.tree.operations[id as usize]) else {
            return false;
        };
        match operation.row.form {
            Form::Constant => true,
            Form::BroadcastInDim => {
                matches!(self.tree.operands(operation), &[operand] if self.is_constant(operand))
            }
            _ => false,
        }
    }
}

fn is_commutative(opcode: HloOpcode) -> bool {
    use HloOpcode::*;
    matches!(opcode, Add | Multiply | Maximum | Minimum | And | Or | Xor)
}

/// An order, unless it is the usual one.
fn unless_usual(order: Vec<i64>) -> Order {
    let is_usual = order.iter().rev().copied().eq(0..order.len() as i64);
    (!is_usual).then(|| order.into_boxed_slice())
}
