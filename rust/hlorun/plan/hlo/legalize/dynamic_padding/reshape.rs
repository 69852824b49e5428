//! Reshapes of arrays with dynamic dimensions: the elements of one row-major array of the true
//! sizes become another.

use smallvec::SmallVec;

use super::{Padding, Sizes};
use crate::error::Result;
use crate::module::{HloOpcode, InstructionId};
use crate::types::PrimitiveType;

/// Which dimension of the result is dimension `dim` of the source, unchanged, if one is.
fn same_dimension(source: &[i64], dim: usize, result: &[i64]) -> Option<usize> {
    let before: i64 = source[..dim].iter().product();
    let mut product = 1;
    for (to, &size) in result.iter().enumerate() {
        if product == before && size == source[dim] && size != 1 {
            return Some(to);
        }
        product *= size;
    }
    None
}

impl Padding<'_> {
    /// Dynamic dimensions that come through unchanged need nothing; else elements are moved, and
    /// the one dimension declared dynamic gets the size that is left.
    pub(crate) fn reshape(&mut self, id: InstructionId) -> Result<InstructionId> {
        let operand = self.module.operand_ids(id)[0];
        let (source, result) = (self.dims(operand), self.dims(id));
        let sizes = self.sizes_of(operand);
        let moved: Option<Sizes> = sizes
            .iter()
            .map(|&(dim, size)| Some((same_dimension(&source, dim, &result)?, size)))
            .collect();
        if let Some(moved) = moved.filter(|_| !source.contains(&0)) {
            self.set_sizes(id, moved);
            return Ok(self.keep(id));
        }
        let shape = self.module.instruction(id).array_shape();
        let dynamic: SmallVec<[usize; 4]> = (0..result.len())
            .filter(|&dim| shape.is_some_and(|shape| shape.is_dynamic_dimension(dim)))
            .collect();
        let [dynamic] = dynamic[..] else {
            return Err(self.refuse(
                id,
                "of a dynamic size into other than one dynamic dimension",
            ));
        };
        let mut total = self.builder(id).scalar_s32(1);
        for dim in 0..source.len() {
            let size = self.size(id, operand, dim)?;
            total = self
                .builder(id)
                .elementwise(HloOpcode::Multiply, &[total, size]);
        }
        let mut rest = self.builder(id).scalar_s32(1);
        for dim in (0..result.len()).filter(|&dim| dim != dynamic) {
            let size = self.size(id, id, dim)?;
            rest = self
                .builder(id)
                .elementwise(HloOpcode::Multiply, &[rest, size]);
        }
        let size = self
            .builder(id)
            .elementwise(HloOpcode::Divide, &[total, rest]);
        let mut sizes: Sizes = SmallVec::new();
        sizes.push((dynamic, size));
        self.repack(id, operand, sizes)
    }

    pub(crate) fn dynamic_reshape(&mut self, id: InstructionId) -> Result<InstructionId> {
        let operands: SmallVec<[InstructionId; 6]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        let shape = self.module.instruction(id).array_shape();
        let sizes: Sizes = operands[1..]
            .iter()
            .copied()
            .enumerate()
            .filter(|&(dim, _)| shape.is_some_and(|shape| shape.is_dynamic_dimension(dim)))
            .collect();
        self.repack(id, operands[0], sizes)
    }

    /// The elements of `operand` in row-major order of its true sizes, in the shape of `id` with the
    /// true sizes `sizes`.
    fn repack(
        &mut self,
        id: InstructionId,
        operand: InstructionId,
        sizes: Sizes,
    ) -> Result<InstructionId> {
        let (source, result) = (self.dims(operand), self.dims(id));
        let count: Option<i64> = source.iter().try_fold(1i64, |n, &dim| n.checked_mul(dim));
        let count = count.filter(|&n| i32::try_from(n).is_ok());
        let Some(count) = count else {
            return Err(self.refuse(id, "of more elements than s32 counts"));
        };
        if count == 0 || result.contains(&0) {
            let mut b = self.builder(id);
            let ty = b.shape(operand).element_type;
            let empty = b.zeros(ty, &result);
            self.set_sizes(empty, sizes);
            return Ok(empty);
        }
        // The place of every element of the result among the true elements.
        let mut b = self.builder(id);
        let mut place = b.zeros(PrimitiveType::S32, &result);
        for dim in 0..result.len() {
            let size = match sizes.iter().find(|(d, _)| *d == dim) {
                Some(&(_, size)) => size,
                None => b.scalar_s32(i32::try_from(result[dim]).unwrap_or(i32::MAX)),
            };
            let size = b.broadcast(size, &result);
            let index = b.iota(&result, dim);
            let scaled = b.elementwise(HloOpcode::Multiply, &[place, size]);
            place = b.plus(scaled, index);
        }
        // The place of that element in the padded operand.
        let mut flat = self.builder(id).zeros(PrimitiveType::S32, &result);
        let mut stride = 1i64;
        for dim in (0..source.len()).rev() {
            let size = self.size(id, operand, dim)?;
            let mut b = self.builder(id);
            let size = b.broadcast(size, &result);
            let coordinate = b.elementwise(HloOpcode::Remainder, &[place, size]);
            place = b.elementwise(HloOpcode::Divide, &[place, size]);
            let scale = b.scalar_s32(i32::try_from(stride).unwrap_or(i32::MAX));
            let scale = b.broadcast(scale, &result);
            let scaled = b.elementwise(HloOpcode::Multiply, &[coordinate, scale]);
            flat = b.plus(flat, scaled);
            stride = stride.saturating_mul(source[dim]);
        }
        let mut b = self.builder(id);
        let vector = b.reshape(operand, &[count]);
        let taken = b.take(vector, flat);
        self.set_sizes(taken, sizes);
        Ok(taken)
    }
}
