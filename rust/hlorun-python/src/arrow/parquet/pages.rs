//! Columns as the pages of a Parquet file.
//!
//! Comes in: columns. Goes out: the leaves of their types, and for each leaf the packed pages, with what the end
//! of the file says of them. Promise: levels of long lists and of columns without gaps cost next to nothing.

use std::ops::Range;

use super::super::ffi::Column;
use super::runs::{Runs, width_of};
use super::snappy;
use super::statistics::{Statistics, statistics};
use super::thrift::Thrift;

/// Bytes of values after which a page ends at the next row.
const PAGE_BYTES: usize = 8 << 20;

pub const PLAIN: i32 = 0;
pub const RLE: i32 = 3;
const DICTIONARY_PLACES: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// The values of a leaf, and which of them a row has.
pub struct Leaf<'c> {
    /// Names from the column inwards.
    pub path: Vec<&'static str>,
    pub values: &'c Column,
    /// Where the values of row k begin, at entry k; none where each row has one.
    starts: Option<Starts<'c>>,
    /// The definition level of a value that is there.
    present: u32,
}

#[derive(Clone, Copy)]
enum Starts<'c> {
    Wide(&'c [i64]),
    Narrow(&'c [i32]),
}

impl Starts<'_> {
    fn at(self, row: usize) -> usize {
        match self {
            Starts::Wide(starts) => starts[row] as usize,
            Starts::Narrow(starts) => starts[row] as usize,
        }
    }
}

/// What a file says of the pages of one leaf.
pub struct Chunk {
    pub path: Vec<&'static str>,
    pub kind: i32,
    pub encodings: Vec<i32>,
    /// Values, gaps and empty lists.
    pub entries: i64,
    pub unpacked: i64,
    pub packed: i64,
    pub dictionary_at: Option<i64>,
    pub data_at: i64,
    pub statistics: Option<Statistics>,
}

/// The leaves of a column.
pub fn leaves<'c>(name: &'static str, column: &'c Column) -> Vec<Leaf<'c>> {
    let leaf = |path, values, starts, present| Leaf {
        path,
        values,
        starts,
        present,
    };
    match column {
        Column::List(starts, items) => {
            let path = vec![name, "list", "element"];
            vec![leaf(path, items, Some(Starts::Wide(starts)), 3)]
        }
        Column::Map(starts, pair) => {
            let starts = Some(Starts::Narrow(starts));
            vec![
                leaf(vec![name, "key_value", "key"], &pair.0, starts, 2),
                leaf(vec![name, "key_value", "value"], &pair.1, starts, 3),
            ]
        }
        _ => vec![leaf(vec![name], column, None, 1)],
    }
}

/// The number of the type that the values of a column have.
pub fn kind_of(values: &Column) -> i32 {
    match values {
        Column::Bool(..) => 0,
        Column::Int64(..) => 2,
        Column::Float32(_) => 4,
        Column::Float64(..) => 5,
        _ => 6,
    }
}

fn is_valid(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

fn numbers<const N: usize, T: Copy>(
    out: &mut Vec<u8>,
    values: impl ExactSizeIterator<Item = T>,
    bytes: fn(T) -> [u8; N],
) {
    let start = out.len();
    out.resize(start + N * values.len(), 0);
    for (place, value) in out[start..].chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&bytes(value));
    }
}

fn valid_numbers<const N: usize, T: Copy>(
    out: &mut Vec<u8>,
    values: &[T],
    valid: Option<&[u8]>,
    range: Range<usize>,
    bytes: fn(T) -> [u8; N],
) {
    match valid {
        None => numbers(out, values[range].iter().copied(), bytes),
        Some(valid) => {
            for at in range.filter(|&at| is_valid(valid, at)) {
                out.extend_from_slice(&bytes(values[at]));
            }
        }
    }
}

/// Appends values as they are, without those that are absent.
fn plain(out: &mut Vec<u8>, values: &Column, range: Range<usize>) {
    let gaps = values.null_count() > 0;
    match values {
        Column::Int64(values, valid) => {
            let valid = valid.as_deref().filter(|_| gaps);
            valid_numbers(out, values, valid, range, i64::to_le_bytes);
        }
        Column::Float64(values, valid) => {
            let valid = valid.as_deref().filter(|_| gaps);
            valid_numbers(out, values, valid, range, f64::to_le_bytes);
        }
        Column::Float32(values) => {
            valid_numbers(out, values, None, range, f32::to_le_bytes);
        }
        Column::Bool(bits, _) => {
            let values: Vec<bool> = range.map(|at| is_valid(bits, at)).collect();
            let eights = values.chunks(8).map(|eight| {
                let bits = eight.iter().enumerate();
                bits.fold(0, |byte, (k, &bit)| byte | u8::from(bit) << k)
            });
            out.extend(eights);
        }
        Column::Utf8(ends, data) => {
            for at in range {
                let text = &data[ends[at] as usize..ends[at + 1] as usize];
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text);
            }
        }
        // No column has lists of lists or of words.
        Column::Dictionary(..) | Column::List(..) | Column::Map(..) => {}
    }
}

/// Appends levels as data pages have them: their length, then their runs.
fn levels(out: &mut Vec<u8>, runs: Runs) {
    let bytes = runs.finish();
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
}

impl Leaf<'_> {
    fn rows(&self) -> usize {
        match self.starts {
            Some(Starts::Wide(starts)) => starts.len() - 1,
            Some(Starts::Narrow(starts)) => starts.len() - 1,
            None => self.values.len(),
        }
    }

    /// Which values rows have.
    fn values_of(&self, rows: &Range<usize>) -> Range<usize> {
        match self.starts {
            Some(starts) => starts.at(rows.start)..starts.at(rows.end),
            None => rows.clone(),
        }
    }

    /// Bytes of the values before a row, about.
    fn bytes_before(&self, row: usize) -> usize {
        let at = self.values_of(&(row..row)).start;
        match self.values {
            Column::Utf8(ends, _) => ends[at] as usize + 4 * at,
            _ => 8 * at,
        }
    }

    /// The rows of each page.
    fn pages(&self) -> Vec<Range<usize>> {
        let rows = self.rows();
        let mut pages = Vec::new();
        let mut start = 0;
        for row in 1..=rows {
            if row == rows || self.bytes_before(row) - self.bytes_before(start) >= PAGE_BYTES {
                pages.push(start..row);
                start = row;
            }
        }
        pages
    }

    /// Appends the levels of a page; the number of its entries.
    fn write_levels(&self, out: &mut Vec<u8>, rows: &Range<usize>) -> usize {
        let mut defined = Runs::new(width_of(self.present));
        let Some(starts) = self.starts else {
            match self.values {
                Column::Int64(_, Some(valid)) | Column::Float64(_, Some(valid))
                    if self.values.null_count() > 0 =>
                {
                    rows.clone()
                        .for_each(|row| defined.add(u32::from(is_valid(valid, row)), 1));
                }
                _ => defined.add(1, rows.len()),
            }
            levels(out, defined);
            return rows.len();
        };
        let mut repeated = Runs::new(1);
        let mut entries = 0;
        for row in rows.clone() {
            let count = starts.at(row + 1) - starts.at(row);
            repeated.add(0, 1);
            if count == 0 {
                defined.add(1, 1);
            } else {
                repeated.add(1, count - 1);
                defined.add(self.present, count);
            }
            entries += count.max(1);
        }
        levels(out, repeated);
        levels(out, defined);
        entries
    }

    /// Appends the pages of all rows; none where a page is too long for the format.
    pub fn write(&self, out: &mut Vec<u8>, before: i64) -> Option<Chunk> {
        let mut chunk = Chunk {
            path: self.path.clone(),
            kind: kind_of(self.values),
            encodings: vec![PLAIN, RLE],
            entries: 0,
            unpacked: 0,
            packed: 0,
            dictionary_at: None,
            data_at: 0,
            statistics: self.starts.is_none().then(|| statistics(self.values)),
        };
        let start = out.len();
        let mut words = None;
        if let Column::Dictionary(places, texts) = self.values {
            let mut page = Vec::new();
            plain(&mut page, texts, 0..texts.len());
            chunk.encodings.push(DICTIONARY_PLACES);
            chunk.dictionary_at = Some(before + out.len() as i64);
            chunk.page(out, &page, (DICTIONARY_PAGE, texts.len(), PLAIN))?;
            let most = texts.len().saturating_sub(1) as u32;
            words = Some((places, width_of(most).max(1)));
        }
        chunk.data_at = before + out.len() as i64;
        for rows in self.pages() {
            let mut page = Vec::new();
            let entries = self.write_levels(&mut page, &rows);
            let encoding = match words {
                Some((places, width)) => {
                    page.push(width as u8);
                    let mut runs = Runs::new(width);
                    places[rows].iter().for_each(|&k| runs.add(k as u32, 1));
                    page.extend(runs.finish());
                    DICTIONARY_PLACES
                }
                None => {
                    plain(&mut page, self.values, self.values_of(&rows));
                    PLAIN
                }
            };
            chunk.entries += entries as i64;
            chunk.page(out, &page, (DATA_PAGE, entries, encoding))?;
        }
        chunk.packed = (out.len() - start) as i64;
        Some(chunk)
    }
}

impl Chunk {
    /// Appends a page of a kind, with a number of values in an encoding.
    fn page(
        &mut self,
        out: &mut Vec<u8>,
        page: &[u8],
        (kind, count, encoding): (i32, usize, i32),
    ) -> Option<()> {
        let length = i32::try_from(page.len()).ok()?;
        let packed = snappy::pack(page);
        let mut header = Thrift::default();
        header.begin();
        header.i32(1, kind);
        header.i32(2, length);
        header.i32(3, i32::try_from(packed.len()).ok()?);
        header.structure(if kind == DATA_PAGE { 5 } else { 7 });
        header.i32(1, i32::try_from(count).ok()?);
        header.i32(2, encoding);
        if kind == DATA_PAGE {
            header.i32(3, RLE);
            header.i32(4, RLE);
        }
        header.end();
        header.end();
        self.unpacked += (header.bytes.len() + page.len()) as i64;
        out.extend_from_slice(&header.bytes);
        out.extend_from_slice(&packed);
        Some(())
    }
}
