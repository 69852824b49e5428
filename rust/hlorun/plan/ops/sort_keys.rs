//! Comparators that compare keys: `lt(g(x), g(y))`, lexicographically over several `g`.
//!
//! In: the comparator of a `sort`. Out: [`SortKeys`], the program that computes the keys of every
//! element once, or `None` when the comparator is no such thing and has to be asked pair by pair.
//! Works on what the instructions compute: both sides are numbered by value, and are the same
//! function when the numbers agree after exchanging left and right.

use foldhash::HashMap;

use crate::module::{
    AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::element::program::Program;
use crate::plan::element::scalar;
use crate::types::PrimitiveType;

/// One key of a lexicographic order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Type the keys are computed in.
    pub element_type: PrimitiveType,
    /// Greater keys come first.
    pub descending: bool,
    /// Floats compare by the total order; otherwise -0 equals 0.
    pub total_order: bool,
}

/// Keys and the code that computes them.
#[derive(Clone, Debug)]
pub struct SortKeys {
    /// Most significant first.
    pub keys: Vec<SortKey>,
    /// Inputs as the comparator's (left and right of every operand, of which it reads only the
    /// left); one output per key.
    pub program: Program,
}

/// What a boolean instruction says about left and right.
#[derive(Clone)]
enum Fact {
    /// Left comes first by these keys; expressions over the left side.
    Less(Vec<(InstructionId, u32, SortKey)>),
    /// Left and right agree in the key of this number, by the total order if so said.
    Equal(EqualKey),
    /// They agree in the key, and then left comes first by the others.
    EqualThenLess(EqualKey, Vec<(InstructionId, u32, SortKey)>),
}

/// Number of an expression, and whether it is compared by the total order.
type EqualKey = (u32, bool);

/// What is known of an instruction.
#[derive(Clone, Default)]
struct Known {
    /// Value number, and the number after exchanging left and right.
    number: u32,
    mirrored: u32,
    left: bool,
    right: bool,
    fact: Option<Fact>,
}

type Key = (HloOpcode, PrimitiveType, Vec<u8>, Vec<u32>);

struct Numbering {
    numbers: HashMap<Key, u32>,
    next: u32,
}

impl Numbering {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn of(&mut self, key: Key) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.fresh();
        self.numbers.insert(key, number);
        number
    }
}

/// Longest lexicographic order looked for.
const MOST_KEYS: usize = 16;

/// Finds the keys `comparator` compares by.
pub fn find(module: &HloModule, comparator: ComputationId) -> Option<SortKeys> {
    let keys = expressions(module, comparator)?;
    let expressions: Vec<InstructionId> = keys.iter().map(|key| key.0).collect();
    let program = scalar::compile_values(module, comparator, &expressions).ok()?;
    Some(SortKeys {
        keys: keys.into_iter().map(|key| key.1).collect(),
        program,
    })
}

/// The keys, each with the instruction of the comparator that computes it of the left elements.
pub fn expressions(
    module: &HloModule,
    comparator: ComputationId,
) -> Option<Vec<(InstructionId, SortKey)>> {
    let data = module.computation(comparator);
    let mut numbering = Numbering {
        numbers: HashMap::default(),
        next: 0,
    };
    let mut known: HashMap<InstructionId, Known> = HashMap::default();
    for (number, &parameter) in data.parameters.iter().enumerate() {
        let key = |number: usize| {
            let ty = PrimitiveType::Pred;
            (HloOpcode::Parameter, ty, Vec::new(), vec![number as u32])
        };
        let entry = Known {
            number: numbering.of(key(number)),
            mirrored: numbering.of(key(number ^ 1)),
            left: number % 2 == 0,
            right: number % 2 == 1,
            fact: None,
        };
        known.insert(parameter, entry);
    }
    for &id in &data.instructions {
        if !known.contains_key(&id) {
            let entry = examine(module.instruction(id), &known, &mut numbering);
            known.insert(id, entry);
        }
    }
    let Some(Fact::Less(keys)) = known.remove(&data.root?)?.fact else {
        return None;
    };
    Some(keys.into_iter().map(|key| (key.0, key.2)).collect())
}

fn examine(
    instruction: InstructionRef<'_>,
    known: &HashMap<InstructionId, Known>,
    numbering: &mut Numbering,
) -> Known {
    let unknown = |numbering: &mut Numbering| Known {
        number: numbering.fresh(),
        mirrored: numbering.fresh(),
        left: true,
        right: true,
        fact: None,
    };
    let Some(shape) = instruction.array_shape() else {
        return unknown(numbering);
    };
    let mut operands = Vec::new();
    for id in instruction.operand_ids() {
        match known.get(id) {
            Some(entry) => operands.push(entry),
            None => return unknown(numbering),
        }
    }
    use HloOpcode as H;
    let opcode = instruction.opcode();
    if let (H::Copy | H::Reshape | H::Broadcast, [only]) = (opcode, &operands[..])
        && !instruction.changes_element_type()
    {
        return (*only).clone();
    }
    let mut detail: Vec<u8> = Vec::new();
    let text = |key| {
        instruction
            .enumeration(key)
            .unwrap_or_default()
            .into_owned()
    };
    match opcode.class() {
        OpClass::Unary | OpClass::Binary | OpClass::Select | OpClass::Clamp | OpClass::Complex => {}
        OpClass::BitcastConvert => {}
        OpClass::Convert if opcode == H::Convert => {}
        OpClass::Compare => {
            detail.extend(text(AttrKey::Direction).bytes());
            detail.push(b' ');
            detail.extend(text(AttrKey::Type).bytes());
        }
        OpClass::Constant => match instruction.literal().and_then(|literal| literal.bytes()) {
            Some(bytes) => detail.extend(bytes),
            None => return unknown(numbering),
        },
        _ => return unknown(numbering),
    }
    let ty = shape.element_type;
    let numbers = operands.iter().map(|o| o.number).collect();
    let mirrored = operands.iter().map(|o| o.mirrored).collect();
    Known {
        number: numbering.of((opcode, ty, detail.clone(), numbers)),
        mirrored: numbering.of((opcode, ty, detail, mirrored)),
        left: operands.iter().any(|o| o.left),
        right: operands.iter().any(|o| o.right),
        fact: fact(instruction, &operands),
    }
}

fn fact(instruction: InstructionRef<'_>, operands: &[&Known]) -> Option<Fact> {
    use HloOpcode as H;
    match (instruction.opcode(), operands) {
        (H::Compare, [a, b]) => comparison(instruction, a, b),
        (H::And, [a, b]) => match (a.fact.as_ref()?, b.fact.as_ref()?) {
            (Fact::Equal(key), Fact::Less(rest)) | (Fact::Less(rest), Fact::Equal(key)) => {
                Some(Fact::EqualThenLess(*key, rest.clone()))
            }
            _ => None,
        },
        (H::Or, [a, b]) => match (a.fact.as_ref()?, b.fact.as_ref()?) {
            (Fact::Less(first), Fact::EqualThenLess(key, rest))
            | (Fact::EqualThenLess(key, rest), Fact::Less(first)) => join(first, *key, rest),
            _ => None,
        },
        (H::Select, [p, a, b]) => match (p.fact.as_ref()?, a.fact.as_ref()?, b.fact.as_ref()?) {
            (Fact::Equal(key), Fact::Less(rest), Fact::Less(first)) => join(first, *key, rest),
            _ => None,
        },
        _ => None,
    }
}

fn join(
    first: &[(InstructionId, u32, SortKey)],
    key: EqualKey,
    rest: &[(InstructionId, u32, SortKey)],
) -> Option<Fact> {
    // The equality has to be of the very key that was compared.
    if first.len() != 1 || (first[0].1, first[0].2.total_order) != key || rest.len() >= MOST_KEYS {
        return None;
    }
    Some(Fact::Less([first, rest].concat()))
}

fn comparison(instruction: InstructionRef<'_>, a: &Known, b: &Known) -> Option<Fact> {
    if a.mirrored != b.number || a.left == a.right || b.left == b.right {
        return None;
    }
    let direction = instruction.enumeration(AttrKey::Direction)?;
    // The expression over the left side, and whether it stands on the other side of the sign.
    let (expression, number, swapped) = if a.left {
        (*instruction.operand_ids().first()?, a.number, false)
    } else {
        (*instruction.operand_ids().get(1)?, b.number, true)
    };
    let element_type = instruction
        .module
        .instruction(expression)
        .array_shape()?
        .element_type;
    let total_order = instruction.enumeration(AttrKey::Type).as_deref() == Some("TOTALORDER");
    let descending = match direction.as_ref() {
        "LT" => swapped,
        "GT" => !swapped,
        "EQ" => return Some(Fact::Equal((number, total_order))),
        _ => return None,
    };
    let key = SortKey {
        element_type,
        descending,
        total_order,
    };
    orderable(element_type).then(|| Fact::Less(vec![(expression, number, key)]))
}

/// Types whose bits, read as integers, give the order.
pub fn orderable(ty: PrimitiveType) -> bool {
    use PrimitiveType as P;
    matches!(ty, P::Pred | P::F16 | P::BF16 | P::F32 | P::F64) || ty.is_integral()
}
