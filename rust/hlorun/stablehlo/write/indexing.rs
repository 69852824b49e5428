//! Attributes of slices, padding, gathers and scatters.

use std::fmt::Write;

use super::Writer;
use crate::stablehlo::attributes::Fields;
use crate::stablehlo::tree::Operation;
use crate::stablehlo::{Declined, Read};

/// Lists of a gather, and HLO's keys.
const GATHER: &[(&str, &str)] = &[
    ("offset_dims", "offset_dims"),
    ("collapsed_slice_dims", "collapsed_slice_dims"),
    ("start_index_map", "start_index_map"),
];
/// Lists of a scatter, and HLO's keys.
const SCATTER: &[(&str, &str)] = &[
    ("update_window_dims", "update_window_dims"),
    ("inserted_window_dims", "inserted_window_dims"),
    (
        "scatter_dims_to_operand_dims",
        "scatter_dims_to_operand_dims",
    ),
];
/// Lists that HLO has only where they are not empty.
const GATHER_BATCHES: &[(&str, &str)] = &[
    ("operand_batching_dims", "operand_batching_dims"),
    ("start_indices_batching_dims", "start_indices_batching_dims"),
];
const SCATTER_BATCHES: &[(&str, &str)] = &[
    ("input_batching_dims", "input_batching_dims"),
    (
        "scatter_indices_batching_dims",
        "scatter_indices_batching_dims",
    ),
];

impl<'a> Writer<'_, 'a> {
    fn lists(
        &self,
        fields: &mut Fields<'a>,
        always: &[(&'static str, &str)],
        unless_empty: &[(&'static str, &str)],
        out: &mut String,
    ) -> Read<()> {
        for &(name, key) in always {
            self.list(fields, name, key, out)?;
        }
        for &(name, key) in unless_empty {
            let list = fields.need(name)?;
            if !self.artifact.integers(list)?.is_empty() {
                self.list(fields, name, key, out)?;
            }
        }
        let dimension = self.artifact.integer(fields.need("index_vector_dim")?)?;
        let _ = write!(out, ", index_vector_dim={dimension}");
        Ok(())
    }

    pub fn gather(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        self.lists(fields, GATHER, GATHER_BATCHES, out)?;
        self.list(fields, "slice_sizes", "slice_sizes", out)?;
        if self.artifact.boolean(fields.need("indices_are_sorted")?)? {
            out.push_str(", indices_are_sorted=true");
        }
        Ok(())
    }

    pub fn scatter(
        &mut self,
        operation: &Operation<'a>,
        fields: &mut Fields<'a>,
        out: &mut String,
    ) -> Read<()> {
        self.lists(fields, SCATTER, SCATTER_BATCHES, out)?;
        for name in ["indices_are_sorted", "unique_indices"] {
            if self.artifact.boolean(fields.need(name)?)? {
                let _ = write!(out, ", {name}=true");
            }
        }
        self.region(operation, 0, "to_apply", out)
    }

    pub fn slice(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        let starts = self.artifact.integers(fields.need("start_indices")?)?;
        let limits = self.artifact.integers(fields.need("limit_indices")?)?;
        let strides = self.artifact.integers(fields.need("strides")?)?;
        if limits.len() != starts.len() || strides.len() != starts.len() {
            return Err(Declined::because("a slice of another number of dimensions"));
        }
        out.push_str(", slice={");
        for at in 0..starts.len() {
            let mark = if at > 0 { ", " } else { "" };
            let (start, limit, stride) = (starts[at], limits[at], strides[at]);
            let _ = match stride {
                1 => write!(out, "{mark}[{start}:{limit}]"),
                _ => write!(out, "{mark}[{start}:{limit}:{stride}]"),
            };
        }
        out.push('}');
        Ok(())
    }

    pub fn pad(&self, fields: &mut Fields<'a>, out: &mut String) -> Read<()> {
        let low = self.artifact.integers(fields.need("edge_padding_low")?)?;
        let high = self.artifact.integers(fields.need("edge_padding_high")?)?;
        let interior = self.artifact.integers(fields.need("interior_padding")?)?;
        if high.len() != low.len() || interior.len() != low.len() {
            return Err(Declined::because("padding of another number of dimensions"));
        }
        out.push_str(", padding=");
        for at in 0..low.len() {
            let mark = if at > 0 { "x" } else { "" };
            let (low, high, interior) = (low[at], high[at], interior[at]);
            let _ = match interior {
                0 => write!(out, "{mark}{low}_{high}"),
                _ => write!(out, "{mark}{low}_{high}_{interior}"),
            };
        }
        Ok(())
    }
}
