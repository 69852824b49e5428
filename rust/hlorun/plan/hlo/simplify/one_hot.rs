//! `one-hot-updates`: inside a loop, a `select` that changes what lies at one index of a large array becomes a
//! `dynamic-update-slice` there.
//!
//! Applies where the truth values compare the index along a dimension with a scalar, or do so along several dimensions, and
//! one side is an element of a tuple or an update. Few operations that nobody else reads compute the new values: only their
//! slice is computed. An index that is outside changes nothing.

use smallvec::SmallVec;

use super::gather_scatter::{
    become_one, combined, dynamic_slice, repeated_computations, scalar, shape_of,
};
use super::readers::{Readers, readers_of, replace_before};
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::cost::windows::{MAX_PLACES, MAX_SLICED, MIN_ONE_HOT};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::types::{Dims, PrimitiveType as P};

/// Name by which it is switched off.
pub const NAME: &str = "one-hot-updates";

/// Runs the pass on all loops; the number of selections that became updates.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    let repeated = repeated_computations(module);
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        let is_select =
            |&id: &InstructionId| module.instruction_data(id).opcode == HloOpcode::Select;
        if !repeated.contains(&computation) || !instructions.iter().any(is_select) {
            continue;
        }
        let readers = readers_of(module, instructions);
        changed += replace_before(module, computation, |module, id| {
            let update = Update::of(module, id);
            update
                .and_then(|update| update.write(module, computation, &readers))
                .is_some()
        });
    }
    changed
}

/// A selection that changes what lies at one index.
struct Update {
    id: InstructionId,
    /// What is changed, and what stands in its place there.
    arrays: [InstructionId; 2],
    /// Dimensions of the array, and the scalar that is the index along each.
    places: SmallVec<[(usize, InstructionId); 2]>,
    index_type: P,
    /// Sizes of the part.
    sizes: Dims,
}

impl Update {
    fn of(module: &HloModule, id: InstructionId) -> Option<Update> {
        let select = module.instruction(id);
        let shape = select.array_shape().filter(|shape| shape.is_static())?;
        if select.opcode() != HloOpcode::Select || shape.rank() == 0 {
            return None;
        }
        let mut places = SmallVec::new();
        let is_at = places_of(select.operand(0)?, &mut places)?;
        let &[_, yes, no] = select.operand_ids() else {
            return None;
        };
        let arrays = if is_at { [no, yes] } else { [yes, no] };
        let lies_in_memory = matches!(
            module.instruction_data(arrays[0]).opcode,
            HloOpcode::GetTupleElement | HloOpcode::DynamicUpdateSlice | HloOpcode::Scatter
        );
        let index_type = module
            .instruction(places.first()?.1)
            .array_shape()?
            .element_type;
        let mut sizes = shape.dims.clone();
        for &(dim, place) in &places {
            let ty = module.instruction(place).array_shape()?.element_type;
            if ty != index_type || std::mem::replace(&mut sizes[dim], 1) > i64::from(i32::MAX) {
                return None;
            }
        }
        let distinct = places
            .iter()
            .enumerate()
            .all(|(k, (dim, _))| places[..k].iter().all(|(other, _)| other != dim));
        let part = sizes.iter().product::<i64>().checked_mul(MIN_ONE_HOT)?;
        let is_large = part <= shape.element_count()? && part > 0;
        (lies_in_memory && distinct && is_large).then_some(Update {
            id,
            arrays,
            places,
            index_type,
            sizes,
        })
    }

    /// Makes the selection an update, where the part [can be computed alone](Self::has_part).
    fn write(
        &self,
        module: &mut HloModule,
        computation: ComputationId,
        readers: &Readers,
    ) -> Option<()> {
        let dims = shape_of(module, self.id, 1)?.dims;
        let [array, other] = self.arrays;
        let mut left = MAX_SLICED;
        if !self.has_part(module, other, readers, &mut left) {
            return None;
        }
        let mut b = Builder {
            module,
            computation,
            like: self.id,
        };
        let zero = scalar(&mut b, self.index_type, 0);
        let mut starts: SmallVec<[InstructionId; 8]> = SmallVec::from_elem(zero, dims.len());
        for &(dim, place) in &self.places {
            starts[dim] = place;
        }
        let new = self.part(&mut b, other, &starts);
        let old = dynamic_slice(&mut b, array, &starts, &self.sizes);
        let moved: SmallVec<[usize; 2]> = self.places.iter().map(|&(dim, _)| dim).collect();
        let new = match faults::holds(Fault::UpdatesOutside, false) {
            true => new,
            false => combined(&mut b, None, [old, new], &starts, &moved, &dims),
        };
        let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[array, new]);
        operands.extend(starts);
        become_one(b.module, self.id, HloOpcode::DynamicUpdateSlice, &operands);
        Some(())
    }

    /// Whether a part of an array can be computed alone: few elementwise operations, each with one reader, lead to it.
    fn has_part(
        &self,
        module: &HloModule,
        array: InstructionId,
        readers: &Readers,
        left: &mut usize,
    ) -> bool {
        let instruction = module.instruction(array);
        let is_scalar = instruction
            .array_shape()
            .is_some_and(|shape| shape.rank() == 0);
        if is_scalar || !is_computed(instruction) {
            return true;
        }
        if *left == 0 || readers.get(&array).is_none_or(|readers| readers.len() != 1) {
            return false;
        }
        *left -= 1;
        let mut operands = instruction.operand_ids().iter();
        operands.all(|&operand| self.has_part(module, operand, readers, left))
    }

    /// The part of `array` that begins at `starts`.
    fn part(
        &self,
        b: &mut Builder<'_>,
        array: InstructionId,
        starts: &[InstructionId],
    ) -> InstructionId {
        let instruction = b.module.instruction(array);
        let data = b.module.instruction_data(array).clone();
        if is_computed(instruction) {
            let ty = b.shape(array).element_type;
            let operands: SmallVec<[InstructionId; 4]> =
                SmallVec::from_slice(b.module.operand_ids(array));
            let parts: SmallVec<[InstructionId; 4]> = operands
                .into_iter()
                .map(|operand| match b.shape(operand).rank() {
                    0 => operand,
                    _ => self.part(b, operand, starts),
                })
                .collect();
            let attributes = b.module.attributes_of(array).to_vec();
            return b.add_array(data.opcode, ty, &self.sizes, &parts, &attributes);
        }
        if data.opcode != HloOpcode::Broadcast {
            return dynamic_slice(b, array, starts, &self.sizes);
        }
        let ty = b.shape(array).element_type;
        let attributes = b.module.attributes_of(array).to_vec();
        let along = b
            .module
            .instruction(array)
            .ints(AttrKey::Dimensions)
            .to_vec();
        let mut values = b.module.operand_ids(array)[0];
        let own: Dims = along.iter().map(|&dim| self.sizes[dim as usize]).collect();
        if b.shape(values).dims != own {
            let starts: SmallVec<[_; 4]> = along.iter().map(|&dim| starts[dim as usize]).collect();
            values = dynamic_slice(b, values, &starts, &own);
        }
        b.add_array(data.opcode, ty, &self.sizes, &[values], &attributes)
    }
}

/// Whether an array is computed element by element.
fn is_computed(instruction: InstructionRef<'_>) -> bool {
    matches!(instruction.opcode().class(), elementwise_classes!())
}

/// Adds the dimensions along which a mask compares the index with scalars, and these; `false` where it is true
/// everywhere else instead.
fn places_of(
    mask: InstructionRef<'_>,
    places: &mut SmallVec<[(usize, InstructionId); 2]>,
) -> Option<bool> {
    if mask.opcode() == HloOpcode::And {
        // One operand is a comparison, so that each `and` inside of another adds one.
        let [a, b] = [mask.operand(0)?, mask.operand(1)?];
        let (one, rest) = if b.opcode() == HloOpcode::And {
            (a, b)
        } else {
            (b, a)
        };
        if places.len() == MAX_PLACES || one.opcode() == HloOpcode::And {
            return None;
        }
        let is_at = [places_of(one, places)?, places_of(rest, places)?];
        return (is_at == [true, true]).then_some(true);
    }
    if mask.opcode() != HloOpcode::Compare {
        return None;
    }
    let is_at = match mask.enumeration(AttrKey::Direction)?.as_ref() {
        "EQ" => true,
        "NE" => false,
        _ => return None,
    };
    let [a, b] = [mask.operand(0)?, mask.operand(1)?];
    let place = |counts: InstructionRef<'_>, index: InstructionRef<'_>| {
        let dim = counted(counts)?;
        let index = index
            .operand(0)
            .filter(|_| index.opcode() == HloOpcode::Broadcast)?;
        let shape = index.array_shape().filter(|shape| shape.rank() == 0)?;
        matches!(shape.element_type, P::S32 | P::S64 | P::U32).then_some((dim, index.id))
    };
    places.push(place(a, b).or_else(|| place(b, a))?);
    Some(is_at)
}

/// The dimension along which an array holds the index.
fn counted(array: InstructionRef<'_>) -> Option<usize> {
    let dim = |iota: InstructionRef<'_>| usize::try_from(iota.int(AttrKey::IotaDimension)?).ok();
    match array.opcode() {
        HloOpcode::Iota => dim(array),
        HloOpcode::Broadcast => {
            let iota = array
                .operand(0)
                .filter(|iota| iota.opcode() == HloOpcode::Iota)?;
            let along = array.ints(AttrKey::Dimensions);
            along.get(dim(iota)?).map(|&dim| dim as usize)
        }
        _ => None,
    }
}
