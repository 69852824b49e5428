//! The vectors of NEON.
//!
//! In: registers. Out: registers. Promise: that of [`super::vector`].

use super::vector::{Halves, Vector, lane_map, lane_ops, methods};
use crate::elementwise::Neon;
use crate::math::exp::exp;
use crate::ops::CompareDirection;
use std::arch::aarch64::*;
use std::arch::asm;

/// Four 4-byte elements.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct W4(float32x4_t);
/// Two 8-byte elements.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct D2(float64x2_t);

/// Functions of one register, or of two, between two casts.
macro_rules! between {
    ($cast:path, $back:path; $($name:ident => $f:path;)*) => {
        methods! {$(
            fn $name(self, o: Self) -> Self { Self($back($f($cast(self.0), $cast(o.0)))) }
        )*}
    };
}

/// The relation of two registers; `$not` turns the bits over, of which those of an element are alike.
macro_rules! relation {
    ($direction:ident, $a:expr, $b:expr, $not:expr, $eq:path, $lt:path, $le:path, $gt:path, $ge:path) => {
        match $direction {
            CompareDirection::Eq => $eq($a, $b),
            CompareDirection::Ne => $not($eq($a, $b)),
            CompareDirection::Lt => $lt($a, $b),
            CompareDirection::Le => $le($a, $b),
            CompareDirection::Gt => $gt($a, $b),
            CompareDirection::Ge => $ge($a, $b),
        }
    };
}

/// What vectors of both sizes have an instruction for. Masks are vectors of unsigned integers, of which all bits of an
/// element are set or clear.
macro_rules! vector {
    ($t:ident, $lanes:literal, $size:literal, $mask:ty, $not:path, $select:path, $splat:path;
     float: $load:path, $store:path, $add:path, $sub:path, $mul:path, $div:path, $fma:path, $max:path, $min:path, $sqrt:path,
     $floor:path, $ceil:path, $round:path, $compare:tt;
     signed: $signed:path, $of_signed:path, $icompare:tt, $to_float:path, $to_int:path, $sar:path;
     unsigned: $unsigned:path, $of_unsigned:path, $ucompare:tt, $iadd:path, $isub:path, $and:path, $or:path, $xor:path,
     $shift:path, $as_count:path, $turn:path;
     $even:path, $odd:path, $low:path, $high:path; { $($own:tt)* }) => {
        impl Vector for $t {
            const LANES: usize = $lanes;
            const SIZE: usize = $size;
            const SIGN: u64 = 1 << (8 * $size - 1);
            type Mask = $mask;
            methods! {
                fn load(p: *const u8) -> Self { Self($load(p.cast())) }
                fn store(self, p: *mut u8) { $store(p.cast(), self.0) }
                fn splat(bits: u64) -> Self { Self($of_unsigned($splat(bits as _))) }
                fn add(self, o: Self) -> Self { Self($add(self.0, o.0)) }
                fn sub(self, o: Self) -> Self { Self($sub(self.0, o.0)) }
                fn mul(self, o: Self) -> Self { Self($mul(self.0, o.0)) }
                fn div(self, o: Self) -> Self { Self($div(self.0, o.0)) }
                fn fma(self, b: Self, c: Self) -> Self { Self($fma(c.0, self.0, b.0)) }
                fn larger(self, o: Self) -> Self { Self($max(self.0, o.0)) }
                fn smaller(self, o: Self) -> Self { Self($min(self.0, o.0)) }
                fn max(self, o: Self) -> Self { self.or_nan(o, self.larger(o)) }
                fn min(self, o: Self) -> Self { self.or_nan(o, self.smaller(o)) }
                fn sqrt(self) -> Self { Self($sqrt(self.0)) }
                fn floor(self) -> Self { Self($floor(self.0)) }
                fn ceil(self) -> Self { Self($ceil(self.0)) }
                fn round_even(self) -> Self { Self($round(self.0)) }
                fn compare(self, o: Self, direction: CompareDirection) -> $mask {
                    vector!(@ direction, self.0, o.0, $not, $compare)
                }
                fn int_compare(self, o: Self, direction: CompareDirection) -> $mask {
                    vector!(@ direction, $signed(self.0), $signed(o.0), $not, $icompare)
                }
                fn uint_compare(self, o: Self, direction: CompareDirection) -> $mask {
                    vector!(@ direction, $unsigned(self.0), $unsigned(o.0), $not, $ucompare)
                }
                fn int_to_float(self) -> Self { Self($to_float($signed(self.0))) }
                fn float_to_int(self) -> Self { Self($of_signed($to_int(self.0))) }
                // The CPU reads the low byte of a count, of which a negative one shifts to the right.
                fn shl(self, o: Self) -> Self {
                    Self($of_unsigned($shift($unsigned(self.0), $as_count(o.count(8 * $size)))))
                }
                fn shr(self, o: Self) -> Self {
                    Self($of_unsigned($shift($unsigned(self.0), $turn($as_count(o.count(8 * $size))))))
                }
                fn sar(self, o: Self) -> Self {
                    Self($of_signed($sar($signed(self.0), $turn($as_count(o.count(8 * $size - 1))))))
                }
                fn select(mask: $mask, on_true: Self, on_false: Self) -> Self {
                    Self($select(mask, on_true.0, on_false.0))
                }
                fn unzip(self, o: Self) -> (Self, Self) { (Self($even(self.0, o.0)), Self($odd(self.0, o.0))) }
                fn zip(self, o: Self) -> (Self, Self) { (Self($low(self.0, o.0)), Self($high(self.0, o.0))) }
                fn mask_and(a: $mask, b: $mask) -> $mask { $and(a, b) }
                fn mask_or(a: $mask, b: $mask) -> $mask { $or(a, b) }
                fn mask_xor(a: $mask, b: $mask) -> $mask { $xor(a, b) }
                fn mask_not(a: $mask) -> $mask { $not(a) }
            }
            between! { $unsigned, $of_unsigned;
                int_add => $iadd; int_sub => $isub; and => $and; or => $or; xor => $xor;
            }
            $($own)*
        }

        impl $t {
            methods! {
                /// The operand that is NaN, which the CPU would make a quiet one, or else what was picked.
                fn or_nan(self, o: Self, picked: Self) -> Self {
                    let picked = Self::select(o.compare(o, CompareDirection::Eq), picked, o);
                    Self::select(self.compare(self, CompareDirection::Eq), picked, self)
                }
                /// Elements as counts, of which those beyond `most` are that.
                fn count(self, most: u64) -> $mask { $unsigned(self.uint_min(Self::splat(most)).0) }
            }
        }
    };
    (@ $direction:ident, $a:expr, $b:expr, $not:path, [$($f:path),*]) => {
        relation!($direction, $a, $b, $not, $($f),*)
    };
}

vector! { W4, 4, 4, uint32x4_t, vmvnq_u32, vbslq_f32, vdupq_n_u32;
    float: vld1q_f32, vst1q_f32, vaddq_f32, vsubq_f32, vmulq_f32, vdivq_f32, vfmaq_f32, vmaxq_f32, vminq_f32, vsqrtq_f32,
    vrndmq_f32, vrndpq_f32, vrndnq_f32, [vceqq_f32, vcltq_f32, vcleq_f32, vcgtq_f32, vcgeq_f32];
    signed: vreinterpretq_s32_f32, vreinterpretq_f32_s32, [vceqq_s32, vcltq_s32, vcleq_s32, vcgtq_s32, vcgeq_s32],
    vcvtq_f32_s32, vcvtq_s32_f32, vshlq_s32;
    unsigned: vreinterpretq_u32_f32, vreinterpretq_f32_u32, [vceqq_u32, vcltq_u32, vcleq_u32, vcgtq_u32, vcgeq_u32],
    vaddq_u32, vsubq_u32, vandq_u32, vorrq_u32, veorq_u32, vshlq_u32, vreinterpretq_s32_u32, vnegq_s32;
    vuzp1q_f32, vuzp2q_f32, vzip1q_f32, vzip2q_f32; {
    between! { vreinterpretq_s32_f32, vreinterpretq_f32_s32;
        int_mul => vmulq_s32; int_max => vmaxq_s32; int_min => vminq_s32;
    }
    between! { vreinterpretq_u32_f32, vreinterpretq_f32_u32; uint_max => vmaxq_u32; uint_min => vminq_u32; }
    methods! {
        fn mask_from_bytes(p: *const u8) -> uint32x4_t {
            let bytes = vcreate_u8(u64::from(p.cast::<u32>().read_unaligned()));
            let wide = vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
            vtstq_u32(wide, wide)
        }
        fn mask_to_bytes(mask: uint32x4_t, p: *mut u8) {
            let narrow = vmovn_u32(mask);
            let bytes = vreinterpret_u32_u8(vmovn_u16(vcombine_u16(narrow, narrow)));
            p.cast::<u32>().write_unaligned(vget_lane_u32::<0>(bytes) & 0x0101_0101);
        }
    }
}}

/// What is picked by comparison, because there is no such instruction for elements of 8 bytes.
macro_rules! picked {
    ($($name:ident: $compare:ident $direction:ident;)*) => {
        methods! {$(
            fn $name(self, o: Self) -> Self { Self::select(self.$compare(o, CompareDirection::$direction), self, o) }
        )*}
    };
}

vector! { D2, 2, 8, uint64x2_t, not64, vbslq_f64, vdupq_n_u64;
    float: vld1q_f64, vst1q_f64, vaddq_f64, vsubq_f64, vmulq_f64, vdivq_f64, vfmaq_f64, vmaxq_f64, vminq_f64, vsqrtq_f64,
    vrndmq_f64, vrndpq_f64, vrndnq_f64, [vceqq_f64, vcltq_f64, vcleq_f64, vcgtq_f64, vcgeq_f64];
    signed: vreinterpretq_s64_f64, vreinterpretq_f64_s64, [vceqq_s64, vcltq_s64, vcleq_s64, vcgtq_s64, vcgeq_s64],
    vcvtq_f64_s64, vcvtq_s64_f64, vshlq_s64;
    unsigned: vreinterpretq_u64_f64, vreinterpretq_f64_u64, [vceqq_u64, vcltq_u64, vcleq_u64, vcgtq_u64, vcgeq_u64],
    vaddq_u64, vsubq_u64, vandq_u64, vorrq_u64, veorq_u64, vshlq_u64, vreinterpretq_s64_u64, vnegq_s64;
    vuzp1q_f64, vuzp2q_f64, vzip1q_f64, vzip2q_f64; {
    lane_ops! { [i64; 2]; int_mul(x, y) x.wrapping_mul(y); }
    picked! { int_max: int_compare Gt; int_min: int_compare Lt; uint_max: uint_compare Gt; uint_min: uint_compare Lt; }
    methods! {
        fn mask_from_bytes(p: *const u8) -> uint64x2_t {
            let bytes = vcreate_u8(u64::from(p.cast::<u16>().read_unaligned()));
            let wide = vmovl_u32(vget_low_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes)))));
            vtstq_u64(wide, wide)
        }
        fn mask_to_bytes(mask: uint64x2_t, p: *mut u8) {
            let bits = vgetq_lane_u64::<0>(mask) & 1 | vgetq_lane_u64::<1>(mask) & 0x100;
            p.cast::<u16>().write_unaligned(bits as u16);
        }
    }
}}

#[inline(always)]
unsafe fn not64(mask: uint64x2_t) -> uint64x2_t {
    // SAFETY: every CPU of this architecture has NEON.
    unsafe { vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(mask))) }
}

impl Halves for D2 {}

impl Halves for W4 {
    lane_map! { exp: f32 => f32, exp::<Neon> }
    methods! {
        fn load_bf16(p: *const u8) -> Self {
            W4(vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(p.cast())))))
        }
        fn store_bf16(self, p: *mut u8) {
            vst1_u16(p.cast(), vshrn_n_u32::<16>(vreinterpretq_u32_f32(self.0)))
        }
        fn round_bf16(self) -> Self {
            let bits = vreinterpretq_u32_f32(self.0);
            let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
            let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
            let nan = vorrq_u32(bits, vdupq_n_u32(0x40_0000));
            let bits = vbslq_u32(vceqq_f32(self.0, self.0), rounded, nan);
            W4(vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(!0xffff))))
        }
        fn load_f16(p: *const u8) -> Self { widened(vld1_u16(p.cast())) }
        fn store_f16(self, p: *mut u8) { vst1_u16(p.cast(), halves(self)) }
        fn round_f16(self) -> Self { widened(halves(self)) }
    }
}

// The oldest compiler that builds this crate has no stable type for registers of 2-byte floats.

/// Rounded to nearest even.
#[inline(always)]
fn halves(x: W4) -> uint16x4_t {
    let out;
    // SAFETY: an instruction every CPU of this architecture has, on registers only.
    unsafe {
        asm!("fcvtn {out:v}.4h, {x:v}.4s", out = lateout(vreg) out, x = in(vreg) x.0,
            options(pure, nomem, nostack, preserves_flags));
    }
    out
}

#[inline(always)]
fn widened(x: uint16x4_t) -> W4 {
    let out;
    // SAFETY: as above.
    unsafe {
        asm!("fcvtl {out:v}.4s, {x:v}.4h", out = lateout(vreg) out, x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags));
    }
    W4(out)
}
