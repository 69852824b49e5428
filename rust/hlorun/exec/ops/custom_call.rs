//! Calls that need no code of their own, and those that nobody can run.

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::custom_call::CustomOp;

/// The error of a call that no hook took: names target, instruction and `op_name`.
pub fn run(op: &CustomOp) -> Result<()> {
    let of = match &op.info.op_name {
        Some(op_name) => format!(" ({op_name})"),
        None => String::new(),
    };
    Err(HloError::unsupported(
        format!(
            "{}{of}: custom call {:?} is not supported; register_custom_call gives it a meaning",
            op.info.instruction, op.info.target
        ),
        op.info.instruction.clone(),
    ))
}

/// Passes every operand on.
pub fn identity(inputs: &[RawArray], outputs: &[RawArray]) -> Result<()> {
    for (input, output) in inputs.iter().zip(outputs) {
        if input.dims != output.dims || input.element_type != output.element_type {
            return Err(HloError::execution(
                "an annotation that changes its operand",
            ));
        }
        input.copy_to(output);
    }
    Ok(())
}

/// Fills every result with zero bytes.
pub fn zeros(outputs: &[RawArray]) -> Result<()> {
    let mut zero = crate::buffers::AlignedBytes::zeroed(16)?;
    for output in outputs {
        let scalar = RawArray::over(&mut zero, output.element_type, &[]);
        super::reduce_window::broadcast(&scalar, output);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ops::custom_call::CustomCallInfo;

    #[test]
    fn targets_without_a_function_are_named() {
        let op = CustomOp {
            info: CustomCallInfo {
                target: "nobody.knows".into(),
                instruction: "call.7".into(),
                op_name: Some("jit(f)/call".into()),
                backend_config: Vec::new(),
            },
        };
        let error = run(&op).unwrap_err().to_string();
        for part in ["nobody.knows", "call.7", "jit(f)/call"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
