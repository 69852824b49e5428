//! Computes values and folds them in one pass, plane by plane; see [`crate::plan::schedule::column_folds`].

use std::ops::Range;

use hlorun_kernels::Scratch;
use hlorun_kernels::vector_bytecode::{ColumnFold, Rows};
use smallvec::SmallVec;

use crate::error::Result;
use crate::exec::element::sources::Sources;
use crate::plan::schedule::column_folds::{Planes, plane_of, planes};
use crate::plan::schedule::scalar_bytecode::folds::result_of;
use crate::plan::thunk::ReduceThunk;
use crate::plan::view::offset_in;

/// A reduction over rows of planes.
pub(super) struct Columns<'t> {
    thunk: &'t ReduceThunk,
    code: &'t ColumnFold,
    /// How the inputs of the program lie, and which of the loads each is.
    inputs: SmallVec<[(Planes, usize); 4]>,
    rows: usize,
    columns: usize,
}

impl<'t> Columns<'t> {
    /// The pass over columns of `thunk`, if it has one.
    pub(super) fn of(thunk: &'t ReduceThunk) -> Option<Columns<'t>> {
        let code = thunk.columns.as_deref()?;
        let plane = plane_of(&thunk.space)?;
        let inputs = thunk.program.inputs.iter().map(|&input| {
            let at = thunk.loads.iter().position(|load| load.register == input)?;
            Some((planes(&thunk.loads[at].walk, plane)?, at))
        });
        Some(Columns {
            thunk,
            code,
            inputs: inputs.collect::<Option<_>>()?,
            rows: plane.0 as usize,
            columns: plane.1 as usize,
        })
    }

    /// What [`Columns::fold`] needs of a thread.
    pub(super) fn scratch(&self) -> Result<Scratch> {
        let bytes = self.code.scratch_bytes();
        let mut scratch = Scratch::new::<u8>(bytes)?;
        // SAFETY: the scratch has that many bytes.
        unsafe { scratch.get::<u8>().write_bytes(0, bytes) };
        Ok(scratch)
    }

    /// Whether elements `range` of the walk are whole planes.
    pub(super) fn has_whole(&self, range: &Range<usize>) -> bool {
        let plane = self.rows * self.columns;
        range.start.is_multiple_of(plane) && range.end.is_multiple_of(plane)
    }

    /// Folds elements `range` of the walk, which are whole planes, into the results; `result` tells where one is, and
    /// `scratch` is that of [`Columns::scratch`].
    pub(super) fn fold(
        &self,
        sources: &Sources<'_>,
        range: Range<usize>,
        result: &dyn Fn(usize) -> *mut u8,
        scratch: &mut Scratch,
    ) {
        let scratch = scratch.get::<u8>();
        let plane = self.rows * self.columns;
        let mut operands: SmallVec<[Rows; 4]> = SmallVec::new();
        for at in range.step_by(plane) {
            let operands_here = self.inputs.iter().map(|(planes, input)| {
                let first = offset_in(&planes.outer, (at / plane) as i64);
                let (address, size) = sources.element(*input, first);
                Rows {
                    address: address.cast_mut(),
                    step: planes.row_step as isize * size as isize,
                }
            });
            operands.clear();
            operands.extend(operands_here);
            let results = result(result_of(&self.thunk.space, at));
            // SAFETY: walks stay inside their views, a plane has a result for each of its columns, and no result shares
            // memory with an input; the scratch is as large as asked for.
            unsafe {
                self.code
                    .run(&operands, results, (self.rows, self.columns), scratch);
            }
        }
    }
}
