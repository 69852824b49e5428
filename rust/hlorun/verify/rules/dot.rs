//! `dot`, `ragged-dot`, `scaled-dot`: sums of products over contracted dimensions.

use super::common::*;
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::types::{ArrayShape, Dims, PrimitiveType};
use crate::verify::inferred::InferredShape;

/// The dimension numbers of a product, checked against its operands.
struct Numbers<'m> {
    lhs: &'m ArrayShape,
    rhs: &'m ArrayShape,
    lhs_batch: &'m [i64],
    lhs_contracting: &'m [i64],
    lhs_used: DimSet,
    rhs_used: DimSet,
}

/// The family.
pub fn infer(i: InstructionRef<'_>) -> Infer {
    let numbers = numbers(i)?;
    // A product may declare any element type; XLA converts to it.
    let element_type = declared_array(i)?.element_type;
    let lhs_free = without(&numbers.lhs.dims, numbers.lhs_used);
    match i.opcode() {
        HloOpcode::RaggedDot => return ragged(i, &numbers, element_type),
        HloOpcode::ScaledDot => {
            check_scale(i, 2, numbers.lhs)?;
            check_scale(i, 3, numbers.rhs)?;
        }
        _ => {}
    }
    let mut dims = batch(&numbers);
    dims.extend(lhs_free);
    dims.extend(without(&numbers.rhs.dims, numbers.rhs_used));
    Ok(InferredShape::Array { element_type, dims })
}

fn batch(numbers: &Numbers<'_>) -> Dims {
    numbers
        .lhs_batch
        .iter()
        .map(|&d| numbers.lhs.dims[d as usize])
        .collect()
}

fn numbers<'m>(i: InstructionRef<'m>) -> Result<Numbers<'m>, String> {
    let lhs = array(i, 0)?;
    let rhs = array(i, 1)?;
    let lhs_batch = ints(i, AttrKey::LhsBatchDims)?;
    let rhs_batch = ints(i, AttrKey::RhsBatchDims)?;
    let lhs_contracting = ints(i, AttrKey::LhsContractingDims)?;
    let rhs_contracting = ints(i, AttrKey::RhsContractingDims)?;
    let lhs_used = used("lhs", lhs_batch, lhs_contracting, lhs.rank())?;
    let rhs_used = used("rhs", rhs_batch, rhs_contracting, rhs.rank())?;
    // Structured sparsity stores a contracted dimension in part.
    let sparse = i.attribute(AttrKey::Sparsity).is_some();
    if i.opcode() == HloOpcode::Dot && i.operand_ids().len() > 2 && !sparse {
        return Err(format!(
            "has {} operands and no sparsity, expected two",
            i.operand_ids().len()
        ));
    }
    let pairs = [
        ("batch", lhs_batch, rhs_batch),
        ("contracting", lhs_contracting, rhs_contracting),
    ];
    for (what, left, right) in pairs {
        if left.len() != right.len() {
            return Err(format!(
                "lhs_{what}_dims={} and rhs_{what}_dims={} are not equally long",
                list(left),
                list(right)
            ));
        }
        for (&l, &r) in left.iter().zip(right) {
            let (l_size, r_size) = (lhs.dims[l as usize], rhs.dims[r as usize]);
            if l_size != r_size && !(sparse && what == "contracting") {
                return Err(format!(
                    "the {what} dimension {l} of operand 0 has size {l_size}, but its partner, \
                     dimension {r} of operand 1, has size {r_size}: {} and {}",
                    describe(i, 0),
                    describe(i, 1)
                ));
            }
        }
    }
    Ok(Numbers {
        lhs,
        rhs,
        lhs_batch,
        lhs_contracting,
        lhs_used,
        rhs_used,
    })
}

fn used(side: &str, batch: &[i64], contracting: &[i64], rank: usize) -> Result<DimSet, String> {
    let mut used = dim_set(&format!("{side}_batch_dims"), batch, rank)?;
    dim_set(&format!("{side}_contracting_dims"), contracting, rank)?;
    for &d in contracting {
        if !used.add(d as usize) {
            return Err(format!(
                "dimension {d} stands in both {side}_batch_dims and {side}_contracting_dims"
            ));
        }
    }
    Ok(used)
}

/// That scales divide what they scale.
fn check_scale(i: InstructionRef<'_>, k: usize, of: &ArrayShape) -> Result<(), String> {
    let scale = array(i, k)?;
    let fits = scale.rank() == 0
        || (scale.rank() == of.rank()
            && scale
                .dims
                .iter()
                .zip(&of.dims)
                .all(|(&s, &d)| s == d || (s > 0 && d % s == 0)));
    if fits {
        Ok(())
    } else {
        Err(format!(
            "{}, expected a scalar or sizes that divide those of operand {}",
            describe(i, k),
            k - 2
        ))
    }
}

/// `ragged-dot`: one dimension of the left side is cut into groups.
fn ragged(i: InstructionRef<'_>, numbers: &Numbers<'_>, element_type: PrimitiveType) -> Infer {
    let (lhs, rhs) = (numbers.lhs, numbers.rhs);
    let sizes = array(i, 2)?;
    if !sizes.element_type.is_integral() || sizes.rank() == 0 {
        return Err(format!("{}, expected integer group sizes", describe(i, 2)));
    }
    let groups = sizes.dims[sizes.rank() - 1];
    let ragged_dims = need_ints(i, AttrKey::LhsRaggedDims)?;
    let [ragged] = ragged_dims else {
        return Err(format!(
            "lhs_ragged_dims={} has {} entries, expected one",
            list(ragged_dims),
            ragged_dims.len()
        ));
    };
    dimension("the ragged dimension", *ragged, lhs.rank())?;
    let group_dims = ints(i, AttrKey::RhsGroupDims)?;
    let mut rhs_used = numbers.rhs_used;
    for &d in group_dims {
        let d = dimension("the group dimension", d, rhs.rank())?;
        if !rhs_used.add(d) {
            return Err(format!(
                "rhs_group_dims={} names a batch or contracting dimension",
                list(group_dims)
            ));
        }
        if rhs.dims[d] != groups {
            return Err(format!(
                "the group dimension {d} of operand 1 has size {}, but operand 2 has {groups} \
                 group sizes",
                rhs.dims[d]
            ));
        }
    }
    let contracting = numbers.lhs_contracting.contains(ragged);
    let wanted = usize::from(!contracting && !numbers.lhs_batch.contains(ragged));
    if group_dims.len() != wanted {
        return Err(format!(
            "rhs_group_dims={} has {} entries, expected {wanted} for this ragged dimension",
            list(group_dims),
            group_dims.len()
        ));
    }
    let mut dims = Dims::new();
    if contracting {
        dims.push(groups);
    }
    dims.extend(batch(numbers));
    dims.extend(without(&lhs.dims, numbers.lhs_used));
    dims.extend(without(&rhs.dims, rhs_used));
    Ok(InferredShape::Array { element_type, dims })
}
