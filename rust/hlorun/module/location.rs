//! Line, column and a window of the line for a byte of a text; computed only when shown.

use std::sync::Arc;

use crate::error::Location;

/// Columns shown on either side of the byte; HLO lines are thousands of columns wide.
const WINDOW: usize = 60;

/// Where byte `offset` of `source` stands.
pub fn locate(source: &[u8], filename: Option<Arc<str>>, offset: usize) -> Location {
    let offset = offset.min(source.len());
    let before = &source[..offset];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let line_end = memchr::memchr(b'\n', &source[offset..]).map_or(source.len(), |at| offset + at);
    let line = memchr::memchr_iter(b'\n', before).count() + 1;

    let is_boundary = |at: usize| source.get(at).is_none_or(|b| b & 0xc0 != 0x80);
    let mut start = line_start.max(offset.saturating_sub(WINDOW));
    while start < offset && !is_boundary(start) {
        start += 1;
    }
    let mut end = line_end.min(offset + WINDOW);
    while end > offset && !is_boundary(end) {
        end -= 1;
    }

    let mut excerpt = String::new();
    if start > line_start {
        excerpt.push('…');
    }
    push_readable(&mut excerpt, &source[start..offset]);
    let caret = excerpt.chars().count();
    push_readable(&mut excerpt, &source[offset..end]);
    if end < line_end && source[end..line_end] != *b"\r" {
        excerpt.push('…');
    }
    excerpt.truncate(excerpt.trim_end().len());
    Location {
        filename,
        line,
        column: offset - line_start + 1,
        excerpt,
        caret,
    }
}

/// Appends `bytes` with whatever a terminal would not show as one column replaced.
fn push_readable(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            out.push(match c {
                '\t' => ' ',
                c if c.is_control() => '\u{fffd}',
                c => c,
            });
        }
        if !chunk.invalid().is_empty() {
            out.push('\u{fffd}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let text = format!("first\n{}X{}\nlast", "a".repeat(500), "b".repeat(500));
        let location = locate(text.as_bytes(), None, 6 + 500);
        assert_eq!((location.line, location.column), (2, 501));
        assert_eq!(location.excerpt.chars().nth(location.caret), Some('X'));
        assert!(location.excerpt.chars().count() <= 2 * WINDOW + 2);
    }

    #[test]
    fn offsets_beyond_the_text_are_its_end() {
        let location = locate(b"ab\ncd", None, 99);
        assert_eq!((location.line, location.column, location.caret), (2, 3, 2));
    }

    #[test]
    fn the_window_never_splits_a_character() {
        let text = "é".repeat(200);
        for offset in 0..text.len() {
            let location = locate(text.as_bytes(), None, offset);
            assert!(location.caret <= location.excerpt.chars().count());
        }
    }
}
