//! Elementwise products of `f32` on CPUs where a subnormal factor or result makes a product a hundred times slower.
//!
//! In: arrays, or an array and one element. Out: their products, chunk by chunk. The CPU sets sticky exception flags in its
//! register MXCSR: one for a subnormal operand, one for a result that is tiny and inexact; exact subnormal results set none.
//! Where they are set, the chunk that follows is computed in `f64`, which holds each product of two `f32` exactly and as a
//! normal number; conversions from and to subnormal numbers are as fast as others. For some thousand elements that takes two
//! to three times as long as ordinary products, and those with subnormal numbers twenty times. Promise: the way decides about
//! time alone.

use std::arch::asm;
use std::sync::LazyLock;

use crate::elementwise::{Bin, Tier, float};
use crate::ops::BinaryOp;
use crate::table::Binary;
use crate::with_scalar::Side;
use crate::{DType, Isa};

/// Whether products with a subnormal factor or result are slow here: Intel's CPUs compute them by microcode.
pub(crate) fn are_slow() -> bool {
    static IS_INTEL: LazyLock<bool> = LazyLock::new(|| {
        #[allow(unused_unsafe, reason = "newer compilers call it a safe function")]
        // SAFETY: every CPU of this architecture has the instruction.
        let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        name.concat() == b"GenuineIntel"
    });
    *IS_INTEL
}

/// Whether the kernels of an operation are those here.
pub(crate) fn has_kernels(op: BinaryOp, dtype: DType) -> bool {
    (op, dtype) == (BinaryOp::Multiply, DType::F32) && are_slow()
}

/// Flags of MXCSR: denormal operand and underflow.
const FLAGS: u32 = 1 << 1 | 1 << 4;

fn read() -> u32 {
    let mut mxcsr = 0;
    // SAFETY: stores the register in `mxcsr`, and changes nothing else.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr
}

/// Sets the register to what was read from it, with other flags.
fn write(mxcsr: u32) {
    // SAFETY: reads `mxcsr`. The flags that it changes decide about nothing that is computed.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack)) };
}

/// Whether the flags are set; clears them.
#[inline(always)]
pub(crate) fn were_met() -> bool {
    let mxcsr = read();
    let met = mxcsr & FLAGS != 0;
    if met {
        write(mxcsr & !FLAGS);
    }
    met
}

/// Sets the flags for who asks next.
#[inline(always)]
fn remember() {
    write(read() | FLAGS);
}

/// A product computed in `f64`. The compiler would make a product of `f32` of it again if it were not for the scale, whose
/// inverse is no `f32`.
struct ByDouble;

impl Bin<f32> for ByDouble {
    type Out = f32;
    #[inline(always)]
    fn f<T: Tier>(a: f32, b: f32) -> f32 {
        const SCALE: f64 = f64::from_bits((1023 + 200) << 52);
        ((f64::from(a) * SCALE) * f64::from(b) * (1.0 / SCALE)) as f32
    }
}

/// Elements of the first chunk, and most elements of chunks in `f64` and of others. Chunks of one kind become longer. One in
/// `f64` takes about as long as one or two slow products.
const FIRST: usize = 128;
pub(crate) const CAREFUL: usize = 512;
const PLAIN: usize = 2048;

/// Runs over `n` elements in chunks: `run` is told where one begins, how many elements it has, and whether to compute in `f64`.
#[inline(always)]
fn in_chunks(n: usize, run: impl Fn(usize, usize, bool)) {
    // Pointers to nothing may be dangling and unaligned.
    if n == 0 {
        return;
    }
    let (mut at, mut is_careful, mut any) = (0, were_met(), false);
    let mut most = FIRST;
    loop {
        let count = most.min(n - at);
        run(at, count, is_careful);
        at += count;
        if at == n {
            break;
        }
        let is_met = were_met();
        any |= is_met;
        most = match (is_met == is_careful, is_met) {
            (false, _) => FIRST,
            (true, true) => CAREFUL.min(2 * most),
            (true, false) => PLAIN.min(2 * most),
        };
        is_careful = is_met;
    }
    // The next call of this run is likely to meet such numbers as well. A run begins with the flags cleared.
    if any {
        remember();
    }
}

/// Whether one of `n` elements is NaN. Which of two NaN is the product depends on the order of operands in the instruction, so
/// that the ordinary kernel has to choose.
#[inline(always)]
unsafe fn has_nan(a: *const u8, n: usize) -> bool {
    // SAFETY: the caller promises that many elements.
    let a = unsafe { std::slice::from_raw_parts(a.cast::<f32>(), n) };
    a.iter().fold(false, |any, x| any | x.is_nan())
}

macro_rules! tier {
    ($module:ident, $tier:ty, $(#[$features:meta])?) => {
        mod $module {
            use super::{Bin, Binary, ByDouble, Tier, float, has_nan, in_chunks};

            fn of_arrays<O: Bin<f32>>() -> Binary {
                <$tier>::binary::<f32, O>()
            }

            fn of_scalar<O: Bin<f32>, const LEFT: bool>() -> Binary {
                <$tier>::with_scalar::<f32, O, LEFT>()
            }

            $(#[$features])?
            pub unsafe fn products(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
                in_chunks(n, |at, count, is_careful| {
                    let bytes = at * size_of::<f32>();
                    // SAFETY: the caller's promise, that of [`Binary`]: a chunk lies in the `n` elements of each array.
                    unsafe {
                        let a = a.add(bytes);
                        let kernel = match is_careful && !has_nan(a, count) {
                            true => of_arrays::<ByDouble>(),
                            false => of_arrays::<float::Multiply>(),
                        };
                        kernel(a, b.add(bytes), out.add(bytes), count);
                    }
                });
            }

            $(#[$features])?
            pub unsafe fn scaled<const LEFT: bool>(
                a: *const u8,
                scalar: *const u8,
                out: *mut u8,
                n: usize,
            ) {
                in_chunks(n, |at, count, is_careful| {
                    let bytes = at * size_of::<f32>();
                    // SAFETY: the scalar is one element.
                    let is_number = || unsafe { !scalar.cast::<f32>().read_unaligned().is_nan() };
                    let kernel = match is_careful && is_number() {
                        true => of_scalar::<ByDouble, LEFT>(),
                        false => of_scalar::<float::Multiply, LEFT>(),
                    };
                    // SAFETY: as above.
                    unsafe { kernel(a.add(bytes), scalar, out.add(bytes), count) }
                });
            }
        }
    };
}
each_tier!(tier);

/// The kernel of products of arrays.
pub(crate) fn products(isa: Isa) -> Binary {
    of_tier!(isa, products)
}

/// The kernel of products with a scalar.
pub(crate) fn scaled(isa: Isa, side: Side) -> Binary {
    match side {
        Side::Left => of_tier!(isa, scaled::<true>),
        Side::Right => of_tier!(isa, scaled::<false>),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::Portable;

    /// Factors whose products are subnormal, or just not, exactly halfway between two of them, zeros, infinities and NaN.
    fn factors() -> Vec<f32> {
        let mut all = vec![0.0, 1.0, f32::INFINITY, f32::NAN, f32::MAX, 0.5, 1.5];
        for bits in [
            1,
            2,
            3,
            0x7f_ffff,
            0x80_0000,
            0x80_0001,
            0x12_3456,
            0x7fc0_1234,
            0x7f80_0001,
        ] {
            all.push(f32::from_bits(bits));
        }
        for exponent in [
            -149, -127, -126, -100, -75, -74, -50, -24, -23, -1, 30, 100, 127,
        ] {
            for mantissa in [0, 1, 0x40_0000, 0x7f_ffff, 0x2a_aaab] {
                let bits = ((exponent + 127).max(0) as u32) << 23 | mantissa;
                all.push(f32::from_bits(bits));
            }
        }
        let negative: Vec<f32> = all.iter().map(|x| -x).collect();
        all.extend(negative);
        all
    }

    /// Products of all pairs, by `kernel(a, b, out)`, are those of `plain`.
    fn check(
        plain: impl Fn(&[f32], &[f32], &mut [f32]),
        kernel: impl Fn(&[f32], &[f32], &mut [f32]),
        can_differ: impl Fn(f32, f32) -> bool,
    ) {
        let factors = factors();
        for &x in &factors {
            let a = vec![x; factors.len()];
            let [mut want, mut got] = [(); 2].map(|()| vec![0.0; factors.len()]);
            plain(&a, &factors, &mut want);
            for _ in 0..2 {
                kernel(&a, &factors, &mut got);
                for ((&y, want), got) in factors.iter().zip(&want).zip(&got) {
                    let is_same = want.to_bits() == got.to_bits();
                    assert!(
                        is_same || can_differ(x, y),
                        "{x:e} * {y:e}: {got:e}, not {want:e}"
                    );
                }
            }
        }
    }

    fn on_arrays(kernel: Binary) -> impl Fn(&[f32], &[f32], &mut [f32]) {
        move |a, b, out| {
            let n = out.len();
            // SAFETY: all three have as many elements.
            unsafe {
                kernel(
                    a.as_ptr().cast(),
                    b.as_ptr().cast(),
                    out.as_mut_ptr().cast(),
                    n,
                )
            }
        }
    }

    #[test]
    fn products_by_way_of_doubles_have_the_same_bits() {
        let both_nan = |x: f32, y: f32| x.is_nan() && y.is_nan();
        for isa in Isa::available() {
            let plain = with_tier!(isa, T => T::binary::<f32, float::Multiply>());
            let by_double = with_tier!(isa, T => T::binary::<f32, ByDouble>());
            check(on_arrays(plain), on_arrays(by_double), both_nan);
            // Neither does it depend on what was met before which of two NaN is the product.
            check(on_arrays(plain), on_arrays(products(isa)), |_, _| false);
            for side in [Side::Left, Side::Right] {
                let plain = with_tier!(isa, T => match side {
                    Side::Left => T::with_scalar::<f32, float::Multiply, true>(),
                    Side::Right => T::with_scalar::<f32, float::Multiply, false>(),
                });
                let of = |kernel| {
                    move |a: &[f32], b: &[f32], out: &mut [f32]| on_arrays(kernel)(b, &a[..1], out)
                };
                check(of(plain), of(scaled(isa, side)), |_, _| false);
            }
        }
    }

    /// A kernel meets subnormal numbers in one call, and none in the next.
    #[test]
    fn what_was_met_is_forgotten() {
        let met = |kernel: Binary, x: f32, y: f32| {
            let (kernel, mut out) = (std::hint::black_box(kernel), [0.0; 4]);
            on_arrays(kernel)(&std::hint::black_box([x; 4]), &[y; 4], &mut out);
            std::hint::black_box(out);
            were_met()
        };
        were_met();
        let plain = Portable::binary::<f32, float::Multiply>();
        let by_double = Portable::binary::<f32, ByDouble>();
        assert!(!met(plain, 1.0, 3.0));
        assert!(met(plain, 1e-30, 1e-12));
        assert!(!were_met());
        assert!(met(plain, 1e-42, 1e10));
        assert!(met(by_double, 1e-42, 1e10));
        assert!(!met(by_double, 1.0, 1e10));
        remember();
        assert!(were_met());
    }

    /// What one call meets, wherever that is, makes the next one careful from its start, until a call meets nothing.
    #[test]
    fn calls_tell_the_next_one() {
        let ways = |met: &[usize]| {
            let ways = std::cell::RefCell::new(Vec::new());
            in_chunks(5000, |at, count, is_careful| {
                ways.borrow_mut().push((at, count, is_careful));
                if met.iter().any(|met| (at..at + count).contains(met)) {
                    remember();
                }
            });
            ways.into_inner()
        };
        let (plain, careful) = (false, true);
        were_met();
        let found = ways(&[]);
        assert_eq!(
            found[..3],
            [(0, 128, plain), (128, 256, plain), (384, 512, plain)]
        );
        assert_eq!(found[4..], [(1920, 2048, plain), (3968, 1032, plain)]);
        let found = ways(&[300, 700]);
        assert_eq!(
            found[1..4],
            [(128, 256, plain), (384, 128, careful), (512, 128, plain)]
        );
        let found = ways(&[]);
        assert_eq!(found[..2], [(0, 128, careful), (128, 128, plain)]);
        // What the last chunk meets stays in the register, where the next call finds it.
        assert_eq!(ways(&[4999])[0], (0, 128, plain));
        assert_eq!(ways(&[])[0], (0, 128, careful));
        assert_eq!(ways(&[])[0], (0, 128, plain));
    }
}
