//! Fourier transforms of several lines at once, one line in each lane of the vectors.
//!
//! In: complex numbers, neighbouring lines side by side. Out: their discrete Fourier transforms, of the lengths that
//! [`LaneFft::new`] takes. Promise: a line's bits depend on neither its lane nor the other lines, and all instruction sets
//! that have such vectors give the same ones.
//!
//! Stockham's algorithm, a pass for each factor of the length. Lanes never meet, so that a pass of any factor needs no
//! shuffles. (C. Van Loan: Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7.)

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod passes;

use std::mem::MaybeUninit;

use crate::Isa;
#[cfg(target_arch = "aarch64")]
use crate::vector_bytecode::neon::{D2, W4};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::vector_bytecode::vector::Vector;
#[cfg(target_arch = "x86_64")]
use crate::vector_bytecode::x86::{D4, D8, W8, W16};

/// Largest prime factor that is transformed by its definition, as sums over half as many terms.
const MAX_PRIME: usize = 256;
/// Longest line: two of them, in all lanes, should stay in the second-level cache.
const MAX_LENGTH: usize = 2048;
/// Factors that are split off first, in this order; those left are primes.
const FACTORS: [usize; 5] = [8, 4, 2, 3, 5];

mod sealed {
    /// Kernels that are not ours could break memory.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A component of the complex numbers.
pub trait Component: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The nearest value of this type.
    fn narrow(x: f64) -> Self;
    /// Its bits.
    fn bits(self) -> u64;
    /// What transforms lines on the instruction set, and its lanes.
    fn kernel(isa: Isa) -> Option<(Run<Self>, usize)>;
}

/// Runs the passes of [`Lines`].
pub type Run<E> = unsafe fn(&[Pass<E>], &Lines<E>, *mut E);

/// A pass of Stockham's algorithm: `done` is the product of the factors of earlier passes, `step` of those of later ones.
pub struct Pass<E> {
    factor: usize,
    done: usize,
    step: usize,
    /// The twiddle factors: for each of `step` elements, those of all outputs but the first.
    twiddles: Box<[[E; 2]]>,
    /// The roots of unity of an odd factor.
    roots: Box<[[E; 2]]>,
}

/// Lines to transform: element `k` of line `l` is complex number `k * step + l` from the first one.
pub struct Lines<E> {
    /// Where they are read.
    pub from: *const E,
    /// Complex numbers from one element of a line to the next.
    pub from_step: usize,
    /// Where the results go, which may be the same place.
    pub to: *mut E,
    /// As `from_step`.
    pub to_step: usize,
    /// How many lines, at most [`LaneFft::lanes`].
    pub count: usize,
    /// Elements of each.
    pub length: usize,
    /// Whether the inverse is computed.
    pub is_inverse: bool,
    /// What the results are multiplied by.
    pub scale: Option<E>,
}

/// Transforms of one length.
pub struct LaneFft<E> {
    length: usize,
    lanes: usize,
    passes: Vec<Pass<E>>,
    run: Run<E>,
}

impl<E: Component> LaneFft<E> {
    /// For lines of `length` elements; `None` for one that is too long, has too large a prime factor, or where the CPU has no
    /// such vectors.
    pub fn new(length: usize) -> Option<LaneFft<E>> {
        LaneFft::on(Isa::active(), length)
    }

    /// [`LaneFft::new`] for a given tier; `None` where the CPU does not have it.
    pub fn on(isa: Isa, length: usize) -> Option<LaneFft<E>> {
        let (run, lanes) = E::kernel(isa).filter(|_| isa.is_available())?;
        if !(2..=MAX_LENGTH).contains(&length) {
            return None;
        }
        let mut passes = Vec::new();
        let (mut done, mut rest) = (1, length);
        while rest > 1 {
            let factor = factor_of(rest);
            if factor > MAX_PRIME {
                return None;
            }
            rest /= factor;
            passes.push(pass(factor, done, rest));
            done *= factor;
        }
        Some(LaneFft {
            length,
            lanes,
            passes,
            run,
        })
    }

    /// Lines that are transformed at once.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Components of the scratch memory of [`LaneFft::run`].
    pub fn scratch(&self) -> usize {
        4 * self.length * self.lanes
    }

    /// Transforms lines.
    ///
    /// # Panics
    /// Where there are more lines than lanes, they have another length, or `scratch` is too small.
    ///
    /// # Safety
    /// All elements of the lines are readable where they are read, and writable where results go; the two places are the
    /// same or do not overlap.
    pub unsafe fn run(&self, lines: &Lines<E>, scratch: &mut [MaybeUninit<E>]) {
        assert!(
            lines.count <= self.lanes
                && lines.length == self.length
                && scratch.len() >= self.scratch(),
            "lines that these transforms take"
        );
        // SAFETY: the caller's contract; the kernel is of a tier that is available, and the passes belong to the length.
        unsafe { (self.run)(&self.passes, lines, scratch.as_mut_ptr().cast()) };
    }
}

/// The factor of the next pass.
fn factor_of(rest: usize) -> usize {
    let own = FACTORS
        .into_iter()
        .find(|&factor| rest.is_multiple_of(factor));
    own.unwrap_or_else(|| {
        let mut odd = (7..).step_by(2).take_while(|p| *p <= rest / *p);
        odd.find(|&p| rest.is_multiple_of(p)).unwrap_or(rest)
    })
}

/// The largest prime factor of a length; 1 of 0 and 1.
pub fn largest_prime(length: usize) -> usize {
    let (mut rest, mut largest) = (length, 1);
    while rest > 1 {
        let factor = factor_of(rest);
        let prime = if factor.is_multiple_of(2) { 2 } else { factor };
        largest = largest.max(prime);
        rest /= factor;
    }
    largest
}

fn pass<E: Component>(factor: usize, done: usize, step: usize) -> Pass<E> {
    let whole = factor * step;
    let root = |at: usize, of: usize| {
        let (sin, cos) = (-std::f64::consts::TAU * (at % of) as f64 / of as f64).sin_cos();
        [cos, sin].map(E::narrow)
    };
    let twiddles = (0..step).flat_map(|i| (1..factor).map(move |j| root(i * j, whole)));
    let roots = (0..factor)
        .filter(|_| !factor.is_multiple_of(2))
        .map(|at| root(at, factor));
    Pass {
        factor,
        done,
        step,
        twiddles: twiddles.collect(),
        roots: roots.collect(),
    }
}

macro_rules! component {
    ($($t:ty: $avx512:ident $avx2:ident $neon:ident;)*) => {$(
        impl Component for $t {
            #[inline(always)]
            fn narrow(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn kernel(isa: Isa) -> Option<(Run<$t>, usize)> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => Some((passes::avx512::<$avx512, $t>, $avx512::LANES)),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => Some((passes::avx2::<$avx2, $t>, $avx2::LANES)),
                    #[cfg(target_arch = "aarch64")]
                    Isa::Neon => Some((passes::neon::<$neon, $t>, $neon::LANES)),
                    _ => None,
                }
            }
        }
    )*};
}
component! {
    f32: W16 W8 W4;
    f64: D8 D4 D2;
}

#[cfg(test)]
mod tests;
