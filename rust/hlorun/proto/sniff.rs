//! Tells which message bytes are: protos do not say it themselves.
//!
//! All of them begin with field 1: the name of a module, a module, or what holds a module. The text of
//! one begins with the name of a field.

use super::pbtxt;
use super::wire::{Fields, Value};

/// The messages that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `HloModuleProto`.
    Module,
    /// `HloProto`: a module and its buffer assignment.
    Hlo,
    /// `HloSnapshot`: that, with arguments and result.
    Snapshot,
}

/// Which message `bytes` are, or are the text of; `None` when they are none of them.
pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
    binary_kind(bytes).or_else(|| pbtxt::kind(bytes))
}

/// Which message `bytes` are.
pub(super) fn binary_kind(bytes: &[u8]) -> Option<Kind> {
    let first = first_field(bytes)?;
    if is_module(bytes, first) {
        return Some(Kind::Module);
    }
    let second = first_field(first)?;
    if is_module(first, second) {
        return Some(Kind::Hlo);
    }
    is_module(second, first_field(second)?).then_some(Kind::Snapshot)
}

/// The bytes of field 1, where the message begins with it.
fn first_field(bytes: &[u8]) -> Option<&[u8]> {
    match Fields(bytes).next()? {
        (1, Value::Bytes(value)) => Some(value),
        _ => None,
    }
}

/// Whether `bytes` are a module called `name`: fields up to the first computation, whose own first
/// field is a name.
fn is_module(bytes: &[u8], name: &[u8]) -> bool {
    let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(|b| (0x20..0x7f).contains(b));
    if !is_name(name) {
        return false;
    }
    for (number, value) in Fields(bytes) {
        match (number, value) {
            (3, Value::Bytes(computation)) => return first_field(computation).is_some_and(is_name),
            (_, Value::Broken) => return false,
            _ => {}
        }
    }
    false
}
