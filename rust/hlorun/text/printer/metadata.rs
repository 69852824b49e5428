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
    let fields: Vec<(&[u8], &[u8])> = parts(inside(text), false)
        .into_iter()
        .filter_map(key_value)
        .collect();
    let value = |name: &str| {
        fields
            .iter()
            .rev()
            .find(|(key, _)| *key == name.as_bytes())
            .map(|(_, value)| *value)
    };
    let number = |name: &str| -> i64 {
        value(name)
            .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
            .unwrap_or(0)
    };
    let frame = frames.number(number("stack_frame_id"));
    let is_set = |name: &str| value(name).is_some_and(|v| !quoted(v).unwrap_or(v).is_empty());
    let shown = frame.is_some()
        || ["op_type", "op_name", "source_file", "scheduling_name"]
            .iter()
            .any(|name| is_set(name));
    if !shown {
        return false;
    }
    let start = out.len();
    let next = |out: &mut String, name: &str| {
        if out.len() > start {
            out.push(' ');
        }
        out.push_str(name);
        out.push('=');
    };
    let inline = frame
        .filter(|_| style.frames == FrameStyle::Source)
        .and_then(|frame| frames.source(frame));
    for (name, kind) in FIELDS {
        if style.only_op_name && name != "op_name" {
            continue;
        }
        if let Some(source) = &inline {
            match name {
                "source_file" => {
                    next(out, name);
                    write_string(out, source.file);
                    continue;
                }
                "source_line" | "source_column" => {
                    let number = if name == "source_line" {
                        source.line
                    } else {
                        source.column
                    };
                    if number != 0 {
                        next(out, name);
                        let _ = write!(out, "{number}");
                    }
                    continue;
                }
                "stack_frame_id" => continue,
                _ => {}
            }
        }
        match kind {
            Kind::String => {
                if let Some(value) = value(name).filter(|_| is_set(name)) {
                    next(out, name);
                    write_string(out, &unescape(quoted(value).unwrap_or(value)));
                }
            }
            Kind::Int => {
                let number = number(name);
                if number != 0 {
                    next(out, name);
                    let _ = write!(out, "{number}");
                }
            }
            Kind::List => {
                if let Some(value) = value(name).filter(|value| !inside(value).is_empty()) {
                    next(out, name);
                    write_compact(out, value);
                }
            }
            Kind::StackFrame => {
                if let Some(frame) = frame {
                    next(out, name);
                    let _ = match style.frames {
                        FrameStyle::Identity => write!(out, "{:x}", frames.identity(frame)),
                        _ => write!(out, "{frame}"),
                    };
                }
            }
        }
    }
    if !style.only_op_name {
        for (key, value) in &fields {
            let known = FIELDS.iter().any(|(name, _)| name.as_bytes() == *key);
            if !known {
                next(out, &String::from_utf8_lossy(key));
                out.push_str(&String::from_utf8_lossy(value));
            }
        }
    }
    true
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
