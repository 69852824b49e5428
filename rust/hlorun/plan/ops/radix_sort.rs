//! The radix sorts of CUB as `sort`: keys, or keys that move values, along the last dimension.

use super::index_map::array_operand;
use super::sort::SortOp;
use super::sort_keys::{SortKey, SortKeys, orderable};
use crate::error::Result;
use crate::library::Config;
use crate::module::InstructionRef;
use crate::plan::element::program::{Program, ProgramBuilder};
use crate::plan::error::unsupported;

/// Reads the call.
pub fn plan(instruction: InstructionRef<'_>) -> Result<SortOp> {
    let count = instruction.operand_ids().len();
    let keys = array_operand(instruction, 0)?;
    if !orderable(keys.element_type) {
        let what = format!("a radix sort of {}", keys.element_type.name());
        return Err(unsupported(instruction, what));
    }
    let mut builder = ProgramBuilder::new();
    let mut first = None;
    for index in 0..count {
        let shape = array_operand(instruction, index)?;
        let left = builder.input(shape.element_type);
        builder.input(shape.element_type);
        first.get_or_insert(left);
    }
    let Some(first) = first else {
        return Err(unsupported(instruction, "no keys".into()));
    };
    let key = builder.reinterpret(first, keys.element_type);
    let config = Config::of(instruction);
    Ok(SortOp {
        count,
        dimension: keys.rank() - 1,
        // Keys decide alone.
        comparator: Program::default(),
        keys: Some(SortKeys {
            keys: vec![SortKey {
                element_type: keys.element_type,
                descending: config.flag("descending").unwrap_or(false),
                total_order: true,
            }],
            program: builder.finish(&[key]),
        }),
    })
}
