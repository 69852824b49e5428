//! Shapes, hash-consed in a [`ShapeTable`] so that equal shapes have equal ids.
//!
//! A tuple names its elements by id, so no operation on a shape recurses on its nesting.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::{Layout, PrimitiveType};

/// Sizes of dimensions, major to minor in logical order.
pub type Dims = SmallVec<[i64; 4]>;

/// A shape of a [`ShapeTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShapeId(NonZeroU32);

impl ShapeId {
    /// The position in its table.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    pub(crate) fn from_index(index: usize) -> ShapeId {
        let raw = u32::try_from(index + 1).unwrap_or(u32::MAX);
        ShapeId(NonZeroU32::new(raw).unwrap_or(NonZeroU32::MAX))
    }
}

/// An array: element type, sizes, which of them are dynamic, and the layout when the text gives one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// Type of one element.
    pub element_type: PrimitiveType,
    /// Sizes; for a dynamic dimension the upper bound, or [`ArrayShape::UNBOUNDED`].
    pub dims: Dims,
    /// Bit `i` says that dimension `i` is dynamic (`<=` or `?`).
    pub dynamic: u64,
    /// `None` where the text has none; it then means row-major.
    pub layout: Option<Layout>,
}

impl ArrayShape {
    /// Size of an unbounded dynamic dimension, `?`.
    pub const UNBOUNDED: i64 = i64::MIN;
    /// Most dimensions an array may have; NumPy's own limit.
    pub const MAX_RANK: usize = 64;

    /// A static array without a layout.
    pub fn new(element_type: PrimitiveType, dims: &[i64]) -> ArrayShape {
        ArrayShape {
            element_type,
            dims: Dims::from_slice(dims),
            dynamic: 0,
            layout: None,
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether dimension `dim` may be smaller at run time than its bound.
    pub fn is_dynamic_dimension(&self, dim: usize) -> bool {
        dim < 64 && self.dynamic >> dim & 1 == 1
    }

    /// Whether all sizes are fixed.
    pub fn is_static(&self) -> bool {
        self.dynamic == 0
    }

    /// Number of elements; `None` when it overflows or is unbounded.
    pub fn element_count(&self) -> Option<i64> {
        self.dims.iter().try_fold(1i64, |product, &dim| {
            if dim < 0 {
                None
            } else {
                product.checked_mul(dim)
            }
        })
    }

    /// Bytes of the array in a hlorun buffer (one byte at least per element); `None` on overflow,
    /// also of the other dimensions of an empty array, whose strides would overflow.
    pub fn byte_size(&self) -> Option<usize> {
        let count = usize::try_from(self.element_count()?).ok()?;
        self.dims
            .iter()
            .filter(|&&dim| dim > 0)
            .try_fold(self.element_type.size_bytes(), |bytes, &dim| {
                bytes.checked_mul(usize::try_from(dim).ok()?)
            })
            .filter(|&bytes| bytes <= isize::MAX as usize)?;
        count.checked_mul(self.element_type.size_bytes())
    }

    /// Dimension numbers from the fastest varying to the slowest.
    pub fn minor_to_major(&self) -> SmallVec<[u8; 8]> {
        match &self.layout {
            Some(layout) => layout.minor_to_major.clone(),
            None => (0..self.rank() as u8).rev().collect(),
        }
    }

    /// Whether logical order and memory order are the same, ignoring dimensions of size 1.
    pub fn is_row_major(&self) -> bool {
        let Some(layout) = &self.layout else {
            return true;
        };
        let mut last = usize::MAX;
        for &dim in &layout.minor_to_major {
            let dim = usize::from(dim);
            if self.dims.get(dim).copied().unwrap_or(1) == 1 {
                continue;
            }
            if dim > last {
                return false;
            }
            last = dim;
        }
        true
    }

    /// Distance in elements between neighbours along each logical dimension, by the layout.
    pub fn strides(&self) -> Dims {
        let mut strides: Dims = SmallVec::from_elem(0, self.rank());
        let mut step = 1i64;
        for dim in self.minor_to_major() {
            let dim = usize::from(dim);
            strides[dim] = step;
            step = step.saturating_mul(self.dims[dim].max(1));
        }
        strides
    }

    /// Same element type, sizes and dynamic flags; layouts are not compared.
    pub fn same_dims_and_type(&self, other: &ArrayShape) -> bool {
        self.element_type == other.element_type
            && self.dims == other.dims
            && self.dynamic == other.dynamic
    }
}

/// A shape; the parts of tuples and buffers are ids of the same table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `f32[2,3]{1,0}`.
    Array(ArrayShape),
    /// `(f32[], s32[2])`.
    Tuple(Box<[ShapeId]>),
    /// `token[]`.
    Token,
    /// `opaque[]`.
    Opaque,
    /// `b(f32[2])`: a mutable buffer of an array.
    Buffer(ShapeId),
}

impl Shape {
    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The elements, if it is a tuple.
    pub fn as_tuple(&self) -> Option<&[ShapeId]> {
        match self {
            Shape::Tuple(elements) => Some(elements),
            _ => None,
        }
    }
}

/// The shapes of a module; equal shapes share one id.
#[derive(Clone, Debug, Default)]
pub struct ShapeTable {
    shapes: Vec<Shape>,
    /// Open-addressed slots of `index + 1`; 0 is empty. Never more than half full.
    slots: Vec<u32>,
    /// Sizes are of a file's choice.
    hasher: RandomState,
}

impl ShapeTable {
    /// An empty table.
    pub fn new() -> ShapeTable {
        ShapeTable::default()
    }

    /// Number of distinct shapes.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Heap bytes held.
    pub fn heap_size(&self) -> usize {
        let parts: usize = self
            .shapes
            .iter()
            .filter_map(Shape::as_tuple)
            .map(size_of_val)
            .sum();
        parts
            + self.shapes.capacity() * size_of::<Shape>()
            + self.slots.capacity() * size_of::<u32>()
    }

    /// Whether no shape was interned yet.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// All ids, parts before wholes.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ShapeId> + use<> {
        (0..self.shapes.len()).map(ShapeId::from_index)
    }

    /// The shape behind `id`.
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.index()]
    }

    /// All shapes; the parts of a shape come before it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Shape> {
        self.shapes.iter()
    }

    /// The id of `shape`, added when new.
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        if self.slots.len() < 2 * (self.shapes.len() + 1) {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.shape_hash(&shape) as usize & mask;
        loop {
            match self.slots[at] {
                0 => {
                    let id = ShapeId::from_index(self.shapes.len());
                    self.slots[at] = id.0.get();
                    self.shapes.push(shape);
                    return id;
                }
                found if self.shapes[found as usize - 1] == shape => {
                    return ShapeId::from_index(found as usize - 1);
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Makes room for as many shapes more.
    pub(crate) fn reserve(&mut self, additional: usize) {
        self.shapes.reserve(additional);
    }

    /// Interns an array shape.
    pub fn array(&mut self, array: ArrayShape) -> ShapeId {
        self.intern(Shape::Array(array))
    }

    /// Interns a tuple of shapes already in the table.
    pub fn tuple(&mut self, elements: &[ShapeId]) -> ShapeId {
        if self.slots.is_empty() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.tuple_hash(elements) as usize & mask;
        while let Some(found) = self.slots[at].checked_sub(1) {
            if self.shapes[found as usize].as_tuple() == Some(elements) {
                return ShapeId::from_index(found as usize);
            }
            at = (at + 1) & mask;
        }
        self.intern(Shape::Tuple(elements.into()))
    }

    /// Whether two shapes are equal but for their layouts and dynamic sizes' bounds being marked.
    pub fn compatible(&self, a: ShapeId, b: ShapeId) -> bool {
        if a == b {
            return true;
        }
        // Pairs already compared, so that shared parts of hash-consed tuples cost one comparison.
        let mut done = foldhash::HashSet::default();
        let mut stack = vec![(a, b)];
        while let Some((a, b)) = stack.pop() {
            if a == b || !done.insert((a, b)) {
                continue;
            }
            match (self.get(a), self.get(b)) {
                (Shape::Array(a), Shape::Array(b)) => {
                    if a.element_type != b.element_type || a.dims != b.dims {
                        return false;
                    }
                }
                (Shape::Tuple(a), Shape::Tuple(b)) => {
                    if a.len() != b.len() {
                        return false;
                    }
                    stack.extend(a.iter().copied().zip(b.iter().copied()));
                }
                (Shape::Buffer(a), Shape::Buffer(b)) => stack.push((*a, *b)),
                (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => {}
                _ => return false,
            }
        }
        true
    }

    /// Copies the shape `id` of `other`, with all its parts, into this table.
    pub fn import(&mut self, other: &ShapeTable, id: ShapeId) -> ShapeId {
        // A part always has a smaller index than the whole, so one ascending pass over the parts suffices.
        let mut wanted = vec![false; id.index() + 1];
        wanted[id.index()] = true;
        for index in (0..=id.index()).rev() {
            if wanted[index] {
                match &other.shapes[index] {
                    Shape::Tuple(parts) => parts.iter().for_each(|p| wanted[p.index()] = true),
                    Shape::Buffer(part) => wanted[part.index()] = true,
                    Shape::Array(_) | Shape::Token | Shape::Opaque => {}
                }
            }
        }
        let mut mapped: Vec<Option<ShapeId>> = vec![None; id.index() + 1];
        let mut last = None;
        for index in 0..=id.index() {
            if !wanted[index] {
                continue;
            }
            let shape = match &other.shapes[index] {
                Shape::Tuple(parts) => {
                    Shape::Tuple(parts.iter().filter_map(|p| mapped[p.index()]).collect())
                }
                Shape::Buffer(part) => match mapped[part.index()] {
                    Some(part) => Shape::Buffer(part),
                    None => continue,
                },
                leaf => leaf.clone(),
            };
            last = Some(self.intern(shape));
            mapped[index] = last;
        }
        mapped[id.index()].or(last).unwrap_or(id)
    }

    /// The leaf shapes of `id` in pre-order with their indices: the shape itself when it is no tuple.
    ///
    /// Stops with `None` once there are more than `limit` leaves, since hash-consing lets a short
    /// text describe exponentially many.
    pub fn leaves(&self, id: ShapeId, limit: usize) -> Option<Vec<(super::ShapeIndex, ShapeId)>> {
        let mut out = Vec::new();
        let mut visited = 0usize;
        let mut stack = vec![(super::ShapeIndex::default(), id)];
        while let Some((index, shape)) = stack.pop() {
            visited += 1;
            if out.len() >= limit || visited > limit.saturating_mul(2).saturating_add(64) {
                return None;
            }
            match self.get(shape) {
                Shape::Tuple(parts) => {
                    for (i, &part) in parts.iter().enumerate().rev() {
                        stack.push((index.child(i as i64), part));
                    }
                }
                _ => out.push((index, shape)),
            }
        }
        Some(out)
    }

    /// Whether tuples nest more than `limit` levels in `id`; costs at most `limit` looks at each part.
    pub fn is_deeper_than(&self, id: ShapeId, limit: usize) -> bool {
        let mut level = vec![id];
        for _ in 0..=limit {
            let parts = level.iter().filter_map(|&id| self.get(id).as_tuple());
            let mut next: Vec<ShapeId> = parts.flatten().copied().collect();
            next.sort_unstable();
            next.dedup();
            if next.is_empty() {
                return false;
            }
            level = next;
        }
        true
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        let mask = size - 1;
        let mut slots = vec![0u32; size];
        for (index, shape) in self.shapes.iter().enumerate() {
            let mut at = self.shape_hash(shape) as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = index as u32 + 1;
        }
        self.slots = slots;
    }

    /// The hash of a shape in this table.
    fn shape_hash(&self, shape: &Shape) -> u64 {
        match shape {
            Shape::Tuple(elements) => self.tuple_hash(elements),
            other => self.hasher.hash_one(other),
        }
    }

    /// The hash of a tuple of these elements.
    fn tuple_hash(&self, elements: &[ShapeId]) -> u64 {
        self.hasher.hash_one(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shapes_share_an_id() {
        let mut table = ShapeTable::new();
        let a = table.array(ArrayShape::new(PrimitiveType::F32, &[2, 3]));
        let b = table.array(ArrayShape::new(PrimitiveType::F32, &[2, 3]));
        let c = table.array(ArrayShape::new(PrimitiveType::F32, &[3, 2]));
        assert_eq!(a, b);
        assert_ne!(a, c);
        let t = table.tuple(&[a, c]);
        assert_eq!(t, table.tuple(&[a, c]));
        let mut other = ShapeTable::new();
        other.array(ArrayShape::new(PrimitiveType::S8, &[]));
        let imported = other.import(&table, t);
        assert_eq!(other.get(imported).as_tuple().map(<[_]>::len), Some(2));
    }

    #[test]
    fn strides_follow_the_layout() {
        let mut shape = ArrayShape::new(PrimitiveType::F32, &[2, 3, 4]);
        assert_eq!(shape.strides().as_slice(), &[12, 4, 1]);
        shape.layout = Some(Layout {
            minor_to_major: SmallVec::from_slice(&[0, 2, 1]),
            extension: None,
        });
        assert_eq!(shape.strides().as_slice(), &[1, 8, 2]);
        assert!(!shape.is_row_major());
    }

    #[test]
    fn depth_counts_levels_of_tuples() {
        let mut table = ShapeTable::new();
        let mut id = table.array(ArrayShape::new(PrimitiveType::F32, &[]));
        assert!(!table.is_deeper_than(id, 0));
        for _ in 0..5 {
            id = table.tuple(&[id, id]);
        }
        assert!(table.is_deeper_than(id, 4));
        assert!(!table.is_deeper_than(id, 5));
    }

    #[test]
    fn leaves_are_bounded() {
        let mut table = ShapeTable::new();
        let mut id = table.array(ArrayShape::new(PrimitiveType::F32, &[]));
        for _ in 0..64 {
            id = table.tuple(&[id, id]);
        }
        assert!(table.leaves(id, 1000).is_none());
    }
}
