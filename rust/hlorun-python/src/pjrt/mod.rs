//! The PJRT plugin: what JAX loads to run its programs here (`JAX_PLATFORMS=hlorun`).
//!
//! Comes in: calls of PJRT's C API. Goes out: its objects, which are boxes of this folder's types.
//! Promise: no panic and no exception crosses into C, every failure is an error object with a message,
//! and the argument struct of a call is looked at only as far as its `struct_size` says.
//!
//! What C promises, and nobody can check: pointers in arguments are null or valid. Any thread may call
//! anything, and a handle that was not given out for an object of its parameter's kind, or is used after
//! its `Destroy`, is an error; what an object showed is gone with it.

mod abi;
mod api;
mod buffer;
mod client;
mod compile;
mod device;
mod error;
mod event;
mod executable;
mod execute;
mod handles;
mod layouts;
mod named;
mod options;
mod topology;
mod transfer;
mod types;

pub use client::_set_stablehlo_versions;

/// The API, for as long as the process lives.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetPjrtApi() -> *const api::Api {
    &raw const api::API
}
