//! `common-subexpressions`: what two instructions compute alike is computed once.
//!
//! Instructions of one computation get the same number when they are of one opcode and shape, with
//! operands of the same numbers and the same attributes. Of those that are dear, such as products,
//! reductions and sorts, the later ones give way to the first. Elementwise operations and movements
//! stay where they are: they are fused into their readers, and to store one for several costs more
//! than to compute it again. Scalars that are only broadcast are stored in any case, so they give
//! way too: what is computed from them is then seen to be the same (see [`crate::plan::shared_steps`]).
//!
//! Applies to pure instructions only: no random numbers, custom calls, collectives or control flow.

use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::module::{
    AttrKey, AttrValue, Attribute, ComputationId, HloModule, HloOpcode, Id, InstructionId, OpClass,
};
use crate::plan::inline;

/// Name by which it is switched off.
pub const NAME: &str = "common-subexpressions";
/// Bytes up to which constants are compared by value.
const MAX_LITERAL: usize = 64;
/// Instructions up to which called computations are compared by what they do.
const MAX_CALLED: usize = 16;

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
        changed += twins.len();
        inline::remove_dead(module, computation);
    }
    changed
}

/// What is computed once instead of every time.
fn is_dear(class: OpClass) -> bool {
    use OpClass as C;
    matches!(
        class,
        C::Dot
            | C::Convolution
            | C::Reduce
            | C::Window
            | C::GatherScatter
            | C::Sort
            | C::Fft
            | C::LinearAlgebra
            | C::BatchNorm
            | C::Scan
    )
}

/// Whether equal operands give equal results, and nothing else happens.
fn is_pure(class: OpClass) -> bool {
    use OpClass as C;
    is_dear(class)
        || matches!(
            class,
            C::Unary
                | C::Binary
                | C::Compare
                | C::Select
                | C::Clamp
                | C::Convert
                | C::BitcastConvert
                | C::Complex
                | C::Constant
                | C::Iota
                | C::Tuple
                | C::Movement
                | C::Assemble
                | C::DynamicIndex
        )
}

/// Scalars that are computed, of which every reader is a broadcast.
fn spread(module: &HloModule, ids: &[InstructionId]) -> FxHashSet<InstructionId> {
    let mut read: FxHashMap<InstructionId, bool> = FxHashMap::default();
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

/// The first of its kind for every dear instruction that is not.
fn twins(
    module: &HloModule,
    computation: ComputationId,
    called: &mut Called,
) -> FxHashMap<InstructionId, InstructionId> {
    let data = module.computation(computation);
    let ids = &data.instructions;
    let mut twins = FxHashMap::default();
    let spread = spread(module, ids);
    let gives_way = |id: &InstructionId| {
        is_dear(module.instruction_data(*id).opcode.class()) || spread.contains(id)
    };
    if ids.iter().filter(|id| gives_way(id)).nth(1).is_none() {
        return twins;
    }
    // Instructions are numbered by the first of their kind. One that stands behind its reader has
    // no number yet then, and is taken for itself.
    let mut numbers: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    let mut firsts: FxHashMap<String, InstructionId> = FxHashMap::default();
    let mut seen: FxHashSet<InstructionId> = FxHashSet::default();
    for &id in ids {
        seen.insert(id);
        let class = module.instruction_data(id).opcode.class();
        let are_seen = module.operand_ids(id).iter().all(|o| seen.contains(o));
        if !is_pure(class) || !are_seen || data.root == Some(id) {
            continue;
        }
        let number = |operand: InstructionId| {
            let first = numbers.get(&operand).copied().unwrap_or(operand);
            first.index() as u64
        };
        let Some(key) = key(module, id, &number, called) else {
            continue;
        };
        match firsts.get(&key) {
            Some(&first) => {
                numbers.insert(id, first);
                if gives_way(&id) && gives_way(&first) {
                    twins.insert(id, first);
                }
            }
            None => {
                firsts.insert(key, id);
            }
        }
    }
    twins
}

/// Everything an instruction's value depends on; `None` where that is not known.
fn key(
    module: &HloModule,
    id: InstructionId,
    number: &dyn Fn(InstructionId) -> u64,
    called: &mut Called,
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
        .map(|attribute| write_attribute(module, attribute, called))
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

fn write_attribute(
    module: &HloModule,
    attribute: &Attribute,
    called: &mut Called,
) -> Option<String> {
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
        AttrValue::Computation(id) => called.name(module, *id),
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

/// Names of computations: the same for those that do the same.
#[derive(Default)]
struct Called {
    names: FxHashMap<ComputationId, String>,
    /// Whether a computation is being named, so that those inside it go by their ids.
    is_naming: bool,
}

impl Called {
    fn name(&mut self, module: &HloModule, id: ComputationId) -> String {
        if let Some(name) = self.names.get(&id) {
            return name.clone();
        }
        let by_id = || format!("computation {}", id.index());
        if self.is_naming {
            return by_id();
        }
        self.is_naming = true;
        let name = self.written_out(module, id).unwrap_or_else(by_id);
        self.is_naming = false;
        self.names.insert(id, name.clone());
        name
    }

    /// All instructions of a computation, by their positions.
    fn written_out(&mut self, module: &HloModule, id: ComputationId) -> Option<String> {
        let data = module.computation(id);
        if data.instructions.len() > MAX_CALLED {
            return None;
        }
        let root = data
            .instructions
            .iter()
            .position(|&i| Some(i) == data.root)?;
        let mut text = format!("root {root}");
        for &instruction in &data.instructions {
            let opcode = module.instruction_data(instruction).opcode;
            if !is_pure(opcode.class()) && opcode != HloOpcode::Parameter {
                return None;
            }
            let position = |operand: InstructionId| {
                let mut all = data.instructions.iter();
                all.position(|&i| i == operand)
                    .map_or(u64::MAX, |at| at as u64)
            };
            text.push_str("; ");
            text.push_str(&key(module, instruction, &position, self)?);
        }
        Some(text)
    }
}
