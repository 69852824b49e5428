//! Shapes as HLO text writes them.

use std::fmt::{self, Write};

use super::{ArrayShape, Layout, LayoutExtension, Shape, ShapeId, ShapeTable};

/// What of a shape to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShapeStyle {
    /// `{1,0}` after array shapes that have a layout.
    pub layout: bool,
    /// What to take for the order of dimensions.
    pub order: LayoutOrder,
    /// `E(4)` in layouts that have it.
    pub element_size: bool,
    /// `/*index=5*/` before every fifth tuple element.
    pub index_comments: bool,
}

/// Which order of dimensions a printed layout has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutOrder {
    /// The layout's; nothing is printed where there is none.
    AsGiven,
    /// The layout's, else row-major.
    RowMajorIfAbsent,
    /// Row-major whatever the layout's is; its other fields are kept.
    RowMajor,
}

impl ShapeStyle {
    /// Everything.
    pub const FULL: ShapeStyle = ShapeStyle {
        layout: true,
        order: LayoutOrder::AsGiven,
        element_size: true,
        index_comments: true,
    };
    /// Every array with a layout, as XLA prints shapes: its shapes always have one.
    pub const CANONICAL: ShapeStyle = ShapeStyle {
        layout: true,
        order: LayoutOrder::RowMajorIfAbsent,
        element_size: true,
        index_comments: true,
    };
    /// As `CANONICAL`, without sizes of packed elements.
    pub const UNPACKED: ShapeStyle = ShapeStyle {
        element_size: false,
        ..ShapeStyle::CANONICAL
    };
    /// Every array in row-major order.
    pub const ROW_MAJOR: ShapeStyle = ShapeStyle {
        layout: true,
        order: LayoutOrder::RowMajor,
        element_size: true,
        index_comments: true,
    };
    /// Without layouts.
    pub const LOGICAL: ShapeStyle = ShapeStyle {
        layout: false,
        order: LayoutOrder::AsGiven,
        element_size: true,
        index_comments: true,
    };
}

/// A shape of a table, to be formatted.
#[derive(Clone, Copy)]
pub struct ShapeDisplay<'t> {
    /// The table.
    pub table: &'t ShapeTable,
    /// The shape.
    pub id: ShapeId,
    /// What to show.
    pub style: ShapeStyle,
}

impl ShapeTable {
    /// The shape as HLO text, `f32[2,3]{1,0}`. A shape whose text would be longer than a few
    /// megabytes, as hash-consed tuples can be, is cut with `…`.
    pub fn display(&self, id: ShapeId, style: ShapeStyle) -> ShapeDisplay<'_> {
        ShapeDisplay {
            table: self,
            id,
            style,
        }
    }
}

/// Steps after which formatting a tuple stops.
const MAX_PARTS: usize = 4_000_000;

impl fmt::Display for ShapeDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        enum Step<'t> {
            Shape(ShapeId),
            Rest(&'t [ShapeId], usize),
            Close,
        }
        let mut stack = vec![Step::Shape(self.id)];
        let mut parts = 0usize;
        while let Some(step) = stack.pop() {
            parts += 1;
            if parts > MAX_PARTS {
                return f.write_char('…');
            }
            match step {
                Step::Shape(id) => match self.table.get(id) {
                    Shape::Array(array) => write_array(f, array, self.style)?,
                    Shape::Token => f.write_str("token[]")?,
                    Shape::Opaque => f.write_str("opaque[]")?,
                    Shape::Buffer(part) => {
                        f.write_str("b(")?;
                        stack.push(Step::Close);
                        stack.push(Step::Shape(*part));
                    }
                    Shape::Tuple(elements) => {
                        f.write_char('(')?;
                        stack.push(Step::Close);
                        stack.push(Step::Rest(elements, 0));
                    }
                },
                Step::Rest(elements, at) => {
                    if let Some(&element) = elements.get(at) {
                        if at > 0 {
                            f.write_str(", ")?;
                            if at % 5 == 0 && self.style.index_comments {
                                write!(f, "/*index={at}*/")?;
                            }
                        }
                        stack.push(Step::Rest(elements, at + 1));
                        stack.push(Step::Shape(element));
                    }
                }
                Step::Close => f.write_char(')')?,
            }
        }
        Ok(())
    }
}

fn write_array(f: &mut fmt::Formatter<'_>, array: &ArrayShape, style: ShapeStyle) -> fmt::Result {
    write!(f, "{}[", array.element_type.name())?;
    for (i, &dim) in array.dims.iter().enumerate() {
        if i > 0 {
            f.write_char(',')?;
        }
        if dim == ArrayShape::UNBOUNDED {
            f.write_char('?')?;
        } else if array.is_dynamic_dimension(i) {
            write!(f, "<={dim}")?;
        } else {
            write!(f, "{dim}")?;
        }
    }
    f.write_char(']')?;
    if !style.layout {
        return Ok(());
    }
    let mut extension = array.layout.as_ref().and_then(|l| l.extension.as_deref());
    let unpacked;
    if let Some(packed) = extension.filter(|e| !style.element_size && e.element_size_in_bits != 0) {
        unpacked = LayoutExtension {
            element_size_in_bits: 0,
            ..packed.clone()
        };
        let nothing = LayoutExtension {
            tail_padding_alignment: unpacked.tail_padding_alignment,
            ..LayoutExtension::default()
        };
        extension = Some(&unpacked).filter(|e| e.tail_padding_alignment > 1 || **e != nothing);
    }
    let given = array.layout.as_ref().map(|layout| &layout.minor_to_major);
    match (given, style.order) {
        (Some(order), LayoutOrder::AsGiven | LayoutOrder::RowMajorIfAbsent) => {
            // The empty layout of a scalar goes without saying.
            if order.is_empty() && extension.is_none() {
                return Ok(());
            }
            write_layout(f, order.iter().map(|&dim| usize::from(dim)), extension)
        }
        (None, LayoutOrder::AsGiven) => Ok(()),
        (_, LayoutOrder::RowMajor | LayoutOrder::RowMajorIfAbsent) => {
            if array.rank() == 0 && extension.is_none() {
                return Ok(());
            }
            write_layout(f, (0..array.rank()).rev(), extension)
        }
    }
}

impl ArrayShape {
    /// The shape as HLO text in a style.
    pub fn display(&self, style: ShapeStyle) -> impl fmt::Display {
        struct ArrayDisplay<'s>(&'s ArrayShape, ShapeStyle);
        impl fmt::Display for ArrayDisplay<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_array(f, self.0, self.1)
            }
        }
        ArrayDisplay(self, style)
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_array(f, self, ShapeStyle::FULL)
    }
}

fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_char(',')?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_layout(f, self.minor_to_major.iter(), self.extension.as_deref())
    }
}

fn write_layout<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    minor_to_major: impl IntoIterator<Item = T>,
    extension: Option<&LayoutExtension>,
) -> fmt::Result {
    f.write_char('{')?;
    write_list(f, minor_to_major)?;
    if let Some(extension) = extension {
        let mut colon = ":";
        let mut next = |f: &mut fmt::Formatter<'_>| f.write_str(std::mem::take(&mut colon));
        if let Some(types) = &extension.dim_level_types {
            next(f)?;
            write!(f, "D({types})")?;
        }
        if !extension.tiles.is_empty() {
            next(f)?;
            f.write_char('T')?;
            for tile in &extension.tiles {
                f.write_char('(')?;
                for (i, dim) in tile.0.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    match dim {
                        Some(size) => write!(f, "{size}")?,
                        None => f.write_char('*')?,
                    }
                }
                f.write_char(')')?;
            }
        }
        if extension.tail_padding_alignment > 1 {
            next(f)?;
            write!(f, "L({})", extension.tail_padding_alignment)?;
        }
        if let Some(index_type) = extension.index_primitive_type {
            next(f)?;
            write!(f, "#({})", index_type.name())?;
        }
        if let Some(pointer_type) = extension.pointer_primitive_type {
            next(f)?;
            write!(f, "*({})", pointer_type.name())?;
        }
        if extension.element_size_in_bits != 0 {
            next(f)?;
            write!(f, "E({})", extension.element_size_in_bits)?;
        }
        if extension.memory_space != 0 {
            next(f)?;
            write!(f, "S({})", extension.memory_space)?;
        }
        if !extension.split_configs.is_empty() {
            next(f)?;
            f.write_str("SC")?;
            for (dim, indices) in &extension.split_configs {
                write!(f, "({dim}:")?;
                write_list(f, indices.iter())?;
                f.write_char(')')?;
            }
        }
        if let Some(physical) = &extension.physical_shape {
            next(f)?;
            write!(f, "P({physical})")?;
        }
        if extension.dynamic_shape_metadata_prefix_bytes > 0 {
            next(f)?;
            write!(f, "M({})", extension.dynamic_shape_metadata_prefix_bytes)?;
        }
    }
    f.write_char('}')
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;
    use crate::types::PrimitiveType;

    #[test]
    fn tuples_carry_index_comments_and_layouts() {
        let mut table = ShapeTable::new();
        let mut array = ArrayShape::new(PrimitiveType::F32, &[2, 3]);
        array.layout = Some(Layout {
            minor_to_major: SmallVec::from_slice(&[1, 0]),
            extension: None,
        });
        let array = table.array(array);
        let pair = table.tuple(&[array; 6]);
        let text = table.display(pair, ShapeStyle::FULL).to_string();
        assert!(text.starts_with("(f32[2,3]{1,0}, f32[2,3]{1,0}"));
        assert!(text.ends_with("/*index=5*/f32[2,3]{1,0})"));
        let logical = table.display(pair, ShapeStyle::LOGICAL).to_string();
        assert!(logical.starts_with("(f32[2,3], f32[2,3]"));
    }
}
