//! Reductions of `f32` and `f64` whose lanes stay in vector registers.
//!
//! In, out and promise: those of [`super::reduce`]. Lanes and tree are the same, so that the bits are.

use crate::isa::Isa;
use crate::reduce::{LANES, Reduce, ask_ahead};
#[cfg(target_arch = "aarch64")]
use crate::vector_bytecode::neon::{D2, W4};
use crate::vector_bytecode::vector::Vector;
#[cfg(target_arch = "x86_64")]
use crate::vector_bytecode::x86::{D4, D8, W8, W16};
use crate::{BinaryOp, DType};

/// An associative operation on vectors. All functions need the instruction set of the vectors.
///
/// # Safety
/// As [`Vector`].
trait Combine {
    /// The neutral element of floats of so many bytes, as bits.
    fn identity(size: usize) -> u64;
    unsafe fn f<V: Vector>(a: V, b: V) -> V;
    /// The same result in fewer instructions, if no operand is NaN and the result is not zero; `None` where there is no
    /// such form.
    unsafe fn blind<V: Vector>(_: V, _: V) -> Option<V> {
        None
    }
}

/// The bits of a value, as a float of so many bytes.
fn bits(value: f64, size: usize) -> u64 {
    match size {
        4 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

macro_rules! operations {
    ($($name:ident: $method:ident, $identity:expr $(, $blind:ident)?;)*) => {$(
        struct $name;
        impl Combine for $name {
            #[inline(always)]
            fn identity(size: usize) -> u64 {
                bits($identity, size)
            }
            #[inline(always)]
            unsafe fn f<V: Vector>(a: V, b: V) -> V {
                // SAFETY: the trait's contract.
                unsafe { a.$method(b) }
            }
            $(
                #[inline(always)]
                unsafe fn blind<V: Vector>(a: V, b: V) -> Option<V> {
                    // SAFETY: the trait's contract.
                    Some(unsafe { a.$blind(b) })
                }
            )?
        }
    )*};
}
operations! {
    Add: add, -0.0;
    Multiply: mul, 1.0;
    Maximum: max, f64::NEG_INFINITY, larger;
    Minimum: min, f64::INFINITY, smaller;
}

/// Truth bytes, sixteen true and sixteen false ones: from byte `16 - n` on, the first `n` are true.
static TRUTHS: [u8; 32] = {
    let mut bytes = [0; 32];
    let mut at = 0;
    while at < 16 {
        bytes[at] = 1;
        at += 1;
    }
    bytes
};

/// The mask of the first `count` elements of a vector that has more.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn first_lanes<V: Vector>(count: usize) -> V::Mask {
    // SAFETY: `count` is less than 16, and so many bytes and one vector's are there.
    unsafe { V::mask_from_bytes(TRUTHS.as_ptr().add(16 - count)) }
}

/// A vector whose first element combines the lanes of `$r` vectors: halves with each other, until one is left.
macro_rules! tree {
    ($lanes:ident, $v:ident, $r:ident, |$a:ident, $b:ident| $f:expr) => {{
        let mut lanes = $lanes;
        macro_rules! halve {
            ($half:expr) => {
                if $r > $half {
                    for i in 0..$half {
                        let ($a, $b) = (lanes[i], lanes[i + $half]);
                        lanes[i] = $f;
                    }
                }
            };
        }
        halve!(16);
        halve!(8);
        halve!(4);
        halve!(2);
        halve!(1);
        let mut all = lanes[0];
        macro_rules! fold {
            ($half:expr) => {
                if $v::LANES > $half {
                    let ($a, $b) = (all, all.down($half));
                    all = $f;
                }
            };
        }
        fold!(8);
        fold!(4);
        fold!(2);
        fold!(1);
        all
    }};
}

/// All elements combined, as the first element of a vector.
///
/// # Safety
/// As [`Vector`]; `a` points to `n` elements.
#[inline(always)]
unsafe fn combined<V: Vector, O: Combine, const R: usize>(a: *const u8, n: usize) -> V {
    let bytes = V::LANES * V::SIZE;
    // SAFETY: the caller's promise.
    unsafe {
        let mut lanes = [V::splat(O::identity(V::SIZE)); R];
        let mut from = a;
        for _ in 0..n / LANES {
            ask_ahead(from, R * bytes);
            for (k, lane) in lanes.iter_mut().enumerate() {
                *lane = O::f(*lane, V::load(from.add(k * bytes)));
            }
            from = from.add(R * bytes);
        }
        let rest = n % LANES;
        for (k, lane) in lanes.iter_mut().enumerate() {
            let left = rest.saturating_sub(k * V::LANES);
            if left >= V::LANES {
                *lane = O::f(*lane, V::load(from.add(k * bytes)));
            } else if left > 0 {
                let x = V::load_part(from.add(k * bytes), left);
                *lane = V::select(first_lanes::<V>(left), O::f(*lane, x), *lane);
            }
        }
        tree!(lanes, V, R, |x, y| O::f(x, y))
    }
}

/// The same by [`Combine::blind`]; `None` where there is no such form, an element is NaN, or the result is zero.
///
/// # Safety
/// As [`combined`].
#[inline(always)]
unsafe fn blind<V: Vector, O: Combine, const R: usize>(a: *const u8, n: usize) -> Option<V> {
    let bytes = V::LANES * V::SIZE;
    // SAFETY: the caller's promise.
    unsafe {
        let identity = V::splat(O::identity(V::SIZE));
        let magnitude = V::splat(V::SIGN - 1);
        let mut lanes = [identity; R];
        // Magnitudes are in the order of their bits, and NaN have the largest.
        let mut largest = [V::splat(0); 2];
        let mut from = a;
        for _ in 0..n / LANES {
            ask_ahead(from, R * bytes);
            for (k, lane) in lanes.iter_mut().enumerate() {
                let x = V::load(from.add(k * bytes));
                *lane = O::blind(*lane, x)?;
                largest[k % 2] = largest[k % 2].int_max(x.and(magnitude));
            }
            from = from.add(R * bytes);
        }
        let rest = n % LANES;
        for (k, lane) in lanes.iter_mut().enumerate() {
            let left = rest.saturating_sub(k * V::LANES);
            if left > 0 {
                let count = left.min(V::LANES);
                let x = V::load_part(from.add(k * bytes), count);
                let y = match count < V::LANES {
                    true => V::select(first_lanes::<V>(count), x, identity),
                    false => x,
                };
                *lane = O::blind(*lane, y)?;
                largest[k % 2] = largest[k % 2].int_max(x.and(magnitude));
            }
        }
        let [even, odd] = largest;
        let largest = [even.int_max(odd)];
        const ONE: usize = 1;
        let largest = tree!(largest, V, ONE, |x, y| x.int_max(y));
        let best = tree!(lanes, V, R, |x, y| O::blind(x, y)?);
        let number = |vector: V| {
            let mut number = 0u64;
            vector.store_part((&raw mut number).cast(), 1);
            number
        };
        let is_zero = number(best.and(magnitude)) == 0;
        (!is_zero && number(largest) <= bits(f64::INFINITY, V::SIZE)).then_some(best)
    }
}

/// [`Reduce`] of an operation.
///
/// # Safety
/// As [`Vector`] and [`Reduce`].
#[inline(always)]
unsafe fn run<V: Vector, O: Combine, const R: usize>(a: *const u8, n: usize, acc: *mut u8) {
    const { assert!(R * V::LANES == LANES) };
    if n == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let all = match blind::<V, O, R>(a, n) {
            Some(all) => all,
            None => combined::<V, O, R>(a, n),
        };
        O::f(V::load_part(acc, 1), all).store_part(acc, 1);
    }
}

macro_rules! entries {
    ($($name:ident: $v:ty, $r:expr $(, $features:literal)?;)*) => {$(
        /// # Safety
        /// As [`Reduce`], on a CPU with the instruction set of the vectors.
        $(#[target_feature(enable = $features)])?
        unsafe fn $name<O: Combine>(a: *const u8, n: usize, acc: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { run::<$v, O, $r>(a, n, acc) }
        }
    )*};
}
#[cfg(target_arch = "aarch64")]
entries! {
    words_neon: W4, 16;
    doubles_neon: D2, 32;
}
#[cfg(target_arch = "x86_64")]
entries! {
    words_avx512: W16, 4, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    doubles_avx512: D8, 8, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c";
    words_avx2: W8, 8, "avx2,fma,f16c";
    doubles_avx2: D4, 16, "avx2,fma,f16c";
}

/// The reduction of an operation on a tier, where it is done by vectors.
pub(crate) fn reduce_on(isa: Isa, op: BinaryOp, dtype: DType) -> Option<Reduce> {
    macro_rules! pick {
        ($entry:ident) => {
            Some(match op {
                BinaryOp::Add => $entry::<Add>,
                BinaryOp::Multiply => $entry::<Multiply>,
                BinaryOp::Maximum => $entry::<Maximum>,
                BinaryOp::Minimum => $entry::<Minimum>,
                _ => return None,
            })
        };
    }
    match (isa, dtype) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, DType::F32) => pick!(words_avx512),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, DType::F64) => pick!(doubles_avx512),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, DType::F32) => pick!(words_avx2),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, DType::F64) => pick!(doubles_avx2),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, DType::F32) => pick!(words_neon),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, DType::F64) => pick!(doubles_neon),
        _ => None,
    }
}
