//! What an instruction does besides computing its value.
//!
//! In: an instruction. Out: its [`Effect`], those of the computations it calls included. Everything
//! that drops, merges, moves, repeats or reorders instructions asks here.

use std::collections::hash_map::Entry;

use foldhash::HashMap;

use super::attributes::AttrKey;
use super::hlo_module::HloModule;
use super::ids::{ComputationId, InstructionId};
use super::opcode::{HloOpcode, OpClass};
use super::opcode::{elementwise_classes, operation_classes};

/// What an instruction does besides computing its value, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Effect {
    /// Nothing: equal operands give equal results on one device.
    #[default]
    None,
    /// The operands alone do not decide the result, as with random numbers. It may be dropped when
    /// it is unused, but not merged, moved or repeated.
    Unrepeatable,
    /// Other devices take part. It runs as often as the text says, in the order that all devices
    /// have in common.
    Devices,
    /// The world outside may notice. It runs as often as the text says, and in the order of the
    /// text among its like.
    Outside,
}

impl Effect {
    /// Whether it may be merged with its equal, or moved to where it runs more or less often.
    pub fn is_pure(self) -> bool {
        self == Effect::None
    }

    /// Whether it runs even if nobody reads its value.
    pub fn must_run(self) -> bool {
        self >= Effect::Devices
    }
}

/// Finds effects; remembers those of computations. Valid as long as the module gains no effects.
#[derive(Default, Debug)]
pub struct Effects {
    known: HashMap<ComputationId, Effect>,
}

impl Effects {
    /// The effect of an instruction and of all it calls.
    pub fn of(&mut self, module: &HloModule, id: InstructionId) -> Effect {
        let own = own_effect(module, id);
        let called = module.instruction(id).called_computations().into_iter();
        called.fold(own, |effect, callee| {
            effect.max(self.of_computation(module, callee))
        })
    }

    /// The strongest effect of a computation's instructions.
    pub fn of_computation(&mut self, module: &HloModule, id: ComputationId) -> Effect {
        let mut open = vec![(id, false)];
        while let Some((id, callees_are_known)) = open.pop() {
            let instructions = &module.computation(id).instructions;
            if callees_are_known {
                let mut effect = Effect::None;
                for &instruction in instructions {
                    effect = effect.max(own_effect(module, instruction));
                    for callee in module.instruction(instruction).called_computations() {
                        effect = effect.max(self.known.get(&callee).copied().unwrap_or_default());
                    }
                }
                self.known.insert(id, effect);
            } else if let Entry::Vacant(entry) = self.known.entry(id) {
                // A computation that calls itself, which nothing compiles, ends here.
                entry.insert(Effect::None);
                open.push((id, true));
                for &instruction in instructions {
                    let called = module.instruction(instruction).called_computations();
                    open.extend(called.into_iter().map(|callee| (callee, false)));
                }
            }
        }
        self.known.get(&id).copied().unwrap_or_default()
    }
}

/// What the instruction does itself.
fn own_effect(module: &HloModule, id: InstructionId) -> Effect {
    use HloOpcode as H;
    let opcode = module.instruction_data(id).opcode;
    match opcode.class() {
        OpClass::CustomCall => {
            match module
                .instruction(id)
                .bool(AttrKey::CustomCallHasSideEffect)
            {
                Some(true) => Effect::Outside,
                _ => Effect::None,
            }
        }
        OpClass::Collective => Effect::Devices,
        OpClass::HostTransfer => match opcode {
            H::Send | H::SendDone | H::Recv | H::RecvDone => Effect::Devices,
            _ => Effect::Outside,
        },
        OpClass::Random => match opcode {
            // Its state is an operand and a result.
            H::RngBitGenerator => Effect::None,
            H::Rng => Effect::Unrepeatable,
            _ => Effect::Outside,
        },
        OpClass::Unknown => Effect::Unrepeatable,
        elementwise_classes!()
        | operation_classes!()
        | OpClass::BitcastConvert
        | OpClass::Constant
        | OpClass::Parameter
        | OpClass::Iota
        | OpClass::Tuple
        | OpClass::Movement
        | OpClass::Assemble
        | OpClass::DynamicIndex
        | OpClass::Reduce
        | OpClass::ControlFlow
        | OpClass::DeviceId
        | OpClass::Ordering
        | OpClass::AsyncCopy => Effect::None,
    }
}
