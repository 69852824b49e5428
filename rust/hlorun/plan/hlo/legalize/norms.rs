//! `batch-norm-training`, `-inference`, `-grad` and `__cudnn$norm`, written out.
//!
//! In: a flattened module. Out: the same with sums and elementwise instructions. A batch norm has
//! one mean per feature, a norm of cuDNN one per row; what follows is the same. All is computed in
//! `f64` and rounded once. Operands are converted anew for every reader, which costs less than
//! storing the wide array. Of an operand of dynamic size what is there is counted.

use crate::error::Result;
use crate::library::Config;
use crate::library::norm::{self, NormKind};
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::replace;
use crate::plan::hlo::pass::PassContext;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// The type in which all is computed.
const WIDE: PrimitiveType = PrimitiveType::F64;

/// Replaces all of them.
pub fn run(module: &mut HloModule, cx: &mut PassContext<'_>) -> Result<usize> {
    let write = |b: &mut Builder<'_>, id: InstructionId| {
        let written = match b.module.instruction(id).opcode() {
            HloOpcode::CustomCall => cudnn(b, id),
            _ => batch_norm(b, id),
        };
        let misfit = || unsupported(b.module.instruction(id), "norm of these operands".into());
        written.ok_or_else(misfit)
    };
    replace::each(module, cx, is_norm, write)
}

fn is_norm(instruction: InstructionRef<'_>) -> bool {
    let is_cudnn = || instruction.custom_call_target().as_deref() == Some(norm::TARGET);
    instruction.opcode().class() == OpClass::BatchNorm || is_cudnn()
}

/// An array to be normalized.
struct Norm {
    x: InstructionId,
    shape: ArrayShape,
    /// The dimensions along which means and deviations lie.
    statistics: Dims,
    /// The dimensions along which scale and offset lie.
    scales: Dims,
    /// How many elements a mean is of.
    count: InstructionId,
    epsilon: f64,
}

impl Norm {
    /// `values`, in the type in which all is computed.
    fn wide(&self, b: &mut Builder<'_>, values: InstructionId) -> InstructionId {
        b.as_type(values, WIDE)
    }

    /// `values`, which lie along some dimensions, everywhere.
    fn along(&self, b: &mut Builder<'_>, values: InstructionId, dims: &[i64]) -> InstructionId {
        let values = self.wide(b, values);
        b.along(values, &self.shape.dims, dims)
    }

    /// Sums over all dimensions but `kept`.
    fn sum(&self, b: &mut Builder<'_>, values: InstructionId, kept: &[i64]) -> InstructionId {
        let all = 0..self.shape.rank() as i64;
        let over: Dims = all.filter(|dim| !kept.contains(dim)).collect();
        b.folded(HloOpcode::Add, values, &over)
    }

    fn average(&self, b: &mut Builder<'_>, values: InstructionId) -> InstructionId {
        let sum = self.sum(b, values, &self.statistics);
        let dims = b.shape(sum).dims;
        let count = b.broadcast(self.count, &dims);
        b.elementwise(HloOpcode::Divide, &[sum, count])
    }

    fn centered(&self, b: &mut Builder<'_>, mean: InstructionId) -> InstructionId {
        let x = self.wide(b, self.x);
        let mean = self.along(b, mean, &self.statistics);
        b.elementwise(HloOpcode::Subtract, &[x, mean])
    }

    /// Mean and variance.
    fn moments(&self, b: &mut Builder<'_>) -> [InstructionId; 2] {
        let x = self.wide(b, self.x);
        let mean = self.average(b, x);
        let centered = self.centered(b, mean);
        let square = b.times(centered, centered);
        [mean, self.average(b, square)]
    }

    /// One over the deviation.
    fn inverse(&self, b: &mut Builder<'_>, variance: InstructionId) -> InstructionId {
        let variance = self.wide(b, variance);
        let epsilon = b.filled(self.epsilon, variance);
        let sum = b.plus(variance, epsilon);
        let deviation = b.elementwise(HloOpcode::Sqrt, &[sum]);
        let one = b.filled(1.0, deviation);
        b.elementwise(HloOpcode::Divide, &[one, deviation])
    }

    /// The array without its mean, of deviation one.
    fn normal(&self, b: &mut Builder<'_>, [mean, inverse]: [InstructionId; 2]) -> InstructionId {
        let centered = self.centered(b, mean);
        let inverse = self.along(b, inverse, &self.statistics);
        b.times(centered, inverse)
    }

    /// The result.
    fn forward(
        &self,
        b: &mut Builder<'_>,
        statistics: [InstructionId; 2],
        [scale, offset]: [InstructionId; 2],
    ) -> InstructionId {
        let normal = self.normal(b, statistics);
        let scale = self.along(b, scale, &self.scales);
        let scaled = b.times(normal, scale);
        let offset = self.along(b, offset, &self.scales);
        b.plus(scaled, offset)
    }

    /// Gradients of the operand, the scale and the offset from that of the result.
    fn backward(
        &self,
        b: &mut Builder<'_>,
        statistics: [InstructionId; 2],
        scale: InstructionId,
        gradient: InstructionId,
    ) -> [InstructionId; 3] {
        let scaled = |b: &mut Builder<'_>| {
            let gradient = self.wide(b, gradient);
            let scale = self.along(b, scale, &self.scales);
            b.times(gradient, scale)
        };
        let part = scaled(b);
        let mean = self.average(b, part);
        let normal = self.normal(b, statistics);
        let product = scaled(b);
        let product = b.times(product, normal);
        let slope = self.average(b, product);
        // What the mean and the deviation took part in is subtracted again.
        let mean = self.along(b, mean, &self.statistics);
        let slope = self.along(b, slope, &self.statistics);
        let normal = self.normal(b, statistics);
        let bent = b.times(normal, slope);
        let part = scaled(b);
        let part = b.elementwise(HloOpcode::Subtract, &[part, mean]);
        let part = b.elementwise(HloOpcode::Subtract, &[part, bent]);
        let inverse = self.along(b, statistics[1], &self.statistics);
        let operand = b.times(part, inverse);
        let normal = self.normal(b, statistics);
        let gradient = self.wide(b, gradient);
        let product = b.times(gradient, normal);
        let scale = self.sum(b, product, &self.scales);
        let offset = self.sum(b, gradient, &self.scales);
        [operand, scale, offset]
    }
}

fn batch_norm(b: &mut Builder<'_>, id: InstructionId) -> Option<InstructionId> {
    let operands = b.module.operand_ids(id).to_vec();
    let instruction = b.module.instruction(id);
    let opcode = instruction.opcode();
    let feature = instruction.int(AttrKey::FeatureIndex)?;
    // The attribute is a single-precision number.
    let epsilon = f64::from(instruction.float(AttrKey::Epsilon)? as f32);
    let shape = instruction.operand(0)?.array_shape()?.clone();
    let norm = Norm {
        x: operands[0],
        count: count(b, operands[0], &shape, feature),
        shape,
        statistics: Dims::from_slice(&[feature]),
        scales: Dims::from_slice(&[feature]),
        epsilon,
    };
    let results = match (opcode, operands.as_slice()) {
        (HloOpcode::BatchNormTraining, &[_, scale, offset]) => {
            let [mean, variance] = norm.moments(b);
            let inverse = norm.inverse(b, variance);
            let result = norm.forward(b, [mean, inverse], [scale, offset]);
            vec![result, mean, variance]
        }
        (HloOpcode::BatchNormInference, &[_, scale, offset, mean, variance]) => {
            let inverse = norm.inverse(b, variance);
            vec![norm.forward(b, [mean, inverse], [scale, offset])]
        }
        (HloOpcode::BatchNormGrad, &[_, scale, mean, variance, gradient]) => {
            let inverse = norm.inverse(b, variance);
            norm.backward(b, [mean, inverse], scale, gradient).to_vec()
        }
        _ => return None,
    };
    b.returned(id, &results)
}

/// How many elements a feature has.
fn count(b: &mut Builder<'_>, x: InstructionId, shape: &ArrayShape, feature: i64) -> InstructionId {
    let others = (0..shape.rank()).filter(|&dim| dim as i64 != feature);
    let fixed = others
        .clone()
        .filter(|&dim| !shape.is_dynamic_dimension(dim));
    let fixed: f64 = fixed.map(|dim| shape.dims[dim] as f64).product();
    let mut count = b.scalar_float(fixed, WIDE);
    for dim in others.filter(|&dim| shape.is_dynamic_dimension(dim)) {
        let size = b.dimension_size(x, dim);
        let size = b.as_type(size, WIDE);
        count = b.times(count, size);
    }
    count
}

/// The scale says how many of the last elements belong together.
fn cudnn(b: &mut Builder<'_>, id: InstructionId) -> Option<InstructionId> {
    let operands = b.module.operand_ids(id).to_vec();
    let instruction = b.module.instruction(id);
    let config = Config::of(instruction);
    let kind = NormKind::of(&config).ok()?;
    let epsilon = config.number("epsilon").unwrap_or(1e-5);
    let x = instruction.operand(0)?.array_shape()?.clone();
    let columns = instruction.operand(1)?.array_shape()?.element_count()?;
    let rows = x.element_count()?.checked_div(columns)?;
    let flat = |b: &mut Builder<'_>, k: usize, dims: &[i64]| b.reshape(operands[k], dims);
    let norm = Norm {
        x: flat(b, 0, &[rows, columns]),
        shape: ArrayShape::new(x.element_type, &[rows, columns]),
        statistics: Dims::from_slice(&[0]),
        scales: Dims::from_slice(&[1]),
        count: b.scalar_float(columns as f64, WIDE),
        epsilon,
    };
    let scale = flat(b, 1, &[columns]);
    let results = match kind {
        NormKind::Inference | NormKind::Training => {
            let [mean, variance] = norm.moments(b);
            let inverse = norm.inverse(b, variance);
            let offset = flat(b, 2, &[columns]);
            let result = norm.forward(b, [mean, inverse], [scale, offset]);
            match kind {
                NormKind::Training => vec![result, mean, inverse],
                _ => vec![result],
            }
        }
        NormKind::Backward => {
            let gradient = flat(b, 2, &[rows, columns]);
            let statistics = [3, 4].map(|k| flat(b, k, &[rows]));
            norm.backward(b, statistics, scale, gradient).to_vec()
        }
    };
    b.returned(id, &results)
}
