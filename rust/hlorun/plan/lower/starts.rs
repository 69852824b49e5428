//! Where `dynamic-slice` and `dynamic-update-slice` begin.
//!
//! In: start indices, as values. Out: views that begin there: at a known place where the index is a constant, else
//! at one that is read when the view is.

use super::{Lowering, Scope};
use crate::error::Result;
use crate::module::InstructionRef;
use crate::plan::thunk::BufferKind;
use crate::plan::view::{ArrayView, DynamicIndex, identity_order};
use crate::types::integer::integer;

impl<'m> Lowering<'m> {
    /// Start indices of a dynamic slice: scalars from operand `first` on, or one vector. Those that
    /// are slices at moving places themselves are read into memory of their own first.
    pub(super) fn starts(
        &mut self,
        scope: &mut Scope<'_>,
        instruction: InstructionRef<'m>,
        first: usize,
        rank: usize,
    ) -> Result<Vec<DynamicIndex>> {
        let count = instruction.operand_ids().len().saturating_sub(first);
        let mut starts = Vec::with_capacity(rank);
        let vector = count == 1
            && instruction
                .operand(first)
                .and_then(|o| o.array_shape())
                .is_some_and(|s| s.rank() == 1);
        let mut fixed: Option<ArrayView> = None;
        for dim in 0..rank {
            let view = match fixed.take().filter(|_| vector) {
                Some(view) => view,
                None => {
                    let k = if vector { first } else { first + dim };
                    let view = self.array_operand(scope, instruction, k)?;
                    if view.dynamic.is_empty() {
                        view
                    } else {
                        let order = identity_order(view.dims.len());
                        self.copy_dense(scope, instruction, &view, &order)?
                    }
                }
            };
            let element = if vector {
                view.strides[0] * dim as i64
            } else {
                0
            };
            starts.push(DynamicIndex {
                slice: view.slice,
                offset: (view.offset + element) as usize * view.element_type.size_bytes(),
                element_type: view.element_type,
                stride: 0,
                limit: 0,
            });
            fixed = Some(view);
        }
        Ok(starts)
    }

    /// Moves `view` by an index of elements that are `stride` apart, which is clamped to `0..=limit`.
    pub(super) fn begin_at(
        &self,
        view: &mut ArrayView,
        start: DynamicIndex,
        [stride, limit]: [i64; 2],
    ) {
        if limit <= 0 {
            return;
        }
        match self.known_start(&start) {
            Some(value) => view.offset += value.clamp(0, limit) * stride,
            None => view.dynamic.push(DynamicIndex {
                stride,
                limit,
                ..start
            }),
        }
    }

    /// The value of an index that is a constant.
    fn known_start(&self, start: &DynamicIndex) -> Option<i64> {
        let BufferKind::Constant(literal) = self.buffers[start.slice.allocation as usize].kind
        else {
            return None;
        };
        let bytes = self.module.literal(literal).bytes()?;
        let from = start.slice.offset + start.offset;
        let size = start.element_type.size_bytes();
        integer(bytes.get(from..from + size)?, start.element_type)
    }
}
