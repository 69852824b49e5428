//! What a small loop computes, as operations of scalar bytecode.
//!
//! In: a loop that [`crate::plan::schedule::small_loop`] has made ready. Out: its loads, steps and stores, in the
//! order in which it runs them.

use hlorun_kernels::Side;
use hlorun_kernels::scalar_bytecode::{self, Function};
use hlorun_kernels::vector_bytecode::Op;

use super::builder::Builder;
use super::moves::place;
use crate::plan::cost::scalar_bytecode::{
    ELEMENTS_PER_WORK, MAX_MOVED, MAX_OPS, MAX_SCRATCH, MAX_UNROLLED,
};
use crate::plan::element::elementwise::{Kernel, dtype};
use crate::plan::element::program::Meaning;
use crate::plan::element::program::{Register, Step};
use crate::plan::thunk::scalar_bytecode::{Element, Place};
use crate::plan::thunk::small_loop::{Base, Bring, Line, SmallLoop};
use crate::plan::thunk::{LoadKind, LoopThunk};

/// One small loop as operations.
pub(crate) struct SmallCode<'b> {
    builder: &'b mut Builder,
    thunk: &'b LoopThunk,
    small: &'b SmallLoop,
    /// By register.
    at: Vec<Place>,
    /// Bytes of scratch in use.
    scratch: usize,
}

impl<'b> SmallCode<'b> {
    /// Its scratch begins at the byte `above`.
    pub(crate) fn new(
        builder: &'b mut Builder,
        thunk: &'b LoopThunk,
        small: &'b SmallLoop,
        above: usize,
    ) -> Self {
        let first = builder.known.len() * size_of::<Line>();
        builder.known.extend_from_slice(&small.known);
        let mut scratch = above;
        let places = small.places.iter().zip(&thunk.program.types);
        let at = places
            .map(|(&(base, offset), ty)| match base {
                Base::Outside => Place::Nowhere,
                Base::Known => Place::Known(first + offset as usize),
                Base::Scratch => {
                    let at = above + offset as usize;
                    scratch = scratch.max(at + ty.size_bytes() * thunk.count);
                    Place::Scratch(at)
                }
            })
            .collect();
        SmallCode {
            builder,
            thunk,
            small,
            at,
            scratch,
        }
    }

    pub(crate) fn place(&self, register: Register) -> Place {
        self.at[register.0 as usize]
    }

    /// Lets a register's elements be at a place.
    pub(crate) fn bind(&mut self, register: Register, place: Place) {
        self.at[register.0 as usize] = place;
    }

    /// One past the last byte of the scratch in use.
    pub(crate) fn scratch(&self) -> usize {
        self.scratch
    }

    /// The steps alone. `None` where the scratch is too small.
    pub(crate) fn steps(&mut self) -> Option<()> {
        (self.scratch <= MAX_SCRATCH).then_some(())?;
        for step in &self.thunk.program.steps {
            self.step(step)?;
        }
        Some(())
    }

    /// Copies a register's elements to a place.
    pub(crate) fn copy_out(&mut self, register: Register, place: Place, size: usize) {
        self.builder.breathe();
        let (n, from) = (self.thunk.count, self.place(register));
        self.builder.copy_bytes(n, size, from, place);
    }

    pub(crate) fn run(&mut self) -> Option<()> {
        let (thunk, n) = (self.thunk, self.thunk.count);
        for (load, &bring) in thunk.loads.iter().zip(&self.small.loads) {
            let LoadKind::View(view) = &load.kind else {
                continue;
            };
            let register = load.register.0 as usize;
            let is_in_place = bring == Bring::InPlace || n == 1;
            if is_in_place && view.dynamic.is_empty() {
                self.at[register] = place(view)?;
                continue;
            }
            if is_in_place {
                let bytes = n * view.element_type.size_bytes();
                self.at[register] = self.room(bytes)?;
            }
            let out = self.at[register];
            let free = self.scratch.next_multiple_of(size_of::<Line>());
            let spare = (free + MAX_MOVED <= MAX_SCRATCH).then_some(Place::Scratch(free));
            self.builder.bring(view, &load.walk, n, (out, spare))?;
        }
        let mut is_direct = vec![false; thunk.stores.len()];
        let stores = thunk.stores.iter().zip(&self.small.stores).enumerate();
        for (which, (store, &in_place)) in stores {
            if in_place && store.view.dynamic.is_empty() {
                self.at[store.register.0 as usize] = place(&store.view)?;
                is_direct[which] = true;
            }
        }
        self.steps()?;
        for (store, _) in thunk.stores.iter().zip(is_direct).filter(|(_, d)| !d) {
            let from = self.place(store.register);
            self.builder.put(from, &store.view, &store.walk, n)?;
        }
        Some(())
    }

    /// Scratch for a value that has none of its own.
    fn room(&mut self, bytes: usize) -> Option<Place> {
        let at = self.scratch.next_multiple_of(size_of::<Line>());
        self.scratch = at + bytes;
        (bytes <= MAX_MOVED && self.scratch <= MAX_SCRATCH).then_some(Place::Scratch(at))
    }

    fn step(&mut self, step: &Step) -> Option<()> {
        self.builder.breathe();
        let n = self.thunk.count;
        let mut operands = step.operands.map(|register| self.place(register));
        let constant = match step.kernel {
            Kernel::WithScalar(_, value) => {
                operands[1] = self.builder.keep(value);
                true
            }
            _ => false,
        };
        let is_short = n <= MAX_UNROLLED && self.builder.ops.len() < MAX_OPS / 2;
        let short = if is_short { self.short(step) } else { None };
        let is_left = step.meaning.is_some_and(|m| m.side == Some(Side::Left));
        if short.is_some() && constant && is_left {
            operands.swap(0, 1);
        }
        let size = self.thunk.program.types[step.result.0 as usize].size_bytes();
        let mut count = n;
        let function = match (short, step.kernel) {
            (Some(short), _) => short,
            (None, Kernel::Unary(kernel)) => scalar_bytecode::call_unary(kernel),
            (None, Kernel::Binary(kernel) | Kernel::WithScalar(kernel, _)) => {
                scalar_bytecode::call_binary(kernel)
            }
            (None, Kernel::Ternary(kernel)) => scalar_bytecode::call_ternary(kernel),
            (None, Kernel::Copy(_)) => {
                count = n * size;
                scalar_bytecode::copy(count)
            }
            (None, Kernel::ReducePrecision(_)) => return None,
        };
        let out = self.place(step.result);
        let element = self.element(step);
        let mut sizes = [0; 3];
        for (size, register) in sizes.iter_mut().zip(step.reads()) {
            *size = self.thunk.program.types[register.0 as usize].size_bytes();
        }
        if short.is_none() {
            let op = self.builder.push(function);
            (op.operands, op.out, op.n) = (operands, out, count);
            (op.unit, op.sizes, op.element) = (size, sizes, element);
            self.builder.work += n / ELEMENTS_PER_WORK;
            return Some(());
        }
        if let Some(Op::Compare(direction)) = step.meaning.map(|meaning| meaning.op)
            && n == 1
        {
            let ty = dtype(self.thunk.program.types[step.operands[0].0 as usize])?;
            self.builder.comparison = Some((self.builder.ops.len(), direction, ty));
        }
        if constant {
            // The constant stands where it has been put, once for all elements.
            sizes = if is_left {
                [0, sizes[0], 0]
            } else {
                [sizes[0], 0, 0]
            };
        }
        for at in 0..n {
            let op = self.builder.push(function);
            for (to, (place, size)) in op.operands.iter_mut().zip(operands.iter().zip(sizes)) {
                *to = place.behind(at * size);
            }
            op.out = out.behind(at * size);
            op.element = element.map(|element| Element {
                scalar: None,
                ..element
            });
        }
        Some(())
    }

    /// What a step computes.
    fn element(&self, step: &Step) -> Option<Element> {
        let types = &self.thunk.program.types;
        let Meaning { op, side } = step.meaning?;
        let source = step.operands[usize::from(op == Op::Select)];
        Some(Element {
            op,
            from: dtype(types[source.0 as usize])?,
            to: dtype(types[step.result.0 as usize])?,
            scalar: side,
        })
    }

    /// The function of single elements that computes a step.
    fn short(&self, step: &Step) -> Option<Function> {
        let Element { op, from, to, .. } = self.element(step)?;
        match op {
            Op::Unary(op) => scalar_bytecode::unary(op, from),
            Op::Binary(op) => scalar_bytecode::binary(op, from),
            Op::Compare(direction) => scalar_bytecode::compare(direction, from),
            // Wider elements have no register.
            Op::Select => (to.size_bytes() <= 8).then(|| scalar_bytecode::select(to)),
            Op::Clamp => scalar_bytecode::clamp(from),
            Op::Convert => scalar_bytecode::convert(from, to),
            Op::CompareTotal(_) | Op::Bitcast => None,
        }
    }
}
