//! What the `HloModule` line says beyond the name.

use foldhash::HashSet;

use super::names::TextRef;
use crate::types::{ShapeId, ShapeIndex};

/// How sure the aliasing of an output with a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AliasKind {
    /// `may-alias`.
    MayAlias,
    /// `must-alias`.
    MustAlias,
}

/// One entry of `input_output_alias`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct InputOutputAlias {
    /// Where in the output.
    pub output: ShapeIndex,
    /// Which entry parameter.
    pub parameter: i64,
    /// Where in that parameter.
    pub parameter_index: ShapeIndex,
    /// May or must.
    pub kind: AliasKind,
}

/// One entry of `buffer_donor`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BufferDonor {
    /// Which entry parameter.
    pub parameter: i64,
    /// Where in that parameter.
    pub parameter_index: ShapeIndex,
}

/// `entry_computation_layout={(…)->…}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryComputationLayout {
    /// Shapes of the parameters, with layouts.
    pub parameters: Vec<ShapeId>,
    /// Shape of the result, with layout.
    pub result: ShapeId,
}

/// The header's attributes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HloModuleConfig {
    /// `is_scheduled=true`: the order of instructions is a schedule.
    pub is_scheduled: bool,
    /// `alias_passthrough_params=true`.
    pub alias_passthrough_params: bool,
    /// `input_output_alias`.
    pub input_output_alias: Vec<InputOutputAlias>,
    /// `buffer_donor`.
    pub buffer_donor: Vec<BufferDonor>,
    /// `entry_computation_layout`.
    pub entry_computation_layout: Option<EntryComputationLayout>,
    /// `replica_count`; 1 when absent.
    pub replica_count: Option<i64>,
    /// `num_partitions`; 1 when absent.
    pub num_partitions: Option<i64>,
    /// The text is instructions without a module around them.
    pub stands_alone: bool,
    /// All header attributes as written, in order: key and value, the ones above included.
    pub attributes: Vec<(TextRef, TextRef)>,
}

impl HloModuleConfig {
    /// Parameters, or parts of them, whose memory results may reuse: the parameter's number and the index in its shape.
    pub fn donated(&self) -> HashSet<(i64, &ShapeIndex)> {
        let aliases = self.input_output_alias.iter();
        aliases
            .map(|alias| (alias.parameter, &alias.parameter_index))
            .collect()
    }

    /// Heap bytes held.
    pub fn heap_size(&self) -> usize {
        use std::mem::size_of_val;
        let layout = self
            .entry_computation_layout
            .as_ref()
            .map_or(0, |layout| size_of_val(&layout.parameters[..]));
        size_of_val(&self.input_output_alias[..])
            + size_of_val(&self.buffer_donor[..])
            + size_of_val(&self.attributes[..])
            + layout
    }
}
