//! Products of few elements as scalar bytecode.
//!
//! In: a [`GemmThunk`]. Out: one operation, where every element of the result is one sum in
//! ascending order ([`hlorun_kernels::is_tiny`]): the bits are then those of the thunk, whoever
//! computes them.

use hlorun_kernels::{Gemm, Matrix};

use super::builder::Builder;
use super::moves::{place, place_of_first};
use crate::plan::cost::scalar_bytecode::MAX_MOVED;
use crate::plan::cost::scalar_bytecode::{MAX_TERMS, TERMS_PER_WORK};
use crate::plan::element::elementwise::dtype;
use crate::plan::thunk::scalar_bytecode::{Code, Place};
use crate::plan::thunk::small_loop::Line;
use crate::plan::thunk::{GemmThunk, GemmWay};
use crate::plan::view::{ArrayView, identity_order, is_one_run};

/// Where the elements of an operand lie.
pub fn matrix(view: &ArrayView) -> Matrix {
    Matrix {
        batch_stride: view.strides[0] as isize,
        row_stride: view.strides[1] as isize,
        col_stride: view.strides[2] as isize,
    }
}

impl GemmThunk {
    /// The product of some of the rows; `None` for types without kernels.
    pub fn kernel(&self, rows: usize) -> Option<Gemm> {
        let (batch, _, n, k) = self.sizes();
        Some(Gemm {
            dtype: dtype(self.a.element_type)?,
            out: dtype(self.c.element_type)?,
            m: rows,
            n: n as usize,
            k: k as usize,
            a: matrix(&self.a),
            b: matrix(&self.b),
            c: matrix(&self.c),
            alpha: self.alpha,
            beta: self.beta,
            batch: batch as usize,
        })
    }
}

impl Builder {
    pub(crate) fn product(&mut self, product: &GemmThunk) -> Option<()> {
        if product.way != GemmWay::Whole || !product.epilogue.is_empty() {
            return None;
        }
        let mut gemm = product.kernel(product.sizes().1 as usize)?;
        if gemm.m * gemm.n * gemm.batch == 0 {
            return Some(());
        }
        let terms = gemm.m * gemm.n * gemm.k * gemm.batch;
        if !hlorun_kernels::is_tiny(&gemm) || terms > MAX_TERMS {
            return None;
        }
        let mut scratch = 0;
        let a = self.operand(&product.a, &mut gemm.a, &mut scratch)?;
        let b = self.operand(&product.b, &mut gemm.b, &mut scratch)?;
        let out = place(&product.c)?;
        let are_forward = [gemm.a, gemm.b, gemm.c].iter().all(|at| {
            let strides = [at.batch_stride, at.row_stride, at.col_stride];
            strides.into_iter().all(|stride| stride >= 0)
        });
        if !are_forward {
            return None;
        }
        self.breathe();
        let number = self.products.len();
        self.products.push(gemm);
        let op = self.push_code(Code::Product(number));
        (op.operands[0], op.operands[1], op.out) = (a, b, out);
        op.n = gemm.m * gemm.n * gemm.batch;
        op.unit = gemm.out.size_bytes();
        self.work += terms / TERMS_PER_WORK;
        Some(())
    }

    /// Where an operand is; one at a place that indices name is brought to the scratch.
    fn operand(&mut self, view: &ArrayView, at: &mut Matrix, scratch: &mut usize) -> Option<Place> {
        if view.dynamic.is_empty() {
            return place(view);
        }
        let walk = view.walk(&identity_order(view.dims.len()));
        let n = view.count();
        let bytes = n * view.element_type.size_bytes();
        if !is_one_run(&walk) || bytes > MAX_MOVED {
            return None;
        }
        let out = Place::Scratch(*scratch);
        *scratch += bytes.next_multiple_of(size_of::<Line>());
        self.load(
            place_of_first(view)?,
            &view.dynamic,
            view.element_type.size_bytes(),
            bytes,
            out,
        )?;
        *at = Matrix {
            batch_stride: (view.dims[1] * view.dims[2]) as isize,
            row_stride: view.dims[2] as isize,
            col_stride: 1,
        };
        Some(out)
    }
}
