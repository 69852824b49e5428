//! The calls of libraries that hlorun knows: their targets, their configurations, and which operand
//! and which result is what.
//!
//! In: a `custom-call`. Out: its parameters. The verifier checks shapes with what stands here, the
//! planner runs the call with the same; nothing here knows how a call runs. A target that no file
//! here names is nobody's but the user's.

pub mod annotation;
pub mod attention;
pub mod config;
pub mod convolution;
pub mod gemm;
pub mod lapack;
pub mod norm;
pub mod onednn;
pub mod results;

pub use config::{Config, known_trip_count};
pub use gemm::{DotDimensions, GemmConfig};

/// `k` greatest or least of every row.
pub const TOP_K: &[&str] = &["TopK", "__gpu$TopK"];
/// Radix sorts of CUB: keys, or keys that move values.
pub const RADIX_SORTS: &[&str] = &[
    "__cub$DeviceRadixSort",
    "xla.gpu.ext.cub_sort_keys",
    "xla.gpu.ext.cub_sort_pairs",
    "xla.gpu.ext.cub_sort_unassigned",
];
/// The block cipher behind random numbers: (k0, k1, x0, x1) to two words.
pub const THREEFRY: &[&str] = &[
    "cuda_threefry2x32",
    "cu_threefry2x32",
    "cu_threefry2x32_ffi",
    "cuda_threefry2x32_ffi",
    "hip_threefry2x32",
    "hip_threefry2x32_ffi",
];
/// The Fourier transforms of JAX on the CPU until 2024.
pub const FFTS: &[&str] = &["dynamic_ducc_fft", "ducc_fft", "pocketfft"];
/// Operands of eight or fewer bits in blocks along their last dimension, each with a scale.
pub const BLOCK_SCALED_DOT: &str = "__op$block_scaled_dot";
/// A dynamic array in; a tuple of its elements and the size of each dimension out.
pub const PAD_TO_STATIC: &str = "PadToStatic";
/// The reverse of [`PAD_TO_STATIC`].
pub const SLICE_TO_DYNAMIC: &str = "SliceToDynamic";
