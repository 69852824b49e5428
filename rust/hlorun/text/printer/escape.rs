//! Strings between quotes: C escapes, read and written as XLA's libraries do.

/// Appends `bytes` so that they can stand between double quotes.
pub fn write_escaped(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(char::from(byte)),
            _ => {
                out.push('\\');
                for shift in [6, 3, 0] {
                    out.push(char::from(b'0' + (byte >> shift & 7)));
                }
            }
        }
    }
}

/// The bytes that an escaped text stands for. What is no escape stays as it is.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&kind) = text.get(at) else {
            out.push(b'\\');
            break;
        };
        at += 1;
        match kind {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'\\' | b'?' | b'\'' | b'"' => out.push(kind),
            b'0'..=b'7' => {
                let mut value = u32::from(kind - b'0');
                for _ in 0..2 {
                    match text.get(at) {
                        Some(&digit @ b'0'..=b'7') => {
                            value = value * 8 + u32::from(digit - b'0');
                            at += 1;
                        }
                        _ => break,
                    }
                }
                out.push(value as u8);
            }
            b'x' | b'X' => {
                let (value, length) = hex(text, at, usize::MAX);
                if length == 0 {
                    out.extend([b'\\', kind]);
                } else {
                    out.push(value as u8);
                    at += length;
                }
            }
            b'u' | b'U' => {
                let (value, length) = hex(text, at, if kind == b'u' { 4 } else { 8 });
                match char::from_u32(value).filter(|_| length > 0) {
                    Some(character) => {
                        out.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
                        at += length;
                    }
                    None => out.extend([b'\\', kind]),
                }
            }
            _ => out.extend([b'\\', kind]),
        }
    }
    out
}

/// The number that up to `limit` hexadecimal digits at `at` write, and how many there are.
fn hex(text: &[u8], at: usize, limit: usize) -> (u32, usize) {
    let digits = text[at..]
        .iter()
        .take(limit)
        .map_while(|&b| char::from(b).to_digit(16));
    digits.fold((0, 0), |(value, length), digit| {
        (value.wrapping_mul(16).wrapping_add(digit), length + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_written() {
        let cases: [(&str, &[u8], &str); 6] = [
            (r#"a\"b"#, b"a\"b", r#"a\"b"#),
            (r"\001\x41\n", b"\x01A\n", r"\001A\n"),
            (r"it's", b"it's", r"it\'s"),
            (r"\u00e9", "é".as_bytes(), r"\303\251"),
            (r"tail\", b"tail\\", r"tail\\"),
            (r"\q", b"\\q", r"\\q"),
        ];
        for (escaped, bytes, written) in cases {
            assert_eq!(unescape(escaped.as_bytes()), bytes, "{escaped}");
            let mut out = String::new();
            write_escaped(&mut out, bytes);
            assert_eq!(out, written);
        }
    }
}
