//! What a small loop or reduction computes, as operations of flat code.
//!
//! In: a loop that [`crate::plan::small`] has made ready. Out: its loads, steps and stores, in the
//! order in which it runs them.

use hlorun_kernels::chain::Op;
use hlorun_kernels::flat::{self, Function};
use hlorun_kernels::{DType, Side};

use super::moves::place;
use super::{
    Builder, ELEMENTS_PER_WORK, MAX_MOVED, MAX_OPS, MAX_REDUCED, MAX_SCRATCH, MAX_UNROLLED, Place,
};
use crate::plan::elementwise::{Kernel, dtype};
use crate::plan::program::{Register, Step};
use crate::plan::small::{self, Base, Bring, Line, SmallLoop};
use crate::plan::thunk::{LoadKind, LoopThunk, ReduceThunk};

impl Builder {
    /// A few elements that lie side by side, folded into one by a kernel: what [`crate::exec::reduce`]
    /// does in one tile.
    pub(super) fn reduce(&mut self, reduction: &ReduceThunk) -> Option<()> {
        let n = match reduction.space[..] {
            [] => 1,
            [(n, true)] => usize::try_from(n).ok()?,
            _ => return None,
        };
        let ([output], [init], [value]) = (
            &reduction.outputs[..],
            &reduction.inits[..],
            &reduction.program.outputs[..],
        ) else {
            return None;
        };
        let ty = output.element_type;
        let are_runs = reduction
            .loads
            .iter()
            .all(|load| load.is_dense || load.walk.iter().all(|step| step.1 == 0));
        if !(1..=MAX_REDUCED).contains(&n)
            || !are_runs
            || reduction.program.types[value.0 as usize] != ty
        {
            return None;
        }
        let kernel = hlorun_kernels::reduce(reduction.simple?, dtype(ty)?)?;
        let values = LoopThunk {
            count: n,
            program: reduction.program.clone(),
            loads: reduction.loads.clone(),
            stores: Vec::new(),
            small: None,
        };
        let small = small::of(&values)?;
        let mut code = SmallCode::new(self, &values, &small);
        code.run()?;
        let from = code.place(*value);
        let (init, out) = (place(init)?, place(output)?);
        self.copy_bytes(ty.size_bytes(), init, out);
        let op = self.push(flat::call_reduce(kernel));
        (op.operands[0], op.out, op.n) = (from, out, n);
        self.work += n / ELEMENTS_PER_WORK;
        Some(())
    }
}

/// One small loop as operations.
pub(super) struct SmallCode<'b> {
    builder: &'b mut Builder,
    thunk: &'b LoopThunk,
    small: &'b SmallLoop,
    /// By register.
    at: Vec<Place>,
    /// Bytes of scratch in use.
    scratch: usize,
}

impl<'b> SmallCode<'b> {
    pub(super) fn new(
        builder: &'b mut Builder,
        thunk: &'b LoopThunk,
        small: &'b SmallLoop,
    ) -> Self {
        let first = builder.known.len() * size_of::<Line>();
        builder.known.extend_from_slice(&small.known);
        let mut scratch = 0;
        let places = small.places.iter().zip(&thunk.program.types);
        let at = places
            .map(|(&(base, offset), ty)| match base {
                Base::Outside => Place::Nowhere,
                Base::Known => Place::Known(first + offset as usize),
                Base::Scratch => {
                    scratch = scratch.max(offset as usize + ty.size_bytes() * thunk.count);
                    Place::Scratch(offset as usize)
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

    fn place(&self, register: Register) -> Place {
        self.at[register.0 as usize]
    }

    pub(super) fn run(&mut self) -> Option<()> {
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
            self.builder.bring(view, &load.walk, n, out)?;
        }
        let mut is_direct = vec![false; thunk.stores.len()];
        let stores = thunk.stores.iter().zip(&self.small.stores).enumerate();
        for (which, (store, &in_place)) in stores {
            if in_place && store.view.dynamic.is_empty() {
                self.at[store.register.0 as usize] = place(&store.view)?;
                is_direct[which] = true;
            }
        }
        for step in &thunk.program.steps {
            self.step(step)?;
        }
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
            (None, Kernel::Unary(kernel)) => flat::call_unary(kernel),
            (None, Kernel::Binary(kernel) | Kernel::WithScalar(kernel, _)) => {
                flat::call_binary(kernel)
            }
            (None, Kernel::Ternary(kernel)) => flat::call_ternary(kernel),
            (None, Kernel::Copy(_)) => {
                count = n * size;
                flat::copy(count)
            }
            (None, Kernel::ReducePrecision(_)) => return None,
        };
        let out = self.place(step.result);
        if short.is_none() {
            let op = self.builder.push(function);
            (op.operands, op.out, op.n) = (operands, out, count);
            self.builder.work += n / ELEMENTS_PER_WORK;
            return Some(());
        }
        if let Some(Op::Compare(direction)) = step.meaning.map(|meaning| meaning.op)
            && n == 1
        {
            let ty = dtype(self.thunk.program.types[step.operands[0].0 as usize])?;
            self.builder.comparison = Some((self.builder.ops.len(), direction, ty));
        }
        let types = &self.thunk.program.types;
        let mut sizes = step
            .operands
            .map(|register| types[register.0 as usize].size_bytes());
        if constant {
            // The constant stands where it has been put, once for all elements.
            sizes = if is_left {
                [0, sizes[0], 0]
            } else {
                [sizes[0], 0, 0]
            };
        }
        for element in 0..n {
            let op = self.builder.push(function);
            for (to, (place, size)) in op.operands.iter_mut().zip(operands.iter().zip(sizes)) {
                *to = place.behind(element * size);
            }
            op.out = out.behind(element * size);
        }
        Some(())
    }

    /// The function of single elements that computes a step.
    fn short(&self, step: &Step) -> Option<Function> {
        let types = &self.thunk.program.types;
        let op = step.meaning?.op;
        let source = step.operands[usize::from(op == Op::Select)];
        let from: DType = dtype(types[source.0 as usize])?;
        let to: DType = dtype(types[step.result.0 as usize])?;
        match op {
            Op::Unary(op) => flat::unary(op, from),
            Op::Binary(op) => flat::binary(op, from),
            Op::Compare(direction) => flat::compare(direction, from),
            Op::Select => Some(flat::select(to)),
            Op::Clamp => flat::clamp(from),
            Op::Convert => flat::convert(from, to),
            Op::Bitcast => None,
        }
    }
}
