//! Bounded dynamic dimensions on arrays of their full bounds.
//!
//! In: a flattened module. Out: the same without `set-dimension-size`, `dynamic-reshape`, and
//! `get-dimension-size` of a dynamic dimension. The size of a dynamic dimension is an `s32` scalar
//! of its own; elements beyond it are padding with any value. An operation whose result would depend
//! on padding reads an operand in which padding is its neutral element. What has no rule here is
//! refused by name. A result of the module that is smaller than its shape comes with its sizes:
//! the entry then returns a tuple of its result and one `s32` for each [`DynamicSize`].

mod elementwise;
mod reshape;
mod sort;
mod windows;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::error::{HloError, Result};
use crate::library;
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, Id, InstructionId, InstructionRef,
    OpClass,
};
use crate::plan::error::unsupported;
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::hlo::pass::DynamicSize;
use crate::plan::limits::MAX_LEAVES;
use crate::types::{Dims, PrimitiveType};

/// Sizes of the dynamic dimensions of one array: dimension and scalar, ascending.
type Sizes = SmallVec<[(usize, InstructionId); 2]>;

/// Rewrites every computation that sets a size; returns the sizes that follow the entry's result.
///
/// `calls` gets each instruction of the text that another one stands for. Who observes the run, if it is to be observed,
/// sees zeros behind the elements of an array.
pub fn run(
    module: &mut HloModule,
    calls: &mut Vec<(InstructionId, InstructionId)>,
    observe: bool,
) -> Result<Vec<DynamicSize>> {
    let entry = module.entry_computation().map(|(id, _)| id);
    let mut results = Vec::new();
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let sets = |id: &InstructionId| {
            let instruction = module.instruction(*id);
            conversion(instruction).is_some()
                || instruction.opcode().class() == OpClass::DynamicShape
                    && (instruction.opcode() != HloOpcode::GetDimensionSize
                        || instruction
                            .operand(0)
                            .and_then(|operand| operand.array_shape())
                            .is_some_and(|shape| !shape.is_static()))
        };
        if module
            .computation(computation)
            .instructions
            .iter()
            .any(sets)
        {
            let found = Padding {
                module,
                computation,
                calls,
                observe,
                sizes: FxHashMap::default(),
                tuples: FxHashSet::default(),
            }
            .rewrite(entry == Some(computation))?;
            results.extend(found);
        }
    }
    Ok(results)
}

/// The two calls by which XLA's compilers pass between an array and its sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conversion {
    /// A dynamic array in; a tuple of its elements and the size of each dimension out.
    PadToStatic,
    /// The reverse.
    SliceToDynamic,
}

fn conversion(instruction: InstructionRef<'_>) -> Option<Conversion> {
    if instruction.opcode() != HloOpcode::CustomCall {
        return None;
    }
    match instruction.custom_call_target()?.as_ref() {
        library::PAD_TO_STATIC => Some(Conversion::PadToStatic),
        library::SLICE_TO_DYNAMIC => Some(Conversion::SliceToDynamic),
        _ => None,
    }
}

struct Padding<'m> {
    module: &'m mut HloModule,
    computation: ComputationId,
    /// Each instruction of the text that another one stands for.
    calls: &'m mut Vec<(InstructionId, InstructionId)>,
    observe: bool,
    sizes: FxHashMap<InstructionId, Sizes>,
    /// Tuples with an array of dynamic size somewhere.
    tuples: FxHashSet<InstructionId>,
}

impl Padding<'_> {
    fn rewrite(mut self, is_entry: bool) -> Result<Vec<DynamicSize>> {
        let mut results = Vec::new();
        let old = std::mem::take(&mut self.module.computation_mut(self.computation).instructions);
        let mut replaced: FxHashMap<InstructionId, InstructionId> = FxHashMap::default();
        for id in old {
            for k in 0..self.module.operand_ids(id).len() {
                if let Some(&new) = replaced.get(&self.module.operand_ids(id)[k]) {
                    self.module.operand_ids_mut(id)[k] = new;
                }
            }
            let first = self.module.instruction_count();
            let new = self.instruction(id)?;
            let shown = self.shown(id, new);
            // Parts of an instruction of the text have no text of their own.
            for part in first..self.module.instruction_count() {
                let part = InstructionId::from_index(part);
                self.module.instruction_data_mut(part).text.len = 0;
            }
            if shown != id {
                self.module.instruction_data_mut(id).text.len = 0;
                self.calls.push((id, shown));
            }
            if new != id {
                replaced.insert(id, new);
            }
        }
        for call in &mut *self.calls {
            call.1 = replaced.get(&call.1).copied().unwrap_or(call.1);
        }
        let root = self.module.computation(self.computation).root;
        if let Some(root) = root {
            let mut root = replaced.get(&root).copied().unwrap_or(root);
            if self.sizes.contains_key(&root) || self.tuples.contains(&root) {
                if !is_entry {
                    return Err(self.refuse(root, "returns an array of dynamic size"));
                }
                let mut elements = vec![root];
                for (size, scalar) in self.result_sizes(root)? {
                    results.push(size);
                    elements.push(scalar);
                }
                root = self.builder(root).tuple(&elements);
                self.restate_result(root);
            }
            self.module.computation_mut(self.computation).root = Some(root);
        }
        if !self.observe {
            inline::remove_dead(self.module, self.computation);
        }
        Ok(results)
    }

    /// What an observer of `id` is shown, of which `new` has the value.
    fn shown(&mut self, id: InstructionId, new: InstructionId) -> InstructionId {
        let mut shown = new;
        if self.observe {
            for (dim, size) in self.sizes_of(new) {
                let mut b = self.builder(id);
                let ty = b.shape(new).element_type;
                let zero = b.zero(ty);
                shown = b.mask(shown, dim, size, zero);
            }
        }
        shown
    }

    /// Lets the header speak of the entry's new result, whose first part is the old one.
    fn restate_result(&mut self, root: InstructionId) {
        let shape = self.module.instruction_data(root).shape;
        let config = &mut self.module.config;
        if let Some(layout) = &mut config.entry_computation_layout {
            layout.result = shape;
        }
        for alias in &mut config.input_output_alias {
            alias.output.0.insert(0, 0);
        }
    }

    /// Every dynamic size of a result, array by array.
    fn result_sizes(&self, root: InstructionId) -> Result<Vec<(DynamicSize, InstructionId)>> {
        let shapes = self.module.shapes();
        let mut found = Vec::new();
        let mut leaf = 0;
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if self.tuples.contains(&id) {
                stack.extend(self.module.operand_ids(id).iter().rev());
                continue;
            }
            for (dim, scalar) in self.sizes_of(id) {
                found.push((DynamicSize { leaf, dim }, scalar));
            }
            let shape = self.module.instruction(id).shape_id();
            let leaves = shapes.leaves(shape, MAX_LEAVES).unwrap_or_default();
            // Tokens hold no array.
            leaf += leaves
                .iter()
                .filter(|leaf| shapes.get(leaf.1).as_array().is_some())
                .count();
            if leaf > MAX_LEAVES {
                return Err(self.refuse(id, "of too many arrays of dynamic size"));
            }
        }
        Ok(found)
    }

    fn refuse(&self, id: InstructionId, what: &str) -> HloError {
        let instruction = self.module.instruction(id);
        let text = format!("{} {what}", instruction.opcode_name());
        unsupported(instruction, text)
    }

    fn builder(&mut self, like: InstructionId) -> Builder<'_> {
        Builder {
            module: self.module,
            computation: self.computation,
            like,
        }
    }

    fn keep(&mut self, id: InstructionId) -> InstructionId {
        let instructions = &mut self.module.computation_mut(self.computation).instructions;
        instructions.push(id);
        id
    }

    fn sizes_of(&self, id: InstructionId) -> Sizes {
        self.sizes.get(&id).cloned().unwrap_or_default()
    }

    fn set_sizes(&mut self, id: InstructionId, mut sizes: Sizes) {
        // Of several sizes of a dimension the last one counts, as in XLA.
        sizes.reverse();
        sizes.sort_by_key(|&(dim, _)| dim);
        sizes.dedup_by_key(|&mut (dim, _)| dim);
        if sizes.is_empty() {
            self.sizes.remove(&id);
        } else {
            self.sizes.insert(id, sizes);
        }
    }

    fn dims(&self, id: InstructionId) -> Dims {
        let shape = self.module.instruction(id).array_shape();
        shape.map(|shape| shape.dims.clone()).unwrap_or_default()
    }

    /// Size of a dimension, a constant where it is not dynamic.
    fn size(
        &mut self,
        like: InstructionId,
        id: InstructionId,
        dim: usize,
    ) -> Result<InstructionId> {
        if let Some(&(_, size)) = self.sizes_of(id).iter().find(|(d, _)| *d == dim) {
            return Ok(size);
        }
        let bound = self.dims(id).get(dim).copied();
        let bound = bound.and_then(|bound| i32::try_from(bound).ok());
        let bound = bound.ok_or_else(|| self.refuse(like, "of a size beyond s32"))?;
        Ok(self.builder(like).scalar_s32(bound))
    }

    /// The instruction that stands for `id` from here on.
    fn instruction(&mut self, id: InstructionId) -> Result<InstructionId> {
        let opcode = self.module.instruction_data(id).opcode;
        match opcode {
            HloOpcode::SetDimensionSize => return self.set_dimension_size(id),
            HloOpcode::GetDimensionSize => {
                let operand = self.module.operand_ids(id)[0];
                let dim = self.dimension(id)?;
                return self.size(id, operand, dim);
            }
            HloOpcode::DynamicReshape => return self.dynamic_reshape(id),
            _ => {}
        }
        if let Some(conversion) = conversion(self.module.instruction(id)) {
            return self.convert(id, conversion);
        }
        let operands: SmallVec<[InstructionId; 4]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        if operands.iter().any(|o| self.tuples.contains(o)) {
            return self.of_tuple(id, operands[0]);
        }
        if !operands.iter().any(|o| self.sizes.contains_key(o)) {
            return Ok(self.keep(id));
        }
        let first = self.sizes_of(operands[0]);
        match opcode {
            HloOpcode::Tuple => {
                self.tuples.insert(id);
            }
            HloOpcode::Copy => self.set_sizes(id, first),
            HloOpcode::DynamicUpdateSlice => self.dynamic_update_slice(id)?,
            HloOpcode::Pad => self.pad(id)?,
            HloOpcode::ReduceWindow => return self.reduce_window(id),
            HloOpcode::DynamicSlice => self.dynamic_slice(id)?,
            HloOpcode::Gather => self.gather(id)?,
            HloOpcode::Scatter => return self.scatter(id),
            HloOpcode::Sort => return self.sort(id),
            HloOpcode::Broadcast => self.broadcast(id, first),
            HloOpcode::Transpose => self.transpose(id, first),
            HloOpcode::Reshape => return self.reshape(id),
            HloOpcode::Slice => self.slice(id, first)?,
            HloOpcode::Reverse => return self.reverse(id),
            HloOpcode::Concatenate => return self.concatenate(id),
            HloOpcode::Reduce => return self.reduce(id),
            HloOpcode::Dot => self.dot(id),
            _ if matches!(opcode.class(), elementwise_classes!()) => {
                self.elementwise(id);
            }
            _ => return Err(self.refuse(id, "of arrays of dynamic size")),
        }
        Ok(self.keep(id))
    }

    /// An instruction whose operand is a tuple of arrays of dynamic size.
    fn of_tuple(&mut self, id: InstructionId, tuple: InstructionId) -> Result<InstructionId> {
        let instruction = self.module.instruction(id);
        match (instruction.opcode(), instruction.tuple_index()) {
            (HloOpcode::GetTupleElement, Some(index)) => {
                let element = self.module.operand_ids(tuple).get(index).copied();
                element.ok_or_else(|| self.refuse(id, "of no element"))
            }
            (HloOpcode::Tuple, _) => {
                self.tuples.insert(id);
                Ok(self.keep(id))
            }
            _ => Err(self.refuse(id, "of arrays of dynamic size")),
        }
    }

    fn broadcast(&mut self, id: InstructionId, sizes: Sizes) {
        let listed = self.module.instruction(id).dimensions();
        let moved = sizes.iter().filter_map(|&(dim, size)| {
            let to = usize::try_from(*listed.get(dim)?).ok()?;
            Some((to, size))
        });
        self.set_sizes(id, moved.collect());
    }

    fn transpose(&mut self, id: InstructionId, sizes: Sizes) {
        let listed = self.module.instruction(id).dimensions();
        let moved = listed.iter().enumerate().filter_map(|(to, &from)| {
            let found = sizes.iter().find(|(dim, _)| *dim as i64 == from)?;
            Some((to, found.1))
        });
        self.set_sizes(id, moved.collect());
    }

    fn dimension(&self, id: InstructionId) -> Result<usize> {
        let dims = self.module.instruction(id).dimensions();
        let dim = dims.first().and_then(|&dim| usize::try_from(dim).ok());
        dim.ok_or_else(|| self.refuse(id, "without a dimension"))
    }

    fn set_dimension_size(&mut self, id: InstructionId) -> Result<InstructionId> {
        let [operand, size] = *self.module.operand_ids(id) else {
            return Err(self.refuse(id, "without its operands"));
        };
        let dim = self.dimension(id)?;
        let bound = self.dims(id).get(dim).copied();
        let mut sizes = self.sizes_of(operand);
        sizes.retain(|(d, _)| *d != dim);
        let literal = self.module.instruction(size).literal();
        let fixed = literal
            .and_then(|literal| literal.bytes())
            .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
            .map(|bytes| i64::from(i32::from_le_bytes(bytes)));
        if fixed.is_none() || fixed != bound {
            sizes.push((dim, size));
        }
        // A copy: one array may have several sizes, each of its own instruction.
        let shape = self.module.instruction_data(id).shape;
        let copy = self
            .builder(id)
            .add(HloOpcode::Copy, shape, &[operand], &[], 0);
        self.set_sizes(copy, sizes);
        Ok(copy)
    }

    fn convert(&mut self, id: InstructionId, conversion: Conversion) -> Result<InstructionId> {
        let operands: SmallVec<[InstructionId; 4]> =
            SmallVec::from_slice(self.module.operand_ids(id));
        let Some((&array, given)) = operands.split_first() else {
            return Err(self.refuse(id, "without operands"));
        };
        let rank = self.dims(array).len();
        if conversion == Conversion::PadToStatic {
            // A copy: of the tuple's element nobody may think that it has sizes of its own.
            let mut elements = vec![self.copied(id, array)];
            for dim in 0..rank {
                elements.push(self.size(id, array, dim)?);
            }
            return Ok(self.builder(id).tuple(&elements));
        }
        let shape = self.module.instruction(id).array_shape();
        let is_dynamic: SmallVec<[bool; 6]> = (0..rank)
            .map(|dim| shape.is_some_and(|shape| shape.is_dynamic_dimension(dim)))
            .collect();
        let copy = self.copied(id, array);
        let sizes = given.iter().copied().enumerate();
        let sizes = sizes.filter(|&(dim, _)| is_dynamic[dim]).collect();
        self.set_sizes(copy, sizes);
        Ok(copy)
    }

    /// A copy of `operand`, of full size.
    fn copied(&mut self, like: InstructionId, operand: InstructionId) -> InstructionId {
        let mut b = self.builder(like);
        let shape = b.shape(operand);
        let ty = shape.element_type;
        b.add_array(HloOpcode::Copy, ty, &shape.dims, &[operand], &[])
    }

    fn slice(&mut self, id: InstructionId, sizes: Sizes) -> Result<()> {
        let source = self.dims(self.module.operand_ids(id)[0]);
        let Some(AttrValue::Slice(slices)) = self.module.instruction(id).attribute(AttrKey::Slice)
        else {
            return Err(self.refuse(id, "without its limits"));
        };
        let whole = |dim: usize| {
            let slice = slices.get(dim);
            slice.is_some_and(|s| s.start == 0 && s.stride == 1 && s.limit == source[dim])
        };
        // A part is of fixed size: what it holds is the caller's to know.
        let kept = sizes.into_iter().filter(|&(dim, _)| whole(dim)).collect();
        self.set_sizes(id, kept);
        Ok(())
    }

    /// The reversed array ends with its first element; it is moved so that its padding comes last.
    fn reverse(&mut self, id: InstructionId) -> Result<InstructionId> {
        let operand = self.module.operand_ids(id)[0];
        let sizes = self.sizes_of(operand);
        let reversed: Dims = Dims::from_slice(self.module.instruction(id).dimensions());
        let bounds = self.dims(id);
        let mut result = self.keep(id);
        for &(dim, size) in &sizes {
            if !reversed.contains(&(dim as i64)) {
                continue;
            }
            let mut b = self.builder(id);
            let bound = i32::try_from(bounds[dim]).unwrap_or(i32::MAX);
            let bound = b.scalar_s32(bound);
            let start = b.elementwise(HloOpcode::Subtract, &[bound, size]);
            let ty = b.shape(result).element_type;
            let mut wide = bounds.clone();
            wide[dim] = wide[dim].saturating_mul(2);
            let zeros = b.zeros(ty, &wide);
            let zero = b.zero(PrimitiveType::S32);
            let padded = b.set_window(zeros, result, dim, zero);
            result = b.window(padded, dim, start, bounds[dim]);
        }
        self.set_sizes(result, sizes);
        Ok(result)
    }

    /// Each operand overwrites the padding of the one before.
    fn concatenate(&mut self, id: InstructionId) -> Result<InstructionId> {
        let operands: Vec<InstructionId> = self.module.operand_ids(id).to_vec();
        let dim = self.dimension(id)?;
        let mut sizes: Sizes = SmallVec::new();
        let mut along = false;
        for &operand in &operands {
            for (d, size) in self.sizes_of(operand) {
                along |= d == dim;
                if d != dim {
                    sizes.push((d, size));
                }
            }
        }
        if !along {
            self.set_sizes(id, sizes);
            return Ok(self.keep(id));
        }
        let dims = self.dims(id);
        let ty = self.builder(id).shape(id).element_type;
        let mut result = self.builder(id).zeros(ty, &dims);
        let mut offset = self.builder(id).scalar_s32(0);
        for &operand in &operands {
            let size = self.size(id, operand, dim)?;
            let mut b = self.builder(id);
            result = b.set_window(result, operand, dim, offset);
            offset = b.elementwise(HloOpcode::Add, &[offset, size]);
        }
        sizes.push((dim, offset));
        self.set_sizes(result, sizes);
        Ok(result)
    }

    /// Padding is the initial value along what is reduced.
    fn reduce(&mut self, id: InstructionId) -> Result<InstructionId> {
        let mut operands: Vec<InstructionId> = self.module.operand_ids(id).to_vec();
        let reduced: Dims = Dims::from_slice(self.module.instruction(id).dimensions());
        let count = operands.len() / 2;
        let mut kept: Sizes = SmallVec::new();
        for k in 0..count {
            for (dim, size) in self.sizes_of(operands[k]) {
                if reduced.contains(&(dim as i64)) {
                    let init = operands[count + k];
                    operands[k] = self.builder(id).mask(operands[k], dim, size, init);
                } else {
                    let below = reduced.iter().filter(|&&r| r < dim as i64).count();
                    kept.push((dim - below, size));
                }
            }
        }
        self.module.set_operands(id, &operands);
        Ok(self.keep_parts(id, vec![kept; count]))
    }

    /// An instruction with one result or several, of such sizes; returns what stands for it.
    fn keep_parts(&mut self, id: InstructionId, sizes: Vec<Sizes>) -> InstructionId {
        self.keep(id);
        if self.module.instruction(id).array_shape().is_some() {
            self.set_sizes(id, sizes.into_iter().next().unwrap_or_default());
            return id;
        }
        if sizes.iter().all(|sizes| sizes.is_empty()) {
            return id;
        }
        let mut parts = Vec::with_capacity(sizes.len());
        for (index, sizes) in sizes.into_iter().enumerate() {
            let part = self.builder(id).get_tuple_element(id, index);
            self.set_sizes(part, sizes);
            parts.push(part);
        }
        let tuple = self.builder(id).tuple(&parts);
        self.tuples.insert(tuple);
        tuple
    }

    /// Padding is zero along what is contracted, on both sides: it may be infinite on one.
    fn dot(&mut self, id: InstructionId) {
        let instruction = self.module.instruction(id);
        let list = |key| Dims::from_slice(instruction.ints(key));
        let sides = [
            (
                list(AttrKey::LhsBatchDims),
                list(AttrKey::LhsContractingDims),
            ),
            (
                list(AttrKey::RhsBatchDims),
                list(AttrKey::RhsContractingDims),
            ),
        ];
        let mut operands: SmallVec<[InstructionId; 3]> =
            SmallVec::from_slice(instruction.operand_ids());
        let mut sizes: Sizes = SmallVec::new();
        let mut at = sides[0].0.len();
        let mut cut: Vec<(usize, InstructionId)> = Vec::new();
        for (k, (batch, contracting)) in sides.iter().enumerate() {
            let known = self.sizes_of(operands[k]);
            let find = |dim: i64| known.iter().find(|(d, _)| *d as i64 == dim).map(|f| f.1);
            for (to, &dim) in batch.iter().enumerate() {
                sizes.extend(find(dim).map(|size| (to, size)));
            }
            for dim in 0..self.dims(operands[k]).len() as i64 {
                if !batch.contains(&dim) && !contracting.contains(&dim) {
                    sizes.extend(find(dim).map(|size| (at, size)));
                    at += 1;
                }
            }
            for (pair, &dim) in contracting.iter().enumerate() {
                cut.extend(find(dim).map(|size| (pair, size)));
            }
        }
        for (k, (_, contracting)) in sides.iter().enumerate() {
            for &(pair, size) in &cut {
                let Some(dim) = contracting.get(pair).and_then(|&d| usize::try_from(d).ok()) else {
                    continue;
                };
                let mut b = self.builder(id);
                let ty = b.shape(operands[k]).element_type;
                let zero = b.zero(ty);
                operands[k] = b.mask(operands[k], dim, size, zero);
            }
        }
        self.module.set_operands(id, &operands);
        self.set_sizes(id, sizes);
    }
}
