//! Dense linear algebra: `cholesky`, `triangular-solve`, and the custom calls of LAPACK, cuBLAS,
//! cuSOLVER and their kin.
//!
//! In: an instruction. Out: a [`LinalgOp`], the routine with its options and with which operands and
//! results are what. Workspaces among the results become zeros.

use super::combiner::origin;
use crate::error::Result;
use crate::library::lapack::{self, Form, Target};
use crate::module::{AttrKey, HloOpcode, InstructionRef};
use crate::plan::error::unsupported;

pub use crate::library::lapack::{LinalgOp, Routine, Transpose};

/// Plans `cholesky` and `triangular-solve`.
pub fn plan(instruction: InstructionRef<'_>) -> LinalgOp {
    let lower = instruction.bool(AttrKey::Lower).unwrap_or(false);
    let mut op = if instruction.opcode() == HloOpcode::Cholesky {
        LinalgOp {
            lower,
            zero_other: true,
            ..LinalgOp::new(Routine::Potrf, &[0])
        }
    } else {
        let transpose = instruction.enumeration(AttrKey::TransposeA);
        LinalgOp {
            lower,
            left: instruction.bool(AttrKey::LeftSide).unwrap_or(false),
            unit_diagonal: instruction.bool(AttrKey::UnitDiagonal).unwrap_or(false),
            transpose: Transpose::named(transpose.as_deref().unwrap_or_default()),
            ..LinalgOp::new(Routine::Trsm, &[0, 1])
        }
    };
    op.results.push(0);
    op
}

/// Plans a custom call; `None` when the target is no linear algebra.
pub fn custom_call(instruction: InstructionRef<'_>, name: &str) -> Option<Result<LinalgOp>> {
    let target = Target::named(name)?;
    Some(call(instruction, name, &target))
}

fn call(instruction: InstructionRef<'_>, name: &str, target: &Target) -> Result<LinalgOp> {
    let refuse = |what: String| unsupported(instruction, what);
    let mut op = if target.form == Form::Operands {
        old_lapack(instruction, target.routine)?
    } else {
        lapack::with_config(instruction, name, target.routine).map_err(refuse)?
    };
    op.results = lapack::find_results(instruction, target, &op).map_err(refuse)?;
    Ok(op)
}

/// Calls of jaxlib before the foreign-function interface: options and sizes are `s32` operands in
/// front of the arrays.
fn old_lapack(instruction: InstructionRef<'_>, routine: Routine) -> Result<LinalgOp> {
    let refuse = |what: String| unsupported(instruction, what);
    let operands = lapack::last_operands(instruction, routine).map_err(refuse)?;
    let mut op = LinalgOp::new(routine, &operands);
    let first = operands.first().copied().unwrap_or(0);
    let option = |index: usize| -> Result<i64> {
        let id = instruction.operand_ids().get(index);
        let constant = id.map(|&id| {
            instruction
                .module
                .instruction(origin(instruction.module, id))
        });
        let bytes = constant.and_then(|constant| constant.literal()?.bytes());
        match bytes {
            Some(&[a, b, c, d]) => Ok(i64::from(i32::from_le_bytes([a, b, c, d]))),
            Some(&[a]) => Ok(i64::from(a)),
            _ => Err(unsupported(
                instruction,
                format!("operand {index}, an option, is no constant"),
            )),
        }
    };
    let wanted = i64::from(b'V');
    match routine {
        Routine::Geev if first >= 2 => {
            op.vectors = option(first - 2)? == wanted;
            op.right_vectors = option(first - 1)? == wanted;
        }
        Routine::Gees if first >= 2 => {
            op.vectors = option(first - 2)? == wanted;
            if option(first - 1)? == i64::from(b'S') {
                return Err(unsupported(instruction, "a sorted Schur form".into()));
            }
        }
        Routine::Gehrd => op.rows = Some((option(1)?, option(2)?)),
        Routine::Sytrd => op.lower = option(1)? != 0,
        Routine::Potrf | Routine::Syevd => op.lower = option(0)? != 0,
        Routine::Trsm => {
            op.left = option(0)? != 0;
            op.lower = option(1)? != 0;
            op.transpose = match option(2)? {
                0 => Transpose::No,
                1 => Transpose::Yes,
                _ => Transpose::Adjoint,
            };
            op.unit_diagonal = option(3)? != 0;
        }
        Routine::Gesdd => op.vectors = option(1)? != 0,
        Routine::Getrf | Routine::Geqrf | Routine::Orgqr => {}
        _ => return Err(unsupported(instruction, "an old form of this call".into())),
    }
    Ok(op)
}
