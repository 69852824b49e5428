//! Machine code for vector bytecode.
//!
//! In: thunks with vector bytecode. Out: the same, each told after how much work it becomes machine code. Promise: results
//! are the same to the bit. It is switched off by the name of the machine code of scalar bytecode
//! ([`crate::plan::thunk::machine_code`]).

use crate::plan::cost;
use crate::plan::options::MachineCode;
use crate::plan::thunk::{ThunkKind, ThunkSequence};

/// Says for the programs of `thunks`, those inside of others included, when they become machine code.
///
/// Recursion is bounded by the nesting the lowering allows.
pub fn prepare(thunks: &mut ThunkSequence, when: MachineCode) {
    let Some(work) = cost::machine_code::vector_work(when.asked()) else {
        return;
    };
    for thunk in thunks {
        match &mut thunk.kind {
            ThunkKind::Loop(fused) => {
                fused.program.make_machine_code_after(work);
                if let Some(rows) = &mut fused.rows {
                    rows.code.make_machine_code_after(work);
                }
            }
            ThunkKind::Reduce(reduction) => {
                reduction.program.make_machine_code_after(work);
                reduction.combiner.make_machine_code_after(work);
                if let Some(columns) = &mut reduction.columns {
                    columns.make_machine_code_after(work);
                }
                if let Some(rows) = &mut reduction.rows {
                    rows.code.make_machine_code_after(work);
                }
            }
            ThunkKind::RowTiled(tiled) => prepare(&mut tiled.members, when),
            _ => {}
        }
        for nested in thunk.nested_mut() {
            prepare(nested, when);
        }
    }
}
