//! Our own product of `f32` and `f64`: few rows against a large matrix, small matrices, and vectors.
//!
//! In: a [`Gemm`], or A and a [`PackedB`] made once and used many times. Out: C. Promise: B is read once from memory,
//! in order; the sums are fused where the tier has fused multiply-add, in blocks of [`KC`] along k, so a result does
//! not depend on the number of threads. BLAS copies B at every call, which costs more than the product when A has few
//! rows.

use super::{Gemm, Matrix, Parallel, Shared, pack, share};
use crate::DType;
use crate::elementwise::{Avx2, Avx512, Portable, Tier};
use crate::isa::Isa;

/// Steps along k between visits to the accumulators in memory: one panel block of B stays in L1.
pub const KC: usize = 256;
/// Rows of A handled before B is read again.
const MC: usize = 64;

/// `f32` or `f64`.
pub(super) trait Real: Copy + PartialEq + 'static {
    const ZERO: Self;
    fn of(x: f64) -> Self;
    fn fma<T: Tier>(a: Self, b: Self, c: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn add(self, o: Self) -> Self;
}

macro_rules! real {
    ($($t:ident $fma:ident;)*) => {$(
        impl Real for $t {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn of(x: f64) -> Self { x as $t }
            #[inline(always)]
            fn fma<T: Tier>(a: Self, b: Self, c: Self) -> Self { T::$fma(a, b, c) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
        }
    )*};
}
real!(f32 fma32; f64 fma64;);

/// Where a block of A and B lies: distances in elements.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub a_row: isize,
    pub a_col: isize,
    pub b_row: isize,
}

/// `tile[r][..NR] += A[r, ..kc]·B[..kc, ..NR]` for R rows.
#[inline(always)]
pub(super) unsafe fn kernel<T: Tier, E: Real, const R: usize, const NR: usize>(
    kc: usize,
    a: *const E,
    b: *const E,
    steps: Steps,
    tile: *mut [E; NR],
) {
    // SAFETY: the caller passes R rows of accumulators and blocks inside the matrices.
    unsafe {
        let mut sums = [[E::ZERO; NR]; R];
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = tile.add(r).read();
        }
        let mut row = b;
        let mut col = a;
        for _ in 0..kc {
            let values = row.cast::<[E; NR]>().read_unaligned();
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = col.offset(r as isize * steps.a_row).read();
                for (s, &y) in sum.iter_mut().zip(&values) {
                    *s = E::fma::<T>(x, y, *s);
                }
            }
            row = row.wrapping_offset(steps.b_row);
            col = col.wrapping_offset(steps.a_col);
        }
        for (r, sum) in sums.iter().enumerate() {
            tile.add(r).write(*sum);
        }
    }
}

/// One panel of NR columns (the first `width` of them real) for all rows of A.
#[inline(always)]
unsafe fn panel<T: Tier, E: Real, const R: usize, const NR: usize>(
    g: &Gemm,
    a: *const E,
    b: *const E,
    b_row: isize,
    c: *mut E,
    width: usize,
) {
    let steps = Steps {
        a_row: g.a.row_stride,
        a_col: g.a.col_stride,
        b_row,
    };
    let (alpha, beta) = (E::of(g.alpha.0), E::of(g.beta));
    let mut tile = std::mem::MaybeUninit::<[[E; NR]; MC]>::uninit();
    let tile = tile.as_mut_ptr().cast::<[E; NR]>();
    let mut start = 0;
    // SAFETY: rows and columns stay inside the matrices; a packed panel has NR columns.
    unsafe {
        while start < g.m {
            let rows = MC.min(g.m - start);
            let a = a.offset(start as isize * g.a.row_stride);
            for i in 0..rows {
                tile.add(i).write([E::ZERO; NR]);
            }
            let mut p = 0;
            while p < g.k {
                let kc = KC.min(g.k - p);
                let ap = a.offset(p as isize * g.a.col_stride);
                let bp = b.offset(p as isize * b_row);
                let mut i = 0;
                while i < rows {
                    let ai = ap.offset(i as isize * g.a.row_stride);
                    let t = tile.add(i);
                    i += match rows - i {
                        left if left >= R => {
                            kernel::<T, E, R, NR>(kc, ai, bp, steps, t);
                            R
                        }
                        left if left >= 4 => {
                            kernel::<T, E, 4, NR>(kc, ai, bp, steps, t);
                            4
                        }
                        left if left >= 2 => {
                            kernel::<T, E, 2, NR>(kc, ai, bp, steps, t);
                            2
                        }
                        _ => {
                            kernel::<T, E, 1, NR>(kc, ai, bp, steps, t);
                            1
                        }
                    };
                }
                p += kc;
            }
            for i in 0..rows {
                let sums = &*tile.add(i);
                let row = c.offset((start + i) as isize * g.c.row_stride);
                for (j, &s) in sums[..width].iter().enumerate() {
                    let at = row.offset(j as isize * g.c.col_stride);
                    let y = alpha.mul(s);
                    at.write(if g.beta == 0.0 {
                        y
                    } else {
                        y.add(beta.mul(at.read()))
                    });
                }
            }
            start += rows;
        }
    }
}

/// C = α·A·B + β·C for the columns of `panels`, B packed or (`packed` false) row-major in place.
#[inline(always)]
unsafe fn product<T: Tier, E: Real, const R: usize, const NR: usize>(
    g: &Gemm,
    a: *const E,
    b: *const E,
    packed: bool,
    c: *mut E,
    panels: std::ops::Range<usize>,
) {
    // SAFETY: the caller's contract; a panel of an unpacked B is copied before use when it is ragged or read several times.
    unsafe {
        for j in panels {
            let width = NR.min(g.n - j * NR);
            let cj = c.offset((j * NR) as isize * g.c.col_stride);
            if packed {
                panel::<T, E, R, NR>(g, a, b.add(j * NR * g.k), NR as isize, cj, width);
            } else if width == NR && g.m <= MC {
                panel::<T, E, R, NR>(g, a, b.add(j * NR), g.b.row_stride, cj, NR);
            } else {
                let from = b.add(j * NR).cast();
                let edge = pack_panel::<E>(from, g.k, width, NR, g.b);
                panel::<T, E, R, NR>(g, a, edge.as_ptr().cast(), NR as isize, cj, width);
            }
        }
    }
}

/// k rows of `stride` elements, of which the first `width` come from B and the rest are zero.
unsafe fn pack_panel<E: Real>(
    from: *const u8,
    k: usize,
    width: usize,
    stride: usize,
    layout: Matrix,
) -> pack::Buffer {
    let mut buffer = pack::Buffer::new(k * stride * size_of::<E>());
    // SAFETY: the buffer has k·stride elements; zero bytes are the number zero.
    unsafe {
        std::ptr::write_bytes(buffer.as_mut_ptr(), 0, k * stride * size_of::<E>());
        let to = Matrix {
            row_stride: stride as isize,
            col_stride: 1,
            batch_stride: 0,
        };
        pack::strided(
            from,
            layout,
            buffer.as_mut_ptr(),
            to,
            k,
            width,
            size_of::<E>(),
        );
    }
    buffer
}

/// The sum of a[i]·b[i], in a fixed number of lanes.
#[inline(always)]
unsafe fn dot<T: Tier, E: Real>(a: *const E, b: *const E, k: usize) -> E {
    const LANES: usize = 64;
    let mut lanes = [E::ZERO; LANES];
    // SAFETY: the caller passes k elements behind each pointer.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a, k),
            std::slice::from_raw_parts(b, k),
        )
    };
    let (mut x, mut y) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    for (x, y) in (&mut x).zip(&mut y) {
        for ((lane, &u), &v) in lanes.iter_mut().zip(x).zip(y) {
            *lane = E::fma::<T>(u, v, *lane);
        }
    }
    for ((lane, &u), &v) in lanes.iter_mut().zip(x.remainder()).zip(y.remainder()) {
        *lane = E::fma::<T>(u, v, *lane);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = lanes[i].add(lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// A row times a matrix whose columns are contiguous.
#[inline(always)]
unsafe fn dots<T: Tier, E: Real>(g: &Gemm, a: *const E, b: *const E, c: *mut E) {
    for j in 0..g.n as isize {
        // SAFETY: row 0 of A and column j of B are contiguous, which the caller checked.
        unsafe {
            let y = E::of(g.alpha.0).mul(dot::<T, E>(a, b.offset(j * g.b.col_stride), g.k));
            let at = c.offset(j * g.c.col_stride);
            at.write(if g.beta == 0.0 {
                y
            } else {
                y.add(E::of(g.beta).mul(at.read()))
            });
        }
    }
}

/// What to run, so that one wrapper per tier serves all.
enum Task {
    Dots,
    /// Columns of B in panels: packed or not, wide (one row) or not, and which panels.
    Panels {
        packed: bool,
        wide: bool,
        panels: std::ops::Range<usize>,
    },
}

macro_rules! on_tier {
    ($name:ident, $tier:ident, $rows:expr, $vector:expr, $(#[$features:meta])?) => {
        $(#[$features])?
        unsafe fn $name(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8, task: Task) {
            // Two vectors of columns per panel, sixteen when there is a single row.
            // SAFETY: the caller's contract.
            unsafe {
                match (g.dtype, task) {
                    (DType::F32, Task::Dots) => dots::<$tier, f32>(g, a.cast(), b.cast(), c.cast()),
                    (_, Task::Dots) => dots::<$tier, f64>(g, a.cast(), b.cast(), c.cast()),
                    (DType::F32, Task::Panels { wide: true, panels, .. }) => {
                        product::<$tier, f32, 1, { $vector * 2 }>(g, a.cast(), b.cast(), false, c.cast(), panels);
                    }
                    (DType::F32, Task::Panels { packed, panels, .. }) => {
                        product::<$tier, f32, $rows, { $vector / 2 }>(g, a.cast(), b.cast(), packed, c.cast(), panels);
                    }
                    (_, Task::Panels { wide: true, panels, .. }) => {
                        product::<$tier, f64, 1, { $vector }>(g, a.cast(), b.cast(), false, c.cast(), panels);
                    }
                    (_, Task::Panels { packed, panels, .. }) => {
                        product::<$tier, f64, $rows, { $vector / 4 }>(g, a.cast(), b.cast(), packed, c.cast(), panels);
                    }
                }
            }
        }
    };
}

// The vector argument is the register width in bytes, that is twice the columns of an f32 panel.
on_tier!(portable, Portable, 4, 32,);
#[cfg(target_arch = "x86_64")]
on_tier!(avx2, Avx2, 6, 32, #[target_feature(enable = "avx2,fma")]);
#[cfg(target_arch = "x86_64")]
on_tier!(avx512, Avx512, 8, 64, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]);

unsafe fn run(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8, task: Task) {
    // SAFETY: the caller's contract; the active tier is available.
    unsafe {
        match Isa::active() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512(g, a, b, c, task),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(g, a, b, c, task),
            _ => portable(g, a, b, c, task),
        }
    }
}

/// Columns of a panel of `dtype` on the active tier.
fn panel_width(dtype: DType, wide: bool) -> usize {
    let bytes = if Isa::active() == Isa::Avx512 { 64 } else { 32 };
    let columns = if dtype == DType::F32 {
        bytes / 2
    } else {
        bytes / 4
    };
    if wide { columns * 4 } else { columns }
}

/// Whether this path beats a BLAS library: few rows or columns, or small in all.
pub(super) fn suits(g: &Gemm) -> bool {
    if !matches!(g.dtype, DType::F32 | DType::F64) {
        return false;
    }
    let work = g.m.saturating_mul(g.n).saturating_mul(g.k);
    let vector = g.m == 1 || g.n == 1;
    vector || work <= 48 * 48 * 48 || (g.m <= 16 && g.b.col_stride == 1)
}

/// One product on the calling thread; `false` means nothing was done.
///
/// # Safety
/// As [`super::gemm`]; `g.dtype` and `g.out` are equal.
pub(super) unsafe fn gemm(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) -> bool {
    if !matches!(g.dtype, DType::F32 | DType::F64) {
        return false;
    }
    // SAFETY: the caller's contract; a transposed product has the same elements.
    unsafe {
        if g.n < g.m && (g.n == 1 || (g.b.col_stride != 1 && g.a.row_stride == 1)) {
            let swapped = Gemm {
                m: g.n,
                n: g.m,
                a: g.b.transposed(),
                b: g.a.transposed(),
                c: g.c.transposed(),
                ..*g
            };
            forward(&swapped, b, a, c);
        } else {
            forward(g, a, b, c);
        }
    }
    true
}

unsafe fn forward(g: &Gemm, a: *const u8, b: *const u8, c: *mut u8) {
    // SAFETY: the caller's contract; copies are dense.
    unsafe {
        if g.m == 1 && g.b.row_stride == 1 && g.b.col_stride != 1 {
            let contiguous = g.a.col_stride == 1 || g.k == 1;
            let copy = (!contiguous).then(|| pack::dense(a, 1, g.k, g.a, g.dtype.size_bytes()));
            return run(
                g,
                copy.as_ref().map_or(a, pack::Buffer::as_ptr),
                b,
                c,
                Task::Dots,
            );
        }
        let size = g.dtype.size_bytes();
        let copy = (g.b.col_stride != 1).then(|| pack::dense(b, g.k, g.n, g.b, size));
        let (layout, b) = match &copy {
            Some(dense) => (Matrix::row_major(g.n, 0), dense.as_ptr()),
            None => (g.b, b),
        };
        let wide = g.m == 1;
        let panels = 0..g.n.div_ceil(panel_width(g.dtype, wide));
        run(
            &Gemm { b: layout, ..*g },
            a,
            b,
            c,
            Task::Panels {
                packed: false,
                wide,
                panels,
            },
        );
    }
}

/// Bytes of `k`×`n` elements in panels; `None` unless `dtype` is `F32` or `F64`, or when the size overflows.
pub fn panels_size(dtype: DType, k: usize, n: usize) -> Option<usize> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    let width = panel_width(dtype, false);
    n.div_ceil(width)
        .checked_mul(width)?
        .checked_mul(k)?
        .checked_mul(dtype.size_bytes())
}

/// Copies `b`\[k,n\] into panels at `to`.
///
/// # Safety
/// Every element `layout` reaches from `b` is readable, and `to` has room for [`panels_size`] bytes.
pub unsafe fn pack_panels(
    dtype: DType,
    k: usize,
    n: usize,
    b: *const u8,
    layout: Matrix,
    to: *mut u8,
    parallel: &Parallel,
) {
    let (size, width) = (dtype.size_bytes(), panel_width(dtype, false));
    let panels = n.div_ceil(width);
    let (b, to) = (Shared(b.cast_mut()), Shared(to));
    let tasks = if k * n < 1 << 16 {
        1
    } else {
        parallel.threads.clamp(1, panels.max(1))
    };
    let part = |task: usize| {
        for j in share(panels, tasks, task, 1) {
            let columns = width.min(n - j * width);
            // SAFETY: panel j has k·width elements of its own; columns beyond n are zeroed.
            unsafe {
                let to = to.get().add(j * width * k * size);
                if columns < width {
                    std::ptr::write_bytes(to, 0, width * k * size);
                }
                let from = b
                    .get()
                    .offset((j * width) as isize * layout.col_stride * size as isize);
                let rows = Matrix {
                    row_stride: width as isize,
                    col_stride: 1,
                    batch_stride: 0,
                };
                pack::strided(from, layout, to, rows, k, columns, size);
            }
        }
    };
    if tasks == 1 {
        part(0)
    } else {
        (parallel.run)(tasks, &part)
    }
}

/// A matrix B stored in panels, for products that use it again and again.
pub struct PackedB {
    dtype: DType,
    k: usize,
    n: usize,
    panels: pack::Buffer,
}

impl PackedB {
    /// Packs `b`\[k,n\]; `None` where [`panels_size`] is.
    ///
    /// # Safety
    /// Every element `layout` reaches from `b` is readable.
    pub unsafe fn new(
        dtype: DType,
        k: usize,
        n: usize,
        b: *const u8,
        layout: Matrix,
    ) -> Option<PackedB> {
        let mut panels = pack::Buffer::new(panels_size(dtype, k, n)?);
        // SAFETY: the buffer has this size; the rest is the caller's contract.
        unsafe {
            pack_panels(
                dtype,
                k,
                n,
                b,
                layout,
                panels.as_mut_ptr(),
                &Parallel::SERIAL,
            )
        };
        Some(PackedB {
            dtype,
            k,
            n,
            panels,
        })
    }

    /// Rows and columns of the packed matrix.
    pub fn shape(&self) -> (usize, usize) {
        (self.k, self.n)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
}

/// C\[m,n\] = α·A\[m,k\]·B + β·C with a packed B; with β = 0 the old C is not read.
///
/// # Safety
/// Every element the layouts reach is valid (of the packed matrix's type), C is writable and overlaps neither A nor B.
#[allow(clippy::too_many_arguments, reason = "the signature of a BLAS product")]
pub unsafe fn gemm_packed(
    m: usize,
    alpha: f64,
    a: *const u8,
    a_layout: Matrix,
    b: &PackedB,
    beta: f64,
    c: *mut u8,
    c_layout: Matrix,
    parallel: &Parallel,
) {
    let g = Gemm {
        a: a_layout,
        c: c_layout,
        alpha: (alpha, 0.0),
        beta,
        ..Gemm::dense(b.dtype, m, b.n, b.k)
    };
    // SAFETY: the packed matrix has the panels of this size.
    unsafe { gemm_panels(&g, a, b.panels.as_ptr(), c, parallel) }
}

/// One product whose B lies in panels made by [`pack_panels`]; `g.b` is not looked at.
///
/// # Safety
/// As [`super::gemm`], with the panels of `g.k`×`g.n` elements of `g.dtype` at `panels`.
pub unsafe fn gemm_panels(
    g: &Gemm,
    a: *const u8,
    panels: *const u8,
    c: *mut u8,
    parallel: &Parallel,
) {
    let count = g.n.div_ceil(panel_width(g.dtype, false));
    let work = g.m.saturating_mul(g.n).saturating_mul(g.k);
    let tasks = if work < 4 * super::SMALL {
        1
    } else {
        parallel.threads.clamp(1, count.max(1))
    };
    let (a, b, c) = (Shared(a.cast_mut()), Shared(panels.cast_mut()), Shared(c));
    let part = |t: usize| {
        let panels = share(count, tasks, t, 1);
        // SAFETY: the caller's contract; tasks write disjoint columns of C.
        unsafe {
            run(
                g,
                a.get(),
                b.get(),
                c.get(),
                Task::Panels {
                    packed: true,
                    wide: false,
                    panels,
                },
            )
        }
    };
    if tasks == 1 {
        part(0)
    } else {
        (parallel.run)(tasks, &part)
    }
}

// SAFETY: a packed matrix is immutable memory it owns.
unsafe impl Send for PackedB {}
// SAFETY: as above.
unsafe impl Sync for PackedB {}
