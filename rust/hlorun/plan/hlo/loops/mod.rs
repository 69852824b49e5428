//! What is known of loops, and the passes that use it.

pub mod accumulate;
pub mod copies;
pub mod defer;
pub mod hoist;
pub mod induction_variable;
pub mod info;
pub mod invariants;
pub mod map;
pub mod state;
pub mod unroll;
