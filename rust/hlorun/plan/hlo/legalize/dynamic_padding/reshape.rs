//! Reshapes of arrays with dynamic dimensions: the elements of one row-major array of the true
//! sizes become another.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Padding, Sizes};
use crate::error::Result;
use crate::module::{AttrKey, HloOpcode, InstructionId};
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

/// Which neighbouring dimensions of the source become which of the result: as few as have equally many
/// elements.
fn groups(source: &[i64], result: &[i64]) -> Vec<(Range<usize>, Range<usize>)> {
    if source.contains(&0) || result.contains(&0) {
        return vec![(0..source.len(), 0..result.len())];
    }
    let mut found = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < source.len() || j < result.len() {
        let (from, to) = (i, j);
        let (mut left, mut right) = (1i64, 1i64);
        loop {
            match left <= right && i < source.len() || j == result.len() {
                true => {
                    left = left.saturating_mul(source[i]);
                    i += 1;
                }
                false => {
                    right = right.saturating_mul(result[j]);
                    j += 1;
                }
            }
            let has_both = i > from && j > to;
            if left == right && has_both || i == source.len() && j == result.len() {
                break;
            }
        }
        // Sizes of 1 that follow belong to what is before them.
        if i == source.len() || result[j..].iter().all(|&size| size == 1) {
            i = source.len();
            j = result.len();
        }
        found.push((from..i, to..j));
    }
    found
}

impl Padding<'_> {
    /// Dynamic dimensions that come through unchanged need nothing; else elements are moved, and in
    /// each group of dimensions one gets the size that is left.
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
        let mut result_sizes = Sizes::new();
        for (from, to) in groups(&source, &result) {
            let is_dynamic = sizes.iter().any(|(dim, _)| from.contains(dim));
            if !is_dynamic || to.is_empty() {
                continue;
            }
            let Some(dim) = self.dynamic_dimension(id, &result, to.clone()) else {
                return Err(self.refuse(
                    id,
                    "of a dynamic size into other than one dynamic dimension",
                ));
            };
            let total = self.elements(id, operand, from)?;
            let rest: i64 = to.filter(|&d| d != dim).map(|d| result[d]).product();
            let Some(rest) = i32::try_from(rest).ok().filter(|&rest| rest > 0) else {
                return Err(self.refuse(id, "of dynamic size into no elements"));
            };
            let mut b = self.builder(id);
            let rest = b.scalar_s32(rest);
            let size = b.elementwise(HloOpcode::Divide, &[total, rest]);
            result_sizes.push((dim, size));
        }
        self.repack(id, operand, result_sizes)
    }

    /// Which of the dimensions `among` of a reshape's result takes up a dynamic size.
    fn dynamic_dimension(
        &self,
        id: InstructionId,
        result: &[i64],
        among: Range<usize>,
    ) -> Option<usize> {
        let instruction = self.module.instruction(id);
        let only = |is_wanted: &dyn Fn(usize) -> bool| {
            let mut found = among.clone().filter(|&dim| is_wanted(dim));
            found.next().filter(|_| found.next().is_none())
        };
        let inferred = instruction.int(AttrKey::InferredDimension);
        let shape = instruction.array_shape();
        only(&|_| true)
            .or_else(|| only(&|dim| inferred == Some(dim as i64)))
            .or_else(|| only(&|dim| shape.is_some_and(|s| s.is_dynamic_dimension(dim))))
            .or_else(|| only(&|dim| result[dim] != 1))
    }

    /// The true number of elements along some dimensions.
    fn elements(
        &mut self,
        like: InstructionId,
        operand: InstructionId,
        along: Range<usize>,
    ) -> Result<InstructionId> {
        let mut total = self.builder(like).scalar_s32(1);
        for dim in along {
            let size = self.size(like, operand, dim)?;
            let mut b = self.builder(like);
            total = b.elementwise(HloOpcode::Multiply, &[total, size]);
        }
        Ok(total)
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
