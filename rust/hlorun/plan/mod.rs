//! Everything that is decided before data exists.
//!
//! In: a verified [`HloModule`]. Out: an [`Executable`]: thunks over slices of allocations.
//! `inline` flattens calls, `lower` turns instructions into thunks over logical buffers, `assign`
//! decides which buffers share memory and where they lie.

pub mod assign;
pub mod bands;
pub mod chains;
pub mod collective;
pub mod dataflow;
pub mod elementwise;
pub mod executable;
pub mod flat;
pub mod fragment;
pub mod heap_simulator;
pub mod inline;
pub mod lifetime;
pub mod live_range;
pub mod lower;
pub mod ops;
pub mod passes;
pub mod permute_slices;
pub mod products;
pub mod program;
pub mod regions;
pub mod replica_groups;
pub mod replication;
pub mod scalar;
pub mod schedule;
pub mod shared_steps;
pub mod small;
pub mod stated_layouts;
pub mod thunk;
pub mod touches;
pub mod transfer;
pub mod view;

pub use executable::{Executable, Leaf, Parameter, compile};

use crate::error::{HloError, Unsupported};
use crate::module::{Id, InstructionRef, LiteralId};

/// An unsupported error that names the instruction and its place.
#[cold]
pub fn unsupported(instruction: InstructionRef<'_>, what: String) -> HloError {
    HloError::Unsupported(Box::new(Unsupported {
        message: format!("{}: {what}", instruction.name()),
        instruction: instruction.name().into_owned(),
        location: None,
    }))
}

/// The error of a constant whose value the text left out.
#[cold]
pub fn elided_constant(instruction: InstructionRef<'_>) -> HloError {
    unsupported(
        instruction,
        "the text elides this constant's value ({...}); pass it with compile(module, constants={name: array})".into(),
    )
}

/// Everything that `CompileOptions::disable` may name.
pub const PASSES: [&str; passes::PASSES.len() + 2] = {
    let mut all = ["fusion"; passes::PASSES.len() + 2];
    all[passes::PASSES.len()] = replication::NAME;
    let mut at = 0;
    while at < passes::PASSES.len() {
        all[at] = passes::PASSES[at];
        at += 1;
    }
    all
};

/// How a module is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Fuse elementwise chains; off, every instruction is stored.
    pub fuse: bool,
    /// Threads a run may use; 0 for all cores.
    pub threads: usize,
    /// Replicas that run together.
    pub replicas: u32,
    /// Partitions of each replica.
    pub partitions: u32,
    /// Names of passes that are switched off; see [`PASSES`].
    pub disable: Vec<String>,
    /// Show every computed value to the run's observer. Nothing is fused and no pass runs, so that
    /// every instruction of the text has a value.
    pub observe: bool,
    /// Computes for `constant-folding` what depends on constants alone; `None` leaves it for the
    /// run.
    pub evaluate: Option<fragment::Evaluate>,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            fuse: true,
            threads: 0,
            replicas: 1,
            partitions: 1,
            disable: Vec::new(),
            observe: false,
            evaluate: None,
        }
    }
}

/// The literal of a `constant`.
pub(crate) fn literal_id(instruction: InstructionRef<'_>) -> LiteralId {
    LiteralId::from_index(instruction.data().immediate as usize)
}
