//! `__cudnn$fmha*` beyond the plain forward pass, written out: masks of lengths and windows, fewer
//! heads of keys than of queries, and the backward pass.
//!
//! In: a call. Out: products and elementwise instructions in `f32` on arrays `[batch, heads, rows,
//! columns]`, rounded once. What drops random elements, reads pages or packs sequences is left to
//! what the user registered.

use crate::error::Result;
use crate::library::attention::{HeadDims, Options, head_dims};
use crate::module::{HloOpcode, InstructionId, InstructionRef};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::types::{Dims, PrimitiveType};

/// Whether this file writes the call out; the plain forward pass has an operation of its own.
pub fn applies(instruction: InstructionRef<'_>) -> bool {
    let Some(options) = Options::of(instruction) else {
        return false;
    };
    let heads = |dims: &HeadDims, k: usize| {
        let shape = instruction.operand(k)?.array_shape()?;
        Some(dims.sizes(shape).0.iter().product::<i64>())
    };
    let repeats = match head_dims(instruction, options.backward) {
        Ok([q, k, ..]) => heads(&q, 0) != heads(&k, 1),
        Err(_) => false,
    };
    options.backward || options.lengths || options.window > 0 || repeats
}

impl Builder<'_> {
    /// `[batch, heads, rows, columns]` in `f32`.
    fn heads(&mut self, x: InstructionId, dims: &HeadDims) -> Option<InstructionId> {
        if dims.batch.is_empty() || dims.batch.len() > 2 {
            return None;
        }
        let rest = [dims.rows, dims.columns];
        let order: Dims = dims.batch.iter().copied().chain(rest).collect();
        let x = self.as_type(x, PrimitiveType::F32);
        let x = self.arranged(x, &order);
        let mut dims = self.shape(x).dims;
        if dims.len() == 3 {
            dims.insert(1, 1);
        }
        Some(self.reshape(x, &dims))
    }

    /// Every head as often as it takes to have `heads` of them.
    fn repeated(&mut self, x: InstructionId, heads: i64) -> Option<InstructionId> {
        let dims = self.shape(x).dims;
        if dims[1] == heads {
            return Some(x);
        }
        if dims[1] == 0 || heads % dims[1] != 0 {
            return None;
        }
        let wide = [dims[0], dims[1], heads / dims[1], dims[2], dims[3]];
        let x = self.along(x, &wide, &[0, 1, 3, 4]);
        Some(self.reshape(x, &[dims[0], heads, dims[2], dims[3]]))
    }

    /// The sum over what `repeated` repeated.
    fn gathered(&mut self, x: InstructionId, heads: i64) -> InstructionId {
        let dims = self.shape(x).dims;
        if dims[1] == heads {
            return x;
        }
        let wide = [dims[0], heads, dims[1] / heads.max(1), dims[2], dims[3]];
        let x = self.reshape(x, &wide);
        self.folded(HloOpcode::Add, x, &[2])
    }

    /// Which scores count; `None` when all do.
    fn visible(
        &mut self,
        options: &Options,
        dims: &[i64],
        lengths: Option<[InstructionId; 2]>,
    ) -> Option<InstructionId> {
        let (row, column) = (self.iota(dims, 2), self.iota(dims, 3));
        let mut all: Option<InstructionId> = None;
        let and = |b: &mut Self, all: &mut Option<InstructionId>, one: InstructionId| {
            *all = Some(match *all {
                Some(all) => b.elementwise(HloOpcode::And, &[all, one]),
                None => one,
            });
        };
        if options.causal {
            let ahead = self.less(row, column);
            let seen = self.elementwise(HloOpcode::Not, &[ahead]);
            and(self, &mut all, seen);
        }
        if options.window > 0 {
            let window = self.scalar_s32(i32::try_from(options.window).unwrap_or(i32::MAX));
            let window = self.broadcast(window, dims);
            let first = self.elementwise(HloOpcode::Subtract, &[row, window]);
            let near = self.less(first, column);
            and(self, &mut all, near);
        }
        for (length, index) in lengths.into_iter().flatten().zip([row, column]) {
            let length = self.as_type(length, PrimitiveType::S32);
            let length = self.along(length, dims, &[0]);
            let inside = self.less(index, length);
            and(self, &mut all, inside);
        }
        all
    }
}

/// Dimensions of a product of `[batch, heads, …]` arrays.
fn product(
    b: &mut Builder<'_>,
    lhs: InstructionId,
    rhs: InstructionId,
    sums: [i64; 2],
) -> Option<InstructionId> {
    let batch = Dims::from_slice(&[0, 1]);
    let dimensions = crate::library::DotDimensions {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contracting: Dims::from_slice(&sums[..1]),
        rhs_contracting: Dims::from_slice(&sums[1..]),
    };
    b.product(lhs, rhs, &dimensions, PrimitiveType::F32)
}

/// Writes the call out.
pub fn run(b: &mut Builder<'_>, id: InstructionId) -> Result<InstructionId> {
    match write(b, id) {
        Some(value) => Ok(value),
        None => Err(unsupported(
            b.module.instruction(id),
            "attention whose operands do not fit its options".into(),
        )),
    }
}

fn write(b: &mut Builder<'_>, id: InstructionId) -> Option<InstructionId> {
    let options = Options::of(b.module.instruction(id))?;
    let numbers = head_dims(b.module.instruction(id), options.backward).ok()?;
    let mut operands = b.module.operand_ids(id).to_vec().into_iter();
    let mut next = || operands.next();
    let q = next()?;
    let q = b.heads(q, &numbers[0])?;
    let heads = b.shape(q).dims[1];
    let narrow_k = next()?;
    let narrow_k = b.heads(narrow_k, &numbers[1])?;
    let key_heads = b.shape(narrow_k).dims[1];
    let k = b.repeated(narrow_k, heads)?;
    let v = next()?;
    let v = b.heads(v, &numbers[2])?;
    let v = b.repeated(v, heads)?;
    let backward = if options.backward {
        let (saved, gradient) = (next()?, next()?);
        Some((saved, b.heads(gradient, &numbers[3])?))
    } else {
        None
    };
    let bias = if options.has_bias {
        Some(next()?)
    } else {
        None
    };
    let [batch, _, rows, _] = *b.shape(q).dims.as_slice() else {
        return None;
    };
    let columns = b.shape(k).dims[2];
    let dims = [batch, heads, rows, columns];
    let lengths = if options.lengths {
        // The result of the forward pass, where it is an operand, is not needed.
        let rest: Vec<InstructionId> = std::iter::from_fn(&mut next).collect();
        let at = rest.len().checked_sub(2)?;
        let lengths = [rest[at], rest[at + 1]];
        if lengths.iter().any(|&l| b.shape(l).dims[..] != [batch]) {
            return None;
        }
        Some(lengths)
    } else {
        None
    };
    let mut scores = product(b, q, k, [3, 3])?;
    if b.shape(scores).dims[..] != dims {
        return None;
    }
    let scale = b.filled(options.scale, scores);
    scores = b.times(scores, scale);
    if let Some(bias) = bias {
        let bias = b.as_type(bias, PrimitiveType::F32);
        let bias = b.fitted(bias, &dims)?;
        scores = b.plus(scores, bias);
    }
    let visible = b.visible(&options, &dims, lengths);
    let (values, statistics) = match backward {
        None => {
            let (weights, sums) = softmax(b, scores, visible);
            (vec![product(b, weights, v, [3, 2])?], vec![sums, weights])
        }
        Some((saved, gradient)) => {
            let forward = Forward {
                operands: [q, k, v],
                bias,
                scores,
                visible,
                dims,
                key_heads,
                scale: options.scale,
            };
            gradients(b, &forward, saved, gradient)?
        }
    };
    as_results(b, id, &values, &statistics)
}

/// What the backward pass knows of the forward one.
struct Forward {
    operands: [InstructionId; 3],
    bias: Option<InstructionId>,
    scores: InstructionId,
    visible: Option<InstructionId>,
    dims: [i64; 4],
    key_heads: i64,
    scale: f64,
}

/// The gradients of the operands, and those of the bias and of the scores.
fn gradients(
    b: &mut Builder<'_>,
    forward: &Forward,
    saved: InstructionId,
    gradient: InstructionId,
) -> Option<(Vec<InstructionId>, Vec<InstructionId>)> {
    let Forward {
        bias,
        scores,
        visible,
        dims,
        key_heads,
        ..
    } = *forward;
    let ([q, k, v], [batch, heads, rows, _]) = (forward.operands, dims);
    let full: i64 = dims.iter().product();
    let saved = b.as_type(saved, PrimitiveType::F32);
    let weights = if b.shape(saved).element_count() == Some(full) && b.shape(saved).dims[..] == dims
    {
        saved
    } else {
        if b.shape(saved).element_count() != Some(batch * heads * rows) {
            return None;
        }
        let sums = b.reshape(saved, &dims[..3]);
        let sums = b.along(sums, &dims, &[0, 1, 2]);
        let logarithm = b.elementwise(HloOpcode::Subtract, &[scores, sums]);
        let weights = b.elementwise(HloOpcode::Exp, &[logarithm]);
        b.only(visible, weights, 0.0)
    };
    let dv = product(b, weights, gradient, [2, 2])?;
    let slope = product(b, gradient, v, [3, 3])?;
    let both = b.times(weights, slope);
    let mean = b.folded(HloOpcode::Add, both, &[3]);
    let mean = b.along(mean, &dims, &[0, 1, 2]);
    let centred = b.elementwise(HloOpcode::Subtract, &[slope, mean]);
    let ds = b.times(weights, centred);
    let mut gradients = Vec::new();
    for (other, sums) in [(k, [3, 2]), (q, [2, 2])] {
        let d = product(b, ds, other, sums)?;
        let scale = b.filled(forward.scale, d);
        gradients.push(b.times(d, scale));
    }
    gradients[1] = b.gathered(gradients[1], key_heads);
    gradients.push(b.gathered(dv, key_heads));
    let mut more = vec![ds];
    if let Some(bias) = bias {
        let wanted = b.shape(bias).dims;
        let missing = dims.len().checked_sub(wanted.len())?;
        let sums: Dims = (0..dims.len())
            .filter(|&d| d < missing || wanted[d - missing] != dims[d])
            .map(|d| d as i64)
            .collect();
        let summed = b.folded(HloOpcode::Add, ds, &sums);
        more.insert(0, b.reshape(summed, &wanted));
    }
    Some((gradients, more))
}

/// Values and what else was computed as the results of the call.
fn as_results(
    b: &mut Builder<'_>,
    id: InstructionId,
    values: &[InstructionId],
    statistics: &[InstructionId],
) -> Option<InstructionId> {
    let (results, is_tuple) = b.results(id);
    let mut elements = Vec::new();
    for (at, shape) in results.iter().enumerate() {
        let count = shape.element_count();
        let is_as_large = |&v: &InstructionId| b.shape(v).element_count() == count;
        let found = match values.get(at) {
            Some(&value) => Some(value).filter(is_as_large),
            // The weights of one column are as many as the sums.
            None if shape.element_type.is_floating() => {
                let is_same = |&v: &InstructionId| b.shape(v).dims == shape.dims;
                let all = || statistics.iter().copied();
                all().find(is_same).or_else(|| all().find(is_as_large))
            }
            None => None,
        };
        elements.push(match found {
            Some(value) => {
                let value = b.reshape(value, &shape.dims);
                b.rounded(value, shape.element_type)
            }
            None if at < values.len() => return None,
            // A workspace: nobody may read it.
            None => b.zeros(shape.element_type, &shape.dims),
        });
    }
    match (is_tuple, elements.as_slice()) {
        (true, _) => Some(b.tuple(&elements)),
        (false, &[one]) => Some(one),
        _ => None,
    }
}

/// Weights, and the logarithms of the sums of exponentials; rows that see nothing weigh nothing.
fn softmax(
    b: &mut Builder<'_>,
    scores: InstructionId,
    visible: Option<InstructionId>,
) -> (InstructionId, InstructionId) {
    let dims = b.shape(scores).dims;
    let scores = b.only(visible, scores, f64::NEG_INFINITY);
    let most = b.folded(HloOpcode::Maximum, scores, &[3]);
    let finite = b.is_finite(most);
    let most = b.only(Some(finite), most, 0.0);
    let wide = b.along(most, &dims, &[0, 1, 2]);
    let less = b.elementwise(HloOpcode::Subtract, &[scores, wide]);
    let powers = b.elementwise(HloOpcode::Exp, &[less]);
    let sum = b.folded(HloOpcode::Add, powers, &[3]);
    let logarithm = b.elementwise(HloOpcode::Log, &[sum]);
    let statistics = b.plus(most, logarithm);
    // A sum of nothing is zero, and so are its powers.
    let tiny = b.filled(f64::from(f32::MIN_POSITIVE), sum);
    let sum = b.elementwise(HloOpcode::Maximum, &[sum, tiny]);
    let sum = b.along(sum, &dims, &[0, 1, 2]);
    let weights = b.elementwise(HloOpcode::Divide, &[powers, sum]);
    (weights, statistics)
}
