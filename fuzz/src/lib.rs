//! What the targets share: a mutator that knows the words of HLO, and limits on what is run.

mod grow;
pub mod limits;
pub mod mutate;
