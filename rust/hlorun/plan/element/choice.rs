//! `select-reducers`: reducers that select one of two pairs by comparing their elements run as a kernel.
//!
//! In: a reducer as a program. Out: the [`Choice`] it makes. Applies where the reducer takes the same elements as the kernel
//! for all relations of two pairs: less, equal, greater, NaN. How it is written plays no role.

use hlorun_kernels::choice::{Choice, Relation};
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, CompareDirection, UnaryOp};

use super::program::{Program, Register, Step};
use crate::plan::faults::{self, Fault};
use crate::types::PrimitiveType;

/// Name by which it is switched off.
pub const NAME: &str = "select-reducers";

/// Most steps that are looked at.
const MAX_STEPS: usize = 32;

/// What a register holds, for given relations.
#[derive(Clone, Copy)]
enum Value {
    Truth(bool),
    /// An element of the pair, and whether it is the left one.
    Element(usize, bool),
}

/// The choice that `reducer` makes.
pub fn of(reducer: &Program) -> Option<Choice> {
    let (&[a, b, c, d], [_, _]) = (reducer.inputs.as_slice(), reducer.outputs.as_slice()) else {
        return None;
    };
    let ty = |register: Register| reducer.types[register.0 as usize];
    if ty(a) != ty(c) || ty(b) != ty(d) || reducer.steps.len() > MAX_STEPS {
        return None;
    }
    let mut choices: Vec<Choice> = Choice::all().collect();
    for &values in relations(ty(a))? {
        for &seconds in relations(ty(b))? {
            let taken = taken(reducer, [values, seconds])?;
            choices.retain(|choice| {
                let is_same = choice.takes_left(values, seconds) == taken;
                faults::holds(Fault::SelectsOtherPair, is_same)
            });
        }
    }
    choices.first().copied()
}

/// How two values of a type can lie to each other.
fn relations(ty: PrimitiveType) -> Option<&'static [Relation]> {
    match ty {
        _ if ty.is_floating() => Some(&Relation::FLOATS),
        _ if ty.is_integral() || ty == PrimitiveType::Pred => Some(&Relation::INTEGERS),
        _ => None,
    }
}

/// For each of two results, whether it is the left element of its pair.
fn taken(reducer: &Program, relations: [Relation; 2]) -> Option<[bool; 2]> {
    let mut values: Vec<Option<Value>> = vec![None; reducer.types.len()];
    for (at, &input) in reducer.inputs.iter().enumerate() {
        values[input.0 as usize] = Some(Value::Element(at % 2, at < 2));
    }
    for step in &reducer.steps {
        values[step.result.0 as usize] = Some(computed(reducer, step, &values, relations)?);
    }
    let result = |k: usize| match values[reducer.outputs[k].0 as usize]? {
        Value::Element(element, is_left) if element == k => Some(is_left),
        _ => None,
    };
    Some([result(0)?, result(1)?])
}

/// The result of a step; `None` where that depends on more than the relations.
fn computed(
    reducer: &Program,
    step: &Step,
    values: &[Option<Value>],
    relations: [Relation; 2],
) -> Option<Value> {
    let meaning = step.meaning.filter(|meaning| meaning.side.is_none())?;
    let ty = |register: Register| reducer.types[register.0 as usize];
    let value = |k: usize| values[step.operands[k].0 as usize];
    let truth = |k: usize| match value(k)? {
        Value::Truth(truth) => Some(truth),
        Value::Element(..) => None,
    };
    Some(match meaning.op {
        Op::Compare(direction) => match (value(0)?, value(1)?) {
            (Value::Element(x, left), Value::Element(y, right)) if x == y => {
                Value::Truth(compared(relations[x], (left, right), direction))
            }
            _ => return None,
        },
        Op::Select => match truth(0)? {
            true => value(1)?,
            false => value(2)?,
        },
        Op::Unary(UnaryOp::Not) => Value::Truth(!truth(0)?),
        Op::Binary(BinaryOp::And) => Value::Truth(truth(0)? & truth(1)?),
        Op::Binary(BinaryOp::Or) => Value::Truth(truth(0)? | truth(1)?),
        Op::Binary(BinaryOp::Xor) => Value::Truth(truth(0)? ^ truth(1)?),
        // Other types are compared in another order.
        Op::Bitcast if ty(step.operands[0]) == ty(step.result) => value(0)?,
        _ => return None,
    })
}

/// Whether one element is in the relation to another one, of which each is the left or the right one.
fn compared(relation: Relation, sides: (bool, bool), direction: CompareDirection) -> bool {
    let relation = match sides {
        (true, false) => relation,
        (false, true) => relation.turned(),
        (true, true) => relation.of_left(),
        (false, false) => relation.turned().of_left(),
    };
    relation.holds(direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::element::elementwise::Kernel;
    use crate::plan::element::program::{Meaning, ProgramBuilder};
    use PrimitiveType as P;

    /// A reducer of values of type `ty` and indices that `build` writes with a function that adds a step.
    fn reducer(
        ty: P,
        build: impl Fn(&mut dyn FnMut(Op, &[Register]) -> Register, [Register; 4]) -> [Register; 2],
    ) -> Program {
        let mut builder = ProgramBuilder::new();
        let inputs = [ty, P::S32, ty, P::S32].map(|ty| builder.input(ty));
        // No step is run, so that its kernel plays no role.
        let mut step = |op: Op, operands: &[Register]| {
            let result = match op {
                Op::Select => builder.ty(operands[1]),
                Op::Bitcast => P::U32,
                _ => P::Pred,
            };
            let meaning = Some(Meaning::of(op));
            builder.known_step(Kernel::Copy(1), meaning, operands, result)
        };
        let outputs = build(&mut step, inputs);
        builder.finish(&outputs)
    }

    #[test]
    fn the_first_of_the_largest() {
        let program = reducer(P::F32, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, b]);
            let none = step(Op::Compare(CompareDirection::Ne), &[a, a]);
            let wins = step(Op::Binary(BinaryOp::Or), &[more, none]);
            let same = step(Op::Compare(CompareDirection::Eq), &[a, b]);
            let before = step(Op::Compare(CompareDirection::Lt), &[i, j]);
            let ties = step(Op::Binary(BinaryOp::And), &[same, before]);
            let first = step(Op::Binary(BinaryOp::Or), &[wins, ties]);
            [
                step(Op::Select, &[wins, a, b]),
                step(Op::Select, &[first, i, j]),
            ]
        });
        let want = Choice {
            greater: true,
            later: false,
            nan: true,
            together: false,
        };
        assert_eq!(of(&program), Some(want));
    }

    #[test]
    fn the_last_of_the_smallest_written_in_another_way() {
        let program = reducer(P::S32, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, b]);
            let least = step(Op::Unary(UnaryOp::Not), &[more]);
            let less = step(Op::Compare(CompareDirection::Gt), &[b, a]);
            let behind = step(Op::Compare(CompareDirection::Le), &[j, i]);
            let same = step(Op::Compare(CompareDirection::Eq), &[j, i]);
            let apart = step(Op::Binary(BinaryOp::Xor), &[behind, same]);
            let tie = step(Op::Binary(BinaryOp::And), &[least, apart]);
            let left = step(Op::Binary(BinaryOp::Or), &[less, tie]);
            [
                step(Op::Select, &[left, a, b]),
                step(Op::Select, &[left, i, j]),
            ]
        });
        let want = Choice {
            greater: false,
            later: true,
            nan: false,
            together: true,
        };
        assert_eq!(of(&program), Some(want));
    }

    #[test]
    fn other_reducers_make_none() {
        // The right pair wins wherever the left one does not: of equal ones, too.
        let unsteady = reducer(P::F32, |step, [a, i, b, j]| {
            let least = step(Op::Compare(CompareDirection::Ge), &[a, b]);
            [
                step(Op::Select, &[least, a, b]),
                step(Op::Select, &[least, i, j]),
            ]
        });
        assert_eq!(of(&unsteady), None);
        let crossed = reducer(P::S32, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, j]);
            [
                step(Op::Select, &[more, a, b]),
                step(Op::Select, &[more, i, j]),
            ]
        });
        assert_eq!(of(&crossed), None);
        let sums = reducer(P::S32, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, b]);
            [
                step(Op::Binary(BinaryOp::Add), &[a, b]),
                step(Op::Select, &[more, i, j]),
            ]
        });
        assert_eq!(of(&sums), None);
        let as_bits = |of_value: bool| {
            reducer(P::S32, |step, [a, i, b, j]| {
                let pair = if of_value { [a, b] } else { [i, j] };
                let bits = pair.map(|x| step(Op::Bitcast, &[x]));
                let more = step(Op::Compare(CompareDirection::Gt), &bits);
                let same = step(Op::Compare(CompareDirection::Eq), &[a, b]);
                let tie = step(Op::Binary(BinaryOp::And), &[same, more]);
                let left = if of_value { more } else { tie };
                [
                    step(Op::Select, &[left, a, b]),
                    step(Op::Select, &[left, i, j]),
                ]
            })
        };
        assert_eq!([of(&as_bits(true)), of(&as_bits(false))], [None, None]);
    }
}
