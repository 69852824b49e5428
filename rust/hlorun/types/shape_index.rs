//! The path to a part of a nested tuple.

use std::fmt;

use smallvec::SmallVec;

/// A path into a tuple, `{1,0}`; empty for the whole value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ShapeIndex(pub SmallVec<[i64; 3]>);

impl ShapeIndex {
    /// The path one step deeper.
    pub fn child(&self, element: i64) -> ShapeIndex {
        let mut path = self.0.clone();
        path.push(element);
        ShapeIndex(path)
    }

    /// Whether it names the whole value.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&[i64]> for ShapeIndex {
    fn from(path: &[i64]) -> ShapeIndex {
        ShapeIndex(SmallVec::from_slice(path))
    }
}

impl fmt::Display for ShapeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, element) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{element}")?;
        }
        f.write_str("}")
    }
}
