//! Which instruction set the kernels use.
//!
//! In: the CPU and the environment variable `HLORUN_ISA` (`portable`, `avx2`, `avx512` or `neon`). Out: one [`Isa`], decided
//! once per process. Promise: a tier the CPU lacks is never chosen; the basic arithmetic operations give the same
//! bits on every tier; transcendental functions may differ in the last bit, because only some tiers fuse
//! multiplication and addition.

use std::sync::LazyLock;

/// An instruction-set tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every target of this architecture has.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, and all of [`Isa::Avx2`].
    Avx512,
    /// NEON with fused multiply-add, which every AArch64 CPU has.
    Neon,
}

impl Isa {
    const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon];

    /// Whether this CPU can run the tier.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = || {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            };
            match self {
                Isa::Portable => true,
                Isa::Neon => false,
                Isa::Avx2 => avx2(),
                Isa::Avx512 => {
                    avx2()
                        && is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx512dq")
                        && is_x86_feature_detected!("avx512vl")
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            match self {
                Isa::Portable => true,
                Isa::Neon => cfg!(target_arch = "aarch64"),
                Isa::Avx2 | Isa::Avx512 => false,
            }
        }
    }

    /// Whether the tier rounds once for a multiplication and the addition that follows. Tiers that do have vectors of
    /// their own, and give the same sums.
    pub fn is_fused(self) -> bool {
        self != Isa::Portable
    }

    /// Every tier this CPU can run, slowest first.
    pub fn available() -> Vec<Isa> {
        let mut tiers = Isa::ALL.to_vec();
        tiers.retain(|isa| isa.is_available());
        tiers
    }

    /// The tier in use: the best available one, or the one `HLORUN_ISA` names if it is available.
    pub fn active() -> Isa {
        *ACTIVE
    }
}

static ACTIVE: LazyLock<Isa> = LazyLock::new(|| {
    let best = || Isa::available().last().copied().unwrap_or(Isa::Portable);
    let forced = match std::env::var("HLORUN_ISA").ok().as_deref() {
        Some("portable") => Isa::Portable,
        Some("avx2") => Isa::Avx2,
        Some("avx512") => Isa::Avx512,
        Some("neon") => Isa::Neon,
        _ => return best(),
    };
    if forced.is_available() {
        forced
    } else {
        best()
    }
});
