//! Products of cuBLAS and cuBLASLt: `__cublas$gemm`, `__cublas$lt$matmul`, `__cublas$lt$matmul$f8`.

use super::Config;
use crate::module::{AttrKey, InstructionRef};
use crate::types::Dims;

/// A product, with C added.
pub const GEMM: &str = "__cublas$gemm";
/// The same with an epilogue.
pub const LT_MATMUL: &str = "__cublas$lt$matmul";
/// The same of numbers of eight bits, with scales.
pub const LT_MATMUL_F8: &str = "__cublas$lt$matmul$f8";

/// Which dimensions of the operands of a product are which.
#[derive(Clone, Debug, Default)]
pub struct DotDimensions {
    /// Batch dimensions of the left operand.
    pub lhs_batch: Dims,
    /// Batch dimensions of the right operand.
    pub rhs_batch: Dims,
    /// Dimensions of the left operand that are summed over.
    pub lhs_contracting: Dims,
    /// Dimensions of the right operand that are summed over.
    pub rhs_contracting: Dims,
}

impl DotDimensions {
    /// Those of a `dot`.
    pub fn of_dot(instruction: InstructionRef<'_>) -> DotDimensions {
        let list = |key| Dims::from_slice(instruction.ints(key));
        DotDimensions {
            lhs_batch: list(AttrKey::LhsBatchDims),
            rhs_batch: list(AttrKey::RhsBatchDims),
            lhs_contracting: list(AttrKey::LhsContractingDims),
            rhs_contracting: list(AttrKey::RhsContractingDims),
        }
    }

    /// Those of a message of dimension numbers in JSON; a list that is not there is empty.
    pub fn of_json(numbers: Option<&serde_json::Value>) -> DotDimensions {
        let list = |key| numbers.and_then(|n| super::config::ints(n.get(key)?));
        let list = |key| list(key).unwrap_or_default();
        DotDimensions {
            lhs_batch: list("lhs_batch_dimensions"),
            rhs_batch: list("rhs_batch_dimensions"),
            lhs_contracting: list("lhs_contracting_dimensions"),
            rhs_contracting: list("rhs_contracting_dimensions"),
        }
    }

    /// Products of the last two dimensions of arrays of this rank, batches in front.
    pub fn of_matrices(rank: usize, lhs_contracting: i64, rhs_contracting: i64) -> DotDimensions {
        let batch: Dims = (0..rank as i64 - 2).collect();
        DotDimensions {
            lhs_batch: batch.clone(),
            rhs_batch: batch,
            lhs_contracting: Dims::from_slice(&[lhs_contracting]),
            rhs_contracting: Dims::from_slice(&[rhs_contracting]),
        }
    }

    /// Whether they are dimensions of operands of these sizes, each named once, and pairs of them of
    /// one size; a configuration may hold any numbers.
    pub fn fit(&self, lhs: &[i64], rhs: &[i64]) -> bool {
        let named_once = |rank: usize, batch: &[i64], contracting: &[i64]| {
            let mut seen = Dims::from_elem(0, rank);
            batch.iter().chain(contracting).all(|&dim| {
                usize::try_from(dim)
                    .ok()
                    .and_then(|dim| seen.get_mut(dim))
                    .is_some_and(|times| std::mem::replace(times, 1) == 0)
            })
        };
        let paired = |left: &[i64], right: &[i64]| {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(&l, &r)| lhs[l as usize] == rhs[r as usize])
        };
        named_once(lhs.len(), &self.lhs_batch, &self.lhs_contracting)
            && named_once(rhs.len(), &self.rhs_batch, &self.rhs_contracting)
            && paired(&self.lhs_batch, &self.rhs_batch)
            && paired(&self.lhs_contracting, &self.rhs_contracting)
    }

    /// Dimensions of an operand that are neither batch nor contracting, ascending.
    pub fn free(rank: usize, batch: &[i64], contracting: &[i64]) -> Dims {
        (0..rank as i64)
            .filter(|dim| !batch.contains(dim) && !contracting.contains(dim))
            .collect()
    }

    /// Sizes of the product: batch, free of the left, free of the right. `None` where they do not
    /// [`DotDimensions::fit`].
    pub fn result(&self, lhs: &[i64], rhs: &[i64]) -> Option<Dims> {
        if !self.fit(lhs, rhs) {
            return None;
        }
        let lhs_free = DotDimensions::free(lhs.len(), &self.lhs_batch, &self.lhs_contracting);
        let rhs_free = DotDimensions::free(rhs.len(), &self.rhs_batch, &self.rhs_contracting);
        let left = self.lhs_batch.iter().chain(&lhs_free);
        let left = left.map(|&d| lhs[d as usize]);
        Some(
            left.chain(rhs_free.iter().map(|&d| rhs[d as usize]))
                .collect(),
        )
    }
}

/// What a cuBLAS product says in its `backend_config`, flat as until 2024 or nested.
pub struct GemmConfig {
    /// Which dimensions are which.
    pub dimensions: DotDimensions,
    /// Scale of the product.
    pub alpha: (f64, f64),
    /// Scale of C.
    pub beta: f64,
    /// Anything but `DEFAULT`.
    pub epilogue: Option<String>,
}

impl GemmConfig {
    /// The configuration of a cuBLAS call; `None` where the text has none in JSON.
    pub fn of(instruction: InstructionRef<'_>) -> Option<GemmConfig> {
        let config = Config::of(instruction);
        let config = config.json()?;
        let config = config.get("gemm_backend_config").unwrap_or(config);
        let number = |key: &str, default: f64| {
            let value = config.get(key);
            value
                .and_then(|v| v.as_f64().or_else(|| v.as_str()?.parse().ok()))
                .unwrap_or(default)
        };
        Some(GemmConfig {
            dimensions: DotDimensions::of_json(config.get("dot_dimension_numbers")),
            alpha: (number("alpha_real", 1.0), number("alpha_imag", 0.0)),
            beta: number("beta", 0.0),
            epilogue: config
                .get("epilogue")
                .and_then(|e| e.as_str())
                .filter(|e| *e != "DEFAULT")
                .map(str::to_owned),
        })
    }

    /// What follows the product; an error names what nobody knows.
    pub fn epilogue(&self) -> Result<Epilogue, String> {
        let name = self.epilogue.as_deref().unwrap_or("DEFAULT");
        Epilogue::named(name).ok_or_else(|| format!("epilogue {name}"))
    }
}

/// A function of the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Activation {
    None,
    Relu,
    Gelu,
    Silu,
}

/// What follows the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epilogue {
    /// A vector along the columns is added.
    pub has_bias: bool,
    /// Applied last.
    pub activation: Activation,
    /// The activation's argument is a result too, in a form of the library's own but for GELU.
    pub has_aux: bool,
}

impl Epilogue {
    fn named(name: &str) -> Option<Epilogue> {
        let (name, has_aux) = match name.strip_suffix("_AUX") {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let (has_bias, activation) = match name {
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
        Some(Epilogue {
            has_bias,
            activation,
            has_aux,
        })
    }

    /// Whether the auxiliary result is in an order of the library's own, which nobody else reads.
    pub fn has_bits(self) -> bool {
        self.has_aux && self.activation != Activation::Gelu
    }
}

/// Which operand of a product is which, behind A and B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GemmOperands {
    /// C.
    pub c: Option<usize>,
    /// The scale of A; that of B follows.
    pub scales: Option<usize>,
    /// The scale of C.
    pub c_scale: Option<usize>,
    /// The bias.
    pub bias: Option<usize>,
    /// The scale of D, which need not be there.
    pub d_scale: Option<usize>,
    /// The least and the greatest number of operands.
    pub counts: (usize, usize),
}

impl GemmOperands {
    /// Those of a call of `count` operands; `is_scalar` tells which of them are scalars.
    ///
    /// Until 2024 the scales of C and D came with those of A and B, used or not.
    pub fn of(
        config: &GemmConfig,
        is_f8: bool,
        has_bias: bool,
        is_scalar: &dyn Fn(usize) -> bool,
    ) -> GemmOperands {
        let c = (config.beta != 0.0).then_some(2);
        let mut next = 2 + usize::from(c.is_some());
        let mut take = |count: usize| {
            let at = next;
            next += count;
            at
        };
        let scales = is_f8.then(|| take(2));
        let all = scales.filter(|&at| is_scalar(at + 2) && is_scalar(at + 3));
        let rest = all.map(|_| take(2));
        let bias = has_bias.then(|| take(1));
        let least = take(0);
        let own_scale = is_f8 && rest.is_none();
        GemmOperands {
            c,
            scales,
            c_scale: rest,
            bias,
            d_scale: rest.map(|at| at + 1).or(own_scale.then_some(least)),
            counts: (least, least + usize::from(own_scale)),
        }
    }
}
