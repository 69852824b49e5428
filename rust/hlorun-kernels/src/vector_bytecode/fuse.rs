//! Steps that are one operation of vector bytecode together.
//!
//! In: steps, and how often each value is read. Out: what to do at each of them. A turn is `(x << d) | (x >>> e)`, of
//! which a rotation is one; a mix is a turn whose operand is also a summand: `s = x + y; t = s ^ turn(x)`, the round of
//! many ciphers and generators. Both have the bits of the steps one by one: shifts beyond the width give zero in either.

use super::{Op, Operand, Step};
use crate::ops::BinaryOp;

/// What to do at a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// What it says.
    Step,
    /// Nothing: a later step does it.
    Skip,
    Turn(Turn),
    Mix(Mix),
}

/// `(x << left) | (x >>> right)`; distances are values or small constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub x: u32,
    pub left: Operand,
    pub right: Operand,
}

/// `sum = x + other`, and `sum ^ turn(x)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub turn: Turn,
    pub other: u32,
    pub sum: u32,
}

/// The distance, where it is a constant that a code can hold.
pub(super) fn distance(operand: Operand) -> Option<u16> {
    match operand {
        Operand::Constant(bytes) => {
            let rest = bytes[2..8].iter().all(|&byte| byte == 0);
            rest.then(|| u16::from_le_bytes([bytes[0], bytes[1]]))
        }
        Operand::Value(_) => None,
    }
}

struct Finder<'s> {
    steps: &'s [Step],
    uses: &'s [u32],
    inputs: usize,
    acts: Vec<Act>,
}

/// What to do at each of `steps`, of which the first result has the number `inputs`.
pub(super) fn acts(steps: &[Step], uses: &[u32], inputs: usize) -> Vec<Act> {
    let mut finder = Finder {
        steps,
        uses,
        inputs,
        acts: vec![Act::Step; steps.len()],
    };
    for (at, step) in steps.iter().enumerate() {
        if step.from.is_integer() {
            finder.turn(at);
            finder.mix(at);
        }
    }
    finder.acts
}

impl Finder<'_> {
    /// The operands of the step at `at`, if it is `op`.
    fn operands(&self, at: usize, op: BinaryOp) -> Option<[Operand; 2]> {
        let step = &self.steps[at];
        (step.op == Op::Binary(op)).then(|| [step.operands[0], step.operands[1]])
    }

    /// The step that computes `operand`.
    fn of(&self, operand: Operand) -> Option<usize> {
        match operand {
            Operand::Value(value) => (value as usize).checked_sub(self.inputs),
            Operand::Constant(_) => None,
        }
    }

    fn is_read_once(&self, at: usize) -> bool {
        self.uses[self.inputs + at] == 1
    }

    fn turn(&mut self, at: usize) -> Option<()> {
        let [a, b] = self.operands(at, BinaryOp::Or)?;
        let (a, b) = (self.of(a)?, self.of(b)?);
        let is_left = self.operands(a, BinaryOp::ShiftLeft).is_some();
        let (left, right) = if is_left { (a, b) } else { (b, a) };
        let [x, by] = self.operands(left, BinaryOp::ShiftLeft)?;
        let [y, back] = self.operands(right, BinaryOp::ShiftRightLogical)?;
        let Operand::Value(value) = x else {
            return None;
        };
        let is_known = |by| matches!(by, Operand::Value(_)) || distance(by).is_some();
        if x != y
            || !is_known(by)
            || !is_known(back)
            || !self.is_read_once(left)
            || !self.is_read_once(right)
        {
            return None;
        }
        self.acts[left] = Act::Skip;
        self.acts[right] = Act::Skip;
        self.acts[at] = Act::Turn(Turn {
            x: value,
            left: by,
            right: back,
        });
        Some(())
    }

    fn mix(&mut self, at: usize) -> Option<()> {
        let [a, b] = self.operands(at, BinaryOp::Xor)?;
        let (a, b) = (self.of(a)?, self.of(b)?);
        let (sum, turned, turn) = match (self.acts[a], self.acts[b]) {
            (Act::Step, Act::Turn(turn)) => (a, b, turn),
            (Act::Turn(turn), Act::Step) => (b, a, turn),
            _ => return None,
        };
        let [x, y] = self.operands(sum, BinaryOp::Add)?;
        let other = match (x, y) {
            (Operand::Value(x), Operand::Value(y)) if x == turn.x && y != x => y,
            (Operand::Value(y), Operand::Value(x)) if x == turn.x && y != x => y,
            _ => return None,
        };
        let value = (self.inputs + sum) as u32;
        // The sum is made here; nobody may have read it before.
        let reads = |step: &Step| step.values().any(|read| read == value);
        if !self.is_read_once(turned)
            || self.is_read_once(sum)
            || self.steps[sum + 1..at].iter().any(reads)
        {
            return None;
        }
        self.acts[sum] = Act::Skip;
        self.acts[turned] = Act::Skip;
        self.acts[at] = Act::Mix(Mix {
            turn,
            other,
            sum: value,
        });
        Some(())
    }
}
