//! The tables of stack frames after the header, and the numbers that metadata refers to them by.
//!
//! XLA numbers frames anew when it reads a text: in the order of the instructions that use them,
//! callers before callees, equal ones shared, unused ones left out. What is printed has those.

use std::fmt::Write;

use foldhash::HashMap;

use super::braces::{inside, key_value, parts, quoted};
use super::escape::{unescape, write_escaped};
use crate::module::{AttrKey, AttrValue, HloModule};

/// One line of `FileLocations`, with file and function by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub struct FileLocation {
    pub file: usize,
    pub function: usize,
    pub line: i64,
    pub end_line: i64,
    pub column: i64,
    pub end_column: i64,
}

/// A frame: its location and the frame that called it, from 1; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Frame {
    pub location: usize,
    pub parent: usize,
}

/// Where a frame stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSource<'f> {
    /// Name of the file.
    pub file: &'f [u8],
    /// Line, from 1.
    pub line: i64,
    /// Column, from 1.
    pub column: i64,
}

/// The four tables; numbers count from 1, 0 is none.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Tables {
    pub files: Vec<Vec<u8>>,
    pub functions: Vec<Vec<u8>>,
    pub locations: Vec<FileLocation>,
    pub frames: Vec<Frame>,
}

/// The frames that the metadata of a module uses, numbered as they are printed.
#[derive(Default)]
pub struct StackFrames {
    tables: Tables,
    /// From the number in the text to that in the print.
    numbers: HashMap<i64, usize>,
    /// By printed number, a hash of the frame and its callers.
    identities: Vec<u64>,
}

impl Tables {
    /// Reads the tables from their text; lines that are not understood are skipped.
    fn parse(text: &[u8]) -> Tables {
        let mut tables = Tables::default();
        let mut section: &[u8] = b"";
        for line in text.split(|&b| b == b'\n') {
            let line = line.trim_ascii();
            let Some((number, rest)) = line
                .iter()
                .position(u8::is_ascii_whitespace)
                .map(|at| (&line[..at], line[at..].trim_ascii()))
            else {
                if !line.is_empty() {
                    section = line;
                }
                continue;
            };
            if !number.iter().all(u8::is_ascii_digit) {
                continue;
            }
            let string = || unescape(quoted(rest).unwrap_or(rest));
            let field = |name: &str| field(rest, name);
            match section {
                b"FileNames" => tables.files.push(string()),
                b"FunctionNames" => tables.functions.push(string()),
                b"FileLocations" => tables.locations.push(FileLocation {
                    file: field("file_name_id") as usize,
                    function: field("function_name_id") as usize,
                    line: field("line"),
                    end_line: field("end_line"),
                    column: field("column"),
                    end_column: field("end_column"),
                }),
                b"StackFrames" => tables.frames.push(Frame {
                    location: field("file_location_id") as usize,
                    // 1 says that there is none.
                    parent: field("parent_frame_id").saturating_sub(1).max(0) as usize,
                }),
                _ => {}
            }
        }
        tables
    }
}

fn field(text: &[u8], name: &str) -> i64 {
    parts(inside(text), false)
        .into_iter()
        .filter_map(key_value)
        .find(|(key, _)| *key == name.as_bytes())
        .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok())
        .unwrap_or(0)
}

/// Entry `number`, from 1.
fn entry<T>(table: &[T], number: usize) -> Option<&T> {
    table.get(number.checked_sub(1)?)
}

/// The number, from 1, of `value` in a table without repetitions.
fn share<T: Clone + Eq + std::hash::Hash>(
    table: &mut Vec<T>,
    numbers: &mut HashMap<T, usize>,
    value: T,
) -> usize {
    *numbers.entry(value).or_insert_with_key(|value| {
        table.push(value.clone());
        table.len()
    })
}

impl StackFrames {
    /// The frames of `module`; none when it has no tables.
    pub fn new(module: &HloModule) -> StackFrames {
        let mut result = StackFrames::default();
        if module.trailer.len == 0 {
            return result;
        }
        let old = Tables::parse(module.text().bytes(module.trailer));
        let mut files = HashMap::default();
        let mut functions = HashMap::default();
        let mut locations = HashMap::default();
        let mut frames = HashMap::default();
        let mut renumbered: Vec<usize> = vec![0; old.frames.len() + 1];
        for computation in module.computation_ids() {
            for &id in &module.computation(computation).instructions {
                let metadata = match module.instruction(id).attribute(AttrKey::Metadata) {
                    Some(AttrValue::Raw(text)) => module.text().bytes(*text),
                    _ => continue,
                };
                if memchr::memmem::find(metadata, b"stack_frame_id").is_none() {
                    continue;
                }
                let number = field(metadata, "stack_frame_id");
                // The callers that have no number yet, innermost first.
                let mut chain = Vec::new();
                let mut at = usize::try_from(number).unwrap_or(0);
                while let Some(frame) = entry(&old.frames, at) {
                    if renumbered[at] != 0 || chain.len() > old.frames.len() {
                        break;
                    }
                    chain.push(at);
                    at = frame.parent;
                }
                let mut parent = renumbered.get(at).copied().unwrap_or(0);
                for &at in chain.iter().rev() {
                    let Some(location) = entry(&old.frames, at)
                        .and_then(|frame| entry(&old.locations, frame.location))
                    else {
                        continue;
                    };
                    let mut location = *location;
                    let tables = &mut result.tables;
                    let named = |number, old: &[Vec<u8>], new: &mut Vec<_>, map: &mut _| {
                        entry(old, number).map_or(0, |name| share(new, map, name.clone()))
                    };
                    location.file = named(location.file, &old.files, &mut tables.files, &mut files);
                    location.function = named(
                        location.function,
                        &old.functions,
                        &mut tables.functions,
                        &mut functions,
                    );
                    let location = share(&mut tables.locations, &mut locations, location);
                    let frame = Frame { location, parent };
                    parent = share(&mut tables.frames, &mut frames, frame);
                    if parent > result.identities.len() {
                        let identity = result.hash(frame);
                        result.identities.push(identity);
                    }
                    renumbered[at] = parent;
                }
                if let Ok(old) = usize::try_from(number)
                    && let Some(&new) = renumbered.get(old).filter(|&&new| new != 0)
                {
                    result.numbers.insert(number, new);
                }
            }
        }
        result
    }

    fn hash(&self, frame: Frame) -> u64 {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        // Without a seed: frames of two modules are compared by it.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let tables = &self.tables;
        let location = entry(&tables.locations, frame.location);
        hasher.hash_one((
            location.map(|l| (l.line, l.end_line, l.column, l.end_column)),
            location.and_then(|location| entry(&tables.files, location.file)),
            location.and_then(|location| entry(&tables.functions, location.function)),
            self.identity(frame.parent),
        ))
    }

    /// The tables as they are printed.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The printed number of a frame of the text; `None` where there is no such frame.
    pub fn number(&self, in_text: i64) -> Option<usize> {
        self.numbers.get(&in_text).copied()
    }

    /// Where the frame of that printed number stands.
    pub fn source(&self, number: usize) -> Option<FrameSource<'_>> {
        let frame = entry(&self.tables.frames, number)?;
        let location = entry(&self.tables.locations, frame.location)?;
        Some(FrameSource {
            file: entry(&self.tables.files, location.file)?,
            line: location.line,
            column: location.column,
        })
    }

    /// A hash of the frame of that printed number and of its callers.
    pub fn identity(&self, number: usize) -> u64 {
        entry(&self.identities, number).copied().unwrap_or(0)
    }

    /// Appends the tables, each line with its end; nothing when there are no frames.
    pub fn write(&self, out: &mut String) {
        if self.tables.frames.is_empty() {
            return;
        }
        out.push_str("\n\nFileNames\n");
        write_names(out, &self.tables.files);
        out.push_str("\nFunctionNames\n");
        write_names(out, &self.tables.functions);
        out.push_str("\nFileLocations\n");
        for (i, location) in self.tables.locations.iter().enumerate() {
            let _ = writeln!(
                out,
                "{} {{file_name_id={} function_name_id={} line={} end_line={} column={} end_column={}}}",
                i + 1,
                location.file,
                location.function,
                location.line,
                location.end_line,
                location.column,
                location.end_column
            );
        }
        out.push_str("\nStackFrames\n");
        for (i, frame) in self.tables.frames.iter().enumerate() {
            let _ = writeln!(
                out,
                "{} {{file_location_id={} parent_frame_id={}}}",
                i + 1,
                frame.location,
                frame.parent + 1
            );
        }
    }
}

fn write_names(out: &mut String, names: &[Vec<u8>]) {
    for (i, name) in names.iter().enumerate() {
        let _ = write!(out, "{} \"", i + 1);
        write_escaped(out, name);
        out.push_str("\"\n");
    }
}
