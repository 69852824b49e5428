//! Thunks: the steps of an executable.
//!
//! A thunk names memory by [`BufferSlice`] only, so one executable serves any number of concurrent
//! runs. [`Thunk::visit_slices`] tells every stage what a thunk reads and writes.

use super::ops::OpThunk;
use super::program::{Program, Register};
use super::view::{ArrayView, BufferSlice, PRIVATE};
use crate::module::InstructionId;
use crate::types::Dims;

/// How a thunk touches a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only reads.
    Read,
    /// Writes every byte of it and reads none.
    Write,
    /// Writes some bytes, or reads what it writes.
    Update,
}

/// Steps in the order they run.
pub type ThunkSequence = Vec<Thunk>;

/// One step.
#[derive(Clone, Debug)]
pub struct Thunk {
    /// The instruction it computes; the last one, where it computes several.
    pub instruction: InstructionId,
    /// What it does.
    pub kind: ThunkKind,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum ThunkKind {
    /// Elements of a view into a view of the same sizes.
    Copy(Box<CopyThunk>),
    /// A fused elementwise loop.
    Loop(Box<LoopThunk>),
    /// A fused elementwise loop into a reduction.
    Reduce(Box<ReduceThunk>),
    /// Loops and reductions over the same rows.
    Bands(Box<BandThunk>),
    /// A matrix product.
    Gemm(Box<GemmThunk>),
    /// The right operand of products, put into the order in which they read it.
    PackPanels(Box<PackPanelsThunk>),
    /// Any other operation, by views in and out.
    Op(Box<OpThunk>),
    /// Repeats `body` while `condition` leaves a non-zero byte in `predicate`.
    While(Box<WhileThunk>),
    /// Runs one of several branches.
    Conditional(Box<ConditionalThunk>),
    /// The number of this replica or partition.
    DeviceId(DeviceIdThunk),
    /// The first half of one.
    CollectiveStart(super::collective::CollectiveStartThunk),
    /// A meeting of replicas.
    Collective(Box<super::collective::CollectiveThunk>),
    /// Shows a value to the caller.
    Observe(Box<ObserveThunk>),
    /// Nothing; an elided copy.
    Nop,
}

/// A value the caller wants to see; computes nothing.
#[derive(Clone, Debug)]
pub struct ObserveThunk {
    /// The instruction's arrays, in the order of its shape; workspaces hold nothing and are left out.
    pub leaves: Vec<ArrayView>,
}

/// A copy.
#[derive(Clone, Debug)]
pub struct CopyThunk {
    /// From.
    pub source: ArrayView,
    /// To; the same sizes and element size.
    pub destination: ArrayView,
    /// Bytes of `source` and `destination` are the whole buffers in the same order, so the copy may
    /// be dropped when they can be one buffer.
    pub elidable: bool,
}

/// What a loop reads for a register.
#[derive(Clone, Debug)]
pub enum LoadKind {
    /// Elements of a view, in the loop's order.
    View(ArrayView),
    /// The index along one walked dimension.
    Iota,
}

/// An input of a fused loop.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which input of the program.
    pub register: Register,
    /// What.
    pub kind: LoadKind,
    /// `(size, stride)` outermost first over the whole loop; for an iota the stride is the step of
    /// its value.
    pub walk: super::view::Walk,
    /// One run with stride 1.
    pub is_dense: bool,
}

/// An output of a fused loop.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which output of the program.
    pub register: Register,
    /// Where to.
    pub view: ArrayView,
    /// As in [`Load`].
    pub walk: super::view::Walk,
    /// One run with stride 1.
    pub is_dense: bool,
    /// Every byte of the view's buffer is written.
    pub covers_buffer: bool,
}

/// A fused elementwise loop over `count` elements.
#[derive(Clone, Debug)]
pub struct LoopThunk {
    /// Elements of every load and store.
    pub count: usize,
    /// The code.
    pub program: Program,
    /// Inputs.
    pub loads: Vec<Load>,
    /// Outputs.
    pub stores: Vec<Store>,
    /// Set once everything else is decided; see [`super::small`].
    pub small: Option<Box<super::small::SmallLoop>>,
}

/// A fused loop whose values are reduced.
#[derive(Clone, Debug)]
pub struct ReduceThunk {
    /// Walked dimensions, slowest first: size and whether it is reduced.
    pub space: Vec<(i64, bool)>,
    /// Computes the values to reduce, one output per reduced operand.
    pub program: Program,
    /// Inputs of `program`.
    pub loads: Vec<Load>,
    /// Accumulators followed by values in, accumulators out.
    pub combiner: Program,
    /// The combiner is one two-operand kernel that has a reduction kernel of its own.
    pub simple: Option<hlorun_kernels::BinaryOp>,
    /// Initial values, scalars.
    pub inits: Vec<ArrayView>,
    /// Results, dense in the order of the kept dimensions.
    pub outputs: Vec<ArrayView>,
}

/// Loops and reductions that run together, some rows at a time: row `r` of each reads, of what the
/// others write, row `r` only.
#[derive(Clone, Debug)]
pub struct BandThunk {
    /// Rows.
    pub rows: usize,
    /// Rows of a band.
    pub band: usize,
    /// [`ThunkKind::Loop`] and [`ThunkKind::Reduce`] only, in order; each has a multiple of `rows`
    /// elements.
    pub members: Vec<Thunk>,
    /// What only members touch: scratch of one band, whose slices are numbered from
    /// [`super::view::PRIVATE`] on.
    pub privates: Vec<Private>,
}

/// A value of which there is never more than a band.
#[derive(Clone, Copy, Debug)]
pub struct Private {
    /// Bytes.
    pub row_bytes: usize,
}

/// `D = alpha·A·B + beta·D`, batched.
#[derive(Clone, Debug)]
pub struct GemmThunk {
    /// The batch dimension and then m, k.
    pub a: ArrayView,
    /// batch, k, n.
    pub b: ArrayView,
    /// batch, m, n.
    pub c: ArrayView,
    /// Scale of the product, real and imaginary.
    pub alpha: (f64, f64),
    /// Scale of what is in D before; 0 never reads it.
    pub beta: f64,
    /// Where B lies in panels, when a [`PackPanelsThunk`] has put it there; `b` is then not read.
    pub panels: Option<BufferSlice>,
    /// It is computed by blocks of this many rows; see [`super::products`].
    pub block_rows: Option<usize>,
}

/// Copies B of products inside a loop into panels, once before the loop.
#[derive(Clone, Debug)]
pub struct PackPanelsThunk {
    /// `[1, k, n]`.
    pub b: ArrayView,
    /// As many bytes as `hlorun_kernels::panels_size` says.
    pub panels: BufferSlice,
}

/// Writes a device number.
#[derive(Clone, Debug)]
pub struct DeviceIdThunk {
    /// One `u32`.
    pub slice: BufferSlice,
    /// The partition's number instead of the replica's.
    pub partition: bool,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct WhileThunk {
    /// Leaves the predicate.
    pub condition: ThunkSequence,
    /// Scalar `pred`.
    pub predicate: ArrayView,
    /// One trip, state buffers updated in place.
    pub body: ThunkSequence,
    /// Trips, where the module says so or the analysis found it.
    pub trip_count: Option<u64>,
    /// A trip takes no more than microseconds.
    pub is_brief: bool,
    /// Set once everything else is decided, where no loop around it has any; see
    /// [`super::flat`].
    pub flat: Option<Box<super::flat::FlatLoop>>,
}

/// A choice.
#[derive(Clone, Debug)]
pub struct ConditionalThunk {
    /// Scalar: `pred` (true picks branch 0) or `s32` (out of range picks the last).
    pub selector: ArrayView,
    /// Each writes the result buffers.
    pub branches: Vec<ThunkSequence>,
}

/// Calls `f` on the slice of a view and on those of its indices.
pub(super) fn visit_view(
    view: &mut ArrayView,
    access: Access,
    f: &mut dyn FnMut(&mut BufferSlice, Access),
) {
    f(&mut view.slice, access);
    for index in &mut view.dynamic {
        f(&mut index.slice, Access::Read);
    }
}

impl Load {
    /// The view, when the load walks a whole buffer from its first byte to its last.
    pub fn whole_buffer(&self) -> Option<&ArrayView> {
        match &self.kind {
            LoadKind::View(view)
                if self.is_dense
                    && view.offset == 0
                    && view.dynamic.is_empty()
                    && view.slice.size == view.count() * view.element_type.size_bytes() =>
            {
                Some(view)
            }
            _ => None,
        }
    }

    /// The view, when it is of a band's scratch.
    pub fn private(&self) -> Option<&ArrayView> {
        match &self.kind {
            LoadKind::View(view) if view.slice.allocation >= PRIVATE => Some(view),
            _ => None,
        }
    }

    /// Whether it reads anything of a buffer.
    pub fn touches(&self, allocation: u32) -> bool {
        match &self.kind {
            LoadKind::View(view) => {
                view.slice.allocation == allocation
                    || view
                        .dynamic
                        .iter()
                        .any(|index| index.slice.allocation == allocation)
            }
            LoadKind::Iota => false,
        }
    }

    fn visit(&mut self, f: &mut dyn FnMut(&mut BufferSlice, Access)) {
        match &mut self.kind {
            LoadKind::View(view) => visit_view(view, Access::Read, f),
            LoadKind::Iota => {}
        }
    }
}

impl Thunk {
    /// Calls `f` on every slice the thunk itself touches; nested sequences are the caller's to walk
    /// (see [`Thunk::nested`]).
    pub fn visit_slices(&mut self, f: &mut dyn FnMut(&mut BufferSlice, Access)) {
        match &mut self.kind {
            ThunkKind::Copy(copy) => {
                visit_view(&mut copy.source, Access::Read, f);
                let access = if copy.elidable {
                    Access::Write
                } else {
                    Access::Update
                };
                visit_view(&mut copy.destination, access, f);
            }
            ThunkKind::Loop(fused) => {
                for load in &mut fused.loads {
                    load.visit(f);
                }
                for store in &mut fused.stores {
                    let access = if store.covers_buffer {
                        Access::Write
                    } else {
                        Access::Update
                    };
                    visit_view(&mut store.view, access, f);
                }
            }
            ThunkKind::Reduce(reduce) => {
                for load in &mut reduce.loads {
                    load.visit(f);
                }
                for init in &mut reduce.inits {
                    visit_view(init, Access::Read, f);
                }
                for output in &mut reduce.outputs {
                    visit_view(output, Access::Write, f);
                }
            }
            ThunkKind::Bands(bands) => {
                for member in &mut bands.members {
                    member.visit_slices(&mut |slice, access| {
                        if slice.allocation < PRIVATE {
                            f(slice, access);
                        }
                    });
                }
            }
            ThunkKind::Gemm(gemm) => {
                visit_view(&mut gemm.a, Access::Read, f);
                match &mut gemm.panels {
                    Some(panels) => f(panels, Access::Read),
                    None => visit_view(&mut gemm.b, Access::Read, f),
                }
                let access = if gemm.beta == 0.0 {
                    Access::Write
                } else {
                    Access::Update
                };
                visit_view(&mut gemm.c, access, f);
            }
            ThunkKind::PackPanels(pack) => {
                visit_view(&mut pack.b, Access::Read, f);
                f(&mut pack.panels, Access::Write);
            }
            ThunkKind::Op(op) => {
                for input in &mut op.inputs {
                    visit_view(input, Access::Read, f);
                }
                let access = if op.updates_output() {
                    Access::Update
                } else {
                    Access::Write
                };
                for output in &mut op.outputs {
                    visit_view(output, access, f);
                }
            }
            ThunkKind::While(w) => visit_view(&mut w.predicate, Access::Read, f),
            ThunkKind::Conditional(c) => visit_view(&mut c.selector, Access::Read, f),
            ThunkKind::Collective(c) => {
                for input in &mut c.inputs {
                    visit_view(input, Access::Read, f);
                }
                for output in &mut c.outputs {
                    visit_view(output, Access::Write, f);
                }
            }
            ThunkKind::CollectiveStart(start) => {
                for input in &mut start.collective.inputs {
                    visit_view(input, Access::Read, f);
                }
            }
            ThunkKind::DeviceId(id) => f(&mut id.slice, Access::Write),
            ThunkKind::Observe(observe) => {
                for leaf in &mut observe.leaves {
                    visit_view(leaf, Access::Read, f);
                }
            }
            ThunkKind::Nop => {}
        }
    }

    /// Sequences inside it, in the order they may run.
    pub fn nested(&mut self) -> Vec<&mut ThunkSequence> {
        match &mut self.kind {
            ThunkKind::While(w) => vec![&mut w.condition, &mut w.body],
            ThunkKind::Conditional(c) => c.branches.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
}

/// Dimensions of a gemm, from its views: batch, m, n, k.
impl GemmThunk {
    /// `(batch, m, n, k)`.
    pub fn sizes(&self) -> (i64, i64, i64, i64) {
        let a: &Dims = &self.a.dims;
        (a[0], a[1], self.b.dims[2], a[2])
    }
}
