//! An assignment as numbers alone.
//!
//! Comes in: a module and a schedule. Goes out: what [`super::assign_buffers`] decides, without the text of a
//! dump, which callers that only sum bytes do not need. Promise: allocations and values are those of the dump,
//! in its order.

use std::ops::Range;

use super::assign::{Analyses, AssignOptions, Assigned, allocations_of};
use super::model::AllocationFlags;
use crate::analysis::dataflow::{self, ValueIndex};
use crate::analysis::schedule::HloSchedule;
use crate::error::Result;
use crate::module::{HloModule, InstructionId};
use crate::types::{Shape, ShapeIndex};

/// Where the values of a module lie.
#[derive(Clone, Debug, Default)]
pub struct PlacedBuffers {
    /// Allocations by number.
    pub allocations: Vec<PlacedAllocation>,
    /// Values of all allocations.
    pub values: Vec<PlacedValue>,
}

/// An allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedAllocation {
    /// Bytes.
    pub size: u64,
    /// The entry parameter that it is.
    pub parameter: Option<u32>,
    /// What it is for.
    pub flags: AllocationFlags,
    values: Range<usize>,
}

/// A value inside an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedValue {
    /// The instruction that defines it.
    pub instruction: InstructionId,
    /// Which part of the result it is; none where that is no tuple.
    pub index: Option<ShapeIndex>,
    /// Bytes.
    pub size: u64,
    /// Bytes from the start of the allocation.
    pub offset: u64,
    /// First and last moment at which it is live; none where its computation does not run.
    pub live: Option<(u32, u32)>,
}

impl PlacedBuffers {
    /// The values of an allocation.
    pub fn values_of(&self, allocation: &PlacedAllocation) -> &[PlacedValue] {
        self.values
            .get(allocation.values.clone())
            .unwrap_or_default()
    }
}

/// Assigns memory to all values of a module.
///
/// # Errors
/// As [`super::assign_buffers`].
pub fn place_buffers(
    module: &HloModule,
    schedule: &HloSchedule,
    options: AssignOptions,
) -> Result<PlacedBuffers> {
    let analyses = Analyses::of(module, schedule)?;
    let mut placed = PlacedBuffers::default();
    for mut allocation in allocations_of(&analyses, options)? {
        allocation.values.sort_unstable();
        let start = placed.values.len();
        let values = allocation.values.iter();
        placed
            .values
            .extend(values.map(|&(value, offset)| placed_value(&analyses, value, offset)));
        placed.add(allocation, start);
    }
    Ok(placed)
}

impl PlacedBuffers {
    fn add(&mut self, allocation: Assigned, start: usize) {
        self.allocations.push(PlacedAllocation {
            size: allocation.size,
            parameter: allocation.parameter.map(|(number, _)| number),
            flags: allocation.flags,
            values: start..self.values.len(),
        });
    }
}

fn placed_value(of: &Analyses<'_>, value: ValueIndex, offset: u64) -> PlacedValue {
    let positions = &of.dataflow.positions;
    let position = of.dataflow.value(value).defining_position;
    let instruction = positions.instruction(position);
    let is_tuple = matches!(of.module.instruction(instruction).shape(), Shape::Tuple(_));
    PlacedValue {
        instruction,
        index: is_tuple.then(|| positions.index(position)),
        size: dataflow::byte_size_of(of.module, of.dataflow.shape(value)).unwrap_or(0),
        offset,
        live: of.live.range(value).map(|range| (range.start, range.end)),
    }
}
