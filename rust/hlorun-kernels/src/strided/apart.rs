//! Gathers elements at a constant small step, as a slice with a stride or a reversal reads them.
//!
//! In: the first element, and how many bytes the next one is from it. Out: the elements. A loop whose step the compiler
//! knows goes by vectors.

use crate::isa::Isa;

/// Steps, in elements, that have loops of their own.
const STEPS: [isize; 4] = [-1, 2, 3, 4];

/// Copies `n` elements that lie `stride` bytes apart; returns false, and does nothing, where the step has no loop.
///
/// # Safety
/// The elements are readable in `src`, `n` writable in `dst`; the two do not overlap.
pub unsafe fn apart<T: Copy>(src: *const u8, stride: isize, n: usize, dst: *mut u8) -> bool {
    let size = size_of::<T>() as isize;
    let step = stride / size;
    if stride % size != 0 || !STEPS.contains(&step) || size > 8 {
        return false;
    }
    // SAFETY: the caller's contract; the tier is active.
    unsafe { of_tier!(Isa::active(), run::<T>(src.cast(), step, n, dst.cast())) };
    true
}

#[inline(always)]
unsafe fn stepped<T: Copy, const STEP: isize>(src: *const T, n: usize, dst: *mut T) {
    for i in 0..n {
        // SAFETY: the caller's contract.
        unsafe {
            let value = src.offset(i as isize * STEP).read_unaligned();
            dst.add(i).write_unaligned(value);
        }
    }
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::stepped;

            $(#[$features])?
            pub unsafe fn run<T: Copy>(src: *const T, step: isize, n: usize, dst: *mut T) {
                // SAFETY: the caller's contract.
                unsafe {
                    match step {
                        -1 => stepped::<T, -1>(src, n, dst),
                        2 => stepped::<T, 2>(src, n, dst),
                        3 => stepped::<T, 3>(src, n, dst),
                        _ => stepped::<T, 4>(src, n, dst),
                    }
                }
            }
        }
    };
}
each_tier!(tier);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T) {
        let from: Vec<T> = (0..700).map(make).collect();
        for step in -2..=5isize {
            for n in [0, 1, 2, 15, 16, 33, 130] {
                let first = if step < 0 { 650 } else { 3 };
                let mut to = vec![from[0]; n + 1];
                let stride = step * size_of::<T>() as isize;
                // SAFETY: all elements lie inside the vectors.
                let is_done = unsafe {
                    apart::<T>(
                        from[first..].as_ptr().cast(),
                        stride,
                        n,
                        to.as_mut_ptr().cast(),
                    )
                };
                assert_eq!(is_done, STEPS.contains(&step));
                for (i, value) in to[..n].iter().enumerate().filter(|_| is_done) {
                    assert_eq!(*value, from[first.wrapping_add_signed(i as isize * step)]);
                }
                assert_eq!(to[n], from[0]);
            }
        }
    }

    #[test]
    fn elements_stand_side_by_side() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
    }
}
