//! The orders in which XLA prints instructions and computations.

use foldhash::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::module::{
    AttrKey, AttrValue, CalledComputations, ComputationId, HloModule, HloOpcode, Id, InstructionId,
    InstructionRef,
};

/// What stands in an order: instructions by their positions in a list.
pub trait Dependencies {
    /// The number of instructions.
    fn count(&self) -> u32;
    /// Calls `visit` with the operands of the instruction at `at` that are in the list.
    fn operands(&self, at: u32, visit: impl FnMut(u32));
    /// Calls `visit` with the control predecessors of the instruction at `at`.
    fn predecessors(&self, at: u32, visit: impl FnMut(u32));
    /// The channel of a collective, whose instructions keep their order.
    fn channel(&self, at: u32) -> Option<i64>;
}

/// Opcodes whose instructions of one channel keep their order.
pub fn keeps_channel_order(opcode: HloOpcode) -> bool {
    matches!(
        opcode,
        HloOpcode::AllReduce
            | HloOpcode::AllGather
            | HloOpcode::AllToAll
            | HloOpcode::CollectiveBroadcast
            | HloOpcode::CollectivePermute
            | HloOpcode::RaggedAllToAll
            | HloOpcode::ReduceScatter
    )
}

/// The instructions of a computation, each after what it depends on, starting from those that
/// nothing uses.
///
/// Every instruction is in the result once, also where dependencies form a cycle.
pub fn instruction_order(module: &HloModule, computation: ComputationId) -> Vec<InstructionId> {
    let instructions = &module.computation(computation).instructions[..];
    // Positions in the text are dense, so that the walk needs no map for its marks.
    let positions = Positions::of(instructions);
    let listed = Listed {
        module,
        instructions,
        positions,
    };
    let order = post_order(&listed);
    order.iter().map(|&at| instructions[at as usize]).collect()
}

struct Listed<'m> {
    module: &'m HloModule,
    instructions: &'m [InstructionId],
    positions: Positions,
}

/// Where instructions stand in a list.
enum Positions {
    /// Their ids follow each other, as a parser numbers them: the first, and how many there are.
    Following(usize, usize),
    Mixed(HashMap<InstructionId, u32>),
}

impl Positions {
    fn of(instructions: &[InstructionId]) -> Positions {
        let first = instructions.first().map_or(0, |id| id.index());
        let mut places = instructions.iter().enumerate();
        match places.all(|(at, id)| id.index() == first + at) {
            true => Positions::Following(first, instructions.len()),
            false => {
                let places = instructions.iter().enumerate();
                Positions::Mixed(places.map(|(at, &id)| (id, at as u32)).collect())
            }
        }
    }

    fn get(&self, id: InstructionId) -> Option<u32> {
        match self {
            Positions::Following(first, count) => {
                let at = id.index().checked_sub(*first)?;
                (at < *count).then_some(at as u32)
            }
            Positions::Mixed(places) => places.get(&id).copied(),
        }
    }
}

impl Dependencies for Listed<'_> {
    fn count(&self) -> u32 {
        self.instructions.len() as u32
    }

    fn operands(&self, at: u32, visit: impl FnMut(u32)) {
        let operands = self.module.operand_ids(self.instructions[at as usize]);
        let places = operands.iter().filter_map(|&id| self.positions.get(id));
        places.for_each(visit);
    }

    fn predecessors(&self, at: u32, visit: impl FnMut(u32)) {
        let instruction = self.module.instruction(self.instructions[at as usize]);
        if let Some(AttrValue::Instructions(before)) =
            instruction.attribute(AttrKey::ControlPredecessors)
        {
            let places = before.iter().filter_map(|&id| self.positions.get(id));
            places.for_each(visit);
        }
    }

    fn channel(&self, at: u32) -> Option<i64> {
        let instruction = self.module.instruction(self.instructions[at as usize]);
        match keeps_channel_order(instruction.opcode()) {
            true => instruction.int(AttrKey::ChannelId),
            false => None,
        }
    }
}

/// Positions in a list; those of a small computation need no allocation.
pub type Places = SmallVec<[u32; 64]>;

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Visiting,
    Visited,
}

/// The positions of `list`, each after those it depends on, starting from those that nothing uses.
///
/// Every position is in the result once, also where dependencies form a cycle.
pub fn post_order(list: &impl Dependencies) -> Places {
    let count = list.count() as usize;
    // Most computations are small.
    let mut used: SmallVec<[bool; 64]> = SmallVec::from_elem(false, count);
    let used = &mut used[..];
    for at in 0..count as u32 {
        list.operands(at, |operand| used[operand as usize] = true);
    }
    let mut channels = channel_predecessors(list);
    let mut visits: SmallVec<[Visit; 64]> = SmallVec::from_elem(Visit::New, count);
    let visits = &mut visits[..];
    let mut order = Places::with_capacity(count);
    let mut stack: SmallVec<[u32; 32]> = SmallVec::new();
    // What no instruction without users reaches lies on a cycle; the second pass picks it up.
    for pass in 0..2 {
        for start in 0..count as u32 {
            if (pass == 0 && used[start as usize]) || visits[start as usize] == Visit::Visited {
                continue;
            }
            stack.push(start);
            while let Some(&at) = stack.last() {
                let index = at as usize;
                if visits[index] != Visit::New {
                    stack.pop();
                    if visits[index] == Visit::Visiting {
                        visits[index] = Visit::Visited;
                        order.push(at);
                    }
                    continue;
                }
                visits[index] = Visit::Visiting;
                if at != start && !channels.is_empty() {
                    // One that is done already may have been a start, which pulls in no others.
                    let mut earlier = channels.get(&at).copied();
                    while let Some(done) = earlier.filter(|&e| visits[e as usize] != Visit::New) {
                        earlier = channels.get(&done).copied();
                    }
                    match earlier {
                        Some(earlier) => {
                            channels.insert(at, earlier);
                            stack.push(earlier);
                        }
                        None => {
                            channels.remove(&at);
                        }
                    }
                }
                let first = stack.len();
                list.operands(at, |at| {
                    if visits[at as usize] == Visit::New {
                        stack.push(at);
                    }
                });
                stack[first..].reverse();
                list.predecessors(at, |at| {
                    if visits[at as usize] == Visit::New {
                        stack.push(at);
                    }
                });
            }
        }
    }
    order
}

/// For collectives of one channel the one before them in the list: they keep their order.
fn channel_predecessors(list: &impl Dependencies) -> HashMap<u32, u32> {
    let mut last: HashMap<i64, u32> = HashMap::default();
    let mut before = HashMap::default();
    for at in 0..list.count() {
        if let Some(channel) = list.channel(at)
            && let Some(earlier) = last.insert(channel, at)
        {
            before.insert(at, earlier);
        }
    }
    before
}

/// The computations an instruction calls, in XLA's order of them.
pub fn callees(instruction: InstructionRef<'_>) -> CalledComputations {
    let keys: &[AttrKey] = match instruction.opcode() {
        HloOpcode::While => &[AttrKey::Body, AttrKey::Condition],
        HloOpcode::SelectAndScatter => &[AttrKey::SelectComputation, AttrKey::ScatterComputation],
        HloOpcode::Conditional => &[
            AttrKey::TrueComputation,
            AttrKey::FalseComputation,
            AttrKey::BranchComputations,
        ],
        // Only the start of an asynchronous operation holds its computation.
        HloOpcode::AsyncUpdate | HloOpcode::AsyncDone => return CalledComputations::new(),
        _ => return instruction.called_computations(),
    };
    let mut called = CalledComputations::new();
    for &key in keys {
        match instruction.attribute(key) {
            Some(AttrValue::Computation(id)) => called.push(*id),
            Some(AttrValue::Computations(ids)) => called.extend_from_slice(ids),
            _ => {}
        }
    }
    called
}

/// Computations with callees before callers.
///
/// With `canonical` they keep the order of the text as far as that allows; else each uncalled
/// computation comes after what it reaches, depth first. Every computation is in the result once,
/// also where calls form a cycle.
pub fn computation_order(module: &HloModule, canonical: bool) -> Vec<ComputationId> {
    let mut calls: Vec<Vec<CalledComputations>> = Vec::with_capacity(module.computation_count());
    let mut called: HashSet<ComputationId> = HashSet::default();
    for id in module.computation_ids() {
        let lists: Vec<CalledComputations> = module
            .computation(id)
            .instructions
            .iter()
            .map(|&i| callees(module.instruction(i)))
            .filter(|list| !list.is_empty())
            .collect();
        called.extend(lists.iter().flatten());
        calls.push(lists);
    }
    let mut order = Vec::with_capacity(module.computation_count());
    let mut visited: HashSet<ComputationId> = HashSet::default();
    // What only computations on a cycle reach is left for the second pass.
    for pass in 0..2 {
        for root in module.computation_ids() {
            let skip = pass == 0 && !canonical && called.contains(&root);
            if !skip && visited.insert(root) {
                walk(root, &calls, &mut visited, &mut order);
            }
        }
    }
    order
}

/// Adds `root`, which is marked already, after all that it reaches and that is not marked yet.
fn walk(
    root: ComputationId,
    calls: &[Vec<CalledComputations>],
    visited: &mut HashSet<ComputationId>,
    order: &mut Vec<ComputationId>,
) {
    let mut stack: Vec<(ComputationId, usize)> = vec![(root, 0)];
    while let Some((id, next)) = stack.last_mut() {
        let id = *id;
        match calls[id.index()].get(*next) {
            Some(list) => {
                *next += 1;
                for &callee in list.iter().rev() {
                    if visited.insert(callee) {
                        stack.push((callee, 0));
                    }
                }
            }
            None => {
                order.push(id);
                stack.pop();
            }
        }
    }
}
