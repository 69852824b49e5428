//! Loops of small steps, made ready as flat code.
//!
//! In: a [`WhileThunk`] whose memory is assigned. Out: a [`FlatLoop`]: operations on places that a
//! run turns into addresses once, before the first trip, with jumps for conditions, branches and
//! inner loops. A trip then asks nothing about thunks, views and lengths, which over scalars is
//! most of what it does. What is no small step stays a thunk, which the code leaves for.
//!
//! The operations are those that [`super::small`]'s loops run, in the same order, so the bits are
//! the same.

use hlorun_kernels::chain::Op;
use hlorun_kernels::flat::{self, Function};
use hlorun_kernels::{DType, Side};

use super::elementwise::{Kernel, dtype};
use super::program::{Register, Step};
use super::small::{Base, Bring, Line, SmallLoop};
use super::thunk::{
    ConditionalThunk, CopyThunk, LoadKind, LoopThunk, Thunk, ThunkKind, WhileThunk,
};
use super::view::{ArrayView, BufferSlice, DynamicIndex, PRIVATE, Walk, identity_order};
use crate::types::PrimitiveType;

/// Name by which it is switched off.
pub const NAME: &str = "flat-loops";
/// Bytes of scratch that the code of one loop may use.
pub const MAX_SCRATCH: usize = 16 << 10;
/// Most bytes that are moved to or from a place that indices name; beyond, a copy costs more than
/// what surrounds it.
const MAX_MOVED: usize = 4 << 10;
/// Work between two looks at whether the caller wants the run to end: less than a millisecond.
pub const FUEL: i64 = 1 << 14;
/// Elements of a kernel that are as much work as an operation.
const ELEMENTS_PER_WORK: usize = 8;
/// Most operations of one code.
const MAX_OPS: usize = 1 << 14;

/// Memory whose address a run knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// None.
    Nowhere,
    /// Bytes of the scratch.
    Scratch(usize),
    /// Bytes of [`FlatLoop::known`].
    Known(usize),
    /// Bytes of an allocation.
    Allocation(u32, usize),
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub enum Code {
    /// What the kernels have.
    Function(Function),
    /// From a walk of this number at `a`, elements of so many bytes, to `out`.
    Gather(usize, usize),
    /// From `a` to a walk of this number at `out`, elements of so many bytes.
    Scatter(usize, usize),
}

/// An operation without addresses; see [`hlorun_kernels::flat::Op`].
#[derive(Clone, Debug)]
pub struct FlatOp {
    /// What it does.
    pub code: Code,
    /// Operands.
    pub operands: [Place; 3],
    /// Result.
    pub out: Place,
    /// Elements or bytes.
    pub n: usize,
    /// See there.
    pub x: i64,
    /// Bytes per unit of an index.
    pub stride: isize,
}

/// Where a thunk is inside a loop: which sequence and which thunk of it, again and again.
pub type Path = Vec<(u32, u32)>;

/// See the module.
#[derive(Clone, Debug)]
pub struct FlatLoop {
    /// The code.
    pub ops: Box<[FlatOp]>,
    /// Constants, indices.
    pub known: Box<[Line]>,
    /// Walks of gathers and scatters.
    pub walks: Box<[Walk]>,
    /// Thunks that the code leaves for.
    pub outside: Box<[Path]>,
}

/// Makes the outermost loops among `thunks` ready.
pub fn prepare(thunks: &mut [Thunk]) {
    let mut rest: Vec<&mut Thunk> = thunks.iter_mut().collect();
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::While(repeated) => {
                repeated.flat = Builder::default().finish(repeated).map(Box::new);
            }
            ThunkKind::Conditional(choice) => rest.extend(choice.branches.iter_mut().flatten()),
            _ => {}
        }
    }
}

/// Makes the loops inside `thunk` that were ready before ready for slices that have changed since.
pub fn renew(thunk: &mut Thunk) {
    let mut rest = vec![thunk];
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::While(repeated) if repeated.flat.is_some() => {
                repeated.flat = Builder::default().finish(repeated).map(Box::new);
            }
            ThunkKind::Conditional(choice) => rest.extend(choice.branches.iter_mut().flatten()),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Builder {
    ops: Vec<FlatOp>,
    known: Vec<Line>,
    walks: Vec<Walk>,
    outside: Vec<Path>,
    path: Path,
    /// Work of the operations so far.
    work: usize,
    /// Whether anything is gained.
    is_useful: bool,
}

/// The length of everything, to go back to.
struct Mark {
    ops: usize,
    known: usize,
    walks: usize,
    work: usize,
}

impl Builder {
    fn finish(mut self, repeated: &WhileThunk) -> Option<FlatLoop> {
        self.while_loop(repeated)?;
        self.push(flat::end());
        (self.is_useful && self.ops.len() <= MAX_OPS).then(|| FlatLoop {
            ops: self.ops.into(),
            known: self.known.into(),
            walks: self.walks.into(),
            outside: self.outside.into(),
        })
    }

    fn mark(&self) -> Mark {
        Mark {
            ops: self.ops.len(),
            known: self.known.len(),
            walks: self.walks.len(),
            work: self.work,
        }
    }

    fn go_back(&mut self, mark: &Mark) {
        self.ops.truncate(mark.ops);
        self.known.truncate(mark.known);
        self.walks.truncate(mark.walks);
        self.work = mark.work;
    }

    fn push(&mut self, function: Function) -> &mut FlatOp {
        self.push_code(Code::Function(function))
    }

    fn push_code(&mut self, code: Code) -> &mut FlatOp {
        let at = self.ops.len();
        self.work += 1;
        self.ops.push(FlatOp {
            code,
            operands: [Place::Nowhere; 3],
            out: Place::Nowhere,
            n: 1,
            x: 0,
            stride: 0,
        });
        &mut self.ops[at]
    }

    /// Lets the jump at `from` go to the next operation.
    fn land(&mut self, from: usize) {
        self.ops[from].x = (self.ops.len() - from) as i64;
    }

    /// Recursion here and below is bounded by the nesting the lowering allows. `None` where a loop
    /// or branch inside cannot be told.
    fn sequence(&mut self, number: u32, thunks: &[Thunk]) -> Option<()> {
        for (at, thunk) in thunks.iter().enumerate() {
            self.path.push((number, at as u32));
            self.thunk(thunk)?;
            self.path.pop();
            if self.ops.len() > MAX_OPS {
                return None;
            }
        }
        Some(())
    }

    fn thunk(&mut self, thunk: &Thunk) -> Option<()> {
        let mark = self.mark();
        let done = match &thunk.kind {
            ThunkKind::Loop(fused) => fused
                .small
                .as_ref()
                .and_then(|small| SmallCode::new(self, fused, small).run()),
            ThunkKind::Copy(copy) => self.copy(copy),
            ThunkKind::While(repeated) => return self.while_loop(repeated),
            ThunkKind::Conditional(choice) => return self.conditional(choice),
            ThunkKind::Nop => return Some(()),
            _ => None,
        };
        if done.is_some() {
            self.is_useful = true;
        } else {
            self.go_back(&mark);
            let number = self.outside.len() as i64;
            self.outside.push(self.path.clone());
            self.push(flat::outside()).x = number;
            self.work += FUEL as usize;
        }
        Some(())
    }

    fn while_loop(&mut self, repeated: &WhileThunk) -> Option<()> {
        let (start, before) = (self.ops.len(), self.work);
        self.sequence(0, &repeated.condition)?;
        let predicate = place(&repeated.predicate)?;
        let exit = self.ops.len();
        self.push(flat::jump_if_zero()).operands[0] = predicate;
        self.sequence(1, &repeated.body)?;
        let (back, work) = (self.ops.len(), self.work - before);
        let jump = self.push(flat::back());
        jump.x = start as i64 - back as i64;
        jump.n = work;
        self.land(exit);
        Some(())
    }

    fn conditional(&mut self, choice: &ConditionalThunk) -> Option<()> {
        let selector = place(&choice.selector)?;
        let branches = &choice.branches;
        let mut ends = Vec::with_capacity(branches.len());
        match choice.selector.element_type {
            PrimitiveType::Pred if branches.len() == 2 => {
                let no = self.ops.len();
                self.push(flat::jump_if_zero()).operands[0] = selector;
                self.sequence(0, &branches[0])?;
                ends.push(self.ops.len());
                self.push(flat::jump());
                self.land(no);
                self.sequence(1, &branches[1])?;
            }
            PrimitiveType::S32 => {
                let switch = self.push(flat::switch());
                (switch.operands[0], switch.n) = (selector, branches.len());
                let table = self.ops.len();
                for _ in branches {
                    self.push(flat::jump());
                }
                for (case, branch) in branches.iter().enumerate() {
                    self.land(table + case);
                    self.sequence(case as u32, branch)?;
                    ends.push(self.ops.len());
                    self.push(flat::jump());
                }
            }
            _ => return None,
        }
        for end in ends {
            self.land(end);
        }
        Some(())
    }

    fn copy(&mut self, copy: &CopyThunk) -> Option<()> {
        let (source, destination) = (&copy.source, &copy.destination);
        let size = source.element_type.size_bytes();
        let n = destination.count();
        if n * size > MAX_MOVED {
            return None;
        }
        if n == 0 {
            return Some(());
        }
        let walk = |view: &ArrayView| view.walk(&identity_order(view.dims.len()));
        let (from, to) = (walk(source), walk(destination));
        let staged = if source.dynamic.is_empty() && is_one_run(&from) {
            place(source)?
        } else {
            self.bring(source, &from, n, Place::Scratch(0))?;
            Place::Scratch(0)
        };
        self.put(staged, destination, &to, n)
    }

    /// Brings the elements of a view to `out`.
    fn bring(&mut self, view: &ArrayView, walk: &Walk, n: usize, out: Place) -> Option<()> {
        let size = view.element_type.size_bytes();
        let from = place_of_first(view)?;
        let is_run = is_one_run(walk);
        if let Some((last, others)) = view.dynamic.split_last() {
            let is_repeat = walk.iter().all(|step| step.1 == 0);
            if !is_run && !is_repeat {
                return None;
            }
            let bytes = if is_run { n * size } else { size };
            let more = self.indices(others, size)?;
            let load = flat::load(dtype(last.element_type)?, bytes, more)?;
            let load = index(self.push(load), last, size)?;
            (load.operands[0], load.out, load.n) = (from, out, bytes);
            if !is_run {
                // One element for all.
                self.gather(walk, size, n, out, out);
            }
        } else if is_run {
            self.copy_bytes(n * size, from, out);
        } else {
            self.gather(walk, size, n, from, out);
        }
        Some(())
    }

    /// Puts `n` elements at `from` into a view.
    fn put(&mut self, from: Place, view: &ArrayView, walk: &Walk, n: usize) -> Option<()> {
        let size = view.element_type.size_bytes();
        let to = place_of_first(view)?;
        let is_run = is_one_run(walk);
        if let Some((last, others)) = view.dynamic.split_last() {
            if !is_run || n * size > MAX_MOVED {
                return None;
            }
            let more = self.indices(others, size)?;
            let store = flat::store(dtype(last.element_type)?, n * size, more)?;
            let store = index(self.push(store), last, size)?;
            (store.operands[0], store.out, store.n) = (from, to, n * size);
        } else if is_run {
            self.copy_bytes(n * size, from, to);
        } else {
            let number = self.walks.len();
            self.walks.push(walk.clone());
            let scatter = self.push_code(Code::Scatter(number, size));
            (scatter.operands[0], scatter.out, scatter.n) = (from, to, n);
            self.work += n;
        }
        Some(())
    }

    /// All indices but the last; whether there are any.
    fn indices(&mut self, indices: &[DynamicIndex], size: usize) -> Option<bool> {
        for (at, dynamic) in indices.iter().enumerate() {
            let function = flat::index(dtype(dynamic.element_type)?, at == 0)?;
            index(self.push(function), dynamic, size)?;
        }
        Some(!indices.is_empty())
    }

    fn copy_bytes(&mut self, bytes: usize, from: Place, to: Place) {
        if from != to {
            let copy = self.push(flat::copy(bytes));
            (copy.operands[0], copy.out, copy.n) = (from, to, bytes);
            self.work += bytes / 64;
        }
    }

    fn gather(&mut self, walk: &Walk, size: usize, n: usize, from: Place, to: Place) {
        let number = self.walks.len();
        self.walks.push(walk.clone());
        let gather = self.push_code(Code::Gather(number, size));
        (gather.operands[0], gather.out, gather.n) = (from, to, n);
        self.work += n;
    }

    /// Keeps bytes for all runs.
    fn keep(&mut self, bytes: &[u8]) -> Place {
        let at = self.known.len() * size_of::<Line>();
        for piece in bytes.chunks(size_of::<Line>()) {
            let mut line = Line([0; size_of::<Line>()]);
            line.0[..piece.len()].copy_from_slice(piece);
            self.known.push(line);
        }
        Place::Known(at)
    }
}

/// One small loop as operations.
struct SmallCode<'b> {
    builder: &'b mut Builder,
    thunk: &'b LoopThunk,
    small: &'b SmallLoop,
    /// By register.
    at: Vec<Place>,
    /// Bytes of scratch in use.
    scratch: usize,
}

impl<'b> SmallCode<'b> {
    fn new(builder: &'b mut Builder, thunk: &'b LoopThunk, small: &'b SmallLoop) -> Self {
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

    fn run(mut self) -> Option<()> {
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
        let n = self.thunk.count;
        let mut operands = step.operands.map(|register| self.place(register));
        let constant = match step.kernel {
            Kernel::WithScalar(_, value) => {
                operands[1] = self.builder.keep(&value);
                true
            }
            _ => false,
        };
        let short = if n == 1 { self.short(step) } else { None };
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
        let op = self.builder.push(function);
        (op.operands, op.out, op.n) = (operands, out, count);
        self.builder.work += n / ELEMENTS_PER_WORK;
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

/// Where a view starts, whatever its indices are.
fn place_of_first(view: &ArrayView) -> Option<Place> {
    let offset = usize::try_from(view.offset).ok()?;
    place_in(&view.slice, offset * view.element_type.size_bytes())
}

/// Where a view is that has no indices.
fn place(view: &ArrayView) -> Option<Place> {
    view.dynamic.is_empty().then(|| place_of_first(view))?
}

fn place_in(slice: &BufferSlice, offset: usize) -> Option<Place> {
    let place = Place::Allocation(slice.allocation, slice.offset + offset);
    (slice.allocation < PRIVATE).then_some(place)
}

/// Gives an operation its index.
fn index<'o>(op: &'o mut FlatOp, index: &DynamicIndex, size: usize) -> Option<&'o mut FlatOp> {
    op.operands[1] = place_in(&index.slice, index.offset)?;
    op.x = index.limit;
    op.stride = isize::try_from(index.stride).ok()? * size as isize;
    Some(op)
}

/// One contiguous run, or a single element.
fn is_one_run(walk: &Walk) -> bool {
    matches!(walk.as_slice(), [] | [(_, 1)])
}
