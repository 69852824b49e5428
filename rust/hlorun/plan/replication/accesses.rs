//! What memory a thunk touches, those inside it included.
//!
//! In: a thunk of an executable. Out: its slices, and of each whether the value it had before plays
//! a role.

use rustc_hash::FxHashSet;

use super::byte_ranges::ByteRanges;
use crate::plan::faults::{self, Fault};
use crate::plan::ops::OpKind;
use crate::plan::thunk::{Thunk, ThunkKind};
use crate::plan::view::BufferSlice;

/// A slice that a thunk, or one inside it, touches.
#[derive(Clone, Copy)]
pub struct NestedAccess {
    /// Where.
    pub slice: BufferSlice,
    /// What it holds before the thunk is read.
    pub reads_before: bool,
    /// Something of it is written.
    pub writes: bool,
}

/// Everything the analysis asks of a top-level thunk.
pub struct Facts {
    /// All memory it touches.
    pub accesses: Vec<NestedAccess>,
    /// Memory it writes.
    pub written: ByteRanges<()>,
    /// It holds other thunks.
    pub is_nested: bool,
    /// The same operands give the same results on every device.
    pub is_deterministic: bool,
    /// Sizes of all slices it writes, together.
    pub bytes_written: usize,
}

/// Slices whose value before a thunk plays no role: something before it has written them whole.
type Covered = FxHashSet<BufferSlice>;

/// Notes what `thunks` touch and adds what they surely write to `covered`. Recursion is bounded by
/// the nesting the lowering allows.
fn collect(thunks: &[Thunk], covered: &mut Covered, facts: &mut Facts) {
    for thunk in thunks {
        facts.is_deterministic &= match &thunk.kind {
            ThunkKind::Op(op) => !matches!(op.kind, OpKind::Custom(_)),
            ThunkKind::DeviceId(_) => faults::holds(Fault::SharesDeviceId, false),
            ThunkKind::Observe(_) | ThunkKind::CollectiveStart(_) | ThunkKind::Collective(_) => {
                false
            }
            ThunkKind::Copy(_)
            | ThunkKind::Loop(_)
            | ThunkKind::Reduce(_)
            | ThunkKind::RowTiled(_)
            | ThunkKind::Gemm(_)
            | ThunkKind::PackOperand(_)
            | ThunkKind::While(_)
            | ThunkKind::Conditional(_)
            | ThunkKind::Nop => true,
        };
        if let ThunkKind::While(repeated) = &thunk.kind {
            // The condition runs at least once, and before the predicate is read.
            collect(&repeated.condition, covered, facts);
            collect(&repeated.body, &mut covered.clone(), facts);
        }
        let mut written = Vec::new();
        for access in thunk.accesses() {
            let (slice, effect) = (access.slice, access.effect);
            facts.accesses.push(NestedAccess {
                slice,
                reads_before: !effect.replaces() && !covered.contains(&slice),
                writes: effect.writes(),
            });
            if effect.writes() {
                facts.bytes_written += slice.size;
                facts.written.set(&slice, ());
            }
            if effect.replaces() {
                written.push(slice);
            }
        }
        covered.extend(written);
        if let ThunkKind::Conditional(choice) = &thunk.kind {
            for branch in &choice.branches {
                collect(branch, &mut covered.clone(), facts);
            }
        }
    }
}

impl Facts {
    /// The facts of a thunk.
    pub fn of(thunk: &Thunk) -> Facts {
        let mut facts = Facts {
            accesses: Vec::new(),
            written: ByteRanges::default(),
            is_nested: !thunk.nested().is_empty(),
            is_deterministic: true,
            bytes_written: 0,
        };
        collect(
            std::slice::from_ref(thunk),
            &mut Covered::default(),
            &mut facts,
        );
        facts
    }
}
