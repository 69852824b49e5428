//! Puts the code of vector bytecode together.
//!
//! In: steps over values. Out: [`Micro`]s. Promise: what vector bytecode writes outside itself it writes after it has read
//! everything, so that a result may take the place of an operand.

use super::code::{
    Code, Micro, Pair, binary, compare, constant, direct, direct_constant, joined, one,
    one_comparison, pair, total_key, two_way,
};
use super::fuse::{Act, Mix, Turn, acts, distance};
use super::{Operand, Step, is_half};
use crate::ops::{BinaryOp, CompareDirection, UnaryOp};
use crate::table::{Unary, unary_on};
use crate::{DType, Isa};

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Not made yet, or needed no more.
    Nowhere,
    Accumulator,
    /// In an address of its own, inside or outside the bytecode.
    Memory(u16),
    /// Outside, in a form that has to be brought in.
    Outside(u16),
}

/// Puts the code together.
pub(super) struct Compiler<'s> {
    isa: Isa,
    steps: &'s [Step],
    inputs: &'s [DType],
    outputs: &'s [u32],
    /// Type of every value: inputs, then results of steps.
    types: Vec<DType>,
    places: Vec<Place>,
    /// Reads that are left.
    uses: Vec<u32>,
    /// The value the accumulator holds.
    held: Option<u32>,
    code: Vec<Micro>,
    calls: Vec<Unary>,
    /// Addresses of the bytecode's own: which are free.
    free: Vec<u16>,
    locals: u16,
}

/// Code, calls, and how many addresses the bytecode has of its own; those outside come after them.
pub(super) struct Compiled {
    pub(super) code: Vec<Micro>,
    pub(super) calls: Vec<Unary>,
    pub(super) locals: usize,
}

impl Compiled {
    /// What moving values between the accumulator and memory takes, a store about as long as two loads; then how many
    /// operations there are.
    pub(super) fn cost(&self) -> (usize, usize) {
        let moves = self.code.iter().map(|micro| match micro.code {
            Code::Load => 1,
            Code::Store => 2,
            _ => 0,
        });
        (moves.sum(), self.code.len())
    }
}

/// Addresses from here on are those outside, until all local ones are known.
const OUTSIDE: u16 = 1 << 15;

impl<'s> Compiler<'s> {
    pub(super) fn new(
        isa: Isa,
        inputs: &'s [DType],
        is_single: &'s [bool],
        steps: &'s [Step],
        outputs: &'s [u32],
    ) -> Compiler<'s> {
        let mut types = inputs.to_vec();
        types.extend(steps.iter().map(|step| step.to));
        let mut uses = vec![0; types.len()];
        for step in steps {
            for value in step.values() {
                uses[value as usize] += 1;
            }
        }
        for &value in outputs {
            uses[value as usize] += 1;
        }
        let mut places = vec![Place::Nowhere; types.len()];
        for (at, &dtype) in inputs.iter().enumerate() {
            let address = OUTSIDE + at as u16;
            places[at] = match dtype {
                _ if is_single.get(at) == Some(&true) => Place::Outside(address),
                _ if is_half(dtype) || dtype == DType::Pred => Place::Outside(address),
                _ => Place::Memory(address),
            };
        }
        Compiler {
            isa,
            steps,
            inputs,
            outputs,
            types,
            places,
            uses,
            held: None,
            code: Vec::new(),
            calls: Vec::new(),
            free: Vec::new(),
            locals: 0,
        }
    }

    /// The code, or `None` where a step is beyond what vector bytecode does.
    pub(super) fn compile(mut self) -> Option<Compiled> {
        let acts = acts(self.steps, &self.uses, self.inputs.len());
        for (at, act) in acts.into_iter().enumerate() {
            let result = (self.inputs.len() + at) as u32;
            match act {
                Act::Step => self.step(at)?,
                Act::Skip => {}
                Act::Turn(turn) => self.turn(turn, None, result),
                Act::Mix(mix) => self.turn(mix.turn, Some(mix), result),
            }
        }
        self.store_outputs();
        let locals = self.locals;
        let place = |address: u16| match address {
            outside if outside >= OUTSIDE => outside - OUTSIDE + locals,
            local => local,
        };
        for micro in &mut self.code {
            micro.a = place(micro.a);
            micro.b = place(micro.b);
            if matches!(micro.code, Code::Turn | Code::Mix) {
                micro.bits = pair(micro.pair().map(place));
            }
        }
        Some(Compiled {
            code: self.code,
            calls: self.calls,
            locals: usize::from(locals),
        })
    }

    fn emit(&mut self, code: Code, a: u16, b: u16, c: u16, bits: u64) {
        let micro = Micro {
            code,
            a,
            b,
            c,
            bits,
            more: 0,
        };
        // Neighbours may be joined: a result that is read again is stored first, and that of a narrow float rounded, so that
        // another code stands between.
        match self.code.last_mut() {
            Some(last) if let Some(both) = joined(last, &micro) => *last = both,
            _ => self.code.push(micro),
        }
    }

    fn local(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            self.locals += 1;
            self.locals - 1
        })
    }

    /// Makes room in the accumulator; a value that is still needed and nowhere else moves to memory.
    fn vacate(&mut self) {
        if let Some(value) = self.held.take()
            && self.places[value as usize] == Place::Accumulator
        {
            self.places[value as usize] = match self.uses[value as usize] {
                0 => Place::Nowhere,
                _ => Place::Memory(self.store()),
            };
        }
    }

    /// Copies the accumulator into memory of the bytecode's own.
    fn store(&mut self) -> u16 {
        let to = self.local();
        self.emit(Code::Store, to, 0, 0, 0);
        to
    }

    /// Counts one read; memory of the bytecode's own that is read no more becomes free.
    fn used(&mut self, value: u32) {
        let uses = &mut self.uses[value as usize];
        *uses -= 1;
        if *uses == 0
            && let Place::Memory(at) = self.places[value as usize]
            && at < OUTSIDE
        {
            self.free.push(at);
            self.places[value as usize] = Place::Nowhere;
        }
    }

    /// Brings `value` into memory that codes can read.
    fn in_memory(&mut self, value: u32) -> u16 {
        match self.places[value as usize] {
            Place::Memory(at) => at,
            Place::Outside(at) if self.types[value as usize] == DType::Pred => {
                let to = self.local();
                self.emit(Code::LoadMask, at, to, 0, 0);
                self.places[value as usize] = Place::Memory(to);
                to
            }
            Place::Outside(_) => {
                self.load(value);
                self.in_memory(value)
            }
            // `Nowhere` cannot be: a value is read only while uses are left.
            Place::Accumulator | Place::Nowhere => {
                let to = self.store();
                self.places[value as usize] = Place::Memory(to);
                to
            }
        }
    }

    /// Brings `value` into the accumulator.
    fn load(&mut self, value: u32) {
        if self.held == Some(value) {
            return;
        }
        self.vacate();
        match self.places[value as usize] {
            Place::Memory(at) => self.emit(Code::Load, at, 0, 0, 0),
            Place::Outside(at) => {
                let code = match self.types[value as usize] {
                    DType::BF16 => Code::LoadBf16,
                    DType::F16 => Code::LoadF16,
                    _ => Code::LoadSingle,
                };
                self.emit(code, at, 0, 0, 0);
                self.places[value as usize] = Place::Accumulator;
            }
            Place::Accumulator | Place::Nowhere => {}
        }
        self.held = Some(value);
    }

    fn load_operand(&mut self, operand: Operand, dtype: DType) {
        match operand {
            Operand::Value(value) => {
                self.load(value);
                self.used(value);
            }
            Operand::Constant(bytes) => {
                self.vacate();
                self.emit(Code::LoadConstant, 0, 0, 0, constant(bytes, dtype));
            }
        }
    }

    /// Whether `value` is loaded before `other`: the accumulator holds it already, or it has to be loaded, and `other` can be
    /// read from memory.
    fn comes_first(&self, value: u32, other: u32) -> bool {
        let is_outside = |value: u32| matches!(self.places[value as usize], Place::Outside(_));
        let has_to_be_loaded = is_outside(value) && !is_outside(other) && self.held != Some(other);
        value != other && (self.held == Some(value) || has_to_be_loaded)
    }

    /// Leaves both operands of `pair` where its codes want them; returns code, address and bits. Unless the code
    /// `keeps` the accumulator, what that holds is saved if it is still needed.
    fn operands(
        &mut self,
        pair: Pair,
        left: Operand,
        right: Operand,
        dtype: DType,
        keeps: bool,
    ) -> (Code, u16, u64) {
        let (code, at, bits, last) = match (left, right, pair.reverse) {
            (_, Operand::Constant(bytes), _) => {
                self.load_operand(left, dtype);
                (pair.constant, 0, constant(bytes, dtype), None)
            }
            (Operand::Constant(bytes), _, Some((_, code))) => {
                self.load_operand(right, dtype);
                (code, 0, constant(bytes, dtype), None)
            }
            (Operand::Constant(_), Operand::Value(y), None) => {
                let at = self.in_memory(y);
                self.load_operand(left, dtype);
                (pair.value, at, 0, Some(y))
            }
            (Operand::Value(x), Operand::Value(y), reverse) => {
                let (first, second, code) = match reverse {
                    Some((code, _)) if self.comes_first(y, x) => (y, x, code),
                    _ => (x, y, pair.value),
                };
                let at = self.in_memory(second);
                self.load(first);
                self.used(first);
                (code, at, 0, Some(second))
            }
        };
        // Memory of the second operand becomes free only when nothing can be put there before it is read.
        if !keeps {
            self.vacate();
        }
        if let Some(second) = last {
            self.used(second);
        }
        (code, at, bits)
    }

    /// Emits one step; `None` where vectors cannot do it.
    fn step(&mut self, at: usize) -> Option<()> {
        let step = &self.steps[at];
        let result = (self.inputs.len() + at) as u32;
        let is_mask = match step.op {
            super::Op::Unary(UnaryOp::Not) | super::Op::Binary(_) => step.from == DType::Pred,
            super::Op::Compare(_) | super::Op::CompareTotal(_) => true,
            _ => false,
        };
        if is_mask {
            let to = self.mask_step(step)?;
            self.places[result as usize] = Place::Memory(to);
            return Some(());
        }
        self.accumulator_step(step)?;
        // A narrow float is kept as the `f32` it rounds to.
        match step.to {
            _ if matches!(step.op, super::Op::Select | super::Op::Clamp) => {}
            DType::BF16 => self.emit(Code::RoundBf16, 0, 0, 0, 0),
            DType::F16 => self.emit(Code::RoundF16, 0, 0, 0, 0),
            _ => {}
        }
        self.places[result as usize] = Place::Accumulator;
        self.held = Some(result);
        Some(())
    }

    /// Emits a step that makes a mask; returns where it is.
    fn mask_step(&mut self, step: &Step) -> Option<u16> {
        let [x, y, _] = step.operands;
        if let super::Op::Compare(direction) = step.op {
            let pair = compare(direction, step.from);
            // The mask must not take the place of an operand that is read by the same code.
            let to = self.local();
            let (code, a, bits) = self.operands(pair, x, y, step.from, true);
            self.emit(code, a, to, 0, bits);
            return Some(to);
        }
        if let super::Op::CompareTotal(direction) = step.op {
            return Some(self.compare_total(direction, x, y, step.from));
        }
        let (code, x, y) = match step.op {
            super::Op::Binary(op) => {
                let code = match op {
                    BinaryOp::And => Code::MaskAnd,
                    BinaryOp::Or => Code::MaskOr,
                    _ => Code::MaskXor,
                };
                (code, self.mask(x)?, self.mask(y)?)
            }
            _ => (Code::MaskNot, self.mask(x)?, 0),
        };
        let to = self.local();
        self.emit(code, x, y, to, 0);
        self.masks_used(step);
        Some(to)
    }

    /// Compares two floats by the total order, as signed integers; returns where the mask is.
    fn compare_total(
        &mut self,
        direction: CompareDirection,
        x: Operand,
        y: Operand,
        dtype: DType,
    ) -> u16 {
        let integer = match dtype {
            DType::F64 => DType::S64,
            _ => DType::S32,
        };
        let pair = compare(direction, integer);
        let (code, at, bits) = match y {
            Operand::Value(_) => {
                self.load_key(y, dtype);
                (pair.value, self.store(), 0)
            }
            Operand::Constant(bytes) => {
                (pair.constant, 0, total_key(constant(bytes, dtype), dtype))
            }
        };
        self.load_key(x, dtype);
        let to = self.local();
        self.emit(code, at, to, 0, bits);
        if let Operand::Value(_) = y {
            self.free.push(at);
        }
        to
    }

    /// Leaves in the accumulator what the total order compares of a float.
    fn load_key(&mut self, operand: Operand, dtype: DType) {
        self.load_operand(operand, dtype);
        self.vacate();
        self.emit(Code::TotalKey, 0, 0, 0, 0);
    }

    /// Emits a step that leaves its result in the accumulator, before it is rounded.
    fn accumulator_step(&mut self, step: &Step) -> Option<()> {
        let [x, y, z] = step.operands;
        match step.op {
            super::Op::Unary(op) => self.unary(op, x, step.from)?,
            super::Op::Binary(BinaryOp::Multiply)
                if step.from.is_float() && x == y && matches!(x, Operand::Value(_)) =>
            {
                self.load_operand(x, step.from);
                if let Operand::Value(x) = x {
                    self.used(x);
                }
                self.vacate();
                self.emit(Code::Square, 0, 0, 0, 0);
            }
            super::Op::Binary(op) => {
                let pair = binary(op, step.from)?;
                let (code, a, bits) = self.operands(pair, x, y, step.from, false);
                self.emit(one_comparison(code, bits, step.from), a, 0, 0, bits);
            }
            super::Op::Clamp => {
                // `clamp(low, x, high)` is `min(max(x, low), high)`.
                if let Operand::Value(high) = z {
                    self.in_memory(high);
                }
                let max = binary(BinaryOp::Maximum, step.from)?;
                let (code, a, bits) = self.operands(max, y, x, step.from, false);
                self.emit(one_comparison(code, bits, step.from), a, 0, 0, bits);
                let min = binary(BinaryOp::Minimum, step.from)?;
                match z {
                    Operand::Constant(bytes) => {
                        let bits = constant(bytes, step.from);
                        self.emit(one_comparison(min.constant, bits, step.from), 0, 0, 0, bits);
                    }
                    Operand::Value(high) => {
                        let at = self.in_memory(high);
                        self.emit(min.value, at, 0, 0, 0);
                        self.used(high);
                    }
                }
            }
            super::Op::Select => {
                let Operand::Value(mask) = x else { return None };
                let at = self.in_memory(mask);
                let pair = two_way(Code::Select, Code::SelectC, Code::RSelect, Code::RSelectC);
                let (code, a, bits) = self.operands(pair, y, z, step.to, false);
                self.emit(code, a, at, 0, bits);
                self.used(mask);
            }
            super::Op::Compare(_) | super::Op::CompareTotal(_) => {}
            super::Op::Convert if step.from == DType::Pred => {
                let mask = self.mask(x)?;
                self.vacate();
                let one = one(step.to);
                self.emit(Code::LoadConstant, 0, 0, 0, one);
                self.emit(Code::SelectC, 0, mask, 0, 0);
                self.masks_used(step);
            }
            super::Op::Convert | super::Op::Bitcast => {
                self.load_operand(x, step.from);
                self.vacate();
                match (step.op, step.from, step.to) {
                    (super::Op::Bitcast, ..) => {}
                    (_, DType::S32, DType::F32) | (_, DType::S64, DType::F64) => {
                        self.emit(Code::IntToFloat, 0, 0, 0, 0);
                    }
                    (_, DType::F32, DType::S32) => self.emit(Code::FloatToInt, 0, 0, 0, 0),
                    _ => {}
                }
            }
        }
        Some(())
    }

    /// A turn, or the mix it is part of.
    fn turn(&mut self, turn: Turn, mix: Option<Mix>, result: u32) {
        let other = mix.map(|mix| self.in_memory(mix.other));
        let distances = [turn.left, turn.right];
        let is_value = |operand: &Operand| matches!(operand, Operand::Value(_));
        let are_values = distances.iter().any(is_value);
        let mut own = None;
        let held = distances.map(|operand| match operand {
            Operand::Value(value) => self.in_memory(value),
            // A constant beside a value is put where values are.
            Operand::Constant(bytes) if are_values => {
                self.vacate();
                self.emit(Code::LoadConstant, 0, 0, 0, constant(bytes, DType::U32));
                *own.insert(self.store())
            }
            operand => distance(operand).unwrap_or(0),
        });
        self.load(turn.x);
        for _ in 0..2 + usize::from(mix.is_some()) {
            self.used(turn.x);
        }
        self.vacate();
        // The sum may take the place of a summand, but not that of a distance.
        let to = mix.map(|mix| {
            self.used(mix.other);
            let to = self.local();
            self.places[mix.sum as usize] = Place::Memory(to);
            self.used(mix.sum);
            to
        });
        for operand in distances {
            if let Operand::Value(value) = operand {
                self.used(value);
            }
        }
        self.free.extend(own);
        let bits = 8 * self.types[turn.x as usize].size_bytes();
        let is_rotation = !are_values && held.map(usize::from).iter().sum::<usize>() == bits;
        let (code, bits) = match (mix, are_values) {
            (None, true) => (Code::Turn, pair(held)),
            (None, false) if is_rotation => (Code::RotateC, u64::from(held[0])),
            (None, false) => (Code::TurnC, pair(held)),
            (Some(_), true) => (Code::Mix, pair(held)),
            (Some(_), false) if is_rotation => (Code::MixRotateC, u64::from(held[0])),
            (Some(_), false) => (Code::MixC, pair(held)),
        };
        self.emit(code, other.unwrap_or(0), to.unwrap_or(0), 0, bits);
        self.places[result as usize] = Place::Accumulator;
        self.held = Some(result);
    }

    fn unary(&mut self, op: UnaryOp, x: Operand, dtype: DType) -> Option<()> {
        if let Some(code) = direct(op, dtype) {
            self.load_operand(x, dtype);
            self.vacate();
            self.emit(code, 0, 0, 0, direct_constant(op));
            return Some(());
        }
        let wide = if is_half(dtype) { DType::F32 } else { dtype };
        let kernel = unary_on(self.isa, op, wide)?;
        let Operand::Value(x) = x else { return None };
        let from = self.in_memory(x);
        self.vacate();
        let to = self.local();
        let index = self.calls.len() as u16;
        self.calls.push(kernel);
        self.emit(Code::Call, from, to, index, 0);
        self.free.push(to);
        self.used(x);
        Some(())
    }

    /// The address of a truth value.
    fn mask(&mut self, operand: Operand) -> Option<u16> {
        match operand {
            Operand::Value(value) => Some(self.in_memory(value)),
            Operand::Constant(_) => None,
        }
    }

    fn masks_used(&mut self, step: &Step) {
        for value in step.values() {
            self.used(value);
        }
    }

    fn store_outputs(&mut self) {
        let outside = OUTSIDE + self.inputs.len() as u16;
        // The one in the accumulator goes first.
        let mut order: Vec<usize> = (0..self.outputs.len()).collect();
        order.sort_by_key(|&k| self.held != Some(self.outputs[k]));
        for k in order {
            let (value, to) = (self.outputs[k], outside + k as u16);
            let dtype = self.types[value as usize];
            if dtype == DType::Pred {
                let mask = self.in_memory(value);
                self.emit(Code::StoreMask, to, mask, 0, 0);
            } else {
                self.load(value);
                let code = match dtype {
                    DType::BF16 => Code::StoreBf16,
                    DType::F16 => Code::StoreF16,
                    _ => Code::Store,
                };
                self.emit(code, to, 0, 0, 0);
            }
            self.used(value);
        }
    }
}
