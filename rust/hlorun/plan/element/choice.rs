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

/// How the elements of one kind lie to each other in two pairs; truth values are known themselves.
#[derive(Clone, Copy)]
struct Case {
    relation: Relation,
    truths: Option<[bool; 2]>,
}

/// What a register holds, in a given case.
#[derive(Clone, Copy)]
enum Value {
    Truth(bool),
    /// An element of a pair, and whether it may be the left one or the right one: equal integers are both.
    Element(usize, [bool; 2]),
}

const LEFT: [bool; 2] = [true, false];
const RIGHT: [bool; 2] = [false, true];

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
    for values in cases(ty(a))? {
        for seconds in cases(ty(b))? {
            let taken = taken(reducer, [values, seconds])?;
            choices.retain(|choice| {
                let takes_left = choice.takes_left(values.relation, seconds.relation);
                let mut both = takes_left.into_iter().zip(taken);
                let is_same = both.all(|(left, [is_left, is_right])| match left {
                    true => is_left,
                    false => is_right,
                });
                faults::holds(Fault::SelectsOtherPair, is_same)
            });
        }
    }
    choices.first().copied()
}

/// How two values of a type can lie to each other.
fn cases(ty: PrimitiveType) -> Option<Vec<Case>> {
    let related = |relations: &[Relation]| {
        let case = |&relation| Case {
            relation,
            truths: None,
        };
        Some(relations.iter().map(case).collect())
    };
    match ty {
        PrimitiveType::Pred => {
            let pairs = [[false, false], [true, true], [true, false], [false, true]];
            let of = |relation: &Relation, [a, b]: [bool; 2]| {
                relation.holds(CompareDirection::Gt) == (a & !b)
                    && relation.holds(CompareDirection::Lt) == (!a & b)
            };
            let cases = Relation::INTEGERS.iter().flat_map(|relation| {
                let own = pairs.into_iter().filter(|&pair| of(relation, pair));
                own.map(|pair| Case {
                    relation: *relation,
                    truths: Some(pair),
                })
            });
            Some(cases.collect())
        }
        _ if ty.is_floating() => related(&Relation::FLOATS),
        _ if ty.is_integral() => related(&Relation::INTEGERS),
        _ => None,
    }
}

/// For each of two results, whether it may be the left element of its pair, and whether it may be the right one.
fn taken(reducer: &Program, cases: [Case; 2]) -> Option<[[bool; 2]; 2]> {
    let mut values: Vec<Option<Value>> = vec![None; reducer.types.len()];
    for (at, &input) in reducer.inputs.iter().enumerate() {
        let (element, is_right) = (at % 2, at / 2);
        values[input.0 as usize] = Some(match cases[element].truths {
            Some(truths) => Value::Truth(truths[is_right]),
            None => Value::Element(element, if is_right == 0 { LEFT } else { RIGHT }),
        });
    }
    for step in &reducer.steps {
        values[step.result.0 as usize] = Some(computed(reducer, step, &values, cases)?);
    }
    let result = |k: usize| match (values[reducer.outputs[k].0 as usize]?, cases[k].truths) {
        (Value::Element(element, sides), None) if element == k => Some(sides),
        (Value::Truth(truth), Some(truths)) => Some(truths.map(|side| side == truth)),
        _ => None,
    };
    Some([result(0)?, result(1)?])
}

/// The result of a step; `None` where that depends on more than the case.
fn computed(
    reducer: &Program,
    step: &Step,
    values: &[Option<Value>],
    cases: [Case; 2],
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
                let sides = (left[0], right[0]);
                Value::Truth(compared(cases[x].relation, sides, direction))
            }
            (Value::Truth(a), Value::Truth(b)) => Value::Truth(ordered(a, b, direction)),
            _ => return None,
        },
        Op::Select => match truth(0)? {
            true => value(1)?,
            false => value(2)?,
        },
        Op::Unary(UnaryOp::Not) => Value::Truth(!truth(0)?),
        Op::Binary(op) => match (op, value(0)?, value(1)?) {
            (BinaryOp::And | BinaryOp::Minimum, Value::Truth(a), Value::Truth(b)) => {
                Value::Truth(a & b)
            }
            (BinaryOp::Or | BinaryOp::Maximum, Value::Truth(a), Value::Truth(b)) => {
                Value::Truth(a | b)
            }
            (BinaryOp::Xor, Value::Truth(a), Value::Truth(b)) => Value::Truth(a ^ b),
            // Of floats, zeros that compare equal differ, and so do NaN.
            (
                BinaryOp::Maximum | BinaryOp::Minimum,
                Value::Element(x, left),
                Value::Element(y, right),
            ) if x == y && !ty(step.result).is_floating() => {
                let more = match op {
                    BinaryOp::Maximum => CompareDirection::Gt,
                    _ => CompareDirection::Lt,
                };
                let is = |sides| compared(cases[x].relation, sides, more);
                match (is((left[0], right[0])), is((right[0], left[0]))) {
                    (true, _) => Value::Element(x, left),
                    (_, true) => Value::Element(x, right),
                    (false, false) => Value::Element(x, [left[0] | right[0], left[1] | right[1]]),
                }
            }
            _ => return None,
        },
        // Other types are compared in another order.
        Op::Bitcast if ty(step.operands[0]) == ty(step.result) => value(0)?,
        _ => return None,
    })
}

/// Whether one truth value is in an order to another one; false comes first.
fn ordered(a: bool, b: bool, direction: CompareDirection) -> bool {
    match direction {
        CompareDirection::Eq => a == b,
        CompareDirection::Ne => a != b,
        CompareDirection::Lt => !a & b,
        CompareDirection::Le => !a | b,
        CompareDirection::Gt => a & !b,
        CompareDirection::Ge => a | !b,
    }
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
    fn the_first_that_is_true_as_xla_simplifies_it() {
        let program = reducer(P::Pred, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, b]);
            let same = step(Op::Compare(CompareDirection::Eq), &[a, b]);
            let before = step(Op::Compare(CompareDirection::Lt), &[i, j]);
            let ties = step(Op::Binary(BinaryOp::And), &[same, before]);
            let left = step(Op::Binary(BinaryOp::Or), &[more, ties]);
            [
                step(Op::Binary(BinaryOp::Or), &[a, b]),
                step(Op::Select, &[left, i, j]),
            ]
        });
        let made = of(&program).unwrap();
        assert!(made.greater && !made.later);
        let program = reducer(P::S32, |step, [a, i, b, j]| {
            let more = step(Op::Compare(CompareDirection::Gt), &[a, b]);
            let same = step(Op::Compare(CompareDirection::Eq), &[a, b]);
            let ties = step(Op::Select, &[more, i, j]);
            let least = step(Op::Binary(BinaryOp::Minimum), &[i, j]);
            [
                step(Op::Binary(BinaryOp::Maximum), &[a, b]),
                step(Op::Select, &[same, least, ties]),
            ]
        });
        let made = of(&program).unwrap();
        assert!(made.greater && !made.later);
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
