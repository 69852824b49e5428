//! Operations on blocks as instructions, and blocks put together and taken apart.
//!
//! Each operation gives every element the bits that [`super::elements`] gives it alone. Truth values of a
//! comparison are known as a mask as well, so that what selects by them need not make it again.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, ValueDef, types};
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, DType, UnaryOp};

use super::blocks::{BYTES, TRUTHS};
use super::emit::Emitter;
use super::registers::{Class, class};
use super::{floats, integers};
use crate::plan::thunk::scalar_bytecode::Element;

impl Emitter<'_> {
    /// The instructions of a block of elements. All operands have as many lanes as the result.
    pub(super) fn block(&mut self, element: &Element, x: [Value; 3]) -> Option<Value> {
        let Element { op, from, to, .. } = *element;
        Some(match (op, class(from)) {
            (Op::Select, _) => {
                let mask = self.mask(x[0]);
                self.choose(mask, x[1], x[2])
            }
            (Op::Compare(direction), of) => {
                let mask = match of {
                    Class::Float => self.b.ins().fcmp(floats::relation(direction), x[0], x[1]),
                    _ => self.b.ins().icmp(
                        integers::relation(direction, from.is_signed()),
                        x[0],
                        x[1],
                    ),
                };
                self.truths(mask)
            }
            (Op::Binary(op), Class::Pred) => self.of_truths(op, x[0], x[1])?,
            (Op::Unary(_), Class::Pred) => {
                let mask = self.mask(x[0]);
                let not = self.b.ins().bnot(mask);
                self.truths(not)
            }
            (Op::Binary(op), _) => self.binary(op, from, x[0], x[1])?,
            (Op::Unary(op), _) => self.unary(op, x[0])?,
            (Op::Clamp, _) => {
                let [low, value, high] = x;
                let at_least = self.binary(BinaryOp::Maximum, from, value, low)?;
                self.binary(BinaryOp::Minimum, from, at_least, high)?
            }
            (Op::Convert, of) => {
                let number = match of {
                    Class::Pred => {
                        let mask = self.mask(x[0]);
                        self.b.ins().ineg(mask)
                    }
                    _ => x[0],
                };
                match to {
                    DType::F32 => self.b.ins().fcvt_from_sint(types::F32X4, number),
                    _ => number,
                }
            }
            _ => return None,
        })
    }

    fn unary(&mut self, op: UnaryOp, x: Value) -> Option<Value> {
        let is_float = self.b.func.dfg.value_type(x).lane_type().is_float();
        let ins = self.b.ins();
        Some(match op {
            UnaryOp::Abs => ins.fabs(x),
            UnaryOp::Negate if is_float => ins.fneg(x),
            UnaryOp::Negate => ins.ineg(x),
            UnaryOp::Not => ins.bnot(x),
            UnaryOp::Sqrt => ins.sqrt(x),
            UnaryOp::Floor => ins.floor(x),
            UnaryOp::Ceil => ins.ceil(x),
            UnaryOp::RoundNearestEven => ins.nearest(x),
            _ => return None,
        })
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Option<Value> {
        use BinaryOp as B;
        if class(dtype) == Class::Float {
            return Some(match op {
                B::Add => self.b.ins().fadd(x, y),
                B::Subtract => self.b.ins().fsub(x, y),
                B::Multiply => self.b.ins().fmul(x, y),
                B::Divide => self.b.ins().fdiv(x, y),
                B::Maximum => self.extreme(true, x, y),
                B::Minimum => self.extreme(false, x, y),
                _ => return None,
            });
        }
        if matches!(
            op,
            B::ShiftLeft | B::ShiftRightArithmetic | B::ShiftRightLogical
        ) {
            return self.shift(op, dtype, x, y);
        }
        let (ins, is_signed) = (self.b.ins(), dtype.is_signed());
        Some(match op {
            B::Add => ins.iadd(x, y),
            B::Subtract => ins.isub(x, y),
            B::Multiply => ins.imul(x, y),
            B::And => ins.band(x, y),
            B::Or => ins.bor(x, y),
            B::Xor => ins.bxor(x, y),
            B::Maximum if is_signed => ins.smax(x, y),
            B::Maximum => ins.umax(x, y),
            B::Minimum if is_signed => ins.smin(x, y),
            B::Minimum => ins.umin(x, y),
            _ => return None,
        })
    }

    /// A shift: of all elements at once where they move by one constant, else one by one.
    fn shift(&mut self, op: BinaryOp, dtype: DType, x: Value, y: Value) -> Option<Value> {
        let ty = self.b.func.dfg.value_type(x);
        let width = u64::from(ty.lane_bits());
        let by = self.element_of_all(y);
        if let Some(by) = by.and_then(|by| integers::constant(&self.b, by)) {
            // An amount is unsigned whatever its type is.
            let by = by as u64 & (u64::MAX >> (64 - width));
            let is_arithmetic = op == BinaryOp::ShiftRightArithmetic;
            if by >= width && !is_arithmetic {
                let zero = self.b.ins().iconst(ty.lane_type(), 0);
                return Some(self.b.ins().splat(ty, zero));
            }
            let by = by.min(width - 1) as i64;
            let by = self.b.ins().iconst(types::I32, by);
            return Some(match op {
                BinaryOp::ShiftLeft => self.b.ins().ishl(x, by),
                BinaryOp::ShiftRightLogical => self.b.ins().ushr(x, by),
                _ => self.b.ins().sshr(x, by),
            });
        }
        let lanes = u8::try_from(ty.lane_count()).ok()?;
        let mut result = x;
        for lane in 0..lanes {
            let own = self.b.ins().extractlane(x, lane);
            let by = self.b.ins().extractlane(y, lane);
            let moved = integers::shift(&mut self.b, op, dtype, own, by)?;
            result = self.b.ins().insertlane(result, moved, lane);
        }
        Some(result)
    }

    /// The element that all lanes of a block hold, if it was made so.
    fn element_of_all(&self, block: Value) -> Option<Value> {
        let dfg = &self.b.func.dfg;
        let ValueDef::Result(made, _) = dfg.value_def(block) else {
            return None;
        };
        match dfg.insts[made] {
            InstructionData::Unary {
                opcode: Opcode::Splat,
                arg,
            } => Some(arg),
            _ => None,
        }
    }

    /// The larger or the smaller of two floats. A NaN is what a sum makes of it, as it is of single elements; of two zeros
    /// the larger has no sign.
    fn extreme(&mut self, is_larger: bool, x: Value, y: Value) -> Value {
        // Each is one instruction where the CPU chooses that way. They differ for zeros alone.
        let first = self.b.ins().fcmp(FloatCC::LessThan, x, y);
        let second = self.b.ins().fcmp(FloatCC::LessThan, y, x);
        let number = if is_larger {
            let (a, b) = (self.choose(second, x, y), self.choose(first, y, x));
            self.b.ins().band(a, b)
        } else {
            let (a, b) = (self.choose(first, x, y), self.choose(second, y, x));
            self.b.ins().bor(a, b)
        };
        let unordered = self.b.ins().fcmp(FloatCC::Unordered, x, y);
        let sum = self.b.ins().fadd(x, y);
        self.choose(unordered, sum, number)
    }

    /// Elements of `x` where a mask has ones, else of `y`.
    fn choose(&mut self, mask: Value, x: Value, y: Value) -> Value {
        let ty = self.b.func.dfg.value_type(x);
        let (mask, y) = (self.cast(mask, ty), self.cast(y, ty));
        self.b.ins().bitselect(mask, x, y)
    }

    /// `and`, `or` or `xor` of truth values.
    fn of_truths(&mut self, op: BinaryOp, x: Value, y: Value) -> Option<Value> {
        let (x, y) = (self.mask(x), self.mask(y));
        let mask = match op {
            BinaryOp::And => self.b.ins().band(x, y),
            BinaryOp::Or => self.b.ins().bor(x, y),
            BinaryOp::Xor => self.b.ins().bxor(x, y),
            _ => return None,
        };
        Some(self.truths(mask))
    }

    /// Ones in the lanes of four truth values that are true: any byte but zero is.
    fn mask(&mut self, truths: Value) -> Value {
        if let Some(&mask) = self.masks.get(&truths) {
            return mask;
        }
        let low = self.b.ins().scalar_to_vector(types::I32X4, truths);
        let bytes = self.cast(low, types::I8X16);
        let halves = self.b.ins().uwiden_low(bytes);
        let numbers = self.b.ins().uwiden_low(halves);
        let zero = self.b.ins().iconst(types::I32, 0);
        let zeros = self.b.ins().splat(types::I32X4, zero);
        let mask = self.b.ins().icmp(IntCC::NotEqual, numbers, zeros);
        self.masks.insert(truths, mask);
        mask
    }

    /// Four truth values, of a mask of all ones or zeros in each lane.
    fn truths(&mut self, mask: Value) -> Value {
        let halves = self.b.ins().snarrow(mask, mask);
        let bytes = self.b.ins().snarrow(halves, halves);
        let words = self.cast(bytes, types::I32X4);
        let low = self.b.ins().extractlane(words, 0);
        let truths = self.b.ins().band_imm(low, 0x0101_0101);
        self.masks.insert(truths, mask);
        truths
    }

    /// One element `lanes` times.
    pub(super) fn repeated(&mut self, value: Value, lanes: usize) -> Option<Value> {
        let ty = self.b.func.dfg.value_type(value);
        if ty == types::I8 {
            let wide = self.b.ins().uextend(types::I32, value);
            return Some(self.b.ins().imul_imm(wide, 0x0101_0101));
        }
        let ty = ty.by(u32::try_from(lanes).ok()?)?;
        Some(self.b.ins().splat(ty, value))
    }

    /// The element of `bytes` bytes, `at` bytes behind the first one of a block; `None` where there is no whole one.
    pub(super) fn part(&mut self, block: Value, at: usize, bytes: usize) -> Option<Value> {
        let size = self.size_of(block);
        let lane = (at.is_multiple_of(bytes) && at + bytes <= size).then_some(at / bytes)?;
        match (size, bytes) {
            (BYTES, 4 | 8) => {
                let ty = self.b.func.dfg.value_type(block);
                let whole = match (ty.lane_type().is_float(), bytes) {
                    (true, 4) => types::F32X4,
                    (true, _) => types::F64X2,
                    (false, 4) => types::I32X4,
                    (false, _) => types::I64X2,
                };
                let whole = self.cast(block, whole);
                Some(self.b.ins().extractlane(whole, u8::try_from(lane).ok()?))
            }
            (TRUTHS, 1) => {
                let word = self.cast(block, types::I32);
                let moved = self.b.ins().ushr_imm(word, 8 * lane as i64);
                Some(self.b.ins().ireduce(types::I8, moved))
            }
            _ => None,
        }
    }

    /// A block of elements that are in registers.
    pub(super) fn joined(&mut self, parts: &[Value]) -> Option<Value> {
        let (&first, rest) = parts.split_first()?;
        let ty = self.b.func.dfg.value_type(first);
        if rest.iter().all(|&part| part == first) {
            return self.repeated(first, parts.len());
        }
        if ty == types::I8 {
            let mut word = self.b.ins().uextend(types::I32, first);
            for (at, &part) in rest.iter().enumerate() {
                let part = self.b.ins().uextend(types::I32, part);
                let part = self.b.ins().ishl_imm(part, 8 * (at as i64 + 1));
                word = self.b.ins().bor(word, part);
            }
            return Some(word);
        }
        let whole = ty.by(u32::try_from(parts.len()).ok()?)?;
        let mut block = self.b.ins().scalar_to_vector(whole, first);
        for (at, &part) in rest.iter().enumerate() {
            let part = self.cast(part, ty);
            block = self
                .b
                .ins()
                .insertlane(block, part, u8::try_from(at + 1).ok()?);
        }
        Some(block)
    }
}
