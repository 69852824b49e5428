//! The vocabulary every stage shares: element types, shapes, layouts, shape indices and literals.
//!
//! Nothing here knows about text, modules or execution.

pub mod integer;
pub mod layout;
pub mod literal;
pub mod primitive_type;
pub mod shape;
pub mod shape_display;
pub mod shape_index;
pub mod strided;

pub use layout::{Layout, LayoutExtension, Tile};
pub use literal::{Literal, LiteralValue};
pub use primitive_type::PrimitiveType;
pub use shape::{ArrayShape, Dims, Shape, ShapeId, ShapeTable};
pub use shape_display::ShapeStyle;
pub use shape_index::ShapeIndex;
