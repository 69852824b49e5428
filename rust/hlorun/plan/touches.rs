//! What memory a thunk touches, those inside it included.
//!
//! In: a thunk of an executable. Out: its slices, and of each whether the value it had before plays
//! a role.

use rustc_hash::FxHashSet;

use super::ops::OpKind;
use super::regions::Regions;
use super::thunk::{Access, Thunk, ThunkKind};
use super::view::BufferSlice;

/// A slice that a thunk, or one inside it, touches.
#[derive(Clone, Copy)]
pub struct Touch {
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
    pub touches: Vec<Touch>,
    /// Memory it writes.
    pub written: Regions<()>,
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
fn touches(thunks: &mut [Thunk], covered: &mut Covered, facts: &mut Facts) {
    for thunk in thunks {
        facts.is_deterministic &= match &thunk.kind {
            ThunkKind::Op(op) => !matches!(op.kind, OpKind::Custom(_)),
            ThunkKind::DeviceId(_)
            | ThunkKind::Observe(_)
            | ThunkKind::CollectiveStart(_)
            | ThunkKind::Collective(_) => false,
            ThunkKind::Copy(_)
            | ThunkKind::Loop(_)
            | ThunkKind::Reduce(_)
            | ThunkKind::Bands(_)
            | ThunkKind::Gemm(_)
            | ThunkKind::PackPanels(_)
            | ThunkKind::While(_)
            | ThunkKind::Conditional(_)
            | ThunkKind::Nop => true,
        };
        if let ThunkKind::While(repeated) = &mut thunk.kind {
            // The condition runs at least once, and before the predicate is read.
            touches(&mut repeated.condition, covered, facts);
            touches(&mut repeated.body, &mut covered.clone(), facts);
        }
        let mut written = Vec::new();
        thunk.visit_slices(&mut |slice, access| {
            let is_covered = covered.contains(slice);
            facts.touches.push(Touch {
                slice: *slice,
                reads_before: access != Access::Write && !is_covered,
                writes: access != Access::Read,
            });
            if access != Access::Read {
                facts.bytes_written += slice.size;
                facts.written.set(slice, ());
            }
            if access == Access::Write {
                written.push(*slice);
            }
        });
        covered.extend(written);
        if let ThunkKind::Conditional(choice) = &mut thunk.kind {
            for branch in &mut choice.branches {
                touches(branch, &mut covered.clone(), facts);
            }
        }
    }
}

impl Facts {
    /// The facts of a thunk.
    pub fn of(thunk: &Thunk) -> Facts {
        let mut copy = [thunk.clone()];
        let mut facts = Facts {
            touches: Vec::new(),
            written: Regions::default(),
            is_nested: !copy[0].nested().is_empty(),
            is_deterministic: true,
            bytes_written: 0,
        };
        touches(&mut copy, &mut Covered::default(), &mut facts);
        facts
    }
}
