//! The vectors of vector bytecode: one register's worth of 4-byte or 8-byte elements.
//!
//! In: registers. Out: registers. Promise: every operation gives the bits of the kernel of the same name, except that
//! of two NaN either may survive, and that of NaN a narrow float keeps only the sign and that it is one. Floats and
//! integers share a type: bits are bits.

use crate::ops::CompareDirection;

/// Functions of vectors, by the contract of [`Vector`].
macro_rules! methods {
    ($($(#[$doc:meta])* fn $name:ident($($args:tt)*) $(-> $out:ty)? $body:block)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[allow(unused_unsafe, reason = "masks of AVX-512 are integers")]
        unsafe fn $name($($args)*) $(-> $out)? {
            // SAFETY: the trait's contract.
            unsafe { $body }
        }
    )*};
}

/// The function of two operands, lane by lane in plain code the compiler vectorizes.
macro_rules! lane_ops {
    ($array:ty; $($name:ident($x:ident, $y:ident) $e:expr;)*) => {
        methods! {$(
            fn $name(self, o: Self) -> Self {
                let a = std::mem::transmute_copy::<Self, $array>(&self);
                let b = std::mem::transmute_copy::<Self, $array>(&o);
                let mut out = a;
                for (z, (&$x, &$y)) in out.iter_mut().zip(a.iter().zip(&b)) {
                    *z = $e;
                }
                std::mem::transmute_copy::<$array, Self>(&out)
            }
        )*}
    };
}
/// As [`lane_ops`], of one operand.
macro_rules! lane_map {
    ($name:ident: $from:ty => $to:ty, $f:expr) => {
        methods! {
            fn $name(self) -> Self {
                let a = std::mem::transmute_copy::<Self, [$from; Self::LANES]>(&self);
                let mut out = std::mem::transmute_copy::<Self, [$to; Self::LANES]>(&self);
                for (z, &x) in out.iter_mut().zip(&a) {
                    *z = $f(x);
                }
                std::mem::transmute_copy::<[$to; Self::LANES], Self>(&out)
            }
        }
    };
}
pub(super) use {lane_map, lane_ops, methods};

/// One vector register. All functions need the instruction set of the type they are implemented for.
///
/// # Safety
/// The CPU has the type's instruction set; pointers are valid for one vector, aligned or not.
#[allow(
    clippy::missing_safety_doc,
    missing_docs,
    reason = "one contract for all, above"
)]
pub(crate) trait Vector: Copy {
    /// Elements.
    const LANES: usize;
    /// Bytes of an element.
    const SIZE: usize;
    /// An element whose sign bit alone is set.
    const SIGN: u64;
    /// One truth value per element.
    type Mask: Copy;
    unsafe fn load(p: *const u8) -> Self;
    unsafe fn store(self, p: *mut u8);
    /// The low bytes of `bits` in every lane.
    unsafe fn splat(bits: u64) -> Self;

    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn div(self, o: Self) -> Self;
    /// `self * b + c`, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// The larger one by the CPU's instruction, which knows neither NaN nor the order of zeros.
    unsafe fn larger(self, o: Self) -> Self;
    unsafe fn smaller(self, o: Self) -> Self;
    unsafe fn sqrt(self) -> Self;
    unsafe fn floor(self) -> Self;
    unsafe fn ceil(self) -> Self;
    unsafe fn round_even(self) -> Self;

    unsafe fn int_add(self, o: Self) -> Self;
    unsafe fn int_sub(self, o: Self) -> Self;
    unsafe fn int_mul(self, o: Self) -> Self;
    unsafe fn and(self, o: Self) -> Self;
    unsafe fn or(self, o: Self) -> Self;
    unsafe fn xor(self, o: Self) -> Self;
    unsafe fn shl(self, o: Self) -> Self;
    unsafe fn shr(self, o: Self) -> Self;
    unsafe fn sar(self, o: Self) -> Self;
    unsafe fn int_max(self, o: Self) -> Self;
    unsafe fn int_min(self, o: Self) -> Self;
    unsafe fn uint_max(self, o: Self) -> Self;
    unsafe fn uint_min(self, o: Self) -> Self;
    /// Signed integer to the float of the same size.
    unsafe fn int_to_float(self) -> Self;
    /// Float to the signed integer of the same size: truncated, saturated, NaN to zero.
    unsafe fn float_to_int(self) -> Self;

    unsafe fn compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    unsafe fn int_compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    unsafe fn uint_compare(self, o: Self, direction: CompareDirection) -> Self::Mask;
    /// `mask ? on_true : on_false`.
    unsafe fn select(mask: Self::Mask, on_true: Self, on_false: Self) -> Self;
    unsafe fn mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_xor(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn mask_not(a: Self::Mask) -> Self::Mask;
    /// From one truth byte per element.
    unsafe fn mask_from_bytes(p: *const u8) -> Self::Mask;
    unsafe fn mask_to_bytes(mask: Self::Mask, p: *mut u8);

    /// The elements of two vectors at even places, and at odd ones.
    unsafe fn unzip(self, o: Self) -> (Self, Self);
    /// The elements of two vectors in turns.
    unsafe fn zip(self, o: Self) -> (Self, Self);

    methods! {
        /// The first elements, as many as there are, at most a vector; the others are zero.
        fn load_part(p: *const u8, count: usize) -> Self {
            if count >= Self::LANES {
                return Self::load(p);
            }
            let mut room = [0u64; 8];
            let bytes = count * Self::SIZE;
            std::ptr::copy_nonoverlapping(p, room.as_mut_ptr().cast(), bytes);
            Self::load(room.as_ptr().cast())
        }
        /// Stores the first elements, as many as there is room for.
        fn store_part(self, p: *mut u8, count: usize) {
            if count >= Self::LANES {
                return self.store(p);
            }
            let mut room = [0u64; 8];
            self.store(room.as_mut_ptr().cast());
            let bytes = count * Self::SIZE;
            std::ptr::copy_nonoverlapping(room.as_ptr().cast(), p, bytes);
        }
        /// Element `i` becomes element `i + by`, for a power of two; the last `by` elements are undefined.
        fn down(self, by: usize) -> Self {
            let mut room = [0u64; 16];
            self.store(room.as_mut_ptr().cast());
            Self::load(room.as_ptr().cast::<u8>().add(by * Self::SIZE))
        }
        fn max(self, o: Self) -> Self { self.extremum(o, self.larger(o), self.and(o)) }
        fn min(self, o: Self) -> Self { self.extremum(o, self.smaller(o), self.or(o)) }
        /// What was picked, with NaN first and zeros in order.
        fn extremum(self, o: Self, picked: Self, zeros: Self) -> Self {
            let equal = self.compare(o, CompareDirection::Eq);
            let ordered = Self::select(equal, zeros, picked);
            Self::select(self.compare(self, CompareDirection::Ne), self, ordered)
        }
        /// The larger one of `self` and a lower bound ([`crate::ops::is_lower_bound`]).
        fn at_least(self, bound: Self) -> Self {
            Self::select(self.compare(bound, CompareDirection::Le), bound, self)
        }
        /// The smaller one of `self` and an upper bound ([`crate::ops::is_upper_bound`]).
        fn at_most(self, bound: Self) -> Self {
            Self::select(self.compare(bound, CompareDirection::Ge), bound, self)
        }
        /// Turned left by no more bits than an element has.
        fn rotate(self, by: Self) -> Self {
            let back = Self::splat(8 * Self::SIZE as u64).int_sub(by);
            self.shl(by).or(self.shr(back))
        }
        /// Flips all bits but the sign of negative floats, so that they compare as signed integers.
        fn total_key(self) -> Self {
            let sign = self.sar(Self::splat(8 * Self::SIZE as u64 - 1));
            self.xor(sign.shr(Self::splat(1)))
        }
        fn neg(self) -> Self { self.xor(Self::splat(Self::SIGN)) }
        fn abs(self) -> Self { self.and(Self::splat(Self::SIGN - 1)) }
    }
}

/// What only vectors of `f32` have: narrow floats in its lanes, widened as they are read and rounded after every operation,
/// and the exponential. Eight-byte elements have none: no bytecode of theirs asks for these.
#[allow(clippy::missing_safety_doc, missing_docs, reason = "as Vector")]
pub(super) trait Halves: Vector {
    methods! {
        /// e^x of 4-byte floats.
        fn exp(self) -> Self { self }
        fn load_bf16(p: *const u8) -> Self { Self::load(p) }
        /// Stores a value that `round_bf16` leaves as it is.
        fn store_bf16(self, p: *mut u8) { self.store(p) }
        fn round_bf16(self) -> Self { self }
        fn load_f16(p: *const u8) -> Self { Self::load(p) }
        /// Stores a value that `round_f16` leaves as it is.
        fn store_f16(self, p: *mut u8) { self.store(p) }
        fn round_f16(self) -> Self { self }
    }
}
