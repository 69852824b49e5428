//! Where operations come from: locations → metadata and the tables of stack frames.

use std::fmt::Write;
use std::ops::Range;

use foldhash::HashMap;

use super::attributes::{Artifact, builtin};
use super::{Declined, Read};
use crate::text::printer::write_escaped;

/// Locations within locations.
const MOST_DEEP: usize = 64;
/// Frames of one stack.
const MOST_FRAMES: usize = 4096;
/// Locations that may be looked at for each byte of an artifact.
const MOST_LOOKS: usize = 64;
/// And for a short artifact on top of that.
const MOST_FOR_SHORT: usize = 1 << 16;

/// A location in a file: file and function by their numbers, lines and columns.
type FileLocation = [u64; 6];

/// What is known of the locations, and the tables in the making. Ids count from 1.
#[derive(Default)]
pub struct Locations {
    /// Strings by their attributes.
    files: Table<u32>,
    functions: Table<u32>,
    places: Table<FileLocation>,
    /// Place and parent.
    frames: Table<(u32, u32)>,
    /// The innermost frame of each location that was asked for.
    stacks: HashMap<u32, u32>,
    known: HashMap<u32, Known>,
    /// Metadata and names.
    texts: String,
    /// Locations that may still be looked at, and bytes of `texts` that there may still be: they may
    /// refer to each other so that a few are many.
    left: usize,
}

/// What a location says of an instruction.
#[derive(Clone)]
struct Known {
    metadata: Range<usize>,
    name: Range<usize>,
}

/// Numbered rows without repetition.
struct Table<T> {
    rows: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            rows: Vec::new(),
            numbers: HashMap::default(),
        }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Table<T> {
    fn number(&mut self, row: T) -> u32 {
        *self.numbers.entry(row).or_insert_with(|| {
            self.rows.push(row);
            self.rows.len() as u32
        })
    }
}

/// What a location is.
enum Location {
    CallSite {
        callee: u32,
        caller: u32,
    },
    /// The attribute of the file's name; the line and the column it begins and ends with.
    File(u32, [u64; 4]),
    Fused(Vec<u32>),
    /// The attribute of a name, and what has it.
    Name(u32, u32),
    Unknown,
}

impl Locations {
    /// Those of an artifact of `size` bytes.
    pub fn new(size: usize) -> Locations {
        Locations {
            left: size
                .saturating_mul(MOST_LOOKS)
                .saturating_add(MOST_FOR_SHORT),
            ..Locations::default()
        }
    }

    /// Counts `size` looks or bytes.
    fn spend(&mut self, size: usize) -> Read<()> {
        let left = self.left.checked_sub(size);
        self.left = left.ok_or(Declined::because("locations that are too much"))?;
        Ok(())
    }

    /// The text of the metadata with the comma before it, empty where there is none; and what an
    /// instruction from there is called, empty where it has no name.
    pub fn of(&mut self, artifact: &Artifact<'_>, location: u32) -> Read<(&str, &str)> {
        if !self.known.contains_key(&location) {
            let known = self.learn(artifact, location)?;
            self.known.insert(location, known);
        }
        let Known { metadata, name } = self.known[&location].clone();
        Ok((&self.texts[metadata], &self.texts[name]))
    }

    fn learn(&mut self, artifact: &Artifact<'_>, location: u32) -> Read<Known> {
        let mut names = Vec::new();
        self.collect_names(artifact, location, &mut names, 0)?;
        let frame = self.frame(artifact, location, 0, 0)?;
        for name in &names {
            self.spend(name.len())?;
        }
        let start = self.texts.len();
        if !names.is_empty() || frame != 0 {
            self.texts.push_str(", metadata={");
            if !names.is_empty() {
                self.texts.push_str("op_name=\"");
                for (at, name) in names.iter().enumerate() {
                    self.texts.push_str(if at > 0 { ";" } else { "" });
                    write_escaped(&mut self.texts, name);
                }
                self.texts.push('"');
            }
            if frame != 0 {
                let mark = if names.is_empty() { "" } else { " " };
                let _ = write!(self.texts, "{mark}stack_frame_id={frame}");
            }
            self.texts.push('}');
        }
        let middle = self.texts.len();
        let name = names.last().copied().unwrap_or_default();
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        push_name(&mut self.texts, last);
        Ok(Known {
            metadata: start..middle,
            name: middle..self.texts.len(),
        })
    }

    /// The innermost frame of a location, below `parent`; 0 where it has none.
    fn frame(
        &mut self,
        artifact: &Artifact<'_>,
        location: u32,
        parent: u32,
        depth: usize,
    ) -> Read<u32> {
        if depth > MOST_DEEP {
            return Err(Declined::because("locations that are nested too deep"));
        }
        if parent == 0
            && let Some(&frame) = self.stacks.get(&location)
        {
            return Ok(frame);
        }
        // Callers are followed in a loop: their chain is as long as the stack.
        let mut callees = Vec::new();
        let mut outer = location;
        let mut frame = loop {
            self.spend(1)?;
            if parent == 0
                && let Some(&frame) = self.stacks.get(&outer)
            {
                break frame;
            }
            match read_location(artifact, outer)? {
                Location::CallSite { callee, caller } if callees.len() < MOST_FRAMES => {
                    callees.push((outer, callee));
                    outer = caller;
                }
                Location::CallSite { .. } => return Err(Declined::because("too many frames")),
                Location::Name(name, child) => match read_location(artifact, child)? {
                    Location::File(file, place) => break self.place(file, name, place, parent),
                    _ => break self.frame(artifact, child, parent, depth + 1)?,
                },
                Location::Fused(parts) => {
                    let mut found = parent;
                    for part in parts {
                        found = self.frame(artifact, part, parent, depth + 1)?;
                        if found != parent {
                            break;
                        }
                    }
                    break found;
                }
                Location::File(..) | Location::Unknown => break parent,
            }
        };
        for (site, callee) in callees.into_iter().rev() {
            frame = self.frame(artifact, callee, frame, depth + 1)?;
            if parent == 0 {
                self.stacks.insert(site, frame);
            }
        }
        if parent == 0 {
            self.stacks.insert(location, frame);
        }
        Ok(frame)
    }

    /// The names that make up `op_name`. One that ends in a colon (`jit:`) is the type of the operation and
    /// is passed over; what follows an `@` is cut off.
    fn collect_names<'a>(
        &mut self,
        artifact: &Artifact<'a>,
        location: u32,
        names: &mut Vec<&'a [u8]>,
        depth: usize,
    ) -> Read<()> {
        if depth > MOST_DEEP || names.len() > MOST_FRAMES {
            return Err(Declined::because("locations that are nested too deep"));
        }
        self.spend(1)?;
        match read_location(artifact, location)? {
            Location::Name(name, child) => {
                let name = artifact.text(name)?;
                let name = name.split(|&byte| byte == b'@').next().unwrap_or_default();
                match name.ends_with(b":") {
                    true => self.collect_names(artifact, child, names, depth + 1)?,
                    false => names.push(name),
                }
            }
            Location::CallSite { callee, .. } => {
                self.collect_names(artifact, callee, names, depth + 1)?
            }
            Location::Fused(parts) => {
                for part in parts {
                    self.collect_names(artifact, part, names, depth + 1)?;
                }
            }
            Location::File(..) | Location::Unknown => {}
        }
        Ok(())
    }

    fn place(&mut self, file: u32, function: u32, place: [u64; 4], parent: u32) -> u32 {
        let [line, column, end_line, end_column] = place;
        let file = self.files.number(file).into();
        let function = self.functions.number(function).into();
        let place = [file, function, line, end_line, column, end_column];
        let place = self.places.number(place);
        self.frames.number((place, parent))
    }

    /// Appends the tables.
    pub fn write_tables(&self, artifact: &Artifact<'_>, out: &mut String) -> Read<()> {
        if self.frames.rows.is_empty() {
            return Ok(());
        }
        for (title, rows) in [
            ("FileNames", &self.files.rows),
            ("FunctionNames", &self.functions.rows),
        ] {
            out.push_str(title);
            for (at, &row) in rows.iter().enumerate() {
                let _ = write!(out, "\n{} \"", at + 1);
                write_escaped(out, artifact.text(row)?);
                out.push('"');
            }
            out.push_str("\n\n");
        }
        out.push_str("FileLocations");
        for (at, row) in self.places.rows.iter().enumerate() {
            let [file, function, line, end_line, column, end_column] = row;
            let _ = write!(
                out,
                "\n{} {{file_name_id={file} function_name_id={function} line={line} \
                 end_line={end_line} column={column} end_column={end_column}}}",
                at + 1
            );
        }
        out.push_str("\n\nStackFrames");
        for (at, (place, parent)) in self.frames.rows.iter().enumerate() {
            // The text has the parent's number plus one: 1 is no parent.
            let parent = parent + 1;
            let _ = write!(
                out,
                "\n{} {{file_location_id={place} parent_frame_id={parent}}}",
                at + 1
            );
        }
        out.push_str("\n\n\n");
        Ok(())
    }
}

fn read_location(artifact: &Artifact<'_>, index: u32) -> Read<Location> {
    let (code, mut bytes) = artifact.builtin(index)?;
    let location = match code {
        builtin::CALL_SITE => Location::CallSite {
            callee: bytes.index()?,
            caller: bytes.index()?,
        },
        builtin::FILE_LINE_COLUMN => {
            let file = bytes.index()?;
            let (line, column) = (bytes.number()?, bytes.number()?);
            Location::File(file, [line, column, line, column])
        }
        builtin::FILE_RANGE => {
            let file = bytes.index()?;
            let count = bytes.count()?;
            if count > 4 {
                return Err(Declined::because("a place in a file that is not known"));
            }
            let mut numbers = [0; 4];
            for number in &mut numbers[..count] {
                *number = bytes.number()?;
            }
            let [line, column, third, fourth] = numbers;
            let place = match count {
                4 => [line, column, third, fourth],
                3 => [line, column, line, third],
                _ => [line, column, line, column],
            };
            Location::File(file, place)
        }
        builtin::FUSED => {
            let count = bytes.count()?;
            Location::Fused((0..count).map(|_| bytes.index()).collect::<Read<_>>()?)
        }
        builtin::NAME => Location::Name(bytes.index()?, bytes.index()?),
        builtin::UNKNOWN => Location::Unknown,
        _ => return Err(Declined::because("a location that is not known")),
    };
    bytes.end()?;
    Ok(location)
}

/// Appends `name` with what may stand in names of HLO.
pub fn push_name(out: &mut String, name: &[u8]) {
    if name.first().is_some_and(|byte| !byte.is_ascii_alphabetic()) {
        out.push('_');
    }
    for &byte in name.iter().take(MOST_NAME) {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        out.push(if plain { byte as char } else { '_' });
    }
}

/// Bytes of a name; the text shall not be out of proportion to the artifact.
const MOST_NAME: usize = 128;
