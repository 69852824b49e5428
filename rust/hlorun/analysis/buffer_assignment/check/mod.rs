//! Does a buffer assignment fit its module?
//!
//! Comes in: a dump and the module it was made for. Goes out: [`Finding`]s, none when everything
//! fits. Promises: each finding names what the dump says and what the module says; parts the dump
//! does not have are not missed; the work is near linear in both.

mod context;
mod placement;
mod schedule;
mod values;

use std::fmt;

pub use context::{ComputationKind, computation_kinds};
pub use placement::human_readable_bytes;

use super::model::BufferAssignmentDump;
use crate::error::{Location, Result};
use crate::module::HloModule;
use context::Checker;

/// What kind of thing does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum FindingKind {
    /// A name the module does not have.
    UnknownInstruction,
    /// A value the module does not define there.
    UnknownValue,
    /// A value of the module the dump does not have.
    MissingValue,
    /// A value listed twice, or two under one number.
    DuplicateValue,
    /// A value is a phi on one side only, or has another color.
    ValueAttribute,
    /// A position the value is not at, or one it is at and the dump does not list.
    Position,
    /// A use that is none, or one the dump does not list.
    Use,
    /// The defining instruction reads differently.
    DefiningInstruction,
    /// A shape differs.
    Shape,
    /// A size is not that of the shape, or an allocation is not as large as its values.
    Size,
    /// A value reaches over the end of its allocation.
    OutOfBounds,
    /// Allocations are not numbered from 0.
    AllocationNumber,
    /// The total is not the sum.
    Total,
    /// Two values lie in the same bytes while both are needed.
    Overlap,
    /// Values that must share memory do not.
    MustAlias,
    /// A parameter does not sit in its allocation.
    Parameter,
    /// The result does not sit where the allocations say.
    Output,
    /// `constant`, `thread-local`, `maybe-live-out` or `preallocated-temp` is wrong.
    AllocationFlag,
    /// The schedule is not a legal order of the module.
    Schedule,
    /// A live range is not what the schedule makes it.
    LiveRange,
    /// The peak is elsewhere or other values are live then.
    Peak,
}

/// One thing that does not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// One sentence that names both sides.
    pub message: String,
    /// Where in the dump, when it is about something the dump has.
    pub location: Option<Location>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.location {
            Some(location) => write!(f, "\n{location}"),
            None => Ok(()),
        }
    }
}

/// Findings after which the check stops looking: a dump of another module would have one per line.
pub const MOST_FINDINGS: usize = 1000;

/// Bytes after which a message is cut: shapes of large tuples fill pages.
const LONGEST_MESSAGE: usize = 2000;

/// Compares a dump with its module. An empty list means that it fits.
///
/// # Errors
/// [`crate::HloError::Unsupported`] when the module's values cannot be followed.
pub fn check(dump: &BufferAssignmentDump, module: &HloModule) -> Result<Vec<Finding>> {
    let mut checker = Checker::new(dump, module)?;
    values::check(&mut checker);
    let live_range = schedule::check(&mut checker);
    placement::check(&mut checker, live_range.as_ref());
    Ok(checker.into_findings())
}
