//! The results of a call, some of which it may leave out, among memory the library works in.
//!
//! In: what each result must be, and what is declared. Out: which declared part is which result.

use smallvec::{SmallVec, smallvec};

use crate::module::InstructionRef;
use crate::types::{ArrayShape, Dims, PrimitiveType};

/// What one result must be.
#[derive(Clone, Debug)]
pub enum Slot {
    /// An array.
    Array(ArraySlot),
    /// Memory the library works in; nobody reads or writes it here.
    Work,
}

/// An array of one of a few types and sizes; the first of each is the usual one.
#[derive(Clone, Debug)]
pub struct ArraySlot {
    /// Types it may have.
    pub types: SmallVec<[PrimitiveType; 2]>,
    /// Sizes it may have.
    pub dims: SmallVec<[Dims; 1]>,
    /// It may be missing.
    pub optional: bool,
}

impl Slot {
    /// An array of this type and these sizes.
    pub fn array(ty: PrimitiveType, dims: &[i64]) -> Slot {
        Slot::Array(ArraySlot {
            types: smallvec![ty],
            dims: smallvec![Dims::from_slice(dims)],
            optional: false,
        })
    }

    fn with(mut self, change: impl FnOnce(&mut ArraySlot)) -> Slot {
        if let Slot::Array(slot) = &mut self {
            change(slot);
        }
        self
    }

    /// The same, or of one of these types.
    pub fn or_types(self, types: &[PrimitiveType]) -> Slot {
        self.with(|slot| {
            for ty in types {
                if !slot.types.contains(ty) {
                    slot.types.push(*ty);
                }
            }
        })
    }

    /// The same, or of these sizes.
    pub fn or_dims(self, dims: &[i64]) -> Slot {
        self.with(|slot| {
            if slot.dims.iter().all(|known| known[..] != *dims) {
                slot.dims.push(Dims::from_slice(dims));
            }
        })
    }

    /// The same, or not there.
    pub fn optional(self) -> Slot {
        self.with(|slot| slot.optional = true)
    }
}

impl ArraySlot {
    fn fits(&self, shape: &ArrayShape) -> bool {
        self.types.contains(&shape.element_type) && self.dims.contains(&shape.dims)
    }
}

/// Positions of results among what is declared, `None` for one that is left out.
pub type Positions = SmallVec<[Option<usize>; 6]>;

/// What a call declares: the array it returns, or the elements of the tuple; `None` for an element
/// that is no array.
pub fn declared(instruction: InstructionRef<'_>) -> Vec<Option<&ArrayShape>> {
    let shapes = instruction.module.shapes();
    match instruction.shape().as_tuple() {
        Some(parts) => parts
            .iter()
            .map(|&part| shapes.get(part).as_array())
            .collect(),
        None => vec![instruction.array_shape()],
    }
}

/// A vector of bytes, as workspaces are.
pub fn is_bytes(shape: &ArrayShape) -> bool {
    matches!(shape.element_type, PrimitiveType::S8 | PrimitiveType::U8) && shape.rank() == 1
}

/// Finds `slots` in `parts`, in order. What `is_work` holds for may stand between and behind them, not
/// first.
/// `None` when something is missing or too much.
pub fn positions(
    slots: &[Slot],
    parts: &[Option<&ArrayShape>],
    is_work: &dyn Fn(&ArrayShape) -> bool,
) -> Option<Positions> {
    let mut found = Positions::new();
    let mut at = 0;
    let works = |part: &Option<&ArrayShape>| part.is_some_and(is_work);
    for slot in slots {
        let Slot::Array(slot) = slot else {
            parts.get(at)?.as_ref()?;
            at += 1;
            continue;
        };
        let is_it = |part: &Option<&ArrayShape>| part.is_some_and(|shape| slot.fits(shape));
        let rest = &parts[at..];
        let skipped = rest.iter().position(|part| is_it(part) || !works(part));
        let is_allowed = |&skipped: &usize| is_it(&rest[skipped]) && (skipped == 0 || at > 0);
        match skipped.filter(is_allowed) {
            Some(skipped) => {
                found.push(Some(at + skipped));
                at += skipped + 1;
            }
            None if slot.optional => found.push(None),
            None => return None,
        }
    }
    parts[at..].iter().all(works).then_some(found)
}

/// As [`positions`] of what `instruction` declares; an error says in words what is expected.
pub fn find(
    instruction: InstructionRef<'_>,
    slots: &[Slot],
    is_work: &dyn Fn(&ArrayShape) -> bool,
) -> Result<Positions, String> {
    let parts = declared(instruction);
    positions(slots, &parts, is_work).ok_or_else(|| {
        let is_later = match (slots.first(), parts.split_first()) {
            (Some(Slot::Array(slot)), Some((Some(first), rest))) => {
                is_work(first) && rest.iter().flatten().any(|part| slot.fits(part))
            }
            _ => false,
        };
        match is_later {
            true => "its workspaces last".to_owned(),
            false => describe(slots),
        }
    })
}

/// `(f32[2,2], s32[2] or none, s32[] or s32[1])`.
#[cold]
fn describe(slots: &[Slot]) -> String {
    let describe = |slot: &Slot| {
        let Slot::Array(slot) = slot else {
            return "a workspace".to_owned();
        };
        let (ty, sizes) = (slot.types[0], &slot.dims);
        let mut kinds: Vec<String> = sizes
            .iter()
            .map(|dims| ArrayShape::new(ty, dims).to_string())
            .collect();
        kinds.extend(slot.types[1..].iter().map(|ty| ty.name().to_owned()));
        if slot.optional {
            kinds.push("none".to_owned());
        }
        kinds.join(" or ")
    };
    match slots {
        [one] => describe(one),
        all => {
            let all: Vec<String> = all.iter().map(describe).collect();
            format!("({})", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PrimitiveType as P;

    fn find(slots: &[Slot], parts: &[(P, &[i64])]) -> Option<Vec<Option<usize>>> {
        let shapes: Vec<ArrayShape> = parts.iter().map(|p| ArrayShape::new(p.0, p.1)).collect();
        let parts: Vec<Option<&ArrayShape>> = shapes.iter().map(Some).collect();
        positions(slots, &parts, &is_bytes).map(|found| found.to_vec())
    }

    #[test]
    fn results_stand_in_order_among_workspaces() {
        let slots = [
            Slot::array(P::F32, &[2, 2]),
            Slot::array(P::S32, &[2]).optional(),
            Slot::array(P::S32, &[]).or_dims(&[1]),
        ];
        type Part = (P, &'static [i64]);
        let (a, p, i, w): (Part, Part, Part, Part) = (
            (P::F32, &[2, 2]),
            (P::S32, &[2]),
            (P::S32, &[]),
            (P::U8, &[64]),
        );
        assert_eq!(
            find(&slots, &[a, p, i]),
            Some(vec![Some(0), Some(1), Some(2)])
        );
        assert_eq!(
            find(&slots, &[a, w, i, w]),
            Some(vec![Some(0), None, Some(2)])
        );
        assert_eq!(find(&slots, &[a, p]), None);
        assert_eq!(find(&slots, &[p, a, i]), None);
        assert_eq!(find(&slots, &[w, a, i]), None);
        assert_eq!(find(&slots, &[a, p, i, i]), None);
        assert_eq!(find(&slots, &[a, (P::S32, &[3]), i]), None);
        assert_eq!(find(&slots, &[]), None);
    }

    #[test]
    fn places_of_work_are_skipped_whatever_they_hold() {
        let slots = [Slot::Work, Slot::array(P::F32, &[3])];
        let work: (P, &[i64]) = (P::C64, &[7, 7]);
        assert_eq!(find(&slots, &[work, (P::F32, &[3])]), Some(vec![Some(1)]));
        assert_eq!(find(&slots, &[work]), None);
    }
}
