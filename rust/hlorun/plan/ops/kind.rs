//! Operations, each with its parameters.

use super::{
    bitcast_convert, block_dot, convolution, cudnn_attention, custom_call, dimension_size, fft,
    gather, linalg, reduce_window, rng, rng_bit_generator, scatter, select_and_scatter, sort, topk,
};
use crate::error::Unsupported;
use crate::plan::view::ArrayView;
use crate::types::PrimitiveType;

/// An operation with its operands and results.
#[derive(Clone, Debug)]
pub struct OpThunk {
    /// What it does.
    pub kind: OpKind,
    /// Leaves of the operands, in order.
    pub inputs: Vec<ArrayView>,
    /// Leaves of the result, in order; dense, distinct from the inputs.
    pub outputs: Vec<ArrayView>,
}

/// What an operation does, with its parameters.
#[derive(Clone, Debug)]
pub enum OpKind {
    /// See [`gather`].
    Gather(Box<gather::GatherOp>),
    /// See [`scatter`].
    Scatter(Box<scatter::ScatterOp>),
    /// See [`sort`].
    Sort(Box<sort::SortOp>),
    /// See [`topk`].
    TopK(Box<topk::TopKOp>),
    /// See [`reduce_window`].
    ReduceWindow(Box<reduce_window::ReduceWindowOp>),
    /// See [`select_and_scatter`].
    SelectAndScatter(Box<select_and_scatter::SelectAndScatterOp>),
    /// See [`convolution`].
    Convolution(Box<convolution::ConvolutionOp>),
    /// See [`rng_bit_generator`].
    RngBitGenerator(Box<rng_bit_generator::RngBitGeneratorOp>),
    /// See [`rng`].
    Rng(Box<rng::RngOp>),
    /// See [`fft`].
    Fft(Box<fft::FftOp>),
    /// See [`bitcast_convert`].
    BitcastConvert(Box<bitcast_convert::BitcastConvertOp>),
    /// See [`linalg`].
    Linalg(Box<linalg::LinalgOp>),
    /// See [`custom_call`].
    Custom(Box<custom_call::CustomOp>),
    /// A call that cannot be run; the error of reaching it.
    Refused(Box<Unsupported>),
    /// Results are the operands.
    Identity,
    /// Results are zero.
    Zeros,
    /// See [`block_dot`].
    BlockDot(Box<block_dot::BlockDotOp>),
    /// See [`cudnn_attention`].
    CudnnAttention(Box<cudnn_attention::CudnnAttentionOp>),
    /// See [`dimension_size`].
    DimensionSize(Box<dimension_size::DimensionSizeOp>),
}

impl OpKind {
    /// How many of the first operands the first results are made of, in their memory.
    pub fn updated_operands(&self) -> usize {
        match self {
            OpKind::Scatter(scatter) => scatter.count,
            _ => 0,
        }
    }

    /// Whether array `k` of the result is a library's workspace, a vector of bytes behind the results. It is
    /// not allocated where nobody can see it, and holds zeros elsewhere.
    pub fn is_workspace(&self, k: usize, ty: PrimitiveType, rank: usize) -> bool {
        let first = match self {
            OpKind::CudnnAttention(_) => 1,
            OpKind::Sort(sort) => sort.count,
            _ => return false,
        };
        k >= first && rank == 1 && matches!(ty, PrimitiveType::U8 | PrimitiveType::S8)
    }
}
