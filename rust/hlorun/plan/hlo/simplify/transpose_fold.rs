//! `transpose-fold`: a product whose result is transposed, as the product the other way round.
//!
//! Applies to `transpose(dot(A, B))` where nothing else reads the product and the permutation only
//! exchanges the free dimensions of `A` with those of `B`: it is `dot(B, A)`. The sums are the same,
//! and the passes on products see one where the text has two instructions.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::module::{AttrKey, Attribute, HloModule, HloOpcode, InstructionId};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::product::others;

/// Runs the pass on all computations; the number of products that were turned round.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let ids = module.computation(computation).instructions.clone();
        let opcode = |id: &InstructionId| module.instruction_data(*id).opcode;
        if !ids.iter().any(|id| opcode(id) == HloOpcode::Dot)
            || !ids.iter().any(|id| opcode(id) == HloOpcode::Transpose)
        {
            continue;
        }
        let mut uses: FxHashMap<InstructionId, u32> = FxHashMap::default();
        for &id in &ids {
            for &operand in module.operand_ids(id) {
                *uses.entry(operand).or_default() += 1;
            }
        }
        let root = module.computation(computation).root;
        let single = |product| uses.get(&product) == Some(&1) && root != Some(product);
        let transposed: FxHashSet<InstructionId> = ids
            .into_iter()
            .filter_map(|id| fold(module, id, &single))
            .collect();
        let instructions = &mut module.computation_mut(computation).instructions;
        instructions.retain(|id| !transposed.contains(id));
        changed += transposed.len();
    }
    changed
}

/// Turns the product that instruction `id` transposes round; what it was is returned.
fn fold(
    module: &mut HloModule,
    id: InstructionId,
    is_single: &dyn Fn(InstructionId) -> bool,
) -> Option<InstructionId> {
    let transpose = module.instruction(id);
    if transpose.opcode() != HloOpcode::Transpose {
        return None;
    }
    let product = transpose.operand(0)?;
    let ([lhs, rhs], HloOpcode::Dot) =
        (*product.operand_ids().first_chunk::<2>()?, product.opcode())
    else {
        return None;
    };
    let is_plain =
        product.operand_ids().len() == 2 && product.attribute(AttrKey::Algorithm).is_none();
    if !is_plain || !is_single(product.id) {
        return None;
    }
    let transposed = product.id;
    let rank = |side| Some(module.instruction(side).array_shape()?.rank());
    let list = |key| SmallVec::<[i64; 4]>::from_slice(product.ints(key));
    let (lhs_batch, rhs_batch) = (list(AttrKey::LhsBatchDims), list(AttrKey::RhsBatchDims));
    let (lhs_contracting, rhs_contracting) = (
        list(AttrKey::LhsContractingDims),
        list(AttrKey::RhsContractingDims),
    );
    let batch = lhs_batch.len();
    let free = |side, batch: &[i64], contracting: &[i64]| {
        Some(others(rank(side)?, &[batch, contracting].concat()).len())
    };
    let rows = free(lhs, &lhs_batch, &lhs_contracting)?;
    let columns = free(rhs, &rhs_batch, &rhs_contracting)?;
    let exchanged = (0..batch)
        .chain(batch + rows..batch + rows + columns)
        .chain(batch..batch + rows)
        .map(|dim| dim as i64);
    if !exchanged.eq(transpose.ints(AttrKey::Dimensions).iter().copied()) {
        return None;
    }
    let computation = module.instruction_data(id).computation;
    let mut builder = Builder {
        module,
        computation,
        like: id,
    };
    let attributes: Vec<Attribute> = [
        (AttrKey::LhsBatchDims, rhs_batch),
        (AttrKey::RhsBatchDims, lhs_batch),
        (AttrKey::LhsContractingDims, rhs_contracting),
        (AttrKey::RhsContractingDims, lhs_contracting),
    ]
    .into_iter()
    .map(|(key, dims)| builder.ints(key, &dims))
    .collect();
    module.set_attributes(id, &attributes);
    module.set_operands(id, &[rhs, lhs]);
    module.instruction_data_mut(id).opcode = HloOpcode::Dot;
    Some(transposed)
}
