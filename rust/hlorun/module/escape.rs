//! C escapes of quoted strings.

use std::borrow::Cow;

/// The bytes that the text between two quotes stands for. Escapes that mean nothing stay as they
/// are; the parser lets none through.
pub fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', text) else {
        return Cow::Borrowed(text);
    };
    let mut out = text[..first].to_vec();
    let mut rest = &text[first..];
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'\\' {
            let run = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..run]);
            rest = &rest[run..];
            continue;
        }
        rest = match escape(after, &mut out) {
            Some(length) => &after[length..],
            None => {
                out.push(b'\\');
                after
            }
        };
    }
    Cow::Owned(out)
}

/// Reads what follows a backslash; how many bytes it took.
fn escape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let number = |digits: &[u8], radix| {
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u32::from_str_radix(digits, radix).ok())
    };
    let plain = match *text.first()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        byte @ (b'\\' | b'?' | b'\'' | b'"' | b'/') => byte,
        b'0'..=b'7' => {
            let length = text
                .iter()
                .take(3)
                .take_while(|b| (b'0'..=b'7').contains(b))
                .count();
            out.push(number(&text[..length], 8)? as u8);
            return Some(length);
        }
        b'x' | b'X' => {
            let length = text[1..]
                .iter()
                .take_while(|b| b.is_ascii_hexdigit())
                .count();
            // Of too many digits, C++ libraries keep the last two.
            let low = &text[1 + length.saturating_sub(2)..1 + length];
            out.push(number(low, 16)? as u8);
            return Some(1 + length);
        }
        kind @ (b'u' | b'U') => {
            let length = if kind == b'u' { 4 } else { 8 };
            let c = char::from_u32(number(text.get(1..1 + length)?, 16)?)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(1 + length);
        }
        _ => return None,
    };
    out.push(plain);
    Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_escape() {
        let cases: [(&str, &[u8]); 8] = [
            ("plain", b"plain"),
            (r#"a\"b\\c\n"#, b"a\"b\\c\n"),
            (r"\101\0\7x", b"A\0\x07x"),
            (r"\x41\x0a.", b"A\n."),
            (r"\u00e9", "é".as_bytes()),
            (r"\q", b"\\q"),
            ("tail\\", b"tail\\"),
            (r"\377", b"\xff"),
        ];
        for (text, expected) in cases {
            assert_eq!(unescape(text.as_bytes()).as_ref(), expected, "{text}");
        }
    }
}
