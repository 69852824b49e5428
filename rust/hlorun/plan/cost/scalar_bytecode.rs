//! What bounds the code of loops over few elements, and of small steps in order.
//!
//! Promise: what is within these bounds is interpreted faster than its steps run one by one, and loops end in time when asked
//! to. The code of an entry looks for the wish to end only before each step outside of it.

/// Bytes of scratch that one program may use.
pub const MAX_SCRATCH: usize = 32 << 10;
/// Work between two looks at whether the caller wants the run to end: less than a millisecond.
pub const FUEL: i64 = 1 << 14;
/// Most bytes that are moved to or from a place that indices name; beyond, a copy costs more than
/// what surrounds it.
pub const MAX_MOVED: usize = 4 << 10;
/// Most elements that lie apart at a place that indices name, and most windows of a gather: each is an operation, and
/// what surrounds a step outside of the code costs as much as about a hundred of them.
pub const MAX_APART: usize = 128;
pub const MAX_GATHERED: i64 = 64;
/// Elements of a kernel that are as much work as an operation.
pub const ELEMENTS_PER_WORK: usize = 8;
/// Most operations that are put together at a time.
pub const MAX_PIECE: usize = 24;
/// Most rows that are copied one by one, and fewest bytes of one: more, or shorter ones, are copied by one operation.
pub const MAX_ROWS: usize = 8;
pub const MIN_ROW_BYTES: usize = 16;
/// Most elements that are computed one by one rather than by a call of their kernel.
pub const MAX_UNROLLED: usize = 4;
/// Most operations of one code.
pub const MAX_OPS: usize = 1 << 14;
/// Fewest small steps of an entry that become code: a run of it sets up as much as a few steps do.
pub const MIN_STEPS: usize = 8;
/// Most multiplications of a product.
pub const MAX_TERMS: usize = 1 << 12;
/// Multiplications that are as much work as an operation.
pub const TERMS_PER_WORK: usize = 8;
/// Most elements that are reduced.
pub const MAX_REDUCED: usize = 128;
/// Most pairs that operations choose among where kernels of vectors can, too; beyond, leaving the code for these takes less
/// time. Columns have a kernel in the code.
pub const MAX_CHOSEN: usize = 512;
/// Fewest columns, and pairs, that a kernel chooses among in the code.
pub const MIN_CHOSEN_COLUMNS: usize = 4;
/// See there.
pub const MIN_CHOSEN: usize = 32;
/// Most operations of the reducers of one reduction.
pub const MAX_STEPS: usize = 1 << 11;
/// Most thunks outside of one code that are prepared for all trips: each keeps its tiles, or keys, of less than half a
/// megabyte.
pub const MAX_PREPARED: usize = 1 << 8;
