//! Operations of many instructions.
//!
//! In: values. Out: values. Promise: the bits of `float_to_int`, `round_bf16` and `exp` of [`super::super::vector`].

use super::codes::relation;
use super::instructions::Name;
use super::values::{Builder, Value};
use crate::math::exp::constants as exp;

impl Builder<'_> {
    /// To `s32`: truncated, saturated, NaN to zero. The instruction gives the least integer for all that do not fit, and for NaN.
    pub(super) fn truncated(&mut self, x: Value) -> Value {
        let whole = self.one(Name::FloatToInt, x);
        let (limit, most) = (self.number(2_147_483_648.0), self.constant(0x7fff_ffff));
        let is_beyond = self.compared(Name::Compare, x, limit, relation::GREATER_OR_EQUAL);
        let bounded = self.select(is_beyond, most, whole);
        let is_number = self.compared(Name::Compare, x, x, relation::EQUAL);
        self.keep(is_number, bounded)
    }

    pub(super) fn rounded_bf16(&mut self, x: Value) -> Value {
        let (by, one, below_half) = (self.constant(16), self.constant(1), self.constant(0x7fff));
        let high = self.two(Name::ShiftRight, x, by);
        let odd = self.two(Name::And, high, one);
        let more = self.two(Name::IntAdd, odd, below_half);
        let rounded = self.two(Name::IntAdd, x, more);
        let quiet = self.constant(0x40_0000);
        let nan = self.two(Name::Or, x, quiet);
        let is_nan = self.compared(Name::Compare, x, x, relation::UNORDERED);
        let bits = self.select(is_nan, nan, rounded);
        let kept = self.constant(0xffff_0000);
        self.two(Name::And, bits, kept)
    }

    /// e^x by the formula of [`crate::math::exp`].
    pub(super) fn exponential(&mut self, x: Value) -> Value {
        let (most, least) = (self.number(exp::MOST), self.number(exp::LEAST));
        // Of a NaN and a number the instruction takes the second operand.
        let below = self.two(Name::Smaller, most, x);
        let is_not_low = self.compared(Name::Compare, x, least, relation::NOT_LESS);
        let inside = self.keep(is_not_low, below);
        let (log2_e, round) = (self.number(exp::LOG2_E), self.number(exp::ROUND));
        let shifted = self.multiply_add(inside, log2_e, round);
        let whole = self.two(Name::Subtract, shifted, round);
        let (high, low) = (self.number(-exp::LN2_HI), self.number(-exp::LN2_LO));
        let rest = self.multiply_add(whole, high, inside);
        let rest = self.multiply_add(whole, low, rest);
        let mut tail = self.number(exp::EXP_TAIL[0]);
        for coefficient in &exp::EXP_TAIL[1..] {
            let plus = self.number(*coefficient);
            tail = self.multiply_add(tail, rest, plus);
        }
        let square = self.two(Name::Multiply, rest, rest);
        let y = self.multiply_add(tail, square, rest);
        let one = self.number(1.0);
        let y = self.two(Name::Add, y, one);
        let scaled = self.two(Name::Scale, y, whole);
        self.keep(is_not_low, scaled)
    }
}
