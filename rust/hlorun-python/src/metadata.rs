//! `metadata={…}`, the tables of stack frames after the computations, and C escapes.
//!
//! Comes in: bytes as they stand in the file. Goes out: keys with values, frames innermost first.
//! Promise: malformed pieces are left out or kept as written, nothing fails and nothing loops.

use rustc_hash::FxHashMap;

/// A value inside metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A quoted string, escapes resolved; or braces and words, as written.
    Text(String),
    /// A whole number.
    Int(i64),
    /// `true` or `false`.
    Bool(bool),
}

/// Resolves C escapes: `\n`, `\"`, `\\`, octal `\001`, hexadecimal `\x41`. Unknown ones stay.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&escape) = text.get(at) else {
            out.push(b'\\');
            break;
        };
        at += 1;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(0x07),
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'v' => out.push(0x0b),
            b'\\' | b'"' | b'\'' | b'?' => out.push(escape),
            b'0'..=b'7' => {
                let mut value = u32::from(escape - b'0');
                for _ in 0..2 {
                    match text.get(at) {
                        Some(&digit @ b'0'..=b'7') => value = value * 8 + u32::from(digit - b'0'),
                        _ => break,
                    }
                    at += 1;
                }
                out.push(value as u8);
            }
            b'x' => {
                let start = at;
                let mut value = 0u32;
                while let Some(digit) = text.get(at).and_then(|&b| (b as char).to_digit(16)) {
                    if at - start == 2 {
                        break;
                    }
                    value = value * 16 + digit;
                    at += 1;
                }
                match at > start {
                    true => out.push(value as u8),
                    false => out.extend_from_slice(b"\\x"),
                }
            }
            other => out.extend_from_slice(&[b'\\', other]),
        }
    }
    out
}

/// The end of the value that begins at `start`: after the closing quote or brace, or at a blank.
fn value_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(&inner) = text.get(at) {
                    match inner {
                        b'\\' => at += 1,
                        b'"' => break,
                        _ => {}
                    }
                    at += 1;
                }
                if depth == 0 {
                    return (at + 1).min(text.len());
                }
            }
            b'{' => depth += 1,
            b'}' if depth <= 1 => return if depth == 1 { at + 1 } else { at },
            b'}' => depth -= 1,
            b' ' | b',' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn value(text: &[u8]) -> Value {
    if let Some(inner) = text.strip_prefix(b"\"") {
        let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
        return Value::Text(String::from_utf8_lossy(&unescape(inner)).into_owned());
    }
    let word = String::from_utf8_lossy(text);
    match (&*word, word.parse::<i64>()) {
        ("true", _) => Value::Bool(true),
        ("false", _) => Value::Bool(false),
        (_, Ok(number)) => Value::Int(number),
        (_, Err(_)) => Value::Text(word.into_owned()),
    }
}

/// The `key=value` pairs of `{…}`, in order.
pub fn key_values(text: &[u8]) -> Vec<(String, Value)> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"{").unwrap_or(text);
    let mut pairs = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let start = at;
        while at < text.len() && !matches!(text[at], b'=' | b' ' | b',' | b'}') {
            at += 1;
        }
        if text.get(at) == Some(&b'=') {
            let end = value_end(text, at + 1);
            let key = String::from_utf8_lossy(text[start..at].trim_ascii()).into_owned();
            pairs.push((key, value(&text[at + 1..end])));
            at = end;
        }
        while at < text.len() && matches!(text[at], b' ' | b',' | b'\t' | b'\n' | b'\r' | b'}') {
            at += 1;
        }
        if at == start {
            at += 1;
        }
    }
    pairs
}

/// One place of a stack trace.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StackFrame {
    /// Source file.
    pub file: String,
    /// Function.
    pub function: String,
    /// Line, from 1; 0 when unknown.
    pub line: i64,
    /// Column, from 1; 0 when unknown.
    pub column: i64,
}

#[derive(Clone, Copy, Default)]
struct FileLocation {
    file: i64,
    function: i64,
    line: i64,
    column: i64,
}

/// The tables `FileNames`, `FunctionNames`, `FileLocations` and `StackFrames`.
#[derive(Default)]
pub struct StackFrames {
    files: FxHashMap<i64, String>,
    functions: FxHashMap<i64, String>,
    locations: FxHashMap<i64, FileLocation>,
    /// Location and parent of every frame.
    frames: FxHashMap<i64, (i64, i64)>,
}

impl StackFrames {
    /// Reads the tables; lines that fit none are skipped.
    pub fn parse(trailer: &[u8]) -> StackFrames {
        let mut tables = StackFrames::default();
        let mut section: &[u8] = b"";
        for line in trailer.split(|&b| b == b'\n') {
            let line = line.trim_ascii();
            let space = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
            let (head, rest) = line.split_at(space);
            let Some(id) = std::str::from_utf8(head)
                .ok()
                .and_then(|head| head.parse::<i64>().ok())
            else {
                if !line.is_empty() {
                    section = line;
                }
                continue;
            };
            let rest = rest.trim_ascii();
            match section {
                b"FileNames" | b"FunctionNames" => {
                    let Value::Text(name) = value(rest) else {
                        continue;
                    };
                    if section == b"FileNames" {
                        tables.files.insert(id, name);
                    } else {
                        tables.functions.insert(id, name);
                    }
                }
                b"FileLocations" => {
                    let get = fields(rest);
                    let location = FileLocation {
                        file: get("file_name_id"),
                        function: get("function_name_id"),
                        line: get("line"),
                        column: get("column"),
                    };
                    tables.locations.insert(id, location);
                }
                b"StackFrames" => {
                    let get = fields(rest);
                    let frame = (get("file_location_id"), get("parent_frame_id"));
                    tables.frames.insert(id, frame);
                }
                _ => {}
            }
        }
        tables
    }

    /// The frames from `id` outwards, innermost first. Each frame is visited once at most.
    pub fn resolve(&self, id: i64) -> Vec<StackFrame> {
        let mut out = Vec::new();
        let mut next = id;
        while let Some(&(location, parent)) = self.frames.get(&next) {
            let location = self.locations.get(&location).copied().unwrap_or_default();
            out.push(StackFrame {
                file: self.files.get(&location.file).cloned().unwrap_or_default(),
                function: self
                    .functions
                    .get(&location.function)
                    .cloned()
                    .unwrap_or_default(),
                line: location.line,
                column: location.column,
            });
            if parent == next || out.len() >= self.frames.len() {
                break;
            }
            next = parent;
        }
        out
    }
}

fn fields(text: &[u8]) -> impl Fn(&str) -> i64 {
    let pairs = key_values(text);
    move |key| match pairs.iter().find(|pair| pair.0 == key) {
        Some((_, Value::Int(number))) => *number,
        _ => 0,
    }
}
