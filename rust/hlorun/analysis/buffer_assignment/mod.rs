//! Buffer assignments as XLA dumps them: read, written and checked against their module.
//!
//! Comes in: the text of `*-buffer-assignment.txt` and its companions, of any year from 2019.
//! Goes out: [`BufferAssignmentDump`] and [`Finding`]s. Promises: what is read is printed back
//! byte for byte, and nothing a file holds panics or costs more than its size.

pub mod assign;
pub mod can_share;
pub mod check;
mod describe;
mod files;
mod instruction_text;
mod line;
mod live_range_parser;
pub mod model;
mod names;
pub mod parser;
mod place;
pub mod printer;
pub mod rebuild;
pub mod report;
mod timeline;

pub use assign::{AssignOptions, assign_buffers};
pub use can_share::can_share;
pub use check::{
    ComputationKind, Finding, FindingKind, check, computation_kinds,
    human_readable_bytes as human_bytes,
};
pub use files::{FILE_ENDINGS, dump_files, module_file};
pub use model::*;
pub use parser::{parse, parse_files};
pub use place::{PlacedAllocation, PlacedBuffers, PlacedValue, place_buffers};
pub use printer::{print, print_file};
pub use rebuild::rebuild_module;
pub use report::{MemorySpaceUsage, usage};
