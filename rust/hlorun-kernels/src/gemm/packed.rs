//! A matrix B in panels, for products that use it again and again.
//!
//! In: B once, and then a [`Gemm`] per product. Out: panels as wide as strips of the product are, each as deep as B, and C.
//! Promise: the same bits as the product without panels would have in strips; B is read once from memory, in order.

use super::epilogue::Epilogue;
use super::micro::{Real, Source};
use super::product::{Product, Strips};
use super::tiles::strip_vectors;
use super::{
    Gemm, Matrix, Outcome, Parallel, Shared, apply_epilogue, batch, own, pack, portable, real,
    share,
};
use crate::DType;
use crate::scratch::Scratch;

/// Columns of a panel, for products of `m` rows and `n` columns.
pub fn panel_width(dtype: DType, m: usize, n: usize) -> usize {
    fn width<E: Real>(m: usize, n: usize) -> usize {
        Strips::<E>::new(strip_vectors(E::kernels(), m, n), n).width
    }
    match dtype {
        DType::F32 => width::<f32>(m, n),
        _ => width::<f64>(m, n),
    }
}

/// Whether B in panels gives the same bits as B in place.
pub fn fits_panels(g: &Gemm) -> bool {
    let is_own = g.dtype == g.out && !batch::fits(g) && own(g).is_some();
    is_own
        && match g.dtype {
            DType::F32 => real::reads_strips::<f32>(g),
            DType::F64 => real::reads_strips::<f64>(g),
            _ => false,
        }
}

/// Bytes of `k`×`n` elements in panels of so many columns; `None` unless `dtype` is `F32` or `F64`, or when the size
/// overflows.
pub fn packed_size(dtype: DType, width: usize, k: usize, n: usize) -> Option<usize> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    n.div_ceil(width)
        .checked_mul(width)?
        .checked_mul(k)?
        .checked_mul(dtype.size_bytes())
}

/// [`pack_operand`] on slices and this thread; `false`, and nothing written, where `b` or `to` is too short.
pub fn pack_bytes(
    dtype: DType,
    width: usize,
    [k, n]: [usize; 2],
    b: &[u8],
    layout: Matrix,
    to: &mut [u8],
) -> bool {
    let strides = [layout.row_stride, layout.col_stride];
    let end = pack::extent([k, n], strides, dtype.size_bytes());
    let size = packed_size(dtype, width, k, n);
    let fits = end.is_some_and(|end| end <= b.len()) && size.is_some_and(|size| size <= to.len());
    if fits {
        let (b, to) = (b.as_ptr(), to.as_mut_ptr());
        // SAFETY: what is read ends at `end`, and what is written after `size` bytes.
        unsafe { pack_operand(dtype, width, [k, n], b, layout, to, &Parallel::SERIAL) };
    }
    fits
}

/// Copies `b`\[k,n\] into panels of `width` columns at `to`.
///
/// # Safety
/// Every element `layout` reaches from `b` is readable, and `to` has room for [`packed_size`] bytes.
pub unsafe fn pack_operand(
    dtype: DType,
    width: usize,
    [k, n]: [usize; 2],
    b: *const u8,
    layout: Matrix,
    to: *mut u8,
    parallel: &Parallel,
) {
    let size = dtype.size_bytes();
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

/// One product whose B lies in panels made by [`pack_operand`], as wide as [`panel_width`] says, and the steps of an
/// epilogue; `g.b` is not read.
///
/// # Errors
/// When there is no memory for sums beside C.
///
/// # Safety
/// As [`super::gemm_with_epilogue`], with the panels of `g.k`×`g.n` elements of `g.dtype` at `panels`; `g.out` is `g.dtype`.
pub unsafe fn gemm_packed(
    g: &Gemm,
    a: *const u8,
    panels: *const u8,
    c: *mut u8,
    epilogue: &Epilogue,
    parallel: &Parallel,
) -> Outcome {
    // SAFETY: the caller's contract.
    unsafe {
        match g.dtype {
            _ if g.m == 0 || g.n == 0 => Ok(()),
            // Nothing is read of B.
            _ if g.k == 0 => {
                portable::gemm(g, a, panels, c)?;
                apply_epilogue(g, c, epilogue, parallel)
            }
            DType::F32 => with_packed::<f32>(g, a, panels, c, epilogue, parallel),
            _ => with_packed::<f64>(g, a, panels, c, epilogue, parallel),
        }
    }
}

/// One product whose B lies in panels, each as deep as B.
///
/// # Safety
/// As [`gemm_packed`], with `E` stored in A and C; `k` is not zero.
unsafe fn with_packed<E: Real + Source<E>>(
    g: &Gemm,
    a: *const u8,
    panels: *const u8,
    c: *mut u8,
    epilogue: &Epilogue,
    parallel: &Parallel,
) -> Outcome {
    let in_place = g.c.col_stride == 1;
    let mut sums = Scratch::new::<E>(if in_place { 0 } else { g.m * g.n })?;
    let sums = Shared(sums.get::<E>());
    let whole = Product::<E, E>::new(g, a, std::ptr::null(), c.cast());
    let product = match in_place {
        true => Product { epilogue, ..whole },
        false => Product {
            c: sums,
            c_row: g.n as isize,
            beta: E::ZERO,
            ..whole
        },
    };
    real::with_strips(&product, Some(Shared(panels.cast_mut().cast())), parallel)?;
    if !in_place {
        for i in 0..g.m {
            let from = sums.get().wrapping_add(i * g.n);
            let to = c.cast::<E>().wrapping_offset(i as isize * g.c.row_stride);
            // SAFETY: a row of the sums and of C.
            unsafe { (E::loops().finish)(from, to, g.c.col_stride, g.n, E::of(g.beta)) };
        }
        // SAFETY: the caller's contract.
        unsafe { apply_epilogue(g, c, epilogue, parallel)? };
    }
    Ok(())
}
