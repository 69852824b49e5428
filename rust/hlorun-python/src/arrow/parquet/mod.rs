//! Parquet files of tables, row group by row group.
//!
//! Comes in: tables of the same columns. Goes out: a Parquet file. Promise: memory in proportion to a row
//! group; an unfinished file has no footer, so readers refuse it.

mod hybrid;
mod pages;
mod rewrite;
mod schema;
mod typed;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescriptor, TypePtr};

use super::ffi::{Column, Table};
use crate::error::panic_message;
use pages::{Chunk, DICTIONARY_BYTES, Repeats, Rows, Words};
use rewrite::CopyError;
pub use rewrite::Stored;
use schema::{has_statistics, properties_of, schema_of};
use typed::{write_column, write_list, write_map};

/// A file in the making.
pub struct ParquetFile {
    path: PathBuf,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    /// None before the first rows.
    writer: Option<SerializedFileWriter<File>>,
}

impl ParquetFile {
    /// A file for tables with the columns of `table`; `metadata` is what it says of itself.
    ///
    /// # Errors
    /// None for tables of this crate.
    pub fn new(
        path: PathBuf,
        table: &Table,
        metadata: &[(String, String)],
    ) -> io::Result<ParquetFile> {
        let schema = schema_of(table).map_err(of_system)?;
        let columns = SchemaDescriptor::new(schema.clone());
        Ok(ParquetFile {
            path,
            schema,
            properties: Arc::new(properties_of(&columns, metadata)),
            writer: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&mut self) -> Result<&mut SerializedFileWriter<File>> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let file = File::create(&self.path)?;
                SerializedFileWriter::new(file, self.schema.clone(), self.properties.clone())?
            }
        };
        Ok(self.writer.insert(writer))
    }

    /// Appends the rows of a table as a row group; nothing where there are none.
    ///
    /// # Errors
    /// Where the system does not take them.
    pub fn write(&mut self, table: &Table) -> io::Result<()> {
        if table.rows() == 0 {
            return Ok(());
        }
        let writer = self.open().map_err(of_system)?;
        write_group(writer, table).map_err(of_system)
    }

    /// Ends the file with what it says of itself.
    ///
    /// # Errors
    /// As [`ParquetFile::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        let finished = self.open().and_then(SerializedFileWriter::finish);
        finished.map(|_| ()).map_err(of_system)
    }
}

/// [`rewrite::copy_rows`] with errors of the system, and the file at fault.
///
/// # Errors
/// Where the system does not give or take the table, or it is none.
pub fn copy_rows(
    from: &Path,
    to: &Path,
    paths: &HashSet<String>,
) -> std::result::Result<(), (PathBuf, io::Error)> {
    let source = |error| (from.to_owned(), error);
    let file = File::open(from).map_err(source)?;
    let copied = caught(|| Ok(rewrite::copy_rows(&file, to, paths))).map_err(source)?;
    copied.map_err(|error| match error {
        CopyError::Source(error) => source(of_system(error)),
        CopyError::Target(error) => (to.to_owned(), of_system(error)),
    })
}

/// [`rewrite::read_stored`] with errors of the system.
///
/// # Errors
/// As [`copy_rows`].
pub fn read_stored(path: &Path) -> io::Result<Stored> {
    caught(|| rewrite::read_stored(path).map_err(of_system))
}

/// Runs `work` on a file of others: the library panics at some that are damaged.
fn caught<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // What `work` touches is read only or given up after it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let message = panic_message(payload.as_ref());
        Err(io::Error::other(format!("the table is damaged: {message}")))
    })
}

/// The error of the operating system inside, where there is one.
fn of_system(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}

fn write_group(writer: &mut SerializedFileWriter<File>, table: &Table) -> Result<()> {
    let rows = table.rows();
    let columns = writer.schema_descr().columns().to_vec();
    let mut group = writer.next_row_group()?;
    let mut leaf = 0;
    for (_, column) in &table.columns {
        match column {
            Column::Dictionary(indices, texts) => {
                let words = words_of(texts);
                let statistics = has_statistics(&columns[leaf], true);
                let statistics = statistics.then(|| statistics_of(indices, texts));
                let chunk = Chunk::new(columns[leaf].clone());
                let (bytes, close) = if words.plain.len() > DICTIONARY_BYTES {
                    chunk.write_plain(&words, indices, statistics)?
                } else {
                    chunk.write(&words, Rows(indices), None, rows, statistics)?
                };
                group.append_column(&bytes, close)?;
            }
            Column::List(ends, items) => match &**items {
                Column::Repeats(numbers, runs, _) => {
                    let words = Words {
                        plain: numbers.iter().flat_map(|n| n.to_le_bytes()).collect(),
                        count: numbers.len(),
                    };
                    let runs = Repeats::new(runs);
                    let chunk = Chunk::new(columns[leaf].clone());
                    let (bytes, close) = chunk.write(&words, runs, Some(ends), rows, None)?;
                    group.append_column(&bytes, close)?;
                }
                items => write_list(&mut group, ends, items)?,
            },
            Column::Map(ends, entries) => {
                write_map(&mut group, ends, entries)?;
                leaf += 1;
            }
            _ => write_column(&mut group, column)?,
        }
        leaf += 1;
    }
    group.close()?;
    Ok(())
}

/// The words of a column of texts.
fn words_of(texts: &Column) -> Words {
    let Column::Utf8(ends, data) = texts else {
        unreachable!("words are texts");
    };
    let mut plain = Vec::with_capacity(data.len() + 4 * ends.len());
    for end in ends.windows(2) {
        let text = &data[end[0] as usize..end[1] as usize];
        plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
        plain.extend_from_slice(text);
    }
    Words {
        plain,
        count: ends.len() - 1,
    }
}

/// The minimum and maximum of the words that rows have.
fn statistics_of(indices: &[i32], texts: &Column) -> Statistics {
    let Column::Utf8(ends, data) = texts else {
        unreachable!("words are texts");
    };
    let mut used = vec![false; ends.len() - 1];
    indices
        .iter()
        .for_each(|&index| used[index as usize] = true);
    let text = |word: usize| &data[ends[word] as usize..ends[word + 1] as usize];
    let used = || (0..used.len()).filter(|&word| used[word]).map(text);
    let extreme = |text: Option<&[u8]>| text.map(|text| ByteArray::from(text.to_vec()));
    Statistics::byte_array(
        extreme(used().min()),
        extreme(used().max()),
        None,
        Some(0),
        false,
    )
}
