//! Passes that the lowering relies on: what it has no thunk for becomes what it has one for.

pub mod bitcasts;
pub mod dynamic_padding;
pub mod library_product;
pub mod map;
pub mod norms;
mod replace;
mod results;
pub mod scan;
pub mod transfer_order;
pub mod tuple_select;
