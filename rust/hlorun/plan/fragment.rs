//! A computation without parameters, planned by itself so that it can be run while planning.

use super::executable::{Leaf, place, store_results};
use super::lower::Lowering;
use super::memory::assign::Assignment;
use super::options::CompileOptions;
use super::schedule::{scalar_bytecode, small_loop};
use super::thunk::ThunkSequence;
use crate::error::{HloError, Result};
use crate::module::{ComputationId, HloModule};

/// What it takes to run a computation without parameters.
pub struct Fragment<'m> {
    /// Where its constants are.
    pub module: &'m HloModule,
    /// The steps.
    pub thunks: ThunkSequence,
    /// The memory.
    pub assignment: Assignment,
    /// Arrays of the result, in order.
    pub outputs: Vec<Leaf>,
}

/// Plans `computation`, a flattened one.
///
/// Errors: as for [`super::compile`].
pub fn plan<'m>(
    module: &'m HloModule,
    computation: ComputationId,
    options: &CompileOptions,
) -> Result<Fragment<'m>> {
    let root = module
        .computation(computation)
        .root
        .ok_or_else(|| HloError::execution("a computation has no root"))?;
    let mut lowering = Lowering::new(module, options);
    let (mut thunks, result) = lowering.computation(computation, &[])?;
    let outputs = store_results(&mut lowering, &mut thunks, root, &result);
    let assignment = place(&mut thunks, &lowering.buffers, module, options)?;
    small_loop::prepare(&mut thunks);
    scalar_bytecode::prepare(&mut thunks, options.machine_code);
    Ok(Fragment {
        module,
        thunks,
        assignment,
        outputs: outputs
            .iter()
            .map(|view| Leaf {
                element_type: view.element_type,
                dims: view.dims.clone(),
            })
            .collect(),
    })
}
