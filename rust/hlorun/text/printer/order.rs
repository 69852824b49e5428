//! The orders in which XLA prints instructions and computations.

use foldhash::{HashMap, HashSet};

use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef,
};

/// The instructions of a computation, each after what it depends on, starting from those that
/// nothing uses.
///
/// Every instruction is in the result once, also where dependencies form a cycle.
pub fn instruction_order(module: &HloModule, computation: ComputationId) -> Vec<InstructionId> {
    let instructions = &module.computation(computation).instructions;
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        New,
        Visiting,
        Visited,
    }
    // Positions in the text are dense, so that the walk needs no map for its marks.
    let position: HashMap<InstructionId, u32> = instructions
        .iter()
        .enumerate()
        .map(|(i, &id)| (id, i as u32))
        .collect();
    let mut used = vec![false; instructions.len()];
    for &id in instructions {
        for operand in module.operand_ids(id) {
            if let Some(&at) = position.get(operand) {
                used[at as usize] = true;
            }
        }
    }
    let mut channels = channel_predecessors(module, instructions);
    let mut visits = vec![Visit::New; instructions.len()];
    let mut order = Vec::with_capacity(instructions.len());
    let mut stack: Vec<u32> = Vec::new();
    // What no instruction without users reaches lies on a cycle; the second pass picks it up.
    for pass in 0..2 {
        for start in 0..instructions.len() as u32 {
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
                        order.push(instructions[index]);
                    }
                    continue;
                }
                visits[index] = Visit::Visiting;
                let id = instructions[index];
                if at != start {
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
                let mut push = |id: &InstructionId| {
                    if let Some(&at) = position.get(id)
                        && visits[at as usize] == Visit::New
                    {
                        stack.push(at);
                    }
                };
                module.operand_ids(id).iter().rev().for_each(&mut push);
                if let Some(AttrValue::Instructions(before)) = module
                    .instruction(id)
                    .attribute(AttrKey::ControlPredecessors)
                {
                    before.iter().for_each(&mut push);
                }
            }
        }
    }
    order
}

/// For collectives of one channel the one before them in the text: they keep their order.
fn channel_predecessors(module: &HloModule, instructions: &[InstructionId]) -> HashMap<u32, u32> {
    let mut last: HashMap<i64, u32> = HashMap::default();
    let mut before = HashMap::default();
    for (at, &id) in instructions.iter().enumerate() {
        let instruction = module.instruction(id);
        if !matches!(
            instruction.opcode(),
            HloOpcode::AllReduce
                | HloOpcode::AllGather
                | HloOpcode::AllToAll
                | HloOpcode::CollectiveBroadcast
                | HloOpcode::CollectivePermute
                | HloOpcode::RaggedAllToAll
                | HloOpcode::ReduceScatter
        ) {
            continue;
        }
        if let Some(channel) = instruction.int(AttrKey::ChannelId)
            && let Some(earlier) = last.insert(channel, at as u32)
        {
            before.insert(at as u32, earlier);
        }
    }
    before
}

/// The computations an instruction calls, in XLA's order of them.
pub fn callees(instruction: InstructionRef<'_>) -> Vec<ComputationId> {
    let keys: &[AttrKey] = match instruction.opcode() {
        HloOpcode::While => &[AttrKey::Body, AttrKey::Condition],
        HloOpcode::SelectAndScatter => &[AttrKey::SelectComputation, AttrKey::ScatterComputation],
        HloOpcode::Conditional => &[
            AttrKey::TrueComputation,
            AttrKey::FalseComputation,
            AttrKey::BranchComputations,
        ],
        // Only the start of an asynchronous operation holds its computation.
        HloOpcode::AsyncUpdate | HloOpcode::AsyncDone => return Vec::new(),
        _ => return instruction.called_computations(),
    };
    let mut called = Vec::new();
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
    let mut calls: Vec<Vec<Vec<ComputationId>>> = Vec::with_capacity(module.computation_count());
    let mut called: HashSet<ComputationId> = HashSet::default();
    for id in module.computation_ids() {
        let lists: Vec<Vec<ComputationId>> = module
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
    calls: &[Vec<Vec<ComputationId>>],
    visited: &mut HashSet<ComputationId>,
    order: &mut Vec<ComputationId>,
) {
    use crate::module::Id;
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
