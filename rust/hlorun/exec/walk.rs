//! Moves a run of elements between a strided walk and contiguous memory.

use crate::plan::view::Walk;

/// A position on a walk.
struct Cursor {
    /// Offset in elements of the current row's first element.
    row: i64,
    /// Position within the row.
    inner: i64,
    /// Indices of the outer dimensions, same order as the walk.
    index: smallvec::SmallVec<[i64; 4]>,
}

impl Cursor {
    fn new(walk: &Walk, start: usize) -> Cursor {
        let mut rest = start as i64;
        let mut index: smallvec::SmallVec<[i64; 4]> = smallvec::SmallVec::from_elem(0, walk.len());
        let mut row = 0;
        for (at, &(size, stride)) in walk.iter().enumerate().rev() {
            index[at] = rest % size;
            rest /= size;
            if at + 1 < walk.len() {
                row += index[at] * stride;
            }
        }
        let inner = index.last().copied().unwrap_or(0);
        Cursor { row, inner, index }
    }

    /// Moves to the next row.
    fn next_row(&mut self, walk: &Walk) {
        self.inner = 0;
        for at in (0..walk.len().saturating_sub(1)).rev() {
            let (size, stride) = walk[at];
            self.index[at] += 1;
            self.row += stride;
            if self.index[at] < size {
                return;
            }
            self.row -= stride * size;
            self.index[at] = 0;
        }
    }
}

/// Calls `f(offset, stride, done, count)` for every piece of a row among elements
/// `start..start + n`: `count` elements from `offset`, `stride` apart, after `done` others.
pub fn pieces(walk: &Walk, start: usize, n: usize, mut f: impl FnMut(i64, i64, usize, usize)) {
    let Some(&(size, stride)) = walk.last() else {
        if n > 0 {
            f(0, 0, 0, n);
        }
        return;
    };
    let mut cursor = Cursor::new(walk, start);
    let mut done = 0usize;
    while done < n {
        let count = ((size - cursor.inner) as usize).min(n - done);
        f(cursor.row + cursor.inner * stride, stride, done, count);
        done += count;
        cursor.next_row(walk);
    }
}

/// The offset of element `start`, when elements `start..start + n` lie side by side.
pub fn run_at(walk: &Walk, start: usize, n: usize) -> Option<i64> {
    let &(size, stride) = walk.last()?;
    if stride != 1 {
        return None;
    }
    let inner = start as i64 % size;
    if inner + n as i64 > size {
        return None;
    }
    let mut rest = start as i64 / size;
    let mut offset = inner;
    for &(size, stride) in walk[..walk.len() - 1].iter().rev() {
        offset += rest % size * stride;
        rest /= size;
    }
    Some(offset)
}

/// Elements from `start` to the end of its run.
pub fn rest_of_run(run: usize, start: usize) -> usize {
    run - start % run
}

/// Copies elements `start..start + n` of a walk from `base` to contiguous memory at `out`.
///
/// # Safety
///
/// All elements the walk reaches from `base` are readable and `out` holds `n` elements.
pub unsafe fn gather(
    walk: &Walk,
    size: usize,
    base: *const u8,
    start: usize,
    n: usize,
    out: *mut u8,
) {
    macro_rules! typed {
        ($t:ty) => {{
            let (base, out) = (base.cast::<$t>(), out.cast::<$t>());
            pieces(walk, start, n, |offset, stride, done, count| {
                // SAFETY: the caller's promise.
                unsafe {
                    let from = base.offset(offset as isize);
                    let to = out.add(done);
                    match stride {
                        1 => std::ptr::copy_nonoverlapping(from, to, count),
                        0 => hlorun_kernels::fill(size, from.cast(), to.cast(), count),
                        _ => {
                            for i in 0..count {
                                to.add(i).write(
                                    from.offset(i as isize * stride as isize).read_unaligned(),
                                );
                            }
                        }
                    }
                }
            });
        }};
    }
    match size {
        1 => typed!(u8),
        2 => typed!(u16),
        4 => typed!(u32),
        8 => typed!(u64),
        _ => typed!([u64; 2]),
    }
}

/// Copies `n` contiguous elements at `from` to elements `start..start + n` of a walk from `base`.
///
/// # Safety
///
/// All elements the walk reaches from `base` are writable and `from` holds `n` elements.
pub unsafe fn scatter(
    walk: &Walk,
    size: usize,
    base: *mut u8,
    start: usize,
    n: usize,
    from: *const u8,
) {
    macro_rules! typed {
        ($t:ty) => {{
            let (base, from) = (base.cast::<$t>(), from.cast::<$t>());
            pieces(walk, start, n, |offset, stride, done, count| {
                // SAFETY: the caller's promise.
                unsafe {
                    let to = base.offset(offset as isize);
                    let from = from.add(done);
                    if stride == 1 {
                        std::ptr::copy_nonoverlapping(from, to, count);
                    } else {
                        for i in 0..count {
                            to.offset(i as isize * stride as isize)
                                .write_unaligned(from.add(i).read());
                        }
                    }
                }
            });
        }};
    }
    match size {
        1 => typed!(u8),
        2 => typed!(u16),
        4 => typed!(u32),
        8 => typed!(u64),
        _ => typed!([u64; 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_at_both_ends() {
        let walk: Walk = Walk::from_slice(&[(3, 10), (4, 1)]);
        let mut seen = Vec::new();
        pieces(&walk, 2, 7, |offset, stride, done, count| {
            seen.push((offset, stride, done, count));
        });
        assert_eq!(seen, vec![(2, 1, 0, 2), (10, 1, 2, 4), (20, 1, 6, 1)]);
    }

    #[test]
    fn runs_end_with_their_row() {
        let walk: Walk = Walk::from_slice(&[(3, 10), (2, 0), (4, 1)]);
        assert_eq!(run_at(&walk, 0, 4), Some(0));
        assert_eq!(run_at(&walk, 5, 3), Some(1));
        assert_eq!(run_at(&walk, 17, 2), Some(21));
        assert_eq!(run_at(&walk, 5, 4), None);
        assert_eq!(run_at(&Walk::from_slice(&[(4, 2)]), 0, 2), None);
        assert_eq!(rest_of_run(4, 5), 3);
    }

    #[test]
    fn gather_and_scatter_are_inverse() {
        let data: Vec<u32> = (0..24).collect();
        let walk: Walk = Walk::from_slice(&[(4, 1), (6, 4)]);
        let mut out = vec![0u32; 24];
        let mut back = vec![0u32; 24];
        // SAFETY: the walk covers exactly the 24 elements.
        unsafe {
            gather(
                &walk,
                4,
                data.as_ptr().cast(),
                0,
                24,
                out.as_mut_ptr().cast(),
            );
            scatter(
                &walk,
                4,
                back.as_mut_ptr().cast(),
                0,
                24,
                out.as_ptr().cast(),
            );
        }
        assert_eq!(out[..6], [0, 4, 8, 12, 16, 20]);
        assert_eq!(back, data);
    }
}
