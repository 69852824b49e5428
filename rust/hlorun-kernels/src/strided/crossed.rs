//! Copies between arrays that are dense along different dimensions.
//!
//! In: dimensions, one of them dense in the source, and another in the destination. Out: the copied bytes. What lies
//! together in the destination makes rows, what lies together in the source columns, each of as many dimensions as it
//! takes; blocks of them are transposed in registers.

use super::{Dim, MAX_RANK, walk};
use crate::transpose::{self, BAND, MAX_SIDE, Places};

/// Dimensions walked as one; the last moves first.
#[derive(Clone, Copy)]
struct Group {
    dims: [Dim; MAX_RANK],
    first: usize,
}

impl Group {
    const EMPTY: Group = Group {
        dims: [Dim {
            size: 0,
            src: 0,
            dst: 0,
        }; MAX_RANK],
        first: MAX_RANK,
    };

    /// Adds a dimension that moves after the others.
    fn push_front(&mut self, dim: Dim) {
        self.first -= 1;
        self.dims[self.first] = dim;
    }

    fn dims(&self) -> &[Dim] {
        &self.dims[self.first..]
    }

    fn count(&self) -> usize {
        self.dims().iter().map(|dim| dim.size).product()
    }
}

/// Where the elements from `start` on are, in steps of `step`.
fn places(dims: &[Dim], step: impl Fn(&Dim) -> isize, start: usize, out: &mut [isize]) {
    let mut index = [0usize; MAX_RANK];
    let (mut rest, mut at) = (start, 0isize);
    for (index, dim) in index.iter_mut().zip(dims).rev() {
        *index = rest % dim.size;
        rest /= dim.size;
        at += *index as isize * step(dim);
    }
    for place in out {
        *place = at;
        for (index, dim) in index[..dims.len()].iter_mut().zip(dims).rev() {
            *index += 1;
            at += step(dim);
            if *index < dim.size {
                break;
            }
            at -= *index as isize * step(dim);
            *index = 0;
        }
    }
}

/// Dimensions by what lies together.
struct Split {
    /// Dense in the source.
    columns: Group,
    /// Dense in the destination.
    rows: Group,
    outer: Group,
}

impl Split {
    /// `dims` are ordered by their steps in the destination, the shortest last; `dense` has the shortest in the source.
    fn of(dims: &[Dim], dense: usize) -> Split {
        let last = dims.len() - 1;
        let mut split = Split {
            columns: Group::EMPTY,
            rows: Group::EMPTY,
            outer: Group::EMPTY,
        };
        split.columns.push_front(dims[dense]);
        split.rows.push_front(dims[last]);
        let mut is_free = [true; MAX_RANK];
        (is_free[last], is_free[dense]) = (false, false);
        loop {
            let end = |dim: &Dim, step: isize| dim.size as isize * step;
            let row = &split.rows.dims()[0];
            let column = &split.columns.dims()[0];
            let (row_end, column_end) = (end(row, row.dst), end(column, column.src));
            let find = |fits: &dyn Fn(&Dim) -> bool| {
                (0..dims.len()).find(|&at| is_free[at] && fits(&dims[at]))
            };
            let row = find(&|dim| dim.dst == row_end);
            let column = find(&|dim| dim.src == column_end);
            let is_row = split.rows.count() <= split.columns.count();
            let (at, group) = match (row, column) {
                (Some(at), column) if is_row || column.is_none() => (at, &mut split.rows),
                (_, Some(at)) => (at, &mut split.columns),
                _ => break,
            };
            group.push_front(dims[at]);
            is_free[at] = false;
        }
        for at in (0..dims.len()).rev().filter(|&at| is_free[at]) {
            split.outer.push_front(dims[at]);
        }
        split
    }
}

/// Copies by blocks in registers; returns false, and does nothing, where there are none of such elements or sizes.
///
/// `dims` are ordered by their steps in the destination, the shortest last; `dense` has the shortest in the source.
///
/// # Safety
/// As for [`super::copy_strided`].
pub unsafe fn blocks(
    size: usize,
    dims: &[Dim],
    dense: usize,
    src: *const u8,
    dst: *mut u8,
) -> bool {
    let is_plain = matches!(size, 1 | 2 | 4 | 8)
        && dims[dense].src == size as isize
        && dims[dims.len() - 1].dst == size as isize
        && transpose::available();
    if !is_plain {
        return false;
    }
    let split = Split::of(dims, dense);
    let side = transpose::side(size);
    if split.rows.count() < side || split.columns.count() < side {
        return false;
    }
    let all: usize = dims.iter().map(|dim| dim.size).product();
    // Whole lines leave past the caches.
    let stream = size >= 4
        && all * size >= transpose::STREAM_BYTES
        && split.columns.dims().iter().all(|dim| dim.dst % 64 == 0);
    // SAFETY: the caller's promise; each side has a block at least.
    unsafe {
        walk(split.outer.dims(), src, dst, |s, d| {
            plane(size, &split, s, d, stream);
        });
    }
    if stream {
        transpose::fence();
    }
    true
}

/// All columns of all rows, a band of columns after the other. The last blocks of each side overlap those before.
unsafe fn plane(size: usize, split: &Split, src: *const u8, dst: *mut u8, stream: bool) {
    let side = transpose::side(size);
    let (rows, columns) = (split.rows.count(), split.columns.count());
    let (mut from, mut to) = ([0isize; MAX_SIDE], [0isize; BAND]);
    let mut done = 0;
    while done < columns {
        let most = BAND.min(columns / side * side);
        let n = (columns - done).next_multiple_of(side).min(most);
        let column = done.min(columns - n);
        places(split.columns.dims(), |dim| dim.dst, column, &mut to[..n]);
        let mut row = 0;
        loop {
            places(split.rows.dims(), |dim| dim.src, row, &mut from[..side]);
            let places = Places {
                rows: &from[..side],
                columns: &to[..n],
            };
            // SAFETY: `side` rows of `n` columns lie inside both arrays.
            unsafe {
                let (s, d) = (src.add(column * size), dst.add(row * size));
                let is_line = (d as usize).is_multiple_of(64);
                transpose::transpose_rows(size, places, s, d, stream && is_line);
                if row + side == rows {
                    break;
                }
                // Where lines leave past the caches, blocks begin where lines do.
                let skip = if stream { d.align_offset(64) / size } else { 0 };
                row += if skip == 0 { side } else { skip };
            }
            row = row.min(rows - side);
        }
        done = column + n;
    }
}

/// Most elements of a run whose places are kept in a table.
const TABLE: usize = 256;
/// Elements of a run from which it takes in no more dimensions.
const ENOUGH: usize = 64;
/// Fewest runs for which a table pays.
const FEWEST_RUNS: usize = 4;

/// Copies runs of the destination whose elements lie anywhere in the source, by a table of their places; returns false, and
/// does nothing, where that is no gain.
///
/// `dims` are ordered by their steps in the destination, the shortest last; the runs are copied in the order of the others,
/// `dense` moving first.
///
/// # Safety
/// As for [`super::copy_strided`].
pub unsafe fn runs<T: Copy>(
    dims: &[Dim],
    dense: Option<usize>,
    src: *const u8,
    dst: *mut u8,
) -> bool {
    let size = size_of::<T>() as isize;
    let (mut run, mut outer) = (Group::EMPTY, Group::EMPTY);
    let mut end = size;
    let mut rest = dims;
    while let Some((&dim, before)) = rest.split_last()
        && dim.dst == end
        && run.count() < ENOUGH
    {
        run.push_front(dim);
        end *= dim.size as isize;
        rest = before;
    }
    let dense = dense.filter(|&at| at < rest.len());
    if let Some(at) = dense {
        outer.push_front(rest[at]);
    }
    for at in (0..rest.len()).rev().filter(|&at| Some(at) != dense) {
        outer.push_front(rest[at]);
    }
    if run.dims().len() < 2 || outer.count() < FEWEST_RUNS {
        return false;
    }
    let mut table = [0isize; TABLE];
    for start in (0..run.count()).step_by(TABLE) {
        let n = (run.count() - start).min(TABLE);
        places(run.dims(), |dim| dim.src, start, &mut table[..n]);
        // SAFETY: the runs lie inside both arrays; unaligned accesses, because steps are any number of bytes.
        unsafe {
            walk(outer.dims(), src, dst, |s, d| {
                let to = d.cast::<T>().add(start);
                for (i, &place) in table[..n].iter().enumerate() {
                    to.add(i)
                        .write_unaligned(s.offset(place).cast::<T>().read_unaligned());
                }
            });
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::copy_strided;

    /// Permutations of shapes whose blocks take several dimensions, or end inside one, against index arithmetic.
    #[test]
    fn permutations_match_index_arithmetic() {
        let shapes = [
            [9, 27, 5, 6],
            [3, 7, 43, 14],
            [2, 3, 2, 40],
            [16, 16, 16, 2],
            [130, 3, 1, 70],
            [2, 2, 2, 2],
        ];
        for shape in shapes {
            for order in [
                [3, 2, 1, 0],
                [3, 0, 2, 1],
                [2, 3, 0, 1],
                [1, 3, 2, 0],
                [0, 3, 1, 2],
            ] {
                for size in [1, 2, 4, 8, 16] {
                    check(size, shape, order, false);
                    check(size, shape, order, true);
                }
            }
        }
    }

    /// `backwards`: the dimension that comes first in the destination is read from its end.
    fn check(size: usize, shape: [usize; 4], order: [usize; 4], backwards: bool) {
        let total: usize = shape.iter().product();
        let src: Vec<u8> = (0..total * size).map(|i| (i * 37 % 253) as u8).collect();
        let strides = |dims: [usize; 4]| {
            let mut strides = [size; 4];
            for at in (0..3).rev() {
                strides[at] = strides[at + 1] * dims[at + 1];
            }
            strides.map(|stride| stride as isize)
        };
        let dims = order.map(|axis| shape[axis]);
        let mut from = order.map(|axis| strides(shape)[axis]);
        let to = strides(dims);
        let mut first = 0;
        if backwards {
            first = from[0] * (dims[0] as isize - 1);
            from[0] = -from[0];
        }
        let mut got = vec![0xEEu8; (total + 1) * size];
        // SAFETY: the strides reach exactly the elements of both arrays.
        unsafe {
            let src = src.as_ptr().offset(first);
            copy_strided(size, &dims, src, &from, got.as_mut_ptr(), &to);
        }
        for place in 0..total {
            let (mut rest, mut at) = (place, first);
            for axis in (0..4).rev() {
                at += (rest % dims[axis]) as isize * from[axis];
                rest /= dims[axis];
            }
            let want = &src[at as usize..at as usize + size];
            let name = format!("{size} {shape:?} {order:?} {backwards} {place}");
            assert_eq!(&got[place * size..][..size], want, "{name}");
        }
        assert!(got[total * size..].iter().all(|&byte| byte == 0xEE));
    }

    /// Large enough to leave past the caches, from places where lines begin and where none does.
    #[test]
    fn lines_past_the_caches_hold_what_others_do() {
        const ROWS: usize = 1040;
        for (columns, skip) in [(4112usize, 0usize), (4112, 3), (4101, 0)] {
            let src: Vec<u32> = (0..(ROWS * columns) as u32).collect();
            let row = ROWS + 16;
            let mut dst = vec![u32::MAX; row * columns + 64];
            let first = dst.as_ptr().align_offset(64) + skip;
            // SAFETY: the strides stay inside both arrays.
            unsafe {
                copy_strided(
                    4,
                    &[columns, ROWS],
                    src.as_ptr().cast(),
                    &[4, columns as isize * 4],
                    dst.as_mut_ptr().add(first).cast(),
                    &[row as isize * 4, 4],
                );
            }
            for (column, line) in dst[first..].chunks(row).take(columns).enumerate() {
                for (at, &got) in line.iter().enumerate().take(ROWS) {
                    assert_eq!(got as usize, at * columns + column);
                }
                assert!(line[ROWS..].iter().all(|&other| other == u32::MAX));
            }
        }
    }
}
