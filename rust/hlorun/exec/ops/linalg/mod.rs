//! Runs dense linear algebra: matrix by matrix through LAPACK where a library is loaded, else
//! through [`dense`].
//!
//! In: the operands of a [`LinalgOp`]. Out: its results, `info` included; further results are
//! workspaces and become zeros. Signs and phases of vectors are the library's.

pub mod dense;
mod eigen;
mod factor;
pub mod lapack;
pub mod matrix;
mod part;
mod small;

use smallvec::SmallVec;

use super::walk::{SharedArray, try_split};
use crate::buffers::AlignedBytes;
use crate::error::{HloError, Result};
use crate::exec::array::RawArray;
use crate::exec::parallel::OpEnvironment;
use crate::plan::cost::small_matrices::{TASK_ELEMENTS, TASK_STEPS};
use crate::plan::ops::linalg::{LinalgOp, Routine};
use crate::types::PrimitiveType;
use matrix::{batch_count, part};
use part::Part;

/// Dimensions of operand and result number `index` that are no batch.
fn ranks(routine: Routine, ty: PrimitiveType) -> (&'static [usize], &'static [usize]) {
    use Routine as R;
    match routine {
        R::Potrf => (&[2], &[2, 0]),
        R::Trsm => (&[2, 2], &[2]),
        R::Getrf => (&[2], &[2, 1, 0]),
        R::Lu => (&[2], &[2, 1, 1]),
        R::Geqrf => (&[2], &[2, 1, 0]),
        R::Orgqr => (&[2, 1], &[2, 0]),
        R::Ormqr => (&[2, 1, 2], &[2]),
        R::Syevd => (&[2], &[2, 1, 0]),
        R::Gesdd => (&[2], &[2, 1, 2, 2, 0]),
        R::Geev if ty.is_complex() => (&[2], &[1, 2, 2, 0]),
        R::Geev => (&[2], &[1, 1, 2, 2, 0]),
        R::Gees if ty.is_complex() => (&[2], &[2, 2, 1, 0, 0]),
        R::Gees => (&[2], &[2, 2, 1, 1, 0, 0]),
        R::Gehrd => (&[2], &[2, 1, 0]),
        R::Sytrd => (&[2], &[2, 1, 1, 1, 0]),
        R::Geqp3 => (&[2, 1], &[2, 1, 1]),
        R::Gtsv => (&[1, 1, 1, 2], &[1, 1, 1, 2, 0]),
        R::Syrk => (&[2, 2, 0, 0], &[2]),
        R::Pivots => (&[1], &[1]),
    }
}

/// Runs `op`.
pub fn run(
    op: &LinalgOp,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    let operands: SmallVec<[&RawArray; 4]> = op
        .operands
        .iter()
        .map(|&i| inputs.get(i).ok_or_else(misfit))
        .collect::<Result<_>>()?;
    let first = *operands.first().ok_or_else(misfit)?;
    let (in_ranks, out_ranks) = ranks(op.routine, first.element_type);
    let count = batch_count(first, in_ranks[0]);
    // cuSPARSE returns the solution alone.
    let out_ranks = match (op.routine, op.results.len()) {
        (Routine::Gtsv, 1) => &out_ranks[3..4],
        _ => out_ranks,
    };
    let results = matching_results(op, &operands, outputs, (in_ranks, out_ranks))?;
    clear_workspaces(op, outputs);
    let operand_count = operands.len();
    let ranks = in_ranks.iter().copied();
    let mut arrays: SmallVec<[(SharedArray, usize); 6]> = (operands.into_iter().zip(ranks))
        .chain(results)
        .map(|(array, rank)| (SharedArray::new(array), rank))
        .collect();
    let status = SharedStatus::replace(&mut arrays[operand_count..], count)?;
    let alone = |index: usize| {
        let mut parts = arrays.iter().map(|(array, rank)| {
            let index = index.min(batch_count(array.get(), *rank).saturating_sub(1));
            part(array.get(), *rank, index)
        });
        let inputs = parts.by_ref().take(operand_count).collect();
        let piece = Part {
            inputs,
            outputs: parts.collect(),
        };
        one(op, &piece)
    };
    let work = (first.count() / count.max(1)).max(1);
    let (sources, targets) = arrays.split_at(operand_count);
    if small::fits(op, sources, targets) {
        let rows = first.dims[first.dims.len() - 1] as usize;
        // Whole groups, so that no lane of a task's vectors stays empty but in the last one.
        let lanes = small::lanes(first.element_type);
        let grain = (TASK_STEPS / (work * rows)).max(1).div_ceil(lanes);
        try_split(environment, count.div_ceil(lanes), grain, &|groups| {
            let range = groups.start * lanes..count.min(groups.end * lanes);
            small::run(op, sources, targets, range, &alone)
        })?;
    } else {
        try_split(environment, count, TASK_ELEMENTS / work, &|mut range| {
            range.try_for_each(alone)
        })?;
    }
    if let Some(status) = status {
        status.store();
    }
    Ok(())
}

/// A status of one word for a whole batch. Tasks run at once, so each matrix writes a word of its own;
/// afterwards that of the first matrix that failed becomes the result.
struct SharedStatus {
    result: SharedArray,
    /// A word for each matrix.
    words: AlignedBytes<u8>,
}

impl SharedStatus {
    /// Replaces such a status among `results`, if there is one, by words for `count` matrices.
    fn replace(results: &mut [(SharedArray, usize)], count: usize) -> Result<Option<SharedStatus>> {
        let status = results.iter_mut().find(|(array, rank)| {
            let serves_all = *rank == 0 && count > 1 && batch_count(array.get(), 0) == 1;
            serves_all && array.get().element_type == PrimitiveType::S32
        });
        let Some((status, _)) = status else {
            return Ok(None);
        };
        let mut words = AlignedBytes::zeroed(count.saturating_mul(4))?;
        let own = RawArray::over(&mut words, PrimitiveType::S32, &[count as i64]);
        let result = std::mem::replace(status, SharedArray::new(&own));
        Ok(Some(SharedStatus { result, words }))
    }

    fn store(&self) {
        let mut words = self.words.as_slice().chunks_exact(4);
        let first = words.find(|word| *word != [0; 4]).unwrap_or(&[0; 4]);
        let status = self.result.get().pointer;
        // SAFETY: the status is one word of a result, which no task has been given.
        unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), status, 4) };
    }
}

/// The results with the ranks of their matrices, where operands and results hold as many matrices.
fn matching_results<'a>(
    op: &LinalgOp,
    operands: &[&RawArray],
    outputs: &'a [RawArray],
    (in_ranks, out_ranks): (&[usize], &[usize]),
) -> Result<SmallVec<[(&'a RawArray, usize); 6]>> {
    let count = batch_count(operands.first().ok_or_else(misfit)?, in_ranks[0]);
    let mut results: SmallVec<[(&RawArray, usize); 6]> = SmallVec::new();
    for (&index, &rank) in op.results.iter().zip(out_ranks) {
        let array = outputs.get(index).ok_or_else(misfit)?;
        // Scalars stand in for singular vectors that nobody wants.
        let is_stand_in = op.routine == Routine::Gesdd && array.dims.is_empty();
        results.push((array, if is_stand_in { 0 } else { rank }));
    }
    let fits = operands.iter().zip(in_ranks).all(|(array, &rank)| {
        array.dims.len() >= rank && (rank == 0 || batch_count(array, rank) == count)
    }) && results.iter().all(|&(array, rank)| {
        let found = batch_count(array, rank);
        array.dims.len() >= rank && (found == count || rank == 0 && found == 1)
    });
    match fits && !results.is_empty() {
        true => Ok(results),
        false => Err(misfit()),
    }
}

fn misfit() -> HloError {
    HloError::execution(
        "the arrays of a factorization or solve have shapes that do not belong together",
    )
}

/// Nobody says what workspaces hold, but a result has the same bits in every run.
fn clear_workspaces(op: &LinalgOp, outputs: &[RawArray]) {
    let unused = |index: &usize| !op.results.contains(index);
    for index in (0..outputs.len()).filter(unused) {
        let array = &outputs[index];
        // SAFETY: results of a step lie densely in bytes of its own, and no task has been given these.
        unsafe { array.pointer.write_bytes(0, array.byte_size()) };
    }
}

fn one(op: &LinalgOp, part: &Part) -> Result<()> {
    use Routine as R;
    match op.routine {
        R::Potrf => factor::potrf(op, part),
        R::Trsm => factor::trsm(op, part),
        R::Getrf => factor::getrf(part),
        R::Lu => factor::lu(part),
        R::Geqrf => factor::geqrf(part),
        R::Orgqr => factor::orgqr(part),
        R::Ormqr => factor::ormqr(op, part),
        R::Geqp3 => factor::geqp3(part),
        R::Gtsv => factor::gtsv(part),
        R::Syrk => factor::syrk(op, part),
        R::Pivots => factor::pivots(part),
        R::Syevd => eigen::syevd(op, part),
        R::Gesdd => eigen::gesdd(op, part),
        R::Geev => eigen::geev(op, part),
        R::Gees => eigen::gees(op, part),
        R::Gehrd => eigen::gehrd(op, part),
        R::Sytrd => eigen::sytrd(op, part),
    }
}

impl Part {
    /// The type factorizations are done in: low floats in `f32`.
    fn ty(&self) -> PrimitiveType {
        use PrimitiveType as P;
        match self.inputs[0].element_type {
            ty @ (P::F32 | P::F64 | P::C64 | P::C128) => ty,
            _ => P::F32,
        }
    }

    /// Writes a status to the result `index`, if there is one.
    fn info(&self, index: usize, info: i32) -> Result<()> {
        self.ints(index, &[info])
    }

    /// Writes 32-bit integers to the result `index`, if there is one.
    fn ints(&self, index: usize, values: &[i32]) -> Result<()> {
        if let Some(output) = self.outputs.get(index)
            && output.element_type == PrimitiveType::S32
        {
            if output.dims.len() > 1 || output.count() > values.len() {
                return Err(HloError::execution(
                    "a result larger than what was computed",
                ));
            }
            let stride = output.strides.first().copied().unwrap_or(0);
            for (i, &value) in values.iter().enumerate().take(output.count()) {
                let at = output
                    .pointer
                    .wrapping_offset(4 * (i as i64 * stride) as isize);
                // SAFETY: element `i` of a result of at most one dimension, which has more than `i`; no
                // other task writes this part of it.
                unsafe { at.cast::<i32>().write_unaligned(value) };
            }
        }
        Ok(())
    }
}
