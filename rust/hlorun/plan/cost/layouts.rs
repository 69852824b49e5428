//! Which arrays have short dimensions outside of long ones in memory, and when that pays.
//!
//! Promise: what is computed with the layouts that were chosen takes no longer than with those of the text, where loops have
//! the trips that are known or [`USUAL_TRIPS`]. The unit of all gains and costs is about a tenth of a nanosecond an element.

/// Longest of the dimensions that go outside, and most elements of all of them.
pub const MAX_SHORT: i64 = 8;
pub const MAX_SHORT_ELEMENTS: i64 = 64;
/// Fewest elements of the long dimensions inside of them, and how many they have where there are dimensions enough.
pub const MIN_RUN: i64 = 16;
pub const USUAL_RUN: i64 = 128;
/// Most elements of a run with all that is short: it stays in a core's cache, where loops go through it one after the other.
pub const MAX_PLANE: i64 = 1 << 16;
/// Trips of a loop that are expected where they are not known, and most that count.
pub const USUAL_TRIPS: i64 = 8;
pub const MAX_TRIPS: i64 = 1 << 20;
/// What an element gains that is reduced along short dimensions: rows are lanes then.
pub const REDUCED: i64 = 4;
/// What an element gains of pieces that are cut out of rows, or put together to rows.
pub const CUT: i64 = 4;
/// What an element gains that is repeated along short dimensions.
pub const REPEATED: i64 = 1;
/// What an element costs that is brought into the other order, or out of it.
pub const TURNED: i64 = 10;
/// What an element costs of an operand of an operation that is a step of its own: gathers and scatters move rows as they lie.
pub const OPERATED: i64 = 60;
/// What an element costs of pieces that are cut out of runs, which are shorter than rows of the text's layout.
pub const SHORTENED: i64 = 4;
