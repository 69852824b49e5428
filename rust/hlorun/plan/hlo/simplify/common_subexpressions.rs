//! `common-subexpressions`: what two instructions compute alike is computed once.
//!
//! Instructions of one computation get the same number when they are of one opcode and shape, with
//! operands of the same numbers, the same attributes, and called computations that do the same. The
//! later ones give way to the first, loops and branches included. Elementwise operations and movements
//! stay where they are: they are fused into their readers, and to store one for several costs more
//! than to compute it again. They give way where many operations make them, or where they are stored in
//! any case: what is assembled of pieces, what is read in memory, as by a slice, and scalars that are only
//! broadcast. What is computed from such scalars is then seen to be the same (see
//! [`crate::plan::schedule::loop_merging`]). In the body and the condition of a loop, arrays of few elements are
//! cheap to store (see [`crate::plan::schedule::scalar_bytecode`]), so elementwise operations on them give way as well.
//!
//! Applies to pure instructions only (see [`Effects`]).

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::mem::{Discriminant, discriminant};

use foldhash::HashMap;
use rustc_hash::{FxHashSet, FxHasher};
use smallvec::SmallVec;

use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, Effects, HloModule, HloOpcode, Id, IdMap,
    InstructionId, OpClass,
};
use crate::plan::cost::loops::MAX_SHARED;
use crate::plan::cost::shared::pays;
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::inline;
use crate::plan::hlo::loops::info::while_loops;
use crate::plan::hlo::loops::invariants::operations;

/// Name by which it is switched off.
pub const NAME: &str = "common-subexpressions";
/// Bytes up to which constants are compared by value.
const MAX_LITERAL: usize = 64;
/// Instructions up to which called computations are compared by what they do.
const MAX_CALLED: usize = 4096;
/// Deepest nesting of called computations that is looked into.
const MAX_DEPTH: u32 = 16;

/// Runs the pass on all computations; how many instructions gave way.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    let mut called = Called::default();
    let mut notes = IdMap::new(module.instruction_count(), Note::default());
    let loops = while_loops(module).into_iter();
    let called_by = loops.flat_map(|id| module.instruction(id).called_computations());
    let in_loops: FxHashSet<ComputationId> = called_by.collect();
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let is_loop = in_loops.contains(&computation);
        let twins = twins(module, (computation, is_loop), &mut called, &mut notes);
        if twins.is_empty() {
            continue;
        }
        let ids = module.computation(computation).instructions.clone();
        for id in ids {
            for operand in module.operand_ids_mut(id) {
                if let Some(&first) = twins.get(operand) {
                    *operand = first;
                }
            }
        }
        // Parts of tuples cost nothing.
        let is_part = |id| module.instruction_data(id).opcode == HloOpcode::GetTupleElement;
        changed += twins.keys().filter(|&&id| !is_part(id)).count();
        inline::remove_dead(module, computation);
    }
    changed
}

/// What is computed once instead of every time. The rest is fused into its readers.
fn is_stored(opcode: HloOpcode) -> bool {
    use OpClass as C;
    !matches!(
        opcode.class(),
        elementwise_classes!()
            | C::BitcastConvert
            | C::Constant
            | C::Parameter
            | C::Iota
            | C::Movement
            | C::DynamicIndex
    ) && opcode != HloOpcode::Tuple
}

/// What is known of an instruction while its computation is looked through.
#[derive(Clone, Copy, Default)]
struct Note {
    /// It stands before the one that is looked at.
    is_seen: bool,
    /// Something reads it.
    is_read: bool,
    /// Something other than a broadcast reads it.
    is_needed: bool,
    /// Something reads it where it is stored.
    is_kept: bool,
    /// The first of its kind, where that is another.
    first: Option<InstructionId>,
    /// Of the first of a kind that stays where it is: the first one that is stored.
    stored: Option<InstructionId>,
}

/// Notes who reads what.
fn note_readers(module: &HloModule, ids: &[InstructionId], notes: &mut IdMap<InstructionId, Note>) {
    for &id in ids {
        let opcode = module.instruction_data(id).opcode;
        for &operand in module.operand_ids(id) {
            notes[operand].is_read = true;
            notes[operand].is_needed |= opcode != HloOpcode::Broadcast;
            notes[operand].is_kept |= reads_memory(opcode);
        }
    }
}

/// Whether an instruction reads its operands where they are stored: no loop computes them for it.
fn reads_memory(opcode: HloOpcode) -> bool {
    use HloOpcode as H;
    use OpClass as C;
    match opcode {
        H::Slice | H::Reverse | H::DynamicSlice => true,
        _ => matches!(
            opcode.class(),
            C::GatherScatter
                | C::Dot
                | C::Convolution
                | C::Window
                | C::Sort
                | C::Fft
                | C::LinearAlgebra
        ),
    }
}

/// Whether it is a scalar that is computed, of which every reader is a broadcast.
fn is_spread(module: &HloModule, id: InstructionId, note: &Note) -> bool {
    use OpClass as C;
    note.is_read
        && !note.is_needed
        && matches!(
            module.instruction_data(id).opcode.class(),
            C::Unary | C::Binary | C::Compare | C::Select | C::Clamp | C::Convert
        )
        && (module.instruction(id).array_shape()).is_some_and(|shape| shape.dims.is_empty())
}

/// Whether it is computed element by element.
fn is_elementwise(module: &HloModule, id: InstructionId) -> bool {
    matches!(
        module.instruction_data(id).opcode.class(),
        elementwise_classes!() | OpClass::BitcastConvert
    )
}

/// Whether it computes few elements.
fn is_few(module: &HloModule, id: InstructionId) -> bool {
    let shape = module.instruction(id).array_shape();
    let count = shape.and_then(|shape| shape.element_count());
    is_elementwise(module, id) && count.is_some_and(|count| count <= MAX_SHARED)
}

/// The first of its kind for every expensive instruction that is not.
fn twins(
    module: &HloModule,
    (computation, is_loop): (ComputationId, bool),
    called: &mut Called,
    notes: &mut IdMap<InstructionId, Note>,
) -> HashMap<InstructionId, InstructionId> {
    let data = module.computation(computation);
    let ids = &data.instructions;
    let mut twins = HashMap::default();
    note_readers(module, ids, notes);
    let operations = operations(module, ids.iter().copied());
    let is_long = |id: InstructionId| {
        let shape = module.instruction(id).array_shape();
        let elements = shape.and_then(|shape| usize::try_from(shape.element_count()?).ok());
        let own = operations.get(&id);
        matches!((elements, own), (Some(elements), Some(&own)) if pays(elements, own))
    };
    let gives_way = |id: InstructionId, notes: &IdMap<InstructionId, Note>| {
        is_stored(module.instruction_data(id).opcode)
            || is_elementwise(module, id) && (notes[id].is_kept || is_long(id))
            || is_spread(module, id, &notes[id])
            || (is_loop && is_few(module, id))
    };
    let mut some = ids.iter().filter(|&&id| gives_way(id, notes));
    if some.nth(1).is_none() {
        return twins;
    }
    let mut firsts: HashMap<Key, SmallVec<[InstructionId; 1]>> = HashMap::default();
    // The only instruction of a hash, whose key nobody has asked for; none where there were more.
    let mut alone: HashMap<u64, Option<InstructionId>> = HashMap::default();
    alone.reserve(ids.len());
    for &id in ids {
        notes[id].is_seen = true;
        let is_parameter = module.instruction_data(id).opcode == HloOpcode::Parameter;
        let are_seen = module.operand_ids(id).iter().all(|&o| notes[o].is_seen);
        let is_pure = called.effects.of(module, id).is_pure();
        let is_pure = faults::holds(Fault::MergesEffects, is_pure);
        if is_parameter || !is_pure || !are_seen || data.root == Some(id) {
            continue;
        }
        // The first of a kind stands for all of them.
        let number = |operand: InstructionId| {
            let first = notes[operand].first.unwrap_or(operand);
            first.index() as u64
        };
        match alone.entry(hash(module, id, &number)) {
            Entry::Vacant(entry) => {
                entry.insert(Some(id));
                continue;
            }
            Entry::Occupied(mut entry) => {
                let first = entry.get_mut().take();
                if let Some((first, key)) =
                    first.and_then(|id| Some((id, key(module, id, &number)?)))
                {
                    firsts.entry(key).or_default().push(first);
                }
            }
        }
        let Some(key) = key(module, id, &number) else {
            continue;
        };
        let alike = firsts.entry(key).or_default();
        let same = |first: &InstructionId| called.are_same(module, id, *first);
        match alike.iter().copied().find(same) {
            Some(first) => {
                notes[id].first = Some(first);
                if gives_way(id, notes) {
                    let is_stored = gives_way(first, notes);
                    let stored = is_stored.then_some(first).or(notes[first].stored);
                    match stored {
                        Some(stored) => drop(twins.insert(id, stored)),
                        None => notes[first].stored = Some(id),
                    }
                }
            }
            None => alike.push(id),
        }
    }
    twins
}

/// A hash that instructions of equal keys share, and most others do not: keys take longer to write.
fn hash(module: &HloModule, id: InstructionId, number: &dyn Fn(InstructionId) -> u64) -> u64 {
    let data = module.instruction_data(id);
    let mut hasher = FxHasher::default();
    (data.opcode as u8, data.shape.index()).hash(&mut hasher);
    if data.opcode == HloOpcode::Constant {
        let literal = module.instruction(id).literal();
        let bytes = literal.and_then(|literal| literal.bytes());
        bytes
            .map(|bytes| &bytes[..bytes.len().min(64)])
            .hash(&mut hasher);
    } else {
        data.immediate.hash(&mut hasher);
        for &operand in module.operand_ids(id) {
            number(operand).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What tells an instruction or a computation from others.
type Key = SmallVec<[Word; 12]>;

/// A part of a [`Key`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    Number(u64),
    Opcode(HloOpcode),
    Attribute(AttrKey),
    Form(Discriminant<AttrValue>),
}

/// Writes a number.
fn write(key: &mut Key, number: impl TryInto<u64>) -> Option<()> {
    key.push(Word::Number(number.try_into().ok()?));
    Some(())
}

/// Writes bytes with their length first, so that different bytes have different keys.
fn write_bytes(key: &mut Key, bytes: &[u8]) -> Option<()> {
    write(key, bytes.len())?;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        write(key, u64::from_ne_bytes(word))?;
    }
    Some(())
}

/// Writes signed numbers.
fn write_all(key: &mut Key, numbers: impl IntoIterator<Item = i64>) {
    key.extend(
        numbers
            .into_iter()
            .map(|number| Word::Number(number as u64)),
    );
}

/// Everything an instruction's value depends on but the computations it calls; `None` where that is
/// not known.
fn key(
    module: &HloModule,
    id: InstructionId,
    number: &dyn Fn(InstructionId) -> u64,
) -> Option<Key> {
    let mut key = Key::new();
    write_instruction(&mut key, module, id, number)?;
    Some(key)
}

/// Writes the [`key`] of an instruction.
fn write_instruction(
    key: &mut Key,
    module: &HloModule,
    id: InstructionId,
    number: &dyn Fn(InstructionId) -> u64,
) -> Option<()> {
    let data = module.instruction_data(id);
    key.push(Word::Opcode(data.opcode));
    write(key, data.shape.index())?;
    if data.opcode == HloOpcode::Constant {
        let literal = module.instruction(id).literal()?;
        return match literal.bytes() {
            Some(bytes) if bytes.len() <= MAX_LITERAL => write_bytes(key, bytes),
            // Long literals are compared by id; no short one's key begins with this length.
            _ => write(key, u64::MAX).and_then(|()| write(key, data.immediate)),
        };
    }
    write(key, data.immediate)?;
    let operands = module.operand_ids(id);
    write(key, operands.len())?;
    for &operand in operands {
        write(key, number(operand))?;
    }
    let attributes = module.attributes_of(id).iter();
    let telling = attributes.filter(|attribute| !is_remark(attribute.key));
    let mut telling: SmallVec<[&Attribute; 8]> = telling.collect();
    // A text may give them in any order.
    telling.sort_unstable_by_key(|attribute| attribute.key);
    for attribute in telling {
        write_attribute(key, module, attribute)?;
    }
    Some(())
}

/// Attributes that change no value.
fn is_remark(key: AttrKey) -> bool {
    matches!(
        key,
        AttrKey::Metadata
            | AttrKey::Origin
            | AttrKey::OriginalValue
            | AttrKey::Statistics
            | AttrKey::FrontendAttributes
            | AttrKey::Sharding
            | AttrKey::ControlPredecessors
    )
}

/// Writes an attribute: its form, and the lengths that are written first, say how many words follow.
fn write_attribute(key: &mut Key, module: &HloModule, attribute: &Attribute) -> Option<()> {
    let text = |key: &mut Key, text| write_bytes(key, module.str(text).as_bytes());
    match attribute.key {
        AttrKey::Other(name) => text(key, name)?,
        known => key.push(Word::Attribute(known)),
    }
    key.push(Word::Form(discriminant(&attribute.value)));
    match &attribute.value {
        AttrValue::Bool(value) => write(key, *value)?,
        AttrValue::Int(value) => write_all(key, [*value]),
        AttrValue::Float(value) => write(key, value.to_bits())?,
        AttrValue::Ints(range) => {
            let all = module.int_list(*range);
            write(key, all.len())?;
            write_all(key, all.iter().copied());
        }
        AttrValue::Enum(word) | AttrValue::String(word) | AttrValue::Raw(word) => text(key, *word)?,
        AttrValue::Enums(words) => {
            write(key, words.len())?;
            for &word in words {
                text(key, word)?;
            }
        }
        // Called computations are compared separately.
        AttrValue::Computation(_) => {}
        AttrValue::Computations(ids) => write(key, ids.len())?,
        AttrValue::Window(window) => {
            write(key, window.0.len())?;
            for d in &window.0 {
                let edges = [d.padding_low, d.padding_high];
                let steps = [d.window_dilation, d.base_dilation];
                write_all(key, [d.size, d.stride, i64::from(d.window_reversal)]);
                write_all(key, edges.into_iter().chain(steps));
            }
        }
        AttrValue::Padding(all) => {
            write(key, all.len())?;
            write_all(
                key,
                all.iter()
                    .flat_map(|d| [d.edge_low, d.edge_high, d.interior]),
            );
        }
        AttrValue::Slice(all) => {
            write(key, all.len())?;
            write_all(key, all.iter().flat_map(|d| [d.start, d.limit, d.stride]));
        }
        AttrValue::Pairs(all) => {
            write(key, all.len())?;
            write_all(key, all.iter().flat_map(|&(a, b)| [a, b]));
        }
        AttrValue::Bools(all) => {
            write(key, all.len())?;
            write_all(key, all.iter().copied().map(i64::from));
        }
        AttrValue::DimLabels(labels) => write_bytes(key, format!("{labels:?}").as_bytes())?,
        _ => return None,
    }
    Some(())
}

/// Numbers of computations: the same for those that do the same.
#[derive(Default)]
struct Called {
    effects: Effects,
    numbers: HashMap<ComputationId, u32>,
    /// The number of everything that was written out.
    written: HashMap<Key, u32>,
}

impl Called {
    /// Whether two instructions call computations that do the same.
    fn are_same(&mut self, module: &HloModule, a: InstructionId, b: InstructionId) -> bool {
        let [a, b] = [a, b].map(|id| module.instruction(id).called_computations());
        a.len() == b.len()
            && a.iter().zip(&b).all(|(&a, &b)| {
                a == b || self.number(module, a, MAX_DEPTH) == self.number(module, b, MAX_DEPTH)
            })
    }

    /// Recursion is bounded by `depth`.
    fn number(&mut self, module: &HloModule, id: ComputationId, depth: u32) -> u32 {
        if let Some(&number) = self.numbers.get(&id) {
            return number;
        }
        let depth = depth.checked_sub(1);
        let key = depth.and_then(|depth| self.written_out(module, id, depth));
        let next = self.written.len() as u32;
        // A computation without a key equals no other: its key is one number, and every real key is longer.
        let alone = || Key::from_slice(&[Word::Number(id.index() as u64)]);
        let number = *(self.written.entry(key.unwrap_or_else(alone))).or_insert(next);
        self.numbers.insert(id, number);
        number
    }

    /// All instructions of a computation, by their positions.
    fn written_out(&mut self, module: &HloModule, id: ComputationId, depth: u32) -> Option<Key> {
        let data = module.computation(id);
        let is_pure = self.effects.of_computation(module, id).is_pure();
        if !is_pure || data.instructions.len() > MAX_CALLED {
            return None;
        }
        let instructions = data.instructions.iter().enumerate();
        let positions: HashMap<InstructionId, u64> =
            instructions.map(|(at, &id)| (id, at as u64)).collect();
        let mut key = Key::new();
        write(&mut key, *positions.get(&data.root?)?)?;
        let position = |operand| positions.get(&operand).copied().unwrap_or(u64::MAX);
        for &instruction in &data.instructions {
            write_instruction(&mut key, module, instruction, &position)?;
            let callees = module.instruction(instruction).called_computations();
            write(&mut key, callees.len())?;
            for callee in callees {
                write(&mut key, self.number(module, callee, depth))?;
            }
        }
        Some(key)
    }
}
