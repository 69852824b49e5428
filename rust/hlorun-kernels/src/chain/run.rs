//! Runs the code of a chain.
//!
//! In: code and the addresses of values. Out: values. Eight registers hold one value of a block of elements from one
//! operation to the next; the choice of the operation is made once per block, not once per vector.

use super::Width;
use super::code::{Code, Micro};
use super::vector::{D4, D8, Halves, W8, W16};
use crate::Isa;
use crate::ops::CompareDirection as Is;
use crate::table::Unary;

/// Vectors of a large block.
pub(super) const WIDE: usize = 8;

/// What runs one block: code, calls, the address of every value, whether the block is large.
pub(super) type RunBlock = unsafe fn(&[Micro], &[Unary], *const *mut u8, bool);

/// The values of a block, in registers.
trait Block<V: Halves>: Copy {
    const VECTORS: usize;
    unsafe fn of(value: V) -> Self;
    unsafe fn each(self, f: impl FnMut(usize, V) -> V) -> Self;
}

/// A large block.
#[derive(Clone, Copy)]
struct Large<V>(V, V, V, V, V, V, V, V);
/// A block of one vector.
#[derive(Clone, Copy)]
struct Small<V>(V);

impl<V: Halves> Block<V> for Large<V> {
    const VECTORS: usize = WIDE;
    #[inline(always)]
    unsafe fn of(v: V) -> Self {
        Large(v, v, v, v, v, v, v, v)
    }
    #[inline(always)]
    unsafe fn each(self, mut f: impl FnMut(usize, V) -> V) -> Self {
        Large(
            f(0, self.0),
            f(1, self.1),
            f(2, self.2),
            f(3, self.3),
            f(4, self.4),
            f(5, self.5),
            f(6, self.6),
            f(7, self.7),
        )
    }
}

impl<V: Halves> Block<V> for Small<V> {
    const VECTORS: usize = 1;
    #[inline(always)]
    unsafe fn of(v: V) -> Self {
        Small(v)
    }
    #[inline(always)]
    unsafe fn each(self, mut f: impl FnMut(usize, V) -> V) -> Self {
        Small(f(0, self.0))
    }
}

/// # Safety
/// The CPU has V's instruction set; every address the code names is that of a block of its kind.
#[inline(always)]
unsafe fn block<V: Halves, B: Block<V>>(
    code: &[Micro],
    calls: &[Unary],
    pointers: *const *mut u8,
) {
    // SAFETY: the caller's promise; code names addresses and calls that exist.
    unsafe {
        let mut acc = B::of(V::splat(0));
        for micro in code {
            let p = *pointers.add(micro.a as usize);
            let vector = |k: usize| p.add(k * V::LANES * V::SIZE);
            let half = |k: usize| p.add(k * V::LANES * 2);
            let byte = |k: usize| p.add(k * V::LANES);
            let mask_of = |at: u16, k: usize| (*pointers.add(at as usize)).cast::<V::Mask>().add(k);
            /// `acc = f(acc, value)`, `f(value, acc)`, `f(acc, constant)` or `f(constant, acc)`.
            macro_rules! with {
                ($f:ident) => {
                    acc.each(|k, v| v.$f(V::load(vector(k))))
                };
                (reverse $f:ident) => {
                    acc.each(|k, v| V::load(vector(k)).$f(v))
                };
                (constant $f:ident) => {{
                    let c = V::splat(micro.bits);
                    acc.each(|_, v| v.$f(c))
                }};
                (constant reverse $f:ident) => {{
                    let c = V::splat(micro.bits);
                    acc.each(|_, v| c.$f(v))
                }};
            }
            macro_rules! compare {
                ($f:ident, $is:expr) => {
                    acc.each(|k, v| {
                        mask_of(micro.b, k).write_unaligned(v.$f(V::load(vector(k)), $is));
                        v
                    })
                };
                (constant $f:ident, $is:expr) => {{
                    let c = V::splat(micro.bits);
                    acc.each(|k, v| {
                        mask_of(micro.b, k).write_unaligned(v.$f(c, $is));
                        v
                    })
                }};
            }
            macro_rules! masks {
                ($f:ident) => {
                    acc.each(|k, v| {
                        let x = mask_of(micro.a, k).read_unaligned();
                        let y = mask_of(micro.b, k).read_unaligned();
                        mask_of(micro.c, k).write_unaligned(V::$f(x, y));
                        v
                    })
                };
            }
            acc = match micro.code {
                Code::Load => acc.each(|k, _| V::load(vector(k))),
                Code::LoadBf16 => acc.each(|k, _| V::load_bf16(half(k))),
                Code::LoadF16 => acc.each(|k, _| V::load_f16(half(k))),
                Code::LoadConstant => B::of(V::splat(micro.bits)),
                Code::Store => acc.each(|k, v| {
                    v.store(vector(k));
                    v
                }),
                Code::StoreBf16 => acc.each(|k, v| {
                    v.store_bf16(half(k));
                    v
                }),
                Code::StoreF16 => acc.each(|k, v| {
                    v.store_f16(half(k));
                    v
                }),
                Code::LoadMask => acc.each(|k, v| {
                    mask_of(micro.b, k).write_unaligned(V::mask_from_bytes(byte(k)));
                    v
                }),
                Code::StoreMask => acc.each(|k, v| {
                    V::mask_to_bytes(mask_of(micro.b, k).read_unaligned(), byte(k));
                    v
                }),
                Code::Call => {
                    // The kernel does not know these registers, so they are not live across it.
                    calls.get_unchecked(micro.c as usize)(
                        p,
                        *pointers.add(micro.b as usize),
                        B::VECTORS * V::LANES,
                    );
                    let result = *pointers.add(micro.b as usize);
                    B::of(V::splat(0)).each(|k, _| V::load(result.add(k * V::LANES * V::SIZE)))
                }
                Code::Add => with!(add),
                Code::AddC => with!(constant add),
                Code::Sub => with!(sub),
                Code::SubC => with!(constant sub),
                Code::RSub => with!(reverse sub),
                Code::RSubC => with!(constant reverse sub),
                Code::Mul => with!(mul),
                Code::MulC => with!(constant mul),
                Code::Div => with!(div),
                Code::DivC => with!(constant div),
                Code::RDiv => with!(reverse div),
                Code::RDivC => with!(constant reverse div),
                Code::Max => with!(max),
                Code::MaxC => with!(constant max),
                Code::Min => with!(min),
                Code::MinC => with!(constant min),
                Code::Square => acc.each(|_, v| v.mul(v)),
                Code::Neg => acc.each(|_, v| v.neg()),
                Code::Abs => acc.each(|_, v| v.abs()),
                Code::Sqrt => acc.each(|_, v| v.sqrt()),
                Code::Floor => acc.each(|_, v| v.floor()),
                Code::Ceil => acc.each(|_, v| v.ceil()),
                Code::RoundEven => acc.each(|_, v| v.round_even()),
                Code::RoundBf16 => acc.each(|_, v| v.round_bf16()),
                Code::RoundF16 => acc.each(|_, v| v.round_f16()),
                Code::IntAdd => with!(int_add),
                Code::IntAddC => with!(constant int_add),
                Code::IntSub => with!(int_sub),
                Code::IntSubC => with!(constant int_sub),
                Code::RIntSub => with!(reverse int_sub),
                Code::RIntSubC => with!(constant reverse int_sub),
                Code::IntMul => with!(int_mul),
                Code::IntMulC => with!(constant int_mul),
                Code::And => with!(and),
                Code::AndC => with!(constant and),
                Code::Or => with!(or),
                Code::OrC => with!(constant or),
                Code::Xor => with!(xor),
                Code::XorC => with!(constant xor),
                Code::Shl => with!(shl),
                Code::ShlC => with!(constant shl),
                Code::Shr => with!(shr),
                Code::ShrC => with!(constant shr),
                Code::Sar => with!(sar),
                Code::SarC => with!(constant sar),
                Code::IntMax => with!(int_max),
                Code::IntMaxC => with!(constant int_max),
                Code::IntMin => with!(int_min),
                Code::IntMinC => with!(constant int_min),
                Code::UintMax => with!(uint_max),
                Code::UintMaxC => with!(constant uint_max),
                Code::UintMin => with!(uint_min),
                Code::UintMinC => with!(constant uint_min),
                Code::IntToFloat => acc.each(|_, v| v.int_to_float()),
                Code::FloatToInt => acc.each(|_, v| v.float_to_int()),
                Code::Eq => compare!(compare, Is::Eq),
                Code::EqC => compare!(constant compare, Is::Eq),
                Code::Ne => compare!(compare, Is::Ne),
                Code::NeC => compare!(constant compare, Is::Ne),
                Code::Lt => compare!(compare, Is::Lt),
                Code::LtC => compare!(constant compare, Is::Lt),
                Code::Le => compare!(compare, Is::Le),
                Code::LeC => compare!(constant compare, Is::Le),
                Code::Gt => compare!(compare, Is::Gt),
                Code::GtC => compare!(constant compare, Is::Gt),
                Code::Ge => compare!(compare, Is::Ge),
                Code::GeC => compare!(constant compare, Is::Ge),
                Code::IntEq => compare!(int_compare, Is::Eq),
                Code::IntEqC => compare!(constant int_compare, Is::Eq),
                Code::IntNe => compare!(int_compare, Is::Ne),
                Code::IntNeC => compare!(constant int_compare, Is::Ne),
                Code::IntLt => compare!(int_compare, Is::Lt),
                Code::IntLtC => compare!(constant int_compare, Is::Lt),
                Code::IntLe => compare!(int_compare, Is::Le),
                Code::IntLeC => compare!(constant int_compare, Is::Le),
                Code::IntGt => compare!(int_compare, Is::Gt),
                Code::IntGtC => compare!(constant int_compare, Is::Gt),
                Code::IntGe => compare!(int_compare, Is::Ge),
                Code::IntGeC => compare!(constant int_compare, Is::Ge),
                Code::UintLt => compare!(uint_compare, Is::Lt),
                Code::UintLtC => compare!(constant uint_compare, Is::Lt),
                Code::UintLe => compare!(uint_compare, Is::Le),
                Code::UintLeC => compare!(constant uint_compare, Is::Le),
                Code::UintGt => compare!(uint_compare, Is::Gt),
                Code::UintGtC => compare!(constant uint_compare, Is::Gt),
                Code::UintGe => compare!(uint_compare, Is::Ge),
                Code::UintGeC => compare!(constant uint_compare, Is::Ge),
                Code::Select => acc.each(|k, v| {
                    V::select(mask_of(micro.b, k).read_unaligned(), v, V::load(vector(k)))
                }),
                Code::RSelect => acc.each(|k, v| {
                    V::select(mask_of(micro.b, k).read_unaligned(), V::load(vector(k)), v)
                }),
                Code::SelectC => {
                    let c = V::splat(micro.bits);
                    acc.each(|k, v| V::select(mask_of(micro.b, k).read_unaligned(), v, c))
                }
                Code::RSelectC => {
                    let c = V::splat(micro.bits);
                    acc.each(|k, v| V::select(mask_of(micro.b, k).read_unaligned(), c, v))
                }
                Code::MaskAnd => masks!(mask_and),
                Code::MaskOr => masks!(mask_or),
                Code::MaskXor => masks!(mask_xor),
                Code::MaskNot => acc.each(|k, v| {
                    let x = mask_of(micro.a, k).read_unaligned();
                    mask_of(micro.c, k).write_unaligned(V::mask_not(x));
                    v
                }),
            };
        }
    }
}

/// The code that runs blocks, elements of a vector, and bytes of one.
pub(super) fn of(isa: Isa, width: Width) -> Option<(RunBlock, usize, usize)> {
    match (isa, width) {
        (Isa::Avx512, Width::Eight) => Some((doubles_avx512, 8, 8)),
        (Isa::Avx512, _) => Some((words_avx512, 16, 4)),
        (Isa::Avx2, Width::Eight) => Some((doubles_avx2, 4, 8)),
        (Isa::Avx2, _) => Some((words_avx2, 8, 4)),
        (Isa::Portable, _) => None,
    }
}

macro_rules! run {
    ($name:ident, $v:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn $name(
            code: &[Micro],
            calls: &[Unary],
            pointers: *const *mut u8,
            large: bool,
        ) {
            // SAFETY: the caller's promise, which names this instruction set.
            unsafe {
                if large {
                    block::<$v, Large<$v>>(code, calls, pointers);
                } else {
                    block::<$v, Small<$v>>(code, calls, pointers);
                }
            }
        }
    };
}
run!(words_avx512, W16, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
run!(doubles_avx512, D8, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
run!(words_avx2, W8, "avx2,fma,f16c");
run!(doubles_avx2, D4, "avx2,fma,f16c");
