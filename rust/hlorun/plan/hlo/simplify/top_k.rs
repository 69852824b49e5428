//! `sort-top-k`: a sort of which only the first few of each row are read, as a `topk`.
//!
//! Applies to a sort along the last dimension, where everything that reads it is a slice of a row's
//! beginning. Its comparator compares one key: an integer, or a float by the total order; any float if
//! the sort is not stable. `topk` of the keys says which are first, equal ones in their order as in a
//! stable sort. What is read of an operand is gathered from there; the places of an iota are the answer
//! itself.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::gather_scatter::become_one;
use super::readers::{Readers, replace_each};
use crate::error::Result;
use crate::module::{
    AttrKey, AttrValue, Attribute, HloModule, HloOpcode, InstructionId, InstructionRef,
};
use crate::plan::cost::top_k::MIN_RATIO;
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::legalize::map::{is_liftable, lifted};
use crate::plan::ops::sort_keys::{SortKey, expressions};
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// Name by which it is switched off.
pub const NAME: &str = "sort-top-k";

/// Runs the pass on all computations; the number of sorts that were replaced.
pub fn run(module: &mut HloModule) -> Result<usize> {
    let is_sort = |module: &HloModule, id| module.instruction_data(id).opcode == HloOpcode::Sort;
    replace_each(module, is_sort, |module, id, readers| {
        let sort = Sort::of(module, id, readers);
        Ok(sort.is_some_and(|sort| sort.replace(module).is_some()))
    })
}

/// A sort that can be replaced.
struct Sort {
    id: InstructionId,
    /// The instruction of the comparator that computes the key.
    expression: InstructionId,
    key: SortKey,
    /// Most elements of a row that are read.
    k: i64,
    /// The slices, and which result each is of.
    slices: Vec<(InstructionId, usize)>,
}

impl Sort {
    fn of(module: &HloModule, id: InstructionId, users: &Readers) -> Option<Sort> {
        let sort = module.instruction(id);
        let shape = sort.operand(0)?.array_shape()?;
        let last = shape.rank().checked_sub(1)?;
        let is_static =
            |operand: InstructionRef<'_>| operand.array_shape().is_some_and(ArrayShape::is_static);
        if sort.dimensions() != [last as i64] || !sort.operands().all(is_static) {
            return None;
        }
        let computation = module.instruction_data(id).computation;
        let root = module.computation(computation).root;
        let mut slices = Vec::new();
        for (result, index) in results(module, id, users)? {
            if Some(result) == root {
                return None;
            }
            let readers = users.get(&result).into_iter().flatten();
            slices.extend(readers.map(|&reader| (reader, index)));
        }
        let read = slices
            .iter()
            .map(|&(slice, _)| beginning(module, slice, shape));
        let k = read.collect::<Option<Vec<i64>>>()?.into_iter().max()?;
        if k == 0
            || k.checked_mul(MIN_RATIO)? > shape.dims[last]
            || i32::try_from(shape.dims[last]).is_err()
        {
            return None;
        }
        let comparator = sort.computation_attribute(AttrKey::ToApply)?;
        let (expression, key) = match expressions(module, comparator)?[..] {
            [one] => one,
            _ => return None,
        };
        let is_exact = key.total_order || !key.element_type.is_floating();
        let is_stable = sort.bool(AttrKey::IsStable).unwrap_or(false);
        let keeps_ties = faults::holds(Fault::ReordersTies, is_exact || !is_stable);
        keeps_ties.then_some(Sort {
            id,
            expression,
            key,
            k,
            slices,
        })
    }

    /// Makes the slices read a `topk`.
    fn replace(&self, module: &mut HloModule) -> Option<()> {
        let operands: SmallVec<[InstructionId; 4]> =
            SmallVec::from_slice(module.operand_ids(self.id));
        let computation = module.instruction_data(self.id).computation;
        let needed = needed(module, self.expression)?;
        let mut builder = Builder {
            module,
            computation,
            like: self.id,
        };
        let b = &mut builder;
        // Left and right of every operand, of which the key reads the left ones.
        let sides: Vec<InstructionId> = operands.iter().flat_map(|&x| [x, x]).collect();
        let keys = lifted(b, &sides, &needed, self.expression)?;
        let mut dims = b.shape(operands[0]).dims;
        *dims.last_mut()? = self.k;
        let places = self.top_k(b, keys, &dims);
        let mut results: FxHashMap<usize, InstructionId> = FxHashMap::default();
        for &(slice, index) in &self.slices {
            let all = *results
                .entry(index)
                .or_insert_with(|| taken(b, operands[index], places, &dims));
            let k = *b.shape(slice).dims.last()?;
            let part = b.slice(all, dims.len() - 1, 0, k);
            become_one(b.module, slice, HloOpcode::Reshape, &[part]);
        }
        Some(())
    }

    /// Where the first of each row of `keys` are.
    fn top_k(&self, b: &mut Builder<'_>, keys: InstructionId, dims: &[i64]) -> InstructionId {
        let ty = self.key.element_type;
        let parts = [ty, PrimitiveType::S32]
            .map(|ty| b.module.shapes_mut().array(ArrayShape::new(ty, dims)));
        let shape = b.module.shapes_mut().tuple(&parts);
        let attributes = [
            Attribute {
                key: AttrKey::K,
                value: AttrValue::Int(self.k),
            },
            Attribute {
                key: AttrKey::Largest,
                value: AttrValue::Bool(self.key.descending),
            },
        ];
        let both = b.add(HloOpcode::TopK, shape, &[keys], &attributes, 0);
        b.get_tuple_element(both, 1)
    }
}

/// The results of a sort that are read, each with the number of its operand.
fn results(
    module: &HloModule,
    sort: InstructionId,
    users: &Readers,
) -> Option<Vec<(InstructionId, usize)>> {
    if module.operand_ids(sort).len() == 1 && module.instruction(sort).array_shape().is_some() {
        return Some(vec![(sort, 0)]);
    }
    let root = module
        .computation(module.instruction_data(sort).computation)
        .root;
    let readers = users.get(&sort)?.iter();
    let elements = readers.map(|&id| {
        let data = module.instruction_data(id);
        let is_element = data.opcode == HloOpcode::GetTupleElement && root != Some(sort);
        is_element.then_some((id, data.immediate as usize))
    });
    elements.collect()
}

/// How many elements of each row a slice reads, if they are the first and all rows are read.
fn beginning(module: &HloModule, slice: InstructionId, whole: &ArrayShape) -> Option<i64> {
    let slice = module.instruction(slice);
    if slice.opcode() != HloOpcode::Slice {
        return None;
    }
    let Some(AttrValue::Slice(dims)) = slice.attribute(AttrKey::Slice) else {
        return None;
    };
    let (last, rest) = dims.split_last()?;
    let is_all = rest
        .iter()
        .zip(&whole.dims)
        .all(|(dim, &size)| (dim.start, dim.limit, dim.stride) == (0, size, 1));
    (is_all && last.start == 0 && last.stride == 1).then_some(last.limit)
}

/// The instructions of a comparator that `expression` needs, in order; `None` if one does not mean the same on whole
/// arrays.
fn needed(module: &HloModule, expression: InstructionId) -> Option<Vec<InstructionId>> {
    let mut open = vec![expression];
    let mut found: Vec<InstructionId> = Vec::new();
    while let Some(id) = open.pop() {
        if !found.contains(&id) {
            let instruction = module.instruction(id);
            if !is_liftable(instruction) {
                return None;
            }
            found.push(id);
            open.extend_from_slice(instruction.operand_ids());
        }
    }
    let computation = module.instruction_data(expression).computation;
    let mut all = module.computation(computation).instructions.clone();
    all.retain(|id| found.contains(id));
    Some(all)
}

/// The elements of `operand` at `places` of each row.
fn taken(
    b: &mut Builder<'_>,
    operand: InstructionId,
    places: InstructionId,
    dims: &Dims,
) -> InstructionId {
    let shape = b.shape(operand);
    let ty = shape.element_type;
    let last = shape.rank() - 1;
    if is_iota(b.module.instruction(operand), last) {
        return match ty {
            PrimitiveType::S32 => places,
            _ => b.add_array(HloOpcode::Convert, ty, dims, &[places], &[]),
        };
    }
    let outer: Vec<i64> = (0..last as i64).collect();
    let attributes = [
        b.ints(AttrKey::OffsetDims, &[]),
        b.ints(AttrKey::CollapsedSliceDims, &[last as i64]),
        b.ints(AttrKey::StartIndexMap, &[last as i64]),
        b.ints(AttrKey::OperandBatchingDims, &outer),
        b.ints(AttrKey::StartIndicesBatchingDims, &outer),
        Attribute {
            key: AttrKey::IndexVectorDim,
            value: AttrValue::Int(shape.rank() as i64),
        },
        b.ints(AttrKey::SliceSizes, &vec![1; shape.rank()]),
    ];
    b.add_array(HloOpcode::Gather, ty, dims, &[operand, places], &attributes)
}

/// Whether every element says where it is along the last dimension.
fn is_iota(instruction: InstructionRef<'_>, last: usize) -> bool {
    match instruction.opcode() {
        HloOpcode::Iota => instruction.int(AttrKey::IotaDimension) == Some(last as i64),
        HloOpcode::Broadcast => {
            instruction.dimensions() == [last as i64]
                && instruction.operand(0).is_some_and(|line| is_iota(line, 0))
        }
        _ => false,
    }
}
