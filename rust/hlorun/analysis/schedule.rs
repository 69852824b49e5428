//! The order in which the instructions of each computation run.
//!
//! Comes in: the order of the text, or a list from a dump. Goes out: [`HloSchedule`]. Promise: a
//! schedule that [`HloSchedule::problems`] finds nothing wrong with runs every instruction once,
//! after its operands.

use crate::module::{ComputationId, HloModule, IdMap, InstructionId};

/// Sequences of the computations that run one instruction after another.
#[derive(Clone, Debug)]
pub struct HloSchedule {
    sequences: IdMap<ComputationId, Option<Vec<InstructionId>>>,
}

/// What is wrong with a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleProblem {
    /// An instruction of a scheduled computation is not in its sequence.
    Missing(InstructionId),
    /// An instruction is in the sequence twice.
    Twice(InstructionId),
    /// An instruction stands in the sequence of a computation it does not belong to.
    Foreign(InstructionId),
    /// An instruction runs before one it needs.
    TooEarly {
        /// The instruction.
        instruction: InstructionId,
        /// The operand or control predecessor that runs later.
        needs: InstructionId,
    },
}

impl HloSchedule {
    /// No sequence at all.
    pub fn empty(module: &HloModule) -> HloSchedule {
        HloSchedule {
            sequences: IdMap::new(module.computation_count(), None),
        }
    }

    /// Every computation in the order of the text, as `is_scheduled=true` means it.
    pub fn from_text_order(module: &HloModule) -> HloSchedule {
        let mut schedule = HloSchedule::empty(module);
        for id in module.computation_ids() {
            schedule.set_sequence(id, module.computation(id).instructions.clone());
        }
        schedule
    }

    /// The sequences whose concatenation, callees where they are called, is `flat`: each
    /// instruction goes to the sequence of its own computation.
    pub fn from_flat_sequence(module: &HloModule, flat: &[InstructionId]) -> HloSchedule {
        let mut schedule = HloSchedule::empty(module);
        for &id in flat {
            let computation = module.instruction(id).computation();
            schedule.sequences[computation]
                .get_or_insert_default()
                .push(id);
        }
        schedule
    }

    /// Sets the sequence of one computation.
    pub fn set_sequence(&mut self, computation: ComputationId, sequence: Vec<InstructionId>) {
        self.sequences[computation] = Some(sequence);
    }

    /// The sequence of a computation, if it has one.
    pub fn sequence(&self, computation: ComputationId) -> Option<&[InstructionId]> {
        self.sequences[computation].as_deref()
    }

    /// Everything that makes the schedule illegal, in its order.
    pub fn problems(&self, module: &HloModule) -> Vec<ScheduleProblem> {
        const UNSEEN: u32 = u32::MAX;
        let mut problems = Vec::new();
        let mut time = IdMap::new(module.instruction_count(), UNSEEN);
        for computation in module.computation_ids() {
            let Some(sequence) = self.sequence(computation) else {
                continue;
            };
            for (moment, &id) in sequence.iter().enumerate() {
                if module.instruction(id).computation() != computation {
                    problems.push(ScheduleProblem::Foreign(id));
                } else if time[id] != UNSEEN {
                    problems.push(ScheduleProblem::Twice(id));
                } else {
                    time[id] = moment as u32;
                }
            }
            for &instruction in sequence {
                let handle = module.instruction(instruction);
                let controls = handle.control_predecessors();
                for &needs in handle.operand_ids().iter().chain(controls) {
                    if time[needs] != UNSEEN && time[needs] > time[instruction] {
                        problems.push(ScheduleProblem::TooEarly { instruction, needs });
                    }
                }
            }
            for &id in &module.computation(computation).instructions {
                if time[id] == UNSEEN {
                    problems.push(ScheduleProblem::Missing(id));
                }
            }
        }
        problems
    }
}
