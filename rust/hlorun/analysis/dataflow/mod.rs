//! Which value is where, who uses it, and which values must share memory.
//!
//! Comes in: a module. Goes out: [`HloDataflowAnalysis`], XLA's analysis of that name in SSA form:
//! every position holds one value, and where several may arrive (loops, branches) there is a phi.
//! Promises: numbers of values are those XLA would give the same text; time is near linear; nothing
//! recurses. Positions that no value reaches, as in dead computations, hold none.

pub mod alias;
pub mod graph;
mod phi;
pub mod positions;
mod propagate;
mod queue;

use std::ops::Range;

pub use alias::{HloAliasAnalysis, InPlacePair};
pub use graph::{CallContext, CallGraph, PostOrder, Users};
pub use positions::{PositionId, Positions};

use crate::error::Result;
use crate::module::{HloModule, HloOpcode, InstructionId};
use crate::types::{Shape, ShapeId};
use propagate::{NONE, Propagation};

/// A value: what one instruction puts into one part of its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HloValue {
    /// XLA's number; there are gaps.
    pub id: u32,
    /// Where it is defined.
    pub defining_position: PositionId,
    /// Whether several values meet in it.
    pub is_phi: bool,
    positions: Range<u32>,
    uses: Range<u32>,
}

/// One use of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HloUse {
    /// Who uses it.
    pub instruction: InstructionId,
    /// As which operand.
    pub operand: u32,
    /// The position in the operand that holds the value.
    pub position: PositionId,
}

/// A value by its place in [`HloDataflowAnalysis::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueIndex(pub u32);

/// The values of a module.
#[derive(Clone, Debug)]
pub struct HloDataflowAnalysis {
    /// Numbers of all parts of all results.
    pub positions: Positions,
    /// Users of every instruction.
    pub users: Users,
    /// Callers of every computation.
    pub calls: CallGraph,
    /// Operands before users.
    pub post_order: PostOrder,
    values: Vec<HloValue>,
    value_at: Vec<u32>,
    value_positions: Vec<PositionId>,
    uses: Vec<HloUse>,
}

impl HloDataflowAnalysis {
    /// Analyses a module.
    ///
    /// # Errors
    /// [`crate::HloError::Unsupported`] for modules with cycles, with computations called both as
    /// control flow and per element, and with absurdly large tuples.
    pub fn run(module: &HloModule) -> Result<HloDataflowAnalysis> {
        let found = Propagation::run(module)?;
        let mut slot = vec![NONE; found.values.len()];
        let mut values = Vec::new();
        for (id, raw) in found.values.iter().enumerate() {
            if !raw.is_deleted {
                slot[id] = values.len() as u32;
                values.push(HloValue {
                    id: id as u32,
                    defining_position: raw.position,
                    is_phi: raw.is_phi,
                    positions: 0..0,
                    uses: 0..0,
                });
            }
        }
        let mut value_at = found.value_at;
        for value in &mut value_at {
            if *value != NONE {
                *value = slot[*value as usize];
            }
        }
        let mut analysis = HloDataflowAnalysis {
            positions: found.positions,
            users: found.users,
            calls: found.calls,
            post_order: found.order,
            values,
            value_at,
            value_positions: Vec::new(),
            uses: Vec::new(),
        };
        analysis.gather_positions(module);
        analysis.gather_uses(module);
        Ok(analysis)
    }

    /// All values, by number.
    pub fn values(&self) -> &[HloValue] {
        &self.values
    }

    /// All values with their indices.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = ValueIndex> + use<> {
        (0..self.values.len() as u32).map(ValueIndex)
    }

    /// A value.
    pub fn value(&self, index: ValueIndex) -> &HloValue {
        &self.values[index.0 as usize]
    }

    /// The value at a position.
    pub fn value_at(&self, position: PositionId) -> Option<ValueIndex> {
        let value = self.value_at[position.0 as usize];
        (value != NONE).then_some(ValueIndex(value))
    }

    /// Where a value is, the defining position first.
    pub fn positions_of(&self, value: ValueIndex) -> &[PositionId] {
        let range = &self.values[value.0 as usize].positions;
        &self.value_positions[range.start as usize..range.end as usize]
    }

    /// Who uses a value.
    pub fn uses_of(&self, value: ValueIndex) -> &[HloUse] {
        let range = &self.values[value.0 as usize].uses;
        &self.uses[range.start as usize..range.end as usize]
    }

    /// The instruction that defines a value.
    pub fn defining_instruction(&self, value: ValueIndex) -> InstructionId {
        self.positions
            .instruction(self.value(value).defining_position)
    }

    /// The shape of a value.
    pub fn shape(&self, value: ValueIndex) -> ShapeId {
        self.positions.shape(self.value(value).defining_position)
    }

    /// Whether a value is part of what the entry computation returns.
    pub fn lives_out(&self, module: &HloModule, value: ValueIndex) -> bool {
        let root = module.entry_computation().and_then(|(_, entry)| entry.root);
        self.positions_of(value)
            .iter()
            .any(|&position| Some(self.positions.instruction(position)) == root)
    }

    fn gather_positions(&mut self, module: &HloModule) {
        let mut counts = vec![1u32; self.values.len()];
        let others = |this: &Self, visit: &mut dyn FnMut(usize, PositionId)| {
            for computation in module.computation_ids() {
                for &id in &module.computation(computation).instructions {
                    for position in this.positions.of(id) {
                        let value = this.value_at[position.0 as usize];
                        if value == NONE {
                            continue;
                        }
                        let defining = this.values[value as usize].defining_position;
                        if defining != position {
                            visit(value as usize, position);
                        }
                    }
                }
            }
        };
        others(self, &mut |value, _| counts[value] += 1);
        let mut start = 0u32;
        for (value, &count) in self.values.iter_mut().zip(&counts) {
            value.positions = start..start + count;
            start += count;
        }
        let mut next: Vec<u32> = self.values.iter().map(|v| v.positions.start + 1).collect();
        let mut all = vec![PositionId(0); start as usize];
        for value in &self.values {
            all[value.positions.start as usize] = value.defining_position;
        }
        others(self, &mut |value, position| {
            all[next[value] as usize] = position;
            next[value] += 1;
        });
        self.value_positions = all;
    }

    fn gather_uses(&mut self, module: &HloModule) {
        for index in 0..self.values.len() {
            let start = self.uses.len() as u32;
            let range = self.values[index].positions.clone();
            let positions = &self.value_positions[range.start as usize..range.end as usize];
            let mut roots: Vec<InstructionId> = positions
                .iter()
                .map(|&position| self.positions.instruction(position))
                .filter(|&id| module.instruction(id).is_root())
                .collect();
            roots.dedup();
            for &position in positions {
                let id = self.positions.instruction(position);
                let whole = self.positions.is_root(position);
                for &(user, operand) in self.users.of(id) {
                    // A root that holds the value counts as a use, whatever it does with it.
                    let reads = reads_operand(module.instruction(user).opcode(), whole)
                        || roots.contains(&user);
                    if reads {
                        self.uses.push(HloUse {
                            instruction: user,
                            operand,
                            position,
                        });
                    }
                }
            }
            self.values[index].uses = start..self.uses.len() as u32;
        }
    }
}

/// Whether an instruction reads a part of its operand or only hands it on.
fn reads_operand(opcode: HloOpcode, whole: bool) -> bool {
    match opcode {
        HloOpcode::GetTupleElement | HloOpcode::Copy => whole,
        HloOpcode::Domain | HloOpcode::Tuple => false,
        _ => true,
    }
}

/// Bytes of a shape as XLA counts them: of a tuple the table of 8-byte pointers, of a token
/// nothing, of an array all elements, packed where its layout says so. `None` when the size is not
/// known or overflows.
pub fn byte_size_of(module: &HloModule, shape: ShapeId) -> Option<u64> {
    match module.shapes().get(shape) {
        Shape::Tuple(parts) => u64::try_from(parts.len()).ok()?.checked_mul(8),
        Shape::Token => Some(0),
        Shape::Opaque => Some(8),
        Shape::Buffer(part) => byte_size_of(module, *part),
        Shape::Array(array) => {
            let count = u64::try_from(array.element_count()?).ok()?;
            let bits = array
                .layout
                .as_ref()
                .map_or(0, |l| l.element_size_in_bits());
            match u64::try_from(bits) {
                Ok(bits) if bits > 0 => Some(count.checked_mul(bits)?.div_ceil(8)),
                _ => count.checked_mul(array.element_type.size_bytes() as u64),
            }
        }
    }
}
