//! Elements of an operation one by one, and calls of kernels where there are no instructions.

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Type, Value, types};
use hlorun_kernels::DType;
use hlorun_kernels::scalar_bytecode::Call;
use hlorun_kernels::vector_bytecode::Op;

use super::elements::compute;
use super::emit::Emitter;
use super::registers::register;
use super::{blocks, calls};
use super::{forms, operands};
use crate::plan::cost::machine_code::MAX_LANES;
use crate::plan::thunk::scalar_bytecode::{Code, ScalarOp};

/// Bytes of stack for the elements of one operand.
const PASSED_BYTES: u32 = 8 * MAX_LANES as u32;

impl Emitter<'_> {
    /// Instructions for each block of elements, and for each element behind them.
    pub(super) fn lanes(&mut self, op: &ScalarOp) -> Option<()> {
        let element = op.element?;
        for (lane, count) in blocks::pieces(op.n, blocks::lanes(&element)) {
            let mut values = [self.known; 3];
            let operands = operands::lane_operands(op, &element, (lane, count));
            for (value, (place, ty, own)) in values.iter_mut().zip(operands) {
                let holder = blocks::held(ty, own)?;
                *value = match element.op {
                    Op::Bitcast | Op::Select if ty != DType::Pred => {
                        self.read_any(place, holder)?
                    }
                    _ => self.read(place, holder)?,
                };
                if own < count {
                    *value = self.repeated(*value, count)?;
                }
            }
            if count > 1 {
                let result = self.block(&element, values)?;
                self.write(result, op.out.behind(lane * element.to.size_bytes()))?;
                continue;
            }
            if element.op == Op::Select {
                // Both arms have to be of one type; which one plays no role.
                let ty = self.b.func.dfg.value_type(values[1]);
                values[2] = self.cast(values[2], ty);
            }
            let result = compute(&mut self.b, &element, values)?;
            self.write(result, op.out.behind(lane * element.to.size_bytes()))?;
        }
        Some(())
    }

    /// A kernel that gets its elements through the stack.
    pub(super) fn passed(&mut self, op: &ScalarOp) -> Option<()> {
        let mut addresses = Vec::new();
        for (which, (place, size)) in op.operands.into_iter().zip(op.sizes).enumerate() {
            if size == 0 {
                // One element for all, among what is known.
                addresses.push(self.address(place).unwrap_or(self.known));
                continue;
            }
            for (lane, count) in blocks::pieces(op.n, blocks::lanes_of(size)) {
                let ty = blocks::bytes(count * size)?;
                let value = self.read_any(place.behind(lane * size), ty)?;
                let slot = self.slot(which);
                let offset = i32::try_from(lane * size).ok()?;
                self.b.ins().stack_store(value, slot, offset);
            }
            let slot = self.slot(which);
            addresses.push(self.b.ins().stack_addr(types::I64, slot, 0));
        }
        let slot = self.slot(3);
        let out = self.b.ins().stack_addr(types::I64, slot, 0);
        self.call_kernel(op, &addresses, out)?;
        for (lane, count) in blocks::pieces(op.n, blocks::lanes_of(op.unit)) {
            let offset = i32::try_from(lane * op.unit).ok()?;
            let ty = match op.element {
                Some(element) => blocks::held(element.to, count)?,
                None => blocks::bytes(count * op.unit)?,
            };
            let value = self.b.ins().stack_load(ty, slot, offset);
            self.write(value, op.out.behind(lane * op.unit))?;
        }
        Some(())
    }

    /// Room on the stack for an operand or the result.
    fn slot(&mut self, which: usize) -> cranelift_codegen::ir::StackSlot {
        let b = &mut self.b;
        *self.passing[which].get_or_insert_with(|| {
            let kind = StackSlotKind::ExplicitSlot;
            b.create_sized_stack_slot(StackSlotData::new(kind, PASSED_BYTES, 4))
        })
    }

    /// A kernel on the places themselves.
    pub(super) fn kernel(&mut self, op: &ScalarOp) -> Option<()> {
        let mut addresses = Vec::new();
        for place in op.operands {
            addresses.push(self.address(place).unwrap_or(self.known));
        }
        let out = self.address(op.out)?;
        self.call_kernel(op, &addresses, out)
    }

    fn call_kernel(&mut self, op: &ScalarOp, operands: &[Value], out: Value) -> Option<()> {
        let Code::Function(function) = op.code else {
            return None;
        };
        let (through, kernel, count) = match function.call {
            Call::Unary(kernel) => (calls::unary as *const () as usize, kernel as usize, 1),
            Call::Binary(kernel) => (calls::binary as *const () as usize, kernel as usize, 2),
            Call::Ternary(kernel) => (calls::ternary as *const () as usize, kernel as usize, 3),
            Call::None | Call::Reduce(_) | Call::FoldRows(_) => return None,
        };
        let mut all = vec![self.number(kernel)];
        all.extend_from_slice(operands.get(..count)?);
        all.extend([out, self.number(op.n)]);
        self.call(through, &all, false);
        Some(())
    }

    /// Elements folded as the kernel folds them: the second half onto the first, again and again;
    /// elements that are missing from the kernel's lanes are neutral.
    pub(super) fn fold(&mut self, op: &ScalarOp) -> Option<()> {
        let element = op.element?;
        let (ty, size) = (register(element.to)?, element.to.size_bytes());
        let each = blocks::lanes(&element);
        let is_whole = op.n.is_multiple_of(each);
        let (mut whole, mut lanes) = (Vec::new(), Vec::new());
        for (lane, count) in blocks::pieces(op.n, each) {
            let place = op.operands[0].behind(lane * size);
            let value = self.read(place, blocks::held(element.to, count)?)?;
            match count {
                1 => lanes.push(value),
                _ if is_whole => whole.push(value),
                _ => self.take_apart(value, ty, &mut lanes)?,
            }
        }
        let mut width = MAX_LANES;
        while let Some(&first) = whole.first() {
            let apart = width / each;
            if apart == 0 {
                self.take_apart(first, ty, &mut lanes)?;
                break;
            }
            for at in apart..whole.len() {
                let both = [whole[at - apart], whole[at], whole[at]];
                whole[at - apart] = self.block(&element, both)?;
            }
            whole.truncate(apart);
            width /= 2;
        }
        while width > 0 {
            for at in width..lanes.len() {
                let both = [lanes[at - width], lanes[at], lanes[at]];
                lanes[at - width] = compute(&mut self.b, &element, both)?;
            }
            lanes.truncate(width);
            width /= 2;
        }
        let start = self.read(op.out, ty)?;
        let all = compute(&mut self.b, &element, [start, lanes[0], lanes[0]])?;
        self.write(all, op.out)
    }

    /// The elements of a block, in registers of type `ty`.
    fn take_apart(&mut self, block: Value, ty: Type, lanes: &mut Vec<Value>) -> Option<()> {
        let size = ty.bytes() as usize;
        for at in (0..self.size_of(block)).step_by(size) {
            let value = self.part(block, at, size)?;
            lanes.push(self.cast(value, ty));
        }
        Some(())
    }

    /// A kernel folds the elements, or rows of them, in their place.
    pub(super) fn kernel_fold(&mut self, op: &ScalarOp) -> Option<()> {
        let Code::Function(function) = op.code else {
            return None;
        };
        let rows = forms::rows(op);
        let (from, out) = (self.address(op.operands[0])?, self.address(op.out)?);
        let (rows, n) = (self.number(rows), self.number(op.n));
        match function.call {
            Call::Reduce(kernel) => {
                let kernel = self.number(kernel as usize);
                let function = calls::reduce as *const () as usize;
                self.call(function, &[kernel, from, n, out], false);
            }
            Call::FoldRows(kernel) => {
                let kernel = self.number(kernel as usize);
                let function = calls::fold_rows as *const () as usize;
                self.call(function, &[kernel, from, rows, n, out], false);
            }
            _ => return None,
        }
        Some(())
    }

    /// A kernel chooses among pairs in their places.
    pub(super) fn kernel_choice(&mut self, op: &ScalarOp) -> Option<()> {
        let Code::Choose(choice) = op.code else {
            return None;
        };
        let mut arguments = vec![self.context, self.number(choice)];
        for place in [op.operands[0], op.operands[1], op.out, op.operands[2]] {
            arguments.push(self.address(place)?);
        }
        self.call(calls::choose as *const () as usize, &arguments, false);
        Some(())
    }
}
