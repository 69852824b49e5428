//! The walk over the thunks, and what goes in and comes out.

pub mod call;
pub mod copy;
pub mod evaluate;
pub mod executor;
pub(crate) mod lockstep;
pub(crate) mod replicas;
pub mod shadow;
