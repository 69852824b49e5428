//! Padding, windows and indices over arrays with dynamic dimensions.
//!
//! In: an instruction with operands of dynamic size. Out: the same instruction, on operands in which
//! padding does no harm, with the sizes of its result. What would move true elements behind padding
//! is refused.

use smallvec::SmallVec;

use super::{Padding, Sizes};
use crate::error::Result;
use crate::module::{AttrKey, AttrValue, HloOpcode, InstructionId};
use crate::types::{Dims, PrimitiveType};

impl Padding<'_> {
    /// `size · scale + offset`, never below zero.
    fn affine(
        &mut self,
        like: InstructionId,
        size: InstructionId,
        scale: i64,
        offset: i64,
    ) -> Result<InstructionId> {
        let (Ok(scale), Ok(offset)) = (i32::try_from(scale), i32::try_from(offset)) else {
            return Err(self.refuse(like, "of a size beyond s32"));
        };
        let mut b = self.builder(like);
        let scale = b.scalar_s32(scale);
        let offset = b.scalar_s32(offset);
        let scaled = b.elementwise(HloOpcode::Multiply, &[size, scale]);
        let sum = b.plus(scaled, offset);
        let zero = b.scalar_s32(0);
        Ok(b.elementwise(HloOpcode::Maximum, &[sum, zero]))
    }

    /// Elements beyond the size become the padding value, so that high padding may overlap them.
    pub(crate) fn pad(&mut self, id: InstructionId) -> Result<()> {
        let Some(AttrValue::Padding(config)) =
            self.module.instruction(id).attribute(AttrKey::Padding)
        else {
            return Err(self.refuse(id, "without its padding"));
        };
        let config = config.to_vec();
        let [mut operand, value] = *self.module.operand_ids(id) else {
            return Err(self.refuse(id, "without its operands"));
        };
        let mut sizes = Sizes::new();
        for (dim, size) in self.sizes_of(operand) {
            let Some(&padding) = config.get(dim) else {
                continue;
            };
            operand = self.builder(id).mask(operand, dim, size, value);
            let inner = padding.interior;
            // An empty array has no gaps.
            let one = self.builder(id).scalar_s32(1);
            let gaps = {
                let mut b = self.builder(id);
                let less = b.elementwise(HloOpcode::Subtract, &[size, one]);
                let zero = b.scalar_s32(0);
                b.elementwise(HloOpcode::Maximum, &[less, zero])
            };
            let gaps = self.affine(id, gaps, inner, 0)?;
            let wide = self.builder(id).plus(size, gaps);
            let offset = padding.edge_low.saturating_add(padding.edge_high);
            sizes.push((dim, self.affine(id, wide, 1, offset)?));
        }
        self.module.set_operands(id, &[operand, value]);
        self.set_sizes(id, sizes);
        Ok(())
    }

    /// Padding counts as the initial value, as what lies outside of the operand does.
    pub(crate) fn reduce_window(&mut self, id: InstructionId) -> Result<InstructionId> {
        let Some(window) = self.module.instruction(id).window().cloned() else {
            return Err(self.refuse(id, "without its window"));
        };
        let mut operands: Vec<InstructionId> = self.module.operand_ids(id).to_vec();
        let count = operands.len() / 2;
        let mut all: SmallVec<[(usize, usize, InstructionId); 4]> = SmallVec::new();
        for (k, &operand) in operands[..count].iter().enumerate() {
            all.extend(
                self.sizes_of(operand)
                    .iter()
                    .map(|&(dim, size)| (k, dim, size)),
            );
        }
        let mut sizes = Sizes::new();
        for (k, dim, size) in all {
            let Some(w) = window.0.get(dim) else {
                continue;
            };
            if w.is_trivial() {
                sizes.push((dim, size));
                continue;
            }
            if w.base_dilation != 1 || w.stride < 1 {
                return Err(self.refuse(id, "over a spread dimension of dynamic size"));
            }
            let init = operands[count + k];
            operands[k] = self.builder(id).mask(operands[k], dim, size, init);
            let reach = (w.size - 1).saturating_mul(w.window_dilation);
            let edges = w.padding_low.saturating_add(w.padding_high);
            // Places: (size + edges - reach - 1) / stride + 1, none where that is negative.
            let offset = edges.saturating_sub(reach).saturating_add(w.stride - 1);
            let room = self.affine(id, size, 1, offset)?;
            let stride = i32::try_from(w.stride).unwrap_or(i32::MAX);
            let mut b = self.builder(id);
            let stride = b.scalar_s32(stride);
            sizes.push((dim, b.elementwise(HloOpcode::Divide, &[room, stride])));
        }
        self.module.set_operands(id, &operands);
        Ok(self.keep_parts(id, vec![sizes; count]))
    }

    /// Whole dimensions keep their size; of others a part is taken, which is where it is.
    pub(crate) fn dynamic_slice(&mut self, id: InstructionId) -> Result<()> {
        let operands = self.module.operand_ids(id);
        if operands[1..].iter().any(|o| self.sizes.contains_key(o)) {
            return Err(self.refuse(id, "at indices of dynamic size"));
        }
        let source = self.dims(operands[0]);
        let sizes = self.sizes_of(operands[0]);
        let result = self.dims(id);
        let whole = sizes
            .into_iter()
            .filter(|&(dim, _)| result[dim] == source[dim]);
        let whole = whole.collect();
        self.set_sizes(id, whole);
        Ok(())
    }

    /// An update that covers a dimension gives it its size; of others the true elements are written.
    pub(crate) fn dynamic_update_slice(&mut self, id: InstructionId) -> Result<()> {
        let mut operands: SmallVec<[InstructionId; 8]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        let (whole, part) = (self.dims(operands[0]), self.dims(operands[1]));
        let mut sizes = self.sizes_of(operands[0]);
        let known = self.sizes_of(operands[1]);
        let is_covered = |&(dim, _): &(usize, InstructionId)| part[dim] == whole[dim];
        let (covers, within): (Sizes, Sizes) = known.into_iter().partition(is_covered);
        if !within.is_empty() {
            let mut b = self.builder(id);
            let mut read: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&operands[..1]);
            read.extend_from_slice(&operands[2..]);
            let lengths = b.ints(AttrKey::DynamicSliceSizes, &part);
            let ty = b.shape(operands[0]).element_type;
            let before = b.add_array(HloOpcode::DynamicSlice, ty, &part, &read, &[lengths]);
            for (dim, size) in within {
                operands[1] = b.replace_beyond(operands[1], dim, size, before);
            }
            self.module.set_operands(id, &operands);
        }
        sizes.extend(covers);
        self.set_sizes(id, sizes);
        Ok(())
    }

    /// Dimensions of the indices become dimensions of the result; of the operand's, whole ones do.
    pub(crate) fn gather(&mut self, id: InstructionId) -> Result<()> {
        let instruction = self.module.instruction(id);
        let list = |key| Dims::from_slice(instruction.ints(key));
        let offset = list(AttrKey::OffsetDims);
        let slice_sizes = list(AttrKey::SliceSizes);
        let mut dropped = list(AttrKey::CollapsedSliceDims);
        dropped.extend(list(AttrKey::OperandBatchingDims));
        let vector = instruction.int(AttrKey::IndexVectorDim);
        let [operand, indices] = *instruction.operand_ids() else {
            return Err(self.refuse(id, "without its operands"));
        };
        let vector = vector.unwrap_or(self.dims(indices).len() as i64);
        let rank = self.dims(id).len() as i64;
        let batch: Dims = (0..rank).filter(|d| !offset.contains(d)).collect();
        let mut sizes = self.batch_sizes(id, indices, vector, &batch)?;
        let source = self.dims(operand);
        let windows: Dims = (0..source.len() as i64)
            .filter(|d| !dropped.contains(d))
            .collect();
        for (dim, size) in self.sizes_of(operand) {
            if slice_sizes.get(dim) != source.get(dim) {
                // Part of it: clamping is to the bound, as everywhere.
                continue;
            }
            let at = windows.iter().position(|&w| w == dim as i64);
            if let Some(&to) = at.and_then(|at| offset.get(at)) {
                sizes.push((to as usize, size));
            }
        }
        self.set_sizes(id, sizes);
        Ok(())
    }

    /// Sizes of the indices' dimensions, where they are in the updates or the result.
    fn batch_sizes(
        &mut self,
        id: InstructionId,
        indices: InstructionId,
        vector: i64,
        batch: &[i64],
    ) -> Result<Sizes> {
        let mut sizes = Sizes::new();
        for (dim, size) in self.sizes_of(indices) {
            if dim as i64 == vector {
                return Err(self.refuse(id, "with index vectors of dynamic size"));
            }
            let at = dim - usize::from(dim as i64 > vector);
            if let Some(&to) = batch.get(at) {
                sizes.push((to as usize, size));
            }
        }
        Ok(sizes)
    }

    /// Indices among padding lie outside of the operand: nothing is written for them.
    pub(crate) fn scatter(&mut self, id: InstructionId) -> Result<InstructionId> {
        let instruction = self.module.instruction(id);
        let windows = Dims::from_slice(instruction.ints(AttrKey::UpdateWindowDims));
        let vector = instruction.int(AttrKey::IndexVectorDim);
        let mut operands: Vec<InstructionId> = instruction.operand_ids().to_vec();
        let count = operands.len() / 2;
        let indices = operands[count];
        let vector = vector.unwrap_or(self.dims(indices).len() as i64);
        let mut cut = self.sizes_of(indices);
        for &update in &operands[count + 1..] {
            let rank = self.dims(update).len() as i64;
            let batch: Dims = (0..rank).filter(|d| !windows.contains(d)).collect();
            for (dim, size) in self.sizes_of(update) {
                let Some(at) = batch.iter().position(|&b| b == dim as i64) else {
                    return Err(self.refuse(id, "of windows of dynamic size"));
                };
                let at = at + usize::from(at as i64 >= vector);
                cut.push((at, size));
            }
        }
        cut.sort_by_key(|&(dim, _)| dim);
        cut.dedup_by_key(|&mut (dim, _)| dim);
        if cut.iter().any(|&(dim, _)| dim as i64 == vector) {
            return Err(self.refuse(id, "with index vectors of dynamic size"));
        }
        if !cut.is_empty() {
            let mapped = self
                .module
                .instruction(id)
                .ints(AttrKey::ScatterDimsToOperandDims);
            if mapped.is_empty() {
                return Err(self.refuse(id, "without indices, of dynamic size"));
            }
            let mut b = self.builder(id);
            let ty = PrimitiveType::S64;
            let shape = b.shape(indices);
            let mut wide = if shape.element_type == ty {
                indices
            } else {
                b.add_array(HloOpcode::Convert, ty, &shape.dims, &[indices], &[])
            };
            let outside = b.scalar_s32(-1);
            let outside = b.add_array(HloOpcode::Convert, ty, &[], &[outside], &[]);
            for &(dim, size) in &cut {
                wide = b.mask(wide, dim, size, outside);
            }
            operands[count] = wide;
        }
        let sizes = operands[..count].iter().map(|&o| self.sizes_of(o));
        let sizes = sizes.collect();
        self.module.set_operands(id, &operands);
        Ok(self.keep_parts(id, sizes))
    }
}
