//! Which arrays have short dimensions outside of long ones in memory, and when that pays.
//!
//! Promise: by these figures a layout that is chosen gains more than it costs, where loops have the trips that are known, or
//! [`USUAL_TRIPS`]. Their unit is about a tenth of a nanosecond.

/// Longest of the dimensions that go outside, and of those of which each part is computed by operations of its own.
pub const MAX_SHORT: i64 = 8;
/// Most elements of all of these together.
pub const MAX_SHORT_ELEMENTS: i64 = 64;
/// Fewest elements of a run, the long dimensions inside of the short ones.
pub const MIN_RUN: i64 = 16;
/// A run takes in more dimensions until it has this many elements.
pub const USUAL_RUN: i64 = 128;
/// Most elements of a run with all that is short: it stays in a core's cache, where loops go through it one after the other.
pub const MAX_PLANE: i64 = 1 << 16;
/// Trips of a loop where they are not known.
pub const USUAL_TRIPS: i64 = 8;
/// Most runs of a computation that are counted.
pub const MAX_TRIPS: i64 = 1 << 20;
/// Gain for each element that is reduced along short dimensions: rows are lanes then.
pub const REDUCED: i64 = 4;
/// Gain for each element of a piece that is cut out of rows, or that rows are put together of.
pub const CUT: i64 = 4;
/// Gain for each element that is repeated along short dimensions.
pub const REPEATED: i64 = 1;
/// Cost of each element that is brought into the other order, or out of it.
pub const TURNED: i64 = 10;
/// Cost of each element that an operation reads which is a step of its own: gathers and scatters move rows as they lie.
pub const OPERATED: i64 = 60;
/// Cost of each element of a piece that is cut out of runs: its runs are shorter than its rows are in the text's layout.
pub const SHORTENED: i64 = 4;
