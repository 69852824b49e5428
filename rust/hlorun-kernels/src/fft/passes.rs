//! The passes of a transform.
//!
//! In: two pieces of scratch memory, of which one holds the elements: for each, a vector of real parts, then one of imaginary
//! parts. Out: the other piece holds them after the pass.

use std::mem::MaybeUninit;

use super::{Component, Lines, Pass};
use crate::vector_bytecode::vector::Vector;

/// A complex number in every lane.
#[derive(Clone, Copy)]
struct Complex<V> {
    re: V,
    im: V,
}

// Functions rather than operators, and no closures: those do not have the instruction set of the function around them. All
// are unsafe because vectors need theirs.
impl<V: Vector> Complex<V> {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's instruction set; so in all functions below.
        let zero = unsafe { V::splat(0) };
        Complex { re: zero, im: zero }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller has an element there.
        unsafe {
            Complex {
                re: V::load(from),
                im: V::load(from.add(V::LANES * V::SIZE)),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller has room for an element there.
        unsafe {
            self.re.store(to);
            self.im.store(to.add(V::LANES * V::SIZE));
        }
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Complex {
                re: self.re.add(o.re),
                im: self.im.add(o.im),
            }
        }
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Complex {
                re: self.re.sub(o.re),
                im: self.im.sub(o.im),
            }
        }
    }

    /// Times -i.
    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: as above.
        let re = unsafe { self.re.neg() };
        Complex {
            re: self.im,
            im: re,
        }
    }

    #[inline(always)]
    unsafe fn scaled(self, by: V) -> Self {
        // SAFETY: as above.
        unsafe {
            Complex {
                re: self.re.mul(by),
                im: self.im.mul(by),
            }
        }
    }

    /// `self + o * by`.
    #[inline(always)]
    unsafe fn plus(self, o: Self, by: V) -> Self {
        // SAFETY: as above.
        unsafe {
            Complex {
                re: o.re.fma(by, self.re),
                im: o.im.fma(by, self.im),
            }
        }
    }

    #[inline(always)]
    unsafe fn times<E: Component>(self, [re, im]: [E; 2]) -> Self {
        // SAFETY: as above.
        unsafe {
            let (re, im) = (V::splat(re.bits()), V::splat(im.bits()));
            Complex {
                re: self.im.neg().fma(im, self.re.mul(re)),
                im: self.re.fma(im, self.im.mul(re)),
            }
        }
    }
}

/// Where an element of every part is read, and where the outputs go. In the first pass that is where the lines are, and
/// after the last one where the results are: complex numbers side by side.
struct Places<'l, E> {
    from: *const u8,
    to: *mut u8,
    /// Bytes between elements of the same number in neighbouring parts, read and written.
    apart: usize,
    to_apart: usize,
    /// By what the outputs but the first are multiplied.
    twiddles: *const [E; 2],
    lines: &'l Lines<E>,
}

impl<E: Component> Places<'_, E> {
    #[inline(always)]
    unsafe fn load<V: Vector, const FIRST: bool>(&self, part: usize) -> Complex<V> {
        // SAFETY: the caller asks for parts that there are.
        unsafe {
            let from = self.from.add(part * self.apart);
            match FIRST {
                true => bring(self.lines, from),
                false => Complex::load(from),
            }
        }
    }

    /// Stores the output of a part. Twiddles after the last pass are all one.
    #[inline(always)]
    unsafe fn store<V: Vector, const LAST: bool>(&self, part: usize, value: Complex<V>) {
        // SAFETY: as above; there is a twiddle for every part but the first.
        unsafe {
            let to = self.to.add(part * self.to_apart);
            if LAST {
                take(self.lines, value, to);
            } else if part == 0 {
                value.store(to);
            } else {
                value.times(*self.twiddles.add(part - 1)).store(to);
            }
        }
    }
}

/// An element of as many lines as there are, with zeros in other lanes. The real and imaginary parts change places for the
/// inverse, which is the transform between two such changes.
#[inline(always)]
unsafe fn bring<V: Vector, E>(lines: &Lines<E>, from: *const u8) -> Complex<V> {
    let next = V::LANES * V::SIZE;
    // SAFETY: the caller has an element of `count` lines there.
    unsafe {
        let (first, second) = match lines.count == V::LANES {
            true => (V::load(from), V::load(from.add(next))),
            false => {
                let (few, more) = halves::<V>(lines.count);
                (
                    V::load_part(from, few),
                    V::load_part(from.wrapping_add(next), more),
                )
            }
        };
        let (re, im) = first.unzip(second);
        match lines.is_inverse {
            false => Complex { re, im },
            true => Complex { re: im, im: re },
        }
    }
}

/// The other way round, with the results' scale.
#[inline(always)]
unsafe fn take<V: Vector, E: Component>(lines: &Lines<E>, value: Complex<V>, to: *mut u8) {
    let next = V::LANES * V::SIZE;
    // SAFETY: as above.
    unsafe {
        let Complex { re, im } = match lines.scale {
            Some(scale) => value.scaled(V::splat(scale.bits())),
            None => value,
        };
        let (first, second) = match lines.is_inverse {
            false => re.zip(im),
            true => im.zip(re),
        };
        if lines.count == V::LANES {
            first.store(to);
            second.store(to.add(next));
        } else {
            let (few, more) = halves::<V>(lines.count);
            first.store_part(to, few);
            second.store_part(to.wrapping_add(next), more);
        }
    }
}

/// Components of `count` complex numbers in the first of two vectors, and in the second.
#[inline(always)]
fn halves<V: Vector>(count: usize) -> (usize, usize) {
    let few = (2 * count).min(V::LANES);
    (few, 2 * count - few)
}

/// The transform of two elements, one from each part.
#[inline(always)]
unsafe fn two<V: Vector>([a, b]: [Complex<V>; 2]) -> [Complex<V>; 2] {
    // SAFETY: the caller's instruction set; so in the functions below.
    unsafe { [a.add(b), a.sub(b)] }
}

#[inline(always)]
unsafe fn four<V: Vector>([a, b, c, d]: [Complex<V>; 4]) -> [Complex<V>; 4] {
    // SAFETY: as above.
    unsafe {
        let ([p, q], [r, s]) = (two([a, c]), two([b, d]));
        let s = s.turned();
        [p.add(r), q.add(s), p.sub(r), q.sub(s)]
    }
}

#[inline(always)]
unsafe fn eight<V: Vector, E: Component>(x: [Complex<V>; 8]) -> [Complex<V>; 8] {
    // SAFETY: as above.
    unsafe {
        let [a, b, c, d] = four([x[0], x[2], x[4], x[6]]);
        let [p, q, r, s] = four([x[1], x[3], x[5], x[7]]);
        let half = V::splat(E::narrow(std::f64::consts::FRAC_1_SQRT_2).bits());
        let q = q.add(q.turned()).scaled(half);
        let r = r.turned();
        let s = s.turned().sub(s).scaled(half);
        [
            a.add(p),
            b.add(q),
            c.add(r),
            d.add(s),
            a.sub(p),
            b.sub(q),
            c.sub(r),
            d.sub(s),
        ]
    }
}

/// Adds terms `1..=half` of outputs `of..of + N` of an odd factor: those of the sums by cosines to `cos`, of the differences
/// by sines to `sin`.
#[inline(always)]
unsafe fn terms<V: Vector, E: Component, const N: usize>(
    pairs: *const [Complex<V>; 2],
    half: usize,
    of: usize,
    roots: &[[E; 2]],
    cos: &mut [Complex<V>; N],
    sin: &mut [Complex<V>; N],
) {
    let mut at = [0; N];
    for j in 0..half {
        // SAFETY: there are `half` pairs, and as many roots as the factor.
        unsafe {
            let [sum, difference] = *pairs.add(j);
            for n in 0..N {
                at[n] += of + n;
                if at[n] >= roots.len() {
                    at[n] -= roots.len();
                }
                let [c, s] = *roots.get_unchecked(at[n]);
                cos[n] = cos[n].plus(sum, V::splat(c.bits()));
                sin[n] = sin[n].plus(difference, V::splat(s.bits()));
            }
        }
    }
}

/// The transform of one element of each part of an odd factor `p`. Outputs `q` and `p - q` have terms of the same size.
#[inline(always)]
unsafe fn odd<V: Vector, E: Component, const FIRST: bool, const LAST: bool>(
    p: usize,
    places: &Places<'_, E>,
    pairs: *mut [Complex<V>; 2],
    roots: &[[E; 2]],
) {
    let half = p / 2;
    // SAFETY: `pairs` has room for half of the parts; the caller's promise.
    unsafe {
        let first = places.load::<V, FIRST>(0);
        let mut all = first;
        for j in 0..half {
            let a = places.load::<V, FIRST>(j + 1);
            let b = places.load::<V, FIRST>(p - 1 - j);
            let sum = a.add(b);
            all = all.add(sum);
            pairs.add(j).write([sum, a.sub(b)]);
        }
        places.store::<V, LAST>(0, all);
        let zero = Complex::zero();
        let mut q = 1;
        while q < half {
            let (mut cos, mut sin) = ([first; 2], [zero; 2]);
            terms(pairs, half, q, roots, &mut cos, &mut sin);
            opposite::<V, E, LAST>(p, q, cos[0], sin[0], places);
            opposite::<V, E, LAST>(p, q + 1, cos[1], sin[1], places);
            q += 2;
        }
        if q == half {
            let (mut cos, mut sin) = ([first], [zero]);
            terms(pairs, half, q, roots, &mut cos, &mut sin);
            opposite::<V, E, LAST>(p, q, cos[0], sin[0], places);
        }
    }
}

/// Stores outputs `q` and `p - q`.
#[inline(always)]
unsafe fn opposite<V: Vector, E: Component, const LAST: bool>(
    p: usize,
    q: usize,
    cos: Complex<V>,
    sin: Complex<V>,
    places: &Places<'_, E>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // Sines of the roots have the transform's sign: i times their sum is added.
        let sin = sin.turned();
        places.store::<V, LAST>(q, cos.sub(sin));
        places.store::<V, LAST>(p - q, cos.add(sin));
    }
}

/// Loads an element of each of `$n` parts, transforms them and stores the outputs.
macro_rules! plain {
    ($n:literal, $places:ident, $butterfly:expr) => {{
        let mut x = [Complex::zero(); $n];
        for (part, x) in x.iter_mut().enumerate() {
            *x = $places.load::<V, FIRST>(part);
        }
        for (part, y) in $butterfly(x).into_iter().enumerate() {
            $places.store::<V, LAST>(part, y);
        }
    }};
}

/// Runs `$body` for every element of a part in every block.
macro_rules! elements {
    ($pass:ident, $lines:ident, $from:ident, $to:ident, |$places:ident| $body:expr) => {{
        let size = 2 * V::LANES * V::SIZE;
        let size_from = if FIRST {
            2 * $lines.from_step * V::SIZE
        } else {
            size
        };
        let size_to = if LAST {
            2 * $lines.to_step * V::SIZE
        } else {
            size
        };
        let (step, factor) = ($pass.step, $pass.factor);
        for block in 0..$pass.done {
            for i in 0..step {
                let $places = Places {
                    from: $from.add((block * factor * step + i) * size_from),
                    to: $to.add((block * step + i) * size_to),
                    apart: step * size_from,
                    to_apart: $pass.done * step * size_to,
                    twiddles: $pass.twiddles.as_ptr().add(i * (factor - 1)),
                    lines: $lines,
                };
                $body
            }
        }
    }};
}

/// Runs one pass.
///
/// # Safety
/// The CPU has V's instruction set; `from` and `to` have as many elements as the pass goes over, and do not overlap, unless
/// these are those of the lines in the only pass.
#[inline(always)]
unsafe fn run_pass<V: Vector, E: Component, const FIRST: bool, const LAST: bool>(
    pass: &Pass<E>,
    lines: &Lines<E>,
    from: *const u8,
    to: *mut u8,
) {
    // SAFETY: the caller's contract; the twiddles belong to the pass, and outputs are stored after all parts are loaded.
    unsafe {
        match pass.factor {
            2 => elements!(pass, lines, from, to, |places| plain!(2, places, two)),
            4 => elements!(pass, lines, from, to, |places| plain!(4, places, four)),
            8 => elements!(pass, lines, from, to, |places| plain!(
                8,
                places,
                eight::<V, E>
            )),
            3 => {
                let mut pairs = [MaybeUninit::<[Complex<V>; 2]>::uninit(); 1];
                elements!(pass, lines, from, to, |places| odd::<V, E, FIRST, LAST>(
                    3,
                    &places,
                    pairs.as_mut_ptr().cast(),
                    &pass.roots
                ));
            }
            5 => {
                let mut pairs = [MaybeUninit::<[Complex<V>; 2]>::uninit(); 2];
                elements!(pass, lines, from, to, |places| odd::<V, E, FIRST, LAST>(
                    5,
                    &places,
                    pairs.as_mut_ptr().cast(),
                    &pass.roots
                ));
            }
            _ => {
                let mut pairs = [MaybeUninit::<[Complex<V>; 2]>::uninit(); super::MAX_PRIME / 2];
                elements!(pass, lines, from, to, |places| odd::<V, E, FIRST, LAST>(
                    pass.factor,
                    &places,
                    pairs.as_mut_ptr().cast(),
                    &pass.roots
                ));
            }
        }
    }
}

/// Runs the passes.
#[inline(always)]
unsafe fn run<V: Vector, E: Component>(passes: &[Pass<E>], lines: &Lines<E>, scratch: *mut E) {
    let (source, target) = (lines.from.cast::<u8>(), lines.to.cast::<u8>());
    // SAFETY: the caller's contract: scratch has room for all elements twice.
    unsafe {
        let (mut from, mut to) = (
            scratch.cast::<u8>(),
            scratch.add(2 * lines.length * V::LANES).cast::<u8>(),
        );
        let [first, rest @ ..] = passes else {
            return;
        };
        let [middle @ .., last] = rest else {
            return run_pass::<V, E, true, true>(first, lines, source, target);
        };
        run_pass::<V, E, true, false>(first, lines, source, from);
        for pass in middle {
            run_pass::<V, E, false, false>(pass, lines, from, to);
            (from, to) = (to, from);
        }
        run_pass::<V, E, false, true>(last, lines, from, target);
    }
}

macro_rules! tier {
    ($name:ident, $(#[$features:meta])?) => {
        /// Transforms lines.
        ///
        /// # Safety
        /// The CPU has the instruction set of this tier, which is V's. The passes are those of the lines' length. All
        /// elements that `lines` names are valid, of at most as many lines as V has lanes, and `scratch` has four components
        /// for each element and lane.
        $(#[$features])?
        pub(super) unsafe fn $name<V: Vector, E: Component>(
            passes: &[Pass<E>],
            lines: &Lines<E>,
            scratch: *mut E,
        ) {
            // SAFETY: the caller's contract.
            unsafe { run::<V, E>(passes, lines, scratch) };
        }
    };
}
#[cfg(target_arch = "x86_64")]
tier!(avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(avx2, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "aarch64")]
tier!(neon,);
