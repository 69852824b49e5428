//! Operations that are no loops: sort, gather, scatter, convolution, … each with what it needs to
//! know decided here, before data exists.
//!
//! In: an instruction. Out: an [`OpKind`]; `exec::ops` holds a file of the same name that runs it.
//! Inputs and outputs are views; outputs are dense in the shape's layout.

pub mod batch_norm;
pub mod bitcast_convert;
pub mod block_dot;
pub mod combiner;
pub mod config;
pub mod convolution;
pub mod cudnn_attention;
pub mod cudnn_conv;
pub mod cudnn_norm;
pub mod custom_call;
pub mod dimension_size;
pub mod fft;
pub mod gather;
pub mod index_map;
pub mod linalg;
pub mod map;
pub mod radix_sort;
pub mod reduce_window;
pub mod rng;
pub mod rng_bit_generator;
pub mod scatter;
pub mod select_and_scatter;
pub mod sort;
pub mod sort_keys;
pub mod topk;

use super::view::ArrayView;
use crate::error::Result;
use crate::module::{HloOpcode, InstructionRef};

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
    /// See [`map`].
    Map(Box<map::MapOp>),
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
    /// See [`batch_norm`].
    BatchNorm(Box<batch_norm::BatchNormOp>),
    /// See [`linalg`].
    Linalg(Box<linalg::LinalgOp>),
    /// See [`cudnn_conv`].
    CudnnConv(Box<cudnn_conv::CudnnConvOp>),
    /// See [`cudnn_norm`].
    CudnnNorm(Box<cudnn_norm::CudnnNormOp>),
    /// See [`custom_call`].
    Custom(Box<custom_call::CustomOp>),
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

impl OpThunk {
    /// Whether it may leave bytes of its outputs as they were, or reads them.
    pub fn updates_output(&self) -> bool {
        self.kind.updated_operands() > 0
    }
}

impl OpKind {
    /// How many of the first operands the first results are made of, in their memory.
    pub fn updated_operands(&self) -> usize {
        match self {
            OpKind::Scatter(scatter) => scatter.count,
            _ => 0,
        }
    }

    /// From which element of a tuple on vectors of bytes are workspaces of a library, which are never
    /// read or written here.
    pub fn first_workspace(&self) -> Option<usize> {
        match self {
            OpKind::CudnnConv(_) | OpKind::CudnnNorm(_) | OpKind::CudnnAttention(_) => Some(1),
            OpKind::Sort(sort) => Some(sort.count),
            _ => None,
        }
    }
}

/// Plans `instruction`; an error names what is not supported.
pub fn plan(instruction: InstructionRef<'_>) -> Result<OpKind> {
    use HloOpcode as H;
    Ok(match instruction.opcode() {
        H::Gather => OpKind::Gather(Box::new(gather::plan(instruction)?)),
        H::Scatter => OpKind::Scatter(Box::new(scatter::plan(instruction)?)),
        H::Sort => OpKind::Sort(Box::new(sort::plan(instruction)?)),
        H::TopK => OpKind::TopK(Box::new(topk::plan(instruction)?)),
        H::ReduceWindow => OpKind::ReduceWindow(Box::new(reduce_window::plan(instruction)?)),
        H::SelectAndScatter => {
            OpKind::SelectAndScatter(Box::new(select_and_scatter::plan(instruction)?))
        }
        H::Map => OpKind::Map(Box::new(map::plan(instruction)?)),
        H::Convolution => OpKind::Convolution(Box::new(convolution::plan(instruction)?)),
        H::RngBitGenerator => {
            OpKind::RngBitGenerator(Box::new(rng_bit_generator::plan(instruction)?))
        }
        H::Rng | H::RngGetAndUpdateState => OpKind::Rng(Box::new(rng::plan(instruction)?)),
        H::Fft => OpKind::Fft(Box::new(fft::plan(instruction)?)),
        H::BitcastConvert => OpKind::BitcastConvert(Box::new(bitcast_convert::plan(instruction)?)),
        H::BatchNormTraining | H::BatchNormInference | H::BatchNormGrad => {
            OpKind::BatchNorm(Box::new(batch_norm::plan(instruction)?))
        }
        H::Cholesky | H::TriangularSolve => OpKind::Linalg(Box::new(linalg::plan(instruction)?)),
        H::CustomCall => return custom_call::plan(instruction),
        H::RaggedDot | H::ScaledDot => OpKind::BlockDot(Box::new(block_dot::plan(instruction)?)),
        H::GetDimensionSize => OpKind::DimensionSize(Box::new(dimension_size::plan(instruction)?)),
        _ => {
            return Err(super::unsupported(
                instruction,
                format!("{} is not supported", instruction.opcode_name()),
            ));
        }
    })
}
