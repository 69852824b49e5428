//! Inputs of fused loops whose rows lie in several arrays: concatenations that are stored nowhere.
//!
//! In: the pieces of a row. Out: elements of the whole, side by side; or where they are, if they lie so in one piece.

use smallvec::SmallVec;

use crate::exec::memory::Memory;
use crate::plan::thunk::Piece;

/// A piece of every row, its address resolved.
struct Located {
    base: *const u8,
    /// Elements of a row before it.
    first: usize,
    /// Elements of it.
    count: usize,
    /// Bytes from row to row, and from one element to the next.
    steps: [isize; 2],
}

/// A joined input.
pub struct Joined {
    pieces: SmallVec<[Located; 2]>,
    /// Elements of a row.
    row: usize,
    /// Bytes of an element.
    size: usize,
}

impl Joined {
    /// The input of `pieces`, whose elements have `size` bytes.
    pub fn new(memory: &Memory, pieces: &[Piece], size: usize) -> Joined {
        let mut row = 0;
        let pieces = pieces.iter().map(|piece| {
            let (count, step) = piece.row;
            let first = row;
            row += count;
            Located {
                base: memory.first(&piece.view).cast_const(),
                first,
                count,
                steps: [piece.rows.1, step].map(|step| step as isize * size as isize),
            }
        });
        let pieces = pieces.collect();
        Joined { pieces, row, size }
    }

    /// Where elements `start..start + n` are, if they lie side by side.
    pub fn run_at(&self, start: usize, n: usize) -> Option<*const u8> {
        let (row, column) = (start / self.row, start % self.row);
        let is_inside = |p: &&Located| p.first <= column && column + n <= p.first + p.count;
        let piece = self.pieces.iter().find(is_inside)?;
        let is_dense = piece.steps[1] == self.size as isize;
        is_dense.then(|| piece.at(row, column - piece.first))
    }

    /// Copies elements `start..start + n` to `out`.
    ///
    /// # Safety
    ///
    /// The input has them, `out` has room for them, and the two do not overlap.
    pub unsafe fn gather(&self, start: usize, n: usize, out: *mut u8) {
        let mut done = 0;
        while done < n {
            let (row, column) = ((start + done) / self.row, (start + done) % self.row);
            let left = n - done;
            // Whole rows at once; those at either end may be parts.
            let (rows, columns) = match column == 0 && left >= self.row {
                true => (left / self.row, self.row),
                false => (1, (self.row - column).min(left)),
            };
            for piece in &self.pieces {
                let first = piece.first.max(column);
                let end = (piece.first + piece.count).min(column + columns);
                if first >= end {
                    continue;
                }
                let size = self.size as isize;
                let to = out.wrapping_add((done + first - column) * self.size);
                // SAFETY: the caller's promise; the piece has these columns in every row.
                unsafe {
                    hlorun_kernels::copy_strided(
                        self.size,
                        &[rows, end - first],
                        piece.at(row, first - piece.first),
                        &piece.steps,
                        to,
                        &[self.row as isize * size, size],
                    );
                }
            }
            done += rows * columns;
        }
    }
}

impl Located {
    fn at(&self, row: usize, column: usize) -> *const u8 {
        let [row_step, step] = self.steps;
        let bytes = row as isize * row_step + column as isize * step;
        self.base.wrapping_offset(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of three elements two apart, then of four that follow each other, from two arrays.
    fn joined(a: &[u32], b: &[u32]) -> Joined {
        let located = |from: &[u32], first, count, steps: [isize; 2]| Located {
            base: from.as_ptr().cast(),
            first,
            count,
            steps: steps.map(|step| 4 * step),
        };
        let pieces = [located(a, 0, 3, [7, 2]), located(b, 3, 4, [5, 1])];
        Joined {
            pieces: pieces.into_iter().collect(),
            row: 7,
            size: 4,
        }
    }

    #[test]
    fn elements_are_those_of_the_pieces() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..100).collect(), (1000..1100).collect());
        let joined = joined(&a, &b);
        let expected = |at: usize| match at % 7 {
            column @ 0..3 => a[at / 7 * 7 + column * 2],
            column => b[at / 7 * 5 + column - 3],
        };
        for start in 0..30 {
            for n in 0..40 {
                let mut out = vec![0u32; n];
                // SAFETY: the arrays hold ten rows, and `out` what is asked for.
                unsafe { joined.gather(start, n, out.as_mut_ptr().cast()) };
                assert!(out.iter().copied().eq((start..start + n).map(expected)));
                if let Some(run) = joined.run_at(start, n) {
                    // SAFETY: as above.
                    let run = unsafe { std::slice::from_raw_parts(run.cast::<u32>(), n) };
                    assert_eq!(run, out);
                }
            }
        }
        assert!(joined.run_at(3, 4).is_some() && joined.run_at(10, 4).is_some());
        assert!(joined.run_at(0, 2).is_none() && joined.run_at(4, 4).is_none());
    }
}
