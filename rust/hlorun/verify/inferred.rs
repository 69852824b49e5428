//! The shape an instruction must have, and whether the declared one fits.

use std::fmt;

use foldhash::HashMap;

use crate::types::{
    ArrayShape, Dims, PrimitiveType, Shape, ShapeId, ShapeIndex, ShapeStyle, ShapeTable,
};

/// What shape inference says about a result.
///
/// Layouts are never inferred. Dynamic flags are not either: a dimension's size is its bound.
#[derive(Clone, Debug, PartialEq)]
pub enum InferredShape {
    /// An array.
    Array {
        /// Type of one element.
        element_type: PrimitiveType,
        /// Sizes, or [`ArrayShape::UNBOUNDED`].
        dims: Dims,
    },
    /// The shape of something else in the module, up to layouts.
    Same(ShapeId),
    /// A tuple.
    Tuple(Vec<InferredShape>),
    /// `token[]`.
    Token,
    /// Only the text says what it is; what can be checked about it was.
    AsDeclared,
}

impl InferredShape {
    /// An array.
    pub fn array(element_type: PrimitiveType, dims: &[i64]) -> InferredShape {
        InferredShape::Array {
            element_type,
            dims: Dims::from_slice(dims),
        }
    }

    /// The only part when there is one, else the tuple of all: how multi-operand operations
    /// return their results.
    pub fn one_or_tuple(mut parts: Vec<InferredShape>) -> InferredShape {
        match parts.len() {
            1 => parts.remove(0),
            _ => InferredShape::Tuple(parts),
        }
    }

    /// As text, `f32[2,3]`; the parts of tuples are cut short when there are many.
    pub fn display(&self, table: &ShapeTable) -> String {
        let mut out = String::new();
        // Formatting into a String does not fail.
        let _ = self.write(table, &mut out);
        out
    }

    // Recursion follows the nesting this crate's rules build, at most three deep.
    fn write(&self, table: &ShapeTable, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            InferredShape::Array { element_type, dims } => {
                write!(out, "{}", show_array(&ArrayShape::new(*element_type, dims)))
            }
            InferredShape::Same(id) => out.write_str(&show(table, *id)),
            InferredShape::Tuple(parts) => {
                out.write_char('(')?;
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        out.write_str(", ")?;
                    }
                    if i == 12 {
                        write!(out, "… {} in all", parts.len())?;
                        break;
                    }
                    part.write(table, out)?;
                }
                out.write_char(')')
            }
            InferredShape::Token => out.write_str("token[]"),
            InferredShape::AsDeclared => out.write_str("what it declares"),
        }
    }
}

/// A shape without layout, cut after some 300 bytes.
pub fn show(table: &ShapeTable, id: ShapeId) -> String {
    struct Cut(String);
    impl fmt::Write for Cut {
        fn write_str(&mut self, s: &str) -> fmt::Result {
            if self.0.len() > 300 {
                return Err(fmt::Error);
            }
            self.0.push_str(s);
            Ok(())
        }
    }
    let style = ShapeStyle {
        index_comments: false,
        ..ShapeStyle::LOGICAL
    };
    let mut out = Cut(String::new());
    match fmt::Write::write_fmt(&mut out, format_args!("{}", table.display(id, style))) {
        Ok(()) => out.0,
        Err(_) => out.0 + "…",
    }
}

/// An array shape without layout.
pub fn show_array(array: &ArrayShape) -> String {
    ArrayShape {
        layout: None,
        ..array.clone()
    }
    .to_string()
}

/// Classes of shapes that differ in layouts and dynamic flags only.
pub struct ShapeClasses {
    classes: Vec<u32>,
}

impl ShapeClasses {
    /// One pass over the table; the parts of a shape always come before it.
    pub fn new(table: &ShapeTable) -> ShapeClasses {
        #[derive(PartialEq, Eq, Hash)]
        enum Key<'t> {
            Array(PrimitiveType, &'t [i64]),
            Tuple(Vec<u32>),
            Buffer(u32),
            Token,
            Opaque,
        }
        let mut seen: HashMap<Key<'_>, u32> = HashMap::default();
        let mut classes: Vec<u32> = Vec::with_capacity(table.len());
        for id in table.ids() {
            let key = match table.get(id) {
                Shape::Array(array) => Key::Array(array.element_type, &array.dims),
                Shape::Tuple(parts) => {
                    Key::Tuple(parts.iter().map(|p| classes[p.index()]).collect())
                }
                Shape::Buffer(part) => Key::Buffer(classes[part.index()]),
                Shape::Token => Key::Token,
                Shape::Opaque => Key::Opaque,
            };
            let next = seen.len() as u32;
            classes.push(*seen.entry(key).or_insert(next));
        }
        ShapeClasses { classes }
    }

    /// Whether two shapes of the table are the same up to layouts and dynamic flags. An unbounded
    /// dimension of an array fits every size.
    pub fn same(&self, table: &ShapeTable, a: ShapeId, b: ShapeId) -> bool {
        if a == b || self.classes[a.index()] == self.classes[b.index()] {
            return true;
        }
        match (table.get(a), table.get(b)) {
            (Shape::Array(a), Shape::Array(b)) => {
                a.element_type == b.element_type && dims_fit(&a.dims, &b.dims)
            }
            _ => false,
        }
    }

    /// Whether the declared shape is the inferred one.
    // Recursion follows the inferred shape, at most three deep.
    pub fn fits(&self, table: &ShapeTable, declared: ShapeId, inferred: &InferredShape) -> bool {
        match inferred {
            InferredShape::Array { element_type, dims } => {
                table.get(declared).as_array().is_some_and(|array| {
                    array.element_type == *element_type && dims_fit(&array.dims, dims)
                })
            }
            InferredShape::Same(id) => self.same(table, declared, *id),
            InferredShape::Tuple(parts) => table.get(declared).as_tuple().is_some_and(|declared| {
                declared.len() == parts.len()
                    && declared
                        .iter()
                        .zip(parts)
                        .all(|(&id, part)| self.fits(table, id, part))
            }),
            InferredShape::Token => matches!(table.get(declared), Shape::Token),
            InferredShape::AsDeclared => true,
        }
    }
}

/// Whether sizes are equal; unbounded ones fit all.
pub fn dims_fit(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| size_fits(a, b))
}

/// Whether two sizes are equal; an unbounded one fits all.
pub fn size_fits(a: i64, b: i64) -> bool {
    a == b || a == ArrayShape::UNBOUNDED || b == ArrayShape::UNBOUNDED
}

/// The part of `shape` at `index`.
pub fn subshape(table: &ShapeTable, shape: ShapeId, index: &ShapeIndex) -> Option<ShapeId> {
    let mut at = shape;
    for &element in &index.0 {
        let Shape::Tuple(parts) = table.get(at) else {
            return None;
        };
        at = *parts.get(usize::try_from(element).ok()?)?;
    }
    Some(at)
}
