//! Physical layout of an array: dimension order, tiles, memory space and the rarer fields.

use smallvec::SmallVec;

/// A tile of a tiled layout; `None` is the combined dimension `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tile(pub SmallVec<[Option<i64>; 2]>);

/// Fields of a layout that few dumps carry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LayoutExtension {
    /// `T(8,128)(2,1)`.
    pub tiles: Vec<Tile>,
    /// `L(n)`: the number of elements the array is padded to a multiple of; 1 when absent.
    pub tail_padding_alignment: i64,
    /// `#(type)`: element type of sparse/dynamic indices, text name.
    pub index_primitive_type: Option<super::PrimitiveType>,
    /// `*(type)`: element type of pointers.
    pub pointer_primitive_type: Option<super::PrimitiveType>,
    /// `E(n)`: bits one element occupies; 0 when absent.
    pub element_size_in_bits: i64,
    /// `S(n)`: memory space; 0 is the default one.
    pub memory_space: i64,
    /// `SC(dim:i,j)(…)`: split configurations, `(dimension, indices)`.
    pub split_configs: Vec<(i64, Vec<i64>)>,
    /// `M(n)`: bytes of run-time dimension sizes in front of the data.
    pub dynamic_shape_metadata_prefix_bytes: i64,
    /// `D(…)`: per dimension level type letters such as `D`, `C+`, kept as written.
    pub dim_level_types: Option<String>,
    /// `P(shape)`: the physical shape of a sparse array, kept as written.
    pub physical_shape: Option<String>,
}

/// Order of dimensions in memory, and its extensions.
///
/// `minor_to_major[0]` is the dimension whose index varies fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Layout {
    /// A permutation of `0..rank`.
    pub minor_to_major: SmallVec<[u8; 8]>,
    /// Present when any of its fields is not at its default.
    pub extension: Option<Box<LayoutExtension>>,
}

impl Layout {
    /// `S(n)`; 0 by default.
    pub fn memory_space(&self) -> i64 {
        self.extension.as_ref().map_or(0, |e| e.memory_space)
    }

    /// `E(n)`; 0 by default.
    pub fn element_size_in_bits(&self) -> i64 {
        self.extension
            .as_ref()
            .map_or(0, |e| e.element_size_in_bits)
    }

    /// `T(…)…`; empty by default.
    pub fn tiles(&self) -> &[Tile] {
        self.extension.as_ref().map_or(&[], |e| &e.tiles)
    }
}
