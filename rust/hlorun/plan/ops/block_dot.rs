//! `ragged-dot` and `scaled-dot`: products whose rows, or whose scales, come in blocks.

use smallvec::SmallVec;

use super::index_map::{DimList, array_operand, checked_dims};
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::element::elementwise;
use crate::plan::error::unsupported;

/// What comes in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Rows of the left operand along this free dimension; each block meets its own matrix along this
    /// dimension of the right operand.
    Rows(usize, usize),
    /// Products along this contracted dimension; each block gives its own result.
    Contracted(usize),
    /// Whole products.
    Batch,
    /// Scales of either operand, repeated over as many elements as they divide it into.
    Scales,
}

/// Parameters of such a product.
#[derive(Clone, Debug)]
pub struct BlockDotOp {
    /// What comes in blocks.
    pub blocks: Blocks,
    /// Batch dimensions of the left and the right operand.
    pub batch: [DimList; 2],
    /// Contracted dimensions.
    pub contracting: [DimList; 2],
    /// The dimensions left, without the one that groups.
    pub free: [DimList; 2],
}

/// Reads the parameters.
pub fn plan(instruction: InstructionRef<'_>) -> Result<BlockDotOp> {
    let (lhs, rhs) = (
        array_operand(instruction, 0)?,
        array_operand(instruction, 1)?,
    );
    let dims = |key, shape: &crate::types::ArrayShape| {
        checked_dims(instruction, instruction.ints(key), shape.rank())
    };
    let batch = [
        dims(AttrKey::LhsBatchDims, lhs)?,
        dims(AttrKey::RhsBatchDims, rhs)?,
    ];
    let contracting = [
        dims(AttrKey::LhsContractingDims, lhs)?,
        dims(AttrKey::RhsContractingDims, rhs)?,
    ];
    let mut group = None;
    let blocks = if instruction.opcode() == HloOpcode::ScaledDot {
        Blocks::Scales
    } else {
        let ragged = dims(AttrKey::LhsRaggedDims, lhs)?;
        let [ragged] = ragged[..] else {
            return Err(unsupported(instruction, "several ragged dimensions".into()));
        };
        let groups = dims(AttrKey::RhsGroupDims, rhs)?;
        let sizes = array_operand(instruction, 2)?;
        if sizes.rank() != 1 {
            return Err(unsupported(
                instruction,
                "group sizes that differ by batch".into(),
            ));
        }
        match groups[..] {
            [dim] if !batch[0].contains(&ragged) && !contracting[0].contains(&ragged) => {
                group = Some(dim);
                Blocks::Rows(ragged, dim)
            }
            [] if contracting[0].contains(&ragged) => Blocks::Contracted(ragged),
            [] if batch[0].contains(&ragged) => Blocks::Batch,
            _ => return Err(unsupported(instruction, "groups that do not fit".into())),
        }
    };
    let free = |side: usize, rank: usize, group: Option<usize>| -> SmallVec<[usize; 4]> {
        let used = |d: &usize| {
            batch[side].contains(d) || contracting[side].contains(d) || group == Some(*d)
        };
        (0..rank).filter(|d| !used(d)).collect()
    };
    let free = [free(0, lhs.rank(), None), free(1, rhs.rank(), group)];
    let sizes = |shape: &crate::types::ArrayShape, dims: &DimList| -> Vec<i64> {
        dims.iter().map(|&d| shape.dims[d]).collect()
    };
    let pairs_fit = sizes(lhs, &batch[0]) == sizes(rhs, &batch[1])
        && sizes(lhs, &contracting[0]) == sizes(rhs, &contracting[1]);
    let types_fit = instruction.operands().all(|o| {
        o.array_shape()
            .is_some_and(|s| elementwise::dtype(s.element_type).is_some())
    });
    if !pairs_fit || !types_fit {
        return Err(unsupported(instruction, "operands that do not fit".into()));
    }
    Ok(BlockDotOp {
        blocks,
        batch,
        contracting,
        free,
    })
}
