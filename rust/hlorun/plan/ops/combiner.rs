//! Computations applied element by element, compiled, with the common ones recognised.
//!
//! In: a `to_apply`-like computation. Out: a [`Combiner`]. Promise: a computation is recognised by
//! what its instructions do, never by its name.

use crate::error::Result;
use crate::module::{AttrKey, ComputationId, HloModule, HloOpcode, InstructionId, InstructionRef};
use crate::plan::element::program::Program;
use crate::plan::element::{elementwise, scalar};
use crate::plan::error::unsupported;
use hlorun_kernels::BinaryOp;

/// A computation of two values that is simpler than its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortcut {
    /// One two-operand kernel over parameter 0 and parameter 1, or the other way round when it
    /// commutes.
    Binary(BinaryOp),
    /// The value of parameter 1: an overwrite.
    Second,
    /// The value of parameter 0.
    First,
}

/// A compiled computation.
#[derive(Clone, Debug)]
pub struct Combiner {
    /// The code; inputs are the parameters in order, outputs the leaves of the root.
    pub program: Program,
    /// Set when it has two parameters and is a plain operation.
    pub shortcut: Option<Shortcut>,
}

impl Combiner {
    /// Compiles the computation behind the attribute `key` of `instruction`, which takes `inputs`
    /// scalars and returns `outputs`.
    ///
    /// Errors: names the instruction when the attribute is missing, when the numbers differ, or
    /// when the computation holds something that has no elementwise meaning.
    pub fn of(
        instruction: InstructionRef<'_>,
        key: AttrKey,
        inputs: usize,
        outputs: usize,
    ) -> Result<Combiner> {
        let name = key.name().unwrap_or("to_apply");
        let Some(computation) = instruction.computation_attribute(key) else {
            return Err(unsupported(instruction, format!("no {name} computation")));
        };
        let module = instruction.module;
        let program = scalar::compile(module, computation)?;
        if program.inputs.len() != inputs || program.outputs.len() != outputs {
            return Err(unsupported(
                instruction,
                format!(
                    "{name} takes {} values and returns {}; expected {inputs} and {outputs}",
                    program.inputs.len(),
                    program.outputs.len()
                ),
            ));
        }
        let shortcut = (inputs == 2 && outputs == 1)
            .then(|| shortcut(module, computation))
            .flatten();
        Ok(Combiner { program, shortcut })
    }
}

/// The value that `id` passes on unchanged: looks through copies, reshapes of scalars and one-element
/// tuples.
pub fn origin(module: &HloModule, mut id: InstructionId) -> InstructionId {
    use HloOpcode as H;
    // Operands come before their users, so the walk ends; the bound holds for odd texts as well.
    for _ in 0..module.instruction_count() {
        let instruction = module.instruction(id);
        let operands = instruction.operand_ids();
        match (instruction.opcode(), operands) {
            (
                H::Copy | H::Reshape | H::Broadcast | H::Transpose | H::OptimizationBarrier,
                &[from],
            ) if instruction.array_shape().is_some() && !instruction.changes_element_type() => {
                id = from;
            }
            (H::Tuple, &[from]) => id = from,
            _ => break,
        }
    }
    id
}

fn shortcut(module: &HloModule, computation: ComputationId) -> Option<Shortcut> {
    let root = origin(module, module.computation(computation).root?);
    let root = module.instruction(root);
    let parameter = |id| module.instruction(origin(module, id)).parameter_number();
    if let Some(number) = root.parameter_number() {
        return match number {
            0 => Some(Shortcut::First),
            1 => Some(Shortcut::Second),
            _ => None,
        };
    }
    let op = elementwise::binary_op(root.opcode())?;
    let &[a, b] = root.operand_ids() else {
        return None;
    };
    match (parameter(a)?, parameter(b)?) {
        (0, 1) => Some(Shortcut::Binary(op)),
        (1, 0) if commutes(op) => Some(Shortcut::Binary(op)),
        _ => None,
    }
}

fn commutes(op: BinaryOp) -> bool {
    use BinaryOp as B;
    matches!(
        op,
        B::Add | B::Multiply | B::Maximum | B::Minimum | B::And | B::Or | B::Xor
    )
}
