//! Whether shapes are shapes: sizes, bytes, layouts. Each distinct shape is looked at once.

use foldhash::HashMap;

use super::inferred::show;
use super::rules::common::DimSet;
use crate::types::{ArrayShape, Shape, ShapeId, ShapeTable};

/// The shapes of a table that are none.
pub struct ShapeProblems {
    problems: HashMap<ShapeId, String>,
}

impl ShapeProblems {
    /// One pass over the table.
    pub fn new(table: &ShapeTable) -> ShapeProblems {
        let mut problems: HashMap<ShapeId, String> = HashMap::default();
        for id in table.ids() {
            let problem = match table.get(id) {
                Shape::Array(array) => array_problem(array)
                    .map(|problem| format!("declares {}, {problem}", show(table, id))),
                // The whole is as wrong as its first wrong part.
                Shape::Tuple(parts) if !problems.is_empty() => {
                    parts.iter().find_map(|part| problems.get(part)).cloned()
                }
                Shape::Buffer(part) => problems.get(part).cloned(),
                Shape::Tuple(_) | Shape::Token | Shape::Opaque => None,
            };
            if let Some(problem) = problem {
                problems.insert(id, problem);
            }
        }
        ShapeProblems { problems }
    }

    /// What is wrong with a shape; continues "%name (opcode) ".
    pub fn of(&self, id: ShapeId) -> Option<&str> {
        if self.problems.is_empty() {
            return None;
        }
        self.problems.get(&id).map(String::as_str)
    }
}

/// What is wrong with the shape of an array; continues "a shape".
pub(super) fn array_problem(array: &ArrayShape) -> Option<String> {
    let rank = array.rank();
    if rank > ArrayShape::MAX_RANK {
        return Some(format!(
            "which has {rank} dimensions; at most {} are supported",
            ArrayShape::MAX_RANK
        ));
    }
    let mut unbounded = false;
    for (d, &size) in array.dims.iter().enumerate() {
        if size == ArrayShape::UNBOUNDED {
            unbounded = true;
        } else if size < 0 {
            return Some(format!("whose dimension {d} has the negative size {size}"));
        }
    }
    if !unbounded && array.byte_size().is_none() {
        return Some("which takes more than 2^63 bytes".to_owned());
    }
    let layout = array.layout.as_ref()?;
    let mut seen = DimSet::default();
    let permutation = layout.minor_to_major.len() == rank
        && layout
            .minor_to_major
            .iter()
            .all(|&d| usize::from(d) < rank && seen.add(usize::from(d)));
    if permutation {
        return None;
    }
    Some(format!(
        "whose layout {layout} is no permutation of its {rank} dimensions"
    ))
}
