//! How a product is cut: rows into tiles, columns into strips.
//!
//! In: sizes. Out: parts. Promise: the parts depend on the sizes alone.

use super::share;
use std::ops::Range;

/// Splits rows into tiles of nearly equal height.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    rows: usize,
    pub count: usize,
}

impl Tiles {
    pub fn new(rows: usize, most: usize) -> Tiles {
        Tiles {
            rows,
            count: rows.div_ceil(most),
        }
    }

    pub fn get(self, tile: usize) -> Range<usize> {
        share(self.rows, self.count, tile, 1)
    }
}

/// How many vectors wide the strips are: as a power of two.
pub(super) fn strip_vectors(kernels_lanes: usize, rows: usize, columns: usize) -> usize {
    if columns <= kernels_lanes {
        0
    } else if rows <= 4 && columns >= 4 * kernels_lanes {
        2
    } else {
        1
    }
}
