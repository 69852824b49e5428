//! `short-reductions`: a reduction of a few elements is the operations that fold them, each on all rows.
//!
//! Where points lie coordinate by coordinate in memory, a sum over the coordinates, and what its terms are computed of, becomes
//! operations on one coordinate each. These fuse with each other, with other reductions of the same values and with what
//! reads the results, so that no array of points is written in between. The folds keep their order, and so their bits.
//!
//! Applies to a `reduce` of one array by one operation over one dimension of at most [`MAX_SHORT`] elements. Its values are
//! computed element by element, or repeated, for such reductions alone, of arrays of which each part is runs of memory.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::readers::{Readers, readers_of, replace_before};
use crate::module::opcode::elementwise_classes;
use crate::module::{
    AttrKey, Attribute, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef, OpClass,
};
use crate::plan::cost::layouts::{MAX_SHORT, MIN_RUN};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::inline;
use crate::plan::ops::combiner::{Combiner, Shortcut};
use crate::types::{ArrayShape, Dims, PrimitiveType};
use hlorun_kernels::BinaryOp;

/// Name by which it is switched off.
pub const NAME: &str = "short-reductions";

/// Runs the pass on all computations; how many reductions were replaced.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let Some(plan) = Plan::of(module, computation) else {
            continue;
        };
        let mut parts = Parts::default();
        changed += replace_before(module, computation, |module, id| {
            let mut builder = Builder {
                module,
                computation,
                like: id,
            };
            if let Some(&dim) = plan.values.get(&id) {
                parts.of_value(&mut builder, id, dim);
            }
            let fold = plan.folds.get(&id);
            fold.inspect(|fold| parts.fold(&mut builder, id, fold))
                .is_some()
        });
        inline::remove_dead(module, computation);
    }
    changed
}

/// A reduction of a few elements.
struct Fold {
    dim: usize,
    opcode: HloOpcode,
}

impl Fold {
    fn of(module: &HloModule, id: InstructionId) -> Option<Fold> {
        let instruction = module.instruction(id);
        let (&[array, _], &[dim]) = (instruction.operand_ids(), instruction.dimensions()) else {
            return None;
        };
        let shape = module.instruction(array).array_shape()?;
        let ty = shape.element_type;
        // Sums of narrow floats are not rounded after each term.
        let is_plain = ty == PrimitiveType::Pred || (ty.size_bytes() >= 4 && !ty.is_complex());
        let dim = usize::try_from(dim).ok()?;
        let (size, rest) = (*shape.dims.get(dim)?, instruction.array_shape()?);
        let is_short = (1..=MAX_SHORT).contains(&size) && rest.element_count()? >= MIN_RUN;
        if instruction.opcode() != HloOpcode::Reduce || !is_plain || !is_short || !shape.is_static()
        {
            return None;
        }
        let combiner = Combiner::of(instruction, AttrKey::ToApply, 2, 1).ok()?;
        let opcode = match combiner.shortcut? {
            Shortcut::Binary(BinaryOp::Add) => HloOpcode::Add,
            Shortcut::Binary(BinaryOp::Multiply) => HloOpcode::Multiply,
            Shortcut::Binary(BinaryOp::Maximum) => HloOpcode::Maximum,
            Shortcut::Binary(BinaryOp::Minimum) => HloOpcode::Minimum,
            Shortcut::Binary(BinaryOp::And) => HloOpcode::And,
            Shortcut::Binary(BinaryOp::Or) => HloOpcode::Or,
            _ => return None,
        };
        Some(Fold { dim, opcode })
    }
}

/// What becomes parts.
struct Plan {
    folds: FxHashMap<InstructionId, Fold>,
    /// Values that are computed part by part, with the dimension of which each part has one element.
    values: FxHashMap<InstructionId, usize>,
}

impl Plan {
    fn of(module: &HloModule, computation: ComputationId) -> Option<Plan> {
        let instructions = &module.computation(computation).instructions;
        let folds = instructions.iter().copied();
        let folds = folds.filter_map(|id| Some((id, Fold::of(module, id)?)));
        let mut plan = Plan {
            folds: folds.collect(),
            values: FxHashMap::default(),
        };
        if plan.folds.is_empty() {
            return None;
        }
        let root = module.computation(computation).root;
        let readers = readers_of(module, instructions);
        // Without one reduction, what it shares with others has another reader.
        for _ in 0..MAX_ROUNDS {
            plan.find_values(module, instructions, (root, &readers));
            if !plan.drop_others(module, instructions) {
                return (!plan.folds.is_empty()).then_some(plan);
            }
        }
        None
    }

    /// Finds the values that are computed element by element for the reductions alone.
    fn find_values(
        &mut self,
        module: &HloModule,
        instructions: &[InstructionId],
        (root, readers): (Option<InstructionId>, &Readers),
    ) {
        self.values.clear();
        for &id in instructions.iter().rev() {
            let Some(readers) = readers.get(&id).filter(|_| Some(id) != root) else {
                continue;
            };
            let dim = |reader: &InstructionId| match self.folds.get(reader) {
                Some(fold) => Some(fold.dim),
                None => self.values.get(reader).copied(),
            };
            let mut dims = readers.iter().map(dim);
            let first = dims.next().flatten();
            if let Some(own) = first
                && dims.all(|dim| dim == first)
                && is_elementwise(module.instruction(id))
            {
                self.values.insert(id, own);
            }
        }
    }

    /// Drops the reductions of which some values are no parts that lie together; whether there are any.
    fn drop_others(&mut self, module: &HloModule, instructions: &[InstructionId]) -> bool {
        // Whether parts of what a value is computed of are runs of memory; `None` where one is not.
        let mut found: FxHashMap<InstructionId, Option<bool>> = FxHashMap::default();
        let mut others = Vec::new();
        for &id in instructions {
            let own = self.folds.get(&id).map(|fold| fold.dim);
            let Some(dim) = own.or_else(|| self.values.get(&id).copied()) else {
                continue;
            };
            let operands = module.operand_ids(id);
            let operands = if own.is_some() {
                &operands[..1]
            } else {
                operands
            };
            let of = |operand: &InstructionId| match found.get(operand) {
                Some(&known) => known,
                None => parts_are_runs(module.instruction(*operand), dim),
            };
            let mut all = operands.iter().map(of);
            let known = all.try_fold(false, |any, own| Some(any | own?));
            if own.is_none() {
                found.insert(id, known);
            } else if known != Some(true) {
                others.push(id);
            }
        }
        for id in &others {
            self.folds.remove(id);
        }
        !others.is_empty()
    }
}

/// Most times that reductions are dropped.
const MAX_ROUNDS: usize = 8;

/// Whether each element of an array is computed of one element of each operand, or of a number.
fn is_elementwise(instruction: InstructionRef<'_>) -> bool {
    let (Some(shape), elementwise_classes!()) =
        (instruction.array_shape(), instruction.opcode().class())
    else {
        return false;
    };
    let mut operands = (0..instruction.operand_ids().len()).map(|k| instruction.operand(k));
    shape.is_static()
        && !shape.dims.is_empty()
        && operands.all(|operand| {
            let own = operand.and_then(|operand| operand.array_shape());
            own.is_some_and(|own| own.dims == shape.dims || own.dims.is_empty())
        })
}

/// Whether the parts of a value, each with one element of `dim`, are runs of memory; `Some(false)` where they are repeated,
/// `None` where neither is so.
fn parts_are_runs(value: InstructionRef<'_>, dim: usize) -> Option<bool> {
    let shape = value.array_shape()?;
    if shape.dims.is_empty() {
        return Some(false);
    }
    if value.opcode() == HloOpcode::Broadcast {
        let operand = value.operand(0)?.array_shape()?;
        let at = value.dimensions().iter().position(|&to| to == dim as i64);
        return match at {
            Some(at) if operand.rank() > 1 => lies_outside(operand, at).then_some(false),
            _ => Some(false),
        };
    }
    lies_outside(shape, dim).then_some(true)
}

/// Whether there are runs of memory inside of a dimension.
fn lies_outside(shape: &ArrayShape, dim: usize) -> bool {
    let inside = |order: &mut dyn Iterator<Item = usize>| -> i64 {
        order
            .take_while(|&other| other != dim)
            .map(|other| shape.dims[other])
            .product()
    };
    let elements = match &shape.layout {
        Some(layout) => inside(&mut layout.minor_to_major.iter().map(|&dim| usize::from(dim))),
        None => inside(&mut (0..shape.rank()).rev()),
    };
    shape.is_static() && elements >= MIN_RUN
}

/// The parts of values, by the dimension of which each has one element.
#[derive(Default)]
struct Parts(FxHashMap<(InstructionId, usize), SmallVec<[InstructionId; 4]>>);

impl Parts {
    /// Computes the parts of a value.
    fn of_value(&mut self, b: &mut Builder<'_>, id: InstructionId, dim: usize) {
        let (shape, opcode) = (b.shape(id), b.module.instruction_data(id).opcode);
        let attributes: Vec<Attribute> = b.module.instruction(id).attributes().to_vec();
        let operands: SmallVec<[InstructionId; 4]> = b.module.operand_ids(id).into();
        let dims = without(&shape.dims, dim);
        let mut parts = SmallVec::new();
        for part in 0..shape.dims[dim] as usize {
            let operands = operands
                .iter()
                .map(|&operand| self.part(b, operand, (dim, part)));
            let operands: SmallVec<[InstructionId; 4]> = operands.collect();
            parts.push(b.add_array(opcode, shape.element_type, &dims, &operands, &attributes));
        }
        self.0.insert((id, dim), parts);
    }

    /// Makes the reduction `id` the last operation of its fold.
    fn fold(&mut self, b: &mut Builder<'_>, id: InstructionId, fold: &Fold) {
        let &[array, init] = b.module.operand_ids(id) else {
            return;
        };
        let shape = b.shape(array);
        let (ty, dims) = (shape.element_type, without(&shape.dims, fold.dim));
        let mut folded = b.broadcast(init, &dims);
        let count = shape.dims[fold.dim] as usize;
        for part in 0..count {
            let next = self.part(b, array, (fold.dim, part));
            if part + 1 < count {
                folded = b.add_array(fold.opcode, ty, &dims, &[folded, next], &[]);
                continue;
            }
            b.module.set_operands(id, &[folded, next]);
            b.module.set_attributes(id, &[]);
            b.module.instruction_data_mut(id).opcode = fold.opcode;
        }
    }

    /// A part of a value; a number is the same in each.
    fn part(
        &mut self,
        b: &mut Builder<'_>,
        id: InstructionId,
        (dim, part): (usize, usize),
    ) -> InstructionId {
        let shape = b.shape(id);
        if shape.dims.is_empty() {
            return id;
        }
        if let Some(parts) = self.0.get(&(id, dim)) {
            return parts[part];
        }
        let parts = (0..shape.dims[dim])
            .map(|part| cut(b, id, dim, part))
            .collect();
        let parts: &SmallVec<[InstructionId; 4]> = self.0.entry((id, dim)).or_insert(parts);
        parts[part]
    }
}

/// The elements of `id` at `part` of a dimension, without that dimension.
fn cut(b: &mut Builder<'_>, id: InstructionId, dim: usize, part: i64) -> InstructionId {
    let (dims, value) = (without(&b.shape(id).dims, dim), b.module.instruction(id));
    let operand = value.operand_ids().first().copied();
    let Some(operand) = operand.filter(|_| value.opcode() == HloOpcode::Broadcast) else {
        let slice = b.slice(id, dim, part, part + 1);
        return b.reshape(slice, &dims);
    };
    let along = value.dimensions().to_vec();
    let kept = along.iter().filter(|&&to| to != dim as i64);
    let kept: Dims = kept.map(|&to| to - i64::from(to > dim as i64)).collect();
    match along.iter().position(|&to| to == dim as i64) {
        Some(at) => {
            let slice = b.slice(operand, at, part, part + 1);
            let inner = without(&b.shape(operand).dims, at);
            let inner = b.reshape(slice, &inner);
            b.along(inner, &dims, &kept)
        }
        None => b.along(operand, &dims, &kept),
    }
}

fn without(dims: &[i64], dim: usize) -> Dims {
    let others = dims.iter().enumerate().filter(|&(at, _)| at != dim);
    others.map(|(_, &size)| size).collect()
}
