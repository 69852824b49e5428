//! Loops of small steps, and the small steps of the entry, made ready as scalar bytecode.
//!
//! In: a [`WhileThunk`], or the thunks of the entry, whose memory is assigned. Out: a [`ScalarProgram`]: operations on places
//! that a run turns into addresses once, before the first trip, with jumps for conditions, branches and
//! inner loops. A trip then asks nothing about thunks, views and lengths, which over scalars is
//! most of what it does. What is no small step stays a thunk, which the code leaves for. The code of the entry leaves for
//! its loops as well: each of them has its own code.
//!
//! The operations are those that [`super::small_loop`]'s loops run, in the same order, so the bits are
//! the same.

mod builder;
pub mod folds;
mod gathers;
mod moves;
pub mod products;
mod steps;

use hlorun_kernels::scalar_bytecode::{self};

use crate::plan::cost::scalar_bytecode::{FUEL, MAX_OPS, MIN_STEPS};
use crate::plan::faults::{self, Fault};
use crate::plan::options::MachineCode;
use crate::plan::schedule::small_loop;
use crate::plan::thunk::machine_code::Compiled;
use crate::plan::thunk::scalar_bytecode::{Kept, Place, ScalarProgram};
use crate::plan::thunk::{ConditionalThunk, Thunk, ThunkKind, WhileThunk};
use crate::types::PrimitiveType;
use builder::Builder;
use moves::place;
use steps::SmallCode;

/// Name by which it is switched off.
pub const NAME: &str = "scalar-bytecode";

/// Makes the outermost loops among `thunks` ready.
pub fn prepare(thunks: &mut [Thunk], machine_code: MachineCode) {
    let mut rest: Vec<&mut Thunk> = thunks.iter_mut().collect();
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::While(repeated) => {
                make_ready(repeated);
                repeated.bytecode = of_loop(repeated, machine_code);
                if repeated.bytecode.is_none() {
                    rest.extend(repeated.condition.iter_mut().chain(&mut repeated.body));
                }
            }
            ThunkKind::Conditional(choice) => rest.extend(choice.branches.iter_mut().flatten()),
            _ => {}
        }
    }
}

/// The code of the entry's thunks, whose loops were made ready before; `None` where fewer than [`MIN_STEPS`] of them are small
/// steps, or where there would be too many operations.
pub fn of_entry(thunks: &[Thunk], machine_code: MachineCode) -> Option<Box<ScalarProgram>> {
    let mut builder = Builder {
        is_entry: true,
        ..Builder::default()
    };
    builder.sequence(0, thunks)?;
    let work = builder.work;
    (builder.steps >= MIN_STEPS).then(|| builder.finish(work, machine_code))?
}

/// Makes the fused loops of a trip ready that are so only step by step.
fn make_ready(repeated: &mut WhileThunk) {
    let mut rest: Vec<&mut Thunk> = Vec::new();
    rest.extend(repeated.condition.iter_mut().chain(&mut repeated.body));
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::Loop(fused) => small_loop::run_step_by_step(fused),
            ThunkKind::While(inner) => {
                rest.extend(inner.condition.iter_mut().chain(&mut inner.body));
            }
            ThunkKind::Conditional(choice) => rest.extend(choice.branches.iter_mut().flatten()),
            _ => {}
        }
    }
}

/// Makes the loops inside `thunk` that were ready before ready for slices that have changed since.
pub fn renew(thunk: &mut Thunk) {
    let mut rest = vec![thunk];
    while let Some(thunk) = rest.pop() {
        match &mut thunk.kind {
            ThunkKind::While(repeated) => {
                if let Some(before) = &repeated.bytecode {
                    let when = before.compiled.when();
                    repeated.bytecode = of_loop(repeated, when);
                }
                rest.extend(repeated.condition.iter_mut().chain(&mut repeated.body));
            }
            ThunkKind::Conditional(choice) => rest.extend(choice.branches.iter_mut().flatten()),
            _ => {}
        }
    }
}

fn of_loop(repeated: &WhileThunk, when: MachineCode) -> Option<Box<ScalarProgram>> {
    let mut builder = Builder::default();
    builder.while_loop(repeated)?;
    // The jump back says so.
    let work = builder.ops.last()?.n;
    (builder.steps > 0).then(|| builder.finish(work, when))?
}

impl Builder {
    /// The program. In `work` each thunk outside counts as a reason to look for the wish to end the run, which is taken off.
    fn finish(mut self, work: usize, when: MachineCode) -> Option<Box<ScalarProgram>> {
        let work = work.saturating_sub(self.outside.len() * FUEL as usize);
        self.push(scalar_bytecode::end());
        (self.ops.len() <= MAX_OPS).then(|| {
            Box::new(ScalarProgram {
                ops: self.ops.into(),
                known: self.known.into(),
                walks: self.walks.into(),
                products: self.products.into(),
                choices: self.choices.into(),
                outside: self.outside.into(),
                work,
                compiled: Compiled::new(when),
                kept: Kept::default(),
            })
        })
    }

    /// Recursion here and below is bounded by the nesting the lowering allows. `None` where a loop
    /// or branch inside cannot be told.
    fn sequence(&mut self, number: u32, thunks: &[Thunk]) -> Option<()> {
        for (at, thunk) in thunks.iter().enumerate() {
            self.path.push((number, at as u32));
            self.thunk(thunk)?;
            self.path.pop();
            if self.ops.len() > MAX_OPS {
                return None;
            }
        }
        Some(())
    }

    fn thunk(&mut self, thunk: &Thunk) -> Option<()> {
        let mark = self.mark();
        let done = match &thunk.kind {
            ThunkKind::Loop(fused) => fused
                .small
                .as_ref()
                .and_then(|small| SmallCode::new(self, fused, small, 0).run()),
            ThunkKind::Copy(copy) => self.copy(copy),
            ThunkKind::Reduce(reduction) => self.reduce(reduction),
            ThunkKind::Gemm(product) => self.product(product),
            ThunkKind::Op(op) => self.operation(op),
            ThunkKind::While(repeated) if !self.is_entry => return self.while_loop(repeated),
            ThunkKind::Conditional(choice) => match self.conditional(choice) {
                Some(()) => return Some(()),
                // A loop is code as a whole or not at all.
                None if !self.is_entry => return None,
                None => None,
            },
            ThunkKind::Nop => return Some(()),
            _ => None,
        };
        if faults::holds(Fault::ScalarCodeSkipsThunk, done.is_some()) {
            self.steps += 1;
        } else {
            self.go_back(&mark);
            self.breathe();
            let number = self.outside.len() as i64;
            self.outside.push(self.path.clone());
            self.push(scalar_bytecode::outside()).x = number;
            self.work += FUEL as usize;
        }
        Some(())
    }

    fn while_loop(&mut self, repeated: &WhileThunk) -> Option<()> {
        let predicate = place(&repeated.predicate)?;
        let before = self.work;
        let to_condition = self.ops.len();
        self.push(scalar_bytecode::jump());
        let start = self.ops.len();
        self.sequence(1, &repeated.body)?;
        self.land(to_condition);
        self.comparison = None;
        self.sequence(0, &repeated.condition)?;
        let mut operands = [predicate, Place::Nowhere, Place::Nowhere];
        let mut function = scalar_bytecode::back_if();
        // Nobody else reads what the condition's last step says.
        if let Some((at, direction, ty)) = self.comparison
            && at + 1 == self.ops.len()
            && self.ops[at].out == predicate
            && let Some(both) = scalar_bytecode::back_if_compare(direction, ty)
        {
            (operands, function) = (self.ops[at].operands, both);
            self.ops.truncate(at);
        }
        let (back, work) = (self.ops.len(), self.work - before);
        let jump = self.push(function);
        (jump.operands, jump.n) = (operands, work);
        jump.x = start as i64 - back as i64;
        Some(())
    }

    fn conditional(&mut self, choice: &ConditionalThunk) -> Option<()> {
        let selector = place(&choice.selector)?;
        let branches = &choice.branches;
        let mut ends = Vec::with_capacity(branches.len());
        match choice.selector.element_type {
            PrimitiveType::Pred if branches.len() == 2 => {
                let no = self.ops.len();
                self.push(scalar_bytecode::jump_if_zero()).operands[0] = selector;
                self.sequence(0, &branches[0])?;
                ends.push(self.ops.len());
                self.push(scalar_bytecode::jump());
                self.land(no);
                self.sequence(1, &branches[1])?;
            }
            PrimitiveType::S32 => {
                let switch = self.push(scalar_bytecode::switch());
                (switch.operands[0], switch.n) = (selector, branches.len());
                let table = self.ops.len();
                for _ in branches {
                    self.push(scalar_bytecode::jump());
                }
                for (case, branch) in branches.iter().enumerate() {
                    self.land(table + case);
                    self.sequence(case as u32, branch)?;
                    ends.push(self.ops.len());
                    self.push(scalar_bytecode::jump());
                }
            }
            _ => return None,
        }
        for end in ends {
            self.land(end);
        }
        // Other branches come to here without what the last one compares.
        self.comparison = None;
        Some(())
    }
}
