//! `__onednn$*` of XLA's CPU compiler: what their options say.

use smallvec::SmallVec;

use super::Config;
use crate::module::attributes::{ConvolutionDimensionNumbers, Window, WindowDimension};
use crate::types::Dims;

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Onednn {
    Matmul,
    Convolution,
    LayerNorm,
    Softmax,
}

/// The call that `target` names.
pub fn onednn(target: &str) -> Option<Onednn> {
    Some(match target {
        "__onednn$matmul" => Onednn::Matmul,
        "__onednn$convolution" => Onednn::Convolution,
        "__onednn$layernorm" => Onednn::LayerNorm,
        "__onednn$softmax" => Onednn::Softmax,
        _ => return None,
    })
}

/// Numbers under a path of JSON names.
fn list(config: &Config, path: &[&str]) -> Dims {
    let values = config.at(path).and_then(super::config::ints);
    values.unwrap_or_default()
}

/// What is fused behind a product, in order.
pub fn fused(config: &Config) -> Vec<String> {
    let lists = ["ops", "fused_ops"]
        .iter()
        .find_map(|name| config.text(name));
    let text = lists.unwrap_or_default();
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    values
        .iter()
        .map(|v| match v {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect()
}

/// Whether what is fused adds an operand of its own.
pub fn takes_operand(op: &str) -> bool {
    matches!(op, "BIAS" | "1" | "BINARY_ADD" | "6" | "SUM")
}

/// Which dimension of an array of a product comes where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The left operand.
    Lhs,
    /// The right operand.
    Rhs,
    /// The result.
    Result,
}

/// The dimensions of one side of a product, of this rank, in the order of batch, rows, columns.
pub fn matmul_order(config: &Config, side: Side, rank: usize) -> Result<Dims, String> {
    let (name, exchange) = match side {
        Side::Lhs => ("lhs", "transpose_a"),
        Side::Rhs => ("rhs", "transpose_b"),
        Side::Result => ("result", ""),
    };
    let listed = list(
        config,
        &["onednn_matmul_config", name, "tensor", "dimensions"],
    );
    // They are counted from one.
    let mut order: Dims = if listed.is_empty() {
        (0..rank as i64).collect()
    } else {
        listed.iter().map(|&d| d.saturating_sub(1)).collect()
    };
    let is_permutation = (0..rank as i64).all(|d| order.contains(&d)) && order.len() == rank;
    if !is_permutation || rank < 2 {
        return Err(format!(
            "the dimensions its options list for {name} are not those of an array of rank {rank}"
        ));
    }
    if config.flag(exchange).unwrap_or(false) {
        order.swap(rank - 1, rank - 2);
    }
    Ok(order)
}

/// The dimension that a softmax runs along, counted from the end when negative.
pub fn softmax_axis(config: &Config, rank: usize) -> Result<usize, String> {
    let axis = config.number("softmax_axis").unwrap_or(0.0) as i64;
    let from_start = if axis < 0 {
        axis.saturating_add(rank as i64)
    } else {
        axis
    };
    let found = usize::try_from(from_start).ok().filter(|&d| d < rank);
    found.ok_or_else(|| format!("softmax_axis={axis} of an array of rank {rank}"))
}

/// A convolution as its options describe it.
#[derive(Clone, Debug)]
pub struct OnednnConvolution {
    /// Which dimension is which.
    pub numbers: ConvolutionDimensionNumbers,
    /// One entry per spatial dimension.
    pub window: Window,
    /// Groups the features fall into.
    pub groups: i64,
}

/// The convolution of a kernel of these sizes.
pub fn convolution(config: &Config, kernel: &[i64]) -> Result<OnednnConvolution, String> {
    let name = "onednn_conv_config";
    config.at(&[name]).ok_or("has no options in JSON")?;
    let number = |path: [&str; 3]| {
        let value = config.at(&[name, path[0], path[1], path[2]]);
        value.and_then(super::config::int).unwrap_or(0)
    };
    // Spatial dimensions are counted from one, the others from zero.
    let spatial = |side: &str, kind: &str| -> SmallVec<[i64; 3]> {
        let listed = list(config, &[name, side, kind, "spatial_dims"]);
        listed.iter().map(|d| d.saturating_sub(1)).collect()
    };
    let numbers = ConvolutionDimensionNumbers {
        input_batch: number(["input", "data", "batch_dim"]),
        input_feature: number(["input", "data", "feature_dim"]),
        input_spatial: spatial("input", "data"),
        kernel_input_feature: number(["kernel", "filter", "input_feature_dim"]),
        kernel_output_feature: number(["kernel", "filter", "output_feature_dim"]),
        kernel_spatial: spatial("kernel", "filter"),
        output_batch: number(["output", "data", "batch_dim"]),
        output_feature: number(["output", "data", "feature_dim"]),
        output_spatial: spatial("output", "data"),
    };
    // Strides, paddings and dilations are kept plus one.
    let window = |field: &str| list(config, &[name, "window", field]);
    let (strides, low, high) = (window("strides"), window("pad_left"), window("pad_right"));
    let dilations = window("window_dilations");
    let at = |values: &Dims, d: usize, default: i64| {
        values.get(d).map_or(default, |v| v.saturating_sub(1))
    };
    let mut dimensions = Window::default();
    for (d, &dim) in numbers.kernel_spatial.iter().enumerate() {
        let size = usize::try_from(dim).ok().and_then(|dim| kernel.get(dim));
        dimensions.0.push(WindowDimension {
            size: *size.ok_or_else(|| format!("the kernel has no dimension {dim}"))?,
            stride: at(&strides, d, 1),
            padding_low: at(&low, d, 0),
            padding_high: at(&high, d, 0),
            window_dilation: at(&dilations, d, 1),
            ..WindowDimension::default()
        });
    }
    let groups = config.number("feature_groups").unwrap_or(1.0).max(1.0);
    Ok(OnednnConvolution {
        numbers,
        window: dimensions,
        groups: groups as i64,
    })
}
