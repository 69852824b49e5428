//! `common-subexpressions`: what two instructions compute alike is computed once.
//!
//! Instructions of one computation get the same number when they are of one opcode and shape, with
//! operands of the same numbers, the same attributes, and called computations that do the same. The
//! later ones give way to the first, loops and branches included. Elementwise operations and movements
//! stay where they are: they are fused into their readers, and to store one for several costs more
//! than to compute it again. What is assembled of pieces is stored in any case. Scalars that are only broadcast are stored in any case, so they give
//! way too: what is computed from them is then seen to be the same (see [`crate::plan::schedule::loop_merging`]).
//!
//! Applies to pure instructions only (see [`Effects`]).

use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use foldhash::{HashMap, HashSet};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, Effects, HloModule, HloOpcode, Id, InstructionId,
    OpClass,
};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::inline;

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
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let twins = twins(module, computation, &mut called);
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
        C::Unary
            | C::Binary
            | C::Compare
            | C::Select
            | C::Clamp
            | C::Convert
            | C::BitcastConvert
            | C::Complex
            | C::Constant
            | C::Parameter
            | C::Iota
            | C::Movement
            | C::DynamicIndex
    ) && opcode != HloOpcode::Tuple
}

/// Scalars that are computed, of which every reader is a broadcast.
fn spread(module: &HloModule, ids: &[InstructionId]) -> HashSet<InstructionId> {
    let mut read: HashMap<InstructionId, bool> = HashMap::default();
    for &id in ids {
        let is_broadcast = module.instruction_data(id).opcode == HloOpcode::Broadcast;
        for &operand in module.operand_ids(id) {
            *read.entry(operand).or_insert(true) &= is_broadcast;
        }
    }
    read.retain(|&id, only| {
        let class = module.instruction_data(id).opcode.class();
        let shape = module.instruction(id).array_shape();
        *only
            && matches!(
                class,
                OpClass::Unary
                    | OpClass::Binary
                    | OpClass::Compare
                    | OpClass::Select
                    | OpClass::Clamp
                    | OpClass::Convert
            )
            && shape.is_some_and(|shape| shape.dims.is_empty())
    });
    read.into_keys().collect()
}

/// The first of its kind for every expensive instruction that is not.
fn twins(
    module: &HloModule,
    computation: ComputationId,
    called: &mut Called,
) -> HashMap<InstructionId, InstructionId> {
    let data = module.computation(computation);
    let ids = &data.instructions;
    let mut twins = HashMap::default();
    let spread = spread(module, ids);
    let gives_way =
        |id: &InstructionId| is_stored(module.instruction_data(*id).opcode) || spread.contains(id);
    if ids.iter().filter(|id| gives_way(id)).nth(1).is_none() {
        return twins;
    }
    // Instructions are numbered by the first of their kind. One that stands behind its reader has
    // no number yet then, and is taken for itself.
    let mut numbers: HashMap<InstructionId, InstructionId> = HashMap::default();
    let mut firsts: HashMap<String, SmallVec<[InstructionId; 1]>> = HashMap::default();
    // The only instruction of a hash, whose key nobody has asked for; none where there were more.
    let mut alone: HashMap<u64, Option<InstructionId>> = HashMap::default();
    let mut seen: HashSet<InstructionId> = HashSet::default();
    for &id in ids {
        seen.insert(id);
        let is_parameter = module.instruction_data(id).opcode == HloOpcode::Parameter;
        let are_seen = module.operand_ids(id).iter().all(|o| seen.contains(o));
        let is_pure = called.effects.of(module, id).is_pure();
        let is_pure = faults::holds(Fault::MergesEffects, is_pure);
        if is_parameter || !is_pure || !are_seen || data.root == Some(id) {
            continue;
        }
        let number = |operand: InstructionId| {
            let first = numbers.get(&operand).copied().unwrap_or(operand);
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
                numbers.insert(id, first);
                if gives_way(&id) && gives_way(&first) {
                    twins.insert(id, first);
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

/// Everything an instruction's value depends on but the computations it calls; `None` where that is
/// not known.
fn key(
    module: &HloModule,
    id: InstructionId,
    number: &dyn Fn(InstructionId) -> u64,
) -> Option<String> {
    let data = module.instruction_data(id);
    let mut key = format!("{:?} {}", data.opcode, data.shape.index());
    if data.opcode == HloOpcode::Constant {
        let literal = module.instruction(id).literal()?;
        match literal.bytes() {
            Some(bytes) if bytes.len() <= MAX_LITERAL => write!(key, " {bytes:?}").ok()?,
            _ => write!(key, " #{}", data.immediate).ok()?,
        }
        return Some(key);
    }
    write!(key, " {}", data.immediate).ok()?;
    for &operand in module.operand_ids(id) {
        write!(key, " %{}", number(operand)).ok()?;
    }
    let mut attributes: Vec<String> = module
        .attributes_of(id)
        .iter()
        .filter(|attribute| !is_remark(attribute.key))
        .map(|attribute| write_attribute(module, attribute))
        .collect::<Option<_>>()?;
    attributes.sort_unstable();
    for attribute in attributes {
        key.push('\n');
        key.push_str(&attribute);
    }
    Some(key)
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

fn write_attribute(module: &HloModule, attribute: &Attribute) -> Option<String> {
    let name = match attribute.key {
        AttrKey::Other(text) => module.str(text).into_owned(),
        key => format!("{key:?}"),
    };
    let value = match &attribute.value {
        AttrValue::Ints(range) => format!("{:?}", module.int_list(*range)),
        AttrValue::Enum(text) | AttrValue::String(text) | AttrValue::Raw(text) => {
            module.str(*text).into_owned()
        }
        AttrValue::Enums(texts) => texts.iter().map(|&text| module.str(text) + ",").collect(),
        AttrValue::Computation(_) => String::new(),
        AttrValue::Computations(ids) => ids.len().to_string(),
        AttrValue::Float(value) => format!("{:x}", value.to_bits()),
        value @ (AttrValue::Bool(_)
        | AttrValue::Int(_)
        | AttrValue::Window(_)
        | AttrValue::Padding(_)
        | AttrValue::Slice(_)
        | AttrValue::DimLabels(_)
        | AttrValue::Pairs(_)
        | AttrValue::Bools(_)) => format!("{value:?}"),
        _ => return None,
    };
    Some(format!("{name}={value}"))
}

/// Numbers of computations: the same for those that do the same.
#[derive(Default)]
struct Called {
    effects: Effects,
    numbers: HashMap<ComputationId, u32>,
    /// The number of everything that was written out.
    written: HashMap<String, u32>,
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
        let text = depth
            .checked_sub(1)
            .and_then(|depth| self.written_out(module, id, depth))
            .unwrap_or_else(|| format!("computation {}", id.index()));
        let next = self.written.len() as u32;
        let number = *self.written.entry(text).or_insert(next);
        self.numbers.insert(id, number);
        number
    }

    /// All instructions of a computation, by their positions.
    fn written_out(&mut self, module: &HloModule, id: ComputationId, depth: u32) -> Option<String> {
        let data = module.computation(id);
        let is_pure = self.effects.of_computation(module, id).is_pure();
        if !is_pure || data.instructions.len() > MAX_CALLED {
            return None;
        }
        let instructions = data.instructions.iter().enumerate();
        let positions: HashMap<InstructionId, u64> =
            instructions.map(|(at, &id)| (id, at as u64)).collect();
        let mut text = format!("root {}", positions.get(&data.root?)?);
        let position = |operand| positions.get(&operand).copied().unwrap_or(u64::MAX);
        for &instruction in &data.instructions {
            text.push_str("; ");
            text.push_str(&key(module, instruction, &position)?);
            for callee in module.instruction(instruction).called_computations() {
                let number = self.number(module, callee, depth);
                write!(text, " calls {number}").ok()?;
            }
        }
        Some(text)
    }
}
