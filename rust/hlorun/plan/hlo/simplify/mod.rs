//! Optional passes on single instructions and pairs of them.

pub mod algebra;
pub mod common_subexpressions;
pub mod constant_folding;
pub mod dot_strength;
mod facts;
pub mod gather_scatter;
pub mod integer_division;
pub mod narrow_indices;
pub mod one_hot;
pub mod range_analysis;
mod readers;
pub mod select_updates;
pub mod short_reductions;
pub mod top_k;
pub mod transpose_fold;
pub mod tree_reductions;
