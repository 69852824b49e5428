//! `constant-folding`: what depends on constants alone is computed once, while planning.
//!
//! An instruction is known when its operands are constants, iotas or known themselves. What an
//! unknown instruction reads of known ones is computed by the thunks that a run would use, so that
//! the numbers are the same, and becomes a constant.
//!
//! Applies to pure instructions of static shape in every computation: no random
//! numbers, custom calls, collectives, device numbers or branches; a loop only where its trips are
//! known and few. What is read as a view of a constant anyway (a broadcast, a transposed constant)
//! stays a view. A result of more than [`MAX_CHEAP`] bytes is stored only where it is expensive to
//! compute, one of more than [`MAX_VALUE`] never; then its operands may be constants still. The
//! work of all that is folded is bounded by [`MAX_WORK`]. What cannot be computed now is left for
//! the run.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::module::{
    AttrKey, ComputationId, HloComputation, HloModule, HloOpcode, Id, InstructionId,
    NewInstruction, OpClass,
};
use crate::plan::hlo::loops::info::{Callers, LoopInfo};
use crate::plan::options::CompileOptions;
use crate::plan::options::Evaluate;
use crate::types::{Literal, Shape};

/// Name by which it is switched off.
pub const NAME: &str = "constant-folding";
/// Bytes up to which a result that is cheap to compute is stored.
const MAX_CHEAP: usize = 4 << 10;
/// Bytes up to which any result is stored.
const MAX_VALUE: usize = 1 << 20;
/// Bytes of all results.
const MAX_BYTES: usize = 8 << 20;
/// Operations on elements, all that is folded together: about a millisecond.
const MAX_WORK: u64 = 1 << 20;
/// Most instructions that are computed for the values of one computation.
const MAX_INSTRUCTIONS: usize = 4096;
/// Most instructions that are looked at to find what to fold.
const MAX_VISITS: usize = 1 << 16;
/// Most trips of a loop.
const MAX_TRIPS: usize = 1 << 10;
/// Most instructions of all computations that one instruction calls.
const MAX_CALLED: usize = 512;

/// Runs the pass on all computations that can run; how many instructions became constants.
pub fn run(module: &mut HloModule, options: &CompileOptions) -> usize {
    let Some(evaluate) = options.evaluate else {
        return 0;
    };
    let callers = Callers::new(module);
    let mut budget = Budget {
        work: MAX_WORK,
        bytes: MAX_BYTES,
        visits: MAX_VISITS,
    };
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let wanted = Search::new(module, &callers, computation, &mut budget).find();
        if wanted.is_empty() {
            continue;
        }
        changed += fold(module, computation, &wanted, options, evaluate);
    }
    changed
}

/// What may still be spent.
struct Budget {
    work: u64,
    bytes: usize,
    visits: usize,
}

/// How much it costs to compute an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A constant or an iota: given.
    Given,
    /// The operand's elements, or a tuple: nothing.
    View,
    /// A few cycles per element, mostly inside what reads it.
    Cheap,
    /// Anything else.
    Expensive,
}

/// What an instruction is to this pass; `None` where it is never folded.
fn kind(opcode: HloOpcode) -> Option<Kind> {
    use HloOpcode as H;
    use OpClass as C;
    Some(match opcode.class() {
        C::Constant | C::Iota => Kind::Given,
        C::Movement | C::Tuple => Kind::View,
        C::Unary => match opcode {
            H::Abs | H::Negate | H::Sign | H::Not | H::Floor | H::Ceil | H::IsFinite => Kind::Cheap,
            _ => Kind::Expensive,
        },
        C::Binary => match opcode {
            H::Power | H::Atan2 => Kind::Expensive,
            _ => Kind::Cheap,
        },
        C::Compare | C::Select | C::Clamp | C::BitcastConvert | C::Complex | C::Assemble => {
            Kind::Cheap
        }
        C::Convert if opcode != H::StochasticConvert => Kind::Cheap,
        C::DynamicIndex
        | C::GatherScatter
        | C::Dot
        | C::Reduce
        | C::Window
        | C::Map
        | C::Sort
        | C::Fft => Kind::Expensive,
        C::ControlFlow if opcode == H::While => Kind::Expensive,
        _ => return None,
    })
}

/// Finds what to fold in one computation.
struct Search<'m> {
    module: &'m HloModule,
    callers: &'m Callers,
    computation: ComputationId,
    budget: &'m mut Budget,
    /// Known instructions, and whether anything expensive is among what they are computed from.
    known: FxHashMap<InstructionId, (Kind, bool)>,
}

/// What to fold in one computation.
#[derive(Default)]
struct Wanted {
    /// Arrays that become constants.
    values: Vec<InstructionId>,
    /// What they are computed from, themselves included.
    needed: FxHashSet<InstructionId>,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<'m> Search<'m> {
    fn new(
        module: &'m HloModule,
        callers: &'m Callers,
        computation: ComputationId,
        budget: &'m mut Budget,
    ) -> Self {
        Search {
            module,
            callers,
            computation,
            budget,
            known: FxHashMap::default(),
        }
    }

    fn find(mut self) -> Wanted {
        let module = self.module;
        let data = module.computation(self.computation);
        let mut is_any = false;
        for &id in &data.instructions {
            if let Some(known) = self.knowledge(id) {
                is_any |= matches!(known.0, Kind::Cheap | Kind::Expensive);
                self.known.insert(id, known);
            }
        }
        let mut wanted = Wanted::default();
        if !is_any {
            return wanted;
        }
        // What unknown instructions and the caller read; a known tuple is no array.
        let mut seen: FxHashSet<InstructionId> = FxHashSet::default();
        let mut open: Vec<InstructionId> = data.root.into_iter().collect();
        for id in &data.instructions {
            if !self.known.contains_key(id) {
                open.extend_from_slice(module.operand_ids(*id));
            }
        }
        open.reverse();
        while let Some(id) = open.pop() {
            let Some(&(kind, is_expensive)) = self.known.get(&id) else {
                continue;
            };
            if !seen.insert(id) || kind == Kind::Given {
                continue;
            }
            let is_part = module.instruction_data(id).opcode == HloOpcode::GetTupleElement;
            let is_view = kind == Kind::View && !is_part;
            if is_view || !self.take(id, is_expensive, &mut wanted) {
                open.extend_from_slice(module.operand_ids(id));
            }
        }
        wanted
    }

    /// Whether an instruction is known, and what it costs.
    fn knowledge(&self, id: InstructionId) -> Option<(Kind, bool)> {
        let instruction = self.module.instruction(id);
        let kind = kind(instruction.opcode())?;
        if kind == Kind::Given {
            let is_there = instruction.opcode() != HloOpcode::Constant
                || instruction.literal()?.bytes().is_some();
            return is_there.then_some((kind, false));
        }
        let mut is_expensive = kind == Kind::Expensive;
        for operand in instruction.operand_ids() {
            is_expensive |= self.known.get(operand)?.1;
        }
        let is_static = leaves(self.module, id).is_some();
        (!instruction.operand_ids().is_empty() && is_static).then_some((kind, is_expensive))
    }

    /// Decides to fold `id` if it pays and the budget allows.
    fn take(&mut self, id: InstructionId, is_expensive: bool, wanted: &mut Wanted) -> bool {
        let Some(shape) = self.module.instruction(id).array_shape() else {
            return false;
        };
        let most = if is_expensive { MAX_VALUE } else { MAX_CHEAP };
        let bytes = shape.byte_size().unwrap_or(usize::MAX);
        if bytes == 0 || bytes > most.min(self.budget.bytes) {
            return false;
        }
        let (mut new, mut work) = (Vec::new(), 0u64);
        let mut fresh: FxHashSet<InstructionId> = FxHashSet::default();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if wanted.needed.contains(&id) || !fresh.insert(id) {
                continue;
            }
            new.push(id);
            let Some(visits) = self.budget.visits.checked_sub(1) else {
                return false;
            };
            self.budget.visits = visits;
            let Some(own) = work_of(self.module, self.callers, id, MAX_CALLED) else {
                return false;
            };
            work = work.saturating_add(own);
            if work > self.budget.work || wanted.needed.len() + new.len() > MAX_INSTRUCTIONS {
                return false;
            }
            open.extend_from_slice(self.module.operand_ids(id));
        }
        self.budget.work -= work;
        self.budget.bytes -= bytes;
        wanted.needed.extend(new);
        wanted.values.push(id);
        true
    }
}

/// Elements of all arrays of an instruction's shape; `None` where one is dynamic, or holds nothing.
fn leaves(module: &HloModule, id: InstructionId) -> Option<u64> {
    let mut elements = 0u64;
    let mut open = vec![module.instruction_data(id).shape];
    while let Some(shape) = open.pop() {
        match module.shapes().get(shape) {
            Shape::Array(array) if array.is_static() => {
                array.byte_size()?;
                elements = elements.checked_add(u64::try_from(array.element_count()?).ok()?)?;
            }
            Shape::Tuple(parts) => open.extend_from_slice(parts),
            _ => return None,
        }
    }
    Some(elements)
}

/// Operations on elements that an instruction takes, those of what it calls included; `None` where
/// it is not to be computed now. `left` is how many instructions may be looked at.
///
/// Recursion is bounded by the nesting of loops, which flattening bounds.
fn work_of(module: &HloModule, callers: &Callers, id: InstructionId, left: usize) -> Option<u64> {
    use OpClass as C;
    let instruction = module.instruction(id);
    let opcode = instruction.opcode();
    kind(opcode)?;
    let result = leaves(module, id)?;
    let mut read = 0u64;
    for &operand in instruction.operand_ids() {
        read = read.saturating_add(leaves(module, operand)?);
    }
    let all = result.saturating_add(read);
    Some(match opcode.class() {
        C::Constant | C::Tuple => 1,
        C::ControlFlow => {
            let info = LoopInfo::of(module, callers, id)?;
            let trips = info.trips.len();
            if trips > MAX_TRIPS {
                return None;
            }
            let mut trip = 0u64;
            for callee in instruction.called_computations() {
                trip = trip.saturating_add(called_work(module, callers, callee, left)?);
            }
            trip.saturating_mul(trips as u64 + 1)
        }
        C::Dot | C::Window => {
            for callee in instruction.called_computations() {
                called_work(module, callers, callee, left)?;
            }
            read.saturating_mul(result.max(1))
        }
        C::Sort | C::Fft => {
            for callee in instruction.called_computations() {
                called_work(module, callers, callee, left)?;
            }
            all.saturating_mul(u64::from(64 - all.leading_zeros()))
        }
        C::Reduce | C::Map | C::GatherScatter => {
            let mut each = 1u64;
            for callee in instruction.called_computations() {
                each = each.saturating_add(called_work(module, callers, callee, left)?);
            }
            all.saturating_mul(each)
        }
        _ => all,
    })
}

/// Work of all instructions of a called computation, which must be foldable or its parameters.
fn called_work(
    module: &HloModule,
    callers: &Callers,
    callee: ComputationId,
    left: usize,
) -> Option<u64> {
    let instructions = &module.computation(callee).instructions;
    let left = left.checked_sub(instructions.len())?;
    let mut work = 0u64;
    for &id in instructions {
        if module.instruction_data(id).opcode != HloOpcode::Parameter {
            if module
                .instruction(id)
                .literal()
                .is_some_and(Literal::is_elided)
            {
                return None;
            }
            work = work.saturating_add(work_of(module, callers, id, left)?);
        }
    }
    Some(work)
}

/// Computes the values and puts them into the places of their instructions; how many.
fn fold(
    module: &mut HloModule,
    computation: ComputationId,
    wanted: &Wanted,
    options: &CompileOptions,
    evaluate: Evaluate,
) -> usize {
    let copy = copy_of(module, computation, wanted);
    let options = CompileOptions {
        threads: 1,
        replicas: 1,
        partitions: 1,
        evaluate: None,
        ..options.clone()
    };
    let values = (evaluate.0)(module, copy, &options);
    // Nobody calls it; its instructions would count as further uses of what they call.
    let copy = module.computation_mut(copy);
    (copy.instructions, copy.root) = (Vec::new(), None);
    let Ok(values) = values else {
        return 0;
    };
    let mut folded = 0;
    for (&id, bytes) in wanted.values.iter().zip(values) {
        let shape = module.instruction(id).array_shape().cloned();
        let Some(literal) = shape.and_then(|shape| Literal::from_bytes(shape, bytes)) else {
            continue;
        };
        let literal = module.add_literal(literal);
        module.set_operands(id, &[]);
        module.set_attributes(id, &[]);
        let data = module.instruction_data_mut(id);
        (data.opcode, data.immediate) = (HloOpcode::Constant, literal.index() as u32);
        folded += 1;
    }
    folded
}

/// A computation without parameters whose result is the tuple of the values.
fn copy_of(module: &mut HloModule, computation: ComputationId, wanted: &Wanted) -> ComputationId {
    let data = module.computation(computation);
    let (name, text) = (data.name, data.text);
    let ids: Vec<InstructionId> = data
        .instructions
        .iter()
        .copied()
        .filter(|id| wanted.needed.contains(id))
        .collect();
    let copy = module.add_computation(HloComputation {
        name,
        text,
        ..HloComputation::default()
    });
    let mut map: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for id in ids {
        let data = module.instruction_data(id).clone();
        let operands: Vec<InstructionId> = module
            .operand_ids(id)
            .iter()
            .map(|operand| map.get(operand).copied().unwrap_or(*operand))
            .collect();
        let mut attributes = module.attributes_of(id).to_vec();
        attributes.retain(|attribute| attribute.key != AttrKey::ControlPredecessors);
        let new = NewInstruction::like(&data, &operands, &attributes);
        map.insert(id, module.add_instruction(copy, new));
    }
    let values: Vec<InstructionId> = wanted
        .values
        .iter()
        .filter_map(|value| map.get(value).copied())
        .collect();
    let parts: Vec<_> = values
        .iter()
        .map(|&value| module.instruction_data(value).shape)
        .collect();
    let shape = module.shapes_mut().tuple(&parts);
    let root = module.add_instruction(
        copy,
        NewInstruction {
            name,
            text,
            opcode: HloOpcode::Tuple,
            shape,
            operands: &values,
            attributes: &[],
            immediate: 0,
        },
    );
    module.computation_mut(copy).root = Some(root);
    copy
}
