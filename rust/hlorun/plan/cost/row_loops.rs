//! Loops over rows that are read where they lie.
//!
//! The other way gathers such rows into tiles, which moves each of their elements once more, but computes whole tiles by large
//! blocks. Here a row that is no multiple of a vector has a last vector that overlaps the one before it.

/// Fewest elements of a plane: a block of columns takes a call for all rows of it.
pub const MIN_PLANE: usize = 256;
/// Bytes of all operands and results of the rows that are computed at a time: these stay in the first-level cache, as each
/// block of columns comes back to them.
const TILE_BYTES: usize = 24 << 10;
/// Fewest rows at a time.
const MIN_ROWS: usize = 4;
/// Most bytes of these: copies of inputs and results stay in a core's cache, and threads have parts of their own.
const MAX_TILE_BYTES: usize = 1 << 20;
/// Cycles to gather a vector of an input, or to scatter one of a result.
const MOVE_COST: usize = 5;
/// Cycles of a call, which computes a block of columns of all rows at hand.
const CALL_COST: usize = 40;

/// Cycles by which a function takes longer on a block than on as many elements of a tile.
const FUNCTION_COST: usize = 10;

/// Rows that are computed at a time, of which one has so many bytes of operands and results; `None` where rows are too long.
pub fn tile(row_bytes: usize) -> Option<usize> {
    let rows = (TILE_BYTES / row_bytes.max(1)).max(MIN_ROWS);
    (rows.checked_mul(row_bytes)? <= MAX_TILE_BYTES).then_some(rows)
}

/// What is known of a loop over rows.
#[derive(Clone, Copy, Debug)]
pub struct RowWork {
    /// Elements of a row.
    pub row: usize,
    /// Elements of a vector.
    pub lanes: usize,
    /// Rows that are computed at a time.
    pub rows: usize,
    /// Blocks of a row.
    pub blocks: usize,
    /// Elements of these; those that are computed twice count twice.
    pub computed: usize,
    /// Work of an element.
    pub work: usize,
    /// Functions that are called for each block.
    pub functions: usize,
    /// Operands and results.
    pub outside: usize,
    /// Those of them that need not be moved.
    pub spared: usize,
    /// Results whose last block of each row is computed first, and kept.
    pub kept: usize,
}

impl RowWork {
    /// Whether it takes less time than tiles.
    pub fn pays(&self) -> bool {
        // All in cycles times the elements of a vector: a vector takes about a cycle per operation, and each block half a cycle
        // per address.
        let twice = (self.computed - self.row) * self.work;
        let addresses = self.blocks * self.outside * self.lanes / 2;
        let calls = self.blocks * CALL_COST * self.lanes / self.rows.max(1);
        let functions = self.blocks * self.functions * FUNCTION_COST * self.lanes;
        let kept = self.kept * self.lanes * MOVE_COST;
        twice + addresses + calls + functions + kept <= self.spared * self.row * MOVE_COST
    }
}
