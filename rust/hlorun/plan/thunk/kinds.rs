//! Thunks: the steps of an executable.
//!
//! A thunk names memory by [`BufferSlice`] only, so one executable serves any number of concurrent
//! runs. [`super::accesses`] is the one statement of what a thunk reads and writes.

use std::sync::OnceLock;

use hlorun_kernels::choice::Choice;
use hlorun_kernels::vector_bytecode::ColumnFold;
use hlorun_kernels::{BinaryOp, DType};

use super::picked_walk::PickedWalk;
use crate::module::InstructionId;
use crate::plan::element::elementwise::dtype;
use crate::plan::element::epilogue::EpilogueStep;
use crate::plan::element::program::{Program, Register};
use crate::plan::ops::OpThunk;
use crate::plan::view::{ArrayView, BufferSlice, PRIVATE, is_one_run};
use crate::types::Dims;

/// Steps in the order they run.
pub type ThunkSequence = Vec<Thunk>;

/// One step.
#[derive(Clone, Debug)]
pub struct Thunk {
    /// The last instruction it computes; for a product or a convolution with an epilogue, that product or convolution.
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
    RowTiled(Box<RowTiledThunk>),
    /// A matrix product.
    Gemm(Box<GemmThunk>),
    /// The right operand of products, put into the order in which they read it.
    PackOperand(Box<PackOperandThunk>),
    /// Any other operation, by views in and out.
    Op(Box<OpThunk>),
    /// Repeats `body` while `condition` leaves a non-zero byte in `predicate`.
    While(Box<WhileThunk>),
    /// Runs one of several branches.
    Conditional(Box<ConditionalThunk>),
    /// The number of this replica or partition.
    DeviceId(DeviceIdThunk),
    /// The first half of one.
    CollectiveStart(crate::plan::spmd::collective::CollectiveStartThunk),
    /// A rendezvous of replicas.
    Collective(Box<crate::plan::spmd::collective::CollectiveThunk>),
    /// Shows a value to the caller.
    Observe(Box<ObserveThunk>),
    /// Nothing; an elided copy.
    Nop,
}

impl ThunkKind {
    /// What reports call it.
    pub fn name(&self) -> &'static str {
        match self {
            ThunkKind::Copy(_) => "copy",
            ThunkKind::Loop(_) => "fused loop",
            ThunkKind::Reduce(_) => "fused reduction",
            ThunkKind::RowTiled(_) => "fused rows",
            ThunkKind::Gemm(_) => "matrix product",
            ThunkKind::PackOperand(_) => "matrix packing",
            ThunkKind::Op(_) => "operation",
            ThunkKind::While(_) => "while",
            ThunkKind::Conditional(_) => "conditional",
            ThunkKind::DeviceId(_) => "device id",
            ThunkKind::CollectiveStart(_) => "collective start",
            ThunkKind::Collective(_) => "collective",
            ThunkKind::Observe(_) => "observation",
            ThunkKind::Nop => "elided copy",
        }
    }
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
    /// How elements of the source come side by side, found by the first run.
    side_by_side: OnceLock<Option<PickedWalk>>,
}

impl CopyThunk {
    /// A copy; see the fields.
    pub fn new(source: ArrayView, destination: ArrayView, elidable: bool) -> CopyThunk {
        CopyThunk {
            source,
            destination,
            elidable,
            side_by_side: OnceLock::new(),
        }
    }

    /// The walk of the source in the order in which elements lie side by side in the destination, if they do.
    pub fn side_by_side(&self) -> Option<&PickedWalk> {
        let walk = || {
            let order = self.destination.memory_order();
            let is_run = is_one_run(&self.destination.walk(&order));
            is_run.then(|| self.source.walk(&order).into())
        };
        self.side_by_side.get_or_init(walk).as_ref()
    }
}

/// What a loop reads for a register.
#[derive(Clone, Debug)]
pub enum LoadKind {
    /// Elements of a view, in the loop's order.
    View(ArrayView),
    /// The index along one walked dimension.
    Iota,
    /// Elements of several views: of each row of the loop, those of the first, then those of the next one.
    Joined(Vec<Piece>),
}

/// A part of every row of a joined input.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// The array.
    pub view: ArrayView,
    /// How many rows there are, and how far they are from each other in the array.
    pub rows: (usize, i64),
    /// The same of its elements of a row.
    pub row: (usize, i64),
}

/// An input of a fused loop.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which input of the program.
    pub register: Register,
    /// What.
    pub kind: LoadKind,
    /// `(size, stride)` outermost first over the whole loop; for an iota the stride is the step of
    /// its value, and what is joined counts as one array.
    pub walk: PickedWalk,
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
    pub walk: PickedWalk,
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
    /// Whether threads share it; see [`crate::plan::schedule::shared_loops`].
    pub is_shared: bool,
    /// Set once everything else is decided; see [`crate::plan::schedule::small_loop`].
    pub small: Option<Box<crate::plan::thunk::small_loop::SmallLoop>>,
    /// Set where it goes over rows; see [`crate::plan::schedule::row_loops`].
    pub rows: Option<Box<crate::plan::thunk::row_loop::RowLoop>>,
}

impl LoopThunk {
    /// Its work, as [`PARALLEL_WORK`](crate::plan::cost::tiles::PARALLEL_WORK) counts it.
    pub fn work(&self) -> usize {
        self.count.saturating_mul(self.program.work)
    }
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
    /// What the combiner does, if it chooses one of two pairs.
    pub choice: Option<Choice>,
    /// How the values are folded.
    pub way: FoldWay,
    /// Initial values, scalars.
    pub inits: Vec<ArrayView>,
    /// Results, dense in the order of the kept dimensions.
    pub outputs: Vec<ArrayView>,
    /// Computes and folds values in one pass; see [`crate::plan::schedule::column_folds`].
    pub columns: Option<Box<ColumnFold>>,
    /// Set where its values are computed row by row; see [`crate::plan::schedule::row_loops`].
    pub rows: Option<Box<crate::plan::thunk::row_loop::RowLoop>>,
}

impl ReduceThunk {
    /// How many values are reduced.
    pub fn count(&self) -> usize {
        self.space.iter().map(|s| s.0.max(0) as usize).product()
    }
}

/// How the values of a reduction are folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldWay {
    /// By the reduction kernels of an operation, which is all that the combiner does.
    Kernels(BinaryOp),
    /// By the combiner, on lanes: values may be combined with each other before they are combined with a result.
    Lanes,
    /// By the combiner, value by value: values have other types than results.
    OneByOne,
}

/// Loops and reductions that run together, some rows at a time: row `r` of each reads, of what the
/// others write, row `r` only.
#[derive(Clone, Debug)]
pub struct RowTiledThunk {
    /// Rows.
    pub rows: usize,
    /// Rows of a tile.
    pub tile_rows: usize,
    /// [`ThunkKind::Loop`], [`ThunkKind::Reduce`] and [`ThunkKind::Gemm`] only, in order; each has a multiple of `rows`
    /// elements.
    pub members: Vec<Thunk>,
    /// What only members touch: scratch of one row tile, whose slices are numbered from
    /// [`crate::plan::view::PRIVATE`] on.
    pub privates: Vec<Private>,
}

/// A value of which there is never more than a tile.
#[derive(Clone, Copy, Debug)]
pub struct Private {
    /// Bytes.
    pub row_bytes: usize,
}

/// `D = epilogue(alpha·A·B + beta·D)`, batched.
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
    /// How it is computed.
    pub way: GemmWay,
    /// Steps of the epilogue; only where there is one product.
    pub epilogue: Vec<EpilogueStep>,
    /// Operands of those without a constant, in order: `[m, n]`, `[1, n]` or `[1, 1]`.
    pub epilogue_operands: Vec<ArrayView>,
}

/// How a product is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GemmWay {
    /// In one call, from its operands.
    Whole,
    /// From B in panels, as a [`PackOperandThunk`] makes them, or a constant has them; `b` is not read.
    PackedOperand(BufferSlice),
    /// By blocks of this many rows; see [`crate::plan::replication::products`].
    RowBlocks(usize),
}

/// Copies B of products inside a loop, once before the loop.
#[derive(Clone, Debug)]
pub struct PackOperandThunk {
    /// `[1, k, n]`.
    pub b: ArrayView,
    /// Columns of a panel; see [`GemmThunk::panels`].
    pub width: usize,
    /// As many bytes as `hlorun_kernels::packed_size` says.
    pub to: BufferSlice,
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
    /// [`crate::plan::schedule::scalar_bytecode`].
    pub bytecode: Option<Box<crate::plan::thunk::scalar_bytecode::ScalarProgram>>,
}

/// A choice.
#[derive(Clone, Debug)]
pub struct ConditionalThunk {
    /// Scalar: `pred` (true picks branch 0) or `s32` (out of range picks the last).
    pub selector: ArrayView,
    /// Each writes the result buffers.
    pub branches: Vec<ThunkSequence>,
}

impl Load {
    /// The view, when it is of a row tile's scratch.
    pub fn private(&self) -> Option<&ArrayView> {
        match &self.kind {
            LoadKind::View(view) if view.slice.allocation >= PRIVATE => Some(view),
            _ => None,
        }
    }

    /// All views whose elements it reads.
    pub fn views(&self) -> impl Iterator<Item = &ArrayView> {
        let (view, pieces) = match &self.kind {
            LoadKind::View(view) => (Some(view), [].as_slice()),
            LoadKind::Iota => (None, [].as_slice()),
            LoadKind::Joined(pieces) => (None, pieces.as_slice()),
        };
        view.into_iter()
            .chain(pieces.iter().map(|piece| &piece.view))
    }

    /// Whether it loads one element for all elements of the loop.
    pub fn is_constant(&self) -> bool {
        let is_view = matches!(self.kind, LoadKind::View(_));
        is_view && !self.walk.is_empty() && self.walk.iter().all(|step| step.1 == 0)
    }
}

impl Thunk {
    /// Sequences inside it, in the order they may run.
    pub fn nested(&self) -> Vec<&ThunkSequence> {
        match &self.kind {
            ThunkKind::While(w) => vec![&w.condition, &w.body],
            ThunkKind::Conditional(c) => c.branches.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The same, to change them.
    pub fn nested_mut(&mut self) -> Vec<&mut ThunkSequence> {
        match &mut self.kind {
            ThunkKind::While(w) => vec![&mut w.condition, &mut w.body],
            ThunkKind::Conditional(c) => c.branches.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
}

impl GemmThunk {
    /// Columns of a panel and bytes of all panels, if B may be packed, has at least so many elements, and is multiplied with
    /// more than one row.
    pub fn panels(&self, min_elements: i64) -> Option<(usize, usize)> {
        let (batch, m, n, k) = self.sizes();
        let ty = self.c.element_type;
        let suits = batch == 1
            && m > 1
            && k.saturating_mul(n) >= min_elements
            && self.way == GemmWay::Whole
            && self.a.element_type == ty
            && self.b.element_type == ty
            && self.alpha.1 == 0.0
            && self.b.dynamic.is_empty();
        let ty = dtype(ty).filter(|ty| suits && matches!(ty, DType::F32 | DType::F64))?;
        let width = hlorun_kernels::panel_width(ty, m as usize, n as usize);
        let size = hlorun_kernels::packed_size(ty, width, k as usize, n as usize)?;
        Some((width, size))
    }

    /// Its dimensions, from its views: `(batch, m, n, k)`.
    pub fn sizes(&self) -> (i64, i64, i64, i64) {
        let a: &Dims = &self.a.dims;
        (a[0], a[1], self.b.dims[2], a[2])
    }
}
