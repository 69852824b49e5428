//! `loop-state`: a loop carries what it needs from trip to trip, and nothing else.
//!
//! In: a `while` over a tuple, whose body and condition nobody else calls and take their parameter
//! apart. Its state is a tuple put together at both ends afterwards, which is how passes on loops
//! want it.
//!
//! An element that never changes is after the loop what it was before. One that never changes and is
//! a constant is that constant in every trip. An element that nothing reads, neither after the loop
//! nor in the condition nor to compute elements that are read, is no state. Instructions of the body
//! that have effects read their operands in any case.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::info::{Callers, loops_in};
use crate::error::{HloError, Result};
use crate::module::post_order::{computation_post_order, instruction_post_order};
use crate::module::{AttrKey, ComputationId, Effects, HloModule, HloOpcode, InstructionId};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::types::{Shape, ShapeId};

/// Name by which it is switched off.
pub const NAME: &str = "loop-state";

/// Runs the pass on all loops, inner and later ones first; how many elements of state, and reads of
/// them, are gone.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let order = computation_post_order(module)
        .map_err(|_| HloError::execution("a computation calls itself"))?;
    let callers = Callers::new(module);
    let mut effects = Effects::default();
    let mut changed = 0;
    for computation in order {
        let loops = loops_in(module, computation);
        let mut reads = None;
        for id in loops.into_iter().rev() {
            let Some(state) = State::of(module, &callers, id) else {
                continue;
            };
            let outside = reads.get_or_insert_with(|| Reads::of(module, computation));
            let count = state.reduce(module, outside, &mut effects)?;
            if count > 0 {
                reads = None;
            }
            changed += count;
        }
    }
    Ok(changed)
}

/// Which instructions of a computation read which tuples.
#[derive(Default)]
struct Reads {
    /// Reads of elements, by tuple and number.
    parts: FxHashMap<(InstructionId, usize), SmallVec<[InstructionId; 1]>>,
    /// Tuples that are read other than by their elements.
    whole: FxHashSet<InstructionId>,
}

impl Reads {
    fn of(module: &HloModule, computation: ComputationId) -> Reads {
        let mut reads = Reads::default();
        let data = module.computation(computation);
        reads.whole.extend(data.root);
        for &id in &data.instructions {
            match (module.instruction(id).tuple_index(), module.operand_ids(id)) {
                (Some(k), &[tuple]) => reads.parts.entry((tuple, k)).or_default().push(id),
                (_, operands) => {
                    let is_tuple = |id: &&InstructionId| {
                        matches!(module.instruction(**id).shape(), Shape::Tuple(_))
                    };
                    reads.whole.extend(operands.iter().filter(is_tuple));
                }
            }
        }
        reads
    }

    /// What reads element `k` of `tuple`.
    fn of_part(&self, tuple: InstructionId, k: usize) -> &[InstructionId] {
        self.parts.get(&(tuple, k)).map_or(&[], |all| &all[..])
    }
}

/// A computation of a loop, which takes its parameter apart.
struct Part {
    computation: ComputationId,
    parameter: InstructionId,
    reads: Reads,
}

impl Part {
    fn of(module: &HloModule, computation: ComputationId) -> Option<Part> {
        let &parameter = module.computation(computation).parameters.first()?;
        let reads = Reads::of(module, computation);
        (!reads.whole.contains(&parameter)).then_some(Part {
            computation,
            parameter,
            reads,
        })
    }

    /// What reads element `k` of the state.
    fn reads(&self, k: usize) -> &[InstructionId] {
        self.reads.of_part(self.parameter, k)
    }
}

/// A loop and its state.
struct State {
    id: InstructionId,
    parent: ComputationId,
    body: Part,
    condition: Part,
    /// Shapes of the elements, with the layouts in which the body reads them.
    shapes: Vec<ShapeId>,
    /// Values the elements start with, where the loop's operand is a tuple that is put together.
    initial: Option<Vec<InstructionId>>,
    /// Values the elements get, where the body puts a tuple together.
    results: Option<Vec<InstructionId>>,
}

impl State {
    fn of(module: &HloModule, callers: &Callers, id: InstructionId) -> Option<State> {
        let instruction = module.instruction(id);
        let body = instruction.computation_attribute(AttrKey::Body)?;
        let condition = instruction.computation_attribute(AttrKey::Condition)?;
        if body == condition || callers.of(body) != 1 || callers.of(condition) != 1 {
            return None;
        }
        let body = Part::of(module, body)?;
        let parameter = module.instruction(body.parameter);
        let shapes = parameter.shape().as_tuple()?.to_vec();
        if shapes.is_empty() {
            return None;
        }
        let elements = |id: InstructionId| {
            let is_tuple = module.instruction_data(id).opcode == HloOpcode::Tuple;
            is_tuple.then(|| module.operand_ids(id).to_vec())
        };
        Some(State {
            id,
            parent: instruction.computation(),
            initial: elements(instruction.operand(0)?.id),
            results: elements(module.computation(body.computation).root?),
            body,
            condition: Part::of(module, condition)?,
            shapes,
        })
    }

    /// Removes what is no state; how many elements and reads of elements are gone.
    fn reduce(
        &self,
        module: &mut HloModule,
        outside: &Reads,
        effects: &mut Effects,
    ) -> Result<usize> {
        let count = self.shapes.len();
        let mut changed = 0;
        let mut instead: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        // Elements that the condition or something after the loop reads.
        let is_whole = outside.whole.contains(&self.id) || self.results.is_none();
        let mut is_read: Vec<bool> = vec![is_whole; count];
        for (k, is_read) in is_read.iter_mut().enumerate() {
            let fixed = self.fixed(k);
            for &read in outside.of_part(self.id, k) {
                let is_gone =
                    fixed.is_some_and(|value| read_instead(module, read, value, &mut instead));
                changed += usize::from(is_gone);
                *is_read |= !is_gone;
            }
            for part in [&self.body, &self.condition] {
                for &read in part.reads(k) {
                    let is_gone = fixed.is_some_and(|value| {
                        become_constant(module, part.computation, read, value)
                    });
                    changed += usize::from(is_gone);
                    *is_read |= !is_gone && part.computation == self.condition.computation;
                }
            }
        }
        let live = self.live(module, is_read, effects);
        let gone = live.iter().filter(|is_live| !**is_live).count();
        let is_put_together = self.initial.is_some() && self.results.is_some();
        if gone > 0 || !is_put_together {
            self.rebuild(module, outside, &live);
            changed += gone.max(1);
        }
        if changed > 0 {
            redirect(module, self.parent, &instead);
            for computation in [
                self.body.computation,
                self.condition.computation,
                self.parent,
            ] {
                let order = instruction_post_order(module, computation)
                    .map_err(|_| HloError::execution("a rewrite made a cycle"))?;
                module.computation_mut(computation).instructions = order;
                inline::remove_dead(module, computation);
            }
        }
        Ok(changed)
    }

    /// What element `k` always is, if it never changes.
    fn fixed(&self, k: usize) -> Option<InstructionId> {
        let result = self.results.as_ref()?.get(k)?;
        let initial = *self.initial.as_ref()?.get(k)?;
        let never_changes = self.body.reads(k).contains(result);
        faults::holds(Fault::FixesChangingState, never_changes).then_some(initial)
    }

    /// Which elements anything needs: those that are read, and those they are computed from.
    fn live(&self, module: &HloModule, mut live: Vec<bool>, effects: &mut Effects) -> Vec<bool> {
        let Some(results) = &self.results else {
            return live;
        };
        let read = live.iter().zip(results).filter(|(is_live, _)| **is_live);
        let mut open: Vec<InstructionId> = read.map(|(_, &result)| result).collect();
        let body = module.computation(self.body.computation);
        let must_run = |id: &InstructionId| effects.of(module, *id).must_run();
        open.extend(body.instructions.iter().copied().filter(must_run));
        let mut seen: FxHashSet<InstructionId> = FxHashSet::default();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let operands = module.operand_ids(id);
            match module.instruction(id).tuple_index() {
                Some(k) if operands == [self.body.parameter] => {
                    if let Some(is_live) = live.get_mut(k)
                        && !std::mem::replace(is_live, true)
                    {
                        open.push(results[k]);
                    }
                }
                _ => open.extend_from_slice(operands),
            }
        }
        live
    }

    /// Writes the loop with its live elements alone, put together as tuples at both ends.
    fn rebuild(&self, module: &mut HloModule, outside: &Reads, live: &[bool]) {
        let mut kept: Vec<usize> = (0..live.len()).filter(|&k| live[k]).collect();
        if kept.is_empty() {
            // A loop has some state.
            kept.push(0);
        }
        let parts: Vec<ShapeId> = kept.iter().map(|&k| self.shapes[k]).collect();
        let shape = module.shapes_mut().tuple(&parts);
        let operand = module.operand_ids(self.id).first().copied();
        let body = self.body.computation;
        let old_root = module.computation(body).root;
        let init = self.tuple(module, self.parent, (&self.initial, operand), &kept, shape);
        let root = self.tuple(module, body, (&self.results, old_root), &kept, shape);
        module.computation_mut(body).root = Some(root);
        for part in [&self.body, &self.condition] {
            module.instruction_data_mut(part.parameter).shape = shape;
        }
        module.set_operands(self.id, &[init]);
        module.instruction_data_mut(self.id).shape = shape;
        for (new, &old) in kept.iter().enumerate() {
            let reads = [
                self.body.reads(old),
                self.condition.reads(old),
                outside.of_part(self.id, old),
            ];
            for &id in reads.into_iter().flatten() {
                let data = module.instruction_data_mut(id);
                if data.opcode == HloOpcode::GetTupleElement {
                    data.immediate = new as u32;
                }
            }
        }
    }

    /// The elements `kept` of a tuple: those it is put together from, or else parts of it.
    fn tuple(
        &self,
        module: &mut HloModule,
        computation: ComputationId,
        (elements, whole): (&Option<Vec<InstructionId>>, Option<InstructionId>),
        kept: &[usize],
        shape: ShapeId,
    ) -> InstructionId {
        let mut b = Builder {
            module,
            computation,
            like: whole.unwrap_or(self.id),
        };
        let mut operands = Vec::with_capacity(kept.len());
        for &k in kept {
            operands.push(match (elements, whole) {
                (Some(elements), _) => elements[k],
                (None, Some(whole)) => b.get_tuple_element(whole, k),
                (None, None) => self.id,
            });
        }
        b.add(HloOpcode::Tuple, shape, &operands, &[], 0)
    }
}

/// Lets what reads the element `old` read `new`, which has the same value; whether it may.
fn read_instead(
    module: &mut HloModule,
    old: InstructionId,
    new: InstructionId,
    instead: &mut FxHashMap<InstructionId, InstructionId>,
) -> bool {
    if module.instruction_data(old).shape == module.instruction_data(new).shape {
        instead.insert(old, new);
        return true;
    }
    if module.instruction(old).array_shape().is_none() {
        return false;
    }
    module.set_operands(old, &[new]);
    module.set_attributes(old, &[]);
    let data = module.instruction_data_mut(old);
    (data.opcode, data.immediate) = (HloOpcode::Copy, 0);
    true
}

/// Lets all instructions of a computation read what stands for their operands.
fn redirect(
    module: &mut HloModule,
    computation: ComputationId,
    instead: &FxHashMap<InstructionId, InstructionId>,
) {
    if instead.is_empty() {
        return;
    }
    for id in module.computation(computation).instructions.clone() {
        for operand in module.operand_ids_mut(id) {
            *operand = instead.get(operand).copied().unwrap_or(*operand);
        }
    }
    let data = module.computation_mut(computation);
    data.root = data
        .root
        .map(|root| instead.get(&root).copied().unwrap_or(root));
}

/// Makes `id`, an element that is always `initial`, the constant that this is, if it is one. What it
/// reads is appended to the computation.
fn become_constant(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
    initial: InstructionId,
) -> bool {
    let value = module.instruction_data(initial).clone();
    if value.shape != module.instruction_data(id).shape {
        return false;
    }
    let mut operands: SmallVec<[InstructionId; 1]> = SmallVec::new();
    match (value.opcode, module.operand_ids(initial)) {
        (HloOpcode::Constant | HloOpcode::Iota, _) => {}
        (HloOpcode::Broadcast, &[scalar])
            if module.instruction_data(scalar).opcode == HloOpcode::Constant =>
        {
            let scalar = module.instruction_data(scalar).clone();
            let mut b = Builder {
                module,
                computation,
                like: id,
            };
            let literal = scalar.immediate;
            operands.push(b.add(HloOpcode::Constant, scalar.shape, &[], &[], literal));
        }
        _ => return false,
    }
    let attributes = module.attributes_of(initial).to_vec();
    module.set_operands(id, &operands);
    module.set_attributes(id, &attributes);
    let data = module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (value.opcode, value.immediate);
    true
}
