//! Elements as values: where they are read from and written to.

use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlags, Type, Value};
use smallvec::SmallVec;

use super::blocks;
use super::emit::{Emitter, Held, flags};
use super::forms::{self, Form};
use super::registers;
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::scalar_bytecode::{Code, Place, ScalarOp};

impl Emitter<'_> {
    /// The element or block at a place, as a value of a type.
    pub(super) fn read(&mut self, place: Place, ty: Type) -> Option<Value> {
        let value = self.read_any(place, ty)?;
        Some(self.cast(value, ty))
    }

    /// The element or block at a place, of whichever type of the same size it is.
    pub(super) fn read_any(&mut self, place: Place, ty: Type) -> Option<Value> {
        let bytes = ty.bytes() as usize;
        if let Some(value) = self.known_bytes(place, bytes) {
            // Wide registers take the bits as they are; narrow ones have no sign of their own.
            let own = registers::bits(bytes)?;
            return Some(self.b.ins().iconst(own, value as i64));
        }
        if let Some(cell) = self.cells.find(place, bytes) {
            return Some(self.b.use_var(self.variables[cell]));
        }
        if let Place::Scratch(offset) = place {
            if let Some(held) = self.held.get(&offset)
                && self.size_of(held.value) == bytes
            {
                return Some(held.value);
            }
            if let Some(value) = self.held_otherwise(offset, bytes) {
                return Some(value);
            }
            self.settle(offset, bytes, false)?;
        }
        self.load_place(place, ty)
    }

    /// An element of the scratch that is part of a block in a register, or a block whose elements all are in registers.
    fn held_otherwise(&mut self, offset: usize, bytes: usize) -> Option<Value> {
        let (&at, &held) = self.held.range(..=offset).next_back()?;
        if at + self.size_of(held.value) >= offset + bytes {
            return self.part(held.value, offset - at, bytes);
        }
        if at != offset {
            return None;
        }
        let size = self.size_of(held.value);
        let lanes = blocks::lanes_of(size);
        if lanes == 1 || lanes * size != bytes {
            return None;
        }
        let parts = (0..lanes).map(|lane| {
            let held = self.held.get(&(offset + lane * size))?;
            (self.size_of(held.value) == size).then_some(held.value)
        });
        let parts = parts.collect::<Option<SmallVec<[Value; 4]>>>()?;
        self.joined(&parts)
    }

    /// Lets the element at a place be `value`.
    pub(super) fn write(&mut self, value: Value, place: Place) -> Option<()> {
        let bytes = self.size_of(value);
        if let Some(cell) = self.cells.find(place, bytes) {
            let cell_type = self.cells.cells[cell].ty;
            let value = self.cast(value, cell_type);
            self.b.def_var(self.variables[cell], value);
            if !self.cells.cells[cell].is_carried {
                self.store_place(value, place)?;
            }
            return Some(());
        }
        if let Place::Scratch(offset) = place {
            self.settle(offset, bytes, true)?;
            let is_dirty = true;
            self.held.insert(offset, Held { value, is_dirty });
            return Some(());
        }
        (!self.cells.overlaps(place, bytes)).then_some(())?;
        self.store_place(value, place)
    }

    /// Before bytes are touched in their place: the scratch gets what registers hold of it; where
    /// they are written, registers forget it. `None` where a cell is among them, whose place does
    /// not hold it.
    pub(super) fn touch(&mut self, place: Place, bytes: usize, writes: bool) -> Option<()> {
        (!self.cells.overlaps(place, bytes)).then_some(())?;
        match place {
            Place::Scratch(offset) => self.settle(offset, bytes, writes),
            _ => Some(()),
        }
    }

    /// Before an operation that touches its operands and result in their places.
    pub(super) fn settle_for(&mut self, op: &ScalarOp, form: Form) -> Option<()> {
        let mut touched = Vec::new();
        // The cells have seen where the indices before may take a load or store.
        let moved = forms::reach(op);
        forms::touches(self.prepared, op, form, moved, &mut |touch| {
            touched.push(touch)
        })?;
        let fills_result =
            matches!(form, Form::Kernel | Form::KernelFold) || matches!(op.code, Code::Gather(..));
        for touch in touched {
            // The index of a load or store is read like any element.
            if touch.element.is_some() {
                continue;
            }
            // What lies between the elements written stays, and so does an index, still to be read,
            // that lies where the result will.
            if touch.writes && !fills_result {
                self.touch(touch.place, touch.bytes, false)?;
            }
            self.touch(touch.place, touch.bytes, touch.writes)?;
        }
        Some(())
    }

    /// See [`Emitter::touch`].
    fn settle(&mut self, offset: usize, bytes: usize, writes: bool) -> Option<()> {
        let widest = blocks::BYTES;
        let near = offset.saturating_sub(widest)..offset + bytes;
        let found: Vec<(usize, Held)> = self
            .held
            .range(near)
            .map(|(&at, &held)| (at, held))
            .collect();
        for (at, held) in found {
            let size = self.size_of(held.value);
            if at + size <= offset {
                continue;
            }
            let is_replaced = writes && at >= offset && at + size <= offset + bytes;
            let is_kept = held.is_dirty && !is_replaced;
            if !faults::holds(Fault::ReadsBehindRegisters, !is_kept) {
                self.store_place(held.value, Place::Scratch(at))?;
            }
            if writes {
                self.held.remove(&at);
            } else if let Some(held) = self.held.get_mut(&at) {
                held.is_dirty = false;
            }
        }
        Some(())
    }

    /// The address of a place.
    pub(super) fn address(&mut self, place: Place) -> Option<Value> {
        let (base, offset) = self.base(place)?;
        Some(match offset {
            0 => base,
            _ => self.b.ins().iadd_imm(base, i64::from(offset)),
        })
    }

    /// What a place is counted from, and how far it is.
    fn base(&self, place: Place) -> Option<(Value, i32)> {
        let (base, offset) = match place {
            Place::Nowhere => return None,
            Place::Scratch(offset) => (self.scratch, offset),
            Place::Known(offset) => (self.known, offset),
            Place::Allocation(allocation, offset) => (*self.bases.get(&allocation)?, offset),
        };
        Some((base, i32::try_from(offset).ok()?))
    }

    pub(super) fn load_place(&mut self, place: Place, ty: Type) -> Option<Value> {
        let (base, offset) = self.base(place)?;
        Some(self.b.ins().load(ty, flags(), base, offset))
    }

    pub(super) fn store_place(&mut self, value: Value, place: Place) -> Option<()> {
        let (base, offset) = self.base(place)?;
        self.b.ins().store(flags(), value, base, offset);
        Some(())
    }

    /// The same bits as another type of the same size.
    pub(super) fn cast(&mut self, value: Value, ty: Type) -> Value {
        match self.b.func.dfg.value_type(value) == ty {
            true => value,
            false => {
                let flags = MemFlags::new().with_endianness(Endianness::Little);
                self.b.ins().bitcast(ty, flags, value)
            }
        }
    }

    pub(super) fn size_of(&self, value: Value) -> usize {
        self.b.func.dfg.value_type(value).bytes() as usize
    }
}
