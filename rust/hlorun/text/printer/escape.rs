//! Strings between quotes: C escapes, read and written as XLA's libraries do.

/// Whether a byte stands between quotes as it is.
#[inline(always)]
fn is_plain(byte: u8) -> bool {
    let is_printable = byte.wrapping_sub(0x20) < 0x5f;
    is_printable & (byte != b'"') & (byte != b'\'') & (byte != b'\\')
}

/// Appends `bytes` so that they can stand between double quotes.
pub fn write_escaped(out: &mut String, bytes: &[u8]) {
    let mut rest = bytes;
    // Usually every byte is plain. A loop without an early exit is vectorized.
    if bytes.iter().fold(true, |all, &b| all & is_plain(b)) {
        // SAFETY: every byte is plain, and those are ASCII.
        out.push_str(unsafe { std::str::from_utf8_unchecked(bytes) });
        return;
    }
    while !rest.is_empty() {
        let special = rest.iter().position(|&byte| !is_plain(byte));
        let (run, left) = rest.split_at(special.unwrap_or(rest.len()));
        // SAFETY: every byte of the run is plain, and those are ASCII.
        out.push_str(unsafe { std::str::from_utf8_unchecked(run) });
        let Some((&byte, left)) = left.split_first() else {
            return;
        };
        rest = left;
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
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
    crate::module::escape::unescape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_written() {
        let cases: [(&str, &[u8], &str); 7] = [
            (r"a\/b", b"a/b", "a/b"),
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
