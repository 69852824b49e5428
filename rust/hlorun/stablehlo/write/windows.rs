//! Attributes of products, convolutions and windows.

use std::fmt::Write;

use super::Writer;
use crate::stablehlo::attributes::{Fields, PRECISION};
use crate::stablehlo::tree::Operation;
use crate::stablehlo::types::Type;
use crate::stablehlo::{Declined, Read};

/// Lists of a product, and HLO's keys; empty ones are left out.
const DOT: &[(&str, &str)] = &[
    ("lhs_batching_dimensions", "lhs_batch_dims"),
    ("lhs_contracting_dimensions", "lhs_contracting_dims"),
    ("rhs_batching_dimensions", "rhs_batch_dims"),
    ("rhs_contracting_dimensions", "rhs_contracting_dims"),
];
/// What says by which algorithm a product is computed.
const ALGORITHM: &[&str] = &[
    "accumulation_type",
    "allow_imprecise_accumulation",
    "lhs_component_count",
    "lhs_precision_type",
    "num_primitive_operations",
    "rhs_component_count",
    "rhs_precision_type",
];

/// The text of a `window` attribute in the making.
struct Window {
    rank: usize,
    text: String,
}

impl Window {
    fn new(rank: usize) -> Window {
        Window {
            rank,
            text: String::new(),
        }
    }

    /// Adds a part, unless all of it is `usual`.
    fn add(&mut self, key: &str, numbers: &[i64], usual: Option<i64>) -> Read<()> {
        if numbers.len() != self.rank {
            return Err(Declined::because(
                "a window of another number of dimensions",
            ));
        }
        if numbers.iter().all(|&number| Some(number) == usual) {
            return Ok(());
        }
        let mark = if self.text.is_empty() { "" } else { " " };
        let _ = write!(self.text, "{mark}{key}=");
        for (at, number) in numbers.iter().enumerate() {
            let mark = if at > 0 { "x" } else { "" };
            let _ = write!(self.text, "{mark}{number}");
        }
        Ok(())
    }

    fn pad(&mut self, numbers: &[i64]) -> Read<()> {
        let (pairs, rest) = numbers.as_chunks::<2>();
        if pairs.len() != self.rank || !rest.is_empty() {
            return Err(Declined::because("padding of another number of dimensions"));
        }
        if numbers.iter().any(|&number| number != 0) {
            let mark = if self.text.is_empty() { "" } else { " " };
            let _ = write!(self.text, "{mark}pad=");
            for (at, [low, high]) in pairs.iter().enumerate() {
                let mark = if at > 0 { "x" } else { "" };
                let _ = write!(self.text, "{mark}{low}_{high}");
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut String) {
        if self.rank > 0 {
            let _ = write!(out, ", window={{{}}}", self.text);
        }
    }
}

impl<'a> Writer<'_, 'a> {
    fn precision(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        let list = self.artifact.list(fields.need("precision_config")?)?;
        let words = list
            .iter()
            .map(|&word| self.artifact.word(word, &PRECISION))
            .collect::<Read<Vec<_>>>()?;
        if words.iter().any(|&word| word != "default") {
            let _ = write!(out, ", operand_precision={{{}}}", words.join(","));
        }
        Ok(())
    }

    pub fn dot(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        for &name in ALGORITHM {
            let ty = self.artifact.ty(fields.need(name)?);
            if !matches!(self.artifact.types.get(ty?)?, Type::None) {
                return Err(Declined::because("a product by an algorithm"));
            }
        }
        for &(name, key) in DOT {
            let list = fields.need(name)?;
            if !self.artifact.integers(list)?.is_empty() {
                self.list(fields, name, key, out)?;
            }
        }
        self.precision(fields, out)
    }

    /// One side's dimensions in the order in which they lie, by their letters and numbers.
    fn labels(
        &self,
        fields: &mut Fields<'a>,
        named: [(&'static str, char); 2],
        spatial: &'static str,
    ) -> Read<String> {
        let spatial = self.artifact.integers(fields.need(spatial)?)?;
        let rank = spatial.len() + 2;
        let mut labels = vec![None; rank];
        let mut set = |at: i64, label: String| {
            let slot = usize::try_from(at).ok().and_then(|at| labels.get_mut(at));
            match slot {
                Some(slot @ None) => {
                    *slot = Some(label);
                    Ok(())
                }
                _ => Err(Declined::because("dimensions that are none")),
            }
        };
        for (name, letter) in named {
            set(self.artifact.integer(fields.need(name)?)?, letter.into())?;
        }
        for (number, &at) in spatial.iter().enumerate() {
            set(at, number.to_string())?;
        }
        if rank > 12 {
            return Err(Declined::because("more dimensions than digits"));
        }
        Ok(labels.into_iter().flatten().collect())
    }

    /// Sizes of the kernel's spatial dimensions.
    fn kernel_sizes(&self, operation: &Operation<'a>, fields: &mut Fields<'a>) -> Read<Vec<i64>> {
        let kernel = self.tree.operands(operation).get(1).copied();
        let dims = &self
            .array(kernel.ok_or(Declined::because("no kernel"))?)?
            .dims;
        let spatial = self
            .artifact
            .integers(fields.need("kernel_spatial_dimensions")?)?;
        let sizes = spatial.iter().map(|&at| {
            let size = usize::try_from(at).ok().and_then(|at| dims.get(at));
            size.copied()
                .ok_or(Declined::because("dimensions that are none"))
        });
        sizes.collect()
    }

    pub fn convolution(
        &self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        let input = [
            ("input_batch_dimension", 'b'),
            ("input_feature_dimension", 'f'),
        ];
        let input = self.labels(fields, input, "input_spatial_dimensions")?;
        let kernel = [
            ("kernel_input_feature_dimension", 'i'),
            ("kernel_output_feature_dimension", 'o'),
        ];
        let kernel = self.labels(fields, kernel, "kernel_spatial_dimensions")?;
        let output = [
            ("output_batch_dimension", 'b'),
            ("output_feature_dimension", 'f'),
        ];
        let output = self.labels(fields, output, "output_spatial_dimensions")?;
        let integers = |fields: &mut Fields<'a>, name| self.artifact.integers(fields.need(name)?);
        let strides = integers(fields, "window_strides")?;
        let mut window = Window::new(strides.len());
        window.add("size", &self.kernel_sizes(operation, fields)?, None)?;
        window.add("stride", &strides, Some(1))?;
        window.pad(&integers(fields, "padding")?)?;
        window.add("lhs_dilate", &integers(fields, "lhs_dilation")?, Some(1))?;
        window.add("rhs_dilate", &integers(fields, "rhs_dilation")?, Some(1))?;
        let reversed = self.artifact.booleans(fields.need("window_reversal")?)?;
        let reversed: Vec<i64> = reversed.iter().map(|&is| i64::from(is)).collect();
        window.add("rhs_reversal", &reversed, Some(0))?;
        window.put(out);
        let _ = write!(out, ", dim_labels={input}_{kernel}->{output}");
        for name in ["feature_group_count", "batch_group_count"] {
            match self.artifact.integer(fields.need(name)?)? {
                1 => {}
                count => {
                    let _ = write!(out, ", {name}={count}");
                }
            }
        }
        self.precision(fields, out)
    }

    /// What the windows of `reduce_window` and `select_and_scatter` have in common.
    fn window(&self, fields: &mut Fields<'a>) -> Read<Window> {
        let integers = |fields: &mut Fields<'a>, name| self.artifact.integers(fields.need(name)?);
        let sizes = integers(fields, "window_dimensions")?;
        if sizes.is_empty() {
            return Err(Declined::because("a window of no dimensions"));
        }
        let mut window = Window::new(sizes.len());
        window.add("size", &sizes, None)?;
        window.add("stride", &integers(fields, "window_strides")?, Some(1))?;
        window.pad(&integers(fields, "padding")?)?;
        Ok(window)
    }

    pub fn reduce_window(
        &mut self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        let mut window = self.window(fields)?;
        let integers = |fields: &mut Fields<'a>, name| self.artifact.integers(fields.need(name)?);
        window.add("lhs_dilate", &integers(fields, "base_dilations")?, Some(1))?;
        window.add(
            "rhs_dilate",
            &integers(fields, "window_dilations")?,
            Some(1),
        )?;
        window.put(out);
        self.region(operation, 0, "to_apply", out)
    }

    pub fn select_and_scatter(
        &mut self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        self.window(fields)?.put(out);
        self.region(operation, 0, "select", out)?;
        self.region(operation, 1, "scatter", out)
    }
}
