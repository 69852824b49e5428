//! `sharding=…`: where the pieces of a value live.

use super::names::TextRef;

/// A sharding; what it says is read from its text when asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HloSharding {
    /// As written, braces included.
    pub text: TextRef,
}
