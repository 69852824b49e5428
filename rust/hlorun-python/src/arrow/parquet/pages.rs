//! Columns that are dictionaries already, as pages: the library's own writers would look each row's word up again.

use bytes::Bytes;
use lz4_flex::block::compress;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::hybrid::{Hybrid, width_of};

/// Most rows of a page, and most slots of one of lists: absent values have no bytes that could bound it.
pub const PAGE_ROWS: usize = 1 << 17;
/// Bytes of words after which a page of words without a dictionary ends.
const PAGE_BYTES: usize = 4 << 20;
/// Most bytes of a dictionary, whose page has to be smaller than 2 GiB.
pub const DICTIONARY_BYTES: usize = 256 << 20;

/// Compression of pages; zstd makes smaller files and takes longer.
pub const PACKED: Compression = Compression::LZ4_RAW;

/// Distinct values in `PLAIN` encoding, and their number.
pub struct Words {
    pub plain: Vec<u8>,
    pub count: usize,
}

impl Words {
    /// Where each text begins, and the end of the last.
    fn starts(&self) -> Vec<usize> {
        let mut starts = vec![0];
        let mut rest = &*self.plain;
        while let Some((length, after)) = rest.split_first_chunk() {
            rest = &after[u32::from_le_bytes(*length) as usize..];
            starts.push(self.plain.len() - rest.len());
        }
        starts
    }
}

/// Rows of a column: which words they are, each with how often it follows itself.
pub trait Runs {
    /// Calls `visit` with the runs of the next `slots` slots.
    fn next(&mut self, slots: usize, visit: impl FnMut(u32, usize));
}

/// Runs of equal words.
pub struct Repeats<'c> {
    runs: &'c [(u32, u32)],
    /// Slots of the first run that were visited.
    visited: usize,
}

impl<'c> Repeats<'c> {
    pub fn new(runs: &'c [(u32, u32)]) -> Repeats<'c> {
        Repeats { runs, visited: 0 }
    }
}

impl Runs for Repeats<'_> {
    fn next(&mut self, mut slots: usize, mut visit: impl FnMut(u32, usize)) {
        while slots > 0
            && let [(word, count), rest @ ..] = self.runs
        {
            let left = *count as usize - self.visited;
            let taken = left.min(slots);
            visit(*word, taken);
            slots -= taken;
            self.visited += taken;
            if taken == left {
                (self.runs, self.visited) = (rest, 0);
            }
        }
    }
}

/// Words row by row.
pub struct Rows<'c>(pub &'c [i32]);

impl Runs for Rows<'_> {
    fn next(&mut self, slots: usize, mut visit: impl FnMut(u32, usize)) {
        let (now, rest) = self.0.split_at(slots.min(self.0.len()));
        for &word in now {
            visit(word as u32, 1);
        }
        self.0 = rest;
    }
}

/// The levels of lists, none of which and none of whose items are absent.
struct Levels<'c> {
    /// The end of row `i` is entry `i + 1`.
    ends: &'c [i64],
    /// The next row, and how many of its items are written.
    row: usize,
    within: usize,
}

impl Levels<'_> {
    /// Appends the levels of at most `most` slots: items, or what stands for none. Number of slots and items.
    fn next(&mut self, most: usize, page: &mut Vec<u8>) -> (usize, usize) {
        let (mut repetition, mut definition) = (Vec::new(), Vec::new());
        let mut repeated = Hybrid::new(&mut repetition, 1);
        let mut defined = Hybrid::new(&mut definition, 1);
        let (mut slots, mut items) = (0, 0);
        while slots < most && self.row + 1 < self.ends.len() {
            let rest = (self.ends[self.row + 1] - self.ends[self.row]) as usize - self.within;
            let count = rest.min(most - slots);
            let is_first = self.within == 0;
            if is_first {
                repeated.push(0, 1);
            }
            repeated.push(1, count.saturating_sub(usize::from(is_first)));
            defined.push(u32::from(count > 0), count.max(1));
            slots += count.max(1);
            items += count;
            self.within += count;
            if count == rest {
                (self.row, self.within) = (self.row + 1, 0);
            }
        }
        repeated.end();
        defined.end();
        for levels in [repetition, definition] {
            page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            page.extend_from_slice(&levels);
        }
        (slots, items)
    }
}

/// A column chunk in memory: a page of words, and pages of the index of each row's word.
pub struct Chunk {
    sink: TrackedWrite<Vec<u8>>,
    descr: ColumnDescPtr,
    unpacked: usize,
    slots: usize,
}

impl Chunk {
    pub fn new(descr: ColumnDescPtr) -> Chunk {
        Chunk {
            sink: TrackedWrite::new(Vec::new()),
            descr,
            unpacked: 0,
            slots: 0,
        }
    }

    /// Appends a page whose buffer is compressed first.
    fn page(&mut self, page: &[u8], made: impl FnOnce(Bytes) -> Page) -> Result<()> {
        let mut writer = SerializedPageWriter::new(&mut self.sink);
        let page = CompressedPage::new(made(compress(page).into()), page.len());
        self.unpacked += writer.write_page(page)?.uncompressed_size;
        Ok(())
    }

    fn words(&mut self, words: &Words) -> Result<()> {
        self.page(&words.plain, |buf| Page::DictionaryPage {
            buf,
            num_values: words.count as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })
    }

    /// Appends a page of `slots` slots, `items` of which have a word.
    fn indices(
        &mut self,
        page: &mut Vec<u8>,
        (slots, items): (usize, usize),
        width: u32,
        runs: &mut impl Runs,
    ) -> Result<()> {
        page.push(width as u8);
        let mut indices = Hybrid::new(page, width);
        runs.next(items, |word, count| indices.push(word, count));
        indices.end();
        self.data(page, slots, Encoding::RLE_DICTIONARY)?;
        page.clear();
        Ok(())
    }

    fn data(&mut self, page: &[u8], slots: usize, encoding: Encoding) -> Result<()> {
        self.slots += slots;
        self.page(page, |buf| Page::DataPage {
            buf,
            num_values: slots as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    /// The chunk of a column, and what its file says of it; `ends` are those of lists.
    ///
    /// # Errors
    /// Where a page is too large for the format.
    pub fn write(
        mut self,
        words: &Words,
        mut runs: impl Runs,
        ends: Option<&[i64]>,
        rows: usize,
        statistics: Option<Statistics>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        self.words(words)?;
        let start = self.sink.bytes_written();
        // Writers of Parquet use at least one bit.
        let width = width_of(words.count.saturating_sub(1) as u32).max(1);
        let mut page = Vec::new();
        match ends {
            Some(ends) => {
                let (row, within) = (0, 0);
                let mut levels = Levels { ends, row, within };
                while levels.row < rows {
                    let counts = levels.next(PAGE_ROWS, &mut page);
                    self.indices(&mut page, counts, width, &mut runs)?;
                }
            }
            None => {
                for first in (0..rows).step_by(PAGE_ROWS) {
                    let slots = PAGE_ROWS.min(rows - first);
                    self.indices(&mut page, (slots, slots), width, &mut runs)?;
                }
            }
        }
        let encodings = vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
        self.end(encodings, Some(start), rows, statistics)
    }

    /// The chunk of a column of words that are too large for a dictionary: the word of each row.
    ///
    /// # Errors
    /// As [`Chunk::write`].
    pub fn write_plain(
        mut self,
        words: &Words,
        indices: &[i32],
        statistics: Option<Statistics>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let starts = words.starts();
        let (mut page, mut slots) = (Vec::new(), 0);
        for (row, &index) in indices.iter().enumerate() {
            let index = index as usize;
            page.extend_from_slice(&words.plain[starts[index]..starts[index + 1]]);
            slots += 1;
            if page.len() >= PAGE_BYTES || slots == PAGE_ROWS || row + 1 == indices.len() {
                self.data(&page, slots, Encoding::PLAIN)?;
                page.clear();
                slots = 0;
            }
        }
        let encodings = vec![Encoding::PLAIN, Encoding::RLE];
        self.end(encodings, None, indices.len(), statistics)
    }

    /// The chunk, and what its file says of it; `start` is where the pages after the dictionary begin.
    fn end(
        self,
        encodings: Vec<Encoding>,
        start: Option<usize>,
        rows: usize,
        statistics: Option<Statistics>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let bytes_written = self.sink.bytes_written();
        let mut metadata = ColumnChunkMetaData::builder(self.descr)
            .set_compression(PACKED)
            .set_encodings(encodings)
            .set_total_compressed_size(bytes_written as i64)
            .set_total_uncompressed_size(self.unpacked as i64)
            .set_num_values(self.slots as i64)
            .set_dictionary_page_offset(start.map(|_| 0))
            .set_data_page_offset(start.unwrap_or(0) as i64);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes_written as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((Bytes::from(self.sink.into_inner()?), close))
    }
}
