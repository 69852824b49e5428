//! Attributes of the builtin dialect and of VHLO, decoded when asked for.

use smallvec::SmallVec;

use super::bytes::Bytes;
use super::sections::{Dialect, Entry, Sections};
use super::types::{Type, Types};
use super::{Declined, Read};
use crate::types::PrimitiveType;

/// Codes of the builtin dialect's attributes.
pub mod builtin {
    pub const DICTIONARY: u64 = 1;
    pub const STRING: u64 = 2;
    pub const INTEGER: u64 = 8;
    pub const CALL_SITE: u64 = 10;
    pub const FILE_LINE_COLUMN: u64 = 11;
    pub const FUSED: u64 = 12;
    pub const NAME: u64 = 14;
    pub const UNKNOWN: u64 = 15;
    pub const FILE_RANGE: u64 = 22;
}

/// Codes of VHLO's attributes other than enums.
mod vhlo {
    pub const ARRAY: u64 = 1;
    pub const BOOLEAN: u64 = 2;
    pub const DICTIONARY: u64 = 6;
    pub const INTEGER: u64 = 9;
    pub const ALIAS: u64 = 10;
    pub const STRING: u64 = 14;
    pub const TENSOR: u64 = 15;
    pub const TYPE: u64 = 17;
    pub const ACCURACY: u64 = 20;
}

/// An enum attribute of VHLO: its code, and its cases by their numbers, as HLO spells them.
pub struct Words {
    code: u64,
    words: &'static [&'static str],
}

/// A word that no attribute may say.
const NONE: &str = "";
/// How two numbers are compared.
pub const DIRECTION: Words = words(3, &["EQ", "NE", "GE", "GT", "LE", "LT"]);
/// As what two numbers are compared.
pub const COMPARISON: Words = words(4, &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]);
/// What a custom call's function takes.
pub const API_VERSION: Words = words(
    5,
    &[
        NONE,
        "API_VERSION_ORIGINAL",
        "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED",
        "API_VERSION_TYPED_FFI",
    ],
);
/// Which Fourier transform.
pub const FFT: Words = words(7, &["FFT", "IFFT", "RFFT", "IRFFT"]);
/// How precise a product is.
pub const PRECISION: Words = words(11, &["default", "high", "highest"]);
/// Which generator of random bits.
pub const RNG_ALGORITHM: Words = words(12, &["rng_default", "rng_three_fry", "rng_philox"]);
/// How a triangular matrix is read.
pub const TRANSPOSE: Words = words(16, &[NONE, "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
/// How accurate an elementwise function is.
const ACCURACY_MODE: Words = words(19, &["default", "highest"]);

const fn words(code: u64, words: &'static [&'static str]) -> Words {
    Words { code, words }
}

/// An array of elements, as an attribute holds it.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    pub ty: u32,
    pub bytes: &'a [u8],
}

/// Which result of a custom call is which operand.
pub struct Alias {
    pub output: Vec<i64>,
    pub operand: i64,
    pub operand_index: Vec<i64>,
}

/// The tables of an artifact, and what is understood of them.
pub struct Artifact<'a> {
    pub sections: Sections<'a>,
    pub types: Types,
}

impl<'a> Artifact<'a> {
    fn entry(&self, index: u32) -> Read<Entry<'a>> {
        let entry = self.sections.attributes.get(index as usize);
        entry
            .copied()
            .ok_or(Declined::because("an attribute that is not there"))
    }

    /// The code of a builtin attribute, and what stands behind it.
    pub fn builtin(&self, index: u32) -> Read<(u64, Bytes<'a>)> {
        let Entry { dialect, mut bytes } = self.entry(index)?;
        match dialect {
            Dialect::Builtin => Ok((bytes.number()?, bytes)),
            _ => Err(Declined::because("an attribute of another dialect")),
        }
    }

    /// An integer of the builtin dialect of more than a byte.
    pub fn builtin_integer(&self, index: u32) -> Read<i64> {
        match self.builtin(index)? {
            (builtin::INTEGER, mut bytes) => {
                bytes.index()?;
                bytes.signed()
            }
            _ => Err(Declined::because("an attribute that is no integer")),
        }
    }

    fn vhlo(&self, index: u32) -> Read<(u64, Bytes<'a>)> {
        let Entry { dialect, mut bytes } = self.entry(index)?;
        match dialect {
            Dialect::Vhlo => Ok((bytes.number()?, bytes)),
            _ => Err(Declined::because("an attribute of another dialect")),
        }
    }

    fn of(&self, index: u32, code: u64, what: &'static str) -> Read<Bytes<'a>> {
        match self.vhlo(index)? {
            (found, bytes) if found == code => Ok(bytes),
            _ => Err(Declined::because(what)),
        }
    }

    /// A string of either dialect.
    pub fn text(&self, index: u32) -> Read<&'a [u8]> {
        let Entry { dialect, mut bytes } = self.entry(index)?;
        let code = match dialect {
            Dialect::Builtin => builtin::STRING,
            Dialect::Vhlo => vhlo::STRING,
            Dialect::Sdy => return Err(Declined::because("an attribute of another dialect")),
        };
        if bytes.number()? != code {
            return Err(Declined::because("an attribute that is no string"));
        }
        self.sections.string(bytes.index()?)
    }

    pub fn boolean(&self, index: u32) -> Read<bool> {
        let mut bytes = self.of(index, vhlo::BOOLEAN, "an attribute that is no truth value")?;
        match bytes.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Declined::because("a truth value that is neither")),
        }
    }

    /// An integer, and its type.
    pub fn typed_integer(&self, index: u32) -> Read<(i64, PrimitiveType)> {
        let mut bytes = self.of(index, vhlo::INTEGER, "an attribute that is no integer")?;
        let Type::Element(element) = *self.types.get(bytes.index()?)? else {
            return Err(Declined::because("an integer of no element type"));
        };
        let value = match bits_of(element) {
            0..=8 => i64::from(bytes.byte()? as i8),
            _ => bytes.signed()?,
        };
        bytes.end()?;
        Ok((value, element))
    }

    pub fn integer(&self, index: u32) -> Read<i64> {
        Ok(self.typed_integer(index)?.0)
    }

    pub fn list(&self, index: u32) -> Read<SmallVec<[u32; 8]>> {
        let mut bytes = self.of(index, vhlo::ARRAY, "an attribute that is no list")?;
        let count = bytes.count()?;
        (0..count).map(|_| bytes.index()).collect()
    }

    /// Keys and values of a dictionary of VHLO.
    pub fn dictionary(&self, index: u32) -> Read<Vec<(&'a [u8], u32)>> {
        let mut bytes = self.of(
            index,
            vhlo::DICTIONARY,
            "an attribute that is no dictionary",
        )?;
        let mut pairs = Vec::new();
        for _ in 0..bytes.count()? {
            pairs.push((self.text(bytes.index()?)?, bytes.index()?));
        }
        Ok(pairs)
    }

    pub fn word(&self, index: u32, list: &Words) -> Read<&'static str> {
        let mut bytes = self.of(index, list.code, "an attribute of other words")?;
        let value = usize::try_from(bytes.number()?).unwrap_or(usize::MAX);
        match list.words.get(value) {
            Some(&word) if word != NONE => Ok(word),
            _ => Err(Declined::because("a word that is not known")),
        }
    }

    pub fn tensor(&self, index: u32) -> Read<Tensor<'a>> {
        let mut bytes = self.of(index, vhlo::TENSOR, "an attribute that is no tensor")?;
        let ty = bytes.index()?;
        let tensor = Tensor {
            ty,
            bytes: bytes.blob()?,
        };
        bytes.end()?;
        Ok(tensor)
    }

    pub fn is_text(&self, index: u32) -> bool {
        matches!(self.vhlo(index), Ok((vhlo::STRING, _)))
    }

    pub fn is_boolean(&self, index: u32) -> bool {
        matches!(self.vhlo(index), Ok((vhlo::BOOLEAN, _)))
    }

    /// The numbers of a tensor of `s64`.
    pub fn integers(&self, index: u32) -> Read<SmallVec<[i64; 8]>> {
        let tensor = self.tensor(index)?;
        let array = self.types.array(tensor.ty)?;
        let (parts, rest) = tensor.bytes.as_chunks();
        let count = array.element_count().and_then(|n| usize::try_from(n).ok());
        if array.element_type != PrimitiveType::S64 || !rest.is_empty() {
            return Err(Declined::because("numbers that are no s64"));
        }
        let numbers = parts.iter().map(|&part| i64::from_le_bytes(part));
        match count {
            Some(count) if count == parts.len() => Ok(numbers.collect()),
            // A splat. A list has a number or a pair for each dimension of an array, so that few are enough.
            Some(count) if parts.len() == 1 && count <= MOST_NUMBERS => {
                Ok(numbers.cycle().take(count).collect())
            }
            _ => Err(Declined::because("another number of numbers")),
        }
    }

    /// The numbers of a tensor of `index`, which layouts are.
    pub fn indices(&self, index: u32) -> Read<Vec<i64>> {
        let tensor = self.tensor(index)?;
        let (parts, rest) = tensor.bytes.as_chunks();
        let count = self.types.index_tensor(tensor.ty)?;
        if !rest.is_empty() || count != parts.len() {
            return Err(Declined::because("another number of numbers"));
        }
        Ok(parts.iter().map(|&part| i64::from_le_bytes(part)).collect())
    }

    /// The truth values of a tensor of `pred`.
    pub fn booleans(&self, index: u32) -> Read<SmallVec<[bool; 8]>> {
        let tensor = self.tensor(index)?;
        let array = self.types.array(tensor.ty)?;
        let count = array.element_count().and_then(|n| usize::try_from(n).ok());
        match count {
            Some(count) if array.element_type == PrimitiveType::Pred && count <= MOST_NUMBERS => {
                let values = super::literals::truth_values(tensor.bytes, count)?;
                Ok(values.iter().map(|&value| value != 0).collect())
            }
            _ => Err(Declined::because("no list of truth values")),
        }
    }

    /// The type that a type attribute holds.
    pub fn ty(&self, index: u32) -> Read<u32> {
        self.of(index, vhlo::TYPE, "an attribute that is no type")?
            .index()
    }

    pub fn alias(&self, index: u32) -> Read<Alias> {
        let mut bytes = self.of(index, vhlo::ALIAS, "an attribute that is no alias")?;
        Ok(Alias {
            output: bytes.signed_list()?,
            operand: bytes.signed()?,
            operand_index: bytes.signed_list()?,
        })
    }

    /// How accurate a function is asked to be; no tolerance is known here.
    pub fn accuracy(&self, index: u32) -> Read<&'static str> {
        let mut bytes = self.of(index, vhlo::ACCURACY, "an attribute that is no accuracy")?;
        let tolerance = [bytes.signed()?, bytes.signed()?, bytes.signed()?];
        if tolerance != [0; 3] {
            return Err(Declined::because("a tolerance"));
        }
        self.word(bytes.index()?, &ACCURACY_MODE)
    }
}

fn bits_of(element: PrimitiveType) -> usize {
    8 * element.size_bytes()
}

/// Most attributes in a dictionary: with an operation's properties they fit the bits of `taken`.
const MOST_FIELDS: usize = 32;
/// Most numbers that one may stand for.
const MOST_NUMBERS: usize = 1024;

/// The attributes of an operation, of which each has to be asked for.
pub struct Fields<'a> {
    fields: SmallVec<[(&'a [u8], u32); 8]>,
    /// Which have been, a bit each.
    taken: u64,
}

impl<'a> Fields<'a> {
    pub fn read(artifact: &Artifact<'a>, dictionary: Option<u32>) -> Read<Fields<'a>> {
        let mut fields = SmallVec::new();
        if let Some(index) = dictionary {
            let (code, mut bytes) = artifact.builtin(index)?;
            if code != builtin::DICTIONARY {
                return Err(Declined::because("attributes that are no dictionary"));
            }
            for _ in 0..bytes.count()? {
                fields.push((artifact.text(bytes.index()?)?, bytes.index()?));
            }
        }
        if fields.len() > MOST_FIELDS {
            return Err(Declined::because("too many attributes"));
        }
        Ok(Fields { fields, taken: 0 })
    }

    /// Adds an attribute.
    pub fn push(&mut self, name: &'a str, index: u32) {
        self.fields.push((name.as_bytes(), index));
    }

    /// The attribute of a name.
    pub fn get(&mut self, name: &str) -> Option<u32> {
        let at = self
            .fields
            .iter()
            .position(|field| field.0 == name.as_bytes())?;
        self.taken |= 1 << at;
        Some(self.fields[at].1)
    }

    pub fn need(&mut self, name: &'static str) -> Read<u32> {
        self.get(name)
            .ok_or_else(|| Declined::because("an attribute is missing").naming(name))
    }

    /// No attribute may be left.
    pub fn finish(&self) -> Read<()> {
        let left = (0..self.fields.len()).find(|at| self.taken & 1 << at == 0);
        match left {
            None => Ok(()),
            Some(at) => Err(Declined::because("an attribute that is not known")
                .naming(&String::from_utf8_lossy(self.fields[at].0))),
        }
    }
}
