//! Fused loops of few elements, made ready while planning.
//!
//! In: a [`LoopThunk`]. Out: a [`SmallLoop`], where one tile holds the whole loop: the place of
//! every register, and the values of those that are the same in every run. A run then allocates
//! nothing and asks nothing about walks; in a `while` whose body has a handful of elements, that
//! is most of a trip.

use crate::plan::cost::small_loop::{MAX_KNOWN, MAX_SCRATCH, MAX_WORK, runs_step_by_step};
use crate::plan::cost::vector_bytecode;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::program::{Home, Program, Register, Task};
use crate::plan::thunk::small_loop::Base;
use crate::plan::thunk::small_loop::Bring;
use crate::plan::thunk::small_loop::LINE;
use crate::plan::thunk::small_loop::Line;
use crate::plan::thunk::small_loop::SmallLoop;
use crate::plan::thunk::{Load, LoadKind, LoopThunk, Thunk, ThunkKind};
use crate::plan::view::offset_in;

/// Makes the small loops among `thunks` ready, those inside control flow too.
pub fn prepare(thunks: &mut [Thunk]) {
    let mut rest: Vec<&mut Thunk> = thunks.iter_mut().collect();
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::Loop(fused) => fused.small = of(fused).map(Box::new),
            ThunkKind::While(body) => {
                body.is_brief = body.condition.iter().chain(&body.body).all(is_brief);
                rest.extend(body.condition.iter_mut().chain(&mut body.body));
            }
            ThunkKind::Conditional(choice) => {
                rest.extend(choice.branches.iter_mut().flatten());
            }
            _ => {}
        }
    }
}

/// Makes a loop ready that only vector bytecode kept from it: its steps run one by one. In a trip of a
/// `while`, what that spares is more than a few passes over few elements cost, but not more than gathering rows that can be
/// read where they lie. The last step computes an only result, so it may lie where an input does; of several, one would be
/// written before another has read it.
pub(crate) fn run_step_by_step(fused: &mut LoopThunk) {
    if fused.rows.is_some() || !is_short(fused) || fused.stores.len() != 1 {
        return;
    }
    let Some(program) = fused.program.step_by_step() else {
        return;
    };
    let joined = std::mem::replace(&mut fused.program, program);
    fused.small = of(fused).map(Box::new);
    if fused.small.is_none() {
        fused.program = joined;
    }
}

/// Whether it has so few elements and steps that these run one by one in a trip of a `while`.
fn is_short(fused: &LoopThunk) -> bool {
    let steps = fused.program.steps.len();
    runs_step_by_step(fused.count, steps) && steps <= vector_bytecode::SHORT
}

/// Whether it takes no more than microseconds.
fn is_brief(thunk: &Thunk) -> bool {
    match &thunk.kind {
        ThunkKind::Loop(fused) => of(fused).is_some(),
        ThunkKind::Copy(copy) => copy.destination.count() <= MAX_SCRATCH,
        ThunkKind::Nop => true,
        _ => false,
    }
}

/// What makes `thunk` a small loop, if it is one.
pub(crate) fn of(thunk: &LoopThunk) -> Option<SmallLoop> {
    let (program, count) = (&thunk.program, thunk.count);
    if count == 0 || count > MAX_SCRATCH || count * (program.steps.len() + 1) > MAX_WORK {
        return None;
    }
    // Registers inside vector bytecode have no place.
    let is_vector = |task: &Task| matches!(task, Task::Vector(_));
    if program.tasks.iter().any(is_vector) {
        return None;
    }
    let mut layout = Layout::of_slots(program, count);
    layout.keep_constants()?;
    let loads = thunk.loads.iter().map(|load| layout.bring(load));
    let loads = loads.collect::<Option<_>>()?;
    if layout.scratch > MAX_SCRATCH {
        return None;
    }
    let stores = thunk.stores.iter().enumerate().map(|(at, store)| {
        let is_computed = matches!(program.homes[store.register.0 as usize], Home::Slot(_));
        let is_first = thunk.stores[..at]
            .iter()
            .all(|other| other.register != store.register);
        store.is_dense && is_computed && is_first
    });
    Some(SmallLoop {
        stores: stores.collect(),
        places: layout.places.into(),
        known: layout.known.into(),
        loads,
    })
}

/// The places of a loop's registers, while they are assigned.
struct Layout<'p> {
    program: &'p Program,
    /// Elements of the loop.
    count: usize,
    places: Vec<(Base, u32)>,
    /// Bytes of scratch in use.
    scratch: usize,
    known: Vec<Line>,
}

impl<'p> Layout<'p> {
    /// Assigns places to the registers that have slots.
    fn of_slots(program: &'p Program, count: usize) -> Layout<'p> {
        let mut places = vec![(Base::Outside, 0); program.homes.len()];
        let mut scratch = 0;
        let homes = program.homes.iter().zip(&program.types);
        for (place, (home, ty)) in places.iter_mut().zip(homes) {
            if let Home::Slot(offset) = home {
                // Slots never overlap per element, and so not per tile either.
                let at = *offset as usize * count.next_multiple_of(16);
                scratch = scratch.max(at + ty.size_bytes() * count);
                *place = (Base::Scratch, at as u32);
            }
        }
        Layout {
            program,
            count,
            places,
            scratch: scratch.next_multiple_of(LINE),
            known: Vec::new(),
        }
    }

    /// Keeps the known elements of a register; `None` where those of all registers are too many.
    fn keep(&mut self, register: Register, bytes: &[u8]) -> Option<()> {
        let at = self.known.len() * LINE;
        self.known.extend(bytes.chunks(LINE).map(|piece| {
            let mut line = Line([0; LINE]);
            line.0[..piece.len()].copy_from_slice(piece);
            line
        }));
        self.places[register.0 as usize] = (Base::Known, at as u32);
        (self.known.len() * LINE <= MAX_KNOWN).then_some(())
    }

    fn keep_constants(&mut self) -> Option<()> {
        let program = self.program;
        for (register, home) in program.homes.iter().enumerate() {
            if let Home::Constant(index) = *home {
                let size = program.types[register].size_bytes();
                let value = &program.constants[index as usize][..size];
                self.keep(Register(register as u32), &value.repeat(self.count))?;
            }
        }
        Some(())
    }

    /// How the elements of a load get to its register.
    fn bring(&mut self, load: &Load) -> Option<Bring> {
        let ty = self.program.types[load.register.0 as usize];
        match load.kind {
            LoadKind::View(_) => {}
            LoadKind::Iota => {
                self.keep(load.register, &indices(load, ty, self.count)?)?;
                return Some(Bring::Known);
            }
            LoadKind::Joined(_) => return None,
        }
        if load.is_dense {
            return Some(Bring::InPlace);
        }
        self.places[load.register.0 as usize] = (Base::Scratch, self.scratch as u32);
        self.scratch += (ty.size_bytes() * self.count).next_multiple_of(LINE);
        let is_one_element = load.walk.iter().all(|step| step.1 == 0);
        Some(match is_one_element {
            true => Bring::Repeat,
            false => Bring::Gather,
        })
    }
}

/// The elements of an iota.
fn indices(load: &Load, ty: crate::types::PrimitiveType, count: usize) -> Option<Vec<u8>> {
    let to = dtype(ty)?;
    let values: Vec<i64> = (0..count as i64)
        .map(|at| offset_in(&load.walk, at))
        .collect();
    // 16 bytes hold the widest element; the buffer is aligned for all of them.
    let mut out = vec![0u128; count];
    // SAFETY: `values` holds `count` elements of `i64`, and `out` has room for as many of `ty`.
    unsafe {
        let convert = hlorun_kernels::convert(hlorun_kernels::DType::S64, to);
        convert(values.as_ptr().cast(), out.as_mut_ptr().cast(), count);
        let bytes = std::slice::from_raw_parts(out.as_ptr().cast::<u8>(), count * ty.size_bytes());
        Some(bytes.to_vec())
    }
}
