//! The coordinates that index vectors are made of, each by itself.
//!
//! Found where the indices are a concatenation, or a pad of other coordinates, also under other sizes: XLA writes a constant
//! coordinate as a pad, and counts the vectors of several dimensions along one.

use smallvec::SmallVec;

use crate::module::attributes::PaddingDimension;
use crate::module::{AttrKey, AttrValue, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::loops::induction_variable::constant;

/// A coordinate of every vector.
#[derive(Clone, Copy)]
pub enum Coordinate {
    /// The same number.
    Known(i64),
    /// Column `at` of an array along the dimension `dim`.
    Column {
        array: InstructionId,
        dim: usize,
        at: i64,
    },
    /// An array of one number for each vector.
    Array(InstructionId),
}

/// The number that all elements are, if that is known.
fn known(module: &HloModule, mut id: InstructionId) -> Option<i64> {
    while let HloOpcode::Broadcast | HloOpcode::Reshape = module.instruction_data(id).opcode {
        id = *module.operand_ids(id).first()?;
    }
    constant(module, id)
}

/// The columns of an array along `dim`.
fn columns(
    module: &HloModule,
    array: InstructionId,
    dim: usize,
    all: &mut SmallVec<[Coordinate; 4]>,
) -> Option<()> {
    let shape = module.instruction(array).array_shape()?;
    let count = *shape.is_static().then(|| shape.dims.get(dim))??;
    all.extend((0..count).map(|at| Coordinate::Column { array, dim, at }));
    Some(())
}

/// The coordinates of vectors along dimension `dim` of `indices`.
pub fn of(
    module: &HloModule,
    mut indices: InstructionId,
    mut dim: usize,
) -> Option<SmallVec<[Coordinate; 4]>> {
    let shape = |id: InstructionId| module.instruction(id).array_shape();
    let last = |id: InstructionId| shape(id).and_then(|shape| shape.dims.last().copied());
    while module.instruction_data(indices).opcode == HloOpcode::Reshape
        && dim + 1 == shape(indices)?.rank()
    {
        let inner = *module.operand_ids(indices).first()?;
        if last(inner) != last(indices) {
            break;
        }
        (indices, dim) = (inner, shape(inner)?.rank() - 1);
    }
    let mut all = SmallVec::new();
    match module.instruction_data(indices).opcode {
        HloOpcode::Concatenate if module.instruction(indices).dimensions() == [dim as i64] => {
            for &part in module.operand_ids(indices) {
                match known(module, part) {
                    Some(value) => {
                        let count = *shape(part)?.dims.get(dim)?;
                        all.extend((0..count).map(|_| Coordinate::Known(value)));
                    }
                    None => columns(module, part, dim, &mut all)?,
                }
            }
        }
        HloOpcode::Pad => {
            let &[inner, value] = module.operand_ids(indices) else {
                return None;
            };
            let value = Coordinate::Known(constant(module, value)?);
            let (before, after) = padded(module, indices, dim)?;
            all.extend((0..before).map(|_| value));
            columns(module, inner, dim, &mut all)?;
            all.extend((0..after).map(|_| value));
        }
        _ => return None,
    }
    Some(all)
}

/// How many columns are added before and after the others along `dim`, if that is all that a pad does.
fn padded(module: &HloModule, pad: InstructionId, dim: usize) -> Option<(i64, i64)> {
    let Some(AttrValue::Padding(dims)) = module.instruction(pad).attribute(AttrKey::Padding) else {
        return None;
    };
    let only = |(at, d): (usize, &PaddingDimension)| match at == dim {
        true => d.interior == 0 && d.edge_low >= 0 && d.edge_high >= 0,
        false => (d.edge_low, d.edge_high, d.interior) == (0, 0, 0),
    };
    let own = dims.get(dim)?;
    dims.iter()
        .enumerate()
        .all(only)
        .then_some((own.edge_low, own.edge_high))
}

impl Coordinate {
    /// The coordinate of every vector, under the sizes `dims`.
    pub fn array(self, builder: &mut Builder<'_>, dims: &[i64]) -> Coordinate {
        match self {
            Coordinate::Column { array, dim, at } => {
                let column = builder.slice(array, dim, at, at + 1);
                Coordinate::Array(builder.reshape(column, dims))
            }
            own => own,
        }
    }
}
