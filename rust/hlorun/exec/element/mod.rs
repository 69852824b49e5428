//! Runs what computes elements: fused loops, tiled rows, bytecode.

mod gaps;
mod joined;
pub mod loops;
pub mod machine_code;
pub mod outside;
mod picks;
pub mod program;
pub mod scalar_bytecode;
pub mod small_loop;
pub mod stream;
pub mod walk;
