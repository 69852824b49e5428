//! Products that are computed for an all-reduce alone, such as the gradients of weights.
//!
//! In: the thunks of an executable for several devices. Out: which products these are. They are
//! computed by blocks of rows, always the same ones, so that a run may combine the blocks of all
//! devices one by one instead of keeping every device's product: see
//! [`super::Step::Meet`].

use super::accesses::Facts;
use super::byte_ranges::ByteRanges;
use crate::plan::element::elementwise::Kernel;
use crate::plan::memory::assign::{AllocationKind, Assignment};
use crate::plan::spmd::collective::{CollectiveKind, CollectiveThunk};
use crate::plan::thunk::{GemmThunk, GemmWay, ThunkKind, ThunkSequence};
use crate::plan::view::{ArrayView, BufferSlice};
use crate::types::strided;

/// Bytes of a block: with the sum it goes into, it stays in a second-level cache.
const BLOCK: usize = 256 << 10;
/// Products of fewer bytes are not worth it.
const MIN_BYTES: usize = 2 * BLOCK;
/// Blocks of fewer rows are not worth a call.
const MIN_ROWS: usize = 16;

/// A product that can wait for the rendezvous that combines it.
#[derive(Clone, Copy, Debug)]
pub struct Postponed {
    /// Number of its thunk.
    pub product: usize,
    /// Number of the all-reduce.
    pub rendezvous: usize,
    /// Which operand of the all-reduce it is.
    pub operand: usize,
}

fn is_dense(view: &ArrayView) -> bool {
    let size = view.count() * view.element_type.size_bytes();
    let is_row_major = strided::is_row_major(&view.dims, &view.strides);
    is_row_major && view.offset == 0 && view.dynamic.is_empty() && view.slice.size == size
}

/// Rows of `gemm` in one block, if it is made of blocks.
fn block_rows(gemm: &GemmThunk) -> Option<usize> {
    let (batch, _, n, _) = gemm.sizes();
    let row = usize::try_from(n).ok()? * gemm.c.element_type.size_bytes();
    let suits = batch == 1
        && gemm.beta == 0.0
        && !matches!(gemm.way, GemmWay::PackedOperand(_))
        && gemm.a.dynamic.is_empty()
        && gemm.b.dynamic.is_empty()
        && is_dense(&gemm.c)
        && gemm.c.slice.size >= MIN_BYTES;
    let rows = BLOCK / row.max(1);
    (suits && rows >= MIN_ROWS).then_some(rows)
}

/// Whether values of operand `k` may be combined two by two, in the type they have.
fn is_pairwise(collective: &CollectiveThunk, k: usize) -> bool {
    let combiner = &collective.combiners[k];
    let program = &combiner.program;
    combiner.conversions.is_none()
        && matches!(&program.steps[..], [step]
            if matches!(step.kernel, Kernel::Binary(_)) && step.operands[..2] == program.inputs[..])
}

/// Which thunks have written a piece of memory, and who reads what they wrote.
#[derive(Default)]
struct Uses {
    writers: ByteRanges<usize>,
    readers: Vec<Vec<usize>>,
}

impl Uses {
    fn writers(&self, slice: &BufferSlice) -> Vec<usize> {
        let mut found = Vec::new();
        self.writers.each(slice, |writer| found.push(writer));
        found
    }
}

/// The products that can wait, in the order of their rendezvous.
pub fn postponed(
    thunks: &ThunkSequence,
    facts: &[Facts],
    outputs: &[BufferSlice],
) -> Vec<Postponed> {
    let mut uses = Uses {
        readers: vec![Vec::new(); thunks.len()],
        ..Uses::default()
    };
    // Who had written the operands of a product when it was its turn.
    let mut operands: Vec<[Vec<usize>; 2]> = vec![Default::default(); thunks.len()];
    let mut found = Vec::new();
    for (at, thunk) in thunks.iter().enumerate() {
        match &thunk.kind {
            ThunkKind::Gemm(gemm) => {
                operands[at] = [&gemm.a, &gemm.b].map(|view| uses.writers(&view.slice));
            }
            ThunkKind::Collective(collective)
                if matches!(collective.kind, CollectiveKind::AllReduce) =>
            {
                for (operand, input) in collective.inputs.iter().enumerate() {
                    let [product] = uses.writers(&input.slice)[..] else {
                        continue;
                    };
                    let ThunkKind::Gemm(gemm) = &thunks[product].kind else {
                        continue;
                    };
                    let is_kept = |(view, then): (&ArrayView, &Vec<usize>)| {
                        let results = collective.outputs.iter();
                        uses.writers(&view.slice) == *then
                            && results
                                .into_iter()
                                .all(|out| !out.slice.overlaps(&view.slice))
                    };
                    if block_rows(gemm).is_some()
                        && gemm.c.slice == input.slice
                        && input.strides == collective.outputs[operand].strides
                        && is_dense(input)
                        && is_pairwise(collective, operand)
                        && [&gemm.a, &gemm.b]
                            .into_iter()
                            .zip(&operands[product])
                            .all(is_kept)
                    {
                        found.push(Postponed {
                            product,
                            rendezvous: at,
                            operand,
                        });
                    }
                }
            }
            _ => {}
        }
        for access in facts[at]
            .accesses
            .iter()
            .filter(|access| access.reads_before)
        {
            for writer in uses.writers(&access.slice) {
                uses.readers[writer].push(at);
            }
        }
        for access in facts[at].accesses.iter().filter(|access| access.writes) {
            uses.writers.set(&access.slice, at);
        }
    }
    for slice in outputs {
        for writer in uses.writers(slice) {
            uses.readers[writer].push(usize::MAX);
        }
    }
    found.retain(|p| uses.readers[p.product] == [p.rendezvous]);
    found
}

/// Divides the products that can wait into blocks.
pub fn divide(thunks: &mut ThunkSequence, assignment: &Assignment) {
    let has_reduction = thunks.iter().any(|thunk| {
        matches!(&thunk.kind, ThunkKind::Collective(c) if matches!(c.kind, CollectiveKind::AllReduce))
    });
    if !has_reduction {
        return;
    }
    let facts: Vec<Facts> = thunks.iter().map(Facts::of).collect();
    let outputs: Vec<BufferSlice> = output_slices(assignment);
    for found in postponed(thunks, &facts, &outputs) {
        if let ThunkKind::Gemm(gemm) = &mut thunks[found.product].kind {
            gemm.way = block_rows(gemm).map_or(gemm.way, GemmWay::RowBlocks);
        }
    }
}

/// The whole memory of every output.
pub fn output_slices(assignment: &Assignment) -> Vec<BufferSlice> {
    assignment
        .allocations
        .iter()
        .zip(0..)
        .filter(|(allocation, _)| matches!(allocation.kind, AllocationKind::Output(_)))
        .map(|(allocation, index)| BufferSlice {
            allocation: index,
            offset: 0,
            size: allocation.size,
        })
        .collect()
}
