//! `select-updates`: what selects between an array that was updated and the array as it was, as `vmap` makes of branches and
//! loops, becomes part of the update.
//!
//! Applies to a `select` of two arrays that are made of one by a few updates (`dynamic-update-slice`, `scatter`), which
//! nobody else reads. Its truth values are a scalar or a broadcast; for a scatter, the dimensions along which they differ
//! are batching ones, and indices are computed. A slice is then selected from the update and what stands in its place, and
//! a scatter skips what is not selected, as its indices are moved outside. The updates are at most half of the array, which
//! a selection would copy and read as a whole.

use smallvec::SmallVec;

use super::gather_scatter::{become_one, dynamic_slice, scalar, shape_of};
use super::readers::{Readers, readers_of, replace_before};
use crate::module::{
    AttrKey, AttrValue, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef,
};
use crate::plan::cost::windows::{MAX_SELECTED, SELECTED_PART};
use crate::plan::faults::{self, Fault};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::scatter;
use crate::types::{ArrayShape, Dims, PrimitiveType as P};

/// Name by which it is switched off.
pub const NAME: &str = "select-updates";

/// Runs the pass on all computations; the number of selections that became updates. Before, if there are any, `decide` may
/// find out that some always take one side.
pub fn run(module: &mut HloModule, decide: impl FnOnce(&mut HloModule)) -> usize {
    let all: Vec<_> = module.computation_ids().collect();
    let is_any = |&computation: &ComputationId| {
        let instructions = &module.computation(computation).instructions;
        let readers = readers_of_updated(module, instructions);
        readers.is_some_and(|readers| {
            let mut ids = instructions.iter();
            ids.any(|&id| Selection::of(module, id, &readers).is_some())
        })
    };
    if !all.iter().any(is_any) {
        return 0;
    }
    decide(module);
    let mut changed = 0;
    for computation in all {
        let instructions = &module.computation(computation).instructions;
        let Some(readers) = readers_of_updated(module, instructions) else {
            continue;
        };
        changed += replace_before(module, computation, |module, id| {
            let selection = Selection::of(module, id, &readers);
            selection
                .map(|selection| selection.write(module, computation))
                .is_some()
        });
    }
    changed
}

/// Who reads what, if any of `instructions` changes an array.
fn readers_of_updated(module: &HloModule, instructions: &[InstructionId]) -> Option<Readers> {
    let mut ids = instructions.iter();
    let has_update = ids.any(|&id| is_update(module.instruction(id)));
    has_update.then(|| readers_of(module, instructions))
}

/// Whether it changes one array, at an index for each dimension or, as a scatter, at many.
fn is_update(instruction: InstructionRef<'_>) -> bool {
    let operands = instruction.operand_ids().len();
    let rank = || instruction.array_shape().map(ArrayShape::rank);
    let has_places = instruction.opcode() == HloOpcode::Scatter
        || rank().is_some_and(|rank| operands == 2 + rank);
    instruction.updated_operands().len() == 1 && has_places
}

type Operands = SmallVec<[InstructionId; 8]>;

/// Truth values that are the same along some dimensions of an array.
struct Mask {
    values: InstructionId,
    /// The dimension of the array that each of theirs is.
    dims: SmallVec<[usize; 4]>,
}

impl Mask {
    fn of(mask: InstructionRef<'_>) -> Option<Mask> {
        if mask.array_shape()?.rank() == 0 {
            return Some(Mask {
                values: mask.id,
                dims: SmallVec::new(),
            });
        }
        let dims = mask.ints(AttrKey::Dimensions).iter();
        (mask.opcode() == HloOpcode::Broadcast).then_some(())?;
        Some(Mask {
            values: mask.operand(0)?.id,
            dims: dims.map(|&dim| dim as usize).collect(),
        })
    }

    /// The values of the window that `update` overwrites, repeated to its sizes.
    fn of_window(
        &self,
        b: &mut Builder<'_>,
        update: &ArrayShape,
        starts: &[InstructionId],
    ) -> InstructionId {
        let sizes: Dims = self.dims.iter().map(|&dim| update.dims[dim]).collect();
        let starts: SmallVec<[_; 4]> = self.dims.iter().map(|&dim| starts[dim]).collect();
        let values = match b.shape(self.values).dims == sizes {
            true => self.values,
            false => dynamic_slice(b, self.values, &starts, &sizes),
        };
        repeated(b, values, &update.dims, &self.dims)
    }
}

/// `values` along the dimensions `along` of an array of the sizes `dims`.
fn repeated(
    b: &mut Builder<'_>,
    values: InstructionId,
    dims: &[i64],
    along: &[usize],
) -> InstructionId {
    let along: SmallVec<[i64; 4]> = along.iter().map(|&dim| dim as i64).collect();
    let along = b.ints(AttrKey::Dimensions, &along);
    b.add_array(HloOpcode::Broadcast, P::Pred, dims, &[values], &[along])
}

/// A selection between two arrays that are updates of one.
struct Selection {
    id: InstructionId,
    mask: Mask,
    /// The array before all updates.
    array: InstructionId,
    /// Updates in their order, and whether they happen where the mask is true.
    updates: Vec<(InstructionId, bool)>,
}

impl Selection {
    fn of(module: &HloModule, id: InstructionId, readers: &Readers) -> Option<Selection> {
        let select = module.instruction(id);
        let shape = select.array_shape().filter(|shape| shape.is_static())?;
        if select.opcode() != HloOpcode::Select || shape.rank() == 0 {
            return None;
        }
        let mask = Mask::of(select.operand(0)?)?;
        let [yes, no] = [1, 2].map(|k| history(module, select.operand_ids()[k], readers));
        // The updates of each side begin at the latest array that both come from.
        let array = *no.iter().find(|array| yes.contains(array))?;
        let own = |history: &[InstructionId], is_true: bool| {
            let end = history.iter().position(|&before| before == array);
            let updates = history[..end.unwrap_or(0)].iter().rev();
            updates.map(|&update| (update, is_true)).collect::<Vec<_>>()
        };
        let updates = [own(&yes, true), own(&no, false)].concat();
        let mut elements = 0i64;
        for &(update, _) in &updates {
            let instruction = module.instruction(update);
            let is_scatter = instruction.opcode() == HloOpcode::Scatter;
            elements = elements.checked_add(
                shape_of(module, update, if is_scatter { 2 } else { 1 })?.element_count()?,
            )?;
            if is_scatter {
                mask_of_indices(module, update, &mask)?;
            }
        }
        let is_small = elements <= shape.element_count()? / SELECTED_PART;
        (is_small && !updates.is_empty()).then_some(Selection {
            id,
            mask,
            array,
            updates,
        })
    }

    /// Makes the selection the last of the updates.
    fn write(&self, module: &mut HloModule, computation: ComputationId) {
        let mut array = self.array;
        for (at, &(update, is_true)) in self.updates.iter().enumerate() {
            let mut b = Builder {
                module,
                computation,
                like: update,
            };
            let data = b.module.instruction_data(update).clone();
            let operands = match data.opcode {
                HloOpcode::Scatter => self.scatter(&mut b, array, is_true),
                _ => self.slice(&mut b, array, is_true),
            };
            let mut attributes = b.module.attributes_of(update).to_vec();
            for attribute in &mut attributes {
                if attribute.key == AttrKey::IndicesAreSorted {
                    attribute.value = AttrValue::Bool(false);
                }
            }
            array = match at + 1 == self.updates.len() {
                true => {
                    become_one(b.module, self.id, data.opcode, &operands);
                    b.module.set_attributes(self.id, &attributes);
                    self.id
                }
                false => b.add(data.opcode, data.shape, &operands, &attributes, 0),
            };
        }
    }

    /// Operands of an update of a slice of `array` that leaves what is not selected.
    fn slice(&self, b: &mut Builder<'_>, array: InstructionId, is_true: bool) -> Operands {
        let mut operands = Operands::from_slice(b.module.operand_ids(b.like));
        let new = b.shape(operands[1]);
        let mask = self.mask.of_window(b, &new, &operands[2..]);
        let old = dynamic_slice(b, array, &operands[2..], &new.dims);
        operands[0] = array;
        operands[1] = chosen(b, mask, [operands[1], old], is_true);
        operands
    }

    /// Operands of a scatter into `array` whose windows are outside where they are not selected.
    fn scatter(&self, b: &mut Builder<'_>, array: InstructionId, is_true: bool) -> Operands {
        let mut operands = Operands::from_slice(b.module.operand_ids(b.like));
        let along = mask_of_indices(b.module, b.like, &self.mask).unwrap_or_default();
        let indices = b.shape(operands[1]);
        let mask = repeated(b, self.mask.values, &indices.dims, &along);
        // All bits set: -1, or the largest number.
        let outside = scalar(b, indices.element_type, -1);
        let outside = b.broadcast(outside, &indices.dims);
        operands[0] = array;
        operands[1] = chosen(b, mask, [operands[1], outside], is_true);
        operands
    }
}

/// The first of two arrays where the mask is `is_true`, the second elsewhere.
fn chosen(
    b: &mut Builder<'_>,
    mask: InstructionId,
    [new, old]: [InstructionId; 2],
    is_true: bool,
) -> InstructionId {
    let shape = b.shape(new);
    let (yes, no) = match faults::holds(Fault::SelectsOldUpdates, is_true) {
        true => (new, old),
        false => (old, new),
    };
    b.add_array(
        HloOpcode::Select,
        shape.element_type,
        &shape.dims,
        &[mask, yes, no],
        &[],
    )
}

/// An array, and before it what it was before each update of it that nobody but the next one reads: the latest first.
fn history(module: &HloModule, array: InstructionId, readers: &Readers) -> Vec<InstructionId> {
    let before = |&array: &InstructionId| {
        let instruction = module.instruction(array);
        let root = module.computation(instruction.computation()).root;
        let is_read_once = readers.get(&array).is_none_or(|readers| readers.len() == 1);
        (is_update(instruction) && is_read_once && root != Some(array))
            .then(|| instruction.operand_ids()[0])
    };
    std::iter::successors(Some(array), before)
        .take(MAX_SELECTED)
        .collect()
}

/// The dimension of the indices of a scatter that each dimension of a mask is; `None` where windows may reach over several of
/// its values, cannot be moved outside, or are at constant places.
fn mask_of_indices(
    module: &HloModule,
    update: InstructionId,
    mask: &Mask,
) -> Option<SmallVec<[usize; 4]>> {
    let op = scatter::plan(module.instruction(update)).ok()?;
    let indices = module.instruction(update).operand(1)?;
    // Windows at constant places become slices.
    let indices = indices
        .array_shape()
        .filter(|_| indices.opcode() != HloOpcode::Constant)?;
    let ty = indices.element_type;
    let is_moved =
        !op.map.components.is_empty() && (ty.is_signed_integral() || matches!(ty, P::U32 | P::U64));
    let along = mask.dims.iter().map(|&dim| {
        let mut batching = op.map.batching.iter();
        let &(_, batch) = batching.find(|&&(moved, _)| moved == dim)?;
        Some(batch + usize::from(batch >= op.map.index_vector_dim))
    });
    let along = along.collect::<Option<SmallVec<[usize; 4]>>>();
    along.filter(|along| is_moved && along.is_sorted())
}
