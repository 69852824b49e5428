//! Runs executables: thunks in order, on real memory.
//!
//! In: an [`crate::plan::Executable`] and addresses of arrays. Out: the results in the caller's
//! memory. Promise: the same inputs give the same bits, whatever the number of threads.

/// `$body`, in which `$T` is as large as an element of `$size` bytes.
macro_rules! by_size {
    ($size:expr, $T:ident => $body:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = [u64; 2];
                $body
            }
        }
    };
}

pub(crate) mod array;
pub(crate) mod element;
pub(crate) mod environment;
pub(crate) mod epilogue;
pub(crate) mod gemm;
pub(crate) mod hooks;
pub(crate) mod memory;
pub(crate) mod ops;
pub(crate) mod options;
pub(crate) mod parallel;
pub(crate) mod reduce;
pub(crate) mod rendezvous;
pub(crate) mod row_tiling;
pub(crate) mod run;
pub(crate) mod shadow;
pub(crate) mod spmd;
pub(crate) mod threads;

pub use hooks::{ArrayMut, ArrayRef};
pub use hooks::{CustomCallHook, Observer};
pub use options::DeviceArrays;
pub use options::{RunOptions, Step};
pub use rendezvous::{Network, Transport};
pub use run::evaluate::EVALUATE;
