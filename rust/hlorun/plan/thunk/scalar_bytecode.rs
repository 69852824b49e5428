//! Scalar bytecode: operations on places that a run turns into addresses.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use hlorun_kernels::choice::{Choice, ChooseColumns};
use hlorun_kernels::scalar_bytecode::Function;
use hlorun_kernels::vector_bytecode;
use hlorun_kernels::{DType, Gemm, Side};

use super::machine_code::Compiled;
use super::picked_walk::PickedWalk;
use super::small_loop::Line;

/// Memory whose address a run knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// None.
    Nowhere,
    /// Bytes of the scratch.
    Scratch(usize),
    /// Bytes of [`ScalarProgram::known`].
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
    /// The product of this number of what is at the two operands.
    Product(usize),
    /// The choice of this number among pairs: values at the first operand, seconds at the second. The result and the third
    /// operand hold the first pairs, and what is chosen replaces these.
    Choose(usize),
}

/// An operation without addresses; see [`hlorun_kernels::scalar_bytecode::Op`].
#[derive(Clone, Debug)]
pub struct ScalarOp {
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
    /// Bytes of an element: of what is moved, or of the result.
    pub unit: usize,
    /// Bytes of an element of each operand, of a kernel; 0 where one element stands for all.
    pub sizes: [usize; 3],
    /// What it computes, where that is known of an elementwise operation or a reduction.
    pub element: Option<Element>,
}

/// What an operation computes of each element.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// The operation.
    pub op: vector_bytecode::Op,
    /// Type of its operands; of the second one, where the first is a truth value that selects.
    pub from: DType,
    /// Type of its result.
    pub to: DType,
    /// The second operand is one element for all, and stands on this side.
    pub scalar: Option<Side>,
}

/// A choice among pairs in columns.
#[derive(Clone, Copy, Debug)]
pub struct ColumnChoice {
    /// Which pair is chosen.
    pub choice: Choice,
    /// What chooses.
    pub kernel: ChooseColumns,
    /// Rows and columns of pairs.
    pub shape: [usize; 2],
    /// Bytes of a value and of a second.
    pub sizes: [usize; 2],
}

/// Where a thunk is inside a loop, or among the thunks of the entry: which sequence and which thunk of it, again and again.
pub type Path = Vec<(u32, u32)>;

/// See the module.
#[derive(Clone, Debug)]
pub struct ScalarProgram {
    /// The code.
    pub ops: Box<[ScalarOp]>,
    /// Constants, indices.
    pub known: Box<[Line]>,
    /// Walks of gathers and scatters.
    pub walks: Box<[PickedWalk]>,
    /// Products.
    pub products: Box<[Gemm]>,
    /// Choices among pairs.
    pub choices: Box<[ColumnChoice]>,
    /// Thunks that the code leaves for.
    pub outside: Box<[Path]>,
    /// Work of the interpreter in a trip, without that of inner loops' further trips; of an entry, in a run.
    pub work: usize,
    /// Machine code that does the same.
    pub compiled: Compiled,
    /// What its runs leave for the next ones.
    pub kept: Kept,
}

/// What runs leave for the next ones, of some form. It may point into the program, so a copy of the program starts with
/// nothing.
#[derive(Default)]
pub struct Kept(Mutex<Vec<Box<dyn Any + Send>>>);

impl Kept {
    /// Something that was left, for one run alone.
    pub fn take<T: Any>(&self) -> Option<Box<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop()?.downcast().ok()
    }

    /// Forgets all, as no run will ask for it.
    pub fn forget(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }

    /// Leaves something.
    pub fn leave(&self, something: Box<dyn Any + Send>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(something);
    }
}

impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::default()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept")
    }
}

impl Place {
    /// So many bytes further.
    pub fn behind(self, bytes: usize) -> Place {
        match self {
            Place::Nowhere => Place::Nowhere,
            Place::Scratch(at) => Place::Scratch(at + bytes),
            Place::Known(at) => Place::Known(at + bytes),
            Place::Allocation(allocation, at) => Place::Allocation(allocation, at + bytes),
        }
    }

    /// So many bytes further or back; `None` before the first byte.
    pub fn moved(self, bytes: isize) -> Option<Place> {
        Some(match self {
            Place::Nowhere => Place::Nowhere,
            Place::Scratch(at) => Place::Scratch(at.checked_add_signed(bytes)?),
            Place::Known(at) => Place::Known(at.checked_add_signed(bytes)?),
            Place::Allocation(allocation, at) => {
                Place::Allocation(allocation, at.checked_add_signed(bytes)?)
            }
        })
    }
}
