//! Text → bytes, by the tables of the schema.

use super::lexer::Cursor;
use super::{MOST_NESTED, table_of};
use crate::proto::schema::numbered::{Form, Row, Table};
use crate::proto::sniff::Kind;
use crate::suggestion::closest;
use crate::text::error::{Fault, Parsed};
use crate::text::lexer::snippet;

/// Which message `text` is; `None` when it is the text of none of them.
///
/// HLO text may begin with a computation named like a field. What follows `{` tells them apart: the name of
/// a field is followed by `:` or `{`, that of an instruction by `=`.
pub fn kind(text: &[u8]) -> Option<Kind> {
    let mut cursor = Cursor {
        source: text,
        position: 0,
    };
    let name = cursor.word();
    let kinds = [Kind::Module, Kind::Hlo, Kind::Snapshot];
    let kind = kinds
        .into_iter()
        .find(|&kind| table_of(kind).named(name).is_some())?;
    if cursor.eat(b':') {
        return Some(kind);
    }
    if !(cursor.eat(b'{') || cursor.eat(b'<')) {
        return None;
    }
    let is_empty = cursor.eat(b'}') || cursor.eat(b'>');
    let has_field = !cursor.word().is_empty();
    let follows = cursor.eat(b':') || cursor.eat(b'{') || cursor.eat(b'<');
    (is_empty || has_field && follows).then_some(kind)
}

/// The bytes of the message in `text`.
pub fn to_bytes(text: &[u8], kind: Kind) -> Parsed<Vec<u8>> {
    let mut reader = Reader {
        cursor: Cursor {
            source: text,
            position: 0,
        },
        out: Vec::new(),
        lengths: Vec::new(),
        written: 0,
        open: vec![Open::new(table_of(kind), None)],
    };
    while reader.step()? {}
    Ok(reader.finish())
}

/// A length prefix that is inserted at the end: of a message or of packed numbers.
struct Length {
    /// Where they begin in `Reader::out`.
    start: usize,
    /// The length, prefixes inside included. While it is open, `Reader::written` as it was at the start.
    bytes: usize,
}

/// A message that is being read.
struct Open {
    table: &'static Table,
    /// What ends it; 0 for the outermost.
    close: u8,
    /// Its place in `Reader::lengths`.
    length: Option<usize>,
    /// Of a message in a list, the field.
    list: Option<&'static Row>,
    /// Numbers of fields that are not repeated and were given.
    given: u128,
    /// The field whose numbers are being packed, and their place in `Reader::lengths`.
    packed: Option<(u32, usize)>,
}

impl Open {
    fn new(table: &'static Table, length: Option<usize>) -> Open {
        Open {
            table,
            close: 0,
            length,
            list: None,
            given: 0,
            packed: None,
        }
    }
}

struct Reader<'s> {
    cursor: Cursor<'s>,
    /// Everything but the lengths.
    out: Vec<u8>,
    /// In the order of their beginnings.
    lengths: Vec<Length>,
    /// Bytes that the finished length prefixes take.
    written: usize,
    /// Messages that are being read, innermost last; never empty.
    open: Vec<Open>,
}

impl Reader<'_> {
    fn top(&mut self) -> &mut Open {
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// Reads a field or the end of a message; `false` at the end of the text.
    fn step(&mut self) -> Parsed<bool> {
        self.cursor.skip_space();
        let (close, table) = (self.top().close, self.top().table);
        if close == 0 && self.cursor.at_end() {
            self.end_packed();
            return Ok(false);
        }
        if close != 0 && self.cursor.eat(close) {
            self.end_message()?;
            return Ok(true);
        }
        if self.cursor.peek() == b'[' {
            let message = "extensions and Any are not read: protos of HLO have none";
            return Err(Fault::new(self.cursor.position, message));
        }
        let at = self.cursor.position;
        let name = self.cursor.word();
        if name.is_empty() {
            let what = match close {
                0 => format!("a field of {}", table.name),
                close => format!("'{}' or a field of {}", char::from(close), table.name),
            };
            return Err(self.cursor.expected(&what));
        }
        let Some(row) = table.named(name) else {
            return Err(unknown_field(at, name, table));
        };
        if !row.is_repeated {
            let bit = 1 << row.number;
            if self.top().given & bit != 0 {
                let message = format!("field '{}' is given twice", row.name);
                return Err(Fault::new(at, message));
            }
            self.top().given |= bit;
        }
        self.field(row)?;
        Ok(true)
    }

    /// What stands behind the name of a field.
    fn field(&mut self, row: &'static Row) -> Parsed<()> {
        let has_colon = self.cursor.eat(b':');
        let is_message = matches!(row.form, Form::Message(_));
        if !has_colon && !is_message {
            return Err(self.cursor.expected(&format!("':' after '{}'", row.name)));
        }
        self.cursor.skip_space();
        let at = self.cursor.position;
        if !self.cursor.eat(b'[') {
            match row.form {
                Form::Message(table) => return self.begin_message(row, table(), false),
                _ => self.value(row)?,
            }
            self.separator();
            return Ok(());
        }
        if !row.is_repeated {
            let message = format!("field '{}' is not repeated, and takes no list", row.name);
            return Err(Fault::new(at, message));
        }
        if self.cursor.eat(b']') {
            self.separator();
            return Ok(());
        }
        if let Form::Message(table) = row.form {
            return self.begin_message(row, table(), true);
        }
        loop {
            self.value(row)?;
            if !self.next_of_list(row)? {
                self.separator();
                return Ok(());
            }
        }
    }

    /// Whether a list goes on after an element.
    fn next_of_list(&mut self, row: &Row) -> Parsed<bool> {
        if self.cursor.eat(b',') {
            return Ok(true);
        }
        match self.cursor.eat(b']') {
            true => Ok(false),
            false => {
                let what = format!("',' or ']' in the list of '{}'", row.name);
                Err(self.cursor.expected(&what))
            }
        }
    }

    /// What may stand between fields.
    fn separator(&mut self) {
        if !self.cursor.eat(b',') {
            self.cursor.eat(b';');
        }
    }

    fn begin_message(
        &mut self,
        row: &'static Row,
        table: &'static Table,
        in_list: bool,
    ) -> Parsed<()> {
        self.cursor.skip_space();
        let close = match self.cursor.peek() {
            b'{' => b'}',
            b'<' => b'>',
            _ => {
                let what = format!("'{{' of the message '{}'", row.name);
                return Err(self.cursor.expected(&what));
            }
        };
        if self.open.len() > MOST_NESTED {
            let message = format!("messages nested deeper than {MOST_NESTED}");
            return Err(Fault::new(self.cursor.position, message));
        }
        self.cursor.position += 1;
        self.end_packed();
        self.key(row.number, 2);
        let length = self.begin_length();
        self.open.push(Open {
            close,
            list: in_list.then_some(row),
            ..Open::new(table, Some(length))
        });
        Ok(())
    }

    fn end_message(&mut self) -> Parsed<()> {
        self.end_packed();
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        if let Some(length) = open.length {
            self.end_length(length);
        }
        if let Some(row) = open.list
            && let Form::Message(table) = row.form
            && self.next_of_list(row)?
        {
            return self.begin_message(row, table(), true);
        }
        self.separator();
        Ok(())
    }

    fn end_packed(&mut self) {
        if let Some((_, length)) = self.top().packed.take() {
            self.end_length(length);
        }
    }

    fn begin_length(&mut self) -> usize {
        self.lengths.push(Length {
            start: self.out.len(),
            bytes: self.written,
        });
        self.lengths.len() - 1
    }

    fn end_length(&mut self, number: usize) {
        let length = &mut self.lengths[number];
        length.bytes = self.out.len() - length.start + self.written - length.bytes;
        self.written += prost::encoding::encoded_len_varint(length.bytes as u64);
    }

    fn key(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    fn varint(&mut self, number: u64) {
        prost::encoding::encode_varint(number, &mut self.out);
    }

    /// Begins the value of a field that is a number of `wire_type`.
    fn begin_number(&mut self, row: &Row, wire_type: u32) {
        if self.top().packed.is_some_and(|open| open.0 == row.number) {
            return;
        }
        self.end_packed();
        if !row.is_repeated {
            self.key(row.number, wire_type);
            return;
        }
        self.key(row.number, 2);
        let length = self.begin_length();
        self.top().packed = Some((row.number, length));
    }

    /// One value of a field that is no message.
    fn value(&mut self, row: &Row) -> Parsed<()> {
        let number = match row.form {
            Form::String => return self.string(row),
            Form::Float => {
                let number = self.float(row)?;
                self.begin_number(row, 5);
                self.out.extend_from_slice(&(number as f32).to_le_bytes());
                return Ok(());
            }
            Form::Double => {
                let number = self.float(row)?;
                self.begin_number(row, 1);
                self.out.extend_from_slice(&number.to_le_bytes());
                return Ok(());
            }
            Form::Int32 => self.whole(row, i32::MIN.into(), i32::MAX.into())?,
            Form::Int64 => self.whole(row, i64::MIN.into(), i64::MAX.into())?,
            Form::Uint32 => self.whole(row, 0, u32::MAX.into())?,
            Form::Uint64 => self.whole(row, 0, u64::MAX.into())?,
            Form::Bool => self.truth(row)?,
            Form::Enumeration(words) => {
                let mut ahead = self.cursor;
                match ahead.word() {
                    [first, ..] if !first.is_ascii_digit() => {
                        let at = self.cursor.position;
                        let word = self.cursor.word();
                        let Some(number) = words.number(word) else {
                            let (name, word) = (row.name, snippet(word));
                            let message = format!("'{word}' is no value of '{name}'");
                            return Err(Fault::new(at, message));
                        };
                        number.into()
                    }
                    _ => self.whole(row, i32::MIN.into(), i32::MAX.into())?,
                }
            }
            Form::Message(_) => return Ok(()),
        };
        self.begin_number(row, 0);
        self.varint(number as u64);
        Ok(())
    }

    fn string(&mut self, row: &Row) -> Parsed<()> {
        self.end_packed();
        self.key(row.number, 2);
        let length = self.begin_length();
        if !self.cursor.strings(&mut self.out)? {
            return Err(self
                .cursor
                .expected(&format!("a string for '{}'", row.name)));
        }
        self.end_length(length);
        Ok(())
    }

    /// A whole number: decimal, `0x` or, after a 0, octal.
    fn whole(&mut self, row: &Row, least: i128, most: i128) -> Parsed<i128> {
        self.cursor.skip_space();
        let before = self.cursor;
        let is_negative = self.cursor.eat(b'-');
        let digits = std::str::from_utf8(match is_negative {
            true => self.cursor.word(),
            false => self.cursor.number(),
        });
        let digits = digits.unwrap_or_default();
        let (base, digits) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
            [b'0', _, ..] => (8, &digits[1..]),
            _ => (10, digits),
        };
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
        if !is_number {
            return Err(before.expected(&format!("a whole number for '{}'", row.name)));
        }
        let number = i128::from_str_radix(digits, base).ok();
        let number = number.map(|number| if is_negative { -number } else { number });
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| {
                let message = format!("the number does not fit '{}'", row.name);
                Fault::new(before.position, message)
            })
    }

    fn float(&mut self, row: &Row) -> Parsed<f64> {
        self.cursor.skip_space();
        let before = self.cursor;
        let is_negative = self.cursor.eat(b'-');
        self.cursor.skip_space();
        let text = self.cursor.number().to_ascii_lowercase();
        let text = std::str::from_utf8(&text).unwrap_or_default();
        let digits = text.strip_suffix('f').unwrap_or(text);
        let value = match text {
            "inf" | "infinity" => Some(f64::INFINITY),
            "nan" => Some(f64::NAN),
            _ if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => None,
            _ => match row.form {
                // Not by way of a wider number, which would round twice.
                Form::Float => digits.parse::<f32>().ok().map(f64::from),
                _ => digits.parse().ok(),
            },
        };
        match value {
            Some(value) => Ok(if is_negative { -value } else { value }),
            None => Err(before.expected(&format!("a number for '{}'", row.name))),
        }
    }

    fn truth(&mut self, row: &Row) -> Parsed<i128> {
        self.cursor.skip_space();
        let before = self.cursor;
        match self.cursor.word() {
            b"true" | b"True" | b"t" | b"1" => Ok(1),
            b"false" | b"False" | b"f" | b"0" => Ok(0),
            _ => Err(before.expected(&format!("true or false for '{}'", row.name))),
        }
    }

    /// The bytes with all lengths in their places.
    fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.out.len() + self.written);
        let mut done = 0;
        for length in &self.lengths {
            bytes.extend_from_slice(&self.out[done..length.start]);
            done = length.start;
            prost::encoding::encode_varint(length.bytes as u64, &mut bytes);
        }
        bytes.extend_from_slice(&self.out[done..]);
        bytes
    }
}

#[cold]
fn unknown_field(at: usize, name: &[u8], table: &Table) -> Box<Fault> {
    let known = table.rows.iter().map(|row| row.name.as_bytes());
    let near = match closest(name, known, usize::MAX) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => String::new(),
    };
    let message = format!("{} has no field '{}'{near}", table.name, snippet(name));
    Fault::new(at, message)
}
