//! Columns in the making: values are pushed row by row, and taken as a whole.
//!
//! Comes in: values. Goes out: [`Column`]s, after which the builder is empty again. Promise: memory in
//! proportion to the rows; a text that occurs often is kept once.

use std::hash::BuildHasher;
use std::mem::{replace, take};
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::ffi::{Column, Table};

/// What makes a column.
pub trait Builder: Default {
    /// The type of the column, as the documentation names it.
    const TYPE: &'static str;
    /// The rows so far; none are left.
    fn take(&mut self) -> Column;
    /// Takes over the memory of a column that this made, for the rows to come.
    fn put_back(&mut self, column: Column);
    /// Bytes that the rows take, about.
    fn bytes(&self) -> usize;
}

/// Without values, but with the memory for them.
fn emptied<T>(mut values: Vec<T>) -> Vec<T> {
    values.clear();
    values
}

fn set_bit(bits: &mut Vec<u8>, at: usize, value: bool) {
    if at.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(value) << (at % 8);
    }
}

/// As many bits as there are rows, all set.
fn all_set(rows: usize) -> Vec<u8> {
    let mut bits = vec![u8::MAX; rows.div_ceil(8)];
    if let (Some(last), left @ 1..) = (bits.last_mut(), rows % 8) {
        *last = (1 << left) - 1;
    }
    bits
}

macro_rules! optional_numbers {
    ($name:ident, $element:ty, $column:ident, $type:literal) => {
        /// Numbers, some of which may be absent.
        #[derive(Default)]
        pub struct $name {
            values: Vec<$element>,
            /// Validity bitmap, a bit for each row; none until a row has no value.
            valid: Option<Vec<u8>>,
        }

        impl $name {
            /// Adds a row.
            #[inline]
            pub fn push(&mut self, value: impl Into<Option<$element>>) {
                let value = value.into();
                let rows = self.values.len();
                if value.is_none() {
                    self.valid.get_or_insert_with(|| all_set(rows));
                }
                if let Some(valid) = &mut self.valid {
                    set_bit(valid, rows, value.is_some());
                }
                self.values.push(value.unwrap_or_default());
            }
        }

        impl Builder for $name {
            const TYPE: &'static str = $type;

            fn take(&mut self) -> Column {
                Column::$column(take(&mut self.values), self.valid.take())
            }

            fn put_back(&mut self, column: Column) {
                if let Column::$column(values, _) = column {
                    self.values = emptied(values);
                }
            }

            fn bytes(&self) -> usize {
                8 * self.values.len()
            }
        }
    };
}

optional_numbers!(Ints, i64, Int64, "int64");
optional_numbers!(Floats, f64, Float64, "double");

impl Ints {
    /// Adds a row of a count or a size, which ends at the largest number.
    pub fn count<T: TryInto<i64>>(&mut self, value: T) {
        self.push(value.try_into().unwrap_or(i64::MAX));
    }
}

/// Truth values.
#[derive(Default)]
pub struct Flags {
    bits: Vec<u8>,
    rows: usize,
}

impl Flags {
    /// Adds a row.
    pub fn push(&mut self, value: bool) {
        set_bit(&mut self.bits, self.rows, value);
        self.rows += 1;
    }
}

impl Builder for Flags {
    const TYPE: &'static str = "bool";

    fn take(&mut self) -> Column {
        Column::Bool(take(&mut self.bits), take(&mut self.rows))
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Bool(bits, _) = column {
            self.bits = emptied(bits);
        }
    }

    fn bytes(&self) -> usize {
        self.bits.len()
    }
}

/// Arrow's offsets of texts and lists: 0, then the end of each row; empty before the first row.
#[derive(Default)]
struct Ends(Vec<i64>);

impl Ends {
    fn push(&mut self, end: usize) {
        if self.0.is_empty() {
            self.0.push(0);
        }
        self.0.push(end as i64);
    }

    fn len(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    fn row(&self, row: usize) -> Range<usize> {
        self.0[row] as usize..self.0[row + 1] as usize
    }

    fn take(&mut self) -> Vec<i64> {
        match self.0.is_empty() {
            true => vec![0],
            false => take(&mut self.0),
        }
    }
}

/// Texts that mostly differ.
#[derive(Default)]
pub struct Texts {
    ends: Ends,
    data: Vec<u8>,
}

impl Texts {
    /// Adds a row.
    pub fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    /// Adds a row of bytes that need not be text; where they are none, they become it when rows are taken.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len());
    }

    /// Replaces what is not UTF-8.
    fn replace_invalid(&mut self) {
        let mut replaced = Texts::default();
        for row in 0..self.len() {
            replaced.push(&String::from_utf8_lossy(self.get(row)));
        }
        *self = replaced;
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, row: usize) -> &[u8] {
        &self.data[self.ends.row(row)]
    }
}

impl Builder for Texts {
    const TYPE: &'static str = "string";

    fn take(&mut self) -> Column {
        // All rows at once are looked at faster than each when it comes.
        if !self.data.is_ascii() {
            self.replace_invalid();
        }
        Column::Utf8(self.ends.take(), take(&mut self.data))
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Utf8(ends, data) = column {
            self.ends.0 = emptied(ends);
            self.data = emptied(data);
        }
    }

    fn bytes(&self) -> usize {
        self.data.len() + 8 * self.ends.len()
    }
}

/// Texts that occur again and again.
#[derive(Default)]
pub struct Words {
    rows: Vec<i32>,
    words: Texts,
    /// Places of the words. The hash is seeded, as words of untrusted texts could be made to collide.
    places: HashTable<i32>,
    seed: RandomState,
}

impl Words {
    /// Adds a row.
    pub fn push(&mut self, word: &str) {
        let place = self.place(word);
        self.push_place(place);
    }

    /// Where a word is, for [`Words::push_place`] until the rows are taken.
    pub fn place(&mut self, word: &str) -> i32 {
        self.place_bytes(word.as_bytes())
    }

    /// Where a word of bytes is that need not be text, but become it.
    pub fn place_bytes(&mut self, word: &[u8]) -> i32 {
        let hash = self.seed.hash_one(word);
        let (words, seed) = (&self.words, &self.seed);
        let is_word = |&place: &i32| words.get(place as usize) == word;
        let hash_of = |&place: &i32| seed.hash_one(words.get(place as usize));
        let place = words.len() as i32;
        match self.places.entry(hash, is_word, hash_of) {
            Entry::Occupied(entry) => return *entry.get(),
            // What is there is text, so that only new words are looked at.
            Entry::Vacant(entry) => match str::from_utf8(word) {
                Ok(_) => entry.insert(place),
                Err(_) => return self.place(&String::from_utf8_lossy(word)),
            },
        };
        self.words.push_bytes(word);
        place
    }

    /// Adds a row of a word that is there.
    pub fn push_place(&mut self, place: i32) {
        self.rows.push(place);
    }
}

impl Builder for Words {
    const TYPE: &'static str = "string (dictionary)";

    fn take(&mut self) -> Column {
        self.places.clear();
        Column::Dictionary(take(&mut self.rows), Box::new(self.words.take()))
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Dictionary(rows, words) = column {
            self.rows = emptied(rows);
            self.words.put_back(*words);
        }
    }

    fn bytes(&self) -> usize {
        4 * self.rows.len() + self.words.bytes() + 8 * self.places.capacity()
    }
}

/// Lists of a builder's values: rows are ended one by one.
#[derive(Default)]
pub struct Lists<B> {
    /// The values of all rows.
    pub items: B,
    ends: Ends,
}

macro_rules! lists {
    ($items:ident, $type:literal, $count:expr) => {
        impl Lists<$items> {
            /// Ends a row; the values since the last one are its own.
            pub fn end_row(&mut self) {
                let count: fn(&$items) -> usize = $count;
                self.ends.push(count(&self.items));
            }
        }

        impl Builder for Lists<$items> {
            const TYPE: &'static str = $type;

            fn take(&mut self) -> Column {
                Column::List(self.ends.take(), Box::new(self.items.take()))
            }

            fn put_back(&mut self, column: Column) {
                if let Column::List(ends, items) = column {
                    self.ends.0 = emptied(ends);
                    self.items.put_back(*items);
                }
            }

            fn bytes(&self) -> usize {
                self.items.bytes() + 8 * self.ends.len()
            }
        }
    };
}

/// Numbers that are all there.
#[derive(Default)]
pub struct Numbers(pub Vec<i64>);

impl Builder for Numbers {
    const TYPE: &'static str = "int64";

    fn take(&mut self) -> Column {
        Column::Int64(take(&mut self.0), None)
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Int64(values, _) = column {
            self.0 = emptied(values);
        }
    }

    fn bytes(&self) -> usize {
        8 * self.0.len()
    }
}

/// Single-precision numbers that mostly repeat each other.
#[derive(Default)]
pub struct Features {
    /// Those that differ, and their places by their bits.
    words: Vec<f32>,
    places: HashTable<u32>,
    seed: RandomState,
    /// Places of all numbers: each with how often it follows itself.
    runs: Vec<(u32, u32)>,
    count: usize,
}

impl Features {
    /// Where a number is, for [`Features::push_place`] until the rows are taken.
    pub fn place(&mut self, number: f32) -> u32 {
        let (words, seed) = (&self.words, &self.seed);
        let bits = number.to_bits();
        let is_word = |&place: &u32| words[place as usize].to_bits() == bits;
        let hash_of = |&place: &u32| seed.hash_one(words[place as usize].to_bits());
        let place = words.len() as u32;
        match self.places.entry(seed.hash_one(bits), is_word, hash_of) {
            Entry::Occupied(entry) => return *entry.get(),
            Entry::Vacant(entry) => entry.insert(place),
        };
        self.words.push(number);
        place
    }

    /// The runs that `add` would add, without adding them.
    pub fn apart(&mut self, add: impl FnOnce(&mut Features)) -> Vec<(u32, u32)> {
        let (runs, count) = (take(&mut self.runs), self.count);
        add(self);
        self.count = count;
        replace(&mut self.runs, runs)
    }

    /// Adds a number that is there `count` times.
    #[inline]
    pub fn push_place(&mut self, place: u32, count: u32) {
        self.count += count as usize;
        match self.runs.last_mut() {
            Some((last, times)) if *last == place && *times <= u32::MAX - count => *times += count,
            _ if count > 0 => self.runs.push((place, count)),
            _ => {}
        }
    }
}

impl Builder for Features {
    const TYPE: &'static str = "float";

    fn take(&mut self) -> Column {
        self.places.clear();
        let (words, runs) = (take(&mut self.words), take(&mut self.runs));
        Column::Repeats(words, runs, take(&mut self.count))
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Repeats(words, runs, _) = column {
            self.words = emptied(words);
            self.runs = emptied(runs);
        }
    }

    fn bytes(&self) -> usize {
        // What a reader of the row group takes counts as well, as few runs may stand for many numbers.
        let runs = 8 * self.runs.len() + 4 * self.words.len() + 8 * self.places.capacity();
        runs.max(4 * self.count)
    }
}

lists!(Numbers, "list of int64", |items| items.0.len());
lists!(Features, "list of float", |items| items.count);
lists!(Texts, "list of string", Texts::len);

impl Lists<Numbers> {
    /// Adds a row.
    pub fn push(&mut self, values: impl IntoIterator<Item = i64>) {
        self.items.0.extend(values);
        self.end_row();
    }
}

/// Maps from words to counts.
#[derive(Default)]
pub struct Counts {
    ends: Vec<i32>,
    keys: Texts,
    values: Vec<i64>,
}

impl Counts {
    /// Adds a row.
    pub fn push<'w>(&mut self, counts: impl IntoIterator<Item = (&'w str, i64)>) {
        for (key, value) in counts {
            self.keys.push(key);
            self.values.push(value);
        }
        self.ends.push(self.values.len() as i32);
    }
}

impl Builder for Counts {
    const TYPE: &'static str = "map of string to int64";

    fn take(&mut self) -> Column {
        let mut ends = vec![0];
        ends.append(&mut self.ends);
        let values = Column::Int64(take(&mut self.values), None);
        Column::Map(ends, Box::new((self.keys.take(), values)))
    }

    fn put_back(&mut self, column: Column) {
        if let Column::Map(ends, entries) = column {
            self.ends = emptied(ends);
            self.keys.put_back(entries.0);
            if let Column::Int64(values, _) = entries.1 {
                self.values = emptied(values);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.keys.bytes() + 8 * self.values.len()
    }
}

/// A column as consumers without dictionaries have it: its texts written out.
pub fn written_out(column: Column) -> Column {
    let Column::Dictionary(rows, words) = column else {
        return column;
    };
    let Column::Utf8(ends, data) = &*words else {
        return Column::Dictionary(rows, words);
    };
    let mut out = Texts::default();
    for &row in &rows {
        let row = row as usize;
        out.data
            .extend_from_slice(&data[ends[row] as usize..ends[row + 1] as usize]);
        out.ends.push(out.data.len());
    }
    out.take()
}

/// The rows of a table in the making.
pub trait TableRows {
    /// What the table is.
    fn schema(&self) -> Schema;
    /// The rows so far; none are left.
    fn take(&mut self) -> Table;
    /// Takes over the memory of rows that were taken, for those to come.
    fn put_back(&mut self, table: Table);
    /// Bytes that the rows take, about.
    fn bytes(&self) -> usize;
}

/// Defines a table: a builder for each column, its name and what it says.
///
/// The documentation of a field is that of its column, in the schema that users read.
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        $name:ident $text:literal {
            $($(#[doc = $doc:literal])+ $field:ident: $builder:ty,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Default)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $builder,)*
        }

        impl $name {
            /// Name of the table, what it holds, and its columns: name, type, meaning.
            pub const SCHEMA: crate::arrow::columns::Schema = (
                $text,
                concat!($($about),*),
                &[$((
                    stringify!($field),
                    <$builder as crate::arrow::columns::Builder>::TYPE,
                    concat!($($doc),+),
                )),*],
            );
        }

        impl crate::arrow::columns::TableRows for $name {
            fn schema(&self) -> crate::arrow::columns::Schema {
                $name::SCHEMA
            }

            fn take(&mut self) -> crate::arrow::ffi::Table {
                use crate::arrow::columns::Builder;
                crate::arrow::ffi::Table {
                    columns: vec![$((stringify!($field), self.$field.take())),*],
                }
            }

            fn put_back(&mut self, table: crate::arrow::ffi::Table) {
                use crate::arrow::columns::Builder;
                let mut columns = table.columns.into_iter().map(|column| column.1);
                $(columns.next().into_iter().for_each(|column| self.$field.put_back(column));)*
            }

            fn bytes(&self) -> usize {
                use crate::arrow::columns::Builder;
                0 $(+ self.$field.bytes())*
            }
        }
    };
}

pub(crate) use table;

/// Name of a table, what it holds, and its columns: name, type, meaning.
pub type Schema = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);
