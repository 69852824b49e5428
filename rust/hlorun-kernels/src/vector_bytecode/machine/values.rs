//! Vector bytecode as instructions on values.
//!
//! In: code of an accumulator and memory. Out: instructions, each of which makes a value of its own from values, constants
//! and memory outside. What the code stores for later becomes an instruction only if a call, or what comes behind
//! one, reads it: calls divide the code into pieces, between which values lie in memory.

use std::collections::HashMap;

use super::super::code::{Code, Micro};
use super::Source;
use super::codes::{Other, accesses, comparison, one_instruction, predicate};
use super::instructions::Mnemonic;

/// The number of an instruction, which is also that of the value it makes.
pub(super) type Value = u32;

/// A vector in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct MemoryOperand {
    /// Which address of the table.
    pub(super) address: u16,
    /// Bytes from one vector to the next; 0 where all read the same element.
    pub(super) bytes: u8,
}

/// The operand that need not be in a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Operand {
    Value(Value),
    Memory(MemoryOperand),
    /// A constant of the list.
    Constant(usize),
}

/// What an instruction makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Makes {
    Nothing,
    Vector,
    Mask,
}

/// An instruction on values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) mnemonic: Mnemonic,
    pub(super) makes: Makes,
    /// What is stored, or the first factor of a product and sum that is rounded once.
    pub(super) first: Option<Value>,
    pub(super) second: Option<Value>,
    pub(super) last: Operand,
    pub(super) mask: Option<Value>,
    pub(super) immediate: u8,
}

impl Node {
    /// The values it reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = Value> + use<> {
        let last = match self.last {
            Operand::Value(value) => Some(value),
            _ => None,
        };
        [self.first, self.second, last, self.mask]
            .into_iter()
            .flatten()
    }

    /// The constant it is.
    pub(super) fn constant(&self) -> Option<usize> {
        match (self.mnemonic, self.last) {
            (Mnemonic::Broadcast, Operand::Constant(number)) => Some(number),
            _ => None,
        }
    }
}

/// A call between two pieces: number, operand and result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: u16,
    pub(super) from: u16,
    pub(super) to: u16,
}

/// Instructions, and the call behind them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) nodes: Vec<Node>,
    pub(super) call: Option<Call>,
}

/// All pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    pub(super) constants: Vec<u64>,
    /// Whether the code multiplies floats.
    pub(super) has_products: bool,
}

/// Puts the pieces together.
pub(super) struct Builder<'c> {
    code: &'c [Micro],
    /// Addresses of the bytecode's own, which come first.
    locals: u16,
    is_wide: bool,
    /// Whether products are computed in `f64`.
    pub(super) by_double: bool,
    /// Vectors that this piece has converted: low and high half.
    pub(super) doubles: HashMap<Value, [Value; 2]>,
    pub(super) all: Pieces,
    pub(super) nodes: Vec<Node>,
    accumulator: Option<Value>,
    /// What is known of the bytecode's own memory in this piece.
    held: HashMap<u16, Value>,
    /// Constants and vectors outside that this piece has made.
    made: HashMap<(Mnemonic, Operand), Value>,
}

/// The pieces of the code; `None` where one has no instruction for such elements.
pub(super) fn pieces(source: &Source<'_>) -> Option<Pieces> {
    let code = source.code;
    let mut builder = Builder {
        code,
        locals: source.locals as u16,
        is_wide: source.is_wide,
        by_double: source.by_double,
        doubles: HashMap::new(),
        all: Pieces::default(),
        nodes: Vec::new(),
        accumulator: None,
        held: HashMap::new(),
        made: HashMap::new(),
    };
    for at in 0..code.len() {
        builder.micro(at)?;
    }
    builder.end_piece(None);
    Some(builder.all)
}

impl Builder<'_> {
    fn push(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        self.nodes.len() as Value - 1
    }

    /// An instruction of vectors that makes a vector.
    pub(super) fn make(
        &mut self,
        mnemonic: Mnemonic,
        second: Option<Value>,
        last: Operand,
        immediate: u8,
    ) -> Value {
        self.push(Node {
            mnemonic,
            makes: Makes::Vector,
            first: None,
            second,
            last,
            mask: None,
            immediate,
        })
    }

    pub(super) fn one(&mut self, mnemonic: Mnemonic, x: Value) -> Value {
        self.make(mnemonic, None, Operand::Value(x), 0)
    }

    pub(super) fn two(&mut self, mnemonic: Mnemonic, x: Value, y: Value) -> Value {
        self.make(mnemonic, Some(x), Operand::Value(y), 0)
    }

    pub(super) fn make_mask(
        &mut self,
        mnemonic: Mnemonic,
        x: Value,
        y: Value,
        predicate: u8,
    ) -> Value {
        let made = self.make(mnemonic, Some(x), Operand::Value(y), predicate);
        self.nodes[made as usize].makes = Makes::Mask;
        made
    }

    /// `mask ? on_true : on_false`.
    pub(super) fn select(&mut self, mask: Value, on_true: Value, on_false: Value) -> Value {
        let made = self.two(Mnemonic::Blend, on_false, on_true);
        self.nodes[made as usize].mask = Some(mask);
        made
    }

    /// `mask ? x : 0`.
    pub(super) fn keep(&mut self, mask: Value, x: Value) -> Value {
        let made = self.one(Mnemonic::Move, x);
        self.mask_lanes(made, mask);
        made
    }

    /// Makes zeros of the lanes of a value that are not of a mask; nothing is computed there.
    pub(super) fn mask_lanes(&mut self, made: Value, mask: Value) {
        self.nodes[made as usize].mask = Some(mask);
    }

    /// `x * by + plus`, rounded once.
    pub(super) fn fused_multiply_add(&mut self, x: Value, by: Value, plus: Value) -> Value {
        let made = self.two(Mnemonic::MultiplyAdd213, by, plus);
        self.nodes[made as usize].first = Some(x);
        made
    }

    /// A constant in every lane.
    pub(super) fn constant(&mut self, bits: u64) -> Value {
        let bits = if self.is_wide {
            bits
        } else {
            bits & u64::from(u32::MAX)
        };
        let known = self.all.constants.iter().position(|&other| other == bits);
        let number = known.unwrap_or_else(|| {
            self.all.constants.push(bits);
            self.all.constants.len() - 1
        });
        self.once(Mnemonic::Broadcast, Operand::Constant(number))
    }

    pub(super) fn number(&mut self, x: f32) -> Value {
        self.constant(u64::from(x.to_bits()))
    }

    /// A constant, or a load of memory outside, made once for a piece. Results are stored after everything outside is read,
    /// so that a load never sees one.
    fn once(&mut self, mnemonic: Mnemonic, last: Operand) -> Value {
        match self.made.get(&(mnemonic, last)) {
            Some(&value) => value,
            None => {
                let value = self.make(mnemonic, None, last, 0);
                self.made.insert((mnemonic, last), value);
                value
            }
        }
    }

    fn lanes(&self) -> u8 {
        if self.is_wide { 8 } else { 16 }
    }

    /// A vector of elements of that many bytes at an address.
    fn memory(&self, address: u16, size: u8) -> MemoryOperand {
        MemoryOperand {
            address,
            bytes: size * self.lanes(),
        }
    }

    fn own_size(&self) -> u8 {
        if self.is_wide { 8 } else { 4 }
    }

    /// The value at an address: what is known to be there, or else what is loaded.
    fn value(&mut self, address: u16) -> Value {
        let last = Operand::Memory(self.memory(address, self.own_size()));
        if address >= self.locals {
            return self.once(Mnemonic::Move, last);
        }
        match self.held.get(&address) {
            Some(&value) => value,
            None => {
                let value = self.make(Mnemonic::Move, None, last, 0);
                self.held.insert(address, value);
                value
            }
        }
    }

    /// The mask at an address. Masks lie as far apart as vectors: an address may hold a mask and then a vector, and the
    /// vectors of a block are computed one after the other.
    fn mask(&mut self, address: u16) -> Value {
        if let Some(&value) = self.held.get(&address) {
            return value;
        }
        let last = Operand::Memory(self.memory(address, self.own_size()));
        let value = self.make(Mnemonic::MaskLoad, None, last, 0);
        self.nodes[value as usize].makes = Makes::Mask;
        self.held.insert(address, value);
        value
    }

    /// What the code at `at` leaves at an address of the bytecode's own; in memory where a later piece reads it.
    fn hold(&mut self, at: usize, address: u16, value: Value) {
        self.held.insert(address, value);
        if self.is_read_behind_a_call(at, address) {
            let is_mask = self.nodes[value as usize].makes == Makes::Mask;
            let mnemonic = match is_mask {
                true => Mnemonic::MaskStore,
                false => Mnemonic::Store,
            };
            self.store(mnemonic, self.memory(address, self.own_size()), value);
        }
    }

    fn store(&mut self, mnemonic: Mnemonic, to: MemoryOperand, value: Value) {
        self.push(Node {
            mnemonic,
            makes: Makes::Nothing,
            first: Some(value),
            second: None,
            last: Operand::Memory(to),
            mask: None,
            immediate: 0,
        });
    }

    /// Whether a call, or what comes behind one, reads an address before it is written again.
    fn is_read_behind_a_call(&self, at: usize, address: u16) -> bool {
        let mut is_behind = false;
        for micro in &self.code[at + 1..] {
            let is_call = micro.code == Code::Call;
            let (reads, write) = accesses(micro);
            if (is_behind || is_call) && reads.contains(&Some(address)) {
                return true;
            }
            if write == Some(address) {
                return false;
            }
            is_behind |= is_call;
        }
        false
    }

    fn end_piece(&mut self, call: Option<Call>) {
        self.held.clear();
        self.made.clear();
        self.doubles.clear();
        self.accumulator = None;
        let nodes = std::mem::take(&mut self.nodes);
        self.all.pieces.push(Piece { nodes, call });
    }

    /// Adds the instructions of a code.
    fn micro(&mut self, at: usize) -> Option<()> {
        let micro = &self.code[at];
        let loaded = match micro.code {
            Code::Load => Some(self.value(micro.a)),
            Code::LoadBf16 => {
                let last = Operand::Memory(self.memory(micro.a, 2));
                let wide = self.make(Mnemonic::Widen, None, last, 0);
                let by = self.constant(16);
                Some(self.two(Mnemonic::ShiftLeft, wide, by))
            }
            Code::LoadF16 => {
                let last = Operand::Memory(self.memory(micro.a, 2));
                Some(self.make(Mnemonic::WidenFloat, None, last, 0))
            }
            Code::LoadSingle => {
                let last = Operand::Memory(self.memory(micro.a, 0));
                Some(self.once(Mnemonic::Broadcast, last))
            }
            Code::LoadConstant => Some(self.constant(micro.bits)),
            Code::Call => {
                self.end_piece(Some(Call {
                    number: micro.c,
                    from: micro.a,
                    to: micro.b,
                }));
                Some(self.value(micro.b))
            }
            _ => None,
        };
        if let Some(loaded) = loaded {
            self.accumulator = Some(loaded);
            return Some(());
        }
        if self.mask_code(at).is_some() {
            return Some(());
        }
        let acc = self.accumulator?;
        match micro.code {
            Code::Store if micro.a < self.locals => self.hold(at, micro.a, acc),
            Code::Store => {
                let to = self.memory(micro.a, self.own_size());
                self.store(Mnemonic::Store, to, acc);
            }
            Code::StoreBf16 => {
                let by = self.constant(16);
                let high = self.two(Mnemonic::ShiftRight, acc, by);
                self.store(Mnemonic::Narrow, self.memory(micro.a, 2), high);
            }
            Code::StoreF16 => {
                self.store(Mnemonic::NarrowFloat, self.memory(micro.a, 2), acc);
                self.nodes.last_mut()?.immediate = NEAREST;
            }
            Code::Mix | Code::MixC | Code::MixRotateC => {
                let other = self.value(micro.a);
                let turned = self.turned(micro, acc);
                let sum = self.two(Mnemonic::IntAdd, other, acc);
                self.hold(at, micro.b, sum);
                self.accumulator = Some(self.two(Mnemonic::Xor, turned, sum));
            }
            code => {
                if let Some(((mnemonic, predicate), other)) = comparison(code) {
                    let other = self.other(micro, other);
                    let mask = self.make_mask(mnemonic, acc, other, predicate);
                    self.hold(at, micro.b, mask);
                    return Some(());
                }
                self.accumulator = Some(self.computed(micro, acc)?);
            }
        }
        Some(())
    }

    /// The instructions of a code that reads masks only, or truth bytes.
    fn mask_code(&mut self, at: usize) -> Option<()> {
        let micro = &self.code[at];
        match micro.code {
            Code::LoadMask => {
                let last = Operand::Memory(self.memory(micro.a, 1));
                let bytes = self.make(Mnemonic::LoadBytes, None, last, 0);
                let mask = self.make_mask(Mnemonic::TestBytes, bytes, bytes, 0);
                self.hold(at, micro.b, mask);
            }
            Code::StoreMask => {
                let mask = self.mask(micro.b);
                let ones = self.constant(0x0101_0101_0101_0101);
                let bytes = self.one(Mnemonic::SetBytes, ones);
                self.nodes[bytes as usize].mask = Some(mask);
                self.store(Mnemonic::StoreBytes, self.memory(micro.a, 1), bytes);
            }
            Code::MaskAnd | Code::MaskOr | Code::MaskXor => {
                let mnemonic = match micro.code {
                    Code::MaskAnd => Mnemonic::MaskAnd,
                    Code::MaskOr => Mnemonic::MaskOr,
                    _ => Mnemonic::MaskXor,
                };
                let (x, y) = (self.mask(micro.a), self.mask(micro.b));
                let made = self.make_mask(mnemonic, x, y, 0);
                self.hold(at, micro.c, made);
            }
            Code::MaskNot => {
                let x = self.mask(micro.a);
                let made = self.one(Mnemonic::MaskNot, x);
                self.nodes[made as usize].makes = Makes::Mask;
                self.hold(at, micro.c, made);
            }
            _ => return None,
        }
        Some(())
    }

    fn other(&mut self, micro: &Micro, other: Other) -> Value {
        match other {
            Other::Value => self.value(micro.a),
            Other::Constant => self.constant(micro.bits),
        }
    }

    /// The accumulator after a code that changes nothing else.
    fn computed(&mut self, micro: &Micro, acc: Value) -> Option<Value> {
        if let Some(((mnemonic, is_left), other)) = one_instruction(micro.code) {
            let other = self.other(micro, other);
            return Some(match (mnemonic, is_left) {
                (Mnemonic::Multiply, _) => self.product(acc, other),
                (_, true) => self.two(mnemonic, other, acc),
                (_, false) => self.two(mnemonic, acc, other),
            });
        }
        Some(match micro.code {
            Code::Max | Code::MaxC => {
                let other = self.other_of(micro, micro.code == Code::Max);
                self.extremum(Mnemonic::Larger, Mnemonic::And, acc, other)
            }
            Code::Min | Code::MinC => {
                let other = self.other_of(micro, micro.code == Code::Min);
                self.extremum(Mnemonic::Smaller, Mnemonic::Or, acc, other)
            }
            Code::AtLeastC => self.bounded(acc, micro.bits, predicate::LESS_OR_EQUAL),
            Code::AtMostC => self.bounded(acc, micro.bits, predicate::GREATER_OR_EQUAL),
            Code::Bounds => {
                let low = self.bounded(acc, micro.bits, predicate::LESS_OR_EQUAL);
                self.bounded(low, micro.more, predicate::GREATER_OR_EQUAL)
            }
            Code::MulAdd | Code::MulAddC | Code::ScaleAdd | Code::ScaleAddC => {
                let by = self.other_of(micro, matches!(micro.code, Code::MulAdd | Code::MulAddC));
                let product = self.product(acc, by);
                let plus = match micro.code {
                    Code::MulAdd => self.value(micro.b),
                    Code::MulAddC => self.constant(micro.bits),
                    Code::ScaleAdd => self.value(micro.a),
                    _ => self.constant(micro.more),
                };
                self.two(Mnemonic::Add, product, plus)
            }
            Code::Select | Code::RSelect | Code::SelectC | Code::RSelectC => {
                self.selected(micro, acc)
            }
            Code::Turn | Code::TurnC => self.turned(micro, acc),
            _ => return self.unary(micro.code, acc),
        })
    }

    /// The value a code names, or its first constant.
    fn other_of(&mut self, micro: &Micro, is_value: bool) -> Value {
        self.other(
            micro,
            if is_value {
                Other::Value
            } else {
                Other::Constant
            },
        )
    }

    fn unary(&mut self, code: Code, x: Value) -> Option<Value> {
        let sign = if self.is_wide { 1 << 63 } else { 1 << 31 };
        Some(match code {
            Code::Square => self.product(x, x),
            Code::Neg => {
                let sign = self.constant(sign);
                self.two(Mnemonic::Xor, x, sign)
            }
            Code::Abs => {
                let rest = self.constant(sign - 1);
                self.two(Mnemonic::And, x, rest)
            }
            Code::Sqrt => self.one(Mnemonic::SquareRoot, x),
            Code::Floor => self.make(Mnemonic::Round, None, Operand::Value(x), DOWN),
            Code::Ceil => self.make(Mnemonic::Round, None, Operand::Value(x), UP),
            Code::RoundEven => self.make(Mnemonic::Round, None, Operand::Value(x), NEAREST),
            Code::Exp if !self.is_wide => self.exponential(x),
            Code::RoundBf16 => self.rounded_bf16(x),
            Code::RoundF16 => {
                let half = self.make(Mnemonic::NarrowFloat, None, Operand::Value(x), NEAREST);
                self.one(Mnemonic::WidenFloat, half)
            }
            Code::IntToFloat => self.one(Mnemonic::IntToFloat, x),
            Code::FloatToInt if !self.is_wide => self.truncated(x),
            Code::TotalKey => {
                let last_bit = self.constant(if self.is_wide { 63 } else { 31 });
                let one = self.constant(1);
                let sign = self.two(Mnemonic::ShiftRightSigned, x, last_bit);
                let rest = self.two(Mnemonic::ShiftRight, sign, one);
                self.two(Mnemonic::Xor, x, rest)
            }
            _ => return None,
        })
    }

    fn selected(&mut self, micro: &Micro, acc: Value) -> Value {
        let chosen = self.mask(micro.b);
        match micro.code {
            Code::SelectC if micro.bits == 0 => self.keep(chosen, acc),
            Code::Select | Code::SelectC => {
                let other = self.other_of(micro, micro.code == Code::Select);
                self.select(chosen, acc, other)
            }
            _ => {
                let other = self.other_of(micro, micro.code == Code::RSelect);
                self.select(chosen, other, acc)
            }
        }
    }

    /// What a code that turns makes of the accumulator, before it mixes.
    fn turned(&mut self, micro: &Micro, acc: Value) -> Value {
        let [left, right] = micro.pair();
        let [left, right] = match micro.code {
            Code::MixRotateC => {
                let by = self.constant(micro.bits);
                return self.two(Mnemonic::RotateLeft, acc, by);
            }
            Code::Turn | Code::Mix => [self.value(left), self.value(right)],
            _ => [left, right].map(|by| self.constant(by.into())),
        };
        let up = self.two(Mnemonic::ShiftLeft, acc, left);
        let down = self.two(Mnemonic::ShiftRight, acc, right);
        self.two(Mnemonic::Or, up, down)
    }
}

/// Immediates of the instructions that round: to nearest even, down, up.
const NEAREST: u8 = 8;
const DOWN: u8 = 9;
const UP: u8 = 10;
