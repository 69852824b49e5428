//! Matrix products.

use hlorun_kernels::{Gemm, Matrix};

use super::environment::Environment;
use crate::error::{HloError, Result};
use crate::plan::elementwise::dtype;
use crate::plan::thunk::{GemmThunk, PackPanelsThunk};
use crate::plan::view::ArrayView;

fn matrix(view: &ArrayView) -> Matrix {
    Matrix {
        batch_stride: view.strides[0] as isize,
        row_stride: view.strides[1] as isize,
        col_stride: view.strides[2] as isize,
    }
}

/// Packs the right operand of a loop's products.
pub fn pack(thunk: &PackPanelsThunk, environment: &Environment<'_>) -> Result<()> {
    let memory = &environment.memory;
    let Some(ty) = dtype(thunk.b.element_type) else {
        return Err(HloError::execution("a product of 1-bit integers"));
    };
    // SAFETY: the view has these sizes and strides; the slice was made as large as the panels are.
    unsafe {
        hlorun_kernels::pack_panels(
            ty,
            thunk.b.dims[1] as usize,
            thunk.b.dims[2] as usize,
            memory.first(&thunk.b),
            matrix(&thunk.b),
            memory.pointer(&thunk.panels),
            &environment.products(),
        );
    }
    Ok(())
}

/// Runs a product.
pub fn run(thunk: &GemmThunk, environment: &Environment<'_>) -> Result<()> {
    let (batch, m, n, k) = thunk.sizes();
    let (Some(operands), Some(out)) = (dtype(thunk.a.element_type), dtype(thunk.c.element_type))
    else {
        return Err(HloError::execution("a product of 1-bit integers"));
    };
    let gemm = Gemm {
        dtype: operands,
        out,
        m: m as usize,
        n: n as usize,
        k: k as usize,
        a: matrix(&thunk.a),
        b: matrix(&thunk.b),
        c: matrix(&thunk.c),
        alpha: thunk.alpha,
        beta: thunk.beta,
        batch: batch as usize,
    };
    let memory = &environment.memory;
    if let Some(panels) = &thunk.panels {
        // SAFETY: the plan packed B of this very product into the panels.
        unsafe {
            hlorun_kernels::gemm_panels(
                &gemm,
                memory.first(&thunk.a),
                memory.pointer(panels),
                memory.first(&thunk.c),
                &environment.products(),
            );
        }
        return Ok(());
    }
    // SAFETY: the views have these sizes and strides and stay inside their allocations; the
    // assignment never lets C share memory with A or B.
    unsafe {
        hlorun_kernels::gemm(
            &gemm,
            memory.first(&thunk.a),
            memory.first(&thunk.b),
            memory.first(&thunk.c),
            &environment.products(),
        );
    }
    Ok(())
}
