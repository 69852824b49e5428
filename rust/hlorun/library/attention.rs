//! `__cudnn$fmha*`: softmax(scale · Q·K + bias) · V and its gradient.
//!
//! In: a call. Out: its options and which dimension of Q, K, V and dO is what; `None` for forms that
//! drop random elements, read pages or pack sequences, which are left to what the user registered.

use super::Config;
use crate::module::InstructionRef;
use crate::types::{ArrayShape, Dims};

/// What the call's options say.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Factor of Q·K.
    pub scale: f64,
    /// A query sees keys up to its own position.
    pub causal: bool,
    /// The last two operands say how long each sequence is.
    pub lengths: bool,
    /// How many keys before itself a query sees; all when 0.
    pub window: i64,
    /// An operand is added to the scores.
    pub has_bias: bool,
    /// The gradient is computed.
    pub backward: bool,
}

impl Options {
    /// The options of `instruction`.
    pub fn of(instruction: InstructionRef<'_>) -> Option<Options> {
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

    /// Where the bias stands among the operands, if there is one.
    pub fn bias(&self) -> Option<usize> {
        self.has_bias.then_some(if self.backward { 5 } else { 3 })
    }
}

/// Which dimension of an operand is what.
#[derive(Clone, Debug)]
pub struct HeadDims {
    /// Batch and, mostly, heads.
    pub batch: Dims,
    /// Positions in the sequence.
    pub rows: i64,
    /// Elements of one position.
    pub columns: i64,
}

impl HeadDims {
    /// Sizes of the batch dimensions, of the rows and of the columns of `shape`.
    pub fn sizes(&self, shape: &ArrayShape) -> (Dims, i64, i64) {
        let size = |d: i64| shape.dims[d as usize];
        let batch = self.batch.iter().map(|&d| size(d)).collect();
        (batch, size(self.rows), size(self.columns))
    }
}

/// The operands that hold heads: Q, K, V, and dO, which is Q again in the forward pass.
pub const HEADS: [usize; 4] = [0, 1, 2, 4];

/// Dimensions of Q, K, V (and dO); an error when the options do not name those of the operands.
pub fn head_dims(instruction: InstructionRef<'_>, backward: bool) -> Result<[HeadDims; 4], String> {
    let config = Config::of(instruction);
    let json = config.json().ok_or("has no options in JSON")?;
    let json = json.get("cudnn_fmha_backend_config").unwrap_or(json);
    let list = |product: &str, name: &str| -> Result<Dims, String> {
        let values = json.get(product).and_then(|numbers| numbers.get(name));
        let values = values.and_then(super::config::ints);
        values.ok_or_else(|| format!("its options have no {name} in {product}"))
    };
    // Rows or columns are known; the other is the dimension left.
    let dims = |k: usize, product: &str, side: &str, known_is_rows: bool| {
        let batch = list(product, &format!("{side}_batch_dimensions"))?;
        let known = list(product, &format!("{side}_contracting_dimensions"))?;
        let odd = || format!("{side} dimensions of {product} are not those of operand {k}");
        let shape = instruction.operand(k).and_then(|o| o.array_shape());
        let rank = shape.map_or(0, |shape| shape.rank()) as i64;
        let &[known] = known.as_slice() else {
            return Err(odd());
        };
        let mut named: Dims = batch.iter().copied().chain([known]).collect();
        named.sort_unstable();
        named.dedup();
        let all_exist = named.iter().all(|d| (0..rank).contains(d));
        let other = (0..rank).find(|d| !named.contains(d));
        match other {
            Some(other)
                if all_exist
                    && named.len() as i64 == rank - 1
                    && batch.len() as i64 == rank - 2 =>
            {
                let (rows, columns) = if known_is_rows {
                    (known, other)
                } else {
                    (other, known)
                };
                Ok(HeadDims {
                    batch,
                    rows,
                    columns,
                })
            }
            _ => Err(odd()),
        }
    };
    if backward {
        let (q, k) = (
            "bmm1_grad_gemm1_dot_dimension_numbers",
            "bmm1_grad_gemm2_dot_dimension_numbers",
        );
        let v = "bmm2_grad_gemm2_dot_dimension_numbers";
        Ok([
            dims(0, q, "rhs", true)?,
            dims(1, k, "rhs", true)?,
            dims(2, v, "rhs", false)?,
            dims(4, v, "lhs", false)?,
        ])
    } else {
        let (p, o) = ("bmm1_dot_dimension_numbers", "bmm2_dot_dimension_numbers");
        let query = dims(0, p, "lhs", false)?;
        Ok([
            query.clone(),
            dims(1, p, "rhs", false)?,
            dims(2, o, "rhs", true)?,
            query,
        ])
    }
}
