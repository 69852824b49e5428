//! Runs what computes elements: fused loops, tiled rows, bytecode.

mod joined;
pub mod loops;
pub mod machine_code;
pub mod outside;
pub mod picks;
pub mod program;
pub mod rows;
pub mod scalar_bytecode;
pub mod small_loop;
pub mod sources;
pub mod stream;
pub mod walk;
