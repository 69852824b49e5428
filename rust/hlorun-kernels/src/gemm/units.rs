//! The innermost loops of integer products, on units of 4 or 8 bytes.
//!
//! In: matrices as they are stored. Out: packed units, and sums of their products. A unit is one integer, or a pair of
//! 16-bit integers that are neighbours along the depth. Promise: everything is modulo 2³² or 2⁶⁴, so that no order, tile
//! or instruction set changes a bit.

#[cfg(target_arch = "aarch64")]
use super::steps::Neon;
#[cfg(not(target_arch = "x86_64"))]
use super::steps::Plain;
use super::steps::Steps;
#[cfg(target_arch = "x86_64")]
use super::steps::{Eight, Four, Sixteen, Vnni};
use crate::element::{Elem, SubS, SubU};
use crate::isa::Isa;

/// Units along the depth in one block.
pub(super) const KC: usize = 256;
/// Units from one row of a packed A to the next: not a power of two, so that rows do not share cache sets.
pub(super) const ROW: usize = KC + 16;

/// A stored integer.
pub(super) trait Stored: Copy + Send + Sync + 'static {
    fn wide(self) -> i64;
}

/// A truth value, one byte.
#[derive(Clone, Copy)]
pub(super) struct Truth(u8);

impl Stored for Truth {
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self.0 != 0)
    }
}

macro_rules! stored {
    ($($t:ident)*) => {$(
        impl Stored for $t {
            #[inline(always)]
            fn wide(self) -> i64 { self as i64 }
        }
    )*};
}
stored!(i8 u8 i16 i32 i64);

// Bits above a narrow type's own say nothing.
impl<const BITS: u32> Stored for SubS<BITS> {
    #[inline(always)]
    fn wide(self) -> i64 {
        self.widen()
    }
}
impl<const BITS: u32> Stored for SubU<BITS> {
    #[inline(always)]
    fn wide(self) -> i64 {
        self.widen() as i64
    }
}

/// What products are made of.
pub(super) trait Unit: Copy + Send + Sync + 'static {
    /// Integers of a unit.
    const DEPTH: usize;
    /// What they are summed in.
    type Sum: Copy + Send + Sync + 'static;
    const ZERO: Self::Sum;
    /// One integer, as a unit holds it.
    type Part: Copy;
    fn part(x: i64) -> Self::Part;
    fn unit(first: i64, second: i64) -> Self;
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `sum + a·b`, on an instruction set.
    fn step<S: Steps, const NR: usize>(sums: &mut [Self::Sum; NR], a: Self, b: &[Self; NR]);
    fn kernels() -> &'static Kernels<Self>;
}

/// Two 16-bit integers.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Pair(pub u32);

impl Pair {
    #[inline(always)]
    pub(super) fn dot(self, o: Pair) -> u32 {
        let half = |x: u32| i32::from(x as i16);
        let low = half(self.0).wrapping_mul(half(o.0));
        let high = half(self.0 >> 16).wrapping_mul(half(o.0 >> 16));
        low.wrapping_add(high) as u32
    }
}

impl Unit for Pair {
    const DEPTH: usize = 2;
    type Sum = u32;
    const ZERO: u32 = 0;
    type Part = i16;
    #[inline(always)]
    fn part(x: i64) -> i16 {
        x as i16
    }
    #[inline(always)]
    fn unit(first: i64, second: i64) -> Pair {
        // As two neighbours in memory are read.
        if cfg!(target_endian = "little") {
            Pair(u32::from(first as u16) | u32::from(second as u16) << 16)
        } else {
            Pair(u32::from(second as u16) | u32::from(first as u16) << 16)
        }
    }
    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn step<S: Steps, const NR: usize>(sums: &mut [u32; NR], a: Pair, b: &[Pair; NR]) {
        S::pairs(sums, a, b);
    }
    fn kernels() -> &'static Kernels<Pair> {
        static SET: std::sync::LazyLock<Kernels<Pair>> =
            std::sync::LazyLock::new(|| match Isa::active() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => vnni::kernels32(),
                isa => of_tier!(isa, kernels32()),
            });
        &SET
    }
}

/// An integer that is its own unit.
pub(super) trait Single: Unit<Sum = Self> {
    fn mul_add(self, a: Self, b: Self) -> Self;
}

macro_rules! single {
    ($t:ident, $kernels:ident, $step:ident) => {
        impl Single for $t {
            #[inline(always)]
            fn mul_add(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }

        impl Unit for $t {
            const DEPTH: usize = 1;
            type Sum = $t;
            const ZERO: $t = 0;
            type Part = $t;
            #[inline(always)]
            fn part(x: i64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn unit(first: i64, _: i64) -> $t {
                first as $t
            }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn step<S: Steps, const NR: usize>(sums: &mut [$t; NR], a: $t, b: &[$t; NR]) {
                S::$step(sums, a, b);
            }
            fn kernels() -> &'static Kernels<$t> {
                static SET: std::sync::LazyLock<Kernels<$t>> =
                    std::sync::LazyLock::new(|| of_tier!(Isa::active(), $kernels()));
                &SET
            }
        }
    };
}
single!(u32, kernels32, words);
single!(u64, kernels64, doubles);

/// A block of the product: `c[rows, width] (+)= a[rows, depth]·b[depth, strip]`.
pub(super) struct Tile<U: Unit> {
    /// In units.
    pub depth: usize,
    /// Rows [`ROW`] units apart.
    pub a: *const U,
    /// Dense, as wide as a strip.
    pub b: *const U,
    pub c: *mut U::Sum,
    pub c_row: isize,
    /// Columns to write.
    pub width: usize,
    /// C is added to, not written.
    pub adds: bool,
}

#[inline(always)]
unsafe fn tile<U: Unit, S: Steps, const R: usize, const NR: usize>(t: &Tile<U>) {
    let mut sums = [[U::ZERO; NR]; R];
    // SAFETY: the caller's contract.
    unsafe {
        for p in 0..t.depth {
            let b = t.b.add(p * NR).cast::<[U; NR]>().read_unaligned();
            for (r, sum) in sums.iter_mut().enumerate() {
                U::step::<S, NR>(sum, t.a.add(r * ROW + p).read(), &b);
            }
        }
        let whole = t.width == NR;
        for (r, sum) in sums.iter().enumerate() {
            if whole {
                let at = t.c.offset(r as isize * t.c_row).cast::<[U::Sum; NR]>();
                let mut out = *sum;
                if t.adds {
                    for (o, &old) in out.iter_mut().zip(&at.read_unaligned()) {
                        *o = U::add(*o, old);
                    }
                }
                at.write_unaligned(out);
            }
        }
        if !whole {
            // A copy, so that the sums themselves can stay in registers.
            let mut copy = std::mem::MaybeUninit::<[[U::Sum; NR]; R]>::uninit();
            let rows = copy.as_mut_ptr().cast::<[U::Sum; NR]>();
            for (r, sum) in sums.iter().enumerate() {
                rows.add(r).write(*sum);
            }
            edge(t, copy.assume_init_ref().as_flattened(), NR);
        }
    }
}

/// Writes the columns of a strip that is cut off.
#[inline(never)]
unsafe fn edge<U: Unit>(t: &Tile<U>, sums: &[U::Sum], strip: usize) {
    for (r, sums) in sums.chunks_exact(strip).enumerate() {
        for (j, &s) in sums[..t.width].iter().enumerate() {
            // SAFETY: inside the tile of C.
            unsafe {
                let at = t.c.offset(r as isize * t.c_row).add(j);
                at.write(if t.adds { U::add(s, at.read()) } else { s });
            }
        }
    }
}

/// A strip of a stored matrix, and where its units go.
pub(super) struct Job<S, U> {
    pub from: *const S,
    /// Elements from one lane (a row of A, a column of B) to the next.
    pub lane: isize,
    /// Elements from one step of the depth to the next.
    pub step: isize,
    pub lanes: usize,
    /// In elements.
    pub depth: usize,
    pub to: *mut U,
    /// Units from one lane (or, with [`by_step`], from one step) to the next.
    pub to_row: usize,
}

impl<S: Stored, U: Unit> Job<S, U> {
    /// The element, or zero past the end of the depth.
    #[inline(always)]
    unsafe fn get(&self, lane: usize, p: usize) -> i64 {
        if p >= self.depth {
            return 0;
        }
        // SAFETY: the caller's contract.
        unsafe {
            self.from
                .offset(lane as isize * self.lane + p as isize * self.step)
                .read()
                .wide()
        }
    }

    #[inline(always)]
    unsafe fn unit(&self, lane: usize, p: usize) -> U {
        // SAFETY: the caller's contract.
        unsafe {
            let second = if U::DEPTH == 2 {
                self.get(lane, p + 1)
            } else {
                0
            };
            U::unit(self.get(lane, p), second)
        }
    }
}

/// Units lane by lane: `to[lane][step]`.
#[inline(always)]
unsafe fn by_lane<S: Stored, U: Unit>(job: &Job<S, U>) {
    // SAFETY: the caller's contract; a row of units is so many integers.
    unsafe {
        for lane in 0..job.lanes {
            let to = job.to.add(lane * job.to_row);
            if job.step == 1 {
                let from = job.from.offset(lane as isize * job.lane);
                let to = to.cast::<U::Part>();
                for p in 0..job.depth {
                    to.add(p).write(U::part(from.add(p).read().wide()));
                }
                for p in job.depth..job.depth.next_multiple_of(U::DEPTH) {
                    to.add(p).write(U::part(0));
                }
            } else {
                for (at, p) in (0..job.depth).step_by(U::DEPTH).enumerate() {
                    to.add(at).write(job.unit(lane, p));
                }
            }
        }
    }
}

/// Units step by step: `to[step][lane]`.
#[inline(always)]
unsafe fn by_step<S: Stored, U: Unit>(job: &Job<S, U>) {
    // SAFETY: the caller's contract.
    unsafe {
        for (at, p) in (0..job.depth).step_by(U::DEPTH).enumerate() {
            let to = job.to.add(at * job.to_row);
            let first = job.from.offset(p as isize * job.step);
            if job.lane == 1 && p + U::DEPTH <= job.depth {
                let second = first.offset(if U::DEPTH == 2 { job.step } else { 0 });
                for lane in 0..job.lanes {
                    let (x, y) = (first.add(lane).read(), second.add(lane).read());
                    to.add(lane).write(U::unit(x.wide(), y.wide()));
                }
            } else {
                for lane in 0..job.lanes {
                    to.add(lane).write(job.unit(lane, p));
                }
            }
        }
    }
}

/// Columns of one block of [`axpy`].
const COLUMNS: usize = 512;

/// One row by a B whose rows are contiguous: `y[..n] = x·B`.
#[inline(always)]
unsafe fn axpy<S: Stored, U: Single>(x: &[S], b: *const S, b_row: isize, y: &mut [U]) {
    let of = |s: S| U::unit(s.wide(), 0);
    let mut start = 0;
    while start < y.len() {
        let end = y.len().min(start + COLUMNS);
        let y = &mut y[start..end];
        y.fill(U::ZERO);
        // SAFETY: rows of B, of which these columns are inside.
        let row = |p: usize| unsafe {
            let at = b.offset(p as isize * b_row).add(start);
            std::slice::from_raw_parts(at, end - start)
        };
        let mut p = 0;
        while p + 4 <= x.len() {
            let (b0, b1, b2, b3) = (row(p), row(p + 1), row(p + 2), row(p + 3));
            let (x0, x1, x2, x3) = (of(x[p]), of(x[p + 1]), of(x[p + 2]), of(x[p + 3]));
            for ((((y, &b0), &b1), &b2), &b3) in y.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
                let low = y.mul_add(x0, of(b0)).mul_add(x1, of(b1));
                *y = low.mul_add(x2, of(b2)).mul_add(x3, of(b3));
            }
            p += 4;
        }
        for (p, &x) in x.iter().enumerate().skip(p) {
            let x = of(x);
            for (y, &b) in y.iter_mut().zip(row(p)) {
                *y = y.mul_add(x, of(b));
            }
        }
        start = end;
    }
}

/// One row by a B whose columns are contiguous: `y[..n] = x·B`.
#[inline(always)]
unsafe fn dots<S: Stored, U: Single>(x: &[S], b: *const S, b_col: isize, y: &mut [U]) {
    let of = |s: S| U::unit(s.wide(), 0);
    for (j, y) in y.iter_mut().enumerate() {
        // SAFETY: a column of B.
        let b = unsafe { std::slice::from_raw_parts(b.offset(j as isize * b_col), x.len()) };
        let mut sum = U::ZERO;
        for (&x, &b) in x.iter().zip(b) {
            sum = sum.mul_add(of(x), of(b));
        }
        *y = sum;
    }
}

/// The kernels of one tier for one kind of unit.
pub(super) struct Kernels<U: Unit> {
    /// Columns of a strip.
    pub strip: usize,
    /// By their number of rows, from one on.
    pub tiles: &'static [unsafe fn(&Tile<U>)],
}

/// The packing loops of one tier.
pub(super) struct Loops<S, U> {
    pub by_lane: unsafe fn(&Job<S, U>),
    pub by_step: unsafe fn(&Job<S, U>),
}

/// One row by a B of which a row, or a column, is contiguous, and the next so far away: see [`axpy`] and [`dots`].
pub(super) type Row<S, U> = unsafe fn(&[S], *const S, isize, &mut [U]);

macro_rules! tier {
    ($module:ident, $steps:ident, $bytes:literal, [$($rows:literal)*], $unit:ident, $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<U: Unit, const R: usize, const NR: usize>(t: &Tile<U>) {
                // SAFETY: the caller's contract.
                unsafe { tile::<U, $steps, R, NR>(t) }
            }

            pub fn kernels32<U: $unit>() -> Kernels<U> {
                const STRIP: usize = $bytes / 2;
                Kernels { strip: STRIP, tiles: const { &[$(run::<U, $rows, STRIP>),*] } }
            }
            tier!(@rest $unit, $bytes, [$($rows)*], $(#[$features])?);
        }
    };
    (@rest Unit32, $bytes:literal, [$($rows:literal)*], $(#[$features:meta])?) => {
        $(#[$features])?
        unsafe fn lanes<S: Stored, U: Unit>(job: &Job<S, U>) {
            // SAFETY: the caller's contract.
            unsafe { super::by_lane(job) }
        }

        $(#[$features])?
        unsafe fn steps<S: Stored, U: Unit>(job: &Job<S, U>) {
            // SAFETY: the caller's contract.
            unsafe { super::by_step(job) }
        }

        $(#[$features])?
        unsafe fn row<S: Stored, U: Single>(x: &[S], b: *const S, b_row: isize, y: &mut [U]) {
            // SAFETY: the caller's contract.
            unsafe { super::axpy::<S, U>(x, b, b_row, y) }
        }

        pub fn loops<S: Stored, U: Unit>() -> Loops<S, U> {
            Loops { by_lane: lanes::<S, U>, by_step: steps::<S, U> }
        }

        $(#[$features])?
        unsafe fn column<S: Stored, U: Single>(x: &[S], b: *const S, b_col: isize, y: &mut [U]) {
            // SAFETY: the caller's contract.
            unsafe { super::dots::<S, U>(x, b, b_col, y) }
        }

        pub fn row_loops<S: Stored, U: Single>() -> [Row<S, U>; 2] {
            [row::<S, U>, column::<S, U>]
        }

        pub fn kernels64() -> Kernels<u64> {
            const STRIP: usize = $bytes / 4;
            Kernels { strip: STRIP, tiles: const { &[$(run::<u64, $rows, STRIP>),*] } }
        }
    };
    (@rest Only, $bytes:literal, [$($rows:literal)*], $(#[$features:meta])?) => {};
}

/// Units of 4 bytes.
trait Unit32: Unit {}
impl Unit32 for Pair {}
impl Unit32 for u32 {}
/// Pairs.
#[cfg(target_arch = "x86_64")]
trait Only: Unit {}
#[cfg(target_arch = "x86_64")]
impl Only for Pair {}

#[cfg(target_arch = "x86_64")]
tier!(portable, Four, 16, [1 2 3 4], Unit32,);
#[cfg(not(target_arch = "x86_64"))]
tier!(portable, Plain, 16, [1 2 3 4], Unit32,);
#[cfg(target_arch = "x86_64")]
tier!(avx2, Eight, 32, [1 2 3 4], Unit32, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(avx512, Sixteen, 64, [1 2 3 4 5 6 7 8 9 10 11 12], Unit32,
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(vnni, Vnni, 64, [1 2 3 4 5 6 7 8 9 10 11 12], Only,
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]);
#[cfg(target_arch = "aarch64")]
tier!(neon, Neon, 32, [1 2 3 4 5], Unit32,);

/// The packing loops of the active tier.
pub(super) fn loops<S: Stored, U: Unit>() -> Loops<S, U> {
    of_tier!(Isa::active(), loops())
}

/// [`axpy`] and [`dots`] on the active tier.
pub(super) fn row_loops<S: Stored, U: Single>() -> [Row<S, U>; 2] {
    of_tier!(Isa::active(), row_loops())
}
