//! Matrix products as passes see them, whichever instruction writes them.

use smallvec::SmallVec;

use crate::library::{GemmConfig, gemm};
use crate::module::{AttrKey, HloModule, HloOpcode, InstructionId};
use crate::types::{Dims, PrimitiveType};

/// `value = lhs · rhs [+ addend]`, no batch dimensions.
#[derive(Clone, Debug)]
pub struct Product {
    /// The array-valued instruction.
    pub value: InstructionId,
    /// Left operand.
    pub lhs: InstructionId,
    /// Right operand.
    pub rhs: InstructionId,
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Dims,
    /// Contracting dimensions of the right operand, in the same order.
    pub rhs_contracting: Dims,
    /// What is added.
    pub addend: Option<InstructionId>,
    /// Type of the result.
    pub element_type: PrimitiveType,
}

impl Product {
    /// The product whose result is `id`: a `dot`, a cuBLAS call, or a sum with one of them that
    /// nobody else reads (`single_use` tells).
    pub fn of(
        module: &HloModule,
        id: InstructionId,
        single_use: &dyn Fn(InstructionId) -> bool,
    ) -> Option<Product> {
        let instruction = module.instruction(id);
        if instruction.opcode() == HloOpcode::Add {
            let (a, b) = (instruction.operand(0)?.id, instruction.operand(1)?.id);
            for (inner, other) in [(a, b), (b, a)] {
                if let Some(product) = Product::plain(module, inner)
                    && product.addend.is_none()
                    && single_use(inner)
                    && a != b
                {
                    return Some(Product {
                        value: id,
                        addend: Some(other),
                        ..product
                    });
                }
            }
            return None;
        }
        Product::plain(module, id)
    }

    fn plain(module: &HloModule, id: InstructionId) -> Option<Product> {
        let instruction = module.instruction(id);
        let element_type = instruction.array_shape()?.element_type;
        match instruction.opcode() {
            HloOpcode::Dot => {
                let has_batch = !instruction.ints(AttrKey::LhsBatchDims).is_empty();
                let algorithm = instruction.attribute(AttrKey::Algorithm).is_some();
                (!has_batch && !algorithm && instruction.operand_ids().len() == 2).then(|| {
                    Some(Product {
                        value: id,
                        lhs: instruction.operand(0)?.id,
                        rhs: instruction.operand(1)?.id,
                        lhs_contracting: Dims::from_slice(
                            instruction.ints(AttrKey::LhsContractingDims),
                        ),
                        rhs_contracting: Dims::from_slice(
                            instruction.ints(AttrKey::RhsContractingDims),
                        ),
                        addend: None,
                        element_type,
                    })
                })?
            }
            HloOpcode::GetTupleElement if instruction.tuple_index() == Some(0) => {
                let call = instruction.operand(0)?.id;
                let product = Product::cublas(module, call)?;
                Some(Product {
                    value: id,
                    element_type,
                    ..product
                })
            }
            HloOpcode::CustomCall => Product::cublas(module, id).map(|product| Product {
                element_type,
                ..product
            }),
            _ => None,
        }
    }

    fn cublas(module: &HloModule, id: InstructionId) -> Option<Product> {
        let call = module.instruction(id);
        if call.opcode() != HloOpcode::CustomCall || call.custom_call_target()? != gemm::GEMM {
            return None;
        }
        let config = GemmConfig::of(call)?;
        if config.alpha != (1.0, 0.0) || !config.dimensions.lhs_batch.is_empty() {
            return None;
        }
        let addend = match config.beta {
            0.0 => None,
            1.0 => Some(call.operand(2)?.id),
            _ => return None,
        };
        Some(Product {
            value: id,
            lhs: call.operand(0)?.id,
            rhs: call.operand(1)?.id,
            lhs_contracting: config.dimensions.lhs_contracting,
            rhs_contracting: config.dimensions.rhs_contracting,
            addend,
            element_type: PrimitiveType::F32,
        })
    }

    /// Whether both operands are plain floating-point arrays of the result's type.
    pub fn is_uniform(&self, module: &HloModule) -> bool {
        [self.lhs, self.rhs].iter().all(|&o| {
            module
                .instruction(o)
                .array_shape()
                .is_some_and(|s| s.element_type == self.element_type && s.is_static())
        }) && matches!(
            self.element_type,
            PrimitiveType::F32 | PrimitiveType::F64 | PrimitiveType::C64 | PrimitiveType::C128
        )
    }
}

/// Ascending numbers below `rank` that are not in `dims`.
pub fn others(rank: usize, dims: &[i64]) -> SmallVec<[i64; 4]> {
    (0..rank as i64).filter(|d| !dims.contains(d)).collect()
}
