//! Tells which message bytes are: protos do not say it themselves.
//!
//! All of them begin with field 1: the name of a module, a module, or what holds a module.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

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

/// Which message `bytes` are; `None` when they are none of them.
pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
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
fn first_field(mut bytes: &[u8]) -> Option<&[u8]> {
    match decode_key(&mut bytes).ok()? {
        (1, WireType::LengthDelimited) => length_delimited(&mut bytes),
        _ => None,
    }
}

pub(super) fn length_delimited<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

/// Whether `bytes` are a module called `name`: fields up to the first computation, whose own first
/// field is a name.
fn is_module(mut bytes: &[u8], name: &[u8]) -> bool {
    let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(|b| (0x20..0x7f).contains(b));
    if !is_name(name) {
        return false;
    }
    while let Ok((field, wire_type)) = decode_key(&mut bytes) {
        if field == 3 && wire_type == WireType::LengthDelimited {
            return length_delimited(&mut bytes)
                .and_then(first_field)
                .is_some_and(is_name);
        }
        if skip_field(wire_type, field, &mut bytes, DecodeContext::default()).is_err() {
            return false;
        }
    }
    false
}
