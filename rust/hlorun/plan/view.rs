//! Views: where the elements of an array lie in a buffer, as an affine map of the logical index.
//!
//! In: a view of an operand and a movement instruction. Out: the view of the result, when the
//! result's elements are the operand's at affine positions; nothing moves. What has no such map
//! (a reshape across a gap) is `None` and is copied by the caller.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::types::strided::place;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// A piece of memory: of a logical buffer while planning, of an allocation in an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct BufferSlice {
    /// Index of the buffer, later of the allocation.
    pub allocation: u32,
    /// Byte offset in it.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

impl BufferSlice {
    /// For views of which only the sizes and strides are asked.
    pub const NOWHERE: BufferSlice = BufferSlice {
        allocation: 0,
        offset: 0,
        size: 0,
    };

    /// Whether a byte belongs to both.
    pub fn overlaps(&self, other: &BufferSlice) -> bool {
        self.allocation == other.allocation
            && self.offset < other.offset + other.size
            && other.offset < self.offset + self.size
    }
}

/// Slices of allocations from this number on are scratch of a row tile; see [`super::schedule::row_tiling`].
pub const PRIVATE: u32 = 1 << 31;

/// A start index known when the program runs, as `dynamic-slice` has.
#[derive(Clone, PartialEq, Debug)]
pub struct DynamicIndex {
    /// Where the scalar is.
    pub slice: BufferSlice,
    /// Byte offset of the scalar in the slice.
    pub offset: usize,
    /// Its integer type.
    pub element_type: PrimitiveType,
    /// Elements to move per unit of the index.
    pub stride: i64,
    /// The index is clamped to `0..=limit`.
    pub limit: i64,
}

/// An array in a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayView {
    /// The memory.
    pub slice: BufferSlice,
    /// Type of an element.
    pub element_type: PrimitiveType,
    /// Logical sizes.
    pub dims: Dims,
    /// Elements between neighbours along each logical dimension.
    pub strides: Dims,
    /// Elements before the first one.
    pub offset: i64,
    /// Further offsets known at run time.
    pub dynamic: SmallVec<[DynamicIndex; 1]>,
}

/// Dimensions and strides of a walk, outermost first, neighbours merged where memory allows.
pub type Walk = SmallVec<[(i64, i64); 4]>;

/// One contiguous run, or a single element.
pub fn is_one_run(walk: &Walk) -> bool {
    match walk.as_slice() {
        [] => true,
        [(_, stride)] => *stride == 1,
        _ => false,
    }
}

/// Where element `at` of a walk is, in elements from the first.
pub fn offset_in(walk: &[(i64, i64)], at: i64) -> i64 {
    place(at, walk.iter().map(|(size, stride)| (size, stride)))
}

/// Strides of a dense array whose dimensions, slowest first, are `order`.
pub fn dense_strides(dims: &[i64], order: &[u8]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(0, dims.len());
    let mut step = 1i64;
    for &dim in order.iter().rev() {
        strides[usize::from(dim)] = step;
        step *= dims[usize::from(dim)].max(1);
    }
    strides
}

/// Dimensions from the slowest to the fastest by the shape's layout.
pub fn major_to_minor(shape: &ArrayShape) -> SmallVec<[u8; 8]> {
    shape.minor_to_major().into_iter().rev().collect()
}

impl ArrayView {
    /// A dense array at the start of `slice` in the order `order` (slowest first).
    pub fn dense(slice: BufferSlice, ty: PrimitiveType, dims: &[i64], order: &[u8]) -> ArrayView {
        ArrayView {
            slice,
            element_type: ty,
            dims: Dims::from_slice(dims),
            strides: dense_strides(dims, order),
            offset: 0,
            dynamic: SmallVec::new(),
        }
    }

    /// A dense array laid out as `shape` says.
    pub fn of_shape(slice: BufferSlice, shape: &ArrayShape) -> ArrayView {
        ArrayView::dense(
            slice,
            shape.element_type,
            &shape.dims,
            &major_to_minor(shape),
        )
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product::<i64>().max(0) as usize
    }

    /// Whether element `i` in the order `order` is element `i` of the slice.
    pub fn is_dense(&self, order: &[u8]) -> bool {
        self.offset == 0 && self.dynamic.is_empty() && {
            let walk = self.walk(order);
            self.count() == 0 || walk.is_empty() || (walk.len() == 1 && walk[0].1 == 1)
        }
    }

    /// `(size, stride)` from the slowest to the fastest dimension of `order`; unit dimensions are
    /// dropped and neighbours that form one run are merged.
    pub fn walk(&self, order: &[u8]) -> Walk {
        let mut walk = Walk::new();
        for &dim in order {
            let (size, stride) = (self.dims[usize::from(dim)], self.strides[usize::from(dim)]);
            if size == 1 {
                continue;
            }
            match walk.last_mut() {
                Some(last) if last.1 == stride * size => *last = (last.0 * size, stride),
                _ => walk.push((size, stride)),
            }
        }
        walk
    }

    /// The dimensions, the slowest in memory first.
    pub fn memory_order(&self) -> SmallVec<[u8; 8]> {
        let mut order = identity_order(self.dims.len());
        order.sort_by_key(|&dim| Reverse(self.strides[usize::from(dim)].unsigned_abs()));
        order
    }

    /// Dimension `i` of the result is dimension `permutation[i]`.
    pub fn transpose(&self, permutation: &[i64]) -> ArrayView {
        let pick = |from: &Dims| permutation.iter().map(|&p| from[p as usize]).collect();
        ArrayView {
            dims: pick(&self.dims),
            strides: pick(&self.strides),
            ..self.clone()
        }
    }

    /// Operand dimension `i` becomes result dimension `dimensions[i]`; the others repeat.
    pub fn broadcast(&self, dims: &[i64], dimensions: &[i64]) -> ArrayView {
        let mut strides: Dims = SmallVec::from_elem(0, dims.len());
        for (from, &to) in dimensions.iter().enumerate() {
            // A unit dimension may be stretched by implicit broadcasting in old texts.
            if self.dims[from] != 1 || dims[to as usize] == 1 {
                strides[to as usize] = self.strides[from];
            }
        }
        ArrayView {
            dims: Dims::from_slice(dims),
            strides,
            ..self.clone()
        }
    }

    /// `start : : stride` along every dimension, with the given result sizes.
    pub fn slice(&self, starts: &[i64], strides: &[i64], dims: &[i64]) -> ArrayView {
        let mut view = self.clone();
        for i in 0..view.dims.len() {
            view.offset += starts[i] * self.strides[i];
            view.strides[i] = self.strides[i] * strides[i];
        }
        view.dims = Dims::from_slice(dims);
        view
    }

    /// Backwards along `dimensions`.
    pub fn reverse(&self, dimensions: &[i64]) -> ArrayView {
        let mut view = self.clone();
        for &dim in dimensions {
            let dim = dim as usize;
            view.offset += self.strides[dim] * (self.dims[dim] - 1).max(0);
            view.strides[dim] = -self.strides[dim];
        }
        view
    }

    /// The same elements in row-major logical order under other sizes; `None` where strides do not
    /// allow it.
    pub fn reshape(&self, dims: &[i64]) -> Option<ArrayView> {
        let mut result: Dims = SmallVec::from_elem(0, dims.len());
        let mut view = self.clone();
        view.dims = Dims::from_slice(dims);
        if self.count() == 0 {
            view.strides = dense_strides(dims, &identity_order(dims.len()));
            return Some(view);
        }
        let walk = self.walk(&identity_order(self.dims.len()));
        let mut to = dims.len();
        // From the fastest run of memory to the slowest, fill target dimensions.
        for &(size, stride) in walk.iter().rev() {
            let mut covered = 1i64;
            while covered < size {
                to = to.checked_sub(1)?;
                result[to] = stride * covered;
                covered *= dims[to];
                if size % covered != 0 {
                    return None;
                }
            }
        }
        if dims[..to].iter().any(|&dim| dim != 1) {
            return None;
        }
        view.strides = result;
        Some(view)
    }
}

/// `0, 1, …, rank - 1`.
pub fn identity_order(rank: usize) -> SmallVec<[u8; 8]> {
    (0..rank as u8).collect()
}

/// An array of any strides.
#[derive(Clone, Copy)]
pub struct StridedArray<'a> {
    /// Type of an element.
    pub element_type: PrimitiveType,
    /// Sizes.
    pub dims: &'a Dims,
    /// Elements from one index to the next, by dimension.
    pub strides: &'a Dims,
}

impl<'a> From<&'a ArrayView> for StridedArray<'a> {
    fn from(view: &'a ArrayView) -> Self {
        StridedArray {
            element_type: view.element_type,
            dims: &view.dims,
            strides: &view.strides,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(dims: &[i64]) -> ArrayView {
        let slice = BufferSlice {
            size: 4 * dims.iter().product::<i64>() as usize,
            ..BufferSlice::NOWHERE
        };
        ArrayView::dense(slice, PrimitiveType::F32, dims, &identity_order(dims.len()))
    }

    #[test]
    fn memory_has_its_own_order() {
        let dims = &[20, 1, 5];
        let of = |order: &[u8]| {
            ArrayView::dense(BufferSlice::NOWHERE, PrimitiveType::U8, dims, order).memory_order()
        };
        assert_eq!(of(&[0, 1, 2]).as_slice(), [0, 1, 2]);
        assert_eq!(of(&[2, 0, 1]).as_slice(), [2, 0, 1]);
        let mut reversed = view(&[4, 3]);
        reversed.strides[0] = -reversed.strides[0];
        assert_eq!(reversed.memory_order().as_slice(), [0, 1]);
    }

    #[test]
    fn reshape_follows_memory() {
        let v = view(&[2, 3, 4]);
        assert_eq!(v.reshape(&[6, 4]).unwrap().strides.as_slice(), &[4, 1]);
        assert_eq!(v.reshape(&[24, 1]).unwrap().strides[0], 1);
        assert!(v.transpose(&[2, 0, 1]).reshape(&[24]).is_none());
        let t = v.transpose(&[2, 0, 1]).reshape(&[4, 6]).unwrap();
        assert_eq!(t.strides.as_slice(), &[1, 4]);
        let b = view(&[]).broadcast(&[3, 5], &[]).reshape(&[15]).unwrap();
        assert_eq!(b.strides.as_slice(), &[0]);
    }

    #[test]
    fn slices_and_reversals_compose() {
        let v = view(&[10]).slice(&[1], &[2], &[4]).reverse(&[0]);
        assert_eq!((v.offset, v.strides[0]), (7, -2));
        assert!(!v.is_dense(&[0]));
        assert!(view(&[3, 1, 5]).is_dense(&[0, 1, 2]));
    }
}
