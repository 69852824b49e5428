//! Who calls which computation, and who uses which instruction.

use std::ops::Range;

use crate::error::{HloError, Result};
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, IdMap, InstructionId,
};

/// How a computation is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallContext {
    /// By nobody: the entry, or dead code.
    #[default]
    None,
    /// By `call`, `while`, `conditional` or an async operation: values flow in and out.
    ControlFlow,
    /// By `fusion`, `reduce` and the like, once per element: it has values of its own.
    Embedded,
    /// Both ways.
    Both,
}

/// Callers of every computation.
#[derive(Clone, Debug)]
pub struct CallGraph {
    callers: IdMap<ComputationId, Vec<InstructionId>>,
    contexts: IdMap<ComputationId, CallContext>,
}

/// Whether an instruction's called computations take part in the caller's dataflow.
pub fn is_control_flow(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::Call
            | HloOpcode::While
            | HloOpcode::Conditional
            | HloOpcode::AsyncStart
            | HloOpcode::AsyncUpdate
            | HloOpcode::AsyncDone
    )
}

impl CallGraph {
    /// Reads the calls of a module.
    pub fn new(module: &HloModule) -> CallGraph {
        let count = module.computation_count();
        let mut graph = CallGraph {
            callers: IdMap::new(count, Vec::new()),
            contexts: IdMap::new(count, CallContext::None),
        };
        for id in module.computation_ids() {
            for &instruction in &module.computation(id).instructions {
                let caller = module.instruction(instruction);
                for callee in caller.called_computations() {
                    if graph.callers[callee].last() != Some(&instruction) {
                        graph.callers[callee].push(instruction);
                    }
                    let how = match is_control_flow(caller.opcode()) {
                        true => CallContext::ControlFlow,
                        false => CallContext::Embedded,
                    };
                    let known = graph.contexts[callee];
                    graph.contexts[callee] = match known {
                        CallContext::None => how,
                        known if known == how => how,
                        _ => CallContext::Both,
                    };
                }
            }
        }
        graph
    }

    /// The instructions that call a computation, each once, in the order of the text.
    pub fn callers(&self, computation: ComputationId) -> &[InstructionId] {
        &self.callers[computation]
    }

    /// How a computation is called.
    pub fn context(&self, computation: ComputationId) -> CallContext {
        self.contexts[computation]
    }
}

/// The computations a `while` runs.
pub fn while_computations(
    module: &HloModule,
    id: InstructionId,
) -> Option<(ComputationId, ComputationId)> {
    let instruction = module.instruction(id);
    Some((
        instruction.computation_attribute(AttrKey::Condition)?,
        instruction.computation_attribute(AttrKey::Body)?,
    ))
}

/// The branches of a `conditional`, true before false.
pub fn branches(module: &HloModule, id: InstructionId) -> Vec<ComputationId> {
    let instruction = module.instruction(id);
    if let Some(AttrValue::Computations(branches)) =
        instruction.attribute(AttrKey::BranchComputations)
    {
        return branches.to_vec();
    }
    [AttrKey::TrueComputation, AttrKey::FalseComputation]
        .into_iter()
        .filter_map(|key| instruction.computation_attribute(key))
        .collect()
}

/// Users of every instruction, in the order of the text.
#[derive(Clone, Debug)]
pub struct Users {
    starts: Vec<u32>,
    users: Vec<(InstructionId, u32)>,
}

impl Users {
    /// Reads the operands of a module.
    pub fn new(module: &HloModule) -> Users {
        let count = module.instruction_count();
        let mut starts = vec![0u32; count + 1];
        let each = |visit: &mut dyn FnMut(InstructionId, InstructionId, u32)| {
            for computation in module.computation_ids() {
                for &user in &module.computation(computation).instructions {
                    for (number, &operand) in module.operand_ids(user).iter().enumerate() {
                        visit(operand, user, number as u32);
                    }
                }
            }
        };
        each(&mut |operand, _, _| starts[operand.index() + 1] += 1);
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut users = vec![(InstructionId::from_index(0), 0); starts[count] as usize];
        each(&mut |operand, user, number| {
            let at = &mut next[operand.index()];
            users[*at as usize] = (user, number);
            *at += 1;
        });
        Users { starts, users }
    }

    /// Who has `id` as an operand, and as which; several operands of one user stand together.
    pub fn of(&self, id: InstructionId) -> &[(InstructionId, u32)] {
        let (start, end) = (self.starts[id.index()], self.starts[id.index() + 1]);
        &self.users[start as usize..end as usize]
    }
}

/// The instructions of all computations, operands before users.
#[derive(Clone, Debug)]
pub struct PostOrder {
    instructions: Vec<InstructionId>,
    ranges: IdMap<ComputationId, Range<usize>>,
}

impl PostOrder {
    /// Follows the operands of a module.
    ///
    /// # Errors
    /// [`HloError::Unsupported`] when operands form a cycle.
    pub fn new(module: &HloModule, users: &Users) -> Result<PostOrder> {
        let count = module.instruction_count();
        let mut order = PostOrder {
            instructions: Vec::with_capacity(count),
            ranges: IdMap::new(module.computation_count(), 0..0),
        };
        let mut done = IdMap::new(count, 0u8);
        for computation in module.computation_ids() {
            let start = order.instructions.len();
            post_order(
                module,
                users,
                computation,
                &mut done,
                &mut order.instructions,
            )?;
            order.ranges[computation] = start..order.instructions.len();
        }
        Ok(order)
    }

    /// Those of all computations, in the order of the text.
    pub fn all(&self) -> &[InstructionId] {
        &self.instructions
    }

    /// Those of one computation.
    pub fn of(&self, computation: ComputationId) -> &[InstructionId] {
        &self.instructions[self.ranges[computation].clone()]
    }
}

/// Operands before users, as XLA's `MakeInstructionPostOrder`: from the instructions nobody uses,
/// in the order of the text, depth first with the first operand first.
///
/// # Errors
/// [`HloError::Unsupported`] when operands form a cycle.
fn post_order(
    module: &HloModule,
    users: &Users,
    computation: ComputationId,
    done: &mut IdMap<InstructionId, u8>,
    order: &mut Vec<InstructionId>,
) -> Result<()> {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let instructions = &module.computation(computation).instructions;
    let before = order.len();
    let mut stack: Vec<(InstructionId, &[InstructionId], &[InstructionId])> = Vec::new();
    let dependencies = |id: InstructionId| {
        let instruction = module.instruction(id);
        (
            instruction.control_predecessors(),
            instruction.operand_ids(),
        )
    };
    let sinks = instructions.iter().filter(|&&id| users.of(id).is_empty());
    for &sink in sinks {
        if done[sink] != 0 {
            continue;
        }
        done[sink] = OPEN;
        let (controls, operands) = dependencies(sink);
        stack.push((sink, controls, operands));
        while let Some((id, controls, operands)) = stack.last_mut() {
            let left = if controls.is_empty() {
                operands
            } else {
                controls
            };
            match left.split_off_first() {
                Some(&dependency) => match done[dependency] {
                    0 => {
                        done[dependency] = OPEN;
                        let (controls, operands) = dependencies(dependency);
                        stack.push((dependency, controls, operands));
                    }
                    OPEN => return Err(cycle(module, dependency)),
                    _ => {}
                },
                None => {
                    done[*id] = DONE;
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    if order.len() - before < instructions.len() {
        let stuck = instructions.iter().find(|&&id| done[id] != DONE);
        if let Some(&stuck) = stuck {
            return Err(cycle(module, stuck));
        }
    }
    Ok(())
}

#[cold]
fn cycle(module: &HloModule, id: InstructionId) -> HloError {
    let name = module.instruction(id).name();
    HloError::unsupported(format!("`{name}` depends on itself"), name)
}
