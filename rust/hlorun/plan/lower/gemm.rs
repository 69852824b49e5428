//! `dot` and the cuBLAS custom calls as matrix products.
//!
//! In: operands as views. Out: a [`GemmThunk`] over `[batch, m, k] × [batch, k, n]`. Operands whose
//! dimensions cannot be merged into three by strides alone are copied first.

use super::{Lowering, Scope, Value, views};
use crate::error::{HloError, Result};
use crate::library::{self, DotDimensions, GemmConfig, gemm};
use crate::module::{AttrKey, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::thunk::{GemmThunk, GemmWay, ThunkKind};
use crate::plan::view::{ArrayView, identity_order, major_to_minor};
use crate::types::{Dims, PrimitiveType};

fn product(view: &ArrayView, dims: &[i64]) -> i64 {
    dims.iter().map(|&dim| view.dims[dim as usize]).product()
}

/// A dense array as one of other dimensions.
fn reshaped(view: &ArrayView, dims: &[i64]) -> Result<ArrayView> {
    view.reshape(dims)
        .ok_or_else(|| HloError::execution("a dense array cannot be reshaped"))
}

impl<'m> Lowering<'m> {
    pub(super) fn dot(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        if instruction.attribute(AttrKey::Sparsity).is_some() {
            return Err(unsupported(instruction, "dot with sparse operands".into()));
        }
        let shape = views::array_shape(instruction)?;
        let dimensions = DotDimensions::of_dot(instruction);
        let order = major_to_minor(shape);
        let result = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        self.product(scope, instruction, &dimensions, result, (1.0, 0.0), 0.0)
    }

    /// `add(dot, addend)`: the addend becomes the product's starting value.
    pub(super) fn dot_plus(
        &mut self,
        scope: &mut Scope<'_>,
        sum: InstructionRef<'m>,
        dot: usize,
    ) -> Result<ArrayView> {
        let product = sum
            .operand(dot)
            .ok_or_else(|| HloError::execution("add without operands"))?;
        let shape = views::array_shape(sum)?;
        let order = major_to_minor(shape);
        let result = self.allocate(sum, shape.element_type, &shape.dims, &order)?;
        let addend = self.array_operand(scope, sum, 1 - dot)?;
        self.copy(scope, sum.id, addend, result.clone());
        let dimensions = DotDimensions::of_dot(product);
        self.product(scope, product, &dimensions, result, (1.0, 0.0), 1.0)
    }

    /// Adds `result = alpha·lhs·rhs + beta·result` and returns where the result is.
    pub(super) fn product(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        dimensions: &DotDimensions,
        mut result: ArrayView,
        alpha: (f64, f64),
        beta: f64,
    ) -> Result<ArrayView> {
        let lhs = self.array_operand(scope, instruction, 0)?;
        let rhs = self.array_operand(scope, instruction, 1)?;
        let d = dimensions;
        let misfit = || unsupported(instruction, "sizes of the product do not fit".into());
        if !d.fit(&lhs.dims, &rhs.dims) {
            return Err(misfit());
        }
        let lhs_free = DotDimensions::free(lhs.dims.len(), &d.lhs_batch, &d.lhs_contracting);
        let rhs_free = DotDimensions::free(rhs.dims.len(), &d.rhs_batch, &d.rhs_contracting);
        let batch = product(&lhs, &d.lhs_batch);
        let (m, n) = (product(&lhs, &lhs_free), product(&rhs, &rhs_free));
        let k = product(&lhs, &d.lhs_contracting);
        if result.count() as i128 != i128::from(batch * m) * i128::from(n) {
            return Err(misfit());
        }
        // The contraction may run in any order; the one in which the lhs lies lets it be merged.
        let contracting = d.lhs_contracting.iter().zip(&d.rhs_contracting);
        let mut contracting: Vec<(i64, i64)> = contracting.map(|(&l, &r)| (l, r)).collect();
        contracting.sort_by_key(|&(l, _)| std::cmp::Reverse(lhs.strides[l as usize]));
        let (lhs_k, rhs_k): (Dims, Dims) = contracting.into_iter().unzip();
        let group = |parts: [&[i64]; 3]| -> Dims { parts.into_iter().flatten().copied().collect() };
        let common = common_type(lhs.element_type, rhs.element_type, instruction)?;
        let lhs = self.convert_view(scope, instruction, lhs, common)?;
        let rhs = self.convert_view(scope, instruction, rhs, common)?;
        let lhs = lhs.transpose(&group([&d.lhs_batch, &lhs_free, &lhs_k]));
        let rhs = rhs.transpose(&group([&d.rhs_batch, &rhs_k, &rhs_free]));
        let a = self.as_matrices(scope, instruction, lhs, [batch, m, k])?;
        let b = self.as_matrices(scope, instruction, rhs, [batch, k, n])?;
        let dims = [batch, m, n];
        let c = match result.reshape(&dims) {
            Some(c) => c,
            None => {
                let order = identity_order(result.dims.len());
                result = match beta == 0.0 {
                    true => {
                        self.allocate(instruction, result.element_type, &result.dims, &order)?
                    }
                    false => self.copy_dense(scope, instruction, &result, &order)?,
                };
                reshaped(&result, &dims)?
            }
        };
        scope.push(
            instruction.id,
            ThunkKind::Gemm(Box::new(GemmThunk {
                a,
                b,
                c,
                alpha,
                beta,
                way: GemmWay::Whole,
                epilogue: Vec::new(),
                epilogue_operands: Vec::new(),
            })),
        );
        Ok(result)
    }

    /// `view` under three merged dimensions, copied where strides do not allow it.
    fn as_matrices(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        view: ArrayView,
        dims: [i64; 3],
    ) -> Result<ArrayView> {
        if let Some(matrices) = view.reshape(&dims) {
            return Ok(matrices);
        }
        let order = identity_order(view.dims.len());
        reshaped(&self.copy_dense(scope, instruction, &view, &order)?, &dims)
    }

    /// The elements as `ty`, converted when they have another type.
    fn convert_view(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        view: ArrayView,
        ty: PrimitiveType,
    ) -> Result<ArrayView> {
        if view.element_type == ty {
            return Ok(view);
        }
        let order = identity_order(view.dims.len());
        let converted = self.allocate(instruction, ty, &view.dims, &order)?;
        let kernel = crate::plan::element::elementwise::conversion(view.element_type, ty)?;
        self.simple_loop(
            scope,
            instruction,
            &[view],
            std::slice::from_ref(&converted),
            |builder, inputs| vec![builder.step(kernel, &[inputs[0]], ty)],
        );
        Ok(converted)
    }

    /// `__cublas$gemm`: D = alpha·A·B + beta·C; the workspace is never allocated.
    pub(super) fn cublas_gemm(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let config = GemmConfig::of(instruction).ok_or_else(|| {
            unsupported(
                instruction,
                "a product without a backend_config in JSON, which says what is multiplied".into(),
            )
        })?;
        let (alpha, beta) = (config.alpha, config.beta);
        let (shape, is_tuple) = match self.module.shapes().get(instruction.shape_id()) {
            crate::types::Shape::Tuple(parts) => match parts.first() {
                Some(&first) => (self.module.shapes().get(first).as_array(), true),
                None => (None, true),
            },
            shape => (shape.as_array(), false),
        };
        let shape = shape
            .ok_or_else(|| unsupported(instruction, "a product that returns no array".into()))?;
        let order = major_to_minor(shape);
        let result = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        if beta != 0.0 {
            let c = self.array_operand(scope, instruction, 2)?;
            let c = self.convert_view(scope, instruction, c, shape.element_type)?;
            self.copy(scope, instruction.id, c, result.clone());
        }
        let result = self.product(scope, instruction, &config.dimensions, result, alpha, beta)?;
        if !is_tuple {
            return Ok(Value::Array(result));
        }
        let parts = self
            .module
            .shapes()
            .get(instruction.shape_id())
            .as_tuple()
            .map_or(1, <[_]>::len);
        let mut elements = vec![Value::Nothing; parts];
        elements[0] = Value::Array(result);
        Ok(Value::Tuple(elements.into()))
    }

    pub(super) fn custom_call(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        let target = instruction.custom_call_target().unwrap_or_default();
        match target.as_ref() {
            gemm::GEMM | gemm::LT_MATMUL => self.cublas_gemm(scope, instruction),
            target if library::THREEFRY.contains(&target) => self.threefry2x32(scope, instruction),
            _ => self.operation(scope, instruction),
        }
    }
}

/// The type both operands are multiplied in.
fn common_type(
    lhs: PrimitiveType,
    rhs: PrimitiveType,
    instruction: InstructionRef<'_>,
) -> Result<PrimitiveType> {
    if lhs == rhs {
        return Ok(lhs);
    }
    let (small, large) = if lhs.size_bytes() < rhs.size_bytes() {
        (lhs, rhs)
    } else {
        (rhs, lhs)
    };
    if small.is_floating() && large.is_floating() {
        // Two different types of one width have no common type among themselves.
        return Ok(if small.size_bytes() == large.size_bytes() {
            PrimitiveType::F32
        } else {
            large
        });
    }
    let result = views::array_shape(instruction)?.element_type;
    Ok(result)
}
