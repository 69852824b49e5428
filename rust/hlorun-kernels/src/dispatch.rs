//! What every kernel is made with: functions compiled for each instruction set, and the choice by element type.
//!
//! In: bodies that are generic over a tier and an element type. Out: the instance for a CPU and a [`crate::DType`].
//! Promise: the features of an instruction set, and the type every element is stored as, stand here and nowhere else.

/// An enumeration with the list of its variants.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// Every one, in declaration order.
            pub const ALL: [$name; [$($name::$variant),*].len()] = [$($name::$variant),*];
        }
    };
}

/// Functions that are always inlined.
macro_rules! inline {
    ($($(#[$doc:meta])* fn $name:ident $(<$T:ident: $bound:path>)? ($($args:tt)*) -> $out:ty $body:block)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        fn $name $(<$T: $bound>)? ($($args)*) -> $out $body
    )*};
}

/// `$items!(module, tier, attribute)` for each instruction set.
macro_rules! each_tier {
    ($items:ident) => {
        $items!(portable, $crate::elementwise::Portable,);
        #[cfg(target_arch = "x86_64")]
        $items!(avx2, $crate::elementwise::Avx2, #[target_feature(enable = "avx2,fma,f16c")]);
        #[cfg(target_arch = "x86_64")]
        $items!(avx512, $crate::elementwise::Avx512,
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
        #[cfg(target_arch = "aarch64")]
        $items!(neon, $crate::elementwise::Neon,);
    };
}

/// Something of the module that [`each_tier`] made for `$isa`.
macro_rules! of_tier {
    ($isa:expr, $($item:tt)*) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 => avx512::$($item)*,
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 => avx2::$($item)*,
            #[cfg(target_arch = "aarch64")]
            $crate::Isa::Neon => neon::$($item)*,
            _ => portable::$($item)*,
        }
    };
}

/// `$body`, in which `$T` is the tier of `$isa`.
macro_rules! with_tier {
    ($isa:expr, $T:ident => $body:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 => {
                type $T = $crate::elementwise::Avx2;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 => {
                type $T = $crate::elementwise::Avx512;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            $crate::Isa::Neon => {
                type $T = $crate::elementwise::Neon;
                $body
            }
            _ => {
                type $T = $crate::elementwise::Portable;
                $body
            }
        }
    };
}

/// Calls the function of the element's class with a tier and the element's storage type: tier `$T` for whole bytes and
/// common floats, the portable or the run-time tier for the others. That of complex numbers gets the type of their parts.
macro_rules! by_class {
    ($dtype:expr, $T:ident, [$($pred:ident)::+, $($int:ident)::+, $($low:ident)::+, $($float:ident)::+,
        $($complex:ident)::+] ($($arg:expr),*) $(, $more:ty)?) => {{
        use $crate::DType;
        use $crate::element::{SubS, SubU};
        use $crate::elementwise::{Active, Portable};
        use $crate::low_float::{Bf16, F8, F16};
        match $dtype {
            DType::Pred => $($pred)::+::<$T $(, $more)?>($($arg),*),
            DType::S2 => $($int)::+::<Portable, SubS<2> $(, $more)?>($($arg),*),
            DType::S4 => $($int)::+::<Portable, SubS<4> $(, $more)?>($($arg),*),
            DType::S8 => $($int)::+::<$T, i8 $(, $more)?>($($arg),*),
            DType::S16 => $($int)::+::<$T, i16 $(, $more)?>($($arg),*),
            DType::S32 => $($int)::+::<$T, i32 $(, $more)?>($($arg),*),
            DType::S64 => $($int)::+::<$T, i64 $(, $more)?>($($arg),*),
            DType::U2 => $($int)::+::<Portable, SubU<2> $(, $more)?>($($arg),*),
            DType::U4 => $($int)::+::<Portable, SubU<4> $(, $more)?>($($arg),*),
            DType::U8 => $($int)::+::<$T, u8 $(, $more)?>($($arg),*),
            DType::U16 => $($int)::+::<$T, u16 $(, $more)?>($($arg),*),
            DType::U32 => $($int)::+::<$T, u32 $(, $more)?>($($arg),*),
            DType::U64 => $($int)::+::<$T, u64 $(, $more)?>($($arg),*),
            DType::F4E2M1FN => $($low)::+::<Active, F8<0> $(, $more)?>($($arg),*),
            DType::F8E3M4 => $($low)::+::<Active, F8<1> $(, $more)?>($($arg),*),
            DType::F8E4M3 => $($low)::+::<Active, F8<2> $(, $more)?>($($arg),*),
            DType::F8E4M3FN => $($low)::+::<Active, F8<3> $(, $more)?>($($arg),*),
            DType::F8E4M3FNUZ => $($low)::+::<Active, F8<4> $(, $more)?>($($arg),*),
            DType::F8E4M3B11FNUZ => $($low)::+::<Active, F8<5> $(, $more)?>($($arg),*),
            DType::F8E5M2 => $($low)::+::<Active, F8<6> $(, $more)?>($($arg),*),
            DType::F8E5M2FNUZ => $($low)::+::<Active, F8<7> $(, $more)?>($($arg),*),
            DType::F8E8M0FNU => $($low)::+::<Active, F8<8> $(, $more)?>($($arg),*),
            DType::F16 => $($low)::+::<$T, F16 $(, $more)?>($($arg),*),
            DType::BF16 => $($low)::+::<$T, Bf16 $(, $more)?>($($arg),*),
            DType::F32 => $($float)::+::<$T, f32 $(, $more)?>($($arg),*),
            DType::F64 => $($float)::+::<$T, f64 $(, $more)?>($($arg),*),
            DType::C64 => $($complex)::+::<Portable, f32 $(, $more)?>($($arg),*),
            DType::C128 => $($complex)::+::<Portable, f64 $(, $more)?>($($arg),*),
        }
    }};
}
