//! Products of libraries with more than a product in them, written out.
//!
//! In: a flattened module. Out: the same with `__cublas$lt$matmul` that has an epilogue,
//! `__cublas$lt$matmul$f8`, `__op$block_scaled_dot`, `__onednn$*`, `__cudnn$conv*` and most of `__cudnn$fmha*` as `dot`,
//! `convolution` and elementwise instructions. All is computed in `f32` (in the result's type where that is wider) and rounded once, as the libraries
//! do; a result of eight bits saturates.

mod attention;
mod conv_graph;
mod convolution;
mod onednn;

use crate::error::Result;
use crate::library::convolution::{ConvolutionCall, convolution_call};
use crate::library::gemm::{self, Activation, Epilogue, GemmOperands};
use crate::library::{BLOCK_SCALED_DOT, DotDimensions, GemmConfig};
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::emit::largest_magnitude;
use crate::plan::hlo::legalize::replace;
use crate::plan::hlo::legalize::results::compute_type;
use crate::plan::hlo::pass::PassContext;
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
    Convolution(ConvolutionCall),
}

fn call_of(instruction: InstructionRef<'_>) -> Option<Call> {
    match instruction.custom_call_target()?.as_ref() {
        gemm::LT_MATMUL => GemmConfig::of(instruction)?.epilogue.map(|_| Call::Lt),
        gemm::LT_MATMUL_F8 => Some(Call::LtF8),
        BLOCK_SCALED_DOT => Some(Call::BlockScaled),
        _ if onednn::applies(instruction) => Some(Call::Onednn),
        _ if attention::applies(instruction) => Some(Call::Attention),
        target => match convolution_call(target)? {
            call if call.has_graph => Some(Call::ConvGraph),
            call => Some(Call::Convolution(call)),
        },
    }
}

/// Replaces the calls in all computations.
pub fn run(module: &mut HloModule, cx: &mut PassContext<'_>) -> Result<usize> {
    for computation in module.computation_ids() {
        for &id in &module.computation(computation).instructions {
            if call_of(module.instruction(id)) == Some(Call::Lt) {
                check_auxiliary(module, id)?;
            }
        }
    }
    let write = |b: &mut Builder<'_>, id: InstructionId| match call_of(b.module.instruction(id)) {
        Some(Call::BlockScaled) => block_scaled(b, id),
        Some(Call::Onednn) => onednn::run(b, id),
        Some(Call::Attention) => attention::run(b, id),
        Some(Call::ConvGraph) => conv_graph::run(b, id),
        Some(Call::Convolution(call)) => convolution::run(b, id, call),
        call => lt_matmul(b, id, call == Some(Call::LtF8)),
    };
    replace::each(module, cx, |call| call_of(call).is_some(), write)
}

impl Builder<'_> {
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

    /// A product in type `ty`, dimensions batch, free of the left, free of the right.
    fn product(
        &mut self,
        lhs: InstructionId,
        rhs: InstructionId,
        d: &DotDimensions,
        ty: PrimitiveType,
    ) -> Option<InstructionId> {
        let (lhs, rhs) = (self.as_type(lhs, ty), self.as_type(rhs, ty));
        let dims = d.result(&self.shape(lhs).dims, &self.shape(rhs).dims)?;
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

/// A product of cuBLASLt; the verifier knows that its arrays fit its configuration.
fn lt_matmul(b: &mut Builder<'_>, id: InstructionId, is_f8: bool) -> Result<InstructionId> {
    let refuse = |b: &Builder<'_>, what: String| unsupported(b.module.instruction(id), what);
    let config = GemmConfig::of(b.module.instruction(id)).ok_or_else(|| {
        let what = "a product without a backend_config in JSON, which says what is multiplied";
        refuse(b, what.into())
    })?;
    let epilogue = config.epilogue().map_err(|what| refuse(b, what))?;
    if config.alpha.1 != 0.0 {
        return Err(refuse(b, "an epilogue after a complex scale".into()));
    }
    let (results, is_tuple) = b.results(id);
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let is_scalar = |k: usize| operands.get(k).is_some_and(|&o| b.shape(o).rank() == 0);
    let at = GemmOperands::of(&config, is_f8, epilogue.has_bias, &is_scalar);
    let (Some(result), &[lhs, rhs, ..]) = (results.first().cloned(), &operands[..]) else {
        return Err(refuse(b, "a product of no arrays".into()));
    };
    let ty = compute_type(result.element_type);
    let Some(product) = b.product(lhs, rhs, &config.dimensions, ty) else {
        return Err(refuse(b, "a product whose dimensions do not fit".into()));
    };
    let operand = |at: Option<usize>| at.and_then(|at| operands.get(at).copied());
    let mut x = product;
    for scale in [at.scales, at.scales.map(|a| a + 1)] {
        if let Some(scale) = operand(scale) {
            let scale = b.spread(scale, x);
            x = b.times(x, scale);
        }
    }
    x = b.scaled(x, config.alpha.0);
    if let Some(c) = operand(at.c) {
        let mut c = b.as_type(c, ty);
        if let Some(scale) = operand(at.c_scale) {
            let scale = b.spread(scale, c);
            c = b.times(c, scale);
        }
        c = b.scaled(c, config.beta);
        x = b.plus(x, c);
    }
    if let Some(bias) = operand(at.bias) {
        let bias = b.as_type(bias, ty);
        let first = result.dims.len() - b.shape(bias).rank();
        let along: Dims = (first as i64..result.dims.len() as i64).collect();
        let along = b.ints(AttrKey::Dimensions, &along);
        let bias = b.add_array(HloOpcode::Broadcast, ty, &result.dims, &[bias], &[along]);
        x = b.plus(x, bias);
    }
    let argument = x;
    x = b.activate(x, epilogue.activation);
    let activated = x;
    if result.element_type.size_bytes() == 1
        && let Some(scale) = operand(at.d_scale)
    {
        let scale = b.spread(scale, x);
        x = b.times(x, scale);
    }
    let main = b.rounded(x, result.element_type);
    if !is_tuple {
        return Ok(main);
    }
    let mut elements = vec![main];
    for shape in &results[1..] {
        let kept = other_result(b, epilogue, is_f8, shape, [argument, activated]);
        elements.push(kept);
    }
    Ok(b.tuple(&elements))
}

/// A result behind the first: the activation's argument, the largest magnitude, or a workspace.
fn other_result(
    b: &mut Builder<'_>,
    epilogue: Epilogue,
    is_f8: bool,
    shape: &ArrayShape,
    [argument, activated]: [InstructionId; 2],
) -> InstructionId {
    let is_float = shape.element_type.is_floating();
    if epilogue.has_aux && !epilogue.has_bits() && shape.dims == b.shape(argument).dims {
        b.rounded(argument, shape.element_type)
    } else if is_f8 && is_float && shape.element_count() == Some(1) {
        let amax = largest_magnitude(b, activated);
        let amax = b.as_type(amax, shape.element_type);
        b.reshape(amax, &shape.dims)
    } else {
        // A workspace: nobody may read it.
        b.zeros(shape.element_type, &shape.dims)
    }
}

/// Of activations but GELU the library keeps bits in an order of its own: nobody may read them.
fn check_auxiliary(module: &HloModule, id: InstructionId) -> Result<()> {
    let instruction = module.instruction(id);
    let Some(config) = GemmConfig::of(instruction) else {
        return Ok(());
    };
    let has_bits = config.epilogue().is_ok_and(Epilogue::has_bits);
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
        let name = config.epilogue.unwrap_or_default();
        let what = format!("the auxiliary result of epilogue {name}");
        return Err(unsupported(instruction, what));
    }
    Ok(())
}

/// Operands in blocks along their last dimension, each block with a scale.
fn block_scaled(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    let operands: Vec<InstructionId> = b.module.operand_ids(id).to_vec();
    let (results, _) = b.results(id);
    let (&[lhs, rhs, lhs_scale, rhs_scale], [result]) = (&operands[..], &results[..]) else {
        let what = "a block-scaled product of other operands".into();
        return Err(unsupported(b.module.instruction(id), what));
    };
    let ty = compute_type(result.element_type);
    let mut scaled = [lhs, rhs];
    for (operand, scale) in scaled.iter_mut().zip([lhs_scale, rhs_scale]) {
        let (dims, mut wide) = (b.shape(*operand).dims, b.shape(scale).dims);
        let along: Dims = (0..dims.len() as i64).collect();
        if let (Some(&size), Some(&blocks)) = (dims.last(), wide.last()) {
            wide.push(size / blocks.max(1));
        }
        let scale = b.as_type(scale, ty);
        let along = b.ints(AttrKey::Dimensions, &along);
        let scale = b.add_array(HloOpcode::Broadcast, ty, &wide, &[scale], &[along]);
        let scale = b.reshape(scale, &dims);
        let wide = b.as_type(*operand, ty);
        *operand = b.times(wide, scale);
    }
    let rank = result.dims.len();
    let last = rank as i64 - 1;
    let dimensions = DotDimensions::of_matrices(rank, last, last);
    let product = b.product(scaled[0], scaled[1], &dimensions, ty);
    match product {
        Some(product) => Ok(b.rounded(product, result.element_type)),
        None => Err(unsupported(
            b.module.instruction(id),
            "a block-scaled product whose dimensions do not fit".into(),
        )),
    }
}
