//! `gather-scatter-simplifier`: a `gather` or `scatter` of one window, as a slice at a place that is computed.
//!
//! Applies where the indices name exactly one window. A gather clamps where it starts, as
//! `dynamic-slice` does. A scatter that writes its update, or adds it, or combines it by another
//! plain operation, is a `dynamic-update-slice`; where any of the window is outside it changes
//! nothing, so that the elements that are there are written again.

use smallvec::SmallVec;

use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, Id, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::ops::combiner::Shortcut;
use crate::plan::ops::{gather, scatter};
use crate::types::{ArrayShape, Dims, Literal, LiteralValue, PrimitiveType};
use hlorun_kernels::BinaryOp;

/// Name by which it is switched off.
pub const NAME: &str = "gather-scatter-simplifier";

/// Runs the pass on all computations; how many gathers and scatters it replaced.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let is_one = |id: &InstructionId| {
            let opcode = module.instruction_data(*id).opcode;
            matches!(opcode, HloOpcode::Gather | HloOpcode::Scatter)
        };
        if !module
            .computation(computation)
            .instructions
            .iter()
            .any(is_one)
        {
            continue;
        }
        // New instructions go before the one they stand for.
        let old = std::mem::take(&mut module.computation_mut(computation).instructions);
        let mut all = Vec::with_capacity(old.len());
        for id in old {
            let done = match module.instruction_data(id).opcode {
                HloOpcode::Gather => replace_gather(module, computation, id),
                HloOpcode::Scatter => replace_scatter(module, computation, id),
                _ => None,
            };
            changed += usize::from(done.is_some());
            all.append(&mut module.computation_mut(computation).instructions);
            all.push(id);
        }
        module.computation_mut(computation).instructions = all;
    }
    changed
}

/// The array shape of operand `k`, when it is static.
fn shape_of(module: &HloModule, id: InstructionId, k: usize) -> Option<ArrayShape> {
    let operand = module.instruction(id).operand(k)?;
    let shape = operand.array_shape()?;
    shape.is_static().then(|| shape.clone())
}

/// One start per dimension of the operand: components of the indices, or 0.
fn starts(
    builder: &mut Builder<'_>,
    indices: InstructionId,
    components: &[usize],
    rank: usize,
) -> SmallVec<[InstructionId; 6]> {
    let ty = builder.shape(indices).element_type;
    let vector = builder.reshape(indices, &[components.len() as i64]);
    let zero = scalar(builder, ty, 0);
    let mut starts: SmallVec<[InstructionId; 6]> = SmallVec::from_elem(zero, rank);
    for (k, &dim) in components.iter().enumerate() {
        let part = builder.slice(vector, 0, k as i64, k as i64 + 1);
        starts[dim] = builder.reshape(part, &[]);
    }
    starts
}

/// A constant of an integer type that has the value.
fn scalar(builder: &mut Builder<'_>, ty: PrimitiveType, value: i64) -> InstructionId {
    let shape = ArrayShape::new(ty, &[]);
    let bytes = Box::from(&value.to_le_bytes()[..ty.size_bytes()]);
    let literal = builder.module.add_literal(Literal {
        shape: shape.clone(),
        value: LiteralValue::Array(bytes),
    });
    let shape = builder.module.shapes_mut().array(shape);
    builder.add(HloOpcode::Constant, shape, &[], &[], literal.index() as u32)
}

/// `sizes` elements of `operand` from `starts` on.
fn dynamic_slice(
    builder: &mut Builder<'_>,
    operand: InstructionId,
    starts: &[InstructionId],
    sizes: &[i64],
) -> InstructionId {
    let ty = builder.shape(operand).element_type;
    let mut operands: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[operand]);
    operands.extend_from_slice(starts);
    let attribute = builder.ints(AttrKey::DynamicSliceSizes, sizes);
    builder.add_array(HloOpcode::DynamicSlice, ty, sizes, &operands, &[attribute])
}

/// Makes instruction `id` another one.
fn become_one(
    module: &mut HloModule,
    id: InstructionId,
    opcode: HloOpcode,
    operands: &[InstructionId],
) {
    module.set_operands(id, operands);
    module.set_attributes(id, &[]);
    let data = module.instruction_data_mut(id);
    (data.opcode, data.immediate) = (opcode, 0);
}

fn replace_gather(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = gather::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let indices = shape_of(module, id, 1)?;
    let result = module.instruction(id).array_shape()?;
    if !result.is_static()
        || !plan.map.batching.is_empty()
        || indices.element_count()? != plan.map.components.len() as i64
        || operand.rank() == 0
        || plan.slice_sizes.iter().product::<i64>() != result.element_count()?
        || plan.slice_sizes.contains(&0)
        || !plan.offset_dims.is_sorted()
        || !has_distinct(&plan.map.components)
    {
        return None;
    }
    let operands: SmallVec<[InstructionId; 4]> = SmallVec::from_slice(module.operand_ids(id));
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let starts = starts(
        &mut builder,
        operands[1],
        &plan.map.components,
        operand.rank(),
    );
    let slice = dynamic_slice(&mut builder, operands[0], &starts, &plan.slice_sizes);
    // Dimensions of the window keep their order, and all others have one element.
    become_one(module, id, HloOpcode::Reshape, &[slice]);
    Some(())
}

fn has_distinct(components: &[usize]) -> bool {
    components
        .iter()
        .enumerate()
        .all(|(k, dim)| !components[..k].contains(dim))
}

/// The array operation that does what a scatter's computation does.
fn combination(shortcut: Shortcut) -> Option<Option<HloOpcode>> {
    Some(match shortcut {
        Shortcut::Second => None,
        Shortcut::Binary(BinaryOp::Add) => Some(HloOpcode::Add),
        Shortcut::Binary(BinaryOp::Multiply) => Some(HloOpcode::Multiply),
        Shortcut::Binary(BinaryOp::Maximum) => Some(HloOpcode::Maximum),
        Shortcut::Binary(BinaryOp::Minimum) => Some(HloOpcode::Minimum),
        Shortcut::Binary(BinaryOp::And) => Some(HloOpcode::And),
        Shortcut::Binary(BinaryOp::Or) => Some(HloOpcode::Or),
        _ => return None,
    })
}

fn replace_scatter(
    module: &mut HloModule,
    computation: ComputationId,
    id: InstructionId,
) -> Option<()> {
    let plan = scatter::plan(module.instruction(id)).ok()?;
    let operand = shape_of(module, id, 0)?;
    let indices = shape_of(module, id, 1)?;
    let updates = shape_of(module, id, 2)?;
    module.instruction(id).array_shape()?;
    let combine = combination(plan.combiner.shortcut?)?;
    let ty = indices.element_type;
    if plan.count != 1
        || !plan.map.batching.is_empty()
        || indices.element_count()? != plan.map.components.len() as i64
        || operand.rank() == 0
        || updates.element_count()? == 0
        || !plan.update_window_dims.is_sorted()
        || updates.element_type != operand.element_type
        || !matches!(
            ty,
            PrimitiveType::S32 | PrimitiveType::S64 | PrimitiveType::U32
        )
        || !has_distinct(&plan.map.components)
    {
        return None;
    }
    let mut window: Dims = operand.dims.iter().map(|_| 1).collect();
    for (&from, &to) in plan.update_window_dims.iter().zip(&plan.map.window) {
        window[to] = updates.dims[from];
    }
    // Indices without components may stand for many windows.
    if window.iter().product::<i64>() != updates.element_count()? {
        return None;
    }
    // Starts beyond which some of the window is outside.
    let ends: Dims = operand
        .dims
        .iter()
        .zip(&window)
        .map(|(&dim, &size)| dim - size + 1)
        .collect();
    let most = match ty {
        PrimitiveType::S32 => i64::from(i32::MAX),
        PrimitiveType::U32 => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    if ends.iter().any(|&end| !(1..=most).contains(&end)) {
        return None;
    }
    let operands: SmallVec<[InstructionId; 4]> = SmallVec::from_slice(module.operand_ids(id));
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let starts = starts(
        &mut builder,
        operands[1],
        &plan.map.components,
        operand.rank(),
    );
    let new = builder.reshape(operands[2], &window);
    let old = dynamic_slice(&mut builder, operands[0], &starts, &window);
    let new = match combine {
        None => new,
        Some(opcode) => builder.add_array(opcode, operand.element_type, &window, &[old, new], &[]),
    };
    let mut is_inside = None;
    for &dim in &plan.map.components {
        let end = scalar(&mut builder, ty, ends[dim]);
        let mut own = builder.less(starts[dim], end);
        if ty != PrimitiveType::U32 {
            let before = scalar(&mut builder, ty, -1);
            let not_before = builder.less(before, starts[dim]);
            own = and(&mut builder, own, not_before);
        }
        is_inside = Some(match is_inside {
            Some(others) => and(&mut builder, others, own),
            None => own,
        });
    }
    let part = match is_inside {
        Some(is_inside) => {
            let mask = builder.broadcast(is_inside, &window);
            let ty = operand.element_type;
            builder.add_array(HloOpcode::Select, ty, &window, &[mask, new, old], &[])
        }
        None => new,
    };
    let mut all: SmallVec<[InstructionId; 8]> = SmallVec::from_slice(&[operands[0], part]);
    all.extend(starts);
    become_one(module, id, HloOpcode::DynamicUpdateSlice, &all);
    Some(())
}

fn and(builder: &mut Builder<'_>, a: InstructionId, b: InstructionId) -> InstructionId {
    builder.add_array(HloOpcode::And, PrimitiveType::Pred, &[], &[a, b], &[])
}
