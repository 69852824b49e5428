//! Elements that are moved, at fixed places and at places that indices name.
//!
//! An index is clamped to `0..=x`, as the interpreter clamps it, and moves an address by `stride`
//! bytes per unit, so that the address stays in the view that the place is the start of.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use hlorun_kernels::scalar_bytecode::Kind;

use super::calls;
use super::emit::{Emitter, flags};
use super::{blocks, forms, operands, registers};
use crate::plan::thunk::scalar_bytecode::{Code, ScalarOp};

impl Emitter<'_> {
    /// Adds an index to those of the next load or store.
    pub(super) fn index(&mut self, op: &ScalarOp) -> Option<()> {
        let by = self.index_bytes(op)?;
        let Some(Kind::Index(_, is_first)) = kind(op) else {
            return None;
        };
        let before = if is_first { None } else { self.moved };
        self.moved = Some(match before {
            Some(before) => self.b.ins().iadd(before, by),
            None => by,
        });
        Some(())
    }

    /// The bytes that an operation's index moves by.
    fn index_bytes(&mut self, op: &ScalarOp) -> Option<Value> {
        let dtype = operands::index_type(op)?;
        let value = self.read(op.operands[1], registers::register(dtype)?)?;
        let limit = op.x.max(0);
        let wide = match (dtype.size_bytes(), dtype.is_signed()) {
            (8, _) => value,
            (_, true) => self.b.ins().sextend(types::I64, value),
            (_, false) => self.b.ins().uextend(types::I64, value),
        };
        let limit = self.b.ins().iconst(types::I64, limit);
        let clamped = if dtype.is_signed() {
            let zero = self.b.ins().iconst(types::I64, 0);
            let is_less = self.b.ins().icmp(IntCC::SignedLessThan, wide, zero);
            let at_least = self.b.ins().select(is_less, zero, wide);
            let is_more = self.b.ins().icmp(IntCC::SignedGreaterThan, at_least, limit);
            self.b.ins().select(is_more, limit, at_least)
        } else {
            let is_more = self.b.ins().icmp(IntCC::UnsignedGreaterThan, wide, limit);
            self.b.ins().select(is_more, limit, wide)
        };
        Some(self.b.ins().imul_imm(clamped, op.stride as i64))
    }

    /// All the bytes that the indices of a load or store move by.
    fn total(&mut self, op: &ScalarOp, more: bool) -> Option<Value> {
        let own = self.index_bytes(op)?;
        Some(match self.moved.take().filter(|_| more) {
            Some(before) => self.b.ins().iadd(before, own),
            None => own,
        })
    }

    /// Blocks or elements one by one: all are read before any is written, as they may overlap.
    pub(super) fn moves(&mut self, op: &ScalarOp) -> Option<()> {
        let moves = forms::moves(self.prepared, op);
        let mut values = Vec::with_capacity(moves.len());
        match kind(op) {
            Some(Kind::Load(_, more)) => {
                let from = self.displaced(op, op.operands[0], more, false)?;
                for part in &moves {
                    let offset = i32::try_from(part.from).ok()?;
                    let ty = blocks::bytes(part.bytes)?;
                    values.push(self.b.ins().load(ty, flags(), from, offset));
                }
            }
            _ => {
                for part in &moves {
                    let ty = blocks::bytes(part.read)?;
                    let mut value = self.read_any(op.operands[0].behind(part.from), ty)?;
                    if part.read < part.bytes {
                        value = self.repeated(value, part.bytes / part.read)?;
                    }
                    values.push(value);
                }
            }
        }
        if let Some(Kind::Store(_, more)) = kind(op) {
            let to = self.displaced(op, op.out, more, true)?;
            for (part, value) in moves.iter().zip(values) {
                let offset = i32::try_from(part.to).ok()?;
                self.b.ins().store(flags(), value, to, offset);
            }
            return Some(());
        }
        for (part, value) in moves.iter().zip(values) {
            self.write(value, op.out.behind(part.to))?;
        }
        Some(())
    }

    /// The address that a place has after the indices of a load or store; what may lie there is in
    /// its place.
    fn displaced(
        &mut self,
        op: &ScalarOp,
        place: crate::plan::thunk::scalar_bytecode::Place,
        more: bool,
        writes: bool,
    ) -> Option<Value> {
        // Where the other indices may take it is among the blocks of `cells`, so no cell is there;
        // of the scratch nothing is indexed.
        matches!(
            place,
            crate::plan::thunk::scalar_bytecode::Place::Allocation(..)
        )
        .then_some(())?;
        let (low, high) = forms::reach(op);
        let start = place.moved(low)?;
        self.touch(start, (high - low) as usize + op.n, writes)?;
        let by = self.total(op, more)?;
        let base = self.address(place)?;
        Some(self.b.ins().iadd(base, by))
    }

    /// Bytes where they are.
    pub(super) fn bytes(&mut self, op: &ScalarOp) -> Option<()> {
        match op.code {
            Code::Product(_) | Code::Choose(_) => None,
            Code::Gather(walk, size) => {
                self.walk(op, calls::gather as *const () as usize, walk, size)
            }
            Code::Scatter(walk, size) => {
                self.walk(op, calls::scatter as *const () as usize, walk, size)
            }
            Code::Function(function) => {
                let (from, to) = match function.kind {
                    Kind::Load(_, more) => {
                        let from = self.displaced(op, op.operands[0], more, false)?;
                        (from, self.address(op.out)?)
                    }
                    Kind::Store(_, more) => {
                        let to = self.displaced(op, op.out, more, true)?;
                        (self.address(op.operands[0])?, to)
                    }
                    _ => (self.address(op.operands[0])?, self.address(op.out)?),
                };
                let n = self.number(op.n);
                self.call(calls::copy as *const () as usize, &[from, to, n], false);
                Some(())
            }
        }
    }

    fn walk(&mut self, op: &ScalarOp, function: usize, walk: usize, size: usize) -> Option<()> {
        let (from, to) = (self.address(op.operands[0])?, self.address(op.out)?);
        let [walk, size, n] = [walk, size, op.n].map(|value| self.number(value));
        self.call(function, &[self.context, walk, size, from, n, to], false);
        Some(())
    }
}

fn kind(op: &ScalarOp) -> Option<Kind> {
    match op.code {
        Code::Function(function) => Some(function.kind),
        Code::Gather(..) | Code::Scatter(..) | Code::Product(_) | Code::Choose(_) => None,
    }
}
