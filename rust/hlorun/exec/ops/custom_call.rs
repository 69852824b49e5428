//! Calls of functions the user registered, by target.
//!
//! In: a target's name and a function, for the life of the process. Out: the function is called with
//! the arrays of every call of that target; a target without one is an error that names target,
//! instruction and `op_name`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::plan::ops::custom_call::{CustomCallInfo, CustomOp};

/// What a target does: reads the operands' leaves, writes every element of the results' leaves.
pub type CustomCallFunction =
    dyn Fn(&CustomCallInfo, &[RawArray], &[RawArray]) -> Result<()> + Send + Sync;

static REGISTRY: LazyLock<RwLock<HashMap<String, Arc<CustomCallFunction>>>> =
    LazyLock::new(Default::default);

/// Runs `function` for every call of `target` from now on; it replaces an earlier one.
pub fn register_custom_call(target: &str, function: Box<CustomCallFunction>) {
    let mut registry = REGISTRY
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    registry.insert(target.to_owned(), Arc::from(function));
}

/// Forgets `target`; says whether there was a function.
pub fn unregister_custom_call(target: &str) -> bool {
    let mut registry = REGISTRY
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    registry.remove(target).is_some()
}

/// Whether `target` has a function.
pub fn is_registered(target: &str) -> bool {
    let registry = REGISTRY
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    registry.contains_key(target)
}

/// Runs `op`.
pub fn run(op: &CustomOp, inputs: &[RawArray], outputs: &[RawArray]) -> Result<()> {
    let function = {
        let registry = REGISTRY
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        registry.get(&op.info.target).cloned()
    };
    match function {
        Some(function) => function(&op.info, inputs, outputs),
        None => {
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
    }
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
        let error = run(&op, &[], &[]).unwrap_err().to_string();
        for part in ["nobody.knows", "call.7", "jit(f)/call"] {
            assert!(error.contains(part), "{error}");
        }
        register_custom_call("nobody.knows", Box::new(|_, _, _| Ok(())));
        assert!(run(&op, &[], &[]).is_ok());
        assert!(unregister_custom_call("nobody.knows"));
    }
}
