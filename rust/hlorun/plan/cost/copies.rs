//! When threads share a copy, and along which dimension.

/// Bytes of a copy from which a second thread pays.
pub const PARALLEL_BYTES: usize = 1 << 18;
/// Fewest bytes, from the first to the last, of what a thread copies along the dimension that is shared.
pub const MIN_PIECE: u64 = 512;
