//! What the targets share: a mutator that knows the words of HLO, and limits on what is run.

mod grow;
mod lie;
pub mod limits;
pub mod mutate;
