//! The order of steps: results are read while they are in the accumulator.
//!
//! In: steps, and the values that are stored. Out: the same steps in another order, without those that nothing reads. An
//! operand is computed right before what reads it, the one that takes most steps first, and a truth value as soon as its
//! operands are there: it is not kept in the accumulator.

use super::{Op, Operand, Step};
use crate::DType;

/// Steps, and the values that are stored.
pub(super) struct Ordered {
    pub steps: Vec<Step>,
    pub outputs: Vec<u32>,
}

/// The steps that are placed so far, and what is known of all.
struct Order<'s> {
    steps: &'s [Step],
    inputs: usize,
    /// For each step, how many steps it takes with its operands; shared ones are counted for every reader.
    sizes: Vec<usize>,
    /// For each step, those that read it and make a truth value.
    truths: Vec<Vec<usize>>,
    is_placed: Vec<bool>,
    placed: Vec<usize>,
}

/// Orders `steps`, of which the first result has the number `inputs`.
pub(super) fn by_use(steps: &[Step], inputs: usize, outputs: &[u32]) -> Ordered {
    let mut order = Order {
        steps,
        inputs,
        sizes: Vec::with_capacity(steps.len()),
        truths: vec![Vec::new(); steps.len()],
        is_placed: vec![false; steps.len()],
        placed: Vec::with_capacity(steps.len()),
    };
    let is_read = order.read_steps(outputs);
    for (at, step) in steps.iter().enumerate() {
        let mut size = 1usize;
        for operand in order.operands(at) {
            size = size.saturating_add(order.sizes[operand]);
            if is_read[at] && makes_truth(step) {
                order.truths[operand].push(at);
            }
        }
        order.sizes.push(size);
    }
    for &output in outputs {
        order.place_all(output as usize - inputs);
    }
    order.renumbered(outputs)
}

/// Whether a step makes a truth value and leaves the accumulator as it is.
fn makes_truth(step: &Step) -> bool {
    match step.op {
        Op::Compare(_) => true,
        Op::Unary(_) | Op::Binary(_) => step.from == DType::Pred,
        _ => false,
    }
}

impl Order<'_> {
    /// The steps that a step reads.
    fn operands(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let inputs = self.inputs;
        let values = self.steps[at].values();
        values.filter_map(move |value| (value as usize).checked_sub(inputs))
    }

    /// Which steps a result depends on.
    fn read_steps(&self, outputs: &[u32]) -> Vec<bool> {
        let mut is_read = vec![false; self.steps.len()];
        for &output in outputs {
            is_read[output as usize - self.inputs] = true;
        }
        for at in (0..self.steps.len()).rev() {
            if is_read[at] {
                self.operands(at)
                    .for_each(|operand| is_read[operand] = true);
            }
        }
        is_read
    }

    /// Places a step behind all that it reads.
    fn place_all(&mut self, last: usize) {
        let mut waiting = vec![(last, false)];
        while let Some((at, is_ready)) = waiting.pop() {
            if self.is_placed[at] {
                continue;
            }
            if is_ready {
                self.place(at);
                continue;
            }
            waiting.push((at, true));
            let mut operands: Vec<usize> = self.operands(at).collect();
            operands.retain(|&operand| !self.is_placed[operand]);
            // The last one is placed first.
            let steps = self.steps;
            operands
                .sort_by_key(|&operand| (steps[operand].to == DType::Pred, self.sizes[operand]));
            waiting.extend(operands.into_iter().map(|operand| (operand, false)));
        }
    }

    /// Places a step, and the truth values that wait for nothing else.
    fn place(&mut self, at: usize) {
        let mut next = vec![at];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut self.is_placed[at], true) {
                continue;
            }
            self.placed.push(at);
            let is_ready = |&truth: &usize| {
                let mut operands = self.operands(truth);
                operands.all(|operand| self.is_placed[operand])
            };
            next.extend(self.truths[at].iter().copied().filter(is_ready));
        }
    }

    fn renumbered(&self, outputs: &[u32]) -> Ordered {
        let mut numbers = vec![0; self.steps.len()];
        for (number, &at) in (self.inputs as u32..).zip(&self.placed) {
            numbers[at] = number;
        }
        let number = |value: u32| match (value as usize).checked_sub(self.inputs) {
            Some(at) => numbers[at],
            None => value,
        };
        let renumber = |&at: &usize| Step {
            operands: self.steps[at].operands.map(|operand| match operand {
                Operand::Value(value) => Operand::Value(number(value)),
                constant => constant,
            }),
            ..self.steps[at]
        };
        Ordered {
            steps: self.placed.iter().map(renumber).collect(),
            outputs: outputs.iter().map(|&value| number(value)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{BinaryOp, CompareDirection};

    fn binary(op: BinaryOp, operands: [u32; 2]) -> Step {
        let [x, y] = operands.map(Operand::Value);
        Step {
            op: Op::Binary(op),
            operands: [x, y, Operand::Constant([0; 16])],
            count: 2,
            from: DType::F32,
            to: DType::F32,
        }
    }

    fn compare(operands: [u32; 2]) -> Step {
        Step {
            op: Op::Compare(CompareDirection::Lt),
            to: DType::Pred,
            ..binary(BinaryOp::Add, operands)
        }
    }

    fn select(operands: [u32; 3]) -> Step {
        Step {
            op: Op::Select,
            operands: operands.map(Operand::Value),
            count: 3,
            ..binary(BinaryOp::Add, [0, 0])
        }
    }

    /// Operations and operands of the steps in their new order, with one input.
    fn ordered(steps: &[Step], outputs: &[u32]) -> (Vec<(Op, Vec<u32>)>, Vec<u32>) {
        let ordered = by_use(steps, 1, outputs);
        let step = |step: &Step| (step.op, step.values().collect());
        (ordered.steps.iter().map(step).collect(), ordered.outputs)
    }

    #[test]
    fn an_operand_is_computed_right_before_what_reads_it() {
        use BinaryOp::{Add, Divide, Maximum, Multiply, Subtract};
        // Two chains, a step of each in turn.
        let steps = [
            binary(Add, [0, 0]),
            binary(Multiply, [0, 0]),
            binary(Subtract, [1, 0]),
            binary(Divide, [2, 0]),
            binary(Multiply, [4, 0]),
            binary(Maximum, [3, 5]),
        ];
        let (order, outputs) = ordered(&steps, &[6]);
        let op = |op, operands: [u32; 2]| (Op::Binary(op), operands.to_vec());
        let want = [
            op(Multiply, [0, 0]),
            op(Divide, [1, 0]),
            op(Multiply, [2, 0]),
            op(Add, [0, 0]),
            op(Subtract, [4, 0]),
            op(Maximum, [5, 3]),
        ];
        assert_eq!(
            (order.as_slice(), outputs.as_slice()),
            (&want[..], &[6][..])
        );
    }

    #[test]
    fn a_truth_value_is_computed_as_soon_as_its_operands_are_there() {
        let steps = [
            binary(BinaryOp::Add, [0, 0]),
            binary(BinaryOp::Multiply, [1, 1]),
            compare([1, 0]),
            select([3, 2, 1]),
        ];
        let (order, outputs) = ordered(&steps, &[4]);
        let ops: Vec<Op> = order.iter().map(|(op, _)| *op).collect();
        let want = [steps[0].op, steps[2].op, steps[1].op, steps[3].op];
        assert_eq!((ops.as_slice(), outputs.as_slice()), (&want[..], &[4][..]));
        assert_eq!(order[3].1, [2, 3, 1]);
    }

    #[test]
    fn what_nothing_reads_is_left_out() {
        let steps = [
            binary(BinaryOp::Add, [0, 0]),
            binary(BinaryOp::Multiply, [0, 0]),
            compare([2, 0]),
        ];
        let (order, outputs) = ordered(&steps, &[2]);
        assert_eq!(order, [(steps[1].op, vec![0, 0])]);
        assert_eq!(outputs, [1]);
    }
}
