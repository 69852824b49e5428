//! Folds neighbouring rows onto each other: the first half of them with the second one, until one is left.
//!
//! In: rows of a few elements. Out: one row. Otherwise every halving is a call of an elementwise kernel, which takes longer
//! than the few elements that it combines.

use crate::elementwise::{Bin, Tier};

/// `unsafe fn(values, rows, size, stage) -> left`: folds `rows` rows of `size` values that lie one after the other; returns
/// where the row is that is left: at the values themselves where there is but one, otherwise at the stage. An odd row in the
/// middle stays as it is, and is the last of those that are left.
///
/// # Safety
/// There are `rows` times `size` values, and the stage has room for half of the rows, rounded up, and overlaps none of them.
pub type HalveRows = unsafe fn(*const u8, usize, usize, *mut u8) -> *const u8;

/// Elements that are combined in one step, where a row has so many.
const STEP: usize = 32;

/// See [`HalveRows`].
///
/// # Safety
/// As for that; the CPU has the tier's instruction set.
#[inline(always)]
pub(super) unsafe fn halve<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    values: *const u8,
    rows: usize,
    size: usize,
    stage: *mut u8,
) -> *const u8 {
    let stage = stage.cast::<A>();
    let (mut from, mut left) = (values.cast::<A>(), rows);
    while left > 1 {
        let half = left / 2;
        let upper = left - half;
        // SAFETY: the caller's contract; after the first round all rows lie in the stage.
        unsafe {
            combine::<T, A, O>(from, from.add(upper * size), stage, half * size);
            if upper > half && !std::ptr::eq(from, stage) {
                for i in half * size..upper * size {
                    stage.add(i).write_unaligned(from.add(i).read_unaligned());
                }
            }
        }
        from = stage;
        left = upper;
    }
    from.cast()
}

/// `out[i] = f(x[i], y[i])`; `out` may be `x`.
///
/// # Safety
/// All three have `n` elements.
#[inline(always)]
unsafe fn combine<T: Tier, A: Copy, O: Bin<A, Out = A>>(
    x: *const A,
    y: *const A,
    out: *mut A,
    n: usize,
) {
    let mut i = 0;
    macro_rules! step {
        ($length:expr) => {{
            let x = x.add(i).cast::<[A; $length]>().read_unaligned();
            let mut values = y.add(i).cast::<[A; $length]>().read_unaligned();
            for (value, x) in values.iter_mut().zip(x) {
                *value = O::f::<T>(x, *value);
            }
            let out = out.add(i).cast::<[A; $length]>();
            out.write_unaligned(values);
            i += $length;
        }};
    }
    macro_rules! rest {
        ($($length:literal)*) => {$(
            if n & $length != 0 {
                step!($length);
            }
        )*};
    }
    // SAFETY: the caller's contract: steps end where the elements do.
    unsafe {
        while i + STEP <= n {
            step!(STEP);
        }
        rest!(16 8 4 2 1);
    }
    debug_assert_eq!(i, n);
}
