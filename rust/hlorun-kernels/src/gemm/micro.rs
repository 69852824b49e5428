//! The innermost product: a few rows of A against one strip of B, all sums in registers.
//!
//! In: a [`Tile`]. Out: its part of C. Promise: every element is one sum along the depth in ascending order (fused where
//! the tier has fused multiply-add), then `α·sum`, to which `β·C` is added when C is read, and then the epilogue; the number
//! of rows and columns handled at once never changes a bit.

use super::ahead::{Ahead, UNROLL, prefetch_a, prefetch_near, prefetch_row};
use super::epilogue::{self, StepVector, TileEpilogue, Vectors};
use super::rank_k::{self, RankK, Settle, Update};
use super::strips::{self, Pack};
use super::vector::{self, Axpy, Columns, Dots};
use crate::elementwise::{self, Tier};
use crate::isa::Isa;
use crate::low_float::{Bf16, F16, LowFloat};

/// `f32` or `f64`: what sums are made in.
pub(super) trait Real: Copy + PartialEq + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn of(x: f64) -> Self;
    fn fma<T: Tier>(a: Self, b: Self, c: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    /// The larger one; `o` is a lower bound ([`crate::ops::is_lower_bound`]).
    fn at_least(self, o: Self) -> Self;
    /// The smaller one; `o` is an upper bound ([`crate::ops::is_upper_bound`]).
    fn at_most(self, o: Self) -> Self;
    /// An integer of its size.
    type Bits: Copy;
    /// Its bits that are set in the other.
    fn and(self, bits: Self::Bits) -> Self;
    /// The kernels of the active tier.
    fn kernels() -> &'static Kernels<Self>;
}

/// What a matrix may be stored in.
pub(super) trait Source<E>: Copy + Send + Sync + 'static {
    fn get(self) -> E;
    /// Rounds a sum.
    fn put(sum: E) -> Self;
    /// The packing loops of the active tier.
    fn loops() -> &'static Loops<E, Self>;
}

/// N contiguous elements as sums are made of them. (A loop, because `map` on long arrays does not vectorize.)
#[inline(always)]
pub(super) unsafe fn load<E: Real, S: Source<E>, const N: usize>(from: *const S) -> [E; N] {
    let mut values = [E::ZERO; N];
    // SAFETY: the caller passes N elements.
    let from = unsafe { from.cast::<[S; N]>().read_unaligned() };
    for (v, x) in values.iter_mut().zip(&from) {
        *v = x.get();
    }
    values
}

/// A block of the product: `c[rows, width] = epilogue(α·a[rows, depth]·b[depth, strip] (+ β·c))`.
pub(super) struct Tile<E> {
    pub depth: usize,
    pub a: *const E,
    /// Elements from one row of A to the next; a packed A has 1 here and as many as there are rows in `a_col`.
    pub a_row: isize,
    pub a_col: isize,
    pub b: *const E,
    /// Elements from one row of the strip to the next.
    pub b_row: isize,
    pub ahead: Ahead,
    pub c: *mut E,
    pub c_row: isize,
    /// Columns to write; the strip of B is readable to its full width.
    pub width: usize,
    pub alpha: E,
    /// Scale of the old C, not read when zero.
    pub beta: E,
    pub epilogue: TileEpilogue,
}

/// A compiled tile for fixed rows and strip width.
///
/// # Safety
/// The block of A, the whole strip of B, `width` columns of C and the operands of the epilogue for these are valid; C overlaps
/// none of them.
pub(super) type Kernel<E> = unsafe fn(&Tile<E>);

#[inline(always)]
unsafe fn tile<T: Vectors<E>, E: Real, const R: usize, const NR: usize, const PACKED: bool>(
    t: &Tile<E>,
) {
    let (a_row, a_col) = if PACKED {
        (1, R as isize)
    } else {
        (t.a_row, t.a_col)
    };
    for r in 0..R as isize {
        prefetch_row::<E, NR>(t.c.wrapping_offset(r * t.c_row));
    }
    if !t.epilogue.is_empty() {
        t.epilogue.prefetch::<E>(R, NR);
    }
    let mut sums = [[E::ZERO; NR]; R];
    let (mut a, mut b, mut ahead) = (t.a, t.b, t.ahead);
    // SAFETY: the caller's contract; pointers are moved past the end with wrapping arithmetic only.
    unsafe {
        for p in 0..t.depth {
            if !PACKED && p.is_multiple_of(UNROLL) {
                for r in 0..R as isize {
                    prefetch_a(a.wrapping_offset(r * a_row), a_col);
                }
            }
            prefetch_near::<E, NR>(b, t.b_row);
            ahead.ask::<E, NR>(p);
            multiply_add_row::<T, E, R, NR>(&mut sums, b, |r| a.offset(r as isize * a_row));
            b = b.wrapping_offset(t.b_row);
            a = a.wrapping_offset(a_col);
        }
        let to = Destination {
            c: t.c,
            c_row: t.c_row,
            width: t.width,
        };
        store_tile::<T, E, R, NR>(&to, [t.alpha, t.beta], &t.epilogue, &sums);
    }
}

/// One step of the depth: each row's element times a row of the strip at `b`, added to the sums.
#[inline(always)]
pub(super) unsafe fn multiply_add_row<T: Vectors<E>, E: Real, const R: usize, const NR: usize>(
    sums: &mut [[E; NR]; R],
    b: *const E,
    element: impl Fn(usize) -> *const E,
) {
    // SAFETY: the caller passes elements and a whole row of the strip.
    unsafe {
        let values = b.cast::<[E; NR]>().read_unaligned();
        for (r, sum) in sums.iter_mut().enumerate() {
            let x = element(r);
            // Rows of one vector are taken apart too early for the compiler to find vectors in them.
            if NR == T::Vector::LANES {
                let y = T::Vector::load(values.as_ptr().cast());
                let to = sum.as_mut_ptr().cast();
                let x = T::Vector::repeat(x.cast());
                x.fma(y, T::Vector::load(to)).store(to);
                continue;
            }
            let x = x.read();
            for (s, &y) in sum.iter_mut().zip(&values) {
                *s = E::fma::<T>(x, y, *s);
            }
        }
    }
}

/// Stores `α·sum + β·C` of a tile after its epilogue; `scales` are α and β.
///
/// # Safety
/// As [`Kernel`].
#[inline(always)]
pub(super) unsafe fn store_tile<T: Vectors<E>, E: Real, const R: usize, const NR: usize>(
    to: &Destination<E>,
    scales: [E; 2],
    epilogue: &TileEpilogue,
    sums: &[[E; NR]; R],
) {
    // SAFETY: the caller's contract.
    unsafe {
        // Three copies, so that a whole tile without an epilogue is stored from the registers it was summed in.
        if to.width != NR {
            write::<T, E, R, NR, false>(to, scales, epilogue, sums);
        } else if epilogue.is_empty() {
            write::<T, E, R, NR, true>(to, scales, &TileEpilogue::NONE, sums);
        } else {
            write::<T, E, R, NR, true>(to, scales, epilogue, sums);
        }
    }
}

/// Where a tile of C lies.
pub(super) struct Destination<E> {
    pub c: *mut E,
    pub c_row: isize,
    /// Columns to write.
    pub width: usize,
}

#[inline(always)]
unsafe fn write<T: Vectors<E>, E: Real, const R: usize, const NR: usize, const WHOLE: bool>(
    to: &Destination<E>,
    [alpha, beta]: [E; 2],
    epilogue: &TileEpilogue,
    sums: &[[E; NR]; R],
) {
    let mut values = *sums;
    let lanes = T::Vector::LANES;
    // SAFETY: the caller's contract: rows have `width` elements, all of those of a whole tile.
    unsafe {
        let [alpha, by] = [&alpha, &beta].map(|x| T::Vector::repeat(std::ptr::from_ref(x).cast()));
        for (r, row) in values.iter_mut().enumerate() {
            let old = to.c.offset(r as isize * to.c_row);
            let mut at = 0;
            while at < NR {
                let y = row.as_mut_ptr().add(at).cast();
                let mut sum = alpha.mul(T::Vector::load(y));
                if beta != E::ZERO {
                    let old = old.wrapping_add(at).cast();
                    let old = match WHOLE {
                        true => T::Vector::load(old),
                        false => T::Vector::load_part(old, to.width.saturating_sub(at)),
                    };
                    sum = sum.add(by.mul(old));
                }
                sum.store(y);
                at += lanes;
            }
        }
        epilogue.apply::<T, E, R, NR, WHOLE>(&mut values, to.width);
        for (r, row) in values.iter().enumerate() {
            let c = to.c.offset(r as isize * to.c_row);
            let mut at = 0;
            while at < NR {
                let part = T::Vector::load(row.as_ptr().add(at).cast());
                let to_part = c.wrapping_add(at).cast();
                match WHOLE {
                    true => part.store(to_part),
                    false => part.store_part(to_part, to.width.saturating_sub(at)),
                }
                at += lanes;
            }
        }
    }
}

/// The kernels of one tier.
pub(super) struct Kernels<E: 'static> {
    /// Elements of a vector.
    pub lanes: usize,
    /// Most rows of a tile: of a packed A, or read in place; by one, two and four vectors of columns.
    pub packed_rows: [usize; 3],
    pub direct_rows: [usize; 3],
    packed: [&'static [Kernel<E>]; 3],
    direct: [&'static [Kernel<E>]; 3],
    /// Does an epilogue to a row that is in memory; see [`epilogue::row`].
    pub epilogue_row: unsafe fn(TileEpilogue, *mut E, usize),
}

impl<E: 'static> Kernels<E> {
    /// Most rows of a tile whose A is packed, or read in place, by vectors of columns.
    pub fn most_rows(&self, packed: bool) -> &[usize; 3] {
        match packed {
            true => &self.packed_rows,
            false => &self.direct_rows,
        }
    }

    /// The narrowest kernel that takes `rows` rows and `columns` columns, at most `1 << vectors` vectors of them.
    pub fn fitting(&self, rows: usize, vectors: usize, columns: usize, packed: bool) -> Kernel<E> {
        let most = self.most_rows(packed);
        // The compiler makes poor code of `f64` tiles that are one vector wide.
        let first = usize::from(size_of::<E>() == 8).min(vectors);
        let fits = |&v: &usize| columns <= self.lanes << v && rows <= most[v];
        self.get(rows, (first..vectors).find(fits).unwrap_or(vectors), packed)
    }

    /// The kernel for `rows` rows and `1 << vectors` vectors of columns.
    pub fn get(&self, rows: usize, vectors: usize, packed: bool) -> Kernel<E> {
        let set = if packed { &self.packed } else { &self.direct };
        set[vectors][rows - 1]
    }
}

/// Loops over elements as they are stored.
pub(super) struct Loops<E, S> {
    pub pack: Pack<E, S>,
    pub axpy: Axpy<E, S>,
    pub dots: Dots<E, S>,
    pub rank_k: RankK<E, S>,
    /// Elements `from[..n]` times α, plus β·`to`, into `to`.
    pub settle: Settle<E>,
    /// Elements `from[..n]` times one, plus β·`to`, into `to`, rounded.
    pub finish: unsafe fn(*const E, *mut S, isize, usize, E),
}

#[inline(always)]
unsafe fn finish<E: Real, S: Source<E>>(
    from: *const E,
    to: *mut S,
    step: isize,
    n: usize,
    beta: E,
) {
    // SAFETY: the caller passes n elements on both sides.
    unsafe {
        if beta != E::ZERO {
            for i in 0..n {
                let at = to.offset(i as isize * step);
                at.write(S::put(from.add(i).read().add(beta.mul(at.read().get()))));
            }
        } else if step == 1 {
            for i in 0..n {
                to.add(i).write(S::put(from.add(i).read()));
            }
        } else {
            for i in 0..n {
                to.offset(i as isize * step)
                    .write(S::put(from.add(i).read()));
            }
        }
    }
}

// The bytes of a vector; those of the lanes of a dot product, and its most rows by its columns; rows of B that an update
// adds at once. (Tiers that fuse have as many lanes.)
//
// Of tiles one vector wide, `f64` has its own list: the compiler does not keep more than twelve of them in registers.
macro_rules! tier {
    ($module:ident, $tier:ty, $bytes:literal, $lanes:literal $rows:literal x $columns:literal, $steps:literal, $transpose:path, $cut:path, packed [$($p1:literal)*] or [$($q1:literal)*] [$($p2:literal)*] [$($p4:literal)*], direct [$($d1:literal)*] [$($d2:literal)*] [$($d4:literal)*], $(#[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn run<E: Real, const R: usize, const NR: usize, const PACKED: bool>(t: &Tile<E>)
            where
                $tier: Vectors<E>,
            {
                // SAFETY: the caller's contract.
                unsafe { tile::<$tier, E, R, NR, PACKED>(t) }
            }

            $(#[$features])?
            unsafe fn pack<E: Real, S: Source<E>>(job: &strips::Job<E, S>) {
                // SAFETY: the caller's contract.
                unsafe { strips::pack::<E, S>(job, &strips::Strips { transpose: $transpose, cut: $cut }) }
            }

            $(#[$features])?
            unsafe fn axpy<E: Real, S: Source<E>>(x: &[E], b: *const S, b_row: isize, y: &mut [E]) {
                // SAFETY: the caller's contract.
                unsafe { vector::axpy::<$tier, E, S>(x, b, b_row, y) }
            }

            $(#[$features])?
            unsafe fn dots<E: Real, S: Source<E>>(c: &Columns<E, S>) {
                // SAFETY: the caller's contract.
                unsafe {
                    if size_of::<E>() == 4 {
                        vector::dots::<$tier, E, S, { $lanes / 4 }, $rows, $columns>(c)
                    } else {
                        vector::dots::<$tier, E, S, { $lanes / 8 }, $rows, $columns>(c)
                    }
                }
            }

            $(#[$features])?
            unsafe fn rank_k<E: Real, S: Source<E>>(update: &Update<E, S>) {
                // SAFETY: the caller's contract.
                unsafe {
                    if size_of::<E>() == 4 {
                        rank_k::run::<$tier, E, S, $steps, { $bytes / 2 }>(update)
                    } else {
                        rank_k::run::<$tier, E, S, $steps, { $bytes / 4 }>(update)
                    }
                }
            }

            $(#[$features])?
            unsafe fn sums<E: Real>(from: *const E, to: *mut E, n: usize, scales: [E; 2]) {
                // SAFETY: the caller's contract.
                unsafe { rank_k::settle(from, to, n, scales) }
            }

            $(#[$features])?
            unsafe fn epilogue_row<E: Real>(tile: TileEpilogue, c: *mut E, count: usize)
            where
                $tier: Vectors<E>,
            {
                // SAFETY: the caller's contract.
                unsafe {
                    if size_of::<E>() == 4 {
                        epilogue::row::<$tier, E, $bytes>(tile, c, count)
                    } else {
                        epilogue::row::<$tier, E, { $bytes / 2 }>(tile, c, count)
                    }
                }
            }

            $(#[$features])?
            unsafe fn end<E: Real, S: Source<E>>(from: *const E, to: *mut S, step: isize, n: usize, beta: E) {
                // SAFETY: the caller's contract.
                unsafe { finish(from, to, step, n, beta) }
            }

            pub fn loops<E: Real, S: Source<E>>() -> Loops<E, S> {
                Loops { pack, axpy, dots, rank_k, settle: sums, finish: end }
            }

            pub const fn kernels32() -> Kernels<f32> {
                const L: usize = $bytes / 4;
                Kernels {
                    lanes: L,
                    packed_rows: [[$($p1),*].len(), [$($p2),*].len(), [$($p4),*].len()],
                    direct_rows: [[$($d1),*].len(), [$($d2),*].len(), [$($d4),*].len()],
                    packed: [&[$(run::<f32, $p1, L, true>),*], &[$(run::<f32, $p2, { 2 * L }, true>),*], &[$(run::<f32, $p4, { 4 * L }, true>),*]],
                    direct: [&[$(run::<f32, $d1, L, false>),*], &[$(run::<f32, $d2, { 2 * L }, false>),*], &[$(run::<f32, $d4, { 4 * L }, false>),*]],
                    epilogue_row: epilogue_row::<f32>,
                }
            }

            pub const fn kernels64() -> Kernels<f64> {
                const L: usize = $bytes / 8;
                Kernels {
                    lanes: L,
                    packed_rows: [[$($q1),*].len(), [$($p2),*].len(), [$($p4),*].len()],
                    direct_rows: [[$($d1),*].len(), [$($d2),*].len(), [$($d4),*].len()],
                    packed: [&[$(run::<f64, $q1, L, true>),*], &[$(run::<f64, $p2, { 2 * L }, true>),*], &[$(run::<f64, $p4, { 4 * L }, true>),*]],
                    direct: [&[$(run::<f64, $d1, L, false>),*], &[$(run::<f64, $d2, { 2 * L }, false>),*], &[$(run::<f64, $d4, { 4 * L }, false>),*]],
                    epilogue_row: epilogue_row::<f64>,
                }
            }
        }
    };
}

tier!(portable, elementwise::Portable, 16, 16 3 x 4, 4, strips::by_element, strips::by_element,
    packed [1 2 3 4] or [1 2 3 4] [1 2 3 4] [1 2], direct [1 2 3 4] [1 2 3 4] [1 2],);
#[cfg(target_arch = "x86_64")]
tier!(avx2, elementwise::Avx2, 32, 64 3 x 2, 4, strips::by_element, strips::by_element,
    packed [1 2 3 4 5 6 7 8] or [1 2 3 4 5 6 7 8] [1 2 3 4 5 6] [1 2], direct [1 2 3 4 5 6 7 8] [1 2 3 4 5 6] [1 2],
    #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
tier!(avx512, elementwise::Avx512, 64, 64 6 x 4, 8, strips::by_vector, strips::cut_by_vector,
    packed [1 2 3 4 5 6 7 8 9 10 11 12 13 14] or [1 2 3 4 5 6 7 8 9 10 11 12] [1 2 3 4 5 6 7 8 9 10 11 12 13 14] [1 2 3 4 5 6],
    direct [1 2 3 4 5 6 7 8] [1 2 3 4 5 6 7 8] [1 2 3 4 5 6],
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]);
// A vector here is two registers of the 32: as wide as one of AVX2, so that widths choose the same paths, and sums have
// the same bits. Six rows by sixteen columns of `f32` are 24 registers of sums, like eight by twelve, which leaves eight to
// read into.
#[cfg(target_arch = "aarch64")]
tier!(neon, elementwise::Neon, 32, 64 2 x 2, 4, strips::by_element, strips::by_element,
    packed [1 2 3 4 5 6 7 8 9 10 11 12] or [1 2 3 4 5 6 7 8 9 10 11 12] [1 2 3 4 5 6] [1 2],
    direct [1 2 3 4 5 6 7 8] [1 2 3 4 5 6] [1 2],);

macro_rules! real {
    ($t:ident, $bits:ident, $fma:ident, $kernels:ident) => {
        impl Real for $t {
            type Bits = $bits;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn fma<T: Tier>(a: Self, b: Self, c: Self) -> Self {
                T::$fma(a, b, c)
            }
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                self * o
            }
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                self + o
            }
            #[inline(always)]
            fn sub(self, o: Self) -> Self {
                self - o
            }
            #[inline(always)]
            fn at_least(self, o: Self) -> Self {
                if self <= o { o } else { self }
            }
            #[inline(always)]
            fn at_most(self, o: Self) -> Self {
                if self >= o { o } else { self }
            }
            #[inline(always)]
            fn and(self, bits: $bits) -> Self {
                Self::from_bits(self.to_bits() & bits)
            }
            fn kernels() -> &'static Kernels<$t> {
                static SET: std::sync::LazyLock<Kernels<$t>> =
                    std::sync::LazyLock::new(|| of_tier!(Isa::active(), $kernels()));
                &SET
            }
        }
    };
}
real!(f32, u32, fma32, kernels32);
real!(f64, u64, fma64, kernels64);

macro_rules! source {
    ($($e:ident $s:ident |$x:ident| $get:expr, $put:expr;)*) => {$(
        impl Source<$e> for $s {
            #[inline(always)]
            fn get(self) -> $e { let $x = self; $get }
            #[inline(always)]
            fn put($x: $e) -> Self { $put }
            fn loops() -> &'static Loops<$e, $s> {
                static SET: std::sync::LazyLock<Loops<$e, $s>> = std::sync::LazyLock::new(|| of_tier!(Isa::active(), loops()));
                &SET
            }
        }
    )*};
}
source! {
    f32 f32 |x| x, x;
    f64 f64 |x| x, x;
    f32 Bf16 |x| x.decode(), Bf16::encode(x);
    f32 F16 |x| x.decode(), F16::encode(x);
}
