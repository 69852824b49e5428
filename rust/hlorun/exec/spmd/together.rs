//! All-reduce of devices that are all here.
//!
//! In: the sessions of a group. Out: results. Promise: one pass over the operands, one result where
//! the devices share it, and the bits the devices have when each runs by itself.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::reduction::{Accumulator, TILE, same_places};
use super::session::Session;
use crate::buffers::AlignedBytes;
use crate::error::Result;
use crate::exec::array::RawArray;
use crate::exec::gemm;
use crate::exec::parallel::ParallelLoop;
use crate::plan::element::elementwise::Kernel;
use crate::plan::thunk::{GemmThunk, GemmWay};

/// Elements that one task combines.
const TASK: usize = 8 * TILE;

/// Addresses that tasks share.
struct Addresses<P>(SmallVec<[P; 16]>);

// SAFETY: tasks read and write disjoint elements behind them.
unsafe impl<P> Sync for Addresses<P> {}

/// One operand of all members.
struct Operand<'s> {
    number: usize,
    /// The members' values, where they are there.
    values: Addresses<*const u8>,
    /// Where the result goes.
    results: Addresses<*mut u8>,
    product: Option<&'s GemmThunk>,
}

/// What a task does: rows of a product, or elements.
struct Task {
    operand: usize,
    range: Range<usize>,
}

/// Combines element by element, in the order of the group; everybody gets everything.
pub fn all_reduce(
    group: &[&Session<'_>],
    products: &[Option<Box<GemmThunk>>],
    parallel: &ParallelLoop<'_>,
) -> Result<()> {
    let Some(first) = group.first() else {
        return Ok(());
    };
    // Values that do not lie as the result does are put into its order first.
    let mut copies = Vec::new();
    let mut operands = Vec::with_capacity(first.inputs.len());
    let mut tasks = Vec::new();
    for number in 0..first.inputs.len() {
        let product = products.get(number).and_then(Option::as_deref);
        let mut values = SmallVec::new();
        let mut results = SmallVec::new();
        for session in group {
            let (input, output) = (&session.inputs[number], &session.outputs[number]);
            if same_places(input, output) {
                values.push(input.pointer.cast_const());
            } else {
                let mut bytes = AlignedBytes::uninitialized(output.byte_size())?;
                input.copy_to(&RawArray {
                    pointer: bytes.as_mut_ptr(),
                    ..output.clone()
                });
                values.push(bytes.as_ptr());
                copies.push(bytes);
            }
            if !results.contains(&output.pointer) {
                results.push(output.pointer);
            }
        }
        let operand = operands.len();
        match product.map(|product| (product, product.way)) {
            Some((product, GemmWay::RowBlocks(rows))) => tasks.extend(
                gemm::blocks(product, rows)
                    .into_iter()
                    .map(|range| Task { operand, range }),
            ),
            _ => {
                let total = first.outputs[number].count();
                tasks.extend((0..total).step_by(TASK).map(|start| Task {
                    operand,
                    range: start..total.min(start + TASK),
                }));
            }
        }
        operands.push(Operand {
            number,
            values: Addresses(values),
            results: Addresses(results),
            product,
        });
    }
    let failure = Mutex::new(None);
    parallel(tasks.len(), &|at| {
        let task = &tasks[at];
        let operand = &operands[task.operand];
        let done = match operand.product {
            Some(product) => combine_products(group, operand, product, task.range.clone()),
            None => combine_values(first, operand, task.range.clone()),
        };
        if let Err(error) = done {
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Combines the elements of `range`.
fn combine_values(first: &Session<'_>, operand: &Operand<'_>, range: Range<usize>) -> Result<()> {
    let size = first.outputs[operand.number].element_type.size_bytes();
    let mut accumulator = Accumulator::new(&first.thunk.combiners[operand.number])?;
    for start in range.clone().step_by(TILE) {
        let count = TILE.min(range.end - start);
        // SAFETY: all arrays are dense and hold the elements of every task; tasks are disjoint.
        unsafe {
            let at = start * size;
            let values: SmallVec<[_; 16]> = operand.values.0.iter().map(|v| v.add(at)).collect();
            let results: SmallVec<[_; 16]> = operand.results.0.iter().map(|r| r.add(at)).collect();
            accumulator.combine(&values, &results, count);
        }
    }
    Ok(())
}

/// Computes the rows `rows` of every member's product and combines them.
fn combine_products(
    group: &[&Session<'_>],
    operand: &Operand<'_>,
    product: &GemmThunk,
    rows: Range<usize>,
) -> Result<()> {
    let combiner = &group[0].thunk.combiners[operand.number];
    let kernel = combiner.program.steps.first().map(|step| step.kernel);
    let Some(Kernel::Binary(kernel)) = kernel else {
        return Err(group[0].error("internal error: products wait for no pairwise sum"));
    };
    let columns = product.sizes().2 as usize;
    let size = product.c.element_type.size_bytes();
    let (start, count) = (rows.start * columns, rows.len() * columns);
    let adds = combiner.is_sum && gemm::adds_blocks(product);
    let mut block = AlignedBytes::uninitialized(if adds { 0 } else { count * size })?;
    let Some((&result, others)) = operand.results.0.split_first() else {
        return Ok(());
    };
    // SAFETY: the results are dense and have the elements of all blocks, which are disjoint; the
    // plan keeps the operands of the products apart from them; a kernel may write onto its operand.
    unsafe {
        let sum = result.add(start * size);
        for (rank, session) in group.iter().enumerate() {
            let memory = &session.environment.memory;
            if rank == 0 {
                gemm::block(product, rows.clone(), memory, sum)?;
            } else if adds {
                gemm::add_block(product, rows.clone(), memory, sum)?;
            } else {
                gemm::block(product, rows.clone(), memory, block.as_mut_ptr())?;
                kernel(sum, block.as_ptr(), sum, count);
            }
        }
        for other in others {
            std::ptr::copy_nonoverlapping(sum, other.add(start * size), count * size);
        }
    }
    Ok(())
}
