//! The tables `FileNames`, `FunctionNames`, `FileLocations`, `StackFrames`: checked here, kept as
//! text, read by [`crate::module::stack_frames`] when a stack frame is asked for.

use super::error::{Fault, Parsed};
use super::parser::Parser;
use crate::module::TextRef;

impl Parser<'_> {
    /// Whether the tables start at the cursor, space skipped.
    pub(super) fn at_trailer(&self) -> bool {
        self.cursor.peek() == b'F' && self.cursor.is_word(b"FileNames")
    }

    /// The tables at the cursor.
    pub(super) fn trailer(&mut self) -> Parsed<()> {
        let start = self.cursor.position;
        if self.module.trailer.len > 0 {
            return Err(Fault::new(start, "the tables of stack frames occur twice"));
        }
        if let Some(known) = self.prepared
            && known.trailer.start as usize == start
        {
            self.module.trailer = known.trailer;
            self.cursor.position = known.trailer.end();
            return Ok(());
        }
        self.cursor.eat_word(b"FileNames");
        self.string_rows()?;
        let locations: &[&[u8]] = &[
            b"file_name_id",
            b"function_name_id",
            b"line",
            b"end_line",
            b"column",
            b"end_column",
        ];
        let frames: &[&[u8]] = &[b"file_location_id", b"parent_frame_id"];
        for (title, fields) in [
            (&b"FunctionNames"[..], &[][..]),
            (b"FileLocations", locations),
            (b"StackFrames", frames),
        ] {
            if !self.cursor.eat_word(title) {
                let title = String::from_utf8_lossy(title);
                return Err(self.cursor.expected(&format!("a row or '{title}'")));
            }
            if fields.is_empty() {
                self.string_rows()?;
            } else {
                self.field_rows(fields)?;
            }
        }
        self.module.trailer = TextRef::new(start, self.cursor.position);
        Ok(())
    }

    fn at_row(&mut self) -> bool {
        self.cursor.skip_space();
        self.cursor.peek().is_ascii_digit()
    }

    /// `1 "name"`.
    fn string_rows(&mut self) -> Parsed<()> {
        while self.at_row() {
            self.cursor.integer("a row number")?;
            self.cursor.string("a quoted name")?;
        }
        Ok(())
    }

    /// `1 {key=number key=number}`.
    fn field_rows(&mut self, fields: &[&[u8]]) -> Parsed<()> {
        while self.at_row() {
            self.cursor.integer("a row number")?;
            self.cursor.expect(b'{', "'{' of a row")?;
            let mut seen = 0u8;
            while !self.cursor.eat(b'}') {
                let key = self.cursor.word("a field or '}'")?;
                let name = self.cursor.bytes(key);
                match fields.iter().position(|&field| field == name) {
                    Some(field) if seen >> field & 1 == 1 => {
                        let name = String::from_utf8_lossy(name);
                        return Err(Fault::new(
                            key.start as usize,
                            format!("field '{name}' occurs twice in this row"),
                        ));
                    }
                    Some(field) => seen |= 1 << field,
                    None => self.warn_unknown_key(key, "field")?,
                }
                self.cursor.expect(b'=', "'=' after the field's name")?;
                self.cursor.integer("a number")?;
                self.cursor.eat(b',');
            }
        }
        Ok(())
    }
}
