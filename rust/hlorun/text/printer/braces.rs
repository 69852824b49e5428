//! Attribute values that are kept as written, taken apart: `{key=value, …}`, lists and JSON.

use std::borrow::Cow;

/// The text between the outer braces, or the text itself where it has none.
pub fn inside(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    match text {
        [b'{', middle @ .., b'}'] => middle.trim_ascii(),
        _ => text,
    }
}

/// The parts of `text` that white space or, where `commas`, commas separate; what is in brackets or
/// quotes stays whole, comments are left out.
pub fn parts(text: &[u8], commas: bool) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    // Within a bracket only its own kind counts: what else is in there need not be in pairs.
    let mut kind = (b'{', b'}');
    let mut depth = 0usize;
    let mut start = None;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let ends = depth == 0
            && (byte == b',' || !commas && byte.is_ascii_whitespace() && !around_equals(text, at));
        if ends {
            if let Some(start) = start.take() {
                parts.push(text[start..at].trim_ascii());
            }
            at += 1;
            continue;
        }
        if depth == 0 && text[at..].starts_with(b"/*") && start.is_none() {
            at = match memchr::memmem::find(&text[at + 2..], b"*/") {
                Some(length) => at + 2 + length + 2,
                None => text.len(),
            };
            continue;
        }
        if start.is_none() {
            if byte.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            start = Some(at);
        }
        match byte {
            b'"' | b'\'' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' | b'(' if depth == 0 => {
                kind = match byte {
                    b'{' => (b'{', b'}'),
                    b'[' => (b'[', b']'),
                    _ => (b'(', b')'),
                };
                depth = 1;
            }
            _ if byte == kind.0 => depth += 1,
            _ if byte == kind.1 => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    if let Some(start) = start {
        parts.push(text[start..].trim_ascii());
    }
    parts
}

/// Whether the white space at `at` stands beside the `=` of a field.
fn around_equals(text: &[u8], at: usize) -> bool {
    let is_equals = |byte: Option<&u8>| byte == Some(&b'=');
    is_equals(text[at..].trim_ascii_start().first())
        || is_equals(text[..at].trim_ascii_end().last())
}

/// One past the end of the string that begins at `at` with a quote.
pub fn string_end(text: &[u8], at: usize) -> usize {
    let quote = text[at];
    let mut end = at + 1;
    while let Some(&byte) = text.get(end) {
        end += 1;
        if byte == b'\\' {
            end += 1;
        } else if byte == quote {
            break;
        }
    }
    end.min(text.len())
}

/// `key=value` taken apart.
pub fn key_value(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', part)?;
    Some((part[..equals].trim_ascii(), part[equals + 1..].trim_ascii()))
}

/// Whether `text` is of the form `{key=value, …}`.
pub fn is_list_of_fields(text: &[u8]) -> bool {
    let is_key_byte = |b: &u8| b.is_ascii_alphanumeric() || b"_.-:/".contains(b);
    is_json_dict(text)
        && parts(inside(text), true).into_iter().all(|part| {
            key_value(part)
                .is_some_and(|(key, value)| !value.is_empty() && key.iter().all(is_key_byte))
        })
}

/// What stands between the quotes; `None` when it is not quoted.
pub fn quoted(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"', middle @ .., b'"'] | [b'\'', middle @ .., b'\''] => Some(middle),
        _ => None,
    }
}

/// `text` with a blank in place of each comment; strings stay as they are.
pub fn without_comments(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(text, b"/*").is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let start = at;
        at = match byte {
            b'"' | b'\'' => string_end(text, at),
            b'/' if text[at..].starts_with(b"/*") => {
                at = memchr::memmem::find(&text[at + 2..], b"*/")
                    .map_or(text.len(), |length| at + 2 + length + 2);
                out.push(b' ');
                continue;
            }
            _ => at + 1,
        };
        out.extend_from_slice(&text[start..at]);
    }
    Cow::Owned(out)
}

/// Appends `text` without white space and comments; strings stay as they are.
pub fn write_compact(out: &mut String, text: &[u8]) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if text[at..].starts_with(b"/*") {
            at = match memchr::memmem::find(&text[at + 2..], b"*/") {
                Some(length) => at + 2 + length + 2,
                None => text.len(),
            };
        } else if byte == b'"' || byte == b'\'' {
            let end = string_end(text, at);
            out.push_str(&String::from_utf8_lossy(&text[at..end]));
            at = end;
        } else {
            let end = text[at..]
                .iter()
                .position(|&b| b.is_ascii_whitespace() || matches!(b, b'/' | b'"' | b'\''))
                .map_or(text.len(), |length| at + length.max(1));
            out.push_str(String::from_utf8_lossy(&text[at..end]).trim_ascii());
            at = end;
        }
    }
}

/// Appends an original value, `{({"name" {0}}, {})}`, with one space where XLA has one.
pub fn write_original_value(out: &mut String, text: &[u8]) {
    let mut compact = String::new();
    write_compact(&mut compact, text);
    let bytes = compact.as_bytes();
    // Braces that are open; a leaf, which holds a name, is one level below the outermost pair.
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'"' => string_end(bytes, at),
            b'{' | b'}' | b',' => at + 1,
            _ => bytes[at..]
                .iter()
                .position(|b| b"{},\"".contains(b))
                .map_or(bytes.len(), |length| at + length),
        };
        match byte {
            b'{' => {
                if depth == 2 {
                    out.push(' ');
                }
                depth += 1;
            }
            b'}' => depth = depth.saturating_sub(1),
            b'"' if depth == 2 && !out.ends_with('{') => out.push(' '),
            _ => {}
        }
        out.push_str(&String::from_utf8_lossy(&bytes[at..end]));
        if byte == b',' && depth < 3 {
            out.push(' ');
        }
        at = end;
    }
}

/// Appends names of mesh axes, `mesh['x'=2,'y'=2], [{'x'}, {}]`, spaced and quoted as XLA does.
/// `in_braces` stands between axes in braces.
pub fn write_named_axes(out: &mut String, text: &[u8], in_braces: &str) {
    let mut compact = String::new();
    write_compact(&mut compact, text);
    let bytes = compact.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let mut end = at + 1;
        match byte {
            b'"' | b'\'' => {
                end = string_end(bytes, at);
                let name = quoted(&bytes[at..end]).unwrap_or(b"");
                let is_plain = |&b: &u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
                let quote = if name.iter().all(is_plain) { "'" } else { "" };
                let name = if quote.is_empty() {
                    &bytes[at..end]
                } else {
                    name
                };
                out.push_str(quote);
                out.push_str(&String::from_utf8_lossy(name));
                out.push_str(quote);
            }
            b'[' if out.ends_with("mesh") => {
                open.push(b'm');
                out.push('[');
            }
            b'[' | b'(' | b'{' => {
                // The axes of replica groups stand apart from their mesh.
                if byte == b'{' && open.is_empty() && out.ends_with([']', ')']) {
                    out.push(' ');
                }
                // Numbers of devices stay close together, also in the brackets among them.
                open.push(if open.contains(&b'(') { b'(' } else { byte });
                out.push(char::from(byte));
            }
            b']' | b')' | b'}' => {
                open.pop();
                out.push(char::from(byte));
            }
            b',' => out.push_str(match open.last() {
                Some(b'm' | b'(') => ",",
                Some(b'{') => in_braces,
                _ => ", ",
            }),
            _ => {
                end = bytes[at..]
                    .iter()
                    .position(|b| b"[](){},\"'".contains(b))
                    .map_or(bytes.len(), |length| at + length);
                out.push_str(&String::from_utf8_lossy(&bytes[at..end]));
            }
        }
        at = end;
    }
}

/// Whether `text` is one pair of braces with balanced ones in it: what stands in HLO text without
/// quotes.
pub fn is_json_dict(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    if text.first() != Some(&b'{') {
        return false;
    }
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1 == text.len();
                }
            }
            b'"' => {
                let end = string_end(text, at);
                if end < at + 2 || text[end - 1] != b'"' {
                    return false;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// JSON with the members of each object sorted and no white space; `None` when it is no JSON object.
pub fn sort_json(text: &[u8]) -> Option<String> {
    /// An object or array that is still open: its members so far, the key that waits for its value.
    struct Open {
        is_object: bool,
        members: Vec<(String, String)>,
        key: Option<String>,
    }
    let mut stack: Vec<Open> = Vec::new();
    let mut at = 0;
    loop {
        let byte = *text.get(at)?;
        let value = match byte {
            _ if byte.is_ascii_whitespace() || byte == b',' || byte == b':' => {
                at += 1;
                continue;
            }
            b'{' | b'[' => {
                stack.push(Open {
                    is_object: byte == b'{',
                    members: Vec::new(),
                    key: None,
                });
                at += 1;
                continue;
            }
            b'}' | b']' => {
                at += 1;
                let mut open = stack.pop()?;
                if open.is_object != (byte == b'}') || open.key.is_some() {
                    return None;
                }
                if open.is_object {
                    open.members.sort();
                }
                let mut value = String::from(if open.is_object { '{' } else { '[' });
                for (i, (key, member)) in open.members.iter().enumerate() {
                    if i > 0 {
                        value.push(',');
                    }
                    if open.is_object {
                        value.push_str(key);
                        value.push(':');
                    }
                    value.push_str(member);
                }
                value.push(char::from(byte));
                value
            }
            _ => {
                let end = if byte == b'"' {
                    string_end(text, at)
                } else {
                    text[at..]
                        .iter()
                        .position(|b| b",:]} \t\r\n".contains(b))
                        .map_or(text.len(), |length| at + length)
                };
                let value = std::str::from_utf8(&text[at..end]).ok()?.to_owned();
                at = end;
                value
            }
        };
        match stack.last_mut() {
            None => {
                let rest = text[at..].trim_ascii();
                return (rest.is_empty() && value.starts_with('{')).then_some(value);
            }
            Some(open) if open.is_object => match open.key.take() {
                Some(key) => open.members.push((key, value)),
                None => open.key = Some(value),
            },
            Some(open) => open.members.push((String::new(), value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_brackets_and_strings_whole() {
        let split = |text: &'static str, commas| -> Vec<&'static str> {
            parts(text.as_bytes(), commas)
                .into_iter()
                .map(|part| std::str::from_utf8(part).unwrap_or("?"))
                .collect()
        };
        assert_eq!(
            split(r#"op_name="a, b" source_line=3"#, false),
            [r#"op_name="a, b""#, "source_line=3"]
        );
        assert_eq!(
            split("{a}, /*index=5*/{devices=[2,1]0,1}", true),
            ["{a}", "{devices=[2,1]0,1}"]
        );
        assert_eq!(
            split(r#"x="\"",y={"k": 1}"#, true),
            [r#"x="\"""#, r#"y={"k": 1}"#]
        );
    }

    #[test]
    fn original_values_are_spaced() {
        for (text, expected) in [
            (r#"{{"v" {1}}}"#, r#"{{"v" {1}}}"#),
            (
                r#"{({"v"{1,2}},{}, ({"w" {0} "call"}))}"#,
                r#"{({"v" {1,2}}, {}, ({"w" {0} "call"}))}"#,
            ),
        ] {
            let mut out = String::new();
            write_original_value(&mut out, text.as_bytes());
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn axes_are_quoted_and_spaced() {
        for (text, separator, expected) in [
            (
                r#"mesh["x"=2, 'y'=2],device_ids=([2, 2]T(1,0)),[{"x","y"},{?}],replicated={"z"}"#,
                ", ",
                "mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x', 'y'}, {?}], replicated={'z'}",
            ),
            (
                r#"mesh["x"=4],device_ids=(3,2,1,0){"x"}"#,
                ",",
                "mesh['x'=4], device_ids=(3,2,1,0) {'x'}",
            ),
            (
                r#"mesh["x"=4] {"x":(1)2,"y"}"#,
                ",",
                "mesh['x'=4] {'x':(1)2,'y'}",
            ),
        ] {
            let mut out = String::new();
            write_named_axes(&mut out, text.as_bytes(), separator);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn json_dicts_are_told_from_other_text() {
        for (text, expected) in [
            ("{}", true),
            (r#"{"a":"}"}"#, true),
            ("{a b}", true),
            ("{}{}", false),
            ("{", false),
            (r#"{"a}"#, false),
            ("x", false),
            ("", false),
        ] {
            assert_eq!(is_json_dict(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn json_is_sorted_at_every_level() {
        let sorted = sort_json(br#"{"b": [2, {"z":1,"y":"}"}], "a": null}"#);
        assert_eq!(
            sorted.as_deref(),
            Some(r#"{"a":null,"b":[2,{"y":"}","z":1}]}"#)
        );
        assert_eq!(sort_json(b"{"), None);
        assert_eq!(sort_json(b"abc"), None);
    }
}
