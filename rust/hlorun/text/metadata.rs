//! `metadata={…}`: checked here and kept as text, read by [`OpMetadata`] when asked for.

use super::error::Parsed;
use super::lexer::is_name_byte;
use super::parser::Parser;
use super::scan::{WIDTH, name_run, window};
use crate::module::{AttrKey, AttrValue, Attribute, HloOpcode, OpMetadata, TextRef};

impl Parser<'_> {
    /// ` metadata={…}` where nothing but one space stands before it; whether it did.
    #[inline(always)]
    pub(super) fn plain_metadata(&mut self, opcode: HloOpcode) -> Parsed<bool> {
        const BEGINNING: &[u8; 11] = b" metadata={";
        let at = self.cursor.position;
        let given = &self.module.attributes[self.open_attributes..];
        if self.cursor.source.get(at..at + BEGINNING.len()) != Some(BEGINNING)
            || given.iter().any(|a| a.key == AttrKey::Metadata)
            || given.len() >= self.limits.attributes
            || opcode == HloOpcode::Unknown
        {
            return Ok(false);
        }
        self.cursor.position += BEGINNING.len() - 1;
        let value = AttrValue::Raw(self.metadata()?);
        let key = AttrKey::Metadata;
        self.module.attributes.push(Attribute { key, value });
        Ok(true)
    }

    /// `{op_type="…" op_name="…" source_line=1}`.
    pub(super) fn metadata(&mut self) -> Parsed<TextRef> {
        let start = self.cursor.position;
        let last = self.cursor.bytes(self.last_metadata);
        if !last.is_empty() && self.cursor.source[start..].starts_with(last) {
            self.cursor.position += last.len();
            return Ok(TextRef::new(start, self.cursor.position));
        }
        self.cursor.expect(b'{', "'{' of the metadata")?;
        loop {
            if self.cursor.peek() == b'}' {
                self.cursor.position += 1;
                break;
            }
            if let Some(end) = self.plain_field() {
                self.cursor.position = end;
                match self.cursor.peek() {
                    b' ' => self.cursor.position += 1,
                    b'}' => {}
                    _ => {
                        self.cursor.eat(b',');
                    }
                }
                continue;
            }
            if self.cursor.eat(b'}') {
                break;
            }
            let key = self.cursor.word("a field of the metadata or '}'")?;
            let name = self.cursor.bytes(key);
            let known = OpMetadata::FIELDS.iter().find(|field| field.0 == name);
            if known.is_none() {
                self.warn_unknown_key(key, "field of the metadata")?;
            }
            self.cursor.expect(b'=', "'=' after the field's name")?;
            self.cursor.skip_space();
            if known.is_some_and(|&(_, quoted)| quoted) {
                self.cursor.string("a quoted string")?;
                self.cursor.eat(b',');
                continue;
            }
            let is_bool = self.cursor.is_word(b"true") || self.cursor.is_word(b"false");
            match self.cursor.peek() {
                byte if known.is_some() && byte.is_ascii_alphabetic() && !is_bool => {
                    return Err(self.cursor.expected("a number"));
                }
                b'"' | b'\'' => {
                    self.cursor.string("a string")?;
                }
                b'{' | b'[' => {
                    self.cursor.balanced()?;
                }
                byte if is_name_byte(byte) => self.cursor.position = self.cursor.name_end(),
                _ => return Err(self.cursor.expected("the value of a field of the metadata")),
            }
            self.cursor.eat(b',');
        }
        let text = TextRef::new(start, self.cursor.position);
        self.last_metadata = text;
        Ok(text)
    }

    /// Where one of the usual fields at the cursor ends, if one stands there without any space.
    #[inline(always)]
    fn plain_field(&self) -> Option<usize> {
        let at = self.cursor.position;
        let source = self.cursor.source;
        let text = window(source, at)?;
        let is = |word: &[u8]| text[..word.len()] == *word;
        let quoted = if is(b"op_name=") || is(b"op_type=") {
            at + 8
        } else if is(b"source_file=") {
            at + 12
        } else {
            let number = if is(b"source_line=") {
                at + 12
            } else if is(b"stack_frame_id=") {
                at + 15
            } else {
                return None;
            };
            let value = window(source, number)?;
            let run = name_run(value);
            return (value[0].is_ascii_digit() && run < WIDTH).then_some(number + run);
        };
        if *source.get(quoted)? != b'"' {
            return None;
        }
        let end = self.cursor.quote_or_escape(quoted + 1, b'"')?;
        (source[end] == b'"').then_some(end + 1)
    }
}
