//! Copies between arrays that are dense along different dimensions.
//!
//! In: dimensions, one of them dense in the source, and another in the destination. Out: the copied bytes. What lies
//! together in the destination makes rows, what lies together in the source columns, each of as many dimensions as it
//! takes; blocks of them are transposed in registers.

use super::{Dim, MAX_RANK, order, walk};
use crate::transpose::{self, BAND, BAND_OF_PAGES, DONE, MAX_SIDE, PAGE, Places};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Elements of dimensions that are walked as one; the last moves first.
fn count(dims: &[Dim]) -> usize {
    dims.iter().map(|dim| dim.size).product()
}

/// Goes over the elements of some dimensions.
struct Walker<'a, F> {
    dims: &'a [Dim],
    /// Bytes between neighbours along a dimension.
    step: F,
    index: [usize; MAX_RANK],
    /// The element it is at, and where that is.
    element: usize,
    place: isize,
}

impl<'a, F: Fn(&Dim) -> isize> Walker<'a, F> {
    fn new(dims: &'a [Dim], step: F) -> Walker<'a, F> {
        Walker {
            dims,
            step,
            index: [0; MAX_RANK],
            element: 0,
            place: 0,
        }
    }

    fn seek(&mut self, element: usize) {
        let mut rest = element;
        (self.element, self.place) = (element, 0);
        for (index, dim) in self.index[..self.dims.len()]
            .iter_mut()
            .zip(self.dims)
            .rev()
        {
            *index = rest % dim.size;
            rest /= dim.size;
            self.place += *index as isize * (self.step)(dim);
        }
    }

    /// Where the elements from `element` on are.
    fn places(&mut self, element: usize, out: &mut [isize]) {
        if element != self.element {
            self.seek(element);
        }
        self.element += out.len();
        // Mostly they are neighbours along one dimension.
        if let Some(last) = self.dims.len().checked_sub(1)
            && self.index[last] + out.len() < self.dims[last].size
        {
            let (from, step) = (self.place, (self.step)(&self.dims[last]));
            for (at, place) in out.iter_mut().enumerate() {
                *place = from + at as isize * step;
            }
            self.index[last] += out.len();
            self.place += out.len() as isize * step;
            return;
        }
        for place in out {
            *place = self.place;
            for (index, dim) in self.index[..self.dims.len()]
                .iter_mut()
                .zip(self.dims)
                .rev()
            {
                *index += 1;
                self.place += (self.step)(dim);
                if *index < dim.size {
                    break;
                }
                self.place -= *index as isize * (self.step)(dim);
                *index = 0;
            }
        }
    }
}

/// Dimensions by what lies together, in one list: others, those dense in the source, those dense in the destination.
struct Split<'a> {
    outer: &'a [Dim],
    columns: &'a [Dim],
    rows: &'a [Dim],
}

impl Split<'_> {
    /// `dims` are ordered by their steps in the destination, the shortest last; `dense` has the shortest in the source.
    fn of(dims: &mut [Dim], dense: usize) -> Split<'_> {
        let mut rows_at = dims.len() - 1;
        dims[dense..rows_at].rotate_left(1);
        let mut columns_at = rows_at - 1;
        loop {
            let (row, column) = (dims[rows_at], dims[columns_at]);
            let (row_end, column_end) = (
                row.size as isize * row.dst,
                column.size as isize * column.src,
            );
            let outer = &dims[..columns_at];
            let next_row = outer.iter().rposition(|dim| dim.dst == row_end);
            let next_column = outer.iter().rposition(|dim| dim.src == column_end);
            let is_row = count(&dims[rows_at..]) <= count(&dims[columns_at..rows_at]);
            match (next_row, next_column) {
                (Some(at), column) if is_row || column.is_none() => {
                    dims[at..rows_at].rotate_left(1);
                    rows_at -= 1;
                }
                (_, Some(at)) => dims[at..columns_at].rotate_left(1),
                _ => break,
            }
            columns_at -= 1;
        }
        let (dims, rows) = dims.split_at(rows_at);
        let (outer, columns) = dims.split_at(columns_at);
        Split {
            outer,
            columns,
            rows,
        }
    }
}

/// Copies by blocks in registers; returns false, and copies nothing, where there are none of such elements or sizes.
///
/// `dims` are ordered by their steps in the destination, the shortest last, and are so afterwards where it returns false;
/// `dense` has the shortest in the source.
///
/// # Safety
/// As for [`super::copy_strided`].
pub unsafe fn blocks(
    size: usize,
    dims: &mut [Dim],
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
    let all = count(dims);
    let split = Split::of(dims, dense);
    let Some(sides) = transpose::sides(size, count(split.rows), count(split.columns)) else {
        order(dims);
        return false;
    };
    // Whole lines leave past the caches.
    let stream = sides.0 * size == LINE
        && all * size >= transpose::STREAM_BYTES
        && split.columns.iter().all(|dim| dim.dst % LINE as isize == 0);
    // SAFETY: the caller's promise; each side has a block at least.
    unsafe {
        walk(split.outer, src, dst, |s, d| {
            plane((size, sides), &split, s, d, stream);
        });
    }
    if stream {
        transpose::fence();
    }
    true
}

/// All columns of all rows, a band of columns after the other. The last blocks of each side overlap those before.
unsafe fn plane(
    (size, (side, wide)): (usize, (usize, usize)),
    split: &Split<'_>,
    src: *const u8,
    dst: *mut u8,
    stream: bool,
) {
    let (rows, columns) = (count(split.rows), count(split.columns));
    let (mut from, mut to) = ([0isize; MAX_SIDE], [0isize; BAND]);
    let mut row_walker = Walker::new(split.rows, |dim| dim.src);
    let mut column_walker = Walker::new(split.columns, |dim| dim.dst);
    let step = split.columns.last().map_or(0, |dim| dim.dst.unsigned_abs());
    let band = if step < PAGE { BAND } else { BAND_OF_PAGES };
    let mut column = 0;
    while column < columns {
        let new = band.min(columns - column);
        column_walker.places(column, &mut to[..new]);
        // Of the last block, only columns that no block before it has are written.
        let n = new.next_multiple_of(wide);
        let overlap = n - new;
        let last = n - wide;
        to.copy_within(last..new, last + overlap);
        to[last..last + overlap].fill(DONE);
        let mut row = 0;
        loop {
            row_walker.places(row, &mut from[..side]);
            let places = Places {
                rows: &from[..side],
                columns: &to[..n],
                last: wide,
                overlap,
            };
            // SAFETY: `side` rows of `new` columns lie inside both arrays, and `overlap` columns before the last block.
            unsafe {
                let (s, d) = (src.add(column * size), dst.add(row * size));
                let is_line = (d as usize).is_multiple_of(LINE);
                transpose::transpose_rows(size, places, s, d, stream && is_line);
                if row + side == rows {
                    break;
                }
                // Where lines leave past the caches, blocks begin where lines do.
                let skip = if stream {
                    d.align_offset(LINE) / size
                } else {
                    0
                };
                row += if skip == 0 { side } else { skip };
            }
            row = row.min(rows - side);
        }
        column += new;
    }
}

/// Most elements of a run whose places are kept in a table.
const TABLE: usize = 256;
/// Elements of a run from which it takes in no more dimensions.
const ENOUGH: usize = 64;
/// Fewest runs for which a table pays.
const FEWEST_RUNS: usize = 4;

/// Copies runs of the destination whose elements lie anywhere in the source, by a table of their places; returns false, and
/// copies nothing, where that is no gain.
///
/// `dims` are ordered by their steps in the destination, the shortest last; the runs are copied in the order of the others,
/// `dense` moving first.
///
/// # Safety
/// As for [`super::copy_strided`].
pub unsafe fn runs<T: Copy>(
    dims: &mut [Dim],
    dense: Option<usize>,
    src: *const u8,
    dst: *mut u8,
) -> bool {
    let mut at = dims.len();
    let mut end = size_of::<T>() as isize;
    while at > 0 && dims[at - 1].dst == end && count(&dims[at..]) < ENOUGH {
        at -= 1;
        end *= dims[at].size as isize;
    }
    let (outer, run) = dims.split_at_mut(at);
    if run.len() < 2 || count(outer) < FEWEST_RUNS {
        return false;
    }
    if let Some(dense) = dense.filter(|&dense| dense < outer.len()) {
        outer[dense..].rotate_left(1);
    }
    let (outer, run) = (&*outer, &*run);
    let mut table = [0isize; TABLE];
    let mut walker = Walker::new(run, |dim| dim.src);
    for start in (0..count(run)).step_by(TABLE) {
        let n = (count(run) - start).min(TABLE);
        walker.places(start, &mut table[..n]);
        // SAFETY: the runs lie inside both arrays; unaligned accesses, because steps are any number of bytes.
        unsafe {
            walk(outer, src, dst, |s, d| {
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
            // Few columns, whose rows are copied in parts, or whose last block has columns of the one before.
            [1, 5000, 1, 5],
            [1, 5000, 1, 9],
            [3, 700, 1, 20],
            [1, 40, 1, 150],
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
