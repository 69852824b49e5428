//! Windows, padding, slices, dimension labels and the other values of more than one word.

use std::fmt::Write;

use super::braces::{inside, key_value, parts, write_compact};
use super::float::write_g;
use crate::module::attributes::{
    ConvolutionDimensionNumbers, PaddingDimension, SliceDimension, Window, WindowDimension,
};

/// `{mode=highest}` or `{tolerance={atol=0,rtol=0.001,ulps=3}}`.
pub(super) fn write_result_accuracy(out: &mut String, text: &[u8], digits: usize) {
    let body = inside(text);
    out.push_str(", result_accuracy={");
    match parts(body, true).first().copied().and_then(key_value) {
        Some((b"tolerance", fields)) => {
            let fields: Vec<_> = parts(inside(fields), true)
                .into_iter()
                .filter_map(key_value)
                .collect();
            let value = |name: &[u8]| -> f64 {
                fields
                    .iter()
                    .find(|(key, _)| *key == name)
                    .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok())
                    .unwrap_or(0.0)
            };
            out.push_str("tolerance={atol=");
            write_g(out, value(b"atol"), digits);
            out.push_str(",rtol=");
            write_g(out, value(b"rtol"), digits);
            let _ = write!(out, ",ulps={}}}", value(b"ulps") as i64);
        }
        _ => {
            let start = out.len();
            write_compact(out, body);
            out[start..].make_ascii_lowercase();
        }
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
pub(super) fn write_window(out: &mut String, window: &Window) {
    let dims = &window.0;
    out.push('{');
    let mut field = |name: &str, always: bool, write: &dyn Fn(&mut String, &WindowDimension)| {
        let default = WindowDimension::default();
        let mut default_text = String::new();
        write(&mut default_text, &default);
        let texts: Vec<String> = dims
            .iter()
            .map(|dim| {
                let mut text = String::new();
                write(&mut text, dim);
                text
            })
            .collect();
        if !always && texts.iter().all(|text| *text == default_text) {
            return;
        }
        if !out.ends_with('{') {
            out.push(' ');
        }
        let _ = write!(out, "{name}={}", texts.join("x"));
    };
    if !dims.is_empty() {
        field("size", true, &|out, dim| {
            let _ = write!(out, "{}", dim.size);
        });
        field("stride", false, &|out, dim| {
            let _ = write!(out, "{}", dim.stride);
        });
        field("pad", false, &|out, dim| {
            let _ = write!(out, "{}_{}", dim.padding_low, dim.padding_high);
        });
        field("lhs_dilate", false, &|out, dim| {
            let _ = write!(out, "{}", dim.base_dilation);
        });
        field("rhs_dilate", false, &|out, dim| {
            let _ = write!(out, "{}", dim.window_dilation);
        });
        field("rhs_reversal", false, &|out, dim| {
            let _ = write!(out, "{}", u8::from(dim.window_reversal));
        });
    }
    out.push('}');
}

/// `1_1x0_2`, with a third number where any dimension is padded between its elements.
pub(super) fn write_padding(out: &mut String, dims: &[PaddingDimension]) {
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
pub(super) fn write_slice(out: &mut String, dims: &[SliceDimension]) {
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
pub(super) fn write_dim_labels(out: &mut String, labels: &ConvolutionDimensionNumbers) {
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
