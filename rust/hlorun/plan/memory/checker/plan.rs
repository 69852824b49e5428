//! What is checked, and what is found.

use crate::module::InstructionId;
use crate::plan::memory::assign::Assignment;
use crate::plan::thunk::{LogicalBuffer, Thunk, ThunkKind};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thunk's instruction.
    pub instruction: InstructionId,
    /// A sentence.
    pub what: String,
}

/// Most findings that are kept.
const MAX_FINDINGS: usize = 20;

/// What has been found so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, thunk: &Thunk, what: String) {
        let finding = Finding {
            instruction: thunk.instruction,
            what,
        };
        if self.0.len() < MAX_FINDINGS && !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }
}

/// A plan, before and after buffers were given memory.
#[derive(Clone, Copy)]
pub struct Plan<'p> {
    /// Thunks over logical buffers.
    pub logical: &'p [Thunk],
    /// The same over allocations; dropped copies are [`ThunkKind::Nop`].
    pub assigned: &'p [Thunk],
    /// The logical buffers.
    pub buffers: &'p [LogicalBuffer],
    /// The allocations.
    pub assignment: &'p Assignment,
}

/// Where a logical buffer begins: its allocation and the byte in it.
pub(super) type Places = [Option<(u32, usize)>];

/// Whether the assignment dropped a copy.
pub(super) fn is_dropped(before: &Thunk, after: &Thunk) -> bool {
    matches!(after.kind, ThunkKind::Nop) && !matches!(before.kind, ThunkKind::Nop)
}

/// Calls `f` on a thunk, or on the members of a group.
pub(super) fn each_member<'t>(thunk: &'t Thunk, f: &mut dyn FnMut(&'t Thunk)) {
    match &thunk.kind {
        ThunkKind::RowTiled(tiled) => tiled.members.iter().for_each(f),
        _ => f(thunk),
    }
}
