//! Operations that are no loops: sort, gather, scatter, convolution, … each with what it needs to
//! know decided here, before data exists.
//!
//! In: an instruction. Out: an [`OpKind`]; `exec::ops` holds a file of the same name that runs it.
//! Inputs and outputs are views; outputs are dense in the shape's layout.

pub mod bitcast_convert;
pub mod block_dot;
pub mod combiner;
pub mod convolution;
pub mod cudnn_attention;
pub mod custom_call;
pub mod dimension_size;
pub mod fft;
pub mod gather;
pub mod index_map;
pub mod kind;
pub mod library_call;
pub mod linalg;
pub mod radix_sort;
pub mod reduce_window;
pub mod rng;
pub mod rng_bit_generator;
pub mod scatter;
pub mod select_and_scatter;
pub mod sort;
pub mod sort_keys;
pub mod topk;

pub use kind::{OpKind, OpThunk};

use crate::error::Result;
use crate::module::{HloOpcode, InstructionRef};

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
        H::Convolution => OpKind::Convolution(Box::new(convolution::plan(instruction)?)),
        H::RngBitGenerator => {
            OpKind::RngBitGenerator(Box::new(rng_bit_generator::plan(instruction)?))
        }
        H::Rng | H::RngGetAndUpdateState => OpKind::Rng(Box::new(rng::plan(instruction)?)),
        H::Fft => OpKind::Fft(Box::new(fft::plan(instruction)?)),
        H::BitcastConvert => OpKind::BitcastConvert(Box::new(bitcast_convert::plan(instruction)?)),
        H::Cholesky | H::TriangularSolve => OpKind::Linalg(Box::new(linalg::plan(instruction))),
        H::CustomCall => return library_call::plan(instruction),
        H::RaggedDot | H::ScaledDot => OpKind::BlockDot(Box::new(block_dot::plan(instruction)?)),
        H::GetDimensionSize => OpKind::DimensionSize(Box::new(dimension_size::plan(instruction)?)),
        _ => {
            return Err(super::error::unsupported(
                instruction,
                format!("{} is not supported", instruction.opcode_name()),
            ));
        }
    })
}
