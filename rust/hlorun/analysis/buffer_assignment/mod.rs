//! Buffer assignments as XLA dumps them: read, written and checked against their module.
//!
//! Comes in: the text of `*-buffer-assignment.txt` and its companions, of any year from 2019.
//! Goes out: [`BufferAssignmentDump`] and findings. Promises: what is read is printed back
//! byte for byte, and nothing a file holds panics or costs more than its size.

mod line;
pub mod model;
pub mod parser;
pub mod printer;
pub mod report;

pub use model::*;
pub use parser::{parse, parse_files};
pub use printer::{print, print_file};
