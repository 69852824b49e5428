//! Texts of shapes that have been written before: modules have few shapes and many instructions.

use crate::module::HloModule;
use crate::types::ShapeId;

/// Texts of shapes in one style.
pub struct WrittenShapes {
    text: String,
    /// By shape, where its text is; empty where it is not kept.
    places: Vec<(u32, u32)>,
    /// Bytes of text that are kept at most: texts of nested tuples can be far longer than the module's.
    limit: usize,
}

/// Bytes of text that are kept in any case.
const SMALL: usize = 1 << 16;

impl WrittenShapes {
    /// None so far.
    pub fn new(module: &HloModule) -> WrittenShapes {
        let source = module.text().source().len();
        WrittenShapes {
            text: String::new(),
            places: Vec::new(),
            limit: source.saturating_add(SMALL).min(u32::MAX as usize),
        }
    }

    /// Appends the text of a shape; `false` where it is not kept.
    pub fn write(&self, out: &mut String, id: ShapeId) -> bool {
        let place = self
            .places
            .get(id.index())
            .filter(|place| place.0 < place.1);
        if let Some(&(start, end)) = place {
            out.push_str(&self.text[start as usize..end as usize]);
        }
        place.is_some()
    }

    /// Keeps the text of a shape.
    pub fn keep(&mut self, id: ShapeId, text: &str) {
        let start = self.text.len();
        let end = start + text.len();
        if end > self.limit {
            return;
        }
        if self.places.len() <= id.index() {
            self.places.resize(id.index() + 1, (0, 0));
        }
        self.text.push_str(text);
        self.places[id.index()] = (start as u32, end as u32);
    }
}
