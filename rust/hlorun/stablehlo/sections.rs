//! The tables of an artifact: strings, names of operations, entries of attributes and types.

use super::bytes::Bytes;
use super::{Declined, Read};

/// What stands in front of every MLIR bytecode.
const MAGIC: &[u8] = b"ML\xefR";
/// The version of the encoding that portable artifacts have.
const VERSION: u64 = 6;
/// What the producer of an artifact begins with; the version of StableHLO follows.
const PRODUCER: &[u8] = b"StableHLO_v1.";
/// The newest minor version whose operations and attributes are known here.
const NEWEST: u32 = 17;

/// Ids of the sections that are read.
mod section {
    pub const STRINGS: u8 = 0;
    pub const DIALECTS: u8 = 1;
    pub const ENTRIES: u8 = 2;
    pub const ENTRY_SIZES: u8 = 3;
    pub const RESOURCES: u8 = 5;
    pub const RESOURCE_SIZES: u8 = 6;
    pub const PROPERTIES: u8 = 8;
    pub const COUNT: usize = 9;
}

/// The id of the sections that hold operations.
pub const IR: u8 = 4;

/// Whose operation, attribute or type something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Builtin,
    Vhlo,
    /// Shardy: how values are sharded.
    Sdy,
}

/// An attribute or a type that is not decoded yet.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub dialect: Dialect,
    pub bytes: Bytes<'a>,
}

/// The tables, and the section that holds the operations.
pub struct Sections<'a> {
    strings: Vec<&'a [u8]>,
    pub operations: Vec<(Dialect, &'a [u8])>,
    pub attributes: Vec<Entry<'a>>,
    pub types: Vec<Entry<'a>>,
    pub ir: Bytes<'a>,
    /// Bytes of the artifact.
    pub size: usize,
    pub properties: Bytes<'a>,
}

impl<'a> Sections<'a> {
    pub fn read(artifact: &'a [u8]) -> Read<Sections<'a>> {
        let mut bytes = Bytes::new(artifact);
        if bytes.take(MAGIC.len())? != MAGIC || bytes.number()? != VERSION {
            return Err(Declined::because("another format than that of artifacts"));
        }
        check_producer(bytes.text()?)?;
        let mut sections = [None; section::COUNT];
        while !bytes.is_empty() {
            let (id, content) = bytes.section()?;
            match sections.get_mut(usize::from(id)) {
                Some(slot @ None) => *slot = Some(content),
                _ => return Err(Declined::because("a section that is not known")),
            }
        }
        let get = |id: u8| sections[usize::from(id)].unwrap_or(Bytes::new(&[]));
        if !get(section::RESOURCES).is_empty() || !has_none(get(section::RESOURCE_SIZES))? {
            return Err(Declined::because("resources"));
        }
        let strings = strings(get(section::STRINGS))?;
        let (dialects, operations) = dialects(get(section::DIALECTS), &strings)?;
        let (attributes, types) =
            entries(get(section::ENTRIES), get(section::ENTRY_SIZES), &dialects)?;
        Ok(Sections {
            strings,
            operations,
            attributes,
            types,
            ir: get(IR),
            size: artifact.len(),
            properties: get(section::PROPERTIES),
        })
    }

    pub fn string(&self, index: u32) -> Read<&'a [u8]> {
        string(&self.strings, u64::from(index))
    }
}

/// Whether a section says that it has no groups of resources.
fn has_none(mut sizes: Bytes<'_>) -> Read<bool> {
    Ok(sizes.is_empty() || sizes.number()? == 0)
}

fn check_producer(producer: &[u8]) -> Read<()> {
    let version = producer.strip_prefix(PRODUCER).unwrap_or_default();
    let minor = version.split(|&byte| byte == b'.').next();
    let minor = minor.and_then(|minor| std::str::from_utf8(minor).ok()?.parse::<u32>().ok());
    match minor {
        Some(minor) if minor <= NEWEST => Ok(()),
        _ => Err(Declined::because(
            "a version of StableHLO that is not known",
        )),
    }
}

fn string<'a>(strings: &[&'a [u8]], index: u64) -> Read<&'a [u8]> {
    usize::try_from(index)
        .ok()
        .and_then(|index| strings.get(index).copied())
        .ok_or(Declined::because("a string that is not there"))
}

/// The lengths stand first, that of the last string in front, and the strings lie at the end.
fn strings(mut bytes: Bytes<'_>) -> Read<Vec<&[u8]>> {
    let count = bytes.count()?;
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(bytes.number()?);
    }
    let mut strings = Vec::with_capacity(count);
    for &length in lengths.iter().rev() {
        let length = bytes.checked_count(length)?;
        match bytes.take(length)? {
            [text @ .., 0] => strings.push(text),
            _ => return Err(Declined::because("a string without an end")),
        }
    }
    bytes.end()?;
    Ok(strings)
}

type Named<'a> = (Vec<Option<Dialect>>, Vec<(Dialect, &'a [u8])>);

fn dialects<'a>(mut bytes: Bytes<'a>, strings: &[&'a [u8]]) -> Read<Named<'a>> {
    let mut dialects = Vec::new();
    for _ in 0..bytes.count()? {
        let (name, has_version) = bytes.flagged()?;
        if has_version {
            return Err(Declined::because("a dialect with a version"));
        }
        dialects.push(match string(strings, name)? {
            b"builtin" => Some(Dialect::Builtin),
            b"vhlo" => Some(Dialect::Vhlo),
            b"sdy" => Some(Dialect::Sdy),
            _ => None,
        });
    }
    let count = bytes.count()?;
    let mut operations = Vec::with_capacity(count);
    while !bytes.is_empty() {
        let dialect = known(&dialects, bytes.number()?)?;
        for _ in 0..bytes.count()? {
            let (name, _) = bytes.flagged()?;
            operations.push((dialect, string(strings, name)?));
        }
    }
    Ok((dialects, operations))
}

fn known(dialects: &[Option<Dialect>], index: u64) -> Read<Dialect> {
    usize::try_from(index)
        .ok()
        .and_then(|index| *dialects.get(index)?)
        .ok_or(Declined::because("a dialect that is not known"))
}

type Entries<'a> = (Vec<Entry<'a>>, Vec<Entry<'a>>);

/// The attributes and the types, which lie behind each other in groups by dialect.
fn entries<'a>(
    mut content: Bytes<'a>,
    mut sizes: Bytes<'a>,
    dialects: &[Option<Dialect>],
) -> Read<Entries<'a>> {
    let attributes = sizes.count()?;
    let types = sizes.number()?;
    let types = sizes.checked_count(types)?;
    let mut all = Vec::with_capacity(attributes + types);
    while !sizes.is_empty() {
        let dialect = known(dialects, sizes.number()?)?;
        for _ in 0..sizes.count()? {
            let (size, has_code) = sizes.flagged()?;
            if !has_code {
                return Err(Declined::because("an attribute or a type as text"));
            }
            let size = content.checked_count(size)?;
            let bytes = Bytes::new(content.take(size)?);
            all.push(Entry { dialect, bytes });
        }
    }
    content.end()?;
    if all.len() != attributes + types {
        return Err(Declined::because("another number of attributes and types"));
    }
    let types = all.split_off(attributes);
    Ok((all, types))
}
