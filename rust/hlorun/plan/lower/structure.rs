//! `concatenate` and `pad`: pieces stored into a larger array; `dynamic-update-slice` is in [`super::updates`].
//!
//! A piece whose cluster is its own is computed right where it belongs; others are copied.

use super::analysis::ClusterId;
use super::analysis::is_done;
use super::{Lowering, Scope, Value, views};
use crate::error::{HloError, Result};
use crate::module::{AttrKey, AttrValue, InstructionRef};
use crate::plan::cost::padding::{MAX_PARTS, MIN_BOX, MIN_PADDED};
use crate::plan::spmd::collective::CollectiveStartThunk;
use crate::plan::thunk::ThunkKind;
use crate::plan::view::ArrayView;
use crate::types::Dims;

impl<'m> Lowering<'m> {
    /// Computes or copies operand `k` of the instruction at `at` into `destination`.
    pub(super) fn store_piece(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
        k: usize,
        destination: ArrayView,
    ) -> Result<()> {
        match (
            self.piece_cluster(scope, at, instruction, k),
            instruction.operand(k),
        ) {
            (Some(cluster), Some(operand)) => {
                let order = scope.analysis.orders[at].clone();
                self.loop_into(scope, operand, cluster, &order, destination)
            }
            _ => {
                let source = self.array_operand(scope, instruction, k)?;
                self.copy(scope, instruction.id, source, destination);
                Ok(())
            }
        }
    }

    /// The cluster that computes operand `k` in place, if it is not stored by itself.
    pub(super) fn piece_cluster(
        &self,
        scope: &Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
        k: usize,
    ) -> Option<ClusterId> {
        let cluster = *scope.analysis.sites.get(&(at as u32, k as u32))?;
        let operand = *scope
            .analysis
            .position
            .get(instruction.operand_ids().get(k)?)?;
        (scope.analysis.clusters[operand as usize] == Some(cluster)).then_some(cluster)
    }

    pub(super) fn concatenate(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let shape = views::array_shape(instruction)?;
        let dim = match instruction.dimensions() {
            [dim] => *dim as usize,
            _ => return Err(HloError::execution("concatenate without its dimension")),
        };
        let order = scope.analysis.orders[at].clone();
        let result = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        let ones: Dims = shape.dims.iter().map(|_| 1).collect();
        let mut starts: Dims = shape.dims.iter().map(|_| 0).collect();
        for k in 0..instruction.operand_ids().len() {
            let Some(operand) = instruction.operand(k) else {
                continue;
            };
            let dims = views::array_shape(operand)?.dims.clone();
            let piece = result.slice(&starts, &ones, &dims);
            starts[dim] += dims[dim];
            self.store_piece(scope, at, instruction, k, piece)?;
        }
        Ok(result)
    }

    pub(super) fn pad(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let shape = views::array_shape(instruction)?;
        let Some(AttrValue::Padding(padding)) = instruction.attribute(AttrKey::Padding) else {
            return Err(HloError::execution("pad without padding=…"));
        };
        let operand = instruction
            .operand(0)
            .ok_or_else(|| HloError::execution("pad without operand"))?;
        let dims = views::array_shape(operand)?.dims.clone();
        let order = scope.analysis.orders[at].clone();
        let result = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        let value = self
            .array_operand(scope, instruction, 1)?
            .broadcast(&shape.dims, &[]);
        // Positions of the operand's elements in the result: low + i * (interior + 1).
        let rank = dims.len();
        let (mut first, mut kept): (Dims, Dims) = (Dims::new(), Dims::new());
        let (mut starts, mut steps): (Dims, Dims) = (Dims::new(), Dims::new());
        for dim in 0..rank {
            let step = padding[dim].interior + 1;
            let low = padding[dim].edge_low;
            let begin = if low < 0 { -low.div_euclid(step) } else { 0 };
            let room = shape.dims[dim] - 1 - low;
            let last = if room < 0 {
                -1
            } else {
                (room / step).min(dims[dim] - 1)
            };
            first.push(begin);
            kept.push((last - begin + 1).max(0));
            starts.push(low + begin * step);
            steps.push(step);
        }
        let ones: Dims = dims.iter().map(|_| 1).collect();
        for (start, size) in padded_parts(&shape.dims, &starts, &steps, &kept) {
            let to = result.slice(&start, &ones, &size);
            let value = value.slice(&start, &ones, &size);
            self.copy(scope, instruction.id, value, to);
        }
        if kept.contains(&0) {
            return Ok(result);
        }
        let destination = result.slice(&starts, &steps, &kept);
        if kept == dims {
            self.store_piece(scope, at, instruction, 0, destination)?;
        } else {
            let source = self
                .array_operand(scope, instruction, 0)?
                .slice(&first, &ones, &kept);
            self.copy(scope, instruction.id, source, destination);
        }
        Ok(result)
    }

    /// The value of operand `k` as leaves.
    pub(super) fn operand_leaves(
        &self,
        scope: &Scope<'_>,
        instruction: InstructionRef<'_>,
    ) -> Result<Vec<ArrayView>> {
        let mut leaves = Vec::new();
        for k in 0..instruction.operand_ids().len() {
            super::collect_leaves(&self.operand(scope, instruction, k)?, &mut leaves);
        }
        Ok(leaves)
    }

    /// A collective: the same thunk whatever number of replicas meets, and none where every device
    /// is alone and its operands are its results.
    pub(super) fn collective(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        use crate::module::HloOpcode as H;
        if is_done(instruction.opcode()) {
            let value = self.operand(scope, instruction, 0)?;
            let start = instruction.operand_ids().first();
            if let Some(thunk) = start.and_then(|start| scope.started.remove(start)) {
                scope.push(instruction.id, ThunkKind::Collective(Box::new(thunk)));
            }
            return Ok(value);
        }
        let inputs = self.operand_leaves(scope, instruction)?;
        let arguments = inputs.clone();
        // The start of an asynchronous gather or permute carries its operands too; its value here
        // is what its done returns.
        let mut shape = instruction.shape_id();
        if matches!(
            instruction.opcode(),
            H::AllGatherStart | H::CollectivePermuteStart
        ) && let Some(parts) = self.module.shapes().get(shape).as_tuple()
            && let Some(&result) = parts.get(1)
        {
            shape = result;
        }
        let mut outputs = Vec::new();
        let value = self.allocate_value(instruction, shape, &mut outputs)?;
        let devices = crate::plan::spmd::groups::Devices {
            replicas: self.options.replicas.max(1),
            partitions: self.options.partitions.max(1),
        };
        let mut thunk = crate::plan::spmd::collective::plan(
            self.module,
            instruction,
            devices,
            inputs,
            outputs,
        )?;
        if thunk.is_identity() {
            let mut arguments = arguments.into_iter().map(Value::Array);
            return Ok(match value {
                Value::Tuple(_) => Value::Tuple(arguments.collect()),
                _ => arguments.next().unwrap_or(Value::Nothing),
            });
        }
        if scope.with_done.contains(&instruction.id) {
            thunk.is_started = thunk.can_start_early();
            if thunk.is_started {
                let collective = Box::new(thunk.clone());
                scope.push(
                    instruction.id,
                    ThunkKind::CollectiveStart(CollectiveStartThunk { collective }),
                );
            }
            scope.started.insert(instruction.id, thunk);
        } else {
            scope.push(instruction.id, ThunkKind::Collective(Box::new(thunk)));
        }
        Ok(value)
    }
}

/// Start and size of the parts of a padded array of sizes `dims` to fill before `kept` elements of the operand go to
/// `starts`, `steps` apart: the parts around them where they are a large box, nothing where they are all, and else
/// the whole array.
fn padded_parts(dims: &Dims, starts: &Dims, steps: &Dims, kept: &Dims) -> Vec<(Dims, Dims)> {
    let count = |sizes: &Dims| sizes.iter().product::<i64>();
    let all: (Dims, Dims) = (dims.iter().map(|_| 0).collect(), dims.clone());
    if kept == dims {
        return Vec::new();
    }
    let is_box = kept
        .iter()
        .zip(steps)
        .all(|(&kept, &step)| step == 1 || kept == 1);
    if !is_box || count(kept).saturating_mul(MIN_BOX) < count(dims) || count(dims) < MIN_PADDED {
        return vec![all];
    }
    let mut parts = Vec::new();
    let (mut start, mut size) = all.clone();
    for dim in 0..dims.len() {
        let end = starts[dim] + kept[dim];
        for (first, last) in [(0, starts[dim]), (end, dims[dim])] {
            if first < last {
                (start[dim], size[dim]) = (first, last - first);
                parts.push((start.clone(), size.clone()));
            }
        }
        (start[dim], size[dim]) = (starts[dim], kept[dim]);
    }
    match parts.len() <= MAX_PARTS {
        true => parts,
        false => vec![all],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_around_a_box_are_all_but_the_box() {
        let cases: [([i64; 3], [i64; 3], [i64; 3]); 4] = [
            ([16, 20, 30], [1, 2, 0], [15, 17, 30]),
            ([16, 20, 30], [0, 0, 5], [16, 20, 25]),
            ([16, 20, 30], [3, 1, 1], [13, 18, 28]),
            ([16, 20, 30], [2, 1, 1], [12, 18, 28]),
        ];
        for (dims, starts, kept) in cases {
            let [dims, starts, kept] = [dims, starts, kept].map(|x| Dims::from_slice(&x));
            let steps = Dims::from_slice(&[1, 1, 1]);
            let parts = padded_parts(&dims, &starts, &steps, &kept);
            assert!(parts.len() <= MAX_PARTS);
            let inside = |at: &[i64], start: &Dims, size: &Dims| {
                (0..3).all(|d| (start[d]..start[d] + size[d]).contains(&at[d]))
            };
            for i in 0..dims[0] * dims[1] * dims[2] {
                let at = [i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]];
                let filled = parts
                    .iter()
                    .filter(|(start, size)| inside(&at, start, size));
                let is_around = !inside(&at, &starts, &kept);
                assert_eq!(filled.count(), usize::from(is_around), "{at:?}");
            }
        }
    }

    #[test]
    fn around_a_small_box_or_one_with_gaps_everything_is_filled() {
        let dims = Dims::from_slice(&[100, 100]);
        let all = vec![(Dims::from_slice(&[0, 0]), dims.clone())];
        let parts = |starts: [i64; 2], steps: [i64; 2], kept: [i64; 2]| {
            let [starts, steps, kept] = [starts, steps, kept].map(|x| Dims::from_slice(&x));
            padded_parts(&dims, &starts, &steps, &kept)
        };
        assert_eq!(parts([0, 0], [1, 1], [100, 40]), all);
        assert_eq!(parts([0, 0], [1, 2], [100, 50]), all);
        assert_eq!(parts([0, 0], [1, 1], [0, 100]), all);
        assert_eq!(parts([0, 0], [1, 1], [100, 100]), vec![]);
    }
}
