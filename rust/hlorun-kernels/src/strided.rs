//! Copies between strided arrays, fills and gathers.
//!
//! In: an element size, dimensions, and byte strides of both sides. Out: the copied bytes. Promise: adjacent
//! dimensions that are contiguous on both sides are merged; the innermost loop runs over the destination's densest
//! dimension; dimensions that are dense on opposite sides are copied in blocks.

mod apart;
mod crossed;
mod short_rows;

use crate::copy::copy;
use apart::apart;
use crossed::{blocks, runs};
pub use repeated::REPEATED;
use repeated::repeated;
use short_rows::{SHORT, short_rows};

/// At most this many dimensions are copied without recursion or allocation.
pub const MAX_RANK: usize = 64;

#[derive(Clone, Copy, Default)]
struct Dim {
    size: usize,
    src: isize,
    dst: isize,
}

macro_rules! by_size {
    ($size:expr, $run:ident($($arg:expr),*), $other:expr) => {
        match $size {
            1 => $run::<u8>($($arg),*),
            2 => $run::<u16>($($arg),*),
            4 => $run::<u32>($($arg),*),
            8 => $run::<u64>($($arg),*),
            16 => $run::<[u64; 2]>($($arg),*),
            32 => $run::<[u64; 4]>($($arg),*),
            64 => $run::<[u64; 8]>($($arg),*),
            _ => $other,
        }
    };
}

mod fill;
pub mod line_rows;
pub mod picks;
mod repeated;

pub use fill::fill;

/// Writes each of `rows` elements, `step` bytes apart, `count` times, side by side.
///
/// # Safety
/// The elements are readable from `src` on, `count` times as many writable in `dst`; the two do not overlap.
pub unsafe fn repeat(
    elem_size: usize,
    rows: usize,
    step: isize,
    count: usize,
    src: *const u8,
    dst: *mut u8,
) {
    let rows = Dim {
        size: rows,
        src: step,
        dst: (elem_size * count) as isize,
    };
    // SAFETY: the caller's contract.
    unsafe { repeated(elem_size, rows, count, src, dst) }
}

/// Copies `dims.iter().product()` elements of `elem_size` bytes; strides are in bytes, one per dimension, of any sign.
///
/// # Panics
/// Never on valid slices; `dims`, `src_strides` and `dst_strides` have the same length, at most [`MAX_RANK`].
///
/// # Safety
/// Every element the strides reach is readable in `src` and writable in `dst`; the two do not overlap; destination
/// elements are distinct.
pub unsafe fn copy_strided(
    elem_size: usize,
    dims: &[usize],
    src: *const u8,
    src_strides: &[isize],
    dst: *mut u8,
    dst_strides: &[isize],
) {
    debug_assert!(
        dims.len() <= MAX_RANK
            && dims.len() == src_strides.len()
            && dims.len() == dst_strides.len()
    );
    if dims.contains(&0) {
        return;
    }
    let mut list = [Dim::default(); MAX_RANK];
    let mut rank = 0;
    for ((&size, &src), &dst) in dims.iter().zip(src_strides).zip(dst_strides) {
        if size != 1 && rank < MAX_RANK {
            list[rank] = Dim { size, src, dst };
            rank += 1;
        }
    }
    let dims = ordered(&mut list[..rank]);
    // SAFETY: the ordered dimensions reach the same elements as the given ones.
    unsafe {
        let Some((&mut inner, outer)) = dims.split_last_mut() else {
            std::ptr::copy_nonoverlapping(src, dst, elem_size);
            return;
        };
        let es = elem_size as isize;
        if inner.src == es && inner.dst == es {
            return contiguous(outer, inner.size * elem_size, src, dst);
        }
        // The dimension that is densest in the source becomes the other side of a blocked transpose.
        let dense = (0..dims.len())
            .filter(|&i| dims[i].src != 0)
            .min_by_key(|&i| dims[i].src.unsigned_abs());
        let last = dims.len() - 1;
        match dense {
            Some(dense) if dense != last && inner.src != 0 => {
                if blocks(elem_size, dims, dense, src, dst)
                    || (inner.size <= REPEATED
                        && by_size!(elem_size, runs(dims, Some(dense), src, dst), false))
                {
                    return;
                }
                dims[dense..last].rotate_left(1);
                let [outer @ .., across, inner] = dims else {
                    return;
                };
                let (across, inner) = (*across, *inner);
                walk(outer, src, dst, |s, d| {
                    planes(elem_size, across, inner, s, d)
                });
            }
            // Rows of one element each are filled.
            _ if inner.src == 0 && inner.dst == es => {
                filled(elem_size, &dims[..last], inner.size, src, dst);
            }
            _ if inner.size <= REPEATED
                && by_size!(elem_size, runs(dims, None, src, dst), false) => {}
            _ => rows(elem_size, &dims[..last], inner, src, dst),
        }
    }
}

/// The dimensions, densest destination last, and those that are contiguous on both sides merged.
fn ordered(dims: &mut [Dim]) -> &mut [Dim] {
    order(dims);
    let mut count = 0;
    for at in 0..dims.len() {
        let d = dims[at];
        if count > 0 {
            let outer = &mut dims[count - 1];
            let n = d.size as isize;
            if outer.src == d.src * n && outer.dst == d.dst * n {
                *outer = Dim {
                    size: outer.size * d.size,
                    ..d
                };
                continue;
            }
        }
        dims[count] = d;
        count += 1;
    }
    &mut dims[..count]
}

/// Puts the shortest step in the destination last; ties by the source.
fn order(dims: &mut [Dim]) {
    dims.sort_by_key(|d| std::cmp::Reverse((d.dst.unsigned_abs(), d.src.unsigned_abs())));
}

/// Rows of `bytes` bytes that are contiguous on both sides.
unsafe fn contiguous(outer: &[Dim], bytes: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes rows inside both arrays.
    unsafe {
        if let Some((&rows, outer)) = outer.split_last()
            && bytes <= SHORT
        {
            return walk(outer, src, dst, |s, d| short_rows(rows, bytes, s, d));
        }
        walk(outer, src, dst, |s, d| copy(s, d, bytes));
    }
}

/// Dense rows of `n` times the same element.
unsafe fn filled(elem_size: usize, outer: &[Dim], n: usize, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes rows inside both arrays.
    unsafe {
        if let Some((&rows, outer)) = outer.split_last()
            && n <= REPEATED
        {
            return walk(outer, src, dst, |s, d| {
                repeated(elem_size, rows, n, s, d);
            });
        }
        walk(outer, src, dst, |s, d| fill(elem_size, s, d, n));
    }
}

/// Rows along `inner`, which are dense on one side at most.
unsafe fn rows(elem_size: usize, outer: &[Dim], inner: Dim, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes rows inside both arrays.
    unsafe {
        if let Some((&rows, outer)) = outer.split_last()
            && inner.size <= REPEATED
        {
            return walk(outer, src, dst, |s, d| {
                plane(elem_size, rows, inner, s, d);
            });
        }
        walk(outer, src, dst, |s, d| row(elem_size, inner, s, d));
    }
}

/// Calls `f` at every index of `dims`, without recursion.
unsafe fn walk(dims: &[Dim], src: *const u8, dst: *mut u8, f: impl Fn(*const u8, *mut u8)) {
    let mut index = [0usize; MAX_RANK];
    let (mut s, mut d) = (src, dst);
    loop {
        f(s, d);
        let mut axis = dims.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            let dim = dims[axis];
            index[axis] += 1;
            // wrapping: one step past the end is computed and taken back, never read.
            s = s.wrapping_offset(dim.src);
            d = d.wrapping_offset(dim.dst);
            if index[axis] < dim.size {
                break;
            }
            index[axis] = 0;
            s = s.wrapping_offset(dim.src.wrapping_mul(-(dim.size as isize)));
            d = d.wrapping_offset(dim.dst.wrapping_mul(-(dim.size as isize)));
        }
    }
}

/// Copies `n` elements of `elem_size` bytes that lie `src_stride` and `dst_stride` bytes apart: [`copy_strided`] of one
/// dimension, without what that does to find the best order of several.
///
/// # Safety
/// As for [`copy_strided`].
pub unsafe fn copy_row(
    elem_size: usize,
    n: usize,
    src: *const u8,
    src_stride: isize,
    dst: *mut u8,
    dst_stride: isize,
) {
    let es = elem_size as isize;
    // SAFETY: the caller's contract.
    unsafe {
        match (src_stride, dst_stride == es) {
            (0, true) => fill(elem_size, src, dst, n),
            (stride, true) if stride == es => {
                copy(src, dst, n * elem_size);
            }
            _ => {
                let dim = Dim {
                    size: n,
                    src: src_stride,
                    dst: dst_stride,
                };
                row(elem_size, dim, src, dst);
            }
        }
    }
}

unsafe fn row(elem_size: usize, dim: Dim, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes a row inside both arrays.
    unsafe {
        by_size!(elem_size, typed_row(dim, src, dst), {
            for i in 0..dim.size as isize {
                std::ptr::copy_nonoverlapping(
                    src.offset(i * dim.src),
                    dst.offset(i * dim.dst),
                    elem_size,
                );
            }
        })
    }
}

/// Fewest elements of a row for which the loop of its step is looked for.
const FEW: usize = 32;

unsafe fn typed_row<T: Copy>(dim: Dim, src: *const u8, dst: *mut u8) {
    // SAFETY: as in row; unaligned accesses, because strides are any number of bytes.
    unsafe {
        if dim.dst == size_of::<T>() as isize {
            if dim.size >= FEW && apart::<T>(src, dim.src, dim.size, dst) {
                return;
            }
            let to = dst.cast::<T>();
            for i in 0..dim.size {
                to.add(i).write_unaligned(
                    src.offset(i as isize * dim.src)
                        .cast::<T>()
                        .read_unaligned(),
                );
            }
            return;
        }
        for i in 0..dim.size as isize {
            let x = src.offset(i * dim.src).cast::<T>().read_unaligned();
            dst.offset(i * dim.dst).cast::<T>().write_unaligned(x);
        }
    }
}

/// Bytes of the source that all rows are copied from before the next ones: they stay in the first-level cache.
const PLANE: usize = 16 << 10;

/// [`plane`] of rows that lie between each other in the source, some elements of all rows after the other.
unsafe fn planes(elem_size: usize, across: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
    let step = inner.src.unsigned_abs().max(1);
    let most = (PLANE / step).max(FEW);
    for start in (0..inner.size).step_by(most) {
        let part = Dim {
            size: most.min(inner.size - start),
            ..inner
        };
        // SAFETY: the caller passes a plane inside both arrays, of which this is a part.
        unsafe {
            let src = src.offset(start as isize * inner.src);
            let dst = dst.offset(start as isize * inner.dst);
            plane(elem_size, across, part, src, dst);
        }
    }
}

unsafe fn plane(elem_size: usize, across: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
    // SAFETY: the caller passes a plane inside both arrays.
    unsafe {
        by_size!(elem_size, typed_plane(across, inner, src, dst), {
            for i in 0..across.size as isize {
                row(
                    elem_size,
                    inner,
                    src.offset(i * across.src),
                    dst.offset(i * across.dst),
                );
            }
        })
    }
}

/// Side of a block, in bytes of the dense side: one cache line each way.
const BLOCK_BYTES: usize = 64;

unsafe fn typed_plane<T: Copy>(across: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
    let block = (BLOCK_BYTES / size_of::<T>()).max(8);
    let dense_dst = inner.dst == size_of::<T>() as isize;
    let mut j = 0;
    while j < inner.size {
        let w = block.min(inner.size - j);
        let mut i = 0;
        while i < across.size {
            let h = block.min(across.size - i);
            // SAFETY: the block lies inside the plane.
            unsafe {
                for y in i..i + h {
                    let s = src.offset(y as isize * across.src + j as isize * inner.src);
                    let d = dst.offset(y as isize * across.dst + j as isize * inner.dst);
                    let dim = Dim { size: w, ..inner };
                    if dense_dst {
                        for x in 0..w {
                            let v = s
                                .offset(x as isize * inner.src)
                                .cast::<T>()
                                .read_unaligned();
                            d.cast::<T>().add(x).write_unaligned(v);
                        }
                    } else {
                        typed_row::<T>(dim, s, d);
                    }
                }
            }
            i += h;
        }
        j += w;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every permutation of three dimensions, forwards and backwards, against index arithmetic.
    #[test]
    fn copies_match_index_arithmetic() {
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        for size in [1usize, 2, 3, 4, 8, 16] {
            for shape in [[3, 5, 70], [17, 1, 9], [2, 33, 4], [1, 1, 1], [0, 4, 4]] {
                let total: usize = shape.iter().product();
                let src: Vec<u8> = (0..total * size).map(|i| (i * 31 % 251) as u8).collect();
                for order in orders {
                    for (reverse, repeat) in [(false, false), (true, false), (false, true)] {
                        check(size, shape, &src, order, reverse, repeat);
                    }
                }
            }
        }
    }

    fn check(
        size: usize,
        shape: [usize; 3],
        src: &[u8],
        order: [usize; 3],
        reverse: bool,
        repeat: bool,
    ) {
        let total: usize = shape.iter().product();
        let dims = order.map(|axis| shape[axis]);
        let natural = [shape[1] * shape[2] * size, shape[2] * size, size];
        let mut from = order.map(|axis| natural[axis] as isize);
        let mut base = 0usize;
        if reverse && total > 0 {
            base = (dims[0] - 1) * from[0] as usize;
            from[0] = -from[0];
        }
        if repeat {
            from[1] = 0;
        }
        let to = [dims[1] * dims[2] * size, dims[2] * size, size].map(|s| s as isize);
        let mut got = vec![0u8; total * size];
        // SAFETY: the strides reach exactly the elements of both arrays.
        unsafe {
            copy_strided(
                size,
                &dims,
                src.as_ptr().wrapping_add(base),
                &from,
                got.as_mut_ptr(),
                &to,
            )
        };
        let mut want = vec![0u8; total * size];
        for i in 0..dims[0] {
            for j in 0..dims[1] {
                for k in 0..dims[2] {
                    let index = [i, j, k];
                    let at =
                        |s: &[isize; 3]| (0..3).map(|d| index[d] as isize * s[d]).sum::<isize>();
                    let (s, d) = ((base as isize + at(&from)) as usize, at(&to) as usize);
                    want[d..d + size].copy_from_slice(&src[s..s + size]);
                }
            }
        }
        assert_eq!(got, want, "{size} {shape:?} {order:?} {reverse} {repeat}");
    }

    #[test]
    fn fills_every_size() {
        for size in [1usize, 2, 3, 4, 8, 16] {
            let pattern: Vec<u8> = (1..=size as u8).collect();
            for n in [0, 1, 7, 37, 300] {
                let mut out = vec![0u8; (n + 1) * size];
                // SAFETY: room for one more.
                unsafe { fill(size, pattern.as_ptr(), out.as_mut_ptr(), n) };
                assert!(out[..n * size].chunks(size).all(|c| c == pattern));
                assert!(out[n * size..].iter().all(|&b| b == 0));
            }
        }
    }
}
