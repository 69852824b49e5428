//! What a module may ask for at most.

/// Most leaves of one tuple.
pub const MAX_LEAVES: usize = 1 << 22;

/// Deepest nesting of loops and branches.
pub const MAX_NESTING: u32 = 128;
