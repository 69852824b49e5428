//! Moves values of a tile to where a reducer takes them.
//!
//! In: values in the order of the walk. Out: those that are combined at one time, side by side.

/// Rows of values, each of `lanes` stretches of `steps` values.
#[derive(Clone, Copy)]
pub(super) struct Stretches {
    /// Where the first row begins.
    pub(super) from: usize,
    /// Values from one row to the next.
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) lanes: usize,
    pub(super) steps: usize,
}

impl Stretches {
    /// Puts the first values of all stretches of all rows side by side, then the second ones, and so on. Elements have
    /// `size` bytes.
    ///
    /// # Safety
    ///
    /// `from` is where the first row begins, `to` has room for all stretches, and the two do not overlap.
    pub(super) unsafe fn transpose(self, size: usize, from: *const u8, to: *mut u8) {
        let Stretches {
            row,
            rows,
            lanes,
            steps,
            ..
        } = self;
        let bytes = |elements: usize| (elements * size) as isize;
        // SAFETY: the caller's promise.
        unsafe {
            hlorun_kernels::copy_strided(
                size,
                &[steps, rows, lanes],
                from,
                &[bytes(1), bytes(row), bytes(steps)],
                to,
                &[bytes(rows * lanes), bytes(lanes), bytes(1)],
            );
        }
    }
}

/// Of `rows` rows of `bytes` bytes, copies those of even numbers to `to`, and the others `behind` rows after it.
///
/// # Safety
///
/// There are so many rows at `from`, and room for `behind + rows / 2` at `to`. Either `from` is `to` and `behind` is
/// `rows`, or the two do not overlap.
pub(super) unsafe fn part_rows(
    from: *const u8,
    to: *mut u8,
    rows: usize,
    behind: usize,
    bytes: usize,
) {
    // SAFETY: the caller's promise; what is written over has been read before.
    unsafe {
        for i in 0..rows / 2 {
            let row = from.add((2 * i + 1) * bytes);
            std::ptr::copy_nonoverlapping(row, to.add((behind + i) * bytes), bytes);
        }
        for i in 0..rows.div_ceil(2) {
            std::ptr::copy(from.add(2 * i * bytes), to.add(i * bytes), bytes);
        }
    }
}

/// Of `pairs` pairs of elements at `at`, leaves the first ones there and moves the second ones.
///
/// # Safety
///
/// There are so many pairs; `seconds` has room and overlaps none of them.
pub(super) unsafe fn part_pairs(size: usize, at: *mut u8, pairs: usize, seconds: *mut u8) {
    by_size!(size, T => {
        let (at, seconds) = (at.cast::<T>(), seconds.cast::<T>());
        // SAFETY: the caller's promise; what is written over has been read before.
        unsafe {
            for i in 0..pairs {
                seconds.add(i).write(at.add(2 * i + 1).read());
            }
            for i in 0..pairs {
                at.add(i).write(at.add(2 * i).read());
            }
        }
    })
}

/// What [`hlorun_kernels::HalveRows`] does, for types that have no such kernel; elements are `width` bytes.
///
/// # Safety
///
/// As for [`hlorun_kernels::HalveRows`].
pub(super) unsafe fn halve_by(
    combine: hlorun_kernels::Binary,
    values: *const u8,
    (rows, size, width): (usize, usize, usize),
    stage: *mut u8,
) -> *const u8 {
    let (mut from, mut left) = (values, rows);
    while left > 1 {
        let half = left / 2;
        // An odd row in the middle stays where it is; it is the last of those that are left.
        let upper = left - half;
        // SAFETY: rows lie among the values, and later in the stage; kernels may write onto an operand.
        unsafe {
            combine(from, from.add(upper * size * width), stage, half * size);
            if upper > half && !std::ptr::eq(from, stage) {
                let odd = half * size * width;
                std::ptr::copy_nonoverlapping(from.add(odd), stage.add(odd), size * width);
            }
        }
        from = stage.cast_const();
        left = upper;
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_stand_side_by_side() {
        let from: Vec<u16> = (0..60).collect();
        let stretches = Stretches {
            from: 2,
            row: 9,
            rows: 3,
            lanes: 2,
            steps: 4,
        };
        let mut to = [0u16; 24];
        // SAFETY: three rows of eight values, and room for as many.
        unsafe { stretches.transpose(2, from[2..].as_ptr().cast(), to.as_mut_ptr().cast()) };
        assert_eq!(to[..6], [2, 6, 11, 15, 20, 24]);
        assert_eq!(to[18..], [5, 9, 14, 18, 23, 27]);
    }

    #[test]
    fn pairs_are_parted() {
        let mut values = [0u32, 1, 2, 3, 4, 5, 6, 7];
        let mut seconds = [0u32; 4];
        // SAFETY: four pairs, and room for as many.
        unsafe {
            part_pairs(
                4,
                values.as_mut_ptr().cast(),
                4,
                seconds.as_mut_ptr().cast(),
            )
        };
        assert_eq!(
            (&values[..4], &seconds[..]),
            (&[0, 2, 4, 6][..], &[1, 3, 5, 7][..])
        );
    }

    #[test]
    fn rows_are_parted() {
        let rows = [[0u8, 1], [2, 3], [4, 5], [6, 7], [8, 9]];
        let mut parted = [[0u8; 2]; 5];
        // SAFETY: five rows of two bytes, and room for as many.
        unsafe { part_rows(rows.as_ptr().cast(), parted.as_mut_ptr().cast(), 5, 3, 2) };
        assert_eq!(parted, [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7]]);
        let at = parted.as_mut_ptr().cast::<u8>();
        // SAFETY: three rows of two bytes, and room for one behind them.
        unsafe { part_rows(at, at, 3, 3, 2) };
        assert_eq!(parted[..2], [[0, 1], [8, 9]]);
        assert_eq!(parted[3], [4, 5]);
    }
}
