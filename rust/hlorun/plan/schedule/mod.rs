//! Thunks to thunks: which run together, and which become bytecode.

pub mod column_folds;
mod epilogue_steps;
pub mod fold_shape;
pub mod kernel_strips;
pub mod loop_merging;
pub mod pack_constants;
pub mod product_epilogues;
pub mod row_loops;
pub mod row_tiling;
pub mod scalar_bytecode;
pub mod shared_loops;
pub mod small_loop;
pub mod tiles;
pub mod vector_machine_code;
