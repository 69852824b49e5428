//! SIMD kernels and matrix products: slices in, slices out; knows no HLO.
//!
//! [`table`] maps an operation and a [`DType`] to a function pointer at plan time; [`convert()`], [`gemm`] and the
//! modules beside it do the same for conversions, products, reductions and copies. The instruction set is chosen once
//! ([`Isa`]); everything else is pure.

#[macro_use]
mod dispatch;

pub mod choice;
pub mod convert;
mod copy;
mod divide;
mod dtype;
pub mod element;
mod elementwise;
pub mod fft;
pub mod gemm;
mod iota;
mod isa;
pub mod low_float;
mod math;
mod ops;
pub mod places;
pub mod random;
mod reduce;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod reduce_vectors;
mod rows;
pub mod scalar_bytecode;
mod scratch;
pub mod small_matrices;
mod stochastic;
pub mod stream;
pub mod strided;
#[cfg(target_arch = "x86_64")]
mod subnormal;
pub mod table;
mod transpose;
pub mod vector_bytecode;
mod with_scalar;

pub use convert::{ReducePrecision, convert, convert_on, reduce_precision};
pub use copy::copy;
pub use dtype::DType;
pub use gemm::batch::{DEPTH as TINY_DEPTH, fits as is_tiny, fuses, tiny as tiny_gemm};
pub use gemm::epilogue::{Epilogue, EpilogueOp, EpilogueOperand};
pub use gemm::indirect::{Indirect, IndirectOperand, IndirectRows};
pub use gemm::packed::{
    fits_panels, gemm_packed, pack_bytes, pack_operand, packed_size, panel_width,
};
pub use gemm::weighted_lanes::{WeightedLanes, WeightedLanesKernel, weighted_lanes};
pub use gemm::weighted_rows::{WeightedRows, weighted_rows};
pub use gemm::{
    Gemm, Matrix, OutOfMemory, Parallel, adds_once, apply_epilogue, blas::set_blas_path, gemm,
    gemm_with_epilogue, takes_epilogue,
};
pub use iota::{Iota, iota};
pub use isa::Isa;
pub use ops::{BinaryOp, CompareDirection, CompareOrder, UnaryOp};
pub use reduce::{Reduce, reduce, reduce_accumulator, reduce_identity, reduce_on};
pub use rows::{CombineRows, Extremes, FoldRows, HalveRows, combine_rows, fold_rows, halve_rows};
pub use scratch::Scratch;
pub use stochastic::stochastic_convert;
pub use strided::{copy_row, copy_strided, fill};
pub use table::{
    Binary, Ternary, Unary, binary, clamp, compare, complex, select, unary, unary_result,
};
pub use with_scalar::{Side, binary_with_scalar, compare_with_scalar};

#[cfg(test)]
mod tests;
