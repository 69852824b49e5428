//! Operations of many instructions.
//!
//! In: values. Out: values. Promise: the bits of the interpreter ([`super::super::vector`]).

use super::codes::predicate;
use super::instructions::Mnemonic;
use super::values::{Builder, Operand, Value};
use crate::math::exp::constants as exp;
use crate::subnormal;

impl Builder<'_> {
    /// A product of floats, in `f64` where the code is to be so, with the same bits: see [`subnormal`].
    pub(super) fn product(&mut self, x: Value, y: Value) -> Value {
        self.all.has_products = true;
        if !self.by_double {
            return self.two(Mnemonic::Multiply, x, y);
        }
        let (x, y) = (self.doubles(x), self.doubles(y));
        let [low, high] = [0, 1].map(|half| {
            let product = self.two(Mnemonic::MultiplyDouble, x[half], y[half]);
            self.one(Mnemonic::FromDouble, product)
        });
        self.make(Mnemonic::JoinHalves, Some(low), Operand::Value(high), 1)
    }

    /// The two halves of a vector as `f64`.
    fn doubles(&mut self, x: Value) -> [Value; 2] {
        /// The two upper quarters, twice.
        const UPPER: u8 = 0xee;
        if let Some(&known) = self.doubles.get(&x) {
            return known;
        }
        let low = self.one(Mnemonic::ToDouble, x);
        let high = match self.nodes[x as usize].mnemonic == Mnemonic::Broadcast {
            true => low,
            false => {
                let upper = self.make(Mnemonic::HighHalf, Some(x), Operand::Value(x), UPPER);
                self.one(Mnemonic::ToDouble, upper)
            }
        };
        self.doubles.insert(x, [low, high]);
        [low, high]
    }

    /// The larger or smaller one by the CPU's instruction, with NaN first and zeros in order: where one is NaN, or both are
    /// zeros, the instruction takes the second operand.
    pub(super) fn extremum(
        &mut self,
        pick: Mnemonic,
        of_zeros: Mnemonic,
        x: Value,
        y: Value,
    ) -> Value {
        let picked = self.two(pick, x, y);
        let zeros = self.two(of_zeros, x, y);
        let equal = self.make_mask(Mnemonic::Compare, x, y, predicate::EQUAL);
        let ordered = self.select(equal, zeros, picked);
        let is_nan = self.make_mask(Mnemonic::Compare, x, x, predicate::UNORDERED);
        self.select(is_nan, x, ordered)
    }

    /// The bound where the predicate holds, else the value.
    pub(super) fn bounded(&mut self, x: Value, bits: u64, predicate: u8) -> Value {
        let bound = self.constant(bits);
        let is_beyond = self.make_mask(Mnemonic::Compare, x, bound, predicate);
        self.select(is_beyond, bound, x)
    }

    /// To `s32`: truncated, saturated, NaN to zero. The instruction gives the least integer for all that do not fit, and for NaN.
    pub(super) fn truncated(&mut self, x: Value) -> Value {
        let whole = self.one(Mnemonic::FloatToInt, x);
        let (limit, most) = (self.number(2_147_483_648.0), self.constant(0x7fff_ffff));
        let is_beyond = self.make_mask(Mnemonic::Compare, x, limit, predicate::GREATER_OR_EQUAL);
        let bounded = self.select(is_beyond, most, whole);
        let is_number = self.make_mask(Mnemonic::Compare, x, x, predicate::EQUAL);
        self.keep(is_number, bounded)
    }

    pub(super) fn rounded_bf16(&mut self, x: Value) -> Value {
        let (by, one, below_half) = (self.constant(16), self.constant(1), self.constant(0x7fff));
        let high = self.two(Mnemonic::ShiftRight, x, by);
        let odd = self.two(Mnemonic::And, high, one);
        let more = self.two(Mnemonic::IntAdd, odd, below_half);
        let rounded = self.two(Mnemonic::IntAdd, x, more);
        let quiet = self.constant(0x40_0000);
        let nan = self.two(Mnemonic::Or, x, quiet);
        let is_nan = self.make_mask(Mnemonic::Compare, x, x, predicate::UNORDERED);
        let bits = self.select(is_nan, nan, rounded);
        let kept = self.constant(0xffff_0000);
        self.two(Mnemonic::And, bits, kept)
    }

    /// e^x by the formula of [`crate::math::exp`].
    pub(super) fn exponential(&mut self, x: Value) -> Value {
        let (most, least) = (self.number(exp::MOST), self.number(exp::LEAST));
        // Of a NaN and a number the instruction takes the second operand.
        let below = self.two(Mnemonic::Smaller, most, x);
        let is_not_low = self.make_mask(Mnemonic::Compare, x, least, predicate::NOT_LESS);
        let inside = self.keep(is_not_low, below);
        let (log2_e, round) = (self.number(exp::LOG2_E), self.number(exp::ROUND));
        let shifted = self.fused_multiply_add(inside, log2_e, round);
        let whole = self.two(Mnemonic::Subtract, shifted, round);
        let (high, low) = (self.number(-exp::LN2_HI), self.number(-exp::LN2_LO));
        let rest = self.fused_multiply_add(whole, high, inside);
        let rest = self.fused_multiply_add(whole, low, rest);
        let mut tail = self.number(exp::EXP_TAIL[0]);
        for coefficient in &exp::EXP_TAIL[1..] {
            let plus = self.number(*coefficient);
            tail = self.fused_multiply_add(tail, rest, plus);
        }
        let square = self.two(Mnemonic::Multiply, rest, rest);
        let y = self.fused_multiply_add(tail, square, rest);
        let one = self.number(1.0);
        let y = self.two(Mnemonic::Add, y, one);
        let scaled = match subnormal::are_slow() {
            true => self.scaled_apart(y, whole, shifted),
            false => self.two(Mnemonic::Scale, y, whole),
        };
        self.keep(is_not_low, scaled)
    }

    /// `y * 2^whole` without a product that underflows; see [`crate::math::exp`].
    fn scaled_apart(&mut self, y: Value, whole: Value, shifted: Value) -> Value {
        let (one, by) = (self.constant(exp::EXPONENT_ONE.into()), self.constant(23));
        let above = self.two(Mnemonic::ShiftLeft, shifted, by);
        let power = self.two(Mnemonic::IntSubtract, one, above);
        let is_normal = self.make_mask(Mnemonic::Compare, y, power, predicate::NOT_LESS);
        let sum = self.two(Mnemonic::Add, y, power);
        let small = self.two(Mnemonic::IntSubtract, sum, power);
        let product = self.two(Mnemonic::Scale, y, whole);
        self.mask_lanes(product, is_normal);
        self.select(is_normal, product, small)
    }
}
