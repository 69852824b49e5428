//! `send`, `recv` and their `-done`.
//!
//! A `send` posts its operand at once; a `recv` only stands for what is to come, and its `-done`
//! waits for it. So no device waits before it has sent.

use super::{Lowering, Scope, Value, collect_leaves};
use crate::error::Result;
use crate::module::{HloOpcode, InstructionRef};
use crate::plan::ops::{OpKind, OpThunk};
use crate::plan::spmd::groups::Devices;
use crate::plan::spmd::transfer;
use crate::plan::thunk::ThunkKind;
use crate::plan::view::ArrayView;

impl<'m> Lowering<'m> {
    pub(super) fn transfer(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
    ) -> Result<Value> {
        transfer::check(instruction)?;
        match instruction.opcode() {
            HloOpcode::Send => {
                let sent = self.operand(scope, instruction, 0)?;
                let mut inputs = Vec::new();
                collect_leaves(&sent, &mut inputs);
                self.queue(scope, instruction, inputs, Vec::new())?;
                let mut context = Vec::new();
                let parts = self.module.shapes().get(instruction.shape_id()).as_tuple();
                let id = match parts {
                    Some(&[_, id, _]) => self.allocate_value(instruction, id, &mut context)?,
                    _ => Value::Nothing,
                };
                push_zeros(scope, instruction, context);
                Ok(Value::Tuple([sent, id, Value::Nothing].into()))
            }
            HloOpcode::Recv => {
                let mut outputs = Vec::new();
                let value =
                    self.allocate_value(instruction, instruction.shape_id(), &mut outputs)?;
                push_zeros(scope, instruction, outputs);
                Ok(value)
            }
            HloOpcode::RecvDone => {
                let mut outputs = Vec::new();
                let value =
                    self.allocate_value(instruction, instruction.shape_id(), &mut outputs)?;
                self.queue(scope, instruction, Vec::new(), outputs)?;
                Ok(value)
            }
            _ => Ok(Value::Nothing),
        }
    }

    fn queue(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        inputs: Vec<ArrayView>,
        outputs: Vec<ArrayView>,
    ) -> Result<()> {
        let devices = Devices {
            replicas: self.options.replicas.max(1),
            partitions: self.options.partitions.max(1),
        };
        let thunk = transfer::plan(self.module, instruction, devices, inputs, outputs)?;
        scope.push(instruction.id, ThunkKind::Collective(Box::new(thunk)));
        Ok(())
    }
}

fn push_zeros(scope: &mut Scope<'_>, instruction: InstructionRef<'_>, outputs: Vec<ArrayView>) {
    scope.push(
        instruction.id,
        ThunkKind::Op(Box::new(OpThunk {
            kind: OpKind::Zeros,
            inputs: Vec::new(),
            outputs,
        })),
    );
}
