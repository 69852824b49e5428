//! Loops of small steps, made ready as flat code.
//!
//! In: a [`WhileThunk`] whose memory is assigned. Out: a [`FlatLoop`]: operations on places that a
//! run turns into addresses once, before the first trip, with jumps for conditions, branches and
//! inner loops. A trip then asks nothing about thunks, views and lengths, which over scalars is
//! most of what it does. What is no small step stays a thunk, which the code leaves for.
//!
//! The operations are those that [`super::small`]'s loops run, in the same order, so the bits are
//! the same.

mod moves;
mod steps;

use hlorun_kernels::flat::{self, Function};
use hlorun_kernels::{CompareDirection, DType};
use rustc_hash::FxHashMap;

use super::small::Line;
use super::thunk::{ConditionalThunk, Thunk, ThunkKind, WhileThunk};
use super::view::Walk;
use crate::types::PrimitiveType;
use moves::place;
use steps::SmallCode;

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
/// Most operations that are put together at a time.
const MAX_PIECE: usize = 24;
/// Most elements that are computed one by one rather than by a call of their kernel.
const MAX_UNROLLED: usize = 8;
/// Most elements that are reduced.
const MAX_REDUCED: usize = 64;
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
                if repeated.flat.is_none() {
                    rest.extend(repeated.condition.iter_mut().chain(&mut repeated.body));
                }
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
            ThunkKind::While(repeated) => {
                if repeated.flat.is_some() {
                    repeated.flat = Builder::default().finish(repeated).map(Box::new);
                }
                rest.extend(repeated.condition.iter_mut().chain(&mut repeated.body));
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
    /// Where single elements are among what is known.
    constants: FxHashMap<[u8; 16], Place>,
    walks: Vec<Walk>,
    outside: Vec<Path>,
    path: Path,
    /// Work of the operations so far.
    work: usize,
    /// Operations since the last that gave the stack back.
    since_jump: usize,
    /// The last comparison of single elements, and what it compares.
    comparison: Option<(usize, CompareDirection, DType)>,
    /// Whether anything is gained.
    is_useful: bool,
}

/// The length of everything, to go back to.
struct Mark {
    ops: usize,
    known: usize,
    walks: usize,
    work: usize,
    since_jump: usize,
}

impl Place {
    /// So many bytes further.
    fn behind(self, bytes: usize) -> Place {
        match self {
            Place::Nowhere => Place::Nowhere,
            Place::Scratch(at) => Place::Scratch(at + bytes),
            Place::Known(at) => Place::Known(at + bytes),
            Place::Allocation(allocation, at) => Place::Allocation(allocation, at + bytes),
        }
    }
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
            since_jump: self.since_jump,
        }
    }

    fn go_back(&mut self, mark: &Mark) {
        self.ops.truncate(mark.ops);
        self.known.truncate(mark.known);
        self.walks.truncate(mark.walks);
        self.work = mark.work;
        self.since_jump = mark.since_jump;
        self.comparison = None;
        self.constants.clear();
    }

    fn push(&mut self, function: Function) -> &mut FlatOp {
        self.push_code(Code::Function(function))
    }

    fn push_code(&mut self, code: Code) -> &mut FlatOp {
        let at = self.ops.len();
        self.work += 1;
        self.since_jump += 1;
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

    /// Ends a run of operations before it is too long; called where none is being put together.
    fn breathe(&mut self) {
        if self.since_jump + MAX_PIECE > flat::MAX_RUN {
            self.push(flat::jump()).x = 1;
            self.since_jump = 0;
        }
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
            ThunkKind::Reduce(reduction) => self.reduce(reduction),
            ThunkKind::While(repeated) => return self.while_loop(repeated),
            ThunkKind::Conditional(choice) => return self.conditional(choice),
            ThunkKind::Nop => return Some(()),
            _ => None,
        };
        if done.is_some() {
            self.is_useful = true;
        } else {
            self.go_back(&mark);
            self.breathe();
            let number = self.outside.len() as i64;
            self.outside.push(self.path.clone());
            self.push(flat::outside()).x = number;
            self.work += FUEL as usize;
        }
        Some(())
    }

    fn while_loop(&mut self, repeated: &WhileThunk) -> Option<()> {
        let predicate = place(&repeated.predicate)?;
        let before = self.work;
        let to_condition = self.ops.len();
        self.push(flat::jump());
        let start = self.ops.len();
        self.sequence(1, &repeated.body)?;
        self.land(to_condition);
        self.comparison = None;
        self.sequence(0, &repeated.condition)?;
        let mut operands = [predicate, Place::Nowhere, Place::Nowhere];
        let mut function = flat::back_if();
        // Nobody else reads what the condition's last step says.
        if let Some((at, direction, ty)) = self.comparison
            && at + 1 == self.ops.len()
            && self.ops[at].out == predicate
            && let Some(both) = flat::back_if_compare(direction, ty)
        {
            (operands, function) = (self.ops[at].operands, both);
            self.ops.truncate(at);
        }
        let (back, work) = (self.ops.len(), self.work - before);
        let jump = self.push(function);
        (jump.operands, jump.n) = (operands, work);
        jump.x = start as i64 - back as i64;
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
        // Other branches come to here without what the last one compares.
        self.comparison = None;
        Some(())
    }

    /// Keeps an element for all runs.
    fn keep(&mut self, element: [u8; 16]) -> Place {
        *self.constants.entry(element).or_insert_with(|| {
            let mut line = Line([0; size_of::<Line>()]);
            line.0[..element.len()].copy_from_slice(&element);
            self.known.push(line);
            Place::Known((self.known.len() - 1) * size_of::<Line>())
        })
    }
}
