//! A computation without parameters, planned by itself so that it can be run while planning.

use super::assign::{self, Assignment};
use super::executable::{Leaf, store_results};
use super::lower::Lowering;
use super::thunk::ThunkSequence;
use super::{CompileOptions, flat, small};
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

/// Runs a fragment: the row-major elements of every array of its result.
///
/// Planning cannot run anything itself; who compiles may lend it this, see
/// [`CompileOptions::evaluate`].
pub type Evaluate = fn(&Fragment<'_>) -> Result<Vec<Box<[u8]>>>;

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
    let assignment = assign::assign(&mut thunks, &lowering.buffers);
    small::prepare(&mut thunks);
    flat::prepare(&mut thunks);
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
