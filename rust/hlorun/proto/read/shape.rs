//! Shapes: `ShapeProto` → `f32[2,3]{1,0}`.

use prost::bytes::Bytes;
use smallvec::SmallVec;

use super::{FieldList, Writer, WrittenShape};
use crate::error::Result;
use crate::proto::numbers::{self, LEVELS};
use crate::proto::schema::{LayoutProto, ShapeProto, layout as layout_field, shape};
use crate::proto::wire::{Fields, Value, varint};
use crate::text::scan::Key;
use crate::types::{ArrayShape, Dims, Layout, PrimitiveType};

/// Shapes within shapes.
const MOST_NESTED: usize = 128;

/// An array of fixed sizes with a layout that says nothing but an order, which is what most shapes are.
pub(super) struct PlainShape<'p> {
    pub element_type: PrimitiveType,
    /// Packed sizes.
    pub dims: &'p [u8],
    /// The packed order of the layout; empty where it has none.
    pub order: &'p [u8],
}

impl<'p> PlainShape<'p> {
    /// The one in `bytes`; `None` for all other shapes and for broken ones. Packed numbers may be broken
    /// still.
    pub fn read(bytes: &'p [u8]) -> Option<PlainShape<'p>> {
        let (mut number, mut dims, mut layout) = (0, &[][..], &[][..]);
        for field in Fields(bytes) {
            match field {
                (shape::element_type, Value::Number(value)) => number = value,
                (shape::dimensions, Value::Bytes(packed)) if dims.is_empty() => dims = packed,
                (shape::layout, Value::Bytes(value)) if layout.is_empty() => layout = value,
                (shape::is_dynamic_dimension, Value::Bytes(packed))
                    if packed.iter().all(|&byte| byte == 0) => {}
                _ => return None,
            }
        }
        let mut order = &[][..];
        for field in Fields(layout) {
            match field {
                (layout_field::minor_to_major, Value::Bytes(packed)) if order.is_empty() => {
                    order = packed;
                }
                // Writers state that nothing is padded.
                (layout_field::tail_padding_alignment_in_elements, Value::Number(1)) => {}
                _ => return None,
            }
        }
        Some(PlainShape {
            element_type: numbers::element_type(i32::try_from(number).ok()?)?,
            dims,
            order,
        })
    }

    /// The array that its text stands for; `None` where that is none, or has more than `rank` dimensions.
    fn array(&self, rank: usize) -> Option<ArrayShape> {
        let mut dims = Dims::new();
        let mut rest = self.dims;
        while !rest.is_empty() {
            dims.push(i64::try_from(varint(&mut rest)?).ok()?);
        }
        let mut minor_to_major = SmallVec::new();
        rest = self.order;
        while !rest.is_empty() {
            let dim = u8::try_from(varint(&mut rest)?).ok()?;
            if usize::from(dim) >= dims.len() || minor_to_major.contains(&dim) {
                return None;
            }
            minor_to_major.push(dim);
        }
        let has_layout = !minor_to_major.is_empty();
        if dims.len() > rank || has_layout && minor_to_major.len() != dims.len() {
            return None;
        }
        Some(ArrayShape {
            element_type: self.element_type,
            dims,
            dynamic: 0,
            layout: has_layout.then_some(Layout {
                minor_to_major,
                extension: None,
            }),
        })
    }
}

/// Short shapes by their bytes: an open-addressed table without an allocation.
pub(super) struct ShortShapes {
    slots: [Option<ShortShape>; SLOTS],
    count: usize,
}

#[derive(Clone, Copy)]
struct ShortShape {
    key: Key,
    length: usize,
    written: WrittenShape,
}

const SLOTS: usize = 32;

impl Default for ShortShapes {
    fn default() -> ShortShapes {
        ShortShapes {
            slots: [None; SLOTS],
            count: 0,
        }
    }
}

impl ShortShapes {
    /// Whether another shape has room: a slot stays free for searches to end at.
    fn has_room(&self) -> bool {
        self.count < SLOTS * 3 / 4
    }

    /// The shape whose bytes are the first `length` of `key`, or the slot for it.
    #[inline(always)]
    fn find(&self, key: &Key, length: usize) -> std::result::Result<WrittenShape, usize> {
        let mut at = key.hash() as usize % SLOTS;
        while let Some(known) = &self.slots[at] {
            if known.length == length && known.key == *key {
                return Ok(known.written);
            }
            at = (at + 1) % SLOTS;
        }
        Err(at)
    }
}

impl Writer<'_> {
    /// Appends the shape in `bytes`.
    pub fn put_shape(&mut self, bytes: &[u8]) -> Result<()> {
        self.put_numbered_shape(bytes).map(|_| ())
    }

    /// The same; its number.
    #[inline]
    pub(super) fn put_numbered_shape(&mut self, bytes: &[u8]) -> Result<u32> {
        let Some(window) = self.window_at(bytes) else {
            return self.put_long_shape(bytes);
        };
        let key = Key::new(window, bytes.len());
        match self.short_shapes.find(&key, bytes.len()) {
            Ok(WrittenShape { start, end, number }) => {
                self.put_shape_again(start, end);
                Ok(number)
            }
            Err(at) if self.short_shapes.has_room() => {
                let written = self.put_new_shape(bytes)?;
                self.short_shapes.slots[at] = Some(ShortShape {
                    key,
                    length: bytes.len(),
                    written,
                });
                self.short_shapes.count += 1;
                Ok(written.number)
            }
            Err(_) => self.put_long_shape(bytes),
        }
    }

    /// The same, of a shape that is not among the short ones.
    #[inline(never)]
    fn put_long_shape(&mut self, bytes: &[u8]) -> Result<u32> {
        if let Some(&WrittenShape { start, end, number }) = self.shapes.get(bytes) {
            self.put_shape_again(start, end);
            return Ok(number);
        }
        let written = self.put_new_shape(bytes)?;
        self.shapes.insert(SmallVec::from_slice(bytes), written);
        Ok(written.number)
    }

    #[inline(never)]
    fn put_new_shape(&mut self, bytes: &[u8]) -> Result<WrittenShape> {
        let start = self.out.len();
        let plain = PlainShape::read(bytes);
        let mut array = None;
        match plain.filter(|plain| self.put_plain(plain)) {
            Some(plain) => array = plain.array(self.limits.rank),
            None => self.shape(Bytes::copy_from_slice(bytes), 0)?,
        }
        let written = WrittenShape {
            start,
            end: self.out.len(),
            number: self.prepared.shapes.len() as u32,
        };
        self.prepared.shapes.push(array);
        Ok(written)
    }

    /// Appends a plain array; for all other shapes `false` and nothing.
    fn plain_array(&mut self, bytes: &[u8]) -> bool {
        PlainShape::read(bytes).is_some_and(|plain| self.put_plain(&plain))
    }

    /// The same; `false` and nothing where its numbers are broken.
    fn put_plain(&mut self, plain: &PlainShape<'_>) -> bool {
        let start = self.out.len();
        self.out.push_str(plain.element_type.name());
        self.out.push('[');
        let mut is_plain = self.plain_list(plain.dims);
        self.out.push(']');
        if !plain.order.is_empty() {
            self.out.push('{');
            is_plain &= self.plain_list(plain.order);
            self.out.push('}');
        }
        if !is_plain {
            self.out.truncate(start);
        }
        is_plain
    }

    /// Appends packed numbers; `false` where they are broken.
    fn plain_list(&mut self, mut packed: &[u8]) -> bool {
        let mut is_first = true;
        while !packed.is_empty() {
            let Some(number) = varint(&mut packed) else {
                return false;
            };
            if !is_first {
                self.out.push(',');
            }
            is_first = false;
            self.put_int(number as i64);
        }
        true
    }

    fn shape(&mut self, bytes: Bytes, depth: usize) -> Result<()> {
        if depth > MOST_NESTED {
            return Err(self.fault(format!("a shape of shapes deeper than {MOST_NESTED}")));
        }
        let parts = std::iter::once(&bytes[..]);
        let mut fields = FieldList::new();
        let view = self.fields::<ShapeProto>(parts, &mut fields)?;
        match view.int(shape::element_type) as i32 {
            kind @ (numbers::TUPLE | numbers::BUFFER) => {
                let is_buffer = kind == numbers::BUFFER;
                self.out.push_str(if is_buffer { "b(" } else { "(" });
                for (at, part) in view.each(shape::tuple_shapes).enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    if !self.plain_array(part) {
                        self.shape(bytes.slice_ref(part), depth + 1)?;
                    }
                }
                self.out.push(')');
            }
            numbers::TOKEN => self.out.push_str("token[]"),
            numbers::OPAQUE => self.out.push_str("opaque[]"),
            _ => {
                let shape = self.decode(bytes.clone(), "ShapeProto")?;
                self.array(&shape, depth)?;
            }
        }
        Ok(())
    }

    fn array(&mut self, shape: &ShapeProto, depth: usize) -> Result<()> {
        self.type_name(shape.element_type)?;
        self.out.push('[');
        for (at, &dim) in shape.dimensions.iter().enumerate() {
            self.out.push_str(if at > 0 { "," } else { "" });
            let is_dynamic = shape.is_dynamic_dimension.get(at) == Some(&true);
            match (is_dynamic, dim) {
                (true, ArrayShape::UNBOUNDED) => self.out.push('?'),
                (true, _) => self.put(format_args!("<={dim}")),
                (false, _) => self.put_int(dim),
            }
        }
        self.out.push(']');
        if let Some(layout) = &shape.layout {
            self.layout(layout, depth)?;
        }
        Ok(())
    }

    fn type_name(&mut self, number: i32) -> Result<()> {
        match numbers::element_type(number) {
            Some(known) => self.out.push_str(known.name()),
            None => {
                return Err(self.fault(format!("expected an element type, found number {number}")));
            }
        }
        Ok(())
    }

    /// `D(C+,S~)`: how the levels of a sparse array are stored.
    fn levels(&mut self, layout: &LayoutProto) {
        self.out.push_str("D(");
        for (at, &kind) in layout.dim_level_types.iter().enumerate() {
            let is_false = |flags: &[bool]| flags.get(at) == Some(&false);
            self.out.push_str(if at > 0 { "," } else { "" });
            self.out.push_str(LEVELS.get(kind as usize).unwrap_or(&"D"));
            self.out.push_str(if is_false(&layout.dim_unique) {
                "+"
            } else {
                ""
            });
            self.out.push_str(if is_false(&layout.dim_ordered) {
                "~"
            } else {
                ""
            });
        }
        self.out.push(')');
    }

    fn layout(&mut self, layout: &LayoutProto, depth: usize) -> Result<()> {
        let start = self.out.len();
        self.out.push('{');
        self.put_list(&layout.minor_to_major);
        let colon = self.out.len();
        let is_dense = layout.dim_level_types.iter().all(|&kind| kind == 0)
            && !layout.dim_unique.contains(&false)
            && !layout.dim_ordered.contains(&false);
        if !is_dense {
            self.levels(layout);
        }
        for (at, tile) in layout.tiles.iter().enumerate() {
            self.out.push_str(if at > 0 { "(" } else { "T(" });
            for (at, &dim) in tile.dimensions.iter().enumerate() {
                self.out.push_str(if at > 0 { "," } else { "" });
                match dim {
                    ArrayShape::UNBOUNDED => self.out.push('*'),
                    _ => self.put_int(dim),
                }
            }
            self.out.push(')');
        }
        let padding = layout.tail_padding_alignment_in_elements;
        if padding > 1 {
            self.put(format_args!("L({padding})"));
        }
        for (mark, number) in [
            ("#", layout.index_primitive_type),
            ("*", layout.pointer_primitive_type),
        ] {
            if number != 0 {
                self.put(format_args!("{mark}("));
                self.type_name(number)?;
                self.out.push(')');
            }
        }
        for (mark, number) in [
            ("E", layout.element_size_in_bits),
            ("S", layout.memory_space),
        ] {
            if number != 0 {
                self.put(format_args!("{mark}({number})"));
            }
        }
        for (at, split) in layout.split_configs.iter().enumerate() {
            let mark = if at > 0 { "" } else { "SC" };
            self.put(format_args!("{mark}({}:", split.dimension));
            self.put_list(&split.split_indices);
            self.out.push(')');
        }
        if let Some(physical) = &layout.physical_shape {
            self.out.push_str("P(");
            if !self.plain_array(physical) {
                self.shape(physical.clone(), depth + 1)?;
            }
            self.out.push(')');
        }
        let prefix = layout.dynamic_shape_metadata_prefix_bytes;
        if prefix > 0 {
            self.put(format_args!("M({prefix})"));
        }
        match (self.out.len() == colon, layout.minor_to_major.is_empty()) {
            (true, true) => self.out.truncate(start),
            (true, false) => self.out.push('}'),
            (false, _) => {
                self.out.insert(colon, ':');
                self.out.push('}');
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ParseOptions;

    #[test]
    fn equal_shapes_have_one_number_however_many_there_are() {
        // f32[n] as the shapes of a module, twice; more than are looked up without an allocation.
        let shape = |n: u8| [2 << 3, 11, 3 << 3 | 2, 1, n];
        let count = 2 * SLOTS;
        let bytes: Vec<u8> = (0..2 * count)
            .flat_map(|n| shape((n % count) as u8))
            .collect();
        let open = Bytes::from([bytes, vec![0; 64]].concat());
        let options = ParseOptions::default();
        let mut writer = Writer::new(open.len(), &options);
        writer.open = &open;
        for at in 0..2 * count {
            let start = writer.out.len();
            let number = writer.put_numbered_shape(&open[5 * at..5 * at + 5]);
            assert_eq!(number.ok(), Some((at % count) as u32));
            assert_eq!(writer.out[start..], format!("f32[{}]", at % count));
        }
        assert_eq!(writer.prepared.shapes.len(), count);
    }

    #[test]
    fn only_what_a_text_may_say_is_known_of_an_array() {
        let array = |dims: &[u8], order: &[u8], rank| {
            let plain = PlainShape {
                element_type: PrimitiveType::F32,
                dims,
                order,
            };
            plain.array(rank)
        };
        let known = array(&[2, 3], &[0, 1], 2).expect("it is an array");
        assert_eq!((known.rank(), known.is_row_major()), (2, false));
        assert_eq!(array(&[2], &[], 1).and_then(|array| array.layout), None);
        for (dims, order, rank) in [
            (&[2, 3][..], &[0, 1][..], 1),
            (&[2, 3], &[0], 2),
            (&[2, 3], &[0, 0], 2),
            (&[2, 3], &[0, 2], 2),
            (&[2, 0x80], &[], 2),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                &[],
                2,
            ),
        ] {
            assert_eq!(array(dims, order, rank), None, "{dims:?} {order:?}");
        }
    }
}
