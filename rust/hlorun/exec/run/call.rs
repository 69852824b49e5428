//! Runs an executable on slices.
//!
//! In: the bytes of every input. Out: the bytes of every output, in memory of their own. Promise: any
//! slices are safe to pass.

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::options::RunOptions;
use crate::plan::Executable;

/// Bytes at an address that suits every element type.
enum Aligned<'a> {
    Given(&'a [u8]),
    Copied(AlignedBytes<u8>),
}

impl Executable {
    /// Runs once: `inputs` holds the dense row-major elements of every leaf of
    /// [`Executable::inputs`]; the result those of [`Executable::outputs`].
    ///
    /// Errors: `HloError::Argument` for a wrong number of slices or bytes; `HloError::Execution` when
    /// memory runs out or the caller interrupts.
    pub fn call(
        &self,
        inputs: &[&[u8]],
        options: &RunOptions<'_>,
    ) -> Result<Vec<AlignedBytes<u8>>> {
        if inputs.len() != self.inputs().len() {
            return Err(HloError::argument(format!(
                "expected {} inputs, got {}",
                self.inputs().len(),
                inputs.len()
            )));
        }
        let mut sources = Vec::with_capacity(inputs.len());
        for (k, (leaf, &bytes)) in self.inputs().iter().zip(inputs).enumerate() {
            if bytes.len() != leaf.byte_size() {
                return Err(HloError::argument(format!(
                    "input {k}: expected {} bytes, got {}",
                    leaf.byte_size(),
                    bytes.len()
                )));
            }
            let alignment = leaf.element_type.component().size_bytes().max(1);
            sources.push(match bytes.as_ptr().addr().is_multiple_of(alignment) {
                true => Aligned::Given(bytes),
                false => Aligned::Copied(AlignedBytes::copy_of(bytes)?),
            });
        }
        let mut results = self
            .outputs()
            .iter()
            .map(|leaf| AlignedBytes::uninitialized(leaf.byte_size()))
            .collect::<Result<Vec<_>>>()?;
        let from: Vec<*const u8> = sources
            .iter()
            .map(|source| match source {
                Aligned::Given(bytes) => bytes.as_ptr(),
                Aligned::Copied(bytes) => bytes.as_ptr(),
            })
            .collect();
        let to: Vec<*mut u8> = results.iter_mut().map(AlignedBytes::as_mut_ptr).collect();
        // SAFETY: every input was found to have its leaf's size and alignment and is borrowed during
        // the run; every output is a block of its leaf's size of its own.
        unsafe { self.run(&from, &to, options)? };
        // SAFETY: a run that succeeds has written all of its outputs.
        let written = |block: AlignedBytes| unsafe { block.assume_init() };
        Ok(results.into_iter().map(written).collect())
    }
}
