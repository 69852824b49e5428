//! The compact protocol of Thrift, in which Parquet says what a file holds.
//!
//! Comes in: fields of structures in rising order. Goes out: their bytes.

/// Bytes in the making; fields belong to the structure that was begun last.
#[derive(Default)]
pub struct Thrift {
    pub bytes: Vec<u8>,
    /// Number of the last field of each open structure.
    last: Vec<i16>,
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Appends a number, seven bits a byte.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Thrift {
    /// Begins a structure that is no field: the whole, or an item of a list.
    pub fn begin(&mut self) {
        self.last.push(0);
    }

    /// Ends the structure that was begun last.
    pub fn end(&mut self) {
        self.last.pop();
        self.bytes.push(0);
    }

    fn field(&mut self, number: i16, kind: u8) {
        if let Some(last) = self.last.last_mut() {
            // Numbers rise by less than 16 from field to field.
            self.bytes.push(((number - *last) as u8) << 4 | kind);
            *last = number;
        }
    }

    fn zigzag(&mut self, value: i64) {
        varint(&mut self.bytes, (value << 1 ^ value >> 63) as u64);
    }

    pub fn i32(&mut self, number: i16, value: i32) {
        self.field(number, I32);
        self.zigzag(i64::from(value));
    }

    pub fn i64(&mut self, number: i16, value: i64) {
        self.field(number, I64);
        self.zigzag(value);
    }

    pub fn binary(&mut self, number: i16, value: &[u8]) {
        self.field(number, BINARY);
        self.binary_item(value);
    }

    /// Begins a structure that is a field.
    pub fn structure(&mut self, number: i16) {
        self.field(number, STRUCT);
        self.begin();
    }

    fn list(&mut self, number: i16, count: usize, kind: u8) {
        self.field(number, LIST);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, count as u64);
        }
    }

    /// Begins a list of structures, each of which is to be begun and ended.
    pub fn structures(&mut self, number: i16, count: usize) {
        self.list(number, count, STRUCT);
    }

    pub fn i32s(&mut self, number: i16, values: &[i32]) {
        self.list(number, values.len(), I32);
        values
            .iter()
            .for_each(|&value| self.zigzag(i64::from(value)));
    }

    pub fn binaries(&mut self, number: i16, values: &[&str]) {
        self.list(number, values.len(), BINARY);
        values
            .iter()
            .for_each(|value| self.binary_item(value.as_bytes()));
    }

    fn binary_item(&mut self, value: &[u8]) {
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }
}
