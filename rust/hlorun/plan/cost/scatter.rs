//! Scatters whose windows, or parts of them, are combined by kernels.

/// Elements of a window's part from which each window is split among the threads.
pub const MIN_SPLIT: usize = 128;
/// Fewest elements of a window for which threads take windows by their places: shorter ones take longer to find than
/// to combine.
pub const MIN_WINDOW: usize = 64;
/// Most tasks: each finds all windows.
pub const MAX_TASKS: usize = 8;
/// Mean number of updates of an element from which most leave its maximum or minimum as it is. A branch on that is then
/// well predicted.
pub const MANY_UPDATES: usize = 64;
/// Logarithm of the bytes of a block of the operand; the windows that begin in it belong to one task.
pub const BLOCK_BITS: u32 = 10;
/// Bytes of a line of memory.
pub const LINE: usize = 64;
/// Most bytes of an operand whose lines may be visited again and again, as it stays in a cache.
pub const CACHED: usize = 1 << 20;
/// Elements of updates up to which a copy of them, with those of each window side by side, takes longer than it saves.
pub const MAX_UNCOPIED: usize = 1 << 12;
