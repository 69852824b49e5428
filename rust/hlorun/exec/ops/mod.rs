//! Runs the operations that are no loops; one file per operation, named as in `plan::ops`.

pub mod associative;
pub mod bitcast_convert;
pub mod block_dot;
pub mod convolution;
pub mod cudnn_attention;
pub mod custom_call;
pub mod depthwise;
pub mod dimension_size;
pub mod fft;
pub mod gather;
pub(crate) mod im2col;
pub mod index_map;
pub mod indirect;
pub mod lanes;
pub mod linalg;
pub mod lines;
mod pack_kernel;
mod phases;
mod positions;
pub mod reduce_window;
pub mod rng;
pub mod rng_bit_generator;
pub mod running;
pub mod running_blocks;
pub mod scatter;
pub mod select_and_scatter;
pub mod sliding;
pub mod sort;
pub mod sort_merge;
pub mod sort_rows;
pub mod topk;
pub mod walk;
mod weighted_rows;
pub mod window;
mod window_axis;
mod window_blocks;
mod window_order;
mod window_rows;

use super::array::RawArray;
use crate::error::{HloError, Result};
use crate::exec::parallel::OpEnvironment;
use crate::plan::ops::OpKind;
use smallvec::SmallVec;

/// An operation of which everything is done that its runs share while its arrays keep their shapes.
pub enum Prepared<'o> {
    /// A gather.
    Gather(gather::PreparedGather),
    /// A scatter, its operand, and its output, to which each run copies the operand first.
    Scatter(scatter::PreparedScatter, [RawArray; 2]),
    /// A `reduce-window` whose windows reach back to the start.
    Running(running::RunningFold<'o>),
    /// A sort by keys.
    Sort(sort::Sorter<'o>),
    /// Any other one: only its arrays are known.
    Other(&'o OpKind, [SmallVec<[RawArray; 4]>; 2]),
}

impl Prepared<'_> {
    /// Lets the arrays be at these addresses, where they [can move](can_move).
    pub fn move_to(&mut self, to: [&[*mut u8]; 2]) {
        match (self, to) {
            (Prepared::Gather(moves), [&[operand, indices], &[output]]) => {
                moves.move_to([operand, indices], output);
            }
            (Prepared::Scatter(runs, ends), [&[operand, indices, update], &[output]]) => {
                runs.move_to([indices, update], output);
                [ends[0].pointer, ends[1].pointer] = [operand, output];
            }
            (Prepared::Other(_, arrays), to) => {
                for (arrays, to) in arrays.iter_mut().zip(to) {
                    for (array, &to) in arrays.iter_mut().zip(to) {
                        array.pointer = to;
                    }
                }
            }
            _ => debug_assert!(false, "other arrays than those it was prepared with"),
        }
    }

    /// Writes all outputs.
    pub fn run(&self, environment: &OpEnvironment<'_>) -> Result<()> {
        match self {
            Prepared::Gather(moves) => moves.run(environment),
            Prepared::Scatter(runs, [operand, output]) => {
                scatter::copy_operand(operand, output);
                runs.run(environment);
            }
            Prepared::Running(running) => return running.run(environment),
            Prepared::Sort(sorter) => return sorter.run(environment),
            Prepared::Other(kind, [inputs, outputs]) => {
                return run(kind, inputs, outputs, environment);
            }
        }
        Ok(())
    }
}

/// Whether what is prepared may have its arrays at other addresses in the next run.
pub fn can_move(kind: &OpKind) -> bool {
    !matches!(kind, OpKind::ReduceWindow(_) | OpKind::Sort(_))
}

/// Prepares `kind` on `inputs` and `outputs`.
pub fn prepare<'o>(
    kind: &'o OpKind,
    inputs: SmallVec<[RawArray; 4]>,
    outputs: SmallVec<[RawArray; 4]>,
) -> Prepared<'o> {
    let own = match kind {
        OpKind::Gather(op) => gather::prepare(op, &inputs, &outputs).map(Prepared::Gather),
        OpKind::Scatter(op) => scatter::prepare(op, &inputs, &outputs).map(|runs| {
            let ends = [&inputs[0], &outputs[0]].map(RawArray::clone);
            Prepared::Scatter(runs, ends)
        }),
        OpKind::ReduceWindow(op) => {
            reduce_window::prepare(op, &inputs, &outputs).map(Prepared::Running)
        }
        OpKind::Sort(op) => sort::prepare(op, &inputs, &outputs).map(Prepared::Sort),
        _ => None,
    };
    own.unwrap_or_else(|| Prepared::Other(kind, [inputs, outputs]))
}

/// Runs `kind` on `inputs`, writing all of `outputs`.
pub fn run(
    kind: &OpKind,
    inputs: &[RawArray],
    outputs: &[RawArray],
    environment: &OpEnvironment<'_>,
) -> Result<()> {
    for (k, output) in outputs.iter().enumerate() {
        if kind.is_workspace(k, output.element_type, output.dims.len()) {
            custom_call::zeros(std::slice::from_ref(output))?;
        }
    }
    match kind {
        OpKind::Gather(op) => gather::run(op, inputs, outputs, environment),
        OpKind::Scatter(op) => scatter::run(op, inputs, outputs, environment),
        OpKind::Sort(op) => sort::run(op, inputs, outputs, environment),
        OpKind::TopK(op) => topk::run(op, inputs, outputs, environment),
        OpKind::ReduceWindow(op) => reduce_window::run(op, inputs, outputs, environment),
        OpKind::SelectAndScatter(op) => select_and_scatter::run(op, inputs, outputs, environment),
        OpKind::Convolution(op) => convolution::run(op, inputs, outputs, environment),
        OpKind::RngBitGenerator(op) => rng_bit_generator::run(op, inputs, outputs, environment),
        OpKind::Rng(op) => rng::run(op, inputs, outputs, environment),
        OpKind::Fft(op) => fft::run(op, inputs, outputs, environment),
        OpKind::BitcastConvert(op) => bitcast_convert::run(op, inputs, outputs, environment),
        OpKind::Linalg(op) => linalg::run(op, inputs, outputs, environment),
        OpKind::Custom(op) => custom_call::run(op),
        OpKind::Refused(why) => Err(HloError::Unsupported(why.clone())),
        OpKind::Identity => custom_call::identity(inputs, outputs),
        OpKind::Zeros => custom_call::zeros(outputs),
        OpKind::BlockDot(op) => block_dot::run(op, inputs, outputs, environment),
        OpKind::CudnnAttention(op) => cudnn_attention::run(op, inputs, outputs, environment),
        OpKind::DimensionSize(op) => dimension_size::run(op, outputs),
    }
}
