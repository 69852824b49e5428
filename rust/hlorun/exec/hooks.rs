//! Arrays as hooks see them: during the call only, and never by their addresses.
//!
//! Comes in: arrays of a step that the caller's code is asked to look at or to run. Goes out: copies
//! of their elements, and results whose sizes were checked. Promise: no code outside the crate can
//! keep an array beyond the call or leave a result unwritten.

use std::cell::Cell;

use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::module::InstructionId;
use crate::plan::ops::custom_call::CustomCallInfo;
use crate::types::PrimitiveType;

/// An array that may be read.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a>(&'a RawArray);

/// The arrays, to read.
pub(crate) fn array_refs(arrays: &[RawArray]) -> Vec<ArrayRef<'_>> {
    arrays.iter().map(ArrayRef).collect()
}

impl ArrayRef<'_> {
    /// Type of an element.
    pub fn element_type(&self) -> PrimitiveType {
        self.0.element_type
    }

    /// Logical sizes.
    pub fn dims(&self) -> &[i64] {
        &self.0.dims
    }

    /// A copy of the elements in row-major order.
    pub fn to_row_major(&self) -> Result<AlignedBytes<u8>> {
        self.0.to_row_major()
    }
}

/// An array that has to be written.
pub struct ArrayMut<'a> {
    array: &'a RawArray,
    is_written: Cell<bool>,
}

impl ArrayMut<'_> {
    /// Type of an element.
    pub fn element_type(&self) -> PrimitiveType {
        self.array.element_type
    }

    /// Logical sizes.
    pub fn dims(&self) -> &[i64] {
        &self.array.dims
    }

    /// Writes all elements, given in row-major order.
    ///
    /// Errors: `HloError::Execution` where `bytes` are those of more or fewer elements.
    pub fn write_row_major(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.array.byte_size() {
            return Err(HloError::execution(format!(
                "a result of {} bytes instead of {}",
                bytes.len(),
                self.array.byte_size()
            )));
        }
        // Only read from.
        let source = RawArray {
            pointer: bytes.as_ptr().cast_mut(),
            element_type: self.array.element_type,
            dims: self.array.dims.clone(),
            strides: RawArray::row_major_strides(&self.array.dims),
        };
        source.copy_to(self.array);
        self.is_written.set(true);
        Ok(())
    }
}

/// Lets `hook` run a call; `None` where it does not know the target.
///
/// Errors: the hook's; `HloError::Execution` where it left a result unwritten.
pub(crate) fn run_custom_call(
    hook: &CustomCallHook<'_>,
    id: InstructionId,
    info: &CustomCallInfo,
    inputs: &[RawArray],
    outputs: &[RawArray],
) -> Option<Result<()>> {
    let targets: Vec<_> = outputs
        .iter()
        .map(|array| ArrayMut {
            array,
            is_written: Cell::new(array.count() == 0),
        })
        .collect();
    let result = hook(id, info, &array_refs(inputs), &targets)?;
    let is_written = targets.iter().all(|target| target.is_written.get());
    Some(result.and_then(|()| match is_written {
        true => Ok(()),
        false => Err(HloError::execution(format!(
            "custom call {:?} left a result unwritten",
            info.target
        ))),
    }))
}

/// See [`RunOptions::observer`].
pub type Observer<'r> = dyn Fn(u32, InstructionId, &[ArrayRef<'_>]) -> Result<()> + Sync + 'r;

/// See [`RunOptions::custom_call`]: gets the instruction, and reads the operands' arrays and writes
/// all of the results'; one it leaves out is an error.
pub type CustomCallHook<'r> = dyn Fn(InstructionId, &CustomCallInfo, &[ArrayRef<'_>], &[ArrayMut<'_>]) -> Option<Result<()>>
    + Sync
    + 'r;
