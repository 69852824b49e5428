//! `dynamic-update-slice`: an update stored into its operand.
//!
//! The operand is copied, and the update is stored over a part of the copy. The copy is dropped where nobody
//! reads the operand any more, so that the update happens in place. An update that reads the operand itself must
//! not keep it alive (`update-in-place`): where each read is of exactly the elements written, in the order of the
//! writes, or of none of them, the update reads the copy, which has the same elements; all else is computed first,
//! into memory of its own.
//!
//! The copy is read only where its layout is the operand's. A parameter or a constant is never written, so it is read
//! where it lies.

use super::{Lowering, Scope, views};
use crate::error::{HloError, Result};
use crate::module::InstructionRef;
use crate::plan::faults::{self, Fault};
use crate::plan::thunk::{Access, BufferKind, Effect, LoadKind, LoopThunk, Thunk, ThunkKind};
use crate::plan::view::{ArrayView, Walk};
use crate::types::Dims;

/// Name by which it is switched off.
pub const NAME: &str = "update-in-place";

/// What is stored into the copy of an operand.
enum Update {
    /// The piece as it is: it does not read the operand, or may read it where it lies.
    Piece,
    /// A loop that stores it.
    Loop(Thunk),
    /// An array to copy.
    Array(ArrayView),
}

/// The places of an update.
struct Places {
    operand: ArrayView,
    result: ArrayView,
    /// The part of the result that is written.
    destination: ArrayView,
}

impl<'m> Lowering<'m> {
    pub(super) fn dynamic_update_slice(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
    ) -> Result<ArrayView> {
        let shape = views::array_shape(instruction)?;
        let update = instruction
            .operand(1)
            .ok_or_else(|| HloError::execution("dynamic-update-slice without update"))?;
        let dims = views::array_shape(update)?.dims.clone();
        let order = scope.analysis.orders[at].clone();
        let operand = self.array_operand(scope, instruction, 0)?;
        let result = self.allocate(instruction, shape.element_type, &shape.dims, &order)?;
        let ones: Dims = dims.iter().map(|_| 1).collect();
        let zeros: Dims = dims.iter().map(|_| 0).collect();
        let mut destination = result.slice(&zeros, &ones, &dims);
        let starts = self.starts(scope, instruction, 2, dims.len())?;
        for (dim, start) in starts.into_iter().enumerate() {
            let reach = [result.strides[dim], shape.dims[dim] - dims[dim]];
            self.begin_at(&mut destination, start, reach);
        }
        let places = Places {
            operand,
            result,
            destination,
        };
        let update = self.update(scope, at, instruction, &places)?;
        self.copy(scope, instruction.id, places.operand, places.result.clone());
        match update {
            Update::Piece => {
                self.store_piece(scope, at, instruction, 1, places.destination)?;
            }
            Update::Loop(thunk) => scope.thunks.push(thunk),
            Update::Array(array) => {
                self.copy(scope, instruction.id, array, places.destination);
            }
        }
        Ok(places.result)
    }

    /// What the update becomes, so that it does not keep the operand alive.
    fn update(
        &mut self,
        scope: &mut Scope<'_>,
        at: usize,
        instruction: InstructionRef<'m>,
        places: &Places,
    ) -> Result<Update> {
        let buffer = places.operand.slice.allocation;
        let kind = self.buffers[buffer as usize].kind;
        let is_off = self.options.is_off(NAME);
        let is_kept = matches!(kind, BufferKind::Parameter(_) | BufferKind::Constant(_)) && !is_off;
        let is_same = self.interchangeable(&places.operand, &places.result) && !is_off;
        if is_kept {
            return Ok(Update::Piece);
        }
        let Some(cluster) = self.piece_cluster(scope, at, instruction, 1) else {
            let array = self.array_operand(scope, instruction, 1)?;
            if is_off || array.slice.allocation != buffer {
                return Ok(Update::Piece);
            }
            let moved = places.moved(&array);
            if is_same && faults::holds(Fault::UpdatesWhatIsRead, places.is_apart(&moved)) {
                return Ok(Update::Array(moved));
            }
            let order = scope.analysis.orders[at].clone();
            let scratch = self.copy_dense(scope, instruction, &array, &order)?;
            return Ok(Update::Array(scratch));
        };
        let missing = || HloError::execution("dynamic-update-slice without update");
        let update = instruction.operand(1).ok_or_else(missing)?;
        let order = scope.analysis.orders[at].clone();
        let before = scope.thunks.len();
        self.loop_into(scope, update, cluster, &order, places.destination.clone())?;
        let mut thunk = scope.thunks.pop().ok_or_else(missing)?;
        let ThunkKind::Loop(fused) = &mut thunk.kind else {
            return Ok(Update::Loop(thunk));
        };
        if !reads(fused, buffer) || (is_same && places.reads_in_place(fused)) {
            return Ok(Update::Loop(thunk));
        }
        let shape = views::array_shape(update)?;
        let scratch = self.allocate(update, shape.element_type, &shape.dims, &order)?;
        // Without what was copied for the first loop.
        scope.thunks.truncate(before);
        self.loop_into(scope, update, cluster, &order, scratch.clone())?;
        Ok(Update::Array(scratch))
    }
}

impl Places {
    /// A view of the operand as one of the result.
    fn moved(&self, view: &ArrayView) -> ArrayView {
        ArrayView {
            slice: self.result.slice,
            ..view.clone()
        }
    }

    /// Whether a view of the result has no byte that the update writes.
    fn is_apart(&self, view: &ArrayView) -> bool {
        let whole = |view| Access::of_view(view, Effect::Read);
        whole(view).is_apart(&whole(&self.destination))
    }

    /// Lets a loop that stores the update read the result instead of the operand, if each of its reads of that is of
    /// the very elements that it writes, or of none of them.
    fn reads_in_place(&self, fused: &mut LoopThunk) -> bool {
        let buffer = self.operand.slice.allocation;
        let [store] = fused.stores.as_slice() else {
            return false;
        };
        let reads_first = fused.program.in_place.first() == Some(&true);
        let size = store.view.element_type.size_bytes();
        let is_right = |view: &ArrayView, walk: &Walk| {
            let is_written = walk == &*store.walk
                && view.offset == store.view.offset
                && view.element_type.size_bytes() == size
                && view.dynamic.is_empty()
                && store.view.dynamic.is_empty();
            let is_apart = || self.is_apart(&self.moved(view));
            faults::holds(
                Fault::UpdatesWhatIsRead,
                (is_written && reads_first) || is_apart(),
            )
        };
        let mut loads = fused.loads.iter();
        if !loads.all(|load| match &load.kind {
            LoadKind::View(view) if view.slice.allocation == buffer => is_right(view, &load.walk),
            _ => load.views().all(|view| view.slice.allocation != buffer),
        }) {
            return false;
        }
        for load in &mut fused.loads {
            if let LoadKind::View(view) = &mut load.kind
                && view.slice.allocation == buffer
            {
                view.slice = self.result.slice;
            }
        }
        true
    }
}

/// Whether a loop has an input in a buffer.
fn reads(fused: &LoopThunk, buffer: u32) -> bool {
    let mut views = fused.loads.iter().flat_map(|load| load.views());
    views.any(|view| view.slice.allocation == buffer)
}
