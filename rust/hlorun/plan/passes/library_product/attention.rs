//! `__cudnn$fmha*` beyond the plain forward pass, written out: masks of lengths and windows, fewer
//! heads of keys than of queries, and the backward pass.
//!
//! In: a call. Out: products and elementwise instructions in `f32` on arrays `[batch, heads, rows,
//! columns]`, rounded once. What drops random elements, reads pages or packs sequences is left to
//! what the user registered.

use super::Builder;
use crate::error::Result;
use crate::module::{HloOpcode, InstructionId, InstructionRef};
use crate::plan::ops::config::Config;
use crate::plan::unsupported;
use crate::types::{Dims, PrimitiveType};

/// What the call's options say.
struct Options {
    scale: f64,
    causal: bool,
    lengths: bool,
    window: i64,
    has_bias: bool,
    backward: bool,
}

fn options(instruction: InstructionRef<'_>) -> Option<Options> {
    let target = instruction.custom_call_target()?;
    let name = target.strip_prefix("__cudnn$fmha")?;
    let (name, backward) = match name.strip_suffix("Backward") {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let has_bias = match name.strip_suffix("Dropout").unwrap_or(name) {
        "Softmax" => false,
        "ScaleBiasSoftmax" => true,
        _ => return None,
    };
    let config = Config::of(instruction);
    config.json()?;
    let number = |name: &str| config.number(name).unwrap_or(0.0);
    let mask = config.text("mask_type");
    let (causal, lengths) = match mask.as_deref() {
        None | Some("NO_MASK" | "0") => (false, false),
        Some("PADDING" | "1") => (false, true),
        Some("CAUSAL" | "2") => (true, false),
        Some("PADDING_CAUSAL" | "3") => (true, true),
        Some(_) => return None,
    };
    let is_random = number("dropout_rate") != 0.0;
    let is_packed = number("max_seg_per_batch") > 1.0;
    if is_random || is_packed || config.flag("is_paged_attention") == Some(true) {
        return None;
    }
    Some(Options {
        scale: config.number("fmha_scale").unwrap_or(1.0),
        causal,
        lengths,
        window: number("sliding_window_length") as i64,
        has_bias,
        backward,
    })
}

/// Whether this file writes the call out; the plain forward pass has an operation of its own.
pub fn applies(instruction: InstructionRef<'_>) -> bool {
    let Some(options) = options(instruction) else {
        return false;
    };
    let is_plain = crate::plan::ops::cudnn_attention::plan(
        instruction,
        instruction
            .custom_call_target()
            .unwrap_or_default()
            .as_ref(),
    )
    .is_some_and(|op| op.is_ok());
    let heads = |k: usize| {
        let numbers = numbers(instruction, options.backward)?;
        let shape = instruction.operand(k)?.array_shape()?;
        let batch = &numbers[k].0;
        batch
            .iter()
            .map(|&d| shape.dims.get(d as usize).copied())
            .product::<Option<i64>>()
    };
    options.backward || options.lengths || options.window > 0 || !is_plain || heads(0) != heads(1)
}

/// Batch dimensions, rows and columns of Q, K, V (and dO).
type Numbers = [(Dims, i64, i64); 4];

fn numbers(instruction: InstructionRef<'_>, backward: bool) -> Option<Numbers> {
    let config = Config::of(instruction);
    let json = config.json()?;
    let json = json.get("cudnn_fmha_backend_config").unwrap_or(json);
    let list = |product: &str, name: &str| -> Option<Dims> {
        let values = json.get(product)?.get(name)?.as_array()?;
        values
            .iter()
            .map(|v| v.as_i64().or_else(|| v.as_str()?.parse().ok()))
            .collect()
    };
    // Dimension `one` is known; the last of the four is the remaining one.
    let rest = |k: usize, batch: Dims, one: Dims, one_is_rows: bool| {
        let &[one] = one.as_slice() else { return None };
        let rank = instruction.operand(k)?.array_shape()?.rank() as i64;
        let outside = |d: &i64| !(0..rank).contains(d);
        if outside(&one) || batch.iter().any(outside) || rank != batch.len() as i64 + 2 {
            return None;
        }
        let other = (0..rank).find(|d| *d != one && !batch.contains(d))?;
        Some(if one_is_rows {
            (batch, one, other)
        } else {
            (batch, other, one)
        })
    };
    let (lb, rb) = ("lhs_batch_dimensions", "rhs_batch_dimensions");
    let (lc, rc) = ("lhs_contracting_dimensions", "rhs_contracting_dimensions");
    if backward {
        let (q, k) = (
            "bmm1_grad_gemm1_dot_dimension_numbers",
            "bmm1_grad_gemm2_dot_dimension_numbers",
        );
        let v = "bmm2_grad_gemm2_dot_dimension_numbers";
        Some([
            rest(0, list(q, rb)?, list(q, rc)?, true)?,
            rest(1, list(k, rb)?, list(k, rc)?, true)?,
            rest(2, list(v, rb)?, list(v, rc)?, false)?,
            rest(4, list(v, lb)?, list(v, lc)?, false)?,
        ])
    } else {
        let (p, o) = ("bmm1_dot_dimension_numbers", "bmm2_dot_dimension_numbers");
        let query = rest(0, list(p, lb)?, list(p, lc)?, false)?;
        Some([
            query.clone(),
            rest(1, list(p, rb)?, list(p, rc)?, false)?,
            rest(2, list(o, rb)?, list(o, rc)?, true)?,
            query,
        ])
    }
}

impl Builder<'_> {
    /// `[batch, heads, rows, columns]` in `f32`.
    fn heads(
        &mut self,
        x: InstructionId,
        (batch, rows, columns): &(Dims, i64, i64),
    ) -> Option<InstructionId> {
        if batch.is_empty() || batch.len() > 2 {
            return None;
        }
        let order: Dims = batch.iter().copied().chain([*rows, *columns]).collect();
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
    let dimensions = super::DotDimensions {
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
    let options = options(b.module.instruction(id))?;
    let numbers = numbers(b.module.instruction(id), options.backward)?;
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
    let (results, is_tuple) = b.results(id);
    let (values, statistics) = match backward {
        None => {
            let (weights, sums) = softmax(b, scores, visible);
            (vec![product(b, weights, v, [3, 2])?], vec![sums, weights])
        }
        Some((saved, gradient)) => {
            let full: i64 = dims.iter().product();
            let saved = b.as_type(saved, PrimitiveType::F32);
            let weights = if b.shape(saved).element_count() == Some(full)
                && b.shape(saved).dims[..] == dims
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
                let scale = b.filled(options.scale, d);
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
            (gradients, more)
        }
    };
    let mut elements = Vec::new();
    for (at, shape) in results.iter().enumerate() {
        let count = shape.element_count();
        let found = match values.get(at) {
            Some(&value) => Some(value).filter(|&v| b.shape(v).element_count() == count),
            None => statistics
                .iter()
                .copied()
                .find(|&s| shape.element_type.is_floating() && b.shape(s).element_count() == count),
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
