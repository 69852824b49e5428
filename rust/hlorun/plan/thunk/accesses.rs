//! What a thunk reads and writes: the one statement of it.
//!
//! Everything that asks which thunks may run together, in place, at once or in another order asks
//! here. [`crate::plan::memory::checker`] proves plans with nothing but this and the assignment, and a
//! shadow run gives every thunk no other memory than it declares here.
//!
//! Promise of a thunk: it reads its indices before it writes anything that overlaps them, because
//! the plan lets nothing overlap them.

use smallvec::SmallVec;

use super::{GemmThunk, GemmWay, Load, LoadKind, LoopThunk, ReduceThunk, Thunk, ThunkKind};
use crate::plan::faults::{self, Fault};
use crate::plan::view::{ArrayView, BufferSlice, DynamicIndex, PRIVATE, Walk};

/// What happens to the bytes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// They are read.
    Read,
    /// Every byte of the slice is written, and none is read.
    Write,
    /// Some bytes of the slice are written, the others stay, and none is read.
    WritePart,
    /// Some bytes of the slice are written after they have been read.
    Update,
}

impl Effect {
    /// Whether bytes are written.
    pub fn writes(self) -> bool {
        self != Effect::Read
    }

    /// Whether what the slice held before plays no role after.
    pub fn replaces(self) -> bool {
        self == Effect::Write
    }

    /// Whether the thunk reads bytes.
    pub fn reads(self) -> bool {
        matches!(self, Effect::Read | Effect::Update)
    }
}

/// When the elements of an access are touched.
#[derive(Clone, Copy, Debug)]
pub enum Order<'t> {
    /// Element `k` of the walk with element `k` of the thunk's space.
    Elements(&'t Walk),
    /// Row by row, the same rows for all such accesses of the thunk: `(size, stride)` of the rows
    /// and of the elements of one.
    Rows([(i64, i64); 2]),
    /// Any element at any time while the thunk runs, by any of its tasks.
    Any,
}

/// Where the bytes of an access are.
#[derive(Clone, Copy, Debug)]
pub enum Place<'t> {
    /// Elements of a view.
    View(&'t ArrayView),
    /// The scalar that a view begins at.
    Index(&'t DynamicIndex),
    /// The whole slice.
    Slice,
}

/// A piece of memory that a thunk touches, and how.
#[derive(Clone, Copy, Debug)]
pub struct Access<'t> {
    /// The memory.
    pub slice: BufferSlice,
    /// Which part of it.
    pub place: Place<'t>,
    /// What happens to it.
    pub effect: Effect,
    /// When.
    pub order: Order<'t>,
}

/// An operand in the list below.
enum Operand<'t> {
    View(&'t ArrayView),
    Slice(&'t BufferSlice),
}

/// The same, to change its slices.
enum OperandMut<'t> {
    View(&'t mut ArrayView),
    Slice(&'t mut BufferSlice),
}

fn write_of(covers: bool) -> Effect {
    match covers {
        true => Effect::Write,
        false => Effect::WritePart,
    }
}

/// What happens to a result that is not read: its elements are written, and what else its slice has stays.
fn write_to(result: &ArrayView) -> Effect {
    let bytes = result.count() * result.element_type.size_bytes();
    write_of(bytes >= result.slice.size)
}

/// The list, once for reading and once for changing slices.
macro_rules! operands {
    ($name:ident, $operand:ident $(, $mut:tt)?) => {
        impl Load {
            fn $name<'t>(&'t $($mut)? self, f: &mut dyn FnMut($operand<'t>, Effect, Order<'t>)) {
                match &$($mut)? self.kind {
                    LoadKind::View(view) => {
                        f($operand::View(view), Effect::Read, Order::Elements(&self.walk));
                    }
                    LoadKind::Joined(pieces) => {
                        for piece in pieces {
                            f($operand::View(&$($mut)? piece.view), Effect::Read, Order::Any);
                        }
                    }
                    LoadKind::Iota => {}
                }
            }
        }

        impl LoopThunk {
            fn $name<'t>(&'t $($mut)? self, f: &mut dyn FnMut($operand<'t>, Effect, Order<'t>)) {
                for load in &$($mut)? self.loads {
                    load.$name(f);
                }
                for store in &$($mut)? self.stores {
                    let effect = write_of(store.covers_buffer);
                    f($operand::View(&$($mut)? store.view), effect, Order::Elements(&store.walk));
                }
            }
        }

        impl ReduceThunk {
            fn $name<'t>(&'t $($mut)? self, f: &mut dyn FnMut($operand<'t>, Effect, Order<'t>)) {
                for load in &$($mut)? self.loads {
                    load.$name(f);
                }
                for init in &$($mut)? self.inits {
                    f($operand::View(init), Effect::Read, Order::Any);
                }
                for output in &$($mut)? self.outputs {
                    let rows = [(output.count() as i64, 1), (1, 1)];
                    f($operand::View(output), Effect::Write, Order::Rows(rows));
                }
            }
        }

        impl GemmThunk {
            fn $name<'t>(&'t $($mut)? self, f: &mut dyn FnMut($operand<'t>, Effect, Order<'t>)) {
                let rows = |view: &ArrayView| match view.dims[0] {
                    1 => Order::Rows([1, 2].map(|d| (view.dims[d], view.strides[d]))),
                    _ => Order::Any,
                };
                let (order, result) = (rows(&self.a), rows(&self.c));
                let m = self.c.dims[1];
                f($operand::View(&$($mut)? self.a), Effect::Read, order);
                match &$($mut)? self.way {
                    GemmWay::PackedOperand(packed) => f($operand::Slice(packed), Effect::Read, Order::Any),
                    _ => f($operand::View(&$($mut)? self.b), Effect::Read, Order::Any),
                }
                for array in &$($mut)? self.epilogue_operands {
                    let order = match array.dims[0] == m {
                        true => Order::Rows([0, 1].map(|d| (array.dims[d], array.strides[d]))),
                        false => Order::Any,
                    };
                    f($operand::View(array), Effect::Read, order);
                }
                let effect = match faults::holds(Fault::DeclaresUpdateAsWrite, self.beta == 0.0) {
                    true => write_to(&self.c),
                    false => Effect::Update,
                };
                f($operand::View(&$($mut)? self.c), effect, result);
            }
        }

        impl Thunk {
            /// Recursion: members of a group are no groups.
            fn $name<'t>(&'t $($mut)? self, f: &mut dyn FnMut($operand<'t>, Effect, Order<'t>)) {
                match &$($mut)? self.kind {
                    ThunkKind::Copy(copy) => {
                        f($operand::View(&$($mut)? copy.source), Effect::Read, Order::Any);
                        let effect = write_of(copy.elidable);
                        f($operand::View(&$($mut)? copy.destination), effect, Order::Any);
                    }
                    ThunkKind::Loop(fused) => fused.$name(f),
                    ThunkKind::Reduce(reduce) => reduce.$name(f),
                    ThunkKind::RowTiled(tiled) => {
                        for member in &$($mut)? tiled.members {
                            member.$name(f);
                        }
                    }
                    ThunkKind::Gemm(gemm) => gemm.$name(f),
                    ThunkKind::PackOperand(pack) => {
                        f($operand::View(&$($mut)? pack.b), Effect::Read, Order::Any);
                        f($operand::Slice(&$($mut)? pack.to), Effect::Write, Order::Any);
                    }
                    ThunkKind::Op(op) => {
                        let updates = op.kind.updated_operands();
                        for input in &$($mut)? op.inputs {
                            f($operand::View(input), Effect::Read, Order::Any);
                        }
                        for (at, output) in (&$($mut)? op.outputs).into_iter().enumerate() {
                            let effect = match at < updates {
                                true => Effect::Update,
                                false => write_to(output),
                            };
                            f($operand::View(output), effect, Order::Any);
                        }
                    }
                    ThunkKind::While(repeated) => {
                        f($operand::View(&$($mut)? repeated.predicate), Effect::Read, Order::Any);
                    }
                    ThunkKind::Conditional(choice) => {
                        f($operand::View(&$($mut)? choice.selector), Effect::Read, Order::Any);
                    }
                    ThunkKind::Collective(collective) => {
                        for input in &$($mut)? collective.inputs {
                            f($operand::View(input), Effect::Read, Order::Any);
                        }
                        for output in &$($mut)? collective.outputs {
                            f($operand::View(output), Effect::Write, Order::Any);
                        }
                    }
                    ThunkKind::CollectiveStart(start) => {
                        for input in &$($mut)? start.collective.inputs {
                            f($operand::View(input), Effect::Read, Order::Any);
                        }
                    }
                    ThunkKind::DeviceId(id) => {
                        f($operand::Slice(&$($mut)? id.slice), Effect::Write, Order::Any);
                    }
                    ThunkKind::Observe(observe) => {
                        for leaf in &$($mut)? observe.leaves {
                            f($operand::View(leaf), Effect::Read, Order::Any);
                        }
                    }
                    ThunkKind::Nop => {}
                }
            }
        }
    };
}

operands!(operands, Operand);
operands!(operands_mut, OperandMut, mut);

/// The accesses of one operand: its indices, then itself.
fn expand<'t>(
    operand: Operand<'t>,
    effect: Effect,
    order: Order<'t>,
    f: &mut dyn FnMut(Access<'t>),
) {
    match operand {
        Operand::Slice(slice) => f(Access {
            slice: *slice,
            place: Place::Slice,
            effect,
            order,
        }),
        Operand::View(view) => {
            for index in &view.dynamic {
                f(Access {
                    slice: index.slice,
                    place: Place::Index(index),
                    effect: Effect::Read,
                    order: Order::Any,
                });
            }
            f(Access {
                slice: view.slice,
                place: Place::View(view),
                effect,
                order,
            });
        }
    }
}

impl Thunk {
    /// Calls `f` on everything the thunk itself touches, the scratch of a group included. Of control
    /// flow this is what it decides by; nested sequences are the caller's to walk.
    pub fn each_access<'t>(&'t self, f: &mut dyn FnMut(Access<'t>)) {
        self.operands(&mut |operand, effect, order| expand(operand, effect, order, f));
    }

    /// Everything it touches but the scratch of a group.
    pub fn accesses(&self) -> impl Iterator<Item = Access<'_>> {
        let mut all: SmallVec<[Access<'_>; 4]> = SmallVec::new();
        self.each_access(&mut |access| all.push(access));
        all.into_iter()
            .filter(|access| access.slice.allocation < PRIVATE)
    }

    /// Whether it reads anything of an allocation.
    pub fn reads(&self, allocation: u32) -> bool {
        let mut found = false;
        self.each_access(&mut |access| {
            found |= access.slice.allocation == allocation && access.effect.reads();
        });
        found
    }

    /// Lets `f` change every slice the thunk itself names, the scratch of a group included.
    pub fn rename(&mut self, f: &mut dyn FnMut(&mut BufferSlice, Effect)) {
        self.operands_mut(&mut |operand, effect, _| match operand {
            OperandMut::Slice(slice) => f(slice, effect),
            OperandMut::View(view) => {
                for index in &mut view.dynamic {
                    f(&mut index.slice, Effect::Read);
                }
                f(&mut view.slice, effect);
            }
        });
    }
}

impl LoopThunk {
    /// Calls `f` on everything the loop touches.
    pub fn each_access<'t>(&'t self, f: &mut dyn FnMut(Access<'t>)) {
        self.operands(&mut |operand, effect, order| expand(operand, effect, order, f));
    }

    /// Whether it reads anything of an allocation.
    pub fn reads(&self, allocation: u32) -> bool {
        let mut found = false;
        self.each_access(&mut |access| {
            found |= access.slice.allocation == allocation && access.effect.reads();
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PrimitiveType;

    #[test]
    fn a_result_leaves_the_rest_of_its_buffer() {
        let slice = |size| BufferSlice {
            allocation: 0,
            offset: 0,
            size,
        };
        let of = |size| ArrayView::dense(slice(size), PrimitiveType::F32, &[4, 6], &[0, 1]);
        assert_eq!(write_to(&of(96)), Effect::Write);
        let mut part = of(160);
        part.strides[0] = 10;
        assert_eq!(write_to(&part), Effect::WritePart);
    }
}
