//! `loop-pack`: the operand of a loop's products that never changes is packed once, before the loop.
//!
//! Applies to products of few rows in the body of a loop whose right operand (or, transposed, left
//! operand) lies in a buffer that the body never writes. Reading such a matrix is most of the
//! product's time; packed it streams from memory in the order in which the kernel needs it.

use rustc_hash::FxHashMap;

use super::Lowering;
use crate::module::InstructionId;
use crate::plan::cost::products::{MAX_LOOP_ROWS, MIN_PACKED};
use crate::plan::thunk::BufferKind;
use crate::plan::thunk::{GemmThunk, GemmWay, PackOperandThunk, Thunk, ThunkKind, ThunkSequence};
use crate::plan::view::{ArrayView, BufferSlice};

/// Name by which it is switched off.
pub const NAME: &str = "loop-pack";

impl Lowering<'_> {
    /// Packs what `body` multiplies with and never writes; returns the thunks that do so.
    pub(super) fn pack_invariant_operands(
        &mut self,
        instruction: InstructionId,
        body: &mut ThunkSequence,
    ) -> ThunkSequence {
        let mut packs = Vec::new();
        if self.options.is_off(NAME) {
            return packs;
        }
        let mut written = vec![false; self.buffers.len()];
        mark_written(body, &mut written);
        let mut known: Vec<(ArrayView, usize, BufferSlice)> = Vec::new();
        let mut cache: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for thunk in body.iter_mut() {
            let ThunkKind::Gemm(gemm) = &mut thunk.kind else {
                continue;
            };
            let invariant = |view: &ArrayView| {
                !written[view.slice.allocation as usize] && view.dynamic.is_empty()
            };
            if !invariant(&gemm.b) && invariant(&gemm.a) {
                transpose(gemm);
            }
            let suits = gemm.sizes().1 <= MAX_LOOP_ROWS && invariant(&gemm.b);
            let (true, Some((width, size))) = (suits, gemm.panels(MIN_PACKED)) else {
                continue;
            };
            let same = cache.entry(gemm.b.slice.allocation).or_default();
            let is_same = |at: usize| known[at].0 == gemm.b && known[at].1 == width;
            let found = same.iter().find(|&&at| is_same(at));
            let packed = match found {
                Some(&at) => known[at].2,
                None => {
                    let packed = self.buffer(size, BufferKind::Temp, Some(instruction));
                    same.push(known.len());
                    known.push((gemm.b.clone(), width, packed));
                    packs.push(Thunk {
                        instruction,
                        kind: ThunkKind::PackOperand(Box::new(PackOperandThunk {
                            b: gemm.b.clone(),
                            width,
                            to: packed,
                        })),
                    });
                    packed
                }
            };
            gemm.way = GemmWay::PackedOperand(packed);
        }
        packs
    }
}

/// `C = A·B` as `Cᵀ = Bᵀ·Aᵀ`.
fn transpose(gemm: &mut GemmThunk) {
    let swap = |view: &ArrayView| view.transpose(&[0, 2, 1]);
    let (a, b) = (swap(&gemm.b), swap(&gemm.a));
    gemm.a = a;
    gemm.b = b;
    gemm.c = swap(&gemm.c);
}

/// Recursion is bounded by the nesting the lowering allows.
fn mark_written(thunks: &ThunkSequence, written: &mut [bool]) {
    for thunk in thunks {
        for access in thunk.accesses().filter(|access| access.effect.writes()) {
            written[access.slice.allocation as usize] = true;
        }
        for nested in thunk.nested() {
            mark_written(nested, written);
        }
    }
}
