//! `loop-invariants`: what is the same in every trip and costs much is computed once, before the loop.
//!
//! An instruction of a body is invariant when it is pure and its operands are constants, state that
//! never changes, or invariant themselves. Reductions, products, sorts and their like are moved, with
//! the invariant instructions they are made of; each becomes state that never changes.
//!
//! Elementwise instructions and movements stay, because they are fused into their readers, unless they make several
//! operations, a division or a transcendental function of as many elements ([`MIN_OPERATIONS`]), up to
//! [`MAX_READ_AGAIN`], or are broadcasts that repeat elements in a row, up to [`MAX_BROADCAST`]. A product, a gather or
//! another reader of whole arrays ([`takes_whole_arrays`]) fuses nothing: arithmetic and concatenations that it reads are
//! moved too, up to [`MAX_ARITHMETIC`] in a loop. Loops and custom calls stay, because they may not end or may fail, and
//! the loop may have no trip at all. Where it is not known to have one, only what is cheap ([`MAX_SPECULATIVE`]) is moved.

use rustc_hash::{FxHashMap, FxHashSet};

use super::info::{Callers, LoopInfo, MAX_BYTES, loops_in};
use crate::error::{HloError, Result};
use crate::module::post_order::computation_post_order;
use crate::module::{Effects, HloModule, HloOpcode, InstructionId, OpClass};
use crate::plan::cost::loops::{
    MAX_ARITHMETIC, MAX_BROADCAST, MAX_BROADCASTS, MAX_READ_AGAIN, MAX_SPECULATIVE, MIN_BROADCAST,
    MIN_OPERATIONS, MIN_REPEATED,
};
use crate::plan::faults::{self, Fault};

/// Name by which it is switched off.
pub const NAME: &str = "loop-invariants";

/// Runs the pass on all loops, inner ones first; how many instructions it moved.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let order = computation_post_order(module)
        .map_err(|_| HloError::execution("a computation calls itself"))?;
    let callers = Callers::new(module);
    let mut effects = Effects::default();
    let mut moved = 0;
    for computation in order {
        let loops = loops_in(module, computation);
        for id in loops {
            if let Some(mut info) = LoopInfo::of_any(module, &callers, id) {
                moved += hoist(module, &mut info, &mut effects);
                info.finish(module)?;
            }
        }
    }
    Ok(moved)
}

/// Moves what is worth it out of one loop; how many instructions.
fn hoist(module: &mut HloModule, info: &mut LoopInfo, effects: &mut Effects) -> usize {
    let body = module.computation(info.body).instructions.clone();
    let invariant = invariant(module, info, &body, effects);
    let runs = info.has_a_trip(module);
    let wanted = wanted(module, &body, &invariant, |id| {
        let size = size(module, id);
        size.is_some_and(|size| size <= MAX_BYTES && (runs || size <= MAX_SPECULATIVE))
    });
    if wanted.is_empty() {
        return 0;
    }
    info.find_users(module);
    let mut outside: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for &id in &wanted {
        let value = move_out(module, info, id, &mut outside);
        let (_, element) = info.add_leaf(module, value);
        info.replace_in_body(module, id, element);
    }
    wanted.len()
}

/// Bytes that an instruction reads and writes; `None` where that is not known.
fn size(module: &HloModule, id: InstructionId) -> Option<i64> {
    let id = source(module, id);
    let operands = module.operand_ids(id).iter();
    let mut size = 0i64;
    for &array in operands.chain([&id]) {
        let shapes = module.shapes();
        for leaf in shapes.leaves(module.instruction_data(array).shape, 64)? {
            let shape = shapes.get(leaf.1).as_array()?;
            let bytes = shape
                .element_count()?
                .checked_mul(shape.element_type.size_bytes() as i64)?;
            size = size.checked_add(bytes)?;
        }
    }
    Some(size)
}

/// The instruction a part of a tuple comes from.
fn source(module: &HloModule, id: InstructionId) -> InstructionId {
    match (module.instruction_data(id).opcode, module.operand_ids(id)) {
        (HloOpcode::GetTupleElement, &[tuple]) => tuple,
        _ => id,
    }
}

/// The leaf that never changes and that `id` is an element of.
fn fixed_leaf(info: &LoopInfo, id: InstructionId) -> Option<usize> {
    let never_changes = |&k: &usize| faults::holds(Fault::MovesVaryingValue, info.is_invariant(k));
    info.leaf_of(id).filter(never_changes)
}

/// Instructions of the body that give the same in every trip.
fn invariant(
    module: &HloModule,
    info: &LoopInfo,
    body: &[InstructionId],
    effects: &mut Effects,
) -> FxHashSet<InstructionId> {
    let mut invariant: FxHashSet<InstructionId> = FxHashSet::default();
    for &id in body {
        let data = module.instruction_data(id);
        let operands = module.operand_ids(id);
        let is_leaf = fixed_leaf(info, id).is_some();
        let is_known = operands.iter().all(|operand| invariant.contains(operand));
        let is_movable = !matches!(
            data.opcode.class(),
            OpClass::Parameter | OpClass::ControlFlow | OpClass::CustomCall | OpClass::Ordering
        );
        if is_leaf || (is_movable && is_known && effects.of(module, id).is_pure()) {
            invariant.insert(id);
        }
    }
    invariant
}

/// What is moved: expensive arrays that something in the body still needs.
fn wanted(
    module: &HloModule,
    body: &[InstructionId],
    invariant: &FxHashSet<InstructionId>,
    is_affordable: impl Fn(InstructionId) -> bool,
) -> Vec<InstructionId> {
    // What the body returns is needed, whatever it is made of.
    let root = body.first().map(|&id| module.instruction(id).computation());
    let root = root.and_then(|computation| module.computation(computation).root);
    let mut needed: FxHashSet<InstructionId> = root.into_iter().collect();
    let mut whole: FxHashSet<InstructionId> = FxHashSet::default();
    let mut wanted = Vec::new();
    let mut left = MAX_ARITHMETIC;
    let mut left_for_broadcasts = MAX_BROADCASTS;
    let costly = costly(module, body, invariant);
    for &id in body.iter().rev() {
        let is_invariant = invariant.contains(&id);
        if is_invariant && !needed.contains(&id) {
            continue;
        }
        let is_array = module.instruction(id).array_shape().is_some();
        let is_written = whole.contains(&id);
        let is_read_whole = is_written && is_arithmetic_or_concatenation(module, id);
        let is_costly = costly.contains(&id) && is_arithmetic_or_concatenation(module, id);
        let most = if is_read_whole {
            left
        } else {
            left.min(MAX_READ_AGAIN)
        };
        let arithmetic = (is_read_whole || is_costly).then(|| size(module, id));
        let arithmetic = arithmetic.flatten().filter(|&size| size <= most);
        let broadcast = repeats_elements(module, id).then(|| size(module, id));
        let broadcast = broadcast
            .flatten()
            .filter(|&size| size <= left_for_broadcasts);
        let is_worth = is_invariant
            && is_array
            && (is_expensive(module, source(module, id))
                || arithmetic.is_some()
                || broadcast.is_some())
            && is_affordable(id);
        if is_worth {
            wanted.push(id);
            left -= arithmetic.unwrap_or(0);
            left_for_broadcasts -= broadcast.unwrap_or(0);
            continue;
        }
        let operands = module.operand_ids(id).iter().copied();
        if takes_whole_arrays(module, id) || is_written && is_permutation(module, id) {
            whole.extend(operands.clone());
        }
        needed.extend(operands);
    }
    wanted.reverse();
    wanted
}

/// Invariant elementwise instructions that make at least [`MIN_OPERATIONS`] operations on as many elements, or a
/// division or a transcendental function of one of them; and permutations of these.
fn costly(
    module: &HloModule,
    body: &[InstructionId],
    invariant: &FxHashSet<InstructionId>,
) -> FxHashSet<InstructionId> {
    let ids = body.iter().copied().filter(|id| invariant.contains(id));
    let mut operations = operations(module, ids);
    operations.retain(|_, operations| *operations >= MIN_OPERATIONS);
    operations.into_keys().collect()
}

/// By elementwise instruction, and permutation, how many operations make one element of it. Only operations among `ids` count;
/// each of `ids` follows its operands. A division or a transcendental function is [`MIN_OPERATIONS`] of them; one that two
/// instructions read counts for both.
pub fn operations(
    module: &HloModule,
    ids: impl Iterator<Item = InstructionId>,
) -> FxHashMap<InstructionId, usize> {
    let count = |id| module.instruction(id).array_shape()?.element_count();
    let mut operations: FxHashMap<InstructionId, usize> = FxHashMap::default();
    for id in ids {
        let opcode = module.instruction_data(id).opcode;
        let is_arithmetic = opcode.class() == OpClass::Convert
            || opcode.class() == OpClass::Compare
            || is_arithmetic_or_concatenation(module, id);
        let own = match opcode.is_transcendental() || divides(opcode) {
            true => MIN_OPERATIONS,
            false => usize::from(is_arithmetic),
        };
        if own == 0 && !is_permutation(module, id) {
            continue;
        }
        let operands = module.operand_ids(id);
        let like = operands.iter().enumerate().filter(|&(at, operand)| {
            let of_operand = count(*operand);
            let is_alike = of_operand.is_some() && of_operand == count(id);
            is_alike && !operands[..at].contains(operand)
        });
        let before = like.filter_map(|(_, operand)| operations.get(operand));
        let all = before.fold(own, |all, operand| all.saturating_add(*operand));
        operations.insert(id, all);
    }
    operations
}

/// Whether it takes the CPU's divider, which is as slow as a transcendental function.
fn divides(opcode: HloOpcode) -> bool {
    matches!(opcode, HloOpcode::Divide | HloOpcode::Remainder)
}

/// What costs more than to read its result.
fn is_expensive(module: &HloModule, id: InstructionId) -> bool {
    use OpClass as C;
    matches!(
        module.instruction_data(id).opcode.class(),
        C::Dot
            | C::Convolution
            | C::Reduce
            | C::Window
            | C::Map
            | C::GatherScatter
            | C::Sort
            | C::Fft
            | C::LinearAlgebra
            | C::BatchNorm
            | C::Random
    )
}

/// Whether it repeats each element of its operand several times in a row, and is small.
fn repeats_elements(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let Some(shape) = instruction.array_shape() else {
        return false;
    };
    let repeated = || {
        let last = shape.dims.len() as i64 - 1;
        let dimensions = instruction.dimensions();
        !dimensions.is_empty()
            && !dimensions.contains(&last)
            && shape.dims.last() >= Some(&MIN_REPEATED)
    };
    instruction.opcode() == HloOpcode::Broadcast
        && repeated()
        && shape
            .element_count()
            .is_some_and(|count| count >= MIN_BROADCAST)
        && shape
            .byte_size()
            .is_some_and(|size| size as i64 <= MAX_BROADCAST)
}

/// What is not fused with what its operands are made of.
fn takes_whole_arrays(module: &HloModule, id: InstructionId) -> bool {
    use OpClass as C;
    matches!(
        module.instruction_data(id).opcode.class(),
        C::Dot | C::Convolution | C::Sort | C::Fft | C::LinearAlgebra | C::GatherScatter
    )
}

/// Arithmetic and concatenations. Conversions are left out: products make them as they read.
fn is_arithmetic_or_concatenation(module: &HloModule, id: InstructionId) -> bool {
    use OpClass as C;
    let opcode = module.instruction_data(id).opcode;
    let is_arithmetic = matches!(
        opcode.class(),
        C::Unary | C::Binary | C::Select | C::Clamp | C::Complex
    );
    is_arithmetic || opcode == HloOpcode::Concatenate
}

/// What holds the elements of its operand, each once.
fn is_permutation(module: &HloModule, id: InstructionId) -> bool {
    use HloOpcode as H;
    matches!(
        module.instruction_data(id).opcode,
        H::Transpose | H::Reshape | H::Bitcast | H::Copy | H::Reverse
    )
}

/// Copies an invariant instruction and what it is made of before the loop.
fn move_out(
    module: &mut HloModule,
    info: &LoopInfo,
    id: InstructionId,
    outside: &mut FxHashMap<InstructionId, InstructionId>,
) -> InstructionId {
    let mut open = vec![id];
    while let Some(&id) = open.last() {
        if outside.contains_key(&id) {
            open.pop();
            continue;
        }
        if let Some(leaf) = fixed_leaf(info, id) {
            outside.insert(id, info.initial[leaf]);
            continue;
        }
        let operands = module.operand_ids(id).iter();
        let missing: Vec<InstructionId> = operands
            .copied()
            .filter(|operand| !outside.contains_key(operand))
            .collect();
        if !missing.is_empty() {
            open.extend(missing);
            continue;
        }
        let operands = module.operand_ids(id).iter();
        let operands: Vec<InstructionId> = operands.map(|operand| outside[operand]).collect();
        let data = module.instruction_data(id).clone();
        let mut attributes = module.attributes_of(id).to_vec();
        attributes.retain(|a| a.key != crate::module::AttrKey::ControlPredecessors);
        let copy = info.outside(module, id).add(
            data.opcode,
            data.shape,
            &operands,
            &attributes,
            data.immediate,
        );
        outside.insert(id, copy);
    }
    outside[&id]
}
