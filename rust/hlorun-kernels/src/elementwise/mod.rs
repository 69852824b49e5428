//! Loops over contiguous elements: one body per operation, compiled once per instruction-set tier.
//!
//! In: an operation as a zero-sized type ([`Un`], [`Bin`]) on storage elements. Out: plain function pointers over raw
//! memory. Promise: element `i` of the output depends on element `i` of the inputs only, and `out` may be exactly any
//! one of the inputs.

pub mod complex;
pub mod float;
pub mod int;
pub mod low;

use crate::isa::Isa;
use crate::reduce::{Monoid, Reduce, reduce_body};

/// `unsafe fn(a, out, n)`: n elements from `a` to `out`.
///
/// # Safety
/// `a` and `out` point to `n` elements of the types the lookup names, aligned to them; they are equal or disjoint.
pub type Unary = unsafe fn(*const u8, *mut u8, usize);
/// `unsafe fn(a, b, out, n)`.
///
/// # Safety
/// As [`Unary`]: `out` is disjoint from each input, or equal to it where their elements have the same size.
pub type Binary = unsafe fn(*const u8, *const u8, *mut u8, usize);
/// `unsafe fn(a, b, c, out, n)`.
///
/// # Safety
/// As [`Unary`]: `out` is equal to or disjoint from each input.
pub type Ternary = unsafe fn(*const u8, *const u8, *const u8, *mut u8, usize);

/// A unary operation on `A`.
pub trait Un<A: Copy>: 'static {
    /// Result element.
    type Out: Copy;
    /// Long bodies are compiled once and staged through a buffer when in place; short ones get a loop of their own.
    const HEAVY: bool = false;
    /// Whether [`Un::rare`] and [`Un::fix`] matter.
    const FIX: bool = false;
    /// The branch-free body.
    fn f<T: Tier>(a: A) -> Self::Out;
    /// Inputs the body gets wrong.
    #[inline(always)]
    fn rare(_: A) -> bool {
        false
    }
    /// The slow, right answer for a rare input.
    fn fix(a: A) -> Self::Out {
        Self::f::<Portable>(a)
    }
}

/// A binary operation on two `A`.
pub trait Bin<A: Copy>: 'static {
    /// Result element.
    type Out: Copy;
    /// See [`Un::HEAVY`].
    const HEAVY: bool = false;
    /// Whether [`Bin::rare`] and [`Bin::fix`] matter, which they may for long bodies only.
    const FIX: bool = false;
    /// The branch-free body.
    fn f<T: Tier>(a: A, b: A) -> Self::Out;
    /// Inputs the body gets wrong.
    #[inline(always)]
    fn rare(_: A, _: A) -> bool {
        false
    }
    /// The slow, right answer for rare inputs.
    fn fix(a: A, b: A) -> Self::Out {
        Self::f::<Portable>(a, b)
    }
}

/// A tier as a type: which wrapper is instantiated, and whether a fused multiply-add is one instruction.
pub(crate) trait Tier: 'static {
    /// Whether [`Tier::fma32`] and [`Tier::fma64`] round once.
    const FUSED: bool;
    /// `a*b + c`, fused where that is free.
    fn fma32(a: f32, b: f32, c: f32) -> f32;
    /// `a*b + c`, fused where that is free.
    fn fma64(a: f64, b: f64, c: f64) -> f64;
    /// The loop for `O`.
    fn unary<A: Copy, O: Un<A>>() -> Unary;
    /// The loop for `O`.
    fn binary<A: Copy, O: Bin<A>>() -> Binary;
    /// The loop for `O` with one and the same left (or right) operand, which may be unaligned.
    fn with_scalar<A: Copy, O: Bin<A>, const LEFT: bool>() -> Binary;
    /// The reduction loop for `O`.
    fn reduce<A: Copy, O: Monoid<A>>() -> Reduce;
    /// The select loop for elements of type `A`.
    fn select<A: Choose>() -> Ternary;
    /// The clamp loop built from a minimum and a maximum.
    fn clamp<A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>() -> Ternary;
}

/// No target features beyond the architecture's base.
pub struct Portable;
/// See [`Isa::Avx2`].
#[cfg(target_arch = "x86_64")]
pub struct Avx2;
/// See [`Isa::Avx512`].
#[cfg(target_arch = "x86_64")]
pub struct Avx512;
/// See [`Isa::Neon`].
#[cfg(target_arch = "aarch64")]
pub struct Neon;
/// Of the tiers that fuse, the one with the shortest vectors: for what gains nothing from longer ones. It runs where
/// [`Isa::is_fused`] holds of the active tier.
#[cfg(target_arch = "x86_64")]
pub type Fused = Avx2;
/// As above.
#[cfg(target_arch = "aarch64")]
pub type Fused = Neon;
/// No tier fuses.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub type Fused = Portable;
/// Whatever [`Isa::active`] says, asked at run time; for rarely used element types, to keep the code small.
pub struct Active;

/// Elements per staging chunk: 4 KiB of `f32`, well inside L1.
pub(crate) const CHUNK: usize = 512;

/// Elements that a short body keeps aside: its stage takes no time to set up.
const FEW: usize = 64;

/// Whether a result takes the place of an operand. Where their elements differ in size it never does, so that no loop in place
/// is built for them.
#[inline(always)]
fn is_in_place<A, Out>(a: *const A, out: *const Out) -> bool {
    let is_same = a.addr() == out.addr();
    debug_assert!(!is_same || size_of::<A>() == size_of::<Out>());
    size_of::<A>() == size_of::<Out>() && is_same
}

#[inline(always)]
unsafe fn unary_loop<T: Tier, A: Copy, O: Un<A>>(a: *const A, out: *mut O::Out, n: usize) {
    // SAFETY: the caller passes n readable and n writable elements that do not overlap.
    let (a, out) = unsafe {
        (
            std::slice::from_raw_parts(a, n),
            std::slice::from_raw_parts_mut(out, n),
        )
    };
    for (o, &x) in out.iter_mut().zip(a) {
        *o = O::f::<T>(x);
    }
    if O::FIX && a.iter().fold(false, |any, &x| any | O::rare(x)) {
        for (o, &x) in out.iter_mut().zip(a) {
            if O::rare(x) {
                *o = O::fix(x);
            }
        }
    }
}

#[inline(always)]
unsafe fn unary_body<T: Tier, A: Copy, O: Un<A>>(a: *const u8, out: *mut u8, n: usize) {
    // A pointer to nothing may be dangling and unaligned.
    if n == 0 {
        return;
    }
    let (a, out) = (a.cast::<A>(), out.cast::<O::Out>());
    let in_place = is_in_place(a, out);
    // SAFETY: the caller promises n elements behind each pointer, equal or disjoint; equal pointers of equally sized
    // elements are either handled one element at a time or read into the stage before the write.
    unsafe {
        if !O::HEAVY && !O::FIX {
            if in_place {
                replace::<A, O::Out>(out, n, |_, x| O::f::<T>(x));
            } else {
                unary_loop::<T, A, O>(a, out, n);
            }
            return;
        }
        let mut stage = std::mem::MaybeUninit::<[A; CHUNK]>::uninit();
        let mut i = 0;
        while i < n {
            let len = CHUNK.min(n - i);
            let mut from = a.add(i);
            if in_place {
                std::ptr::copy_nonoverlapping(from, stage.as_mut_ptr().cast(), len);
                from = stage.as_ptr().cast();
            }
            let (mut at, mut count) = (0, first_block(len));
            loop {
                unary_loop::<T, A, O>(from.add(at), out.add(i + at), count);
                if at + count == len {
                    break;
                }
                (at, count) = (len - BLOCK, BLOCK);
            }
            i += len;
        }
    }
}

/// Elements that a long body computes at once.
const BLOCK: usize = 16;

/// How many of `n` elements a long body takes first. Those that are left go as the last block of all, some of which is
/// computed twice: one by one they would take longer, but for few of them and whole vectors.
#[inline(always)]
fn first_block(n: usize) -> usize {
    // Asked first, so that few elements wait for nothing.
    if n < BLOCK {
        return n;
    }
    match n % BLOCK {
        0..=4 | 8 => n,
        rest => n - rest,
    }
}

#[inline(always)]
unsafe fn binary_loop<T: Tier, A: Copy, O: Bin<A>>(
    a: *const A,
    b: *const A,
    out: *mut O::Out,
    n: usize,
) {
    // SAFETY: as in unary_loop.
    let (a, b, out) = unsafe {
        (
            std::slice::from_raw_parts(a, n),
            std::slice::from_raw_parts(b, n),
            std::slice::from_raw_parts_mut(out, n),
        )
    };
    for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *o = O::f::<T>(x, y);
    }
    let is_rare = |any, (&x, &y)| any | O::rare(x, y);
    if O::FIX && a.iter().zip(b).fold(false, is_rare) {
        for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
            if O::rare(x, y) {
                *o = O::fix(x, y);
            }
        }
    }
}

/// Replaces the `i`-th of `n` elements, `x`, by `f(i, x)`, which has the same size.
#[inline(always)]
unsafe fn replace<A: Copy, Out>(at: *mut Out, n: usize, f: impl Fn(usize, A) -> Out) {
    for i in 0..n {
        // SAFETY: the caller passes n elements.
        unsafe {
            let x = at.add(i).cast::<A>().read();
            at.add(i).write(f(i, x));
        }
    }
}

#[inline(always)]
unsafe fn binary_body<T: Tier, A: Copy, O: Bin<A>>(
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    n: usize,
) {
    // A pointer to nothing may be dangling and unaligned.
    if n == 0 {
        return;
    }
    let (a, b, out) = (a.cast::<A>(), b.cast::<A>(), out.cast::<O::Out>());
    let (on_a, on_b) = (is_in_place(a, out), is_in_place(b, out));
    // SAFETY: as in unary_body, for two inputs.
    unsafe {
        if !O::HEAVY {
            if !on_a && !on_b {
                return binary_loop::<T, A, O>(a, b, out, n);
            }
            if !on_a {
                return replace::<A, O::Out>(out, n, |i, own| O::f::<T>(a.add(i).read(), own));
            }
            // Where both operands make way for the result, one is kept aside, a few elements at a time.
            let mut stage = std::mem::MaybeUninit::<[A; FEW]>::uninit();
            let most = if on_b { FEW } else { n };
            for i in (0..n).step_by(most) {
                let len = most.min(n - i);
                let mut y = b.add(i);
                if on_b {
                    std::ptr::copy_nonoverlapping(y, stage.as_mut_ptr().cast(), len);
                    y = stage.as_ptr().cast();
                }
                replace::<A, O::Out>(out.add(i), len, |j, own| O::f::<T>(own, y.add(j).read()));
            }
            return;
        }
        let mut stage_a = std::mem::MaybeUninit::<[A; CHUNK]>::uninit();
        let mut stage_b = std::mem::MaybeUninit::<[A; CHUNK]>::uninit();
        let mut i = 0;
        while i < n {
            let len = CHUNK.min(n - i);
            let (mut x, mut y) = (a.add(i), b.add(i));
            if on_a {
                std::ptr::copy_nonoverlapping(x, stage_a.as_mut_ptr().cast(), len);
                x = stage_a.as_ptr().cast();
            }
            if on_b {
                std::ptr::copy_nonoverlapping(y, stage_b.as_mut_ptr().cast(), len);
                y = stage_b.as_ptr().cast();
            }
            let (mut at, mut count) = (0, first_block(len));
            loop {
                binary_loop::<T, A, O>(x.add(at), y.add(at), out.add(i + at), count);
                if at + count == len {
                    break;
                }
                (at, count) = (len - BLOCK, BLOCK);
            }
            i += len;
        }
    }
}

#[inline(always)]
unsafe fn scalar_body<T: Tier, A: Copy, O: Bin<A>, const LEFT: bool>(
    a: *const u8,
    scalar: *const u8,
    out: *mut u8,
    n: usize,
) {
    // A pointer to nothing may be dangling and unaligned.
    if n == 0 {
        return;
    }
    let (a, out) = (a.cast::<A>(), out.cast::<O::Out>());
    // SAFETY: as in unary_body; the scalar is one element.
    unsafe {
        let y = scalar.cast::<A>().read_unaligned();
        let f = |x: A| {
            let (x, y) = if LEFT { (y, x) } else { (x, y) };
            if O::FIX && O::rare(x, y) {
                O::fix(x, y)
            } else {
                O::f::<T>(x, y)
            }
        };
        if is_in_place(a, out) {
            replace::<A, O::Out>(out, n, |_, x| f(x));
        } else {
            let a = std::slice::from_raw_parts(a, n);
            let out = std::slice::from_raw_parts_mut(out, n);
            for (o, &x) in out.iter_mut().zip(a) {
                *o = f(x);
            }
        }
    }
}

/// An element that is selected by bit operations: the compiler turns a branch into a load from one of two addresses,
/// which it does not vectorize.
pub(crate) trait Choose: Copy {
    fn choose(is_first: bool, first: Self, second: Self) -> Self;
}

macro_rules! choose {
    ($($bits:ident)*) => {
        $(impl Choose for $bits {
            #[inline(always)]
            fn choose(is_first: bool, first: $bits, second: $bits) -> $bits {
                second ^ ((first ^ second) & $bits::from(is_first).wrapping_neg())
            }
        })*
    };
}
choose!(u8 u16 u32 u64);

/// Two numbers, aligned as one.
impl Choose for [u64; 2] {
    #[inline(always)]
    fn choose(is_first: bool, first: [u64; 2], second: [u64; 2]) -> [u64; 2] {
        let of = |k: usize| u64::choose(is_first, first[k], second[k]);
        [of(0), of(1)]
    }
}

#[inline(always)]
unsafe fn select_body<A: Choose>(p: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) {
    let (a, b, out) = (a.cast::<A>(), b.cast::<A>(), out.cast::<A>());
    let mut stage = [0u8; CHUNK];
    // SAFETY: the caller promises n elements behind each pointer; every chunk of predicates is read before the
    // outputs of that chunk are written, and out is equal to or disjoint from a and b.
    unsafe {
        for i in (0..n).step_by(CHUNK) {
            let len = CHUNK.min(n - i);
            std::ptr::copy_nonoverlapping(p.add(i), stage.as_mut_ptr(), len);
            let (x, y, o) = (a.add(i), b.add(i), out.add(i));
            let is_first = |j: usize| stage[j] != 0;
            if o.addr() == x.addr() {
                replace::<A, A>(o, len, |j, own| {
                    A::choose(is_first(j), own, y.add(j).read())
                });
            } else if o.addr() == y.addr() {
                replace::<A, A>(o, len, |j, own| {
                    A::choose(is_first(j), x.add(j).read(), own)
                });
            } else {
                for j in 0..len {
                    o.add(j)
                        .write(A::choose(is_first(j), x.add(j).read(), y.add(j).read()));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn clamp_body<T: Tier, A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>(
    lo: *const u8,
    x: *const u8,
    hi: *const u8,
    out: *mut u8,
    n: usize,
) {
    let (lo, x, hi, out) = (
        lo.cast::<A>(),
        x.cast::<A>(),
        hi.cast::<A>(),
        out.cast::<A>(),
    );
    // SAFETY: the caller promises n elements behind each pointer, out equal to or disjoint from each input; the stage
    // receives a whole chunk before out is written.
    unsafe {
        let mut stage = std::mem::MaybeUninit::<[A; CHUNK]>::uninit();
        let stage = stage.as_mut_ptr().cast::<A>();
        let mut i = 0;
        while i < n {
            let len = CHUNK.min(n - i);
            for j in 0..len {
                let at_least = Max::f::<T>(x.add(i + j).read(), lo.add(i + j).read());
                stage
                    .add(j)
                    .write(Min::f::<T>(at_least, hi.add(i + j).read()));
            }
            std::ptr::copy_nonoverlapping(stage, out.add(i), len);
            i += len;
        }
    }
}

macro_rules! tier {
    ($tier:ident, $fused:expr, $fma32:expr, $fma64:expr, $(#[$features:meta])?) => {
        impl Tier for $tier {
            const FUSED: bool = $fused;
            #[inline(always)]
            fn fma32(a: f32, b: f32, c: f32) -> f32 {
                let f: fn(f32, f32, f32) -> f32 = $fma32;
                f(a, b, c)
            }
            #[inline(always)]
            fn fma64(a: f64, b: f64, c: f64) -> f64 {
                let f: fn(f64, f64, f64) -> f64 = $fma64;
                f(a, b, c)
            }
            fn unary<A: Copy, O: Un<A>>() -> Unary {
                $(#[$features])?
                unsafe fn run<A: Copy, O: Un<A>>(a: *const u8, out: *mut u8, n: usize) {
                    // SAFETY: the pointers satisfy the contract of Unary.
                    unsafe { unary_body::<$tier, A, O>(a, out, n) }
                }
                run::<A, O>
            }
            fn binary<A: Copy, O: Bin<A>>() -> Binary {
                $(#[$features])?
                unsafe fn run<A: Copy, O: Bin<A>>(a: *const u8, b: *const u8, out: *mut u8, n: usize) {
                    // SAFETY: the pointers satisfy the contract of Binary.
                    unsafe { binary_body::<$tier, A, O>(a, b, out, n) }
                }
                run::<A, O>
            }
            fn with_scalar<A: Copy, O: Bin<A>, const LEFT: bool>() -> Binary {
                $(#[$features])?
                unsafe fn run<A: Copy, O: Bin<A>, const LEFT: bool>(
                    a: *const u8,
                    scalar: *const u8,
                    out: *mut u8,
                    n: usize,
                ) {
                    // SAFETY: the pointers satisfy the contract of Binary, the scalar is one element.
                    unsafe { scalar_body::<$tier, A, O, LEFT>(a, scalar, out, n) }
                }
                run::<A, O, LEFT>
            }
            fn reduce<A: Copy, O: Monoid<A>>() -> Reduce {
                $(#[$features])?
                unsafe fn run<A: Copy, O: Monoid<A>>(a: *const u8, n: usize, acc: *mut u8) {
                    // SAFETY: the pointers satisfy the contract of Reduce.
                    unsafe { reduce_body::<$tier, A, O>(a, n, acc) }
                }
                run::<A, O>
            }
            fn select<A: Choose>() -> Ternary {
                $(#[$features])?
                unsafe fn run<A: Choose>(p: *const u8, a: *const u8, b: *const u8, out: *mut u8, n: usize) {
                    // SAFETY: the pointers satisfy the contract of Ternary.
                    unsafe { select_body::<A>(p, a, b, out, n) }
                }
                run::<A>
            }
            fn clamp<A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>() -> Ternary {
                $(#[$features])?
                unsafe fn run<A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>(
                    lo: *const u8,
                    x: *const u8,
                    hi: *const u8,
                    out: *mut u8,
                    n: usize,
                ) {
                    // SAFETY: the pointers satisfy the contract of Ternary.
                    unsafe { clamp_body::<$tier, A, Min, Max>(lo, x, hi, out, n) }
                }
                run::<A, Min, Max>
            }
        }
    };
}

tier!(Portable, false, |a, b, c| a * b + c, |a, b, c| a * b + c,);
#[cfg(target_arch = "x86_64")]
tier!(Avx2, true, f32::mul_add, f64::mul_add, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(Avx512, true, f32::mul_add, f64::mul_add, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
#[cfg(target_arch = "aarch64")]
tier!(Neon, true, f32::mul_add, f64::mul_add,);

impl Tier for Active {
    const FUSED: bool = false;
    #[inline(always)]
    fn fma32(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    fn fma64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
    fn unary<A: Copy, O: Un<A>>() -> Unary {
        with_tier!(Isa::active(), T => T::unary::<A, O>())
    }
    fn binary<A: Copy, O: Bin<A>>() -> Binary {
        with_tier!(Isa::active(), T => T::binary::<A, O>())
    }
    fn with_scalar<A: Copy, O: Bin<A>, const LEFT: bool>() -> Binary {
        with_tier!(Isa::active(), T => T::with_scalar::<A, O, LEFT>())
    }
    fn reduce<A: Copy, O: Monoid<A>>() -> Reduce {
        with_tier!(Isa::active(), T => T::reduce::<A, O>())
    }
    fn select<A: Choose>() -> Ternary {
        with_tier!(Isa::active(), T => T::select::<A>())
    }
    fn clamp<A: Copy, Min: Bin<A, Out = A>, Max: Bin<A, Out = A>>() -> Ternary {
        with_tier!(Isa::active(), T => T::clamp::<A, Min, Max>())
    }
}
