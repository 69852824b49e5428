//! Gathers, scatters and selections that become slices and updates at computed places.

/// Most windows: as many slices cost about what a gather does.
pub const MAX_WINDOWS: i64 = 8;
/// Most elements of one of several windows: beyond, a gather was measured to be faster.
pub const MAX_WINDOW: i64 = 1;
/// Most arrays in the history of one side of a selection.
pub const MAX_SELECTED: usize = 16;
/// Updates that a selection becomes part of are at most one in so many elements.
pub const SELECTED_PART: i64 = 2;
/// Elements of an array for each one at the index that changes, from which an update takes less time than a selection.
pub const MIN_ONE_HOT: i64 = 128;
/// Most operations that compute what is written there.
pub const MAX_SLICED: usize = 16;
/// Most dimensions along which an index that changes is compared.
pub const MAX_PLACES: usize = 8;
