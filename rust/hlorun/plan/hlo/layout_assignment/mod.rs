//! `layout-assignment`: arrays of many short rows, as of points in space, have the short dimensions outside of the long ones
//! before them in memory.
//!
//! Sums over the coordinates of points, parts of rows, and rows that are put together of parts are then computed on lanes of
//! neighbouring rows, and no row is turned. What is computed element by element has the layout of what it is computed of, so
//! values that hand their layout on to each other are a group, with the state of loops: all of it gets the other layout or
//! none. Each operation says what that gains or costs ([`edges`]); a group gets the layout where the gains outweigh.
//!
//! After the pass `bitcasts` a layout only says in which order elements lie, so that a choice here changes at most the order
//! in which floats are added.

mod edges;
mod split;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::loops::info::{Callers, LoopInfo, while_loops};
use crate::error::{HloError, Result};
use crate::module::opcode::elementwise_classes;
use crate::module::post_order::computation_post_order;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, Id, InstructionId, OpClass};
use crate::plan::cost::layouts::{MAX_TRIPS, TURNED, USUAL_TRIPS};
use crate::types::{ArrayShape, Shape, ShapeId};
use edges::Edge;
use split::{Split, elements};

/// Name by which it is switched off.
pub const NAME: &str = "layout-assignment";

/// Runs the pass; how many arrays got another layout.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let mut groups = Groups::new(module);
    if groups.members.is_empty() {
        return Ok(0);
    }
    let callers = Callers::new(module);
    let loops: Vec<LoopInfo> = while_loops(module)
        .into_iter()
        .filter_map(|id| LoopInfo::of_any(module, &callers, id))
        .collect();
    let trips = trips(module, &loops)?;
    let reads = TupleReads::of(module);
    let times: FxHashMap<ComputationId, i64> = trips.iter().copied().collect();
    let leaves: Vec<_> = loops
        .iter()
        .map(|info| groups.state(module, info, &reads))
        .collect();
    for (info, leaves) in loops.iter().zip(leaves) {
        groups.join_state(module, info, &leaves, (&reads, &times));
    }
    let start = |info: &LoopInfo| module.operand_ids(info.id).first().copied();
    let end = |info: &LoopInfo| module.computation(info.body).root;
    let states = loops.iter().flat_map(|info| [start(info), end(info)]);
    let states = states
        .flatten()
        .filter(|tuple| reads.whole.get(tuple) == Some(&1));
    let states: FxHashSet<InstructionId> = states.collect();
    for &(computation, times) in &trips {
        groups.weigh(module, computation, times, &states);
    }
    Ok(groups.apply(module, &loops, &reads))
}

/// How often the entry runs, and each computation that is reached from it through loops and branches, callers first.
fn trips(module: &HloModule, loops: &[LoopInfo]) -> Result<Vec<(ComputationId, i64)>> {
    let known = loops
        .iter()
        .filter_map(|info| Some((info.id, info.expected_trips(module)?)));
    let known: FxHashMap<InstructionId, i64> = known.collect();
    let order = computation_post_order(module)
        .map_err(|_| HloError::execution("a computation calls itself"))?;
    let mut trips: FxHashMap<ComputationId, i64> = FxHashMap::default();
    trips.extend(module.entry.map(|entry| (entry, 1)));
    let mut ordered = Vec::new();
    for computation in order.into_iter().rev() {
        let Some(&times) = trips.get(&computation) else {
            continue;
        };
        ordered.push((computation, times));
        for &id in &module.computation(computation).instructions {
            let instruction = module.instruction(id);
            let own = match instruction.opcode() {
                HloOpcode::While => known.get(&id).copied().unwrap_or(USUAL_TRIPS),
                HloOpcode::Conditional => 1,
                _ => continue,
            };
            let times = times.saturating_mul(own).min(MAX_TRIPS);
            for called in instruction.called_computations() {
                let most = trips.entry(called).or_default();
                *most = times.max(*most);
            }
        }
    }
    Ok(ordered)
}

/// Values that hand their layout on to each other.
struct Groups {
    /// Another value of the group, or itself for the one that stands for it.
    parent: Vec<u32>,
    /// Whether a value can have the layout.
    is_member: Vec<bool>,
    /// Gains less costs, of the value that stands for a group.
    gain: Vec<i64>,
    /// The values that can have the layout.
    members: Vec<InstructionId>,
}

impl Groups {
    fn new(module: &HloModule) -> Groups {
        let count = module.instruction_count();
        let mut groups = Groups {
            parent: (0..count as u32).collect(),
            is_member: vec![false; count],
            gain: vec![0; count],
            members: Vec::new(),
        };
        let result = module
            .entry
            .and_then(|entry| module.computation(entry).root);
        for computation in module.computation_ids() {
            for &id in &module.computation(computation).instructions {
                // Results are row-major.
                let is_member = Some(id) != result
                    && match module.instruction(id).opcode().class() {
                        elementwise_classes!()
                        | OpClass::Iota
                        | OpClass::Movement
                        | OpClass::Assemble
                        | OpClass::DynamicIndex
                        | OpClass::Reduce => has_short_rows(module, id),
                        _ => false,
                    };
                groups.is_member[id.index()] = is_member;
                groups.members.extend(is_member.then_some(id));
            }
        }
        groups
    }

    /// Whether a value can have the layout.
    fn is_member(&self, id: InstructionId) -> bool {
        self.is_member[id.index()]
    }

    /// What stands for the group of a value.
    fn of(&mut self, id: InstructionId) -> usize {
        let mut at = id.index();
        while self.parent[at] as usize != at {
            // Every other link is shortened.
            self.parent[at] = self.parent[self.parent[at] as usize];
            at = self.parent[at] as usize;
        }
        at
    }

    /// Whether the group of a value is to have the layout.
    fn gains(&mut self, id: InstructionId) -> bool {
        let group = self.of(id);
        self.gain[group] > 0
    }

    /// Makes two groups one.
    fn join(&mut self, a: InstructionId, b: InstructionId) {
        let (a, b) = (self.of(a), self.of(b));
        if a != b {
            self.parent[b] = a as u32;
            self.gain[a] = self.gain[a].saturating_add(self.gain[b]);
        }
    }

    /// Adds to the gain of the group of a value, if it can have the layout.
    fn add(&mut self, id: InstructionId, gain: i64) {
        if self.is_member(id) {
            let group = self.of(id);
            self.gain[group] = self.gain[group].saturating_add(gain);
        }
    }

    /// Subtracts what it costs to bring `times` times all elements of a value into another order.
    fn turn(&mut self, module: &HloModule, id: InstructionId, times: i64) {
        self.add(
            id,
            -elements(module, id)
                .saturating_mul(TURNED)
                .saturating_mul(times),
        );
    }

    /// The leaves of a loop's state that can have the layout, of which all reads are one group: which one, and a read.
    fn state(
        &mut self,
        module: &HloModule,
        info: &LoopInfo,
        reads: &TupleReads,
    ) -> Vec<(usize, InstructionId)> {
        let mut leaves = Vec::new();
        for k in 0..info.results.len() {
            let reads = leaf(module, info, reads, k);
            let first = reads.first().copied();
            let Some(first) = first.filter(|&first| has_short_rows(module, first)) else {
                continue;
            };
            for read in reads {
                self.is_member[read.index()] = true;
                self.members.push(read);
                self.join(first, read);
            }
            leaves.push((k, first));
        }
        leaves
    }

    /// Lets the leaves of a loop's state be of one group with what they begin with and what a trip makes of them.
    fn join_state(
        &mut self,
        module: &HloModule,
        info: &LoopInfo,
        leaves: &[(usize, InstructionId)],
        (reads, times): (&TupleReads, &FxHashMap<ComputationId, i64>),
    ) {
        let times = |computation| times.get(&computation).copied().unwrap_or(1);
        let (inside, outside) = (times(info.body), times(info.parent));
        let whole = reads.whole.get(&info.id).copied().unwrap_or(0);
        for &(k, leaf) in leaves {
            // Who reads the whole state reads each leaf.
            self.turn(module, leaf, outside.saturating_mul(whole.into()));
            for (value, times) in [(info.results[k], inside), (info.initial[k], outside)] {
                match self.is_member(value) {
                    true => self.join(leaf, value),
                    false => self.turn(module, leaf, times),
                }
            }
        }
    }

    /// Adds what the groups gain and cost in a computation that runs so many times. The tuples `states` are those of loops.
    fn weigh(
        &mut self,
        module: &HloModule,
        computation: ComputationId,
        times: i64,
        states: &FxHashSet<InstructionId>,
    ) {
        let data = module.computation(computation);
        for &id in &data.instructions {
            let opcode = module.instruction(id).opcode();
            let is_state = opcode == HloOpcode::While || states.contains(&id);
            if is_state || opcode == HloOpcode::GetTupleElement {
                continue;
            }
            for (k, &operand) in module.operand_ids(id).iter().enumerate() {
                if !self.is_member(id) && !self.is_member(operand) {
                    continue;
                }
                let edge = edges::edge(module, id, k);
                let gain = |gain: i64| gain.saturating_mul(times);
                match edge {
                    Edge::Same(more) if self.is_member(id) && self.is_member(operand) => {
                        self.join(id, operand);
                        self.add(id, gain(more));
                    }
                    Edge::Free(more) => {
                        self.add(id, gain(more));
                        self.add(operand, gain(more));
                    }
                    Edge::Same(_) | Edge::Turned(_) => {
                        let cost = edge.cost(module, operand);
                        self.add(id, gain(-cost));
                        self.add(operand, gain(-cost));
                    }
                }
            }
        }
        if let Some(root) = data.root {
            self.turn(module, root, times);
        }
    }

    /// Gives the groups that gain their layout; how many values changed.
    fn apply(&mut self, module: &mut HloModule, loops: &[LoopInfo], reads: &TupleReads) -> usize {
        let members = std::mem::take(&mut self.members);
        let result = module
            .entry
            .and_then(|entry| module.computation(entry).root);
        let mut changed = 0;
        for &id in &members {
            if self.gains(id) && Some(id) != result {
                let shape = module.instruction_data(id).shape;
                module.instruction_data_mut(id).shape = moved_outside(module, shape);
                changed += 1;
            }
        }
        if changed > 0 {
            for info in loops {
                self.apply_to_state(module, info, reads);
            }
        }
        changed
    }

    /// Gives the tuples of a loop's state the layouts of their leaves.
    fn apply_to_state(&mut self, module: &mut HloModule, info: &LoopInfo, reads: &TupleReads) {
        let mut moved = |k: &usize| {
            let first = leaf(module, info, reads, *k).first().copied();
            first.is_some_and(|first| self.is_member(first) && self.gains(first))
        };
        let moved: Vec<usize> = (0..info.results.len()).filter(&mut moved).collect();
        if moved.is_empty() {
            return;
        }
        let root = module.computation(info.body).root;
        let tuples = parameters(module, info).into_iter().chain(root);
        let tuples: SmallVec<[InstructionId; 4]> = tuples.chain([info.id]).collect();
        for id in tuples {
            let shape = module.instruction_data(id).shape;
            let Some(mut parts) = module.shapes().get(shape).as_tuple().map(<[_]>::to_vec) else {
                continue;
            };
            for &k in &moved {
                parts[k] = moved_outside(module, parts[k]);
            }
            module.instruction_data_mut(id).shape = module.shapes_mut().tuple(&parts);
        }
    }
}

/// Whether a value is an array with short rows in row-major order.
fn has_short_rows(module: &HloModule, id: InstructionId) -> bool {
    let shape = module.instruction(id).array_shape();
    shape.is_some_and(|shape| {
        let layout = shape.layout.as_ref();
        shape.is_static()
            && shape.is_row_major()
            && layout.is_none_or(|layout| layout.extension.is_none())
            && !Split::of(&shape.dims).short.is_empty()
    })
}

/// Who reads tuples.
#[derive(Default)]
struct TupleReads {
    /// Reads of elements, by tuple and number.
    elements: FxHashMap<(InstructionId, usize), SmallVec<[InstructionId; 1]>>,
    /// How often a tuple is read as a whole; being the result of a computation counts as once.
    whole: FxHashMap<InstructionId, u32>,
}

impl TupleReads {
    fn of(module: &HloModule) -> TupleReads {
        let mut reads = TupleReads::default();
        for computation in module.computation_ids() {
            let data = module.computation(computation);
            let mut whole: Vec<InstructionId> = data.root.into_iter().collect();
            for &id in &data.instructions {
                match (module.instruction(id).tuple_index(), module.operand_ids(id)) {
                    (Some(k), &[tuple]) => reads.elements.entry((tuple, k)).or_default().push(id),
                    (_, operands) => whole.extend_from_slice(operands),
                }
            }
            whole.retain(|&id| matches!(module.instruction(id).shape(), Shape::Tuple(_)));
            for tuple in whole {
                *reads.whole.entry(tuple).or_default() += 1;
            }
        }
        reads
    }
}

/// The parameters of a loop's body and condition.
fn parameters(module: &HloModule, info: &LoopInfo) -> SmallVec<[InstructionId; 2]> {
    let callee = |key| module.instruction(info.id).computation_attribute(key);
    let computations = [callee(AttrKey::Body), callee(AttrKey::Condition)];
    let parameters = computations.into_iter().flatten();
    parameters
        .filter_map(|c| module.computation(c).parameters.first().copied())
        .collect()
}

/// What reads leaf `k` of the state: in the body, in the condition, and after the loop.
fn leaf(
    module: &HloModule,
    info: &LoopInfo,
    reads: &TupleReads,
    k: usize,
) -> SmallVec<[InstructionId; 4]> {
    let tuples = parameters(module, info).into_iter().chain([info.id]);
    let reads = tuples.filter_map(|tuple| reads.elements.get(&(tuple, k)));
    reads.flatten().copied().collect()
}

/// The shape with its short dimensions outside.
fn moved_outside(module: &mut HloModule, shape: ShapeId) -> ShapeId {
    let Shape::Array(array) = module.shapes().get(shape) else {
        return shape;
    };
    let array = ArrayShape {
        layout: Some(Split::of(&array.dims).layout()),
        ..array.clone()
    };
    module.shapes_mut().array(array)
}
