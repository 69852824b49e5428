//! Collectives among the replicas that run.

use super::environment::Environment;
use crate::error::{HloError, Result};
use crate::plan::collective::{CollectiveKind, CollectiveThunk};

/// Runs a collective of one replica: it meets nobody, so it keeps what it has.
pub fn run(thunk: &CollectiveThunk, environment: &Environment<'_>) -> Result<()> {
    let memory = &environment.memory;
    match &thunk.kind {
        CollectiveKind::Permute { pairs } => {
            for (input, output) in thunk.inputs.iter().zip(&thunk.outputs) {
                if pairs.iter().any(|p| p.0 == 0 && p.1 == 0) {
                    memory.array(input).copy_to(&memory.array(output));
                } else {
                    let size = output.count() * output.element_type.size_bytes();
                    // SAFETY: outputs are dense and have this many bytes.
                    unsafe { std::ptr::write_bytes(memory.first(output), 0, size) };
                }
            }
            Ok(())
        }
        CollectiveKind::RaggedAllToAll => Err(HloError::unsupported(
            "ragged-all-to-all is not supported",
            "",
        )),
        CollectiveKind::AllReduce(_)
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Broadcast => {
            for (input, output) in thunk.inputs.iter().zip(&thunk.outputs) {
                if input.dims != output.dims {
                    return Err(HloError::unsupported(
                        "a gathering or scattering collective needs as many replicas as its groups have; run with replicas=N",
                        "",
                    ));
                }
                memory.array(input).copy_to(&memory.array(output));
            }
            Ok(())
        }
    }
}
