//! Products of libraries with more than a product in them, written out.
//!
//! In: a flattened module. Out: the same with `__cublas$lt$matmul` that has an epilogue,
//! `__cublas$lt$matmul$f8`, `__op$block_scaled_dot`, `__onednn$*`, `__cudnn$convForwardGraph` and most of `__cudnn$fmha*` as `dot`
//! and elementwise instructions. All is computed in `f32` (in the result's type where that is wider) and rounded once, as the libraries
//! do; a result of eight bits saturates.

mod attention;
mod conv_graph;
mod onednn;

use rustc_hash::FxHashMap;

use super::rewrite::Builder;
use crate::error::Result;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::lower::{DotDimensions, gemm_config};
use crate::plan::{inline, unsupported};
use crate::types::{ArrayShape, Dims, PrimitiveType, Shape};

/// Which library's call it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Lt,
    LtF8,
    BlockScaled,
    Onednn,
    Attention,
    ConvGraph,
}

fn call_of(module: &HloModule, id: InstructionId) -> Option<Call> {
    let instruction = module.instruction(id);
    match instruction.custom_call_target()?.as_ref() {
        "__cublas$lt$matmul" => gemm_config(instruction)?.epilogue.map(|_| Call::Lt),
        "__cublas$lt$matmul$f8" => Some(Call::LtF8),
        "__op$block_scaled_dot" => Some(Call::BlockScaled),
        _ if onednn::applies(instruction) => Some(Call::Onednn),
        _ if attention::applies(instruction) => Some(Call::Attention),
        _ if conv_graph::applies(instruction) => Some(Call::ConvGraph),
        _ => None,
    }
}

/// Replaces the calls in all computations.
pub fn run(module: &mut HloModule) -> Result<()> {
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        if instructions.iter().any(|&id| call_of(module, id).is_some()) {
            rewrite(module, computation)?;
        }
    }
    Ok(())
}

fn rewrite(module: &mut HloModule, computation: ComputationId) -> Result<()> {
    for &id in &module.computation(computation).instructions {
        if call_of(module, id) == Some(Call::Lt) {
            check_auxiliary(module, id)?;
        }
    }
    let old = std::mem::take(&mut module.computation_mut(computation).instructions);
    let mut replaced: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
    for id in old {
        for k in 0..module.operand_ids(id).len() {
            if let Some(&new) = replaced.get(&module.operand_ids(id)[k]) {
                module.operand_ids_mut(id)[k] = new;
            }
        }
        let Some(call) = call_of(module, id) else {
            module.computation_mut(computation).instructions.push(id);
            continue;
        };
        let mut builder = Builder {
            module,
            computation,
            like: id,
        };
        let new = match call {
            Call::BlockScaled => block_scaled(&mut builder, id)?,
            Call::Onednn => onednn::run(&mut builder, id)?,
            Call::Attention => attention::run(&mut builder, id)?,
            Call::ConvGraph => conv_graph::run(&mut builder, id)?,
            _ => lt_matmul(&mut builder, id, call == Call::LtF8)?,
        };
        replaced.insert(id, new);
    }
    if let Some(root) = module.computation(computation).root
        && let Some(&new) = replaced.get(&root)
    {
        module.computation_mut(computation).root = Some(new);
    }
    inline::remove_dead(module, computation);
    Ok(())
}

/// What follows the product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activation {
    None,
    Relu,
    Gelu,
    Silu,
}

/// Bias, activation, and whether the activation's argument is a result too.
fn epilogue_of(name: &str) -> Option<(bool, Activation, bool)> {
    let (name, aux) = match name.strip_suffix("_AUX") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let (bias, activation) = match name {
        "BIAS" => (true, ""),
        _ => match name.strip_prefix("BIAS_") {
            Some(rest) => (true, rest),
            None => (false, name),
        },
    };
    let activation = match activation {
        "" | "DEFAULT" => Activation::None,
        "RELU" => Activation::Relu,
        "GELU" => Activation::Gelu,
        "SILU" => Activation::Silu,
        _ => return None,
    };
    Some((bias, activation, aux))
}

/// The type in which everything is computed.
fn compute_type(result: PrimitiveType) -> PrimitiveType {
    match result {
        PrimitiveType::F64 | PrimitiveType::C64 | PrimitiveType::C128 => result,
        _ => PrimitiveType::F32,
    }
}

impl Builder<'_> {
    fn as_type(&mut self, operand: InstructionId, ty: PrimitiveType) -> InstructionId {
        let shape = self.shape(operand);
        if shape.element_type == ty {
            return operand;
        }
        self.add_array(HloOpcode::Convert, ty, &shape.dims, &[operand], &[])
    }

    fn times(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.elementwise(HloOpcode::Multiply, &[a, b])
    }

    /// `value` everywhere, in the shape of `like`.
    fn filled(&mut self, value: f64, like: InstructionId) -> InstructionId {
        let shape = self.shape(like);
        let scalar = self.scalar_float(value, shape.element_type);
        self.broadcast(scalar, &shape.dims)
    }

    /// A scalar (or one-element) array everywhere in the shape of `like`, in its type.
    fn spread(&mut self, scalar: InstructionId, like: InstructionId) -> InstructionId {
        let shape = self.shape(like);
        let scalar = self.as_type(scalar, shape.element_type);
        let scalar = self.reshape(scalar, &[]);
        self.broadcast(scalar, &shape.dims)
    }

    fn activate(&mut self, x: InstructionId, activation: Activation) -> InstructionId {
        match activation {
            Activation::None => x,
            Activation::Relu => {
                let zero = self.filled(0.0, x);
                self.elementwise(HloOpcode::Maximum, &[x, zero])
            }
            Activation::Silu => {
                let gate = self.elementwise(HloOpcode::Logistic, &[x]);
                self.times(x, gate)
            }
            // The form with tanh, as the library has it.
            Activation::Gelu => {
                let square = self.times(x, x);
                let cube = self.times(square, x);
                let c = self.filled(0.044715, x);
                let bent = self.times(cube, c);
                let sum = self.plus(x, bent);
                let c = self.filled((2.0 / std::f64::consts::PI).sqrt(), x);
                let inner = self.times(sum, c);
                let tanh = self.elementwise(HloOpcode::Tanh, &[inner]);
                let one = self.filled(1.0, x);
                let gate = self.plus(tanh, one);
                let half = self.filled(0.5, x);
                let scaled = self.times(x, half);
                self.times(scaled, gate)
            }
        }
    }

    /// Rounds to the type of a result; eight bits saturate.
    fn rounded(&mut self, x: InstructionId, ty: PrimitiveType) -> InstructionId {
        let largest = match ty {
            PrimitiveType::F8E4M3FN => Some(448.0),
            PrimitiveType::F8E4M3FNUZ => Some(240.0),
            PrimitiveType::F8E5M2 | PrimitiveType::F8E5M2FNUZ => Some(57344.0),
            _ => None,
        };
        let mut x = x;
        if let Some(largest) = largest {
            let low = self.filled(-largest, x);
            let high = self.filled(largest, x);
            let shape = self.shape(x);
            x = self.add_array(
                HloOpcode::Clamp,
                shape.element_type,
                &shape.dims,
                &[low, x, high],
                &[],
            );
        }
        self.as_type(x, ty)
    }

    /// A product in type `ty`, dimensions batch, free of the left, free of the right.
    fn product(
        &mut self,
        lhs: InstructionId,
        rhs: InstructionId,
        d: &DotDimensions,
        ty: PrimitiveType,
    ) -> Option<InstructionId> {
        let (lhs, rhs) = (self.as_type(lhs, ty), self.as_type(rhs, ty));
        let mut dims = Dims::new();
        let sides = [
            (self.shape(lhs), &d.lhs_batch, &d.lhs_contracting),
            (self.shape(rhs), &d.rhs_batch, &d.rhs_contracting),
        ];
        let size = |shape: &ArrayShape, dim: i64| {
            usize::try_from(dim)
                .ok()
                .and_then(|dim| shape.dims.get(dim).copied())
        };
        for &dim in &d.lhs_batch {
            dims.push(size(&sides[0].0, dim)?);
        }
        if d.lhs_batch.len() != d.rhs_batch.len()
            || d.lhs_contracting.len() != d.rhs_contracting.len()
        {
            return None;
        }
        let pairs = d.lhs_batch.iter().chain(&d.lhs_contracting);
        for (&l, &r) in pairs.zip(d.rhs_batch.iter().chain(&d.rhs_contracting)) {
            if size(&sides[0].0, l)? != size(&sides[1].0, r)? {
                return None;
            }
        }
        for (shape, batch, contracting) in &sides {
            for dim in 0..shape.rank() as i64 {
                if !batch.contains(&dim) && !contracting.contains(&dim) {
                    dims.push(size(shape, dim)?);
                }
            }
        }
        let attributes = [
            self.ints(AttrKey::LhsBatchDims, &d.lhs_batch),
            self.ints(AttrKey::RhsBatchDims, &d.rhs_batch),
            self.ints(AttrKey::LhsContractingDims, &d.lhs_contracting),
            self.ints(AttrKey::RhsContractingDims, &d.rhs_contracting),
        ];
        Some(self.add_array(HloOpcode::Dot, ty, &dims, &[lhs, rhs], &attributes))
    }

    /// The arrays of an instruction's result that hold values.
    fn results(&self, id: InstructionId) -> (Vec<ArrayShape>, bool) {
        let shapes = self.module.shapes();
        match self.module.instruction(id).shape() {
            Shape::Tuple(parts) => {
                let arrays = parts.iter().filter_map(|&part| shapes.get(part).as_array());
                (arrays.cloned().collect(), true)
            }
            shape => (shape.as_array().cloned().into_iter().collect(), false),
        }
    }
}

fn lt_matmul(b: &mut Builder<'_>, id: InstructionId, is_f8: bool) -> Result<InstructionId> {
    let refuse = |b: &Builder<'_>, what: String| Err(unsupported(b.module.instruction(id), what));
    let Some(config) = gemm_config(b.module.instruction(id)) else {
        return refuse(
            b,
            "a product without a backend_config in JSON, which says what is multiplied".into(),
        );
    };
    let name = config.epilogue.as_deref().unwrap_or("DEFAULT");
    let Some((has_bias, activation, has_aux)) = epilogue_of(name) else {
        return refuse(b, format!("epilogue {name}"));
    };
    let (results, is_tuple) = b.results(id);
    let Some(result) = results.first().cloned() else {
        return refuse(b, "a product that returns no array".into());
    };
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    // A, B, C when it is used, the scales of A and B, the bias, the scale of a narrow result.
    let has_c = config.beta != 0.0;
    let scales = 2 + usize::from(has_c);
    // Until 2024 the scales of C and D came with those of A and B, whether they were used or not.
    let is_scalar = |k: usize| {
        let operand = operands
            .get(k)
            .and_then(|&o| b.module.instruction(o).array_shape());
        operand.is_some_and(|shape| shape.rank() == 0)
    };
    let all_scales = is_f8 && is_scalar(scales + 2) && is_scalar(scales + 3);
    let bias_at = scales + [0, 2, 4][usize::from(is_f8) + usize::from(all_scales)];
    let scale_at = if all_scales {
        scales + 3
    } else {
        bias_at + usize::from(has_bias)
    };
    if operands.len() < bias_at + usize::from(has_bias) {
        let scale_at = bias_at + usize::from(has_bias);
        return refuse(
            b,
            format!("{} operands, expected {scale_at}", operands.len()),
        );
    }
    let ty = compute_type(result.element_type);
    if config.alpha.1 != 0.0 {
        return refuse(b, "an epilogue after a complex scale".into());
    }
    let Some(product) = b.product(operands[0], operands[1], &config.dimensions, ty) else {
        return refuse(b, "a product whose dimensions do not fit".into());
    };
    if b.shape(product).element_count() != result.element_count() {
        return refuse(b, "a result of another size than the product".into());
    }
    let mut x = b.reshape(product, &result.dims);
    if is_f8 {
        for &scale in &operands[scales..scales + 2] {
            if b.shape(scale).element_count() != Some(1) {
                return refuse(b, "scales that are no scalars".into());
            }
            let scale = b.spread(scale, x);
            x = b.times(x, scale);
        }
    }
    if config.alpha.0 != 1.0 {
        let alpha = b.filled(config.alpha.0, x);
        x = b.times(x, alpha);
    }
    if has_c {
        let mut c = b.as_type(operands[2], ty);
        if b.shape(c).dims != result.dims {
            return refuse(b, "C of another shape than D".into());
        }
        if all_scales {
            let scale = b.spread(operands[scales + 2], c);
            c = b.times(c, scale);
        }
        if config.beta != 1.0 {
            let beta = b.filled(config.beta, c);
            c = b.times(c, beta);
        }
        x = b.plus(x, c);
    }
    if has_bias {
        let bias = b.as_type(operands[bias_at], ty);
        let dims = b.shape(bias).dims;
        let first = result.dims.len().checked_sub(dims.len());
        let Some(first) = first.filter(|&first| result.dims[first..] == dims[..]) else {
            return refuse(b, "a bias that is no vector along the columns".into());
        };
        let along: Dims = (first as i64..result.dims.len() as i64).collect();
        let along = b.ints(AttrKey::Dimensions, &along);
        let bias = b.add_array(HloOpcode::Broadcast, ty, &result.dims, &[bias], &[along]);
        x = b.plus(x, bias);
    }
    let argument = x;
    x = b.activate(x, activation);
    let activated = x;
    if is_f8
        && result.element_type.size_bytes() == 1
        && let Some(&scale) = operands.get(scale_at)
    {
        if b.shape(scale).element_count() != Some(1) {
            return refuse(b, "scales that are no scalars".into());
        }
        let scale = b.spread(scale, x);
        x = b.times(x, scale);
    }
    let main = b.rounded(x, result.element_type);
    if !is_tuple {
        return Ok(main);
    }
    let has_bits = has_aux && activation != Activation::Gelu;
    let mut elements = vec![main];
    for (k, shape) in results.iter().enumerate().skip(1) {
        let is_float = shape.element_type.is_floating();
        elements.push(
            if k == 1 && has_aux && !has_bits && shape.dims == result.dims {
                b.rounded(argument, shape.element_type)
            } else if k == 1 && is_f8 && is_float && shape.element_count() == Some(1) {
                let amax = largest_magnitude(b, activated);
                let amax = b.as_type(amax, shape.element_type);
                b.reshape(amax, &shape.dims)
            } else {
                // A workspace: nobody may read it.
                b.zeros(shape.element_type, &shape.dims)
            },
        );
    }
    Ok(b.tuple(&elements))
}

/// Of activations but GELU the library keeps bits in an order of its own: nobody may read them.
fn check_auxiliary(module: &HloModule, id: InstructionId) -> Result<()> {
    let instruction = module.instruction(id);
    let name = gemm_config(instruction).and_then(|config| config.epilogue);
    let name = name.unwrap_or_default();
    let has_bits =
        matches!(epilogue_of(&name), Some((_, activation, true)) if activation != Activation::Gelu);
    let is_read = || {
        module.computation_ids().any(|computation| {
            let data = module.computation(computation);
            let reads = |&user: &InstructionId| {
                let user = module.instruction(user);
                user.operand_ids().contains(&id) && user.tuple_index().is_none_or(|k| k == 1)
            };
            data.root == Some(id) || data.instructions.iter().any(reads)
        })
    };
    if has_bits && is_read() {
        let what = format!("the auxiliary result of epilogue {name}");
        return Err(unsupported(instruction, what));
    }
    Ok(())
}

/// `max |x|` over everything.
fn largest_magnitude(b: &mut Builder<'_>, x: InstructionId) -> InstructionId {
    let shape = b.shape(x);
    let ty = shape.element_type;
    let magnitude = b.elementwise(HloOpcode::Abs, &[x]);
    let zero = b.zero(ty);
    let maximum = b.combiner(HloOpcode::Maximum, ty);
    let all: Dims = (0..shape.rank() as i64).collect();
    let attributes = [b.ints(AttrKey::Dimensions, &all), maximum];
    b.add_array(HloOpcode::Reduce, ty, &[], &[magnitude, zero], &attributes)
}

/// Operands in blocks along their last dimension, each block with a scale.
fn block_scaled(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let (results, is_tuple) = b.results(id);
    let parts = match (operands.as_slice(), results.first(), is_tuple) {
        ([lhs, rhs, lhs_scale, rhs_scale], Some(result), false) => {
            Some(([(*lhs, *lhs_scale), (*rhs, *rhs_scale)], result.clone()))
        }
        _ => None,
    };
    let Some((pairs, result)) = parts else {
        return Err(unsupported(
            b.module.instruction(id),
            "a block-scaled product of other than two operands with a scale each".into(),
        ));
    };
    let ty = compute_type(result.element_type);
    let mut scaled = Vec::with_capacity(2);
    for (operand, scale) in pairs {
        let (dims, blocks) = (b.shape(operand).dims, b.shape(scale).dims);
        let rank = dims.len();
        let fits = matches!(rank, 2 | 3)
            && blocks.len() == rank
            && blocks[..rank - 1] == dims[..rank - 1]
            && blocks[rank - 1] > 0
            && dims[rank - 1] % blocks[rank - 1] == 0;
        if !fits {
            return Err(unsupported(
                b.module.instruction(id),
                "scales that do not divide the last dimension into blocks".into(),
            ));
        }
        let mut wide = blocks.clone();
        wide.push(dims[rank - 1] / blocks[rank - 1]);
        let scale = b.as_type(scale, ty);
        let along: Dims = (0..rank as i64).collect();
        let along = b.ints(AttrKey::Dimensions, &along);
        let scale = b.add_array(HloOpcode::Broadcast, ty, &wide, &[scale], &[along]);
        let scale = b.reshape(scale, &dims);
        let operand = b.as_type(operand, ty);
        scaled.push(b.times(operand, scale));
    }
    let rank = b.shape(scaled[0]).rank();
    let batch: Dims = (0..rank as i64 - 2).collect();
    let last: Dims = Dims::from_slice(&[rank as i64 - 1]);
    let dimensions = DotDimensions {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contracting: last.clone(),
        rhs_contracting: last,
    };
    let product = if b.shape(scaled[1]).rank() == rank {
        b.product(scaled[0], scaled[1], &dimensions, ty)
    } else {
        None
    };
    match product {
        Some(product) if b.shape(product).dims == result.dims => {
            Ok(b.rounded(product, result.element_type))
        }
        _ => Err(unsupported(
            b.module.instruction(id),
            "a block-scaled product whose dimensions do not fit".into(),
        )),
    }
}
