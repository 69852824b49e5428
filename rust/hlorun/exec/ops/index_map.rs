//! Window positions of `gather` and `scatter`.
//!
//! In: the indices array and an [`IndexMap`]. Out: [`Starts`], the index vectors of the windows, and [`Windows`], which walks
//! them some at a time.

use std::ops::Range;

use hlorun_kernels::places::{self, Component, OUTSIDE, Place};
use smallvec::SmallVec;

use super::walk::{Nest, Shared};
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::element::elementwise::dtype;
use crate::plan::ops::index_map::IndexMap;
use crate::types::{Dims, PrimitiveType};

/// The index vectors of all windows, in the row-major order of the batch dimensions.
pub struct Starts {
    values: Values,
    /// Components of a vector.
    pub width: usize,
    /// Sizes of the batch dimensions.
    pub batch: Dims,
}

/// Where the components are.
enum Values {
    /// In the array itself, in order.
    InPlace {
        pointer: Shared,
        element_type: PrimitiveType,
        convert: hlorun_kernels::Unary,
    },
    /// Read before.
    Known(Vec<i64>),
}

/// All elements of an integer array as `i64` in row-major order; `u64` values beyond `i64` saturate.
pub fn to_i64(array: &RawArray) -> Result<Vec<i64>> {
    let count = array.count();
    let unknown = || HloError::execution("indices of an element type without a kernel");
    let from = dtype(array.element_type).ok_or_else(unknown)?;
    let mut bytes = array.to_row_major()?;
    let mut values: Vec<i64> = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| HloError::execution("out of memory for indices"))?;
    let kernel = hlorun_kernels::convert(from, hlorun_kernels::DType::S64);
    // SAFETY: `bytes` holds `count` elements of `from`, and `values` has room for `count`.
    unsafe {
        kernel(bytes.as_mut_ptr(), values.as_mut_ptr().cast(), count);
        values.set_len(count);
    }
    if array.element_type == PrimitiveType::U64 {
        for value in values.iter_mut().filter(|value| **value < 0) {
            *value = i64::MAX;
        }
    }
    Ok(values)
}

impl Starts {
    /// Reads the vectors.
    pub fn new(map: &IndexMap, indices: &RawArray) -> Result<Starts> {
        let mut array = indices.clone();
        let width = map.components.len();
        if map.index_vector_dim < array.dims.len() {
            let size = array.dims.remove(map.index_vector_dim);
            let stride = array.strides.remove(map.index_vector_dim);
            array.dims.push(size);
            array.strides.push(stride);
        } else {
            array.dims.push(1);
            array.strides.push(0);
        }
        if array.dims.last().copied() != Some(width as i64) {
            return Err(HloError::execution(
                "the index vector has another length than planned",
            ));
        }
        let is_row_major = RawArray::row_major_strides(&array.dims)
            .iter()
            .zip(array.dims.iter().zip(&array.strides))
            .all(|(want, (&size, stride))| size == 1 || want == stride);
        let ty = array.element_type;
        let is_aligned = array.pointer.addr().is_multiple_of(ty.size_bytes().max(1));
        let values = match dtype(ty) {
            Some(from) if is_row_major && is_aligned => Values::InPlace {
                pointer: Shared::new(array.pointer),
                element_type: ty,
                convert: hlorun_kernels::convert(from, hlorun_kernels::DType::S64),
            },
            _ => Values::Known(to_i64(&array)?),
        };
        array.dims.pop();
        Ok(Starts {
            values,
            width,
            batch: array.dims,
        })
    }

    /// Number of windows.
    pub fn count(&self) -> usize {
        self.batch.iter().product::<i64>().max(0) as usize
    }

    /// Writes the vectors of the windows `range` to the beginning of `out`.
    pub fn read(&self, range: Range<usize>, out: &mut [i64]) {
        let range = range.start * self.width..range.end * self.width;
        let out = &mut out[..range.len()];
        match &self.values {
            Values::Known(values) => out.copy_from_slice(&values[range]),
            Values::InPlace {
                pointer,
                element_type,
                convert,
            } => {
                // SAFETY: the array holds a vector for every window; `out` has room for these.
                unsafe {
                    let from = pointer.get().add(range.start * element_type.size_bytes());
                    convert(from, out.as_mut_ptr().cast(), out.len());
                }
                if *element_type == PrimitiveType::U64 {
                    for value in out.iter_mut().filter(|value| **value < 0) {
                        *value = i64::MAX;
                    }
                }
            }
        }
    }

    /// How far the components of the windows from `first` on move them, in bytes, in all of `out`. A window that begins outside
    /// is moved to the nearest place inside, or with `skip` is [`OUTSIDE`]; also whether any window begins outside. `room` is
    /// for the vectors, should they be converted.
    fn places<'o>(
        &self,
        first: usize,
        components: &[Component],
        skip: bool,
        room: &mut SmallVec<[i64; BLOCK]>,
        out: &'o mut [Place],
    ) -> (&'o [isize], bool) {
        let (begin, count) = (first * self.width, out.len() * self.width);
        macro_rules! in_place {
            ($pointer:ident: $t:ty) => {{
                // SAFETY: the array holds an aligned vector for every window, and nobody writes it meanwhile.
                let values = unsafe {
                    let values = $pointer.get().cast::<$t>().add(begin);
                    std::slice::from_raw_parts(values, count)
                };
                places::places(values, components, skip, out)
            }};
        }
        match &self.values {
            Values::InPlace {
                pointer,
                element_type: PrimitiveType::S32,
                ..
            } if count > 0 => in_place!(pointer: i32),
            Values::InPlace {
                pointer,
                element_type: PrimitiveType::U32,
                ..
            } if count > 0 => in_place!(pointer: u32),
            Values::InPlace { .. } | Values::Known(_) => {
                room.resize(count, 0);
                self.read(first..first + out.len(), room);
                places::places(room, components, skip, out)
            }
        }
    }
}

/// Components and windows read at a time.
pub const BLOCK: usize = 512;

/// Where windows begin: in the array that the indices place them in, and in the other one.
pub struct Windows {
    starts: Starts,
    components: SmallVec<[Component; 4]>,
    /// Along the batch dimensions: steps of the placed side, which batching dimensions move, and of
    /// the other side.
    batches: Nest<2>,
}

impl Windows {
    /// With the byte steps `placed` and `plain` of either side along the batch dimensions.
    pub fn new(
        starts: Starts,
        components: SmallVec<[Component; 4]>,
        placed: &[isize],
        plain: &[isize],
    ) -> Windows {
        Windows {
            components,
            batches: Nest::in_order(&starts.batch, [placed, plain]),
            starts,
        }
    }

    /// Number of windows.
    pub fn count(&self) -> usize {
        self.starts.count()
    }

    /// Whether every walk reads the indices again, and keeps none of them.
    pub fn reads_indices_anew(&self) -> bool {
        matches!(self.starts.values, Values::InPlace { .. })
    }

    /// Lets the indices be at another address, where none of them is kept.
    pub fn read_at(&mut self, indices: *mut u8) {
        if let Values::InPlace { pointer, .. } = &mut self.starts.values {
            *pointer = Shared::new(indices);
        }
    }

    /// From one window to the next along the fastest batch dimension, in the array they are not placed in.
    pub fn plain_step(&self) -> isize {
        self.batches.inner.1[1]
    }

    /// Whether windows are where their components alone say, and each is one step behind the last one in the other array.
    pub fn are_one_row(&self) -> bool {
        self.batches.rows() == 1 && self.batches.inner.1[0] == 0
    }

    /// Windows of `range` that are read at a time.
    fn at_once(&self, range: &Range<usize>) -> usize {
        (BLOCK / self.starts.width.max(1)).clamp(1, range.len().max(1))
    }

    /// How far the components of these windows move them, in bytes, and whether any begins outside.
    #[inline(always)]
    fn read<'m, const SKIP: bool>(
        &self,
        windows: Range<usize>,
        values: &mut SmallVec<[i64; BLOCK]>,
        moves: &'m mut [Place; BLOCK],
    ) -> (&'m [isize], bool) {
        let (first, moves) = (windows.start, &mut moves[..windows.len()]);
        self.starts
            .places(first, &self.components, SKIP, values, moves)
    }

    /// Calls `f(placed, first, has_outside)` with the byte offsets of at most [`BLOCK`] of the windows `range` at a time,
    /// which [are one row](Self::are_one_row), the offset of the first of these in the other array, and whether any begins
    /// outside. Such a one is moved as by [`Windows::for_each`], or with `SKIP` its place is [`OUTSIDE`].
    pub fn for_each_block<const SKIP: bool>(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(&[isize], isize, bool),
    ) {
        let at_once = self.at_once(&range);
        let (mut values, mut moves) = (SmallVec::new(), [Place::uninit(); BLOCK]);
        for n in range.clone().step_by(at_once) {
            let end = range.end.min(n + at_once);
            let (moves, has_outside) = self.read::<SKIP>(n..end, &mut values, &mut moves);
            f(moves, n as isize * self.plain_step(), has_outside);
        }
    }

    /// Calls `f(placed, plain)` with the byte offsets of the windows `range` in order. A window
    /// that begins outside is moved to the nearest place inside, or with `SKIP` left out.
    #[inline(always)]
    pub fn for_each<const SKIP: bool>(&self, range: Range<usize>, mut f: impl FnMut(isize, isize)) {
        let at_once = self.at_once(&range);
        let (mut values, mut moves) = (SmallVec::new(), [Place::uninit(); BLOCK]);
        let mut rows: SmallVec<[[isize; 2]; 8]> = SmallVec::new();
        let (length, [placed, plain]) = self.batches.inner;
        let mut n = range.start;
        while n < range.end {
            let end = range.end.min(n + at_once);
            let (moves, _) = self.read::<SKIP>(n..end, &mut values, &mut moves);
            rows.clear();
            let all = n / length..(end - 1) / length + 1;
            self.batches.for_rows(all, |offsets| rows.push(offsets));
            let mut left = moves;
            // Not in the closure above, which would keep what `f` captures in memory.
            for [a, b] in &rows {
                let first = n % length;
                let (own, rest) = left.split_at((length - first).min(left.len()));
                left = rest;
                n += own.len();
                let mut start = a + first as isize * placed;
                let mut other = b + first as isize * plain;
                for &moved in own {
                    if !SKIP || moved != OUTSIDE {
                        f(start + moved, other);
                    }
                    start += placed;
                    other += plain;
                }
            }
        }
    }
}
