//! What a loop does to one of its inputs, as steps of an epilogue.
//!
//! In: a loop over a matrix, and the register of the input. Out: sums, differences, products, and bounds by constants, each
//! with a scalar, a vector over the columns, or a matrix with contiguous columns.

use crate::plan::element::elementwise::{Kernel, dtype};
use crate::plan::element::epilogue::EpilogueStep;
use crate::plan::element::program::{Program, Register, Step};
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{Load, LoadKind, LoopThunk};
use crate::plan::view::{ArrayView, Walk};
use crate::types::Dims;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, DType, EpilogueOp, Side};

/// The steps of a loop that changes a value from `from` on, and the operands they take; `None` where it does anything else.
pub fn chain(
    fused: &LoopThunk,
    from: Register,
    rows: usize,
    columns: usize,
) -> Option<(Vec<EpilogueStep>, Vec<ArrayView>)> {
    let program = &fused.program;
    let (mut steps, mut operands) = (Vec::new(), Vec::new());
    let mut value = from;
    for step in &program.steps {
        let (own, arrays) = epilogue_steps(fused, step, value, rows, columns)?;
        steps.extend(own);
        operands.extend(arrays);
        value = step.result;
    }
    let is_used = fused.loads.len() == operands.len() + 1;
    (!steps.is_empty() && is_used && program.outputs == [value]).then_some((steps, operands))
}

/// The first steps that change a value from `from` on, by their numbers, as long as nothing else reads it; `None` where these
/// are none, or all.
#[allow(clippy::type_complexity, reason = "three lists")]
pub fn first_chain(
    fused: &LoopThunk,
    from: Register,
    rows: usize,
    columns: usize,
) -> Option<(Vec<usize>, Vec<EpilogueStep>, Vec<ArrayView>)> {
    let program = &fused.program;
    let (mut gone, mut steps, mut operands) = (Vec::new(), Vec::new(), Vec::new());
    let mut value = from;
    loop {
        let mut readers =
            (0..program.steps.len()).filter(|&at| program.steps[at].reads().contains(&value));
        let (Some(at), None) = (readers.next(), readers.next()) else {
            break;
        };
        let step = &program.steps[at];
        let Some((own, arrays)) = epilogue_steps(fused, step, value, rows, columns) else {
            break;
        };
        if program.outputs.contains(&step.result) {
            return None;
        }
        gone.push(at);
        steps.extend(own);
        operands.extend(arrays);
        value = step.result;
    }
    (!gone.is_empty()).then_some((gone, steps, operands))
}

/// What a step of a loop does to `value`, as steps of an epilogue and the operands they take.
fn epilogue_steps(
    fused: &LoopThunk,
    step: &Step,
    value: Register,
    rows: usize,
    columns: usize,
) -> Option<(Vec<EpilogueStep>, Vec<ArrayView>)> {
    let program = &fused.program;
    let ty = program.types[value.0 as usize];
    let kind = dtype(ty).filter(|kind| matches!(kind, DType::F32 | DType::F64))?;
    if program.types[step.result.0 as usize] != ty {
        return None;
    }
    let (mut steps, mut operands) = (Vec::new(), Vec::new());
    for (op, is_right, operand) in operations(program, step, value)? {
        let constant = match operand {
            Operand::Constant(bytes) => Some(bits(bytes, kind)),
            Operand::Register(register) if program.types[register.0 as usize] == ty => {
                let mut loads = fused.loads.iter();
                let load = loads.find(|load| load.register == register)?;
                operands.push(matrix(load, rows, columns)?);
                None
            }
            Operand::Register(_) => return None,
        };
        let op = EpilogueOp::of(op, is_right, constant, kind)?;
        steps.push(EpilogueStep { op, constant });
    }
    Some((steps, operands))
}

enum Operand {
    Constant([u8; 16]),
    Register(Register),
}

/// What a step does to `value`, which it reads once: operations, whether the value is their right operand, and the other one.
fn operations(
    program: &Program,
    step: &Step,
    value: Register,
) -> Option<Vec<(BinaryOp, bool, Operand)>> {
    let meaning = step.meaning?;
    let reads = step.reads();
    if reads.iter().filter(|&&register| register == value).count() != 1 {
        return None;
    }
    let constant = |register: Register| {
        let mut values = program.values.iter();
        let (_, index) = values.find(|(known, _)| *known == register)?;
        Some(program.constants[*index as usize])
    };
    Some(match (meaning.op, reads, step.kernel) {
        (Op::Binary(op), [_], Kernel::WithScalar(_, bytes)) => {
            vec![(
                op,
                meaning.side == Some(Side::Left),
                Operand::Constant(bytes),
            )]
        }
        (Op::Binary(op), &[a, b], _) => {
            let other = if a == value { b } else { a };
            let operand = constant(other).map_or(Operand::Register(other), Operand::Constant);
            vec![(op, b == value, operand)]
        }
        (Op::Clamp, &[low, x, high], _) if x == value => vec![
            (BinaryOp::Maximum, false, Operand::Constant(constant(low)?)),
            (BinaryOp::Minimum, false, Operand::Constant(constant(high)?)),
        ],
        _ => return None,
    })
}

fn bits(bytes: [u8; 16], kind: DType) -> u64 {
    let mut eight = [0; 8];
    eight[..kind.size_bytes()].copy_from_slice(&bytes[..kind.size_bytes()]);
    u64::from_le_bytes(eight)
}

/// What a loop over a matrix reads, as an array of a number for every element, every column, or of one.
fn matrix(load: &Load, rows: usize, columns: usize) -> Option<ArrayView> {
    let LoadKind::View(view) = &load.kind else {
        return None;
    };
    let [row, column] = strides_of(&load.walk, columns as i64)?;
    let (dims, strides) = match (row, column) {
        (0, 0) => ([1, 1], [1, 1]),
        _ if !faults::holds(Fault::EpilogueTurnsOperand, column == 1) => return None,
        (0, _) => ([1, columns as i64], [columns as i64, 1]),
        (1.., _) => ([rows as i64, columns as i64], [row, 1]),
        _ => return None,
    };
    view.dynamic.is_empty().then(|| ArrayView {
        dims: Dims::from_slice(&dims),
        strides: Dims::from_slice(&strides),
        ..view.clone()
    })
}

/// Elements from one row, and from one column, of a matrix with so many columns to the next, where a walk has one of each.
pub fn strides_of(walk: &Walk, columns: i64) -> Option<[i64; 2]> {
    let mut left = columns;
    let (mut inner, mut outer) = (Walk::new(), Walk::new());
    for &(size, stride) in walk.iter().rev() {
        if left == 1 {
            outer.push((size, stride));
        } else if left % size == 0 {
            inner.push((size, stride));
            left /= size;
        } else if size % left == 0 {
            inner.push((left, stride));
            outer.push((size / left, stride.checked_mul(left)?));
            left = 1;
        } else {
            return None;
        }
    }
    if left != 1 {
        return None;
    }
    Some([one_stride(&outer)?, one_stride(&inner)?])
}

/// The one step of dimensions, fastest first: zero where there is a single element.
fn one_stride(dims: &Walk) -> Option<i64> {
    let mut found: Option<(i64, i64)> = None;
    for &(size, stride) in dims.iter().filter(|dim| dim.0 != 1) {
        found = match found {
            None => Some((size, stride)),
            Some((count, step)) if stride == step * count => Some((count * size, step)),
            Some(_) => return None,
        };
    }
    Some(found.map_or(0, |(_, step)| step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(walk: &[(i64, i64)], columns: i64) -> Option<[i64; 2]> {
        strides_of(&Walk::from_slice(walk), columns)
    }

    #[test]
    fn walks_over_matrices_have_a_step_for_each_dimension() {
        assert_eq!(steps(&[(60, 1)], 10), Some([10, 1]));
        assert_eq!(steps(&[(6, 0), (10, 1)], 10), Some([0, 1]));
        assert_eq!(steps(&[(60, 0)], 10), Some([0, 0]));
        assert_eq!(steps(&[(2, 60), (3, 20), (10, 1)], 10), Some([20, 1]));
        assert_eq!(steps(&[(6, 20), (2, 5), (5, 1)], 10), Some([20, 1]));
        assert_eq!(steps(&[(6, 1), (10, 0)], 10), Some([1, 0]));
        assert_eq!(steps(&[(2, 50), (3, 20), (10, 1)], 10), None);
        assert_eq!(steps(&[(6, 10), (10, 1)], 4), None);
        assert_eq!(steps(&[(10, 1)], 10), Some([0, 1]));
    }
}
