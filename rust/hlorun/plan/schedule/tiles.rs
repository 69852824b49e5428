//! Where the tiles of loops and reductions end.
//!
//! In: a reduction, or an input. Out: sizes. The run cuts by them, and who replaces a thunk by other code asks
//! whether it has one tile.

use crate::plan::cost::reduce::PLAIN_TILE;
use crate::plan::cost::tiles::MIN_RUN;
use crate::plan::thunk::{FoldWay, Load, LoadKind, ReduceThunk};

/// Elements after which tiles end, so that an input that lies in rows is read where it is.
pub fn row_of(load: &Load) -> Option<usize> {
    let &(size, stride) = load.walk.last()?;
    let is_joined = matches!(load.kind, LoadKind::Joined(_));
    (!is_joined && !load.is_dense && stride == 1 && size >= MIN_RUN).then_some(size as usize)
}

/// Most values of a tile of a reduction of `total` values.
pub fn widest(reduction: &ReduceThunk, total: usize) -> usize {
    let program = &reduction.program;
    let is_plain = program.is_empty() && reduction.loads.iter().all(|load| load.is_dense);
    match (reduction.way, is_plain) {
        (FoldWay::Kernels(_), true) => PLAIN_TILE.min(total.next_multiple_of(64)),
        (FoldWay::Kernels(_), false) => program.tile(total),
        // Lanes of a general reducer are joined once per tile.
        (FoldWay::Lanes | FoldWay::OneByOne, _) => program.tile(total) * 2,
    }
}
