//! Runs a module inside the memory a buffer assignment gives it.
//!
//! In: a verified module and a [`BufferAssignmentDump`](crate::analysis::buffer_assignment) of it.
//! Out: a [`Replay`], which computes one instruction after another in the assignment's own order,
//! every value at its own offset of its own allocation. Promise: a wrong assignment gives an error
//! that names what overwrote which value and who read it, never an access outside the allocations.
//! How instructions are computed is the same as in a plan of hlorun's own, with fusion limited to
//! what the module itself fuses.

mod build;
mod extract;
mod flow;
mod run;
mod shadow;
mod sharing;

use crate::analysis::buffer_assignment::BufferAssignmentDump;
use crate::analysis::dataflow::ValueIndex;
use crate::error::Result;
use crate::module::{ComputationId, InstructionId};
use crate::plan::Executable;
use crate::plan::options::CompileOptions;
use crate::types::ArrayShape;
use crate::verify::VerifiedModule;
use foldhash::HashMap;

/// Where a value lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// Position of the allocation in the dump.
    block: usize,
    /// First byte.
    start: usize,
    /// One past the last byte.
    end: usize,
}

impl Place {
    fn overlaps(&self, other: &Place) -> bool {
        self.block == other.block && self.start < other.end && other.start < self.end
    }
}

/// An array an instruction reads or writes.
#[derive(Clone, Copy, Debug)]
struct Access {
    value: ValueIndex,
    place: Place,
    /// Number among the executable's inputs or outputs; `None` when its bytes are not touched
    /// there, as of constants taken along and workspaces.
    leaf: Option<usize>,
}

/// An instruction that computes something.
#[derive(Debug)]
struct Compute {
    id: InstructionId,
    instruction: Box<str>,
    executable: Executable,
    reads: Vec<Access>,
    writes: Vec<Access>,
    /// Tables of pointers it writes.
    tables: Vec<Access>,
    /// By output: it overlaps an operand or another output, and is written after all is computed.
    staged: Vec<bool>,
    /// A result that lies over an operand still being read; names both.
    conflict: Option<Box<str>>,
}

/// A value that goes on under another number: into a loop, out of a branch.
type Flow = Vec<(ValueIndex, ValueIndex)>;

/// One step of a computation.
#[derive(Debug)]
enum Step {
    Compute(Box<Compute>),
    /// `tuple`: writes a table of pointers.
    Table(Access),
    /// `get-tuple-element`: reads one.
    ReadTable {
        instruction: Box<str>,
        table: Access,
    },
    While {
        instruction: Box<str>,
        predicate: Access,
        condition: ComputationId,
        body: ComputationId,
        /// Operand to condition parameter, to body parameter, and to the result when it never ran.
        enter: [Flow; 3],
        /// Body root to condition parameter, to body parameter, and to the result.
        again: [Flow; 3],
    },
    Conditional {
        instruction: Box<str>,
        selector: Access,
        is_predicate: bool,
        /// Computation, operand to parameter, root to result.
        branches: Vec<(ComputationId, Flow, Flow)>,
    },
    Call {
        callee: ComputationId,
        enter: Flow,
        leave: Flow,
    },
}

/// An array of the caller's and where it lies in an allocation, in the order of its layout.
#[derive(Clone, Debug)]
struct Boundary {
    access: Access,
    shape: ArrayShape,
}

/// A module bound to the allocations of a buffer assignment.
#[derive(Debug)]
pub struct Replay {
    /// Bytes of every allocation; 0 for those no step uses.
    blocks: Vec<usize>,
    /// Name of every value, `fusion.7{0}`.
    names: Vec<Box<str>>,
    steps: HashMap<ComputationId, Vec<Step>>,
    entry: ComputationId,
    parameters: Vec<Boundary>,
    constants: Vec<(Access, Box<[u8]>)>,
    outputs: Vec<Boundary>,
}

impl Replay {
    /// Binds `module` to the allocations of `dump`. `whole` is the module's own plan, whose inputs
    /// and outputs the replay has too.
    ///
    /// # Errors
    /// [`crate::HloError::Execution`] when a value has no place, too small a one, or one outside its
    /// allocation; [`crate::HloError::Unsupported`] for instructions that cannot be run alone.
    pub fn new(
        module: &VerifiedModule<'_>,
        dump: &BufferAssignmentDump,
        whole: &Executable,
        options: &CompileOptions,
    ) -> Result<Replay> {
        build::build(module, dump, whole, options)
    }

    /// Bytes of all allocations that a run makes.
    pub fn total_bytes(&self) -> usize {
        self.blocks.iter().sum()
    }
}
