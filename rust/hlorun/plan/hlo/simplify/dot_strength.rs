//! `dot-strength-reduction`: products that are no matrix products, as loops.
//!
//! An inner product (only batch dimensions stay) becomes a sum of elementwise products, and an outer
//! product (nothing, or one element, is contracted) the product of two broadcasts: both go at the
//! speed of memory on all cores and fuse with what is around them. Applies to a `dot` of two arrays
//! of one type without `algorithm`. Of `f32` and `f64`, inner products of few terms stay, and outer
//! ones without a batch, which have kernels that are as fast and are tiled by rows. The terms are those of the `dot`, in
//! the type it accumulates in; only the order of the sums changes. XLA's algebraic simplifier has the
//! rewrite under this name.

use smallvec::SmallVec;

use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId};
use crate::plan::cost::inner_product::{MIN_ALL_TERMS, MIN_TERMS};
use crate::plan::hlo::builder::Builder;
use crate::plan::hlo::product::others;
use crate::types::{Dims, PrimitiveType};

/// Name of the pass.
pub const NAME: &str = "dot-strength-reduction";

/// Runs the pass on all computations; the number of products that were rewritten.
pub fn run(module: &mut HloModule) -> usize {
    let mut changed = 0;
    for computation in module.computation_ids().collect::<Vec<_>>() {
        let instructions = &module.computation(computation).instructions;
        let opcode = |id: &InstructionId| module.instruction_data(*id).opcode;
        if !instructions.iter().any(|id| opcode(id) == HloOpcode::Dot) {
            continue;
        }
        let old = std::mem::take(&mut module.computation_mut(computation).instructions);
        for id in old {
            if let Some(weak) = Weak::of(module, id) {
                weak.rewrite(module, computation, id);
                changed += 1;
            }
            let instructions = &mut module.computation_mut(computation).instructions;
            instructions.push(id);
        }
    }
    changed
}

/// Dimensions of an operand: batch, free, contracting.
struct Side {
    operand: InstructionId,
    batch: SmallVec<[i64; 4]>,
    free: SmallVec<[i64; 4]>,
    contracting: SmallVec<[i64; 4]>,
}

/// A `dot` that is an inner or an outer product.
struct Weak {
    lhs: Side,
    rhs: Side,
    is_outer: bool,
    /// Type the terms are computed in.
    computed: PrimitiveType,
}

impl Weak {
    fn of(module: &HloModule, id: InstructionId) -> Option<Weak> {
        let dot = module.instruction(id);
        let &[lhs, rhs] = dot.operand_ids() else {
            return None;
        };
        if dot.opcode() != HloOpcode::Dot || dot.attribute(AttrKey::Algorithm).is_some() {
            return None;
        }
        let (a, b) = (
            module.instruction(lhs).array_shape()?,
            module.instruction(rhs).array_shape()?,
        );
        let result = dot.array_shape()?;
        if a.element_type != b.element_type || result.dims.contains(&0) {
            return None;
        }
        let computed = accumulator(a.element_type, result.element_type)?;
        let side = |operand, rank, batch, contracting| {
            let (batch, contracting) = (dot.ints(batch), dot.ints(contracting));
            Side {
                operand,
                batch: SmallVec::from_slice(batch),
                free: others(rank, &[batch, contracting].concat()),
                contracting: SmallVec::from_slice(contracting),
            }
        };
        let lhs = side(
            lhs,
            a.rank(),
            AttrKey::LhsBatchDims,
            AttrKey::LhsContractingDims,
        );
        let rhs = side(
            rhs,
            b.rank(),
            AttrKey::RhsBatchDims,
            AttrKey::RhsContractingDims,
        );
        let size = |dims: &[i64], of: &[i64]| {
            of.iter().try_fold(1i64, |product, &dim| {
                product.checked_mul(*dims.get(usize::try_from(dim).ok()?)?)
            })
        };
        let terms = size(&a.dims, &lhs.contracting)?;
        let has_kernels = |ty| matches!(ty, PrimitiveType::F32 | PrimitiveType::F64);
        let batch = size(&a.dims, &lhs.batch)?;
        let is_outer = terms == 1 && (batch > 1 || !has_kernels(result.element_type));
        let all = terms.checked_mul(batch)?;
        let is_inner = size(&a.dims, &lhs.free)? == 1
            && size(&b.dims, &rhs.free)? == 1
            && terms > 0
            && (!has_kernels(a.element_type) || terms >= MIN_TERMS || all >= MIN_ALL_TERMS);
        (is_outer || is_inner).then_some(Weak {
            lhs,
            rhs,
            is_outer,
            computed,
        })
    }

    /// Makes `id`, the `dot`, the last instruction of its rewrite.
    fn rewrite(&self, module: &mut HloModule, computation: ComputationId, id: InstructionId) {
        let Some(result) = module.instruction(id).array_shape() else {
            return;
        };
        let (result_type, dims) = (result.element_type, Dims::from_slice(&result.dims));
        let mut b = Builder {
            module,
            computation,
            like: id,
        };
        let value = if self.is_outer {
            let batch: Dims = (0..self.lhs.batch.len() as i64).collect();
            let columns = (batch.len() + self.lhs.free.len()) as i64;
            let at = |from: i64, count: usize| -> Dims {
                let own = from..from + count as i64;
                batch.iter().copied().chain(own).collect()
            };
            let rows_at = at(batch.len() as i64, self.lhs.free.len());
            let columns_at = at(columns, self.rhs.free.len());
            let lhs = self.lhs.kept(&mut b, &self.lhs.free, self.computed);
            let rhs = self.rhs.kept(&mut b, &self.rhs.free, self.computed);
            let lhs = b.along(lhs, &dims, &rows_at);
            let rhs = b.along(rhs, &dims, &columns_at);
            b.elementwise(HloOpcode::Multiply, &[lhs, rhs])
        } else {
            let lhs = self.lhs.kept(&mut b, &self.lhs.contracting, self.computed);
            let rhs = self.rhs.kept(&mut b, &self.rhs.contracting, self.computed);
            let terms = b.elementwise(HloOpcode::Multiply, &[lhs, rhs]);
            let batch = self.lhs.batch.len() as i64;
            let over: Dims = (batch..batch + self.lhs.contracting.len() as i64).collect();
            b.folded(HloOpcode::Add, terms, &over)
        };
        let value = b.reshape(value, &dims);
        let opcode = if self.computed == result_type {
            HloOpcode::Copy
        } else {
            HloOpcode::Convert
        };
        module.set_attributes(id, &[]);
        module.set_operands(id, &[value]);
        module.instruction_data_mut(id).opcode = opcode;
    }
}

impl Side {
    /// The operand as type `ty`, with its batch dimensions and then those of `own`; all others have
    /// one element.
    fn kept(&self, b: &mut Builder<'_>, own: &[i64], ty: PrimitiveType) -> InstructionId {
        let shape = b.shape(self.operand);
        let kept: Dims = self.batch.iter().chain(own).copied().collect();
        let dropped = others(shape.rank(), &kept);
        let order: Dims = kept.iter().chain(&dropped).copied().collect();
        let dims: Dims = kept.iter().map(|&d| shape.dims[d as usize]).collect();
        let transposed = b.arranged(self.operand, &order);
        let flat = b.reshape(transposed, &dims);
        if shape.element_type == ty {
            return flat;
        }
        b.add_array(HloOpcode::Convert, ty, &dims, &[flat], &[])
    }
}

/// The type in which a `dot` of two `operands` gives a `result`, where it is one that has plain sums.
fn accumulator(operands: PrimitiveType, result: PrimitiveType) -> Option<PrimitiveType> {
    use PrimitiveType as P;
    match (operands, result) {
        (P::F16 | P::BF16, _) if result == operands || result == P::F32 => Some(P::F32),
        (P::F32 | P::F64 | P::C64 | P::C128, _) if result == operands => Some(result),
        _ if operands.is_integral() && result.is_integral() && result.bit_width() >= 8 => {
            let widens = operands == result
                || operands.bit_width() < result.bit_width()
                    && (result.is_signed_integral() || !operands.is_signed_integral());
            widens.then_some(result)
        }
        _ => None,
    }
}
