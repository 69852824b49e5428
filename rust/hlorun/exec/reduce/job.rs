//! What is reduced, and where results gather.

use crate::exec::element::loops::Sources;
use crate::plan::schedule::fold_shape::Shape;
use crate::plan::thunk::ReduceThunk;
use smallvec::SmallVec;

/// Addresses of accumulators that tasks use in disjoint parts.
#[derive(Clone)]
pub(crate) struct Accumulators {
    pub(crate) pointers: SmallVec<[*mut u8; 2]>,
    pub(crate) sizes: SmallVec<[usize; 2]>,
}

impl Accumulators {
    pub(crate) fn at(&self, k: usize, index: usize) -> *mut u8 {
        self.pointers[k].wrapping_add(index * self.sizes[k])
    }

    /// The accumulators whose result `index` is this one's result `at`.
    pub(super) fn renumbered(&self, at: usize, index: usize) -> Accumulators {
        Accumulators {
            pointers: (0..self.pointers.len())
                .map(|k| self.at(k, at).wrapping_sub(index * self.sizes[k]))
                .collect(),
            sizes: self.sizes.clone(),
        }
    }
}

// SAFETY: each task is given results no other task touches.
unsafe impl Sync for Accumulators {}

/// One reduction being run.
pub(crate) struct Job<'t> {
    pub(crate) thunk: &'t ReduceThunk,
    pub(super) sources: Sources<'t>,
    pub(super) total: usize,
    /// Values of a tile.
    pub(crate) tile: usize,
    /// Tiles end at multiples of this.
    pub(super) run: usize,
    pub(crate) shape: Shape,
    pub(crate) fold: Option<hlorun_kernels::Reduce>,
    pub(crate) combine: Option<hlorun_kernels::Binary>,
    pub(super) fold_rows: Option<hlorun_kernels::FoldRows>,
    pub(super) identity: Option<[u8; 16]>,
}
