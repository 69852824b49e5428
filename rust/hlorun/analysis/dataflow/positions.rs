//! Numbers for every part of every instruction's result.
//!
//! A position is an instruction and a [`ShapeIndex`] into its shape. The parts of one result are
//! numbered in pre-order, so every subtree is a run of numbers and passing a tuple on is copying a
//! run.

use crate::error::{HloError, Result};
use crate::module::{HloModule, Id, InstructionId};
use crate::types::{Shape, ShapeId, ShapeIndex, ShapeTable};

/// A part of an instruction's result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PositionId(pub u32);

/// Most parts all results of a module may have together: hash-consed tuples let a short text
/// describe exponentially many.
const LIMIT: u64 = 1 << 25;

/// How many parts each shape has and where its elements start among them.
#[derive(Clone, Debug, Default)]
struct Subshapes {
    counts: Vec<u32>,
    /// For tuples: the number of the first part of each element, the tuple itself being 0.
    offsets: Vec<Box<[u32]>>,
}

impl Subshapes {
    fn new(shapes: &ShapeTable, ids: impl Iterator<Item = ShapeId>) -> Subshapes {
        // Parts of a shape stand before it in the table.
        let last = ids.map(|id| id.index() + 1).max().unwrap_or(0);
        let mut all = Subshapes::default();
        for shape in shapes.iter().take(last) {
            let (mut count, mut offsets) = (1u64, Vec::new());
            if let Shape::Tuple(parts) = shape {
                offsets.reserve(parts.len());
                for part in parts {
                    offsets.push(count.min(LIMIT) as u32);
                    count = (count + u64::from(all.counts[part.index()])).min(LIMIT);
                }
            }
            all.counts.push(count as u32);
            all.offsets.push(offsets.into_boxed_slice());
        }
        all
    }
}

/// All positions of a module.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    first: Vec<u32>,
    owner: Vec<InstructionId>,
    shape: Vec<ShapeId>,
    subshapes: Subshapes,
}

impl Positions {
    /// Numbers the parts of all results of `module`.
    ///
    /// # Errors
    /// [`HloError::Unsupported`] when there are more than some tens of millions.
    pub fn new(module: &HloModule) -> Result<Positions> {
        let ids = (0..module.instruction_count()).map(InstructionId::from_index);
        let shape_of = |id: InstructionId| module.instruction_data(id).shape;
        let subshapes = Subshapes::new(module.shapes(), ids.clone().map(shape_of));
        let mut positions = Positions {
            subshapes,
            ..Positions::default()
        };
        let mut stack = Vec::new();
        for id in ids {
            let first = positions.owner.len();
            let count = positions.subshapes.counts[shape_of(id).index()] as usize;
            if (first + count) as u64 >= LIMIT {
                return Err(HloError::unsupported(
                    format!("results of more than {LIMIT} parts together"),
                    module.instruction(id).name(),
                ));
            }
            positions.first.push(first as u32);
            stack.push(shape_of(id));
            while let Some(shape) = stack.pop() {
                positions.owner.push(id);
                positions.shape.push(shape);
                if let Shape::Tuple(parts) = module.shapes().get(shape) {
                    stack.extend(parts.iter().rev());
                }
            }
        }
        positions.first.push(positions.owner.len() as u32);
        Ok(positions)
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.owner.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.owner.is_empty()
    }

    /// The whole result of an instruction.
    pub fn root(&self, id: InstructionId) -> PositionId {
        PositionId(self.first[id.index()])
    }

    /// All parts of an instruction's result, the whole first.
    pub fn of(&self, id: InstructionId) -> impl ExactSizeIterator<Item = PositionId> + use<> {
        (self.first[id.index()]..self.first[id.index() + 1]).map(PositionId)
    }

    /// The instruction a position belongs to.
    pub fn instruction(&self, position: PositionId) -> InstructionId {
        self.owner[position.0 as usize]
    }

    /// The shape of a position.
    pub fn shape(&self, position: PositionId) -> ShapeId {
        self.shape[position.0 as usize]
    }

    /// Whether a position is the whole result.
    pub fn is_root(&self, position: PositionId) -> bool {
        self.first[self.instruction(position).index()] == position.0
    }

    /// How many positions the subtree at `position` has, itself included.
    pub fn subtree(&self, position: PositionId) -> u32 {
        self.subshapes.counts[self.shape(position).index()]
    }

    /// Element `element` of the tuple at `position`.
    pub fn child(&self, position: PositionId, element: usize) -> Option<PositionId> {
        let offsets = &self.subshapes.offsets[self.shape(position).index()];
        Some(PositionId(position.0 + offsets.get(element)?))
    }

    /// The position at `index` of an instruction's result.
    pub fn at(&self, id: InstructionId, index: &ShapeIndex) -> Option<PositionId> {
        self.below(self.root(id), index)
    }

    /// The position at `index` below another.
    pub fn below(&self, position: PositionId, index: &ShapeIndex) -> Option<PositionId> {
        index.0.iter().try_fold(position, |at, &element| {
            self.child(at, usize::try_from(element).ok()?)
        })
    }

    /// Where in its instruction's result a position is.
    pub fn index(&self, position: PositionId) -> ShapeIndex {
        let mut at = self.root(self.instruction(position));
        let mut path = ShapeIndex::default();
        while at != position {
            let offsets = &self.subshapes.offsets[self.shape(at).index()];
            let wanted = position.0 - at.0;
            let element = offsets.partition_point(|&o| o <= wanted).saturating_sub(1);
            path.0.push(element as i64);
            match offsets.get(element) {
                Some(offset) => at.0 += offset,
                None => break,
            }
        }
        path
    }
}
