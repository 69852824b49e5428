//! Matrix products.

use hlorun_kernels::{Gemm, Matrix};

use super::environment::Environment;
use crate::error::{HloError, Result};
use crate::plan::elementwise::dtype;
use crate::plan::thunk::GemmThunk;
use crate::plan::view::ArrayView;

fn matrix(view: &ArrayView) -> Matrix {
    Matrix {
        batch_stride: view.strides[0] as isize,
        row_stride: view.strides[1] as isize,
        col_stride: view.strides[2] as isize,
    }
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
