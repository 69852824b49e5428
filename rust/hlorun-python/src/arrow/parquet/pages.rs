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

/// Most slots of a page.
const PAGE_SLOTS: usize = 1 << 17;

/// What a column is packed with: zstd packs better and takes longer.
pub const PACKED: Compression = Compression::LZ4_RAW;

/// Words that differ, as `PLAIN` has them, and their number.
pub struct Words {
    pub plain: Vec<u8>,
    pub count: usize,
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

/// A column chunk in memory: a page of words, and pages that say which of them each row is.
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

    /// Appends a page whose buffer is packed first.
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
    fn places(
        &mut self,
        page: &mut Vec<u8>,
        (slots, items): (usize, usize),
        width: u32,
        runs: &mut impl Runs,
    ) -> Result<()> {
        page.push(width as u8);
        let mut places = Hybrid::new(page, width);
        runs.next(items, |word, count| places.push(word, count));
        places.end();
        self.slots += slots;
        self.page(page, |buf| Page::DataPage {
            buf,
            num_values: slots as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        page.clear();
        Ok(())
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
        // One word alone takes a bit, too, as readers expect it.
        let width = width_of(words.count.saturating_sub(1) as u32).max(1);
        let mut page = Vec::new();
        match ends {
            Some(ends) => {
                let (row, within) = (0, 0);
                let mut levels = Levels { ends, row, within };
                while levels.row < rows {
                    let counts = levels.next(PAGE_SLOTS, &mut page);
                    self.places(&mut page, counts, width, &mut runs)?;
                }
            }
            None => {
                for first in (0..rows).step_by(PAGE_SLOTS) {
                    let slots = PAGE_SLOTS.min(rows - first);
                    self.places(&mut page, (slots, slots), width, &mut runs)?;
                }
            }
        }
        let bytes_written = self.sink.bytes_written();
        let encodings = vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
        let mut metadata = ColumnChunkMetaData::builder(self.descr)
            .set_compression(PACKED)
            .set_encodings(encodings)
            .set_total_compressed_size(bytes_written as i64)
            .set_total_uncompressed_size(self.unpacked as i64)
            .set_num_values(self.slots as i64)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(start as i64);
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
