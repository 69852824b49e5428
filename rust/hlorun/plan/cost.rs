//! What each way of computing elements costs: every threshold, and the choice.
//!
//! In: how many elements, operations or how much work there is. Out: the way that takes the least time. Promise: what
//! decides how elements are computed is decided by these numbers, so that they can be measured and changed in one place.

pub mod copies;
pub mod layouts;
pub mod machine_code;
pub mod row_loops;
pub mod scalar_bytecode;
pub mod scatter;
pub mod shared;
pub mod windows;

use super::options::MachineCode;
use hlorun_kernels::vector_bytecode::Op;
use hlorun_kernels::{BinaryOp, UnaryOp};

/// A way of computing elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Step by step, or operation by operation.
    Interpreter,
    /// Several steps in one pass over registers.
    VectorBytecode,
    /// A function of the CPU's own instructions.
    MachineCode,
}

/// What is computed.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Steps of a loop over elements.
    Array {
        /// How many elements.
        elements: usize,
        /// How many steps.
        steps: usize,
    },
    /// The trips of a loop over few elements, or the runs of an entry, after so much work, or before so much that is known.
    Trips {
        /// Pieces of code that its operations become.
        pieces: usize,
        /// Work of the interpreter.
        work: u64,
        /// When machine code is wanted.
        when: MachineCode,
    },
}

/// The fastest way.
pub fn choose(work: Work) -> Way {
    match work {
        Work::Array { elements, steps } => {
            let least = match steps {
                0 | 1 => vector_bytecode::MIN_ELEMENTS_OF_ONE,
                2..=vector_bytecode::SHORT => vector_bytecode::MIN_ELEMENTS,
                _ => vector_bytecode::MIN_ELEMENTS_OF_LONG,
            };
            match elements >= least {
                true => Way::VectorBytecode,
                false => Way::Interpreter,
            }
        }
        Work::Trips { pieces, work, when } => {
            let least = machine_code::MIN_WORK + machine_code::WORK_PER_PIECE * pieces as u64;
            match when {
                MachineCode::AtOnce => Way::MachineCode,
                MachineCode::WhenBusy if work >= least => Way::MachineCode,
                MachineCode::WhenBusy | MachineCode::Never => Way::Interpreter,
            }
        }
    }
}

/// Whether an operation takes as long as several additions where its operands are floats.
pub fn is_function(op: Op) -> bool {
    use BinaryOp::{Atan2, Power, Remainder};
    use UnaryOp::{
        Abs, Ceil, Floor, Imag, IsFinite, Negate, Real, RoundNearestAfz, RoundNearestEven, Sign,
    };
    match op {
        Op::Unary(op) => !matches!(
            op,
            Abs | Ceil
                | Floor
                | Imag
                | IsFinite
                | Negate
                | Real
                | RoundNearestAfz
                | RoundNearestEven
                | Sign
        ),
        Op::Binary(op) => matches!(op, Atan2 | Power | Remainder),
        _ => false,
    }
}

/// Loops over arrays, tile by tile.
pub mod tiles {
    /// Scratch of a frame that stays in the first-level cache.
    pub const SCRATCH_TARGET: usize = 32 << 10;
    /// Fewest elements of a tile: with fewer, calling kernels costs as much as what they do, so that
    /// programs of many registers rather reach into the second-level cache.
    pub const MIN_TILE: usize = 512;
    /// Most elements of a tile.
    pub const MAX_TILE: usize = 2048;
    /// Rows of fewer elements are gathered into tiles of several.
    pub const MIN_RUN: i64 = 512;
    /// Fewest elements of neighbouring short rows that are the same to be laid out by doubling.
    pub const MIN_REPEATED: i64 = 32;
    /// Most times that an element is repeated in a row to be written together with its neighbours.
    pub const MAX_REPEATS: i64 = hlorun_kernels::strided::REPEATED as i64;
    /// Fewest rows of two to four elements, or of one element repeated, that are gathered by a loop of their own.
    pub const MIN_SHORT_ROWS: i64 = 16;
    /// Most elements of a block of short rows that is gathered by a list of their offsets.
    pub const MAX_LISTED: usize = 64;
    /// Most elements of a walk that is picked by vectors as a whole.
    pub const MAX_PICKED: i64 = 2048;
    /// Most elements of a block of a longer walk.
    pub const MAX_PICKED_PART: i64 = 256;
    /// Elements from which on such a block is long enough.
    pub const USUAL_PICKED: i64 = 64;
    /// Fewest elements for which such a block pays.
    pub const MIN_PICKED: i64 = 16;
    /// Fewest elements of a row that is not picked: such rows are copied row by row.
    pub const MIN_UNPICKED_ROW: i64 = 64;
    /// Copies along a walk before it is found how to pick its elements, which takes as long as a few of them.
    pub const PICKED_AFTER: u32 = 3;
    /// Fewest bytes of rows of cache lines that are gathered in one call.
    pub const MIN_LINE_ROWS: usize = 4 << 10;
    /// Most bytes of such a row.
    pub const MAX_LINE_ROW: usize = 2 << 10;
    /// Most elements of a period that is laid out once for all tiles.
    pub const MOST_REPEATED: i64 = 1024;
    /// Work from which a second thread pays: about four microseconds. A unit is a step on four bytes. To hand parts over and
    /// to wait for them takes up to two microseconds, and what one thread writes another then reads from its cache.
    pub const PARALLEL_WORK: usize = 3 << 16;
    /// The same of a loop on arrays of another loop that threads share: one thread alone would fetch the others' parts from
    /// their caches, which takes as long as to compute with them.
    pub const PARALLEL_WORK_BESIDE: usize = 1 << 16;
    /// Least bytes of an array that the two have in common.
    pub const MIN_COMMON: usize = 1 << 15;
    /// Least work of a task.
    pub const TASK_WORK: usize = 1 << 15;
    /// Work of a thread from which on it is cut into two tasks, so that others can take one when the thread comes late.
    /// With less, that costs more than it saves: the data are in the cache of the thread they are taken from.
    pub const HALVED_WORK: usize = 3 << 17;
    /// Work of a step that computes a function such as `exp`; other steps, of a few instructions, count as one.
    pub const FUNCTION_WORK: usize = 4;
    /// Bytes of an element that count as one unit of work.
    pub const WORK_BYTES: usize = 4;
    /// Size of the last cache where the system does not tell.
    pub const USUAL_CACHE: usize = 32 << 20;
}

/// Concatenations that a loop reads piece by piece.
pub mod joined_inputs {
    /// Fewest elements: with fewer, the loop is a small one.
    pub const MIN_ELEMENTS: i64 = super::small_loop::MAX_REPEATED as i64 + 1;
    /// Most pieces: each tile is put together from all of them.
    pub const MAX_PIECES: usize = 4;
}

/// Inputs of loops that lie across memory.
pub mod transposed_inputs {
    /// Bytes between neighbours from which a copy pays: those that lie closer are picked from few vectors.
    pub const MIN_STEP: usize = 16;
    /// Fewest elements that are copied.
    pub const MIN_ELEMENTS: usize = 1 << 14;
    /// Fewest times that an input with gaps is read to be copied.
    pub const MIN_REPEATS: usize = 8;
    /// Fewest elements that are read of it in all.
    pub const MIN_REPEATED: usize = 1 << 13;
    /// Fewest elements that are read before a neighbour of the first one is: fewer lines than these are read together as fast as
    /// a copy transposes them.
    pub const MIN_ROW: usize = 8;
}

/// Reductions over a short fastest dimension that is walked outside of the next one, and copies of inputs for them.
pub mod reduced_outward {
    /// Longest rows: sums of longer ones are formed faster, and more exactly, on lanes of a row.
    pub const MAX_ROW: i64 = 256;
    /// Fewest elements of a reduction.
    pub const MIN_ELEMENTS: usize = 1 << 13;
    /// Fewest planes of rows and columns: threads share whole ones.
    pub const MIN_PLANES: i64 = 16;
    /// Most instructions that are looked at to find what the reduced values are made of.
    pub const MAX_STEPS: usize = 128;
}

/// Reductions that are computed and folded in one pass.
pub mod column_folds {
    /// Fewest columns: fewer are folded onto themselves.
    pub const MIN_COLUMNS: usize = super::reduce::FEW_COLUMNS + 1;
    /// Most bytes of a plane of an input: it stays in a core's cache while its columns are read block by block.
    pub const MAX_PLANE: usize = 1 << 18;
}

/// Steps joined into vector bytecode.
pub mod vector_bytecode {
    /// Fewest elements for which steps are joined into vector bytecode.
    pub const MIN_ELEMENTS: usize = 256;
    /// The same for long programs: as many as a block has.
    pub const MIN_ELEMENTS_OF_LONG: usize = hlorun_kernels::vector_bytecode::MAX_BLOCK;
    /// The same for a single step, which is worth it where a narrow float is widened and rounded.
    pub const MIN_ELEMENTS_OF_ONE: usize = 1 << 12;
    /// Most steps of a short program: with more, passes over the elements cost more than to start vector bytecode.
    pub const SHORT: usize = 8;
    /// Least weight of a piece: below, single steps are as fast.
    pub const MIN_WEIGHT: usize = 3;
    /// The same in a program of several results, whose steps share what they read.
    pub const MIN_SHARED_WEIGHT: usize = 2;
    /// Most steps of a piece.
    pub const MAX_STEPS: usize = 256;
}

/// Neighbouring steps over the same rows.
pub mod row_tiling {
    /// Fewest rows, so that there are enough for all threads.
    pub const MIN_ROWS: usize = 32;
    /// Bytes of one tile: what stays in the second-level cache while all members pass over it.
    pub const TILE_BYTES: usize = 320 << 10;
    /// Most bytes of one row.
    pub const MAX_ROW_BYTES: usize = 1 << 20;
    /// Fewest bytes that members share.
    pub const MIN_SHARED: usize = 1 << 20;
    /// Most members.
    pub const MAX_MEMBERS: usize = 64;
    /// Most thunks that are skipped in search of members.
    pub const MAX_BETWEEN: usize = 24;
    /// Bytes a thunk touches to be the first member.
    pub const MIN_FIRST: usize = MIN_SHARED / MAX_MEMBERS;
    /// Most steps per sum of a product: it then takes about as long as its result takes to memory and
    /// back.
    pub const MAX_DEPTH: i64 = 64;
    /// Rows of a product are computed by multiples of this many, which fill its tiles.
    pub const PRODUCT_ROWS: usize = 16;
    /// Most bytes of one row of a group with a product, whose operand stays in the cache too.
    pub const MAX_PRODUCT_ROW_BYTES: usize = 24 << 10;
}

/// Results of `pad` of which the parts around the operand are filled, instead of the whole.
pub mod padding {
    /// Fewest elements of such a result.
    pub const MIN_PADDED: i64 = 1 << 12;
    /// At least one in this many elements of the result comes from the operand.
    pub const MIN_BOX: i64 = 2;
    /// Most parts that are filled.
    pub const MAX_PARTS: usize = 6;
}

/// Loops that become epilogues of products.
pub mod product_epilogues {
    /// Most thunks between a product and its loop, and most before a product that are searched for writes to its result.
    pub const MAX_BETWEEN: usize = 24;
}

/// Loops over the same elements.
pub mod loop_merging {
    /// Fewest steps that two loops of a group have in common to become one.
    pub const MIN_SHARED: usize = 4;
    /// Fewest elements of loops that join: fewer are a small part of what a step takes.
    pub const MIN_COUNT: usize = 512;
    /// Most inputs and results of a loop joined outside of groups: about as many streams of memory are prefetched.
    pub const MAX_STREAMS: usize = 12;
    /// Most earlier thunks among which a loop looks for one to join.
    pub const MAX_EARLIER: usize = 8;
    /// Most results of a loop: as many as a piece of vector bytecode may have.
    pub const MAX_RESULTS: usize = hlorun_kernels::vector_bytecode::MAX_OUTPUTS;
    /// Most steps of two loops that become one: joining builds all of them anew, for each loop that joins.
    pub const MAX_STEPS: usize = 512;
}

/// Loops that run in one piece on the stack.
pub mod small_loop {
    /// Bytes of the registers that are known while planning.
    pub const MAX_KNOWN: usize = 16 << 10;
    /// Most elements times steps of such a loop: one thread runs it.
    pub const MAX_WORK: usize = 1 << 16;
    /// Bytes of the registers that are computed or gathered.
    pub const MAX_SCRATCH: usize = 32 << 10;
    /// Most elements of a loop or a reduction inside a `while` whose steps run one by one instead of as
    /// vector bytecode.
    pub const MAX_REPEATED: usize = 2048;
    /// Most elements times steps of such: with more, vector bytecode gains more than a step of its own in a trip costs.
    pub const MAX_REPEATED_WORK: usize = 1 << 13;

    /// Whether so many steps over so many elements run one by one inside a `while`.
    pub fn runs_step_by_step(elements: usize, steps: usize) -> bool {
        elements <= MAX_REPEATED && elements.saturating_mul(steps) <= MAX_REPEATED_WORK
    }
}

const _: () = assert!(
    small_loop::MAX_REPEATED < reduce::PARALLEL_ELEMENTS
        && small_loop::MAX_REPEATED <= reduce::PARTIAL,
    "neither threads nor partial results cut such a reduction"
);

const _: () = assert!(
    reduce::PARALLEL_ELEMENTS <= reduce::PARTIAL,
    "what is reduced as one task is one partial result, so that the first thresholds change no bits"
);

/// Reductions, of arrays and inside scalar bytecode: the bits of sums depend on these.
pub mod reduce {
    /// Values that a task computes between two checks whether the run is to end.
    pub const CHECKED_VALUES: usize = 1 << 20;
    /// Fewest elements of neighbouring rows from which these are folded together, and of a reduction whose columns are.
    pub const MIN_REGULAR: usize = 129;
    /// Shortest run that a general reducer folds on lanes, and most lanes.
    pub const MIN_LANE_RUN: usize = 64;
    pub const MAX_LANES: usize = 128;
    /// Elements, or else work, from which a second thread pays.
    pub const PARALLEL_ELEMENTS: usize = 1 << 16;
    pub const PARALLEL_WORK: usize = 3 << 17;
    /// Work of folding an element by a kernel, and by a general reducer for each unit of its own.
    pub const FOLD_WORK: usize = 4;
    pub const GENERAL_WORK: usize = 8;
    /// Elements of one partial result when everything, or a long row, is reduced.
    pub const PARTIAL: usize = 1 << 16;
    /// Rows that are too few to be shared out; long ones are cut into partial results.
    pub const FEW_ROWS: usize = 64;
    /// Elements of one partial result of columns.
    pub const COLUMN_PARTIAL: usize = 1 << 18;
    /// Most partial results of columns, and fewest rows of one.
    pub const MAX_COLUMN_PARTIALS: usize = 32;
    pub const MIN_COLUMN_ROWS: usize = 32;
    /// Elements of a tile that is read where it lies.
    pub const PLAIN_TILE: usize = 1 << 13;
    /// Bytes of the results of neighbouring columns that are folded together: with what is read, and what is computed of
    /// that, they stay in the first-level cache.
    pub const COLUMN_BYTES: usize = 8 << 10;
    /// Most columns that are folded onto themselves.
    pub const FEW_COLUMNS: usize = 128;
    /// Longest rows that are folded side by side, for plain kernels and for general reducers.
    pub const SHORT_ROW: usize = 32;
    pub const SHORT_ROW_GENERAL: usize = 64;
    /// The same of truth values, most of whose kernels read whole words of a row.
    pub const SHORT_ROW_OF_TRUTHS: usize = 1 << 10;
}

/// Loops that passes over the module change.
pub mod loops {
    /// Most trips of a loop that is written out, and most instructions of all its trips.
    pub const MAX_UNROLLED_TRIPS: usize = 8;
    pub const MAX_UNROLLED: usize = 1024;
    /// Most instructions of all loops of a module that are written out, but for those of one trip.
    pub const MAX_ALL_UNROLLED: usize = 1 << 15;
    /// Most instructions of all copies of computations that loops share.
    pub const MAX_COPIED: usize = 1 << 11;
    /// Fewest bytes that a trip changes to be written out.
    pub const MIN_CHANGED: i64 = 1 << 8;
    /// Bytes read and written by what is computed for a loop that may have no trip.
    pub const MAX_SPECULATIVE: i64 = 1 << 18;
    /// Bytes read and written by all arithmetic that is moved out of one loop: its results live as long
    /// as the loop.
    pub const MAX_ARITHMETIC: i64 = 1 << 24;
    /// Most bytes read and written by the last instruction of what is moved for its operations: to read more from memory in
    /// every trip takes as long as to compute it.
    pub const MAX_READ_AGAIN: i64 = 1 << 21;
    /// Operations by which an element costs more than to read it; a division or a transcendental function is as many.
    pub const MIN_OPERATIONS: usize = 3;
    /// Bytes of an invariant broadcast that is worth an array of its own, elements that it has at least, and times that it
    /// repeats each: a cache holds it, and a trip reads it faster than it repeats elements.
    pub const MAX_BROADCAST: i64 = 1 << 16;
    pub const MIN_BROADCAST: i64 = 1 << 10;
    pub const MIN_REPEATED: i64 = 8;
    /// Bytes read and written by all such broadcasts of a loop.
    pub const MAX_BROADCASTS: i64 = 1 << 20;
    /// Most index values, over all trips, that are compared to show that a loop computes rows of its own.
    pub const MAX_COMPARED: usize = 1 << 19;
    /// Most elements of what is computed once in a trip and stored, instead of by each of its readers.
    pub const MAX_SHARED: i64 = 64;
    /// Fewest elements of state of which parts are copied.
    pub const MIN_STATE: i64 = 2048;
    /// The parts together are at most one in so many of these elements.
    pub const PARTS: i64 = 4;
    /// The same of parts that are needed after an update of an array, which is copied as a whole otherwise.
    pub const UPDATED_PARTS: i64 = 2;
    /// Most instructions that are moved before an update with a slice.
    pub const MAX_MOVED: usize = 16;
    /// Most updates of one array that are followed back.
    pub const MAX_FORMER: usize = 16;
}

/// Products whose right operand is packed beforehand.
pub mod products {
    /// Fewest elements of a matrix worth packing.
    pub const MIN_PACKED: i64 = 1 << 14;
    /// Most rows of the other operand of a product in a loop; with more, packing at every product costs little.
    pub const MAX_LOOP_ROWS: i64 = 64;
}

/// Constants that are packed when a module is compiled.
pub mod packed_constants {
    /// Fewest columns of a product's operand: fewer leave most of a panel empty.
    pub const MIN_COLUMNS: i64 = 32;
    /// Most packed copies of a constant or of parts of it.
    pub const MAX_COPIES: usize = 256;
    /// Most bytes of them per byte of the constant: strips and panels are padded to whole vectors.
    pub const MAX_GROWTH: usize = 4;
}

/// Inner products of `f32` and `f64`.
pub mod inner_product {
    /// Terms of one product from which it becomes a reduction: the sums of shorter ones stay in registers.
    pub const MIN_TERMS: i64 = hlorun_kernels::TINY_DEPTH as i64 + 1;
    /// Terms of all products of a batch from which they become reductions.
    pub const MIN_ALL_TERMS: i64 = 1 << 9;
}

/// Factorizations and triangular solves of small matrices, one in each lane of the vectors.
pub mod small_matrices {
    /// Most elements of a matrix, or of a right-hand side.
    pub const MAX_ELEMENTS: usize = 1 << 10;
    /// Matrices from which on lanes that stay empty cost less than one matrix after the other.
    pub const MIN_TOGETHER: usize = 3;
    /// Elements times rows of all matrices of a task: what is worth handing to another thread.
    pub const TASK_STEPS: usize = 1 << 15;
    /// Elements of a task's matrices where a library is called for each: a call takes a microsecond or more.
    pub const TASK_ELEMENTS: usize = 1 << 8;
}

/// Fourier transforms.
pub mod transforms {
    /// Elements a task transforms at least.
    pub const GRAIN: usize = 16 << 10;
    /// Elements of rows that are transformed and scaled while they are in the first-level cache.
    pub const GROUP: usize = 2 << 10;
    /// Bytes of columns that are brought together and transformed one by one.
    pub const COLUMNS: usize = 256 << 10;
    /// Bytes of a part of a complex number, of all neighbouring lines, from which these are transformed in lanes: half of the
    /// longest vectors. The same on all CPUs, as lines in lanes have other bits.
    pub const MIN_LINES: usize = 32;
    /// Shortest rows that are turned into lanes, where they have a larger prime factor than the library has vectors for.
    pub const MIN_TURNED: usize = 32;
    pub const LARGEST_VECTOR_FACTOR: usize = 11;
}

/// What is computed of repeated values.
pub mod broadcasts {
    /// How often values are repeated at least for them to be computed first: that takes a step of its own.
    pub const MIN_REPEATED: i64 = 8;
}

/// Sorts of which only the first of each row are read.
pub mod top_k {
    /// How many times shorter than a row what is read must be.
    pub const MIN_RATIO: i64 = 4;
}

/// Operations that fold windows, select from them or scatter them.
pub mod windowed {
    /// Elements of windows that make a task.
    pub const GRAIN: usize = 64 << 10;
    /// Longest window along a row, and most rows of a window, that are combined one by one.
    pub const LONGEST: i64 = 64;
    /// Most elements of a block that stays together; rows of larger ones are long enough by themselves.
    pub const MAX_BLOCK: i64 = 1 << 12;
    /// Elements of a row of outputs that are computed at a time, so that what they read stays in the cache.
    pub const PIECE: i64 = 1 << 14;
    /// Elements of short rows that are computed at a time, and fewest such rows: each is copied out for it.
    pub const TOGETHER: usize = 1 << 11;
    pub const MIN_TOGETHER: usize = 8;
    /// Most elements of a row that is copied next to others for a computation of several steps.
    pub const SHORT_ROW: usize = 64;
    /// Shortest window of an associative operation that goes by prefixes and suffixes.
    pub const LONG: i64 = 8;
    /// With fewer lines than this, each is folded by itself.
    pub const LINES: usize = 8;
    /// Shortest row that is walked as it lies where another dimension would make a longer one.
    pub const MIN_RUN: i64 = 16;
    /// Elements of windows from which on arrays are copied for the sake of their order.
    pub const MIN_ARRANGED: i64 = 1 << 10;
    /// Elements of a task's lines, where windows reach back to the start.
    pub const RUNNING_GRAIN: usize = 1 << 14;
}

/// Convolutions as matrix products of patches and weights; others are below.
pub mod convolution {
    /// Bytes of patches by which the outputs of a task are chosen: they stay in its second-level cache.
    pub const TILE_BYTES: usize = 1 << 19;
    /// Fewest and most outputs of a task.
    pub const MIN_TILE: usize = 128;
    pub const MAX_TILE: usize = 4096;
    /// Below so many tiles all threads share the product.
    pub const FEW_TILES: usize = 8;
    /// Bytes of weights from which all threads share it, too: packing weights takes long, and they fill a second-level cache.
    pub const LARGE_WEIGHTS: usize = 1 << 20;
    /// Most bytes of patches of a product, shared by threads or not, unless those of one output at one position of the window
    /// take more.
    pub const PATCH_BYTES: usize = 8 << 20;
    /// Fewest outputs of a product that threads share, if those bytes allow: weights are packed for each product.
    pub const MIN_SHARED: usize = 512;
    /// Bytes of patches that are worth another thread.
    pub const FILL_GRAIN: usize = 1 << 16;
    /// Widest window whose rows of inputs are copied at once: a list in memory has an entry for each position.
    pub const MAX_JOINED: usize = 1 << 16;
    /// Positions of a window between two checks whether the run is to end.
    pub const CHECKED_POSITIONS: i64 = 1 << 16;
    /// Most convolutions that one with base dilation is cut into.
    pub const MAX_PHASES: i64 = 64;
}

/// Convolutions that read their inputs in place.
pub mod indirect_convolution {
    /// Fewest input features of a group, and fewest outputs: the table has an entry for each output and term.
    pub const MIN_FEATURES: usize = 2;
    pub const MIN_OUTPUTS: usize = 16;
    /// Most input features of which a row of the window is read as one, and most steps of such a row: with more, a position is
    /// enough for a product.
    pub const MAX_JOINED_FEATURES: usize = 16;
    pub const MAX_JOINED_STEPS: usize = 256;
    /// Fewest outputs of a task: each reads the whole kernel.
    pub const MIN_TILE: usize = 48;
    /// Shortest row of outputs that is a task of its own where rows lie apart.
    pub const MIN_ROW: i64 = 16;
    /// Most bytes of inputs at the outputs of a task, unless the fewest have more: blocks of the depth read them one after the
    /// other.
    pub const TILE_BYTES: usize = 256 << 10;
    /// Tasks to aim at.
    pub const TASKS: usize = 32;
    /// Most entries of a table, unless one block of the depth has more.
    pub const TABLE_ENTRIES: usize = 1 << 14;
    /// Elements of the kernel whose packing is worth another thread.
    pub const PACK_GRAIN: usize = 1 << 15;
}

/// Convolutions of few features, which are no matrix products.
pub mod narrow_convolution {
    /// Most output features of a group: more are faster as a matrix product.
    pub const MAX_FEATURES: usize = 8;
    /// Fewest outputs of a row, and most rows of inputs that one sums.
    pub const MIN_LENGTH: usize = 8;
    pub const MAX_ROWS: usize = 1 << 10;
    /// Most outputs between two that see inputs at the same positions of a window.
    pub const MAX_STEP: i64 = 8;
    /// Most outputs that are summed at a time, which bounds the memory for rows that are copied.
    pub const MAX_LENGTH: i64 = 1 << 12;
    /// Multiplications that make a task.
    pub const GRAIN: usize = 256 << 10;
    /// Multiplications between two checks whether the run is to end: some milliseconds.
    pub const CHECKED: usize = 16 << 20;
    /// Most bytes of depthwise results that are moved to their places at a time, unless the features of one output take more.
    pub const ROOM_BYTES: usize = 1 << 20;
}

/// Gathers, shared among threads.
pub mod gathers {
    /// Windows from which one element of each is copied before the next one of any.
    pub const FEW: usize = 16;
    /// Bytes of a window up to which those of as many as are found at a time stay in the nearest cache.
    pub const SPREAD: usize = 64;
    /// Bytes of a task at least.
    pub const GRAIN: usize = 128 << 10;
    /// What it costs to find a window, in bytes that could be copied in that time.
    pub const FINDING: usize = 24;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_over_many_elements_do_not_run_one_by_one() {
        use small_loop::{MAX_REPEATED, MAX_REPEATED_WORK, runs_step_by_step};
        let most = MAX_REPEATED_WORK / MAX_REPEATED;
        assert!(runs_step_by_step(MAX_REPEATED, most));
        assert!(!runs_step_by_step(MAX_REPEATED + 1, 1));
        assert!(!runs_step_by_step(MAX_REPEATED, most + 1));
        assert!(runs_step_by_step(MAX_REPEATED / 2, 2 * most));
        assert!(runs_step_by_step(1, 100));
        assert!(!runs_step_by_step(2, usize::MAX));
    }

    #[test]
    fn long_programs_are_vector_bytecode_from_fewer_elements_on() {
        let way = |elements, steps| choose(Work::Array { elements, steps });
        let long = vector_bytecode::SHORT + 1;
        let few = vector_bytecode::MIN_ELEMENTS_OF_LONG;
        let many = vector_bytecode::MIN_ELEMENTS;
        assert_eq!(way(few - 1, long), Way::Interpreter);
        assert_eq!(way(few, long), Way::VectorBytecode);
        assert_eq!(way(few, long - 1), Way::Interpreter);
        assert_eq!(way(many, long - 1), Way::VectorBytecode);
        assert_eq!(way(many, 1), Way::Interpreter);
    }
}
