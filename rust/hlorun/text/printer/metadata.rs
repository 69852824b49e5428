//! `metadata={…}`: the fields in XLA's order, those at their default left out.

use std::fmt::Write;

use super::braces::{inside, key_value, parts, quoted, write_compact};
use super::escape::{unescape, write_escaped};
use super::stack_frames::StackFrames;

/// How a field is written, and when it is left out.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Quoted; left out when empty.
    String,
    /// Left out when 0.
    Int,
    /// Numbers in braces; left out when there is none.
    List,
    /// The number of a stack frame.
    StackFrame,
}

/// The fields XLA knows, in the order it prints them.
const FIELDS: [(&str, Kind); 12] = [
    ("op_type", Kind::String),
    ("op_name", Kind::String),
    ("source_file", Kind::String),
    ("source_line", Kind::Int),
    ("source_end_line", Kind::Int),
    ("source_column", Kind::Int),
    ("source_end_column", Kind::Int),
    ("profile_type", Kind::List),
    ("deduplicated_name", Kind::String),
    ("scheduling_name", Kind::String),
    ("stack_frame_id", Kind::StackFrame),
    ("metadata_payload", Kind::String),
];

/// What of the metadata to write.
#[derive(Clone, Copy)]
pub struct MetadataStyle {
    /// Only `op_name`.
    pub only_op_name: bool,
    /// What to write for a stack frame.
    pub frames: FrameStyle,
}

/// What to write for a stack frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FrameStyle {
    /// Its number in the tables.
    Number,
    /// The file, line and column it stands at.
    Source,
    /// A hash of what it and its callers are, which does not depend on numbers.
    Identity,
}

/// Appends the fields of `text`, with or without its braces. Returns whether XLA prints the
/// metadata at all: it leaves out what names neither an operation nor a place.
pub fn write_metadata(
    out: &mut String,
    text: &[u8],
    frames: &StackFrames,
    style: MetadataStyle,
) -> bool {
    let metadata = Metadata::new(text, frames);
    if !metadata.is_shown() {
        return false;
    }
    let inline = metadata
        .frame
        .filter(|_| style.frames == FrameStyle::Source)
        .and_then(|frame| frames.source(frame));
    let start = out.len();
    let mut write = |name: &str, value: &str| {
        if out.len() > start {
            out.push(' ');
        }
        out.push_str(name);
        out.push('=');
        out.push_str(value);
    };
    let mut value = String::new();
    for (name, kind) in FIELDS {
        if style.only_op_name && name != "op_name" {
            continue;
        }
        value.clear();
        match (&inline, name) {
            (Some(source), "source_file") => write_string(&mut value, source.file),
            (Some(source), "source_line") => write_unless_zero(&mut value, source.line),
            (Some(source), "source_column") => write_unless_zero(&mut value, source.column),
            (Some(_), "stack_frame_id") => {}
            _ => metadata.write_field(&mut value, name, kind, style.frames),
        }
        if !value.is_empty() {
            write(name, &value);
        }
    }
    if !style.only_op_name {
        for (key, value) in metadata.unknown() {
            write(
                &String::from_utf8_lossy(key),
                &String::from_utf8_lossy(value),
            );
        }
    }
    true
}

/// The fields of a text.
struct Metadata<'t> {
    fields: Vec<(&'t [u8], &'t [u8])>,
    frames: &'t StackFrames,
    /// The stack frame it names, where there is one.
    frame: Option<usize>,
}

impl<'t> Metadata<'t> {
    fn new(text: &'t [u8], frames: &'t StackFrames) -> Metadata<'t> {
        let mut metadata = Metadata {
            fields: parts(inside(text), false)
                .into_iter()
                .filter_map(key_value)
                .collect(),
            frames,
            frame: None,
        };
        metadata.frame = frames.number(metadata.number("stack_frame_id"));
        metadata
    }

    /// What stands for the field; the last one counts.
    fn value(&self, name: &str) -> Option<&'t [u8]> {
        let mut fields = self.fields.iter().rev();
        fields
            .find(|(key, _)| *key == name.as_bytes())
            .map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> i64 {
        self.value(name)
            .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
            .unwrap_or(0)
    }

    /// A string without its quotes, unless it is empty.
    fn string(&self, name: &str) -> Option<&'t [u8]> {
        let value = self.value(name)?;
        let text = quoted(value).unwrap_or(value);
        (!text.is_empty()).then_some(text)
    }

    /// It names an operation or a place.
    fn is_shown(&self) -> bool {
        let names = ["op_type", "op_name", "source_file", "scheduling_name"];
        self.frame.is_some() || names.iter().any(|name| self.string(name).is_some())
    }

    /// The value of a field as XLA writes it; nothing where that leaves the field out.
    fn write_field(&self, out: &mut String, name: &str, kind: Kind, frames: FrameStyle) {
        match kind {
            Kind::String => {
                if let Some(text) = self.string(name) {
                    write_string(out, &unescape(text));
                }
            }
            Kind::Int => write_unless_zero(out, self.number(name)),
            Kind::List => {
                if let Some(value) = self.value(name).filter(|value| !inside(value).is_empty()) {
                    write_compact(out, value);
                }
            }
            Kind::StackFrame => {
                if let Some(frame) = self.frame {
                    let _ = match frames {
                        FrameStyle::Identity => write!(out, "{:x}", self.frames.identity(frame)),
                        _ => write!(out, "{frame}"),
                    };
                }
            }
        }
    }

    /// The fields XLA does not know.
    fn unknown(&self) -> impl Iterator<Item = &(&'t [u8], &'t [u8])> {
        let is_known = |key: &[u8]| FIELDS.iter().any(|(name, _)| name.as_bytes() == key);
        self.fields.iter().filter(move |(key, _)| !is_known(key))
    }
}

fn write_unless_zero(out: &mut String, number: i64) {
    if number != 0 {
        let _ = write!(out, "{number}");
    }
}

fn write_string(out: &mut String, bytes: &[u8]) {
    out.push('"');
    write_escaped(out, bytes);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_defaults_are_left_out() {
        let write = |text: &str| {
            let mut out = String::new();
            let style = MetadataStyle {
                only_op_name: false,
                frames: FrameStyle::Number,
            };
            write_metadata(&mut out, text.as_bytes(), &StackFrames::default(), style).then_some(out)
        };
        let cases: [(&str, Option<&str>); 5] = [
            (
                r#"{source_line=3 op_type="a" op_name="it's, b" source_column=0}"#,
                Some(r#"op_type="a" op_name="it\'s, b" source_line=3"#),
            ),
            (r#"{deduplicated_name="d" source_line=7}"#, None),
            (
                r#"{op_name="" source_file="x"}"#,
                Some(r#"source_file="x""#),
            ),
            (
                r#"{op_name="x" profile_type={1} later_field=5 stack_frame_id=4}"#,
                Some(r#"op_name="x" profile_type={1} later_field=5"#),
            ),
            ("{}", None),
        ];
        for (text, expected) in cases {
            assert_eq!(write(text).as_deref(), expected, "{text}");
        }
    }
}
