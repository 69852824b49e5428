//! Runs the code of vector bytecode.
//!
//! In: code and the addresses of values. Out: values. Eight registers hold one value of a block of elements from one
//! operation to the next; the choice of the operation is made once per block, not once per vector.

use super::code::{Code, Micro};
#[cfg(target_arch = "aarch64")]
use super::neon::{D2, W4};
use super::vector::{Halves, Vector};
#[cfg(target_arch = "x86_64")]
use super::x86::{D4, D8, W8, W16};
use super::{RunBlocks, Strides, Width};
use crate::Isa;
use crate::ops::CompareDirection as Is;
use crate::table::Unary;

/// Vectors of a large block.
pub(super) const WIDE: usize = 8;

/// A large block's values, in registers.
#[derive(Clone, Copy)]
struct Large<V>(V, V, V, V, V, V, V, V);
/// The values of a block of one vector.
#[derive(Clone, Copy)]
struct Small<V>(V);

// Macros rather than closures: a closure does not have the instruction set of the function around it, and what is not
// inlined into that becomes calls.

macro_rules! vector {
    ($acc:ident, $field:tt, $k:ident, $v:ident, $e:expr) => {{
        let ($k, $v) = ($field, $acc.$field);
        let _ = ($k, $v);
        $e
    }};
}

/// A block made from each vector of `$acc` and its number.
macro_rules! large {
    ($acc:ident, |$k:ident, $v:ident| $e:expr) => {
        Large(
            vector!($acc, 0, $k, $v, $e),
            vector!($acc, 1, $k, $v, $e),
            vector!($acc, 2, $k, $v, $e),
            vector!($acc, 3, $k, $v, $e),
            vector!($acc, 4, $k, $v, $e),
            vector!($acc, 5, $k, $v, $e),
            vector!($acc, 6, $k, $v, $e),
            vector!($acc, 7, $k, $v, $e),
        )
    };
}

macro_rules! small {
    ($acc:ident, |$k:ident, $v:ident| $e:expr) => {
        Small(vector!($acc, 0, $k, $v, $e))
    };
}

/// Runs `$e`, which stores something, for each vector; the accumulator stays as it is.
macro_rules! store {
    ($each:ident, $acc:ident, |$k:ident, $v:ident| $e:expr) => {
        $each!($acc, |$k, $v| {
            $e;
            $v
        })
    };
}

/// `f(accumulator, value)`, or `f(value, accumulator)`.
macro_rules! value {
    ($each:ident, $acc:ident, $at:ident, $v:ident, reverse $f:ident) => {
        $each!($acc, |k, v| $v::load($at(k)).$f(v))
    };
    ($each:ident, $acc:ident, $at:ident, $v:ident, $f:ident) => {
        $each!($acc, |k, v| v.$f($v::load($at(k))))
    };
}

/// The same with a constant.
macro_rules! constant {
    ($each:ident, $acc:ident, $micro:ident, $v:ident, reverse $f:ident) => {{
        let c = $v::splat($micro.bits);
        $each!($acc, |_k, v| c.$f(v))
    }};
    ($each:ident, $acc:ident, $micro:ident, $v:ident, $f:ident) => {{
        let c = $v::splat($micro.bits);
        $each!($acc, |_k, v| v.$f(c))
    }};
}

macro_rules! compare {
    ($each:ident, $acc:ident, $micro:ident, $at:ident, $masks:ident, $v:ident, $f:ident, $is:expr) => {{
        let to = $masks($micro.b);
        store!($each, $acc, |k, v| to
            .add(k)
            .write_unaligned(v.$f($v::load($at(k)), $is)))
    }};
}

macro_rules! compare_constant {
    ($each:ident, $acc:ident, $micro:ident, $masks:ident, $v:ident, $f:ident, $is:expr) => {{
        let (to, c) = ($masks($micro.b), $v::splat($micro.bits));
        store!($each, $acc, |k, v| to.add(k).write_unaligned(v.$f(c, $is)))
    }};
}

/// All masks are read before one is written, so that they are combined together where they are bits.
macro_rules! masks {
    ($vectors:expr, $micro:ident, $masks:ident, $v:ident, $f:ident) => {{
        let [x, y, to] = [$micro.a, $micro.b, $micro.c].map($masks);
        let x = x
            .cast::<[<$v as Vector>::Mask; $vectors]>()
            .read_unaligned();
        let y = y
            .cast::<[<$v as Vector>::Mask; $vectors]>()
            .read_unaligned();
        let mut both = x;
        for (both, other) in both.iter_mut().zip(y) {
            *both = $v::$f(*both, other);
        }
        to.cast::<[<$v as Vector>::Mask; $vectors]>()
            .write_unaligned(both);
    }};
}

/// A round of a hash: stores the sum with a value, and combines it with the turned accumulator.
macro_rules! mix {
    ($each:ident, $acc:ident, $at:ident, $v:ident, $to:ident, |$k:ident, $x:ident| $turned:expr) => {
        $each!($acc, |$k, v| {
            let $x = v;
            let turned = $turned;
            let sum = $v::load($at($k)).int_add(v);
            sum.store($to.add($k * $v::LANES * $v::SIZE));
            turned.xor(sum)
        })
    };
}

macro_rules! block {
    ($name:ident, $each:ident, $vectors:expr; $($value:ident $constant:ident $f:ident,)*;
     $($reverse:ident $reverse_c:ident $g:ident,)*; $($compare:ident $compare_c:ident $h:ident $is:ident,)*;
     $($unary:ident $u:ident,)*) => {
        /// Runs the code block by block. Long because it is the interpreter's loop, whose cases share
        /// registers.
        ///
        /// # Safety
        /// The CPU has V's instruction set. Every address the code names is that of a block of its kind, and those that
        /// `strides` describes are those of as many blocks one after the other; they are moved behind them.
        #[inline(always)]
        unsafe fn $name<V: Halves>(
            code: &[Micro],
            calls: &[Unary],
            pointers: *mut *mut u8,
            strides: Strides<'_>,
            blocks: usize,
        ) {
            // SAFETY: the caller's promise; code names addresses and calls that exist.
            unsafe {
                let zero = V::splat(0);
                let mut acc = {
                    let from = Large(zero, zero, zero, zero, zero, zero, zero, zero);
                    $each!(from, |_k, v| v)
                };
                for _ in 0..blocks {
                    for micro in code {
                        let p = *pointers.add(micro.a as usize);
                        let vector = |k: usize| p.add(k * V::LANES * V::SIZE);
                        let half = |k: usize| p.add(k * V::LANES * 2);
                        let byte = |k: usize| p.add(k * V::LANES);
                        let masks = |at: u16| (*pointers.add(at as usize)).cast::<V::Mask>();
                        acc = match micro.code {
                            Code::Load => $each!(acc, |k, _v| V::load(vector(k))),
                            Code::LoadBf16 => $each!(acc, |k, _v| V::load_bf16(half(k))),
                            Code::LoadF16 => $each!(acc, |k, _v| V::load_f16(half(k))),
                            Code::LoadSingle => {
                                let bits = match V::SIZE {
                                    4 => p.cast::<u32>().read_unaligned().into(),
                                    _ => p.cast::<u64>().read_unaligned(),
                                };
                                let c = V::splat(bits);
                                $each!(acc, |_k, _v| c)
                            }
                            Code::LoadConstant => {
                                let c = V::splat(micro.bits);
                                $each!(acc, |_k, _v| c)
                            },
                            Code::Store => store!($each, acc, |k, v| v.store(vector(k))),
                            Code::StoreBf16 => store!($each, acc, |k, v| v.store_bf16(half(k))),
                            Code::StoreF16 => store!($each, acc, |k, v| v.store_f16(half(k))),
                            Code::LoadMask => {
                                let to = masks(micro.b);
                                store!($each, acc, |k, v| {
                                    to.add(k).write_unaligned(V::mask_from_bytes(byte(k)))
                                })
                            }
                            Code::StoreMask => {
                                let from = masks(micro.b);
                                store!($each, acc, |k, v| {
                                    V::mask_to_bytes(from.add(k).read_unaligned(), byte(k))
                                })
                            }
                            Code::Call => {
                                // The kernel does not know these registers, so they are not live across it.
                                calls.get_unchecked(micro.c as usize)(
                                    p,
                                    *pointers.add(micro.b as usize),
                                    $vectors * V::LANES,
                                );
                                let result = *pointers.add(micro.b as usize);
                                $each!(acc, |k, _v| V::load(result.add(k * V::LANES * V::SIZE)))
                            }
                            $(Code::$value => value!($each, acc, vector, V, $f),)*
                            $(Code::$constant => constant!($each, acc, micro, V, $f),)*
                            $(Code::$reverse => value!($each, acc, vector, V, reverse $g),)*
                            $(Code::$reverse_c => constant!($each, acc, micro, V, reverse $g),)*
                            $(Code::$compare => compare!($each, acc, micro, vector, masks, V, $h, Is::$is),)*
                            $(Code::$compare_c => compare_constant!($each, acc, micro, masks, V, $h, Is::$is),)*
                            $(Code::$unary => $each!(acc, |_k, v| v.$u()),)*
                            Code::AtLeastC => constant!($each, acc, micro, V, at_least),
                            Code::AtMostC => constant!($each, acc, micro, V, at_most),
                            Code::MulAdd => {
                                let q = *pointers.add(micro.b as usize);
                                $each!(acc, |k, v| {
                                    v.mul(V::load(vector(k))).add(V::load(q.add(k * V::LANES * V::SIZE)))
                                })
                            }
                            Code::MulAddC => {
                                let c = V::splat(micro.bits);
                                $each!(acc, |k, v| v.mul(V::load(vector(k))).add(c))
                            }
                            Code::ScaleAdd => {
                                let c = V::splat(micro.bits);
                                $each!(acc, |k, v| v.mul(c).add(V::load(vector(k))))
                            }
                            Code::ScaleAddC => {
                                let (c, d) = (V::splat(micro.bits), V::splat(micro.more));
                                $each!(acc, |_k, v| v.mul(c).add(d))
                            }
                            Code::Bounds => {
                                let (low, high) = (V::splat(micro.bits), V::splat(micro.more));
                                $each!(acc, |_k, v| v.at_least(low).at_most(high))
                            }
                            Code::Square => $each!(acc, |_k, v| v.mul(v)),
                            Code::Turn => {
                                let [l, r] = micro.pair().map(|at| *pointers.add(at as usize));
                                $each!(acc, |k, v| {
                                    let at = k * V::LANES * V::SIZE;
                                    v.shl(V::load(l.add(at))).or(v.shr(V::load(r.add(at))))
                                })
                            }
                            Code::TurnC => {
                                let [l, r] = micro.pair();
                                let (l, r) = (V::splat(l.into()), V::splat(r.into()));
                                $each!(acc, |_k, v| v.shl(l).or(v.shr(r)))
                            }
                            Code::Mix => {
                                let [l, r] = micro.pair().map(|at| *pointers.add(at as usize));
                                let to = *pointers.add(micro.b as usize);
                                mix!($each, acc, vector, V, to, |k, x| {
                                    let at = k * V::LANES * V::SIZE;
                                    x.shl(V::load(l.add(at))).or(x.shr(V::load(r.add(at))))
                                })
                            }
                            Code::MixC => {
                                let [l, r] = micro.pair();
                                let (l, r) = (V::splat(l.into()), V::splat(r.into()));
                                let to = *pointers.add(micro.b as usize);
                                mix!($each, acc, vector, V, to, |k, x| x.shl(l).or(x.shr(r)))
                            }
                            Code::RotateC => constant!($each, acc, micro, V, rotate),
                            Code::MixRotateC => {
                                let by = V::splat(micro.bits);
                                let to = *pointers.add(micro.b as usize);
                                mix!($each, acc, vector, V, to, |k, x| x.rotate(by))
                            }
                            Code::Select => {
                                let chosen = masks(micro.b);
                                $each!(acc, |k, v| {
                                    V::select(chosen.add(k).read_unaligned(), v, V::load(vector(k)))
                                })
                            }
                            Code::RSelect => {
                                let chosen = masks(micro.b);
                                $each!(acc, |k, v| {
                                    V::select(chosen.add(k).read_unaligned(), V::load(vector(k)), v)
                                })
                            }
                            Code::SelectC => {
                                let (chosen, c) = (masks(micro.b), V::splat(micro.bits));
                                $each!(acc, |k, v| V::select(chosen.add(k).read_unaligned(), v, c))
                            }
                            Code::RSelectC => {
                                let (chosen, c) = (masks(micro.b), V::splat(micro.bits));
                                $each!(acc, |k, v| V::select(chosen.add(k).read_unaligned(), c, v))
                            }
                            Code::MaskAnd => { masks!($vectors, micro, masks, V, mask_and); acc }
                            Code::MaskOr => { masks!($vectors, micro, masks, V, mask_or); acc }
                            Code::MaskXor => { masks!($vectors, micro, masks, V, mask_xor); acc }
                            Code::MaskNot => {
                                let (from, to) = (masks(micro.a), masks(micro.c));
                                store!($each, acc, |k, v| {
                                    to.add(k).write_unaligned(V::mask_not(from.add(k).read_unaligned()))
                                })
                            }
                        };
                    }
                    for (k, &bytes) in strides.bytes.iter().enumerate() {
                        let pointer = pointers.add(strides.first + k);
                        pointer.write((*pointer).wrapping_offset(bytes));
                    }
                }
            }
        }
    };
}

/// Both sizes of blocks, with the codes that are alike: of a value or a constant, the same as left operands,
/// comparisons, and those of the accumulator alone.
macro_rules! blocks {
    ($($alike:tt)*) => {
        block!(large_blocks, large, WIDE; $($alike)*);
        block!(small_blocks, small, 1; $($alike)*);
    };
}
blocks! {
    Add AddC add, Sub SubC sub, Mul MulC mul, Div DivC div, Max MaxC max, Min MinC min,
    IntAdd IntAddC int_add, IntSub IntSubC int_sub, IntMul IntMulC int_mul, And AndC and, Or OrC or, Xor XorC xor,
    Shl ShlC shl, Shr ShrC shr, Sar SarC sar, IntMax IntMaxC int_max, IntMin IntMinC int_min,
    UintMax UintMaxC uint_max, UintMin UintMinC uint_min,;
    RSub RSubC sub, RDiv RDivC div, RIntSub RIntSubC int_sub,;
    Eq EqC compare Eq, Ne NeC compare Ne, Lt LtC compare Lt, Le LeC compare Le, Gt GtC compare Gt, Ge GeC compare Ge,
    IntEq IntEqC int_compare Eq, IntNe IntNeC int_compare Ne, IntLt IntLtC int_compare Lt, IntLe IntLeC int_compare Le,
    IntGt IntGtC int_compare Gt, IntGe IntGeC int_compare Ge, UintLt UintLtC uint_compare Lt,
    UintLe UintLeC uint_compare Le, UintGt UintGtC uint_compare Gt, UintGe UintGeC uint_compare Ge,;
    Neg neg, Abs abs, Sqrt sqrt, Floor floor, Ceil ceil, RoundEven round_even, Exp exp, RoundBf16 round_bf16,
    RoundF16 round_f16, IntToFloat int_to_float, FloatToInt float_to_int, TotalKey total_key,
}

/// The code that runs blocks, elements of a vector, and bytes of one.
pub(super) fn of(isa: Isa, width: Width) -> Option<(RunBlocks, usize, usize)> {
    match (isa, width) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, Width::Eight) => Some((doubles_avx512, 8, 8)),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _) => Some((words_avx512, 16, 4)),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, Width::Eight) => Some((doubles_avx2, 4, 8)),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _) => Some((words_avx2, 8, 4)),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, Width::Eight) => Some((doubles_neon, 2, 8)),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, _) => Some((words_neon, 4, 4)),
        _ => None,
    }
}

macro_rules! run {
    ($name:ident, $v:ty, $(#[$features:meta])?) => {
        $(#[$features])?
        unsafe fn $name(
            code: &[Micro],
            calls: &[Unary],
            pointers: *mut *mut u8,
            strides: Strides<'_>,
            blocks: usize,
            large: bool,
        ) {
            // SAFETY: the caller's promise, which names this instruction set.
            unsafe {
                if large {
                    large_blocks::<$v>(code, calls, pointers, strides, blocks);
                } else {
                    small_blocks::<$v>(code, calls, pointers, strides, blocks);
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
run!(words_avx512, W16, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
run!(doubles_avx512, D8, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
run!(words_avx2, W8, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
run!(doubles_avx2, D4, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "aarch64")]
run!(words_neon, W4,);
#[cfg(target_arch = "aarch64")]
run!(doubles_neon, D2,);
