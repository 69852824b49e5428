//! VHLO's types, and the text of the shapes they are.

use std::fmt::Write;
use std::ops::Range;

use super::sections::{Dialect, Entry, Sections};
use super::{Declined, Read};
use crate::types::{ArrayShape, PrimitiveType};

/// Codes of types that are more than an element type.
mod code {
    pub const COMPLEX: u64 = 1;
    pub const INDEX: u64 = 9;
    pub const RANKED_TENSOR: u64 = 20;
    pub const TOKEN: u64 = 22;
    pub const NONE: u64 = 33;
}

/// Element types by their codes.
const ELEMENTS: &[(u64, PrimitiveType)] = {
    use PrimitiveType::*;
    &[
        (0, Pred),
        (2, BF16),
        (3, F16),
        (4, F32),
        (5, F64),
        (6, F8E4M3FN),
        (7, F8E5M2),
        (10, S4),
        (11, S8),
        (12, S16),
        (13, S32),
        (14, S64),
        (15, U4),
        (16, U8),
        (17, U16),
        (18, U32),
        (19, U64),
        (27, F8E4M3FNUZ),
        (28, F8E5M2FNUZ),
        (29, F8E4M3B11FNUZ),
        (31, S2),
        (32, U2),
        (35, F8E4M3),
        (36, F8E3M4),
        (37, F4E2M1FN),
        (40, F8E8M0FNU),
    ]
};

/// A type.
pub enum Type {
    Array(ArrayShape),
    Element(PrimitiveType),
    Token,
    /// A tensor of so many elements of the type `index`, as layouts are.
    Indices(usize),
    /// That of what is not said.
    None,
    /// One that no value here has.
    Other,
}

/// All types of an artifact.
pub struct Types {
    types: Vec<Type>,
    /// The shapes as HLO text, one behind the other.
    texts: String,
    ranges: Vec<Range<usize>>,
}

impl Types {
    pub fn read(sections: &Sections<'_>) -> Read<Types> {
        let mut all = Types {
            types: Vec::with_capacity(sections.types.len()),
            texts: String::new(),
            ranges: Vec::with_capacity(sections.types.len()),
        };
        for entry in &sections.types {
            let start = all.texts.len();
            let ty = read_type(*entry, &sections.types)?;
            match &ty {
                Type::Array(array) => write_shape(&mut all.texts, array),
                Type::Token => all.texts.push_str("token[]"),
                Type::Element(_) | Type::Indices(_) | Type::None | Type::Other => {}
            }
            all.ranges.push(start..all.texts.len());
            all.types.push(ty);
        }
        Ok(all)
    }

    pub fn get(&self, index: u32) -> Read<&Type> {
        self.types
            .get(index as usize)
            .ok_or(Declined::because("a type that is not there"))
    }

    pub fn array(&self, index: u32) -> Read<&ArrayShape> {
        match self.get(index)? {
            Type::Array(array) => Ok(array),
            _ => Err(Declined::because("a value that is no array")),
        }
    }

    /// How many elements a tensor of the type `index` has.
    pub fn index_tensor(&self, index: u32) -> Read<usize> {
        match self.get(index)? {
            Type::Indices(count) => Ok(*count),
            _ => Err(Declined::because("an attribute that is no layout")),
        }
    }

    /// The shape of a value as HLO text.
    pub fn text(&self, index: u32) -> Read<&str> {
        match self.get(index)? {
            Type::Array(_) | Type::Token => Ok(&self.texts[self.ranges[index as usize].clone()]),
            _ => Err(Declined::because(
                "a value that is neither an array nor a token",
            )),
        }
    }
}

fn element_of(code: u64) -> Option<PrimitiveType> {
    let row = ELEMENTS.iter().find(|row| row.0 == code);
    row.map(|row| row.1)
}

/// The element type in the entry `index`.
fn element(entries: &[Entry<'_>], index: u32) -> Read<PrimitiveType> {
    let unknown = Declined::because("an element type that is not known");
    let entry = |index: u32| entries.get(index as usize).copied();
    let Some(Entry {
        dialect: Dialect::Vhlo,
        mut bytes,
    }) = entry(index)
    else {
        return Err(unknown);
    };
    let code = bytes.number()?;
    if code != code::COMPLEX {
        return element_of(code).ok_or(unknown);
    }
    let Some(Entry {
        dialect: Dialect::Vhlo,
        bytes: mut part,
    }) = entry(bytes.index()?)
    else {
        return Err(unknown);
    };
    match element_of(part.number()?) {
        Some(PrimitiveType::F32) => Ok(PrimitiveType::C64),
        Some(PrimitiveType::F64) => Ok(PrimitiveType::C128),
        _ => Err(unknown),
    }
}

/// Whether the entry `index` is MLIR's type `index`.
fn is_index(entries: &[Entry<'_>], index: u32) -> bool {
    let entry = entries.get(index as usize).copied();
    let code = entry.filter(|entry| entry.dialect == Dialect::Vhlo);
    code.is_some_and(|mut entry| matches!(entry.bytes.number(), Ok(code::INDEX)))
}

fn read_type(entry: Entry<'_>, all: &[Entry<'_>]) -> Read<Type> {
    let mut bytes = entry.bytes;
    if entry.dialect != Dialect::Vhlo {
        return Ok(Type::Other);
    }
    let ty = match bytes.number()? {
        code::RANKED_TENSOR => {
            let dims = bytes.signed_list()?;
            let part = bytes.index()?;
            if let &[count] = &dims[..]
                && is_index(all, part)
            {
                bytes.end()?;
                let count = count.try_into();
                return Ok(Type::Indices(count.unwrap_or(usize::MAX)));
            }
            let element = element(all, part)?;
            if dims.len() > ArrayShape::MAX_RANK || dims.iter().any(|&dim| dim < 0) {
                return Err(Declined::because("sizes that are not known"));
            }
            Type::Array(ArrayShape::new(element, &dims))
        }
        code::TOKEN => Type::Token,
        code::NONE => Type::None,
        code => {
            return Ok(match element_of(code) {
                Some(element) => Type::Element(element),
                None => Type::Other,
            });
        }
    };
    bytes.end()?;
    Ok(ty)
}

/// Appends a shape with the layout that its dimensions have in order.
pub fn write_shape(out: &mut String, array: &ArrayShape) {
    out.push_str(array.element_type.name());
    out.push('[');
    write_list(out, &array.dims);
    out.push(']');
    if !array.dims.is_empty() {
        out.push('{');
        for dim in (0..array.dims.len()).rev() {
            let mark = if dim > 0 { "," } else { "" };
            let _ = write!(out, "{dim}{mark}");
        }
        out.push('}');
    }
}

/// Appends `1,2,3`.
pub fn write_list(out: &mut String, numbers: &[i64]) {
    for (at, number) in numbers.iter().enumerate() {
        let mark = if at > 0 { "," } else { "" };
        let _ = write!(out, "{mark}{number}");
    }
}
