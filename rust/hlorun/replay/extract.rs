//! One instruction as a module of its own.
//!
//! In: a module and an instruction that computes something. Out: a module whose entry has one
//! parameter per array the instruction reads and returns the arrays it defines, all as they lie in
//! memory: dimensions in the order of the layout. Small constants are taken along as constants, so
//! that the instruction is compiled as it is in the whole module.

use foldhash::HashMap;

use crate::error::{HloError, Result};
use crate::module::copy::Copier;
use crate::module::{
    ComputationId, HloComputation, HloModule, HloOpcode, InstructionId, NewInstruction, TextRef,
};
use crate::types::{ArrayShape, Shape, ShapeId, ShapeIndex};

/// Most arrays of one operand or result.
const MAX_LEAVES: usize = 1 << 16;
/// Constants up to this many bytes are taken along.
const LARGEST_CONSTANT: usize = 4096;

/// The module of one instruction.
pub struct Extracted {
    /// The module.
    pub module: HloModule,
    /// The arrays its parameters stand for, in order: operand number and part of it.
    pub parameters: Vec<(usize, ShapeIndex)>,
    /// The arrays its result stands for, in order.
    pub results: Vec<ShapeIndex>,
}

struct Extractor<'m> {
    copier: Copier<'m>,
    entry: ComputationId,
}

/// Extracts `id`.
///
/// # Errors
/// [`HloError::Unsupported`] for tuples of absurdly many parts.
pub fn extract(module: &HloModule, id: InstructionId) -> Result<Extracted> {
    let mut copier = Copier::new(module);
    copier.to.config.replica_count = module.config.replica_count;
    copier.to.config.num_partitions = module.config.num_partitions;
    let entry = copier.to.add_computation(HloComputation {
        name: module.instruction_data(id).name,
        ..HloComputation::default()
    });
    copier.to.entry = Some(entry);
    copier.copy_computations(module.instruction(id).called_computations().into_vec());
    let mut extractor = Extractor { copier, entry };
    let mut parameters = Vec::new();
    let mut operands: Vec<InstructionId> = Vec::new();
    let mut known: HashMap<InstructionId, InstructionId> = HashMap::default();
    for (number, &operand) in module.operand_ids(id).iter().enumerate() {
        let new = match known.get(&operand) {
            Some(&new) => new,
            None => extractor.operand(number, operand, &mut parameters)?,
        };
        known.insert(operand, new);
        operands.push(new);
    }
    let body = extractor.copier.copy_instruction(id, entry, &operands);
    let results = extractor.results(id, body)?;
    Ok(Extracted {
        module: extractor.copier.to,
        parameters,
        results,
    })
}

/// The shape of an array as it lies in memory: row-major, slowest dimension first.
fn physical(shape: &ArrayShape) -> ArrayShape {
    let order = shape.minor_to_major();
    let dims: Vec<i64> = order
        .iter()
        .rev()
        .filter_map(|&dim| shape.dims.get(usize::from(dim)).copied())
        .collect();
    ArrayShape::new(shape.element_type, &dims)
}

impl Extractor<'_> {
    fn add(
        &mut self,
        opcode: HloOpcode,
        shape: ShapeId,
        operands: &[InstructionId],
        immediate: u32,
    ) -> InstructionId {
        let name: TextRef = self.copier.to.computation(self.entry).name;
        self.copier.to.add_instruction(
            self.entry,
            NewInstruction {
                name,
                text: TextRef::default(),
                opcode,
                shape,
                operands,
                attributes: &[],
                immediate,
            },
        )
    }

    /// What stands for an operand: parameters for its arrays, put together as its shape says.
    fn operand(
        &mut self,
        number: usize,
        id: InstructionId,
        parameters: &mut Vec<(usize, ShapeIndex)>,
    ) -> Result<InstructionId> {
        let instruction = self.copier.from.instruction(id);
        if let Some(literal) = instruction.literal()
            && literal.bytes().is_some_and(|b| b.len() <= LARGEST_CONSTANT)
        {
            return Ok(self.copier.copy_instruction(id, self.entry, &[]));
        }
        let whole = instruction.shape_id();
        self.checked_leaves(id, whole)?;
        enum Step {
            Shape(ShapeId, ShapeIndex),
            Close(ShapeId, usize),
        }
        let mut done: Vec<InstructionId> = Vec::new();
        let mut stack = vec![Step::Shape(whole, ShapeIndex::default())];
        while let Some(step) = stack.pop() {
            match step {
                Step::Shape(shape, index) => match self.copier.to.shapes.get(shape).clone() {
                    Shape::Tuple(parts) => {
                        stack.push(Step::Close(shape, parts.len()));
                        for (k, &part) in parts.iter().enumerate().rev() {
                            stack.push(Step::Shape(part, index.child(k as i64)));
                        }
                    }
                    Shape::Array(array) => {
                        parameters.push((number, index));
                        done.push(self.parameter(shape, &array));
                    }
                    Shape::Token | Shape::Opaque | Shape::Buffer(_) => {
                        done.push(self.add(HloOpcode::AfterAll, shape, &[], 0));
                    }
                },
                Step::Close(shape, count) => {
                    let parts = done.split_off(done.len().saturating_sub(count));
                    done.push(self.add(HloOpcode::Tuple, shape, &parts, 0));
                }
            }
        }
        done.pop()
            .ok_or_else(|| HloError::execution("an operand has no parts"))
    }

    fn parameter(&mut self, shape: ShapeId, array: &ArrayShape) -> InstructionId {
        let number = self.copier.to.computation(self.entry).parameters.len() as u32;
        let dense = self.copier.to.shapes.array(physical(array));
        let parameter = self.add(HloOpcode::Parameter, dense, &[], number);
        self.copier
            .to
            .computation_mut(self.entry)
            .parameters
            .push(parameter);
        match array.is_row_major() && array.is_static() {
            true => {
                self.copier.to.instruction_data_mut(parameter).shape = shape;
                parameter
            }
            false => self.add(HloOpcode::Bitcast, shape, &[parameter], 0),
        }
    }

    /// Makes the arrays of `body` the result.
    fn results(&mut self, id: InstructionId, body: InstructionId) -> Result<Vec<ShapeIndex>> {
        let whole = self.copier.from.instruction(id).shape_id();
        let leaves = self.checked_leaves(id, whole)?;
        let mut indices = Vec::new();
        let mut parts = Vec::new();
        for (index, leaf) in leaves {
            let Shape::Array(array) = self.copier.to.shapes.get(leaf).clone() else {
                continue;
            };
            let (mut at, mut shape) = (body, whole);
            for &element in &index.0 {
                let inner = self.copier.to.shapes.get(shape).as_tuple();
                let Some(&part) = inner.and_then(|parts| parts.get(element as usize)) else {
                    break;
                };
                at = self.add(HloOpcode::GetTupleElement, part, &[at], element as u32);
                shape = part;
            }
            if !array.is_row_major() || !array.is_static() {
                let dense = self.copier.to.shapes.array(physical(&array));
                at = self.add(HloOpcode::Bitcast, dense, &[at], 0);
            }
            indices.push(index);
            parts.push(at);
        }
        let root = match (&parts[..], self.copier.from.instruction(id).shape()) {
            (&[only], Shape::Array(_)) => only,
            _ => {
                let shape_of = |&part: &InstructionId| self.copier.to.instruction_data(part).shape;
                let shapes: Vec<ShapeId> = parts.iter().map(shape_of).collect();
                let shape = self.copier.to.shapes.tuple(&shapes);
                self.add(HloOpcode::Tuple, shape, &parts, 0)
            }
        };
        self.copier.to.computation_mut(self.entry).root = Some(root);
        Ok(indices)
    }

    fn checked_leaves(
        &self,
        id: InstructionId,
        shape: ShapeId,
    ) -> Result<Vec<(ShapeIndex, ShapeId)>> {
        self.copier
            .from
            .shapes
            .leaves(shape, MAX_LEAVES)
            .ok_or_else(|| {
                let name = self.copier.from.instruction(id).name();
                HloError::unsupported(
                    format!("{name}: more than {MAX_LEAVES} parts in one tuple"),
                    name,
                )
            })
    }
}
