//! Several devices: their groups, collectives and transfers.

pub mod collective;
pub mod groups;
pub mod permute_slices;
pub mod transfer;
