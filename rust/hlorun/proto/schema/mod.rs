//! The messages of XLA's `hlo.proto` and `xla_data.proto`, by their public field numbers.
//!
//! Strings are bytes, because nothing promises that they are UTF-8. Messages that repeat without
//! bound or nest in themselves are bytes as well, of which a comment names the message: they are
//! decoded one by one, so that memory stays in proportion to the file and depth is under control.

#![allow(missing_docs)]

#[macro_use]
pub mod numbered;
mod data;
mod hlo;
mod unread;
pub mod words;

pub use data::*;
pub use hlo::*;
