//! Shapes: [`Shape`] → `ShapeProto`. Arrays without a layout are row-major and say so.

use prost::Message;
use prost::bytes::Bytes;

use super::Writer;
use crate::proto::numbers::{self, LEVELS};
use crate::proto::schema::{LayoutProto, ShapeProto, SplitConfigProto, TileProto};
use crate::text;
use crate::types::{ArrayShape, Layout, Shape, ShapeId, ShapeTable};

impl Writer<'_> {
    /// The bytes of a shape. Parts of a shape were made before it, so that depth is no matter.
    pub fn shape(&mut self, id: ShapeId) -> Bytes {
        let mut waiting = vec![id];
        while let Some(&next) = waiting.last() {
            let missing: Vec<ShapeId> = match self.module.shapes().get(next) {
                Shape::Tuple(parts) => parts
                    .iter()
                    .copied()
                    .filter(|&part| self.written(part).is_none())
                    .collect(),
                Shape::Buffer(part) if self.written(*part).is_none() => vec![*part],
                _ => Vec::new(),
            };
            if missing.is_empty() {
                let bytes = Bytes::from(self.shape_of_parts(next).encode_to_vec());
                if let Some(place) = self.shapes.get_mut(next.index()) {
                    *place = Some(bytes);
                }
                waiting.pop();
            } else {
                waiting.extend(missing);
            }
        }
        self.written(id).unwrap_or_default()
    }

    fn written(&self, id: ShapeId) -> Option<Bytes> {
        self.shapes.get(id.index()).cloned().flatten()
    }

    fn shape_of_parts(&self, id: ShapeId) -> ShapeProto {
        let of = |element_type, parts: &[ShapeId]| ShapeProto {
            element_type,
            tuple_shapes: parts
                .iter()
                .map(|&part| self.written(part).unwrap_or_default())
                .collect(),
            ..ShapeProto::default()
        };
        match self.module.shapes().get(id) {
            Shape::Array(array) => array_proto(array),
            Shape::Tuple(parts) => of(numbers::TUPLE, parts),
            Shape::Buffer(part) => of(numbers::BUFFER, &[*part]),
            Shape::Token => of(numbers::TOKEN, &[]),
            Shape::Opaque => of(numbers::OPAQUE, &[]),
        }
    }
}

fn array_proto(array: &ArrayShape) -> ShapeProto {
    let rank = array.rank();
    let mut layout = LayoutProto {
        minor_to_major: array
            .minor_to_major()
            .iter()
            .map(|&dim| i64::from(dim))
            .collect(),
        tail_padding_alignment_in_elements: 1,
        ..LayoutProto::default()
    };
    let extension = array
        .layout
        .as_ref()
        .and_then(|layout| layout.extension.as_deref());
    if let Some(extension) = extension {
        let tiles = extension.tiles.iter().map(|tile| TileProto {
            dimensions: tile
                .0
                .iter()
                .map(|dim| dim.unwrap_or(ArrayShape::UNBOUNDED))
                .collect(),
        });
        layout.tiles = tiles.collect();
        layout.tail_padding_alignment_in_elements = extension.tail_padding_alignment;
        layout.index_primitive_type = extension
            .index_primitive_type
            .map_or(0, numbers::type_number);
        layout.pointer_primitive_type = extension
            .pointer_primitive_type
            .map_or(0, numbers::type_number);
        layout.element_size_in_bits = extension.element_size_in_bits;
        layout.memory_space = extension.memory_space;
        layout.dynamic_shape_metadata_prefix_bytes = extension.dynamic_shape_metadata_prefix_bytes;
        let splits = extension
            .split_configs
            .iter()
            .map(|(dimension, indices)| SplitConfigProto {
                dimension: *dimension,
                split_indices: indices.clone(),
            });
        layout.split_configs = splits.collect();
        write_levels(&mut layout, extension.dim_level_types.as_deref());
        layout.physical_shape = extension.physical_shape.as_deref().and_then(physical_proto);
    }
    ShapeProto {
        element_type: numbers::type_number(array.element_type),
        dimensions: array.dims.to_vec(),
        is_dynamic_dimension: (0..rank)
            .map(|dim| array.is_dynamic_dimension(dim))
            .collect(),
        layout: Some(Box::new(layout)),
        ..ShapeProto::default()
    }
}

/// Levels of dimensions, `D,C+~`: a letter, and marks where it is not unique or not ordered.
fn write_levels(layout: &mut LayoutProto, levels: Option<&str>) {
    let Some(levels) = levels else { return };
    for level in levels.split(',').map(str::trim) {
        let known = LEVELS.iter().position(|letter| level.starts_with(letter));
        layout.dim_level_types.push(known.unwrap_or(0) as i32);
        layout.dim_unique.push(!level.contains('+'));
        layout.dim_ordered.push(!level.contains('~'));
    }
}

/// The shape that a sparse array has in memory.
fn physical_proto(text: &str) -> Option<Bytes> {
    let mut table = ShapeTable::default();
    let id = text::parse_shape(text.as_bytes(), &mut table).ok()?;
    // It has no such shape itself, which would make this recurse.
    let mut array = table.get(id).as_array()?.clone();
    if let Some(Layout {
        extension: Some(extension),
        ..
    }) = &mut array.layout
    {
        extension.physical_shape = None;
    }
    Some(array_proto(&array).encode_to_vec().into())
}
