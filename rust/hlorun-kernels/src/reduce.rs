//! Reductions of contiguous elements into one accumulator.
//!
//! In: `n` elements and an accumulator. Out: the accumulator combined with all of them. Promise: elements go to a fixed
//! number of lanes by their index and the lanes are combined in a fixed tree, so the result depends on neither the
//! tier nor the machine. Floats narrower than `f32` accumulate in an `f32` accumulator, as XLA:CPU does, and are not
//! rounded in between: see [`reduce_accumulator`].

use crate::element::{Cx, Pred};
use crate::elementwise::int::{self, IntElem};
use crate::elementwise::low::decoded;
use crate::elementwise::{Bin, Tier, complex, float};
use crate::isa::Isa;
use crate::low_float::LowFloat;
use crate::math::Float;
use crate::{BinaryOp, DType};

/// `unsafe fn(a, n, acc)`: combines `n` elements into `*acc`.
///
/// # Safety
/// `a` points to `n` elements of the looked-up type, `acc` to one of its accumulator type; they do not overlap.
pub type Reduce = unsafe fn(*const u8, usize, *mut u8);

/// The type of the accumulator of [`reduce`]: `F32` for floats narrower than `f32`, otherwise the type itself.
pub const fn reduce_accumulator(dtype: DType) -> DType {
    if dtype.is_low_float() {
        DType::F32
    } else {
        dtype
    }
}

/// An associative operation with its neutral element.
pub(crate) trait Monoid<A: Copy>: Bin<A, Out = A> {
    fn identity() -> A;
    /// All elements combined, where a shorter way than one by one gives the same bits.
    #[inline(always)]
    fn folded<T: Tier>(_: &[A]) -> Option<A> {
        None
    }
}

macro_rules! monoids {
    ($bound:ident, $t:ty; $($op:path => $identity:expr;)*) => {$(
        impl<E: $bound> Monoid<$t> for $op {
            #[inline(always)]
            fn identity() -> $t { $identity }
        }
    )*};
}
monoids! {
    // -0 is neutral for every float; +0 is not, because of -0.
    Float, E;
    float::Add => E::ZERO.neg();
    float::Multiply => E::ONE;
}
impl<E: Float> Monoid<E> for float::Maximum {
    #[inline(always)]
    fn identity() -> E {
        E::from_f64(f64::NEG_INFINITY)
    }
    #[inline(always)]
    fn folded<T: Tier>(a: &[E]) -> Option<E> {
        extreme(a, Self::identity(), |x, best| x > best)
    }
}
impl<E: Float> Monoid<E> for float::Minimum {
    #[inline(always)]
    fn identity() -> E {
        E::from_f64(f64::INFINITY)
    }
    #[inline(always)]
    fn folded<T: Tier>(a: &[E]) -> Option<E> {
        extreme(a, Self::identity(), |x, best| x < best)
    }
}
/// Integers are folded one by one, which the compiler does by vectors: in any order the result is the same.
macro_rules! integer_monoids {
    ($($op:path => $identity:expr;)*) => {$(
        impl<E: IntElem> Monoid<E> for $op {
            #[inline(always)]
            fn identity() -> E { $identity }
            #[inline(always)]
            fn folded<T: Tier>(a: &[E]) -> Option<E> {
                Some(a.iter().fold(Self::identity(), |all, &x| <Self as Bin<E>>::f::<T>(all, x)))
            }
        }
    )*};
}
integer_monoids! {
    int::Add => E::ZERO;
    int::Multiply => E::ONE;
    int::Maximum => E::MIN;
    int::Minimum => if E::SIGNED { E::MIN.not() } else { E::ONES };
    int::And => E::ONES;
    int::Or => E::ZERO;
    int::Xor => E::ZERO;
}
monoids! {
    Float, Cx<E>;
    complex::Add => Cx { re: E::ZERO.neg(), im: E::ZERO.neg() };
    complex::Multiply => Cx { re: E::ONE, im: E::ZERO };
}
impl Monoid<Pred> for int::PredAnd {
    fn identity() -> Pred {
        Pred(1)
    }
}
impl Monoid<Pred> for int::PredOr {
    fn identity() -> Pred {
        Pred(0)
    }
}
impl Monoid<Pred> for int::PredXor {
    fn identity() -> Pred {
        Pred(0)
    }
}

/// Lanes of every reduction.
pub(crate) const LANES: usize = 64;

/// How far ahead elements are asked for: across the end of a page, where the CPU's own foresight ends.
const AHEAD: usize = 4096;

/// Asks for what comes after a block of so many bytes.
#[inline(always)]
pub(crate) fn ask_ahead(block: *const u8, bytes: usize) {
    crate::stream::expect::<false>(block.wrapping_add(AHEAD), bytes);
}

/// The largest or smallest element by plain comparisons, which are blind to NaN and to the sign of zero: where one of
/// them would decide, there is none.
#[inline(always)]
fn extreme<E: Float>(a: &[E], worst: E, is_better: impl Fn(E, E) -> bool) -> Option<E> {
    if a.len() < 4 * LANES {
        return None;
    }
    let (mut best, mut largest) = ([worst; LANES], [E::ZERO; LANES]);
    let mut pass = |block: &[E]| {
        for ((best, largest), &x) in best.iter_mut().zip(&mut largest).zip(block) {
            *best = if is_better(x, *best) { x } else { *best };
            *largest = x.larger_magnitude(*largest);
        }
    };
    let mut blocks = a.chunks_exact(LANES);
    for block in &mut blocks {
        ask_ahead(block.as_ptr().cast(), size_of_val(block));
        pass(block);
    }
    pass(blocks.remainder());
    let largest = largest.iter().fold(E::ZERO, |l, &x| x.larger_magnitude(l));
    let best = best
        .iter()
        .fold(worst, |best, &x| if is_better(x, best) { x } else { best });
    (best != E::ZERO && largest <= E::from_f64(f64::INFINITY)).then_some(best)
}

#[inline(always)]
pub(crate) unsafe fn reduce_body<T: Tier, A: Copy, O: Monoid<A>>(
    a: *const u8,
    n: usize,
    acc: *mut u8,
) {
    if n == 0 {
        return;
    }
    // SAFETY: the caller promises n elements behind a.
    let a = unsafe { std::slice::from_raw_parts(a.cast::<A>(), n) };
    if let Some(all) = O::folded::<T>(a) {
        // SAFETY: as below.
        unsafe {
            let acc = acc.cast::<A>();
            acc.write(O::f::<T>(acc.read(), all));
        }
        return;
    }
    let mut lanes = [O::identity(); LANES];
    let mut blocks = a.chunks_exact(LANES);
    for block in &mut blocks {
        ask_ahead(block.as_ptr().cast(), size_of_val(block));
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = O::f::<T>(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(blocks.remainder()) {
        *lane = O::f::<T>(*lane, x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = O::f::<T>(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    // SAFETY: the caller promises one accumulator of type A.
    unsafe {
        let acc = acc.cast::<A>();
        acc.write(O::f::<T>(acc.read(), lanes[0]));
    }
}

unsafe fn low_run<T: Tier, E: LowFloat, O: Monoid<f32>>(a: *const u8, n: usize, acc: *mut u8) {
    // SAFETY: the caller promises n elements and an accumulator.
    unsafe { decoded::<T, E, 1>([a], n, |[x], _, len| T::reduce::<f32, O>()(x, len, acc)) }
}

/// Calls `$with!(Op)` for the operation of that name in a module, else returns `None`.
macro_rules! monoid {
    ($op:expr, $with:ident, $module:ident: $($name:ident)*) => {
        Some(match $op {
            $(BinaryOp::$name => $with!($module::$name),)*
            _ => return None,
        })
    };
}
macro_rules! float_monoid {
    ($op:expr, $with:ident) => { monoid!($op, $with, float: Add Multiply Maximum Minimum) };
}
macro_rules! int_monoid {
    ($op:expr, $with:ident) => { monoid!($op, $with, int: Add Multiply Maximum Minimum And Or Xor) };
}

fn float_op<T: Tier, F: Float>(op: BinaryOp) -> Option<Reduce> {
    macro_rules! run {
        ($o:ty) => {
            T::reduce::<F, $o>()
        };
    }
    float_monoid!(op, run)
}

fn low_op<T: Tier, E: LowFloat>(op: BinaryOp) -> Option<Reduce> {
    macro_rules! run {
        ($o:ty) => {
            low_run::<T, E, $o>
        };
    }
    float_monoid!(op, run)
}

fn int_op<T: Tier, E: IntElem>(op: BinaryOp) -> Option<Reduce> {
    macro_rules! run {
        ($o:ty) => {
            T::reduce::<E, $o>()
        };
    }
    int_monoid!(op, run)
}

fn complex_op<T: Tier, F: Float>(op: BinaryOp) -> Option<Reduce> {
    match op {
        BinaryOp::Add => Some(T::reduce::<Cx<F>, complex::Add>()),
        BinaryOp::Multiply => Some(T::reduce::<Cx<F>, complex::Multiply>()),
        _ => None,
    }
}

fn pred_op<T: Tier>(op: BinaryOp) -> Option<Reduce> {
    match op {
        BinaryOp::And | BinaryOp::Multiply | BinaryOp::Minimum => {
            Some(T::reduce::<Pred, int::PredAnd>())
        }
        BinaryOp::Or | BinaryOp::Add | BinaryOp::Maximum => Some(T::reduce::<Pred, int::PredOr>()),
        BinaryOp::Xor => Some(T::reduce::<Pred, int::PredXor>()),
        _ => None,
    }
}

fn tier<T: Tier>(op: BinaryOp, dtype: DType) -> Option<Reduce> {
    by_class!(
        dtype,
        T,
        [pred_op, int_op, low_op, float_op, complex_op](op)
    )
}

/// The reduction kernel of an associative operation (add, multiply, maximum, minimum, and, or, xor), or `None`. The
/// accumulator has the type [`reduce_accumulator`] names.
pub fn reduce(op: BinaryOp, dtype: DType) -> Option<Reduce> {
    reduce_on(Isa::active(), op, dtype)
}

fn bytes_of<T: Copy>(value: T) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: elements are plain and at most 16 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>(),
            bytes.as_mut_ptr(),
            size_of::<T>().min(16),
        );
    }
    bytes
}

fn float_identity<F: Float>(op: BinaryOp) -> Option<[u8; 16]> {
    macro_rules! neutral {
        ($o:ty) => {
            bytes_of::<F>(<$o as Monoid<F>>::identity())
        };
    }
    float_monoid!(op, neutral)
}

fn int_identity<E: IntElem>(op: BinaryOp) -> Option<[u8; 16]> {
    macro_rules! neutral {
        ($o:ty) => {
            bytes_of::<E>(<$o as Monoid<E>>::identity())
        };
    }
    int_monoid!(op, neutral)
}

/// The neutral element of a reduction, of the type [`reduce_accumulator`] names; `None` for truth values and complex numbers.
pub fn reduce_identity(op: BinaryOp, dtype: DType) -> Option<[u8; 16]> {
    match reduce_accumulator(dtype) {
        DType::F32 => float_identity::<f32>(op),
        DType::F64 => float_identity::<f64>(op),
        DType::S8 => int_identity::<i8>(op),
        DType::S16 => int_identity::<i16>(op),
        DType::U8 => int_identity::<u8>(op),
        DType::U16 => int_identity::<u16>(op),
        DType::S32 => int_identity::<i32>(op),
        DType::S64 => int_identity::<i64>(op),
        DType::U32 => int_identity::<u32>(op),
        DType::U64 => int_identity::<u64>(op),
        _ => None,
    }
}

/// [`reduce`] for a given tier, which must be available.
pub fn reduce_on(isa: Isa, op: BinaryOp, dtype: DType) -> Option<Reduce> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(reduce) = crate::reduce_vectors::reduce_on(isa, op, dtype) {
        return Some(reduce);
    }
    with_tier!(isa, T => tier::<T>(op, dtype))
}
