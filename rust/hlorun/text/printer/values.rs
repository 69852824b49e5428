//! Windows, padding, slices, dimension labels and the other values of more than one word.

use std::fmt::Write;

use super::braces::{inside, key_value, parts, write_compact};
use super::float::write_g;
use crate::module::accuracy::ResultAccuracy;
use crate::module::attributes::{
    ConvolutionDimensionNumbers, PaddingDimension, SliceDimension, WindowDimension,
};

/// `{mode=highest}` or `{tolerance={atol=0,rtol=0.001,ulps=3}}`; what is neither, as it was written.
pub(super) fn write_result_accuracy(out: &mut String, text: &[u8], digits: usize) {
    out.push_str(", result_accuracy={");
    match ResultAccuracy::read(text) {
        Some(ResultAccuracy::Default) => out.push_str("mode=default"),
        Some(ResultAccuracy::Highest) => out.push_str("mode=highest"),
        Some(ResultAccuracy::Tolerance { atol, rtol, ulps }) => {
            out.push_str("tolerance={atol=");
            write_g(out, atol, digits);
            out.push_str(",rtol=");
            write_g(out, rtol, digits);
            let _ = write!(out, ",ulps={ulps}}}");
        }
        None => write_compact(out, inside(text)),
    }
    out.push('}');
}

/// `{visualizing_index=0,count_nan=100}`.
pub(super) fn write_statistics(out: &mut String, text: &[u8], digits: usize) {
    out.push_str(", statistics={");
    for (i, (key, value)) in parts(inside(text), true)
        .into_iter()
        .filter_map(key_value)
        .enumerate()
    {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&String::from_utf8_lossy(key));
        out.push('=');
        let text = String::from_utf8_lossy(value);
        match text.parse::<f64>() {
            Ok(number) => write_g(out, number, digits),
            Err(_) => out.push_str(&text),
        }
    }
    out.push('}');
}

/// `{size=3x3 stride=2x2 pad=1_1x1_1}`; fields at their default are left out.
pub(crate) fn write_window(out: &mut String, dims: &[WindowDimension]) {
    out.push('{');
    let start = out.len();
    let mut field = |name: &str, value: &dyn Fn(&WindowDimension) -> (i64, Option<i64>)| {
        let default = value(&WindowDimension::default());
        let is_left_out = name != "size" && dims.iter().all(|dim| value(dim) == default);
        if is_left_out || dims.is_empty() {
            return;
        }
        out.push_str(if out.len() > start { " " } else { "" });
        let _ = write!(out, "{name}=");
        for (i, dim) in dims.iter().enumerate() {
            let (first, second) = value(dim);
            let _ = write!(out, "{}{first}", if i > 0 { "x" } else { "" });
            if let Some(second) = second {
                let _ = write!(out, "_{second}");
            }
        }
    };
    field("size", &|dim| (dim.size, None));
    field("stride", &|dim| (dim.stride, None));
    field("pad", &|dim| (dim.padding_low, Some(dim.padding_high)));
    field("lhs_dilate", &|dim| (dim.base_dilation, None));
    field("rhs_dilate", &|dim| (dim.window_dilation, None));
    field("rhs_reversal", &|dim| {
        (i64::from(dim.window_reversal), None)
    });
    out.push('}');
}

/// `1_1x0_2`, with a third number where any dimension is padded between its elements.
pub(crate) fn write_padding(out: &mut String, dims: &[PaddingDimension]) {
    let interior = dims.iter().any(|dim| dim.interior != 0);
    for (i, dim) in dims.iter().enumerate() {
        if i > 0 {
            out.push('x');
        }
        let _ = write!(out, "{}_{}", dim.edge_low, dim.edge_high);
        if interior {
            let _ = write!(out, "_{}", dim.interior);
        }
    }
}

/// `{[0:4:2], [1:3:1]}`, without strides where all are 1.
pub(crate) fn write_slice(out: &mut String, dims: &[SliceDimension]) {
    let strides = dims.iter().any(|dim| dim.stride != 1);
    out.push('{');
    for (i, dim) in dims.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "[{}:{}", dim.start, dim.limit);
        if strides {
            let _ = write!(out, ":{}", dim.stride);
        }
        out.push(']');
    }
    out.push('}');
}

/// `b01f_01io->b01f`.
pub(crate) fn write_dim_labels(out: &mut String, labels: &ConvolutionDimensionNumbers) {
    write_side(
        out,
        (labels.input_batch, 'b'),
        (labels.input_feature, 'f'),
        &labels.input_spatial,
    );
    out.push('_');
    write_side(
        out,
        (labels.kernel_input_feature, 'i'),
        (labels.kernel_output_feature, 'o'),
        &labels.kernel_spatial,
    );
    out.push_str("->");
    write_side(
        out,
        (labels.output_batch, 'b'),
        (labels.output_feature, 'f'),
        &labels.output_spatial,
    );
}

/// The labels of one array by dimension; one without a label is `?`.
pub(super) fn write_side(
    out: &mut String,
    first: (i64, char),
    second: (i64, char),
    spatial: &[i64],
) {
    let most = spatial.iter().copied().chain([first.0, second.0]).max();
    // No array has more dimensions than this, whatever a label says.
    let rank = most.map_or(0, |most| (most + 1).clamp(0, 64));
    for dim in 0..rank {
        if dim == first.0 {
            out.push(first.1);
        } else if dim == second.0 {
            out.push(second.1);
        } else if let Some(position) = spatial.iter().position(|&spatial| spatial == dim) {
            let _ = write!(out, "{position}");
        } else {
            out.push('?');
        }
    }
}
