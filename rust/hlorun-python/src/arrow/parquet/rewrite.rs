//! Files of tables that are there: what they say of themselves, and copies of them with fewer rows.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::schema::copy_properties;
use super::typed::append;

/// Why a table is not copied, and which file is at fault.
pub enum CopyError {
    Source(ParquetError),
    Target(ParquetError),
}

/// The values of a column of a row group, with their levels; those are empty where all are the same.
struct Read<T: DataType> {
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("the table is damaged: {what}"))
}

/// Refuses what the library is built without.
fn check_compression(column: &ColumnChunkMetaData) -> Result<()> {
    match column.compression() {
        Compression::UNCOMPRESSED | Compression::LZ4 | Compression::LZ4_RAW => Ok(()),
        other => {
            let name = other.to_string().to_lowercase();
            let name = name.split('(').next().unwrap_or_default();
            Err(ParquetError::General(format!(
                "packed with {name}, which hlorun does not read; make the tables again"
            )))
        }
    }
}

fn read<T: DataType>(group: &dyn RowGroupReader, leaf: usize) -> Result<Read<T>> {
    check_compression(group.metadata().column(leaf))?;
    let mut column = get_typed_column_reader::<T>(group.get_column_reader(leaf)?);
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = usize::try_from(group.metadata().num_rows())?;
    while left > 0 {
        let levels = (Some(&mut definition), Some(&mut repetition));
        let (rows, _, _) = column.read_records(left, levels.0, levels.1, &mut values)?;
        if rows == 0 {
            return Err(damaged("a column ends before its rows"));
        }
        left = left.saturating_sub(rows);
    }
    Ok(Read {
        values,
        definition,
        repetition,
    })
}

/// The values of a column all rows of which have one.
fn read_full<T: DataType>(group: &dyn RowGroupReader, leaf: usize) -> Result<Vec<T::T>> {
    let values = read::<T>(group, leaf)?.values;
    if values.len() != usize::try_from(group.metadata().num_rows())? {
        return Err(damaged("rows have no path, size or time"));
    }
    Ok(values)
}

/// The slots of the rows that are kept.
fn filtered<T: DataType>(all: Read<T>, most: i16, kept: &[bool]) -> Result<Read<T>> {
    let mut some = Read::<T> {
        values: Vec::new(),
        definition: Vec::new(),
        repetition: Vec::new(),
    };
    let slots = all.definition.len().max(all.repetition.len());
    let slots = if slots > 0 { slots } else { all.values.len() };
    let mut rows = kept.iter();
    let mut is_kept = None;
    let mut values = all.values.into_iter();
    for slot in 0..slots {
        let repetition = all.repetition.get(slot);
        if repetition.is_none_or(|&level| level == 0) {
            is_kept = rows.next();
        }
        let definition = all.definition.get(slot);
        let value = match definition {
            Some(&level) if level < most => None,
            _ => Some(values.next().ok_or_else(|| damaged("values are missing"))?),
        };
        if *is_kept.ok_or_else(|| damaged("levels do not fit the rows"))? {
            some.values.extend(value);
            some.definition.extend(definition);
            some.repetition.extend(repetition);
        }
    }
    Ok(some)
}

/// Copies the rows of a column that are kept.
fn copy_some<T: DataType>(
    group: &dyn RowGroupReader,
    leaf: usize,
    kept: &[bool],
    out: &mut SerializedRowGroupWriter<'_, File>,
) -> std::result::Result<(), CopyError> {
    let most = group.metadata().column(leaf).column_descr().max_def_level();
    let some = read::<T>(group, leaf).and_then(|all| filtered(all, most, kept));
    let some = some.map_err(CopyError::Source)?;
    let definition = (!some.definition.is_empty()).then_some(&*some.definition);
    let repetition = (!some.repetition.is_empty()).then_some(&*some.repetition);
    append::<T>(out, &some.values, definition, repetition).map_err(CopyError::Target)
}

/// The bytes of a column chunk, and its metadata with offsets in them.
fn chunk_of(from: &File, column: &ColumnChunkMetaData) -> Result<(Bytes, ColumnChunkMetaData)> {
    let (start, length) = column.byte_range();
    // Checked first, as the memory is taken before the bytes are read.
    let end = start.checked_add(length);
    if end.is_none_or(|end| end > from.metadata().map_or(0, |file| file.len())) {
        return Err(damaged("a column ends after the file"));
    }
    let bytes = from.get_bytes(start, usize::try_from(length)?)?;
    let data = column.data_page_offset().checked_sub_unsigned(start);
    let metadata = column.clone().into_builder();
    let metadata = metadata
        .set_dictionary_page_offset(column.dictionary_page_offset().map(|_| 0))
        .set_data_page_offset(data.ok_or_else(|| damaged("a page has no offset"))?);
    Ok((bytes, metadata.build()?))
}

/// Copies a row group as it is, page by page.
fn copy_all(
    from: &File,
    group: &dyn RowGroupReader,
    out: &mut SerializedRowGroupWriter<'_, File>,
) -> std::result::Result<(), CopyError> {
    for column in group.metadata().columns() {
        let (bytes, metadata) = chunk_of(from, column).map_err(CopyError::Source)?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: group.metadata().num_rows() as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let copied = out.append_column(&bytes, close);
        copied.map_err(CopyError::Target)?;
    }
    Ok(())
}

/// Which rows of a row group are kept.
fn kept_of(group: &dyn RowGroupReader, paths: &HashSet<String>) -> Result<Vec<bool>> {
    let columns = group.metadata().columns();
    let is_path = |leaf: &usize| columns[*leaf].column_path().parts() == ["path"];
    let path = (0..columns.len()).find(is_path);
    let path = path.ok_or_else(|| damaged("there is no column path"))?;
    let is_kept = |path: &[u8]| std::str::from_utf8(path).is_ok_and(|path| paths.contains(path));
    let rows = read_full::<ByteArrayType>(group, path)?;
    Ok(rows.iter().map(|path| is_kept(path.data())).collect())
}

fn copy_group(
    from: &File,
    group: &dyn RowGroupReader,
    paths: &HashSet<String>,
    out: &mut SerializedFileWriter<File>,
) -> std::result::Result<(), CopyError> {
    let kept = kept_of(group, paths).map_err(CopyError::Source)?;
    if !kept.contains(&true) {
        return Ok(());
    }
    let mut out = out.next_row_group().map_err(CopyError::Target)?;
    if !kept.contains(&false) {
        copy_all(from, group, &mut out)?;
    } else {
        for (leaf, column) in group.metadata().columns().iter().enumerate() {
            match column.column_type() {
                Physical::BOOLEAN => copy_some::<BoolType>(group, leaf, &kept, &mut out)?,
                Physical::INT64 => copy_some::<Int64Type>(group, leaf, &kept, &mut out)?,
                Physical::FLOAT => copy_some::<FloatType>(group, leaf, &kept, &mut out)?,
                Physical::DOUBLE => copy_some::<DoubleType>(group, leaf, &kept, &mut out)?,
                Physical::BYTE_ARRAY => copy_some::<ByteArrayType>(group, leaf, &kept, &mut out)?,
                other => {
                    let error = ParquetError::General(format!("no column has {other}"));
                    return Err(CopyError::Source(error));
                }
            }
        }
    }
    out.close().map_err(CopyError::Target)?;
    Ok(())
}

/// Copies a table to `to` with the rows of some files. Row groups that are kept whole are copied as bytes.
///
/// # Errors
/// Where a file cannot be read or written, or the source is no such table.
pub fn copy_rows(
    from: &File,
    to: &Path,
    paths: &HashSet<String>,
) -> std::result::Result<(), CopyError> {
    let copy = from.try_clone().map_err(ParquetError::from);
    let reader = copy.and_then(SerializedFileReader::new);
    let reader = reader.map_err(CopyError::Source)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema_descr().root_schema_ptr();
    let properties = Arc::new(copy_properties(metadata));
    let file = File::create(to).map_err(|error| CopyError::Target(error.into()))?;
    let out = SerializedFileWriter::new(file, schema, properties);
    let mut out = out.map_err(CopyError::Target)?;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(CopyError::Source)?;
        copy_group(from, &*group, paths, &mut out)?;
    }
    out.finish().map_err(CopyError::Target)?;
    Ok(())
}

/// Path, bytes and time of each file that the table `modules` has a row of, and what the table says of itself.
pub type Stored = (Vec<(String, i64, i64)>, Vec<(String, String)>);

/// Reads what a table `modules` says of its files.
///
/// # Errors
/// As [`copy_rows`].
pub fn read_stored(path: &Path) -> Result<Stored> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().cloned().unwrap_or_default();
    let pairs = pairs.into_iter();
    let pairs = pairs.map(|pair| (pair.key, pair.value.unwrap_or_default()));
    let leaves = metadata.schema_descr().columns();
    let leaf = |name: &str| {
        let found = leaves.iter().position(|leaf| leaf.path().parts() == [name]);
        found.ok_or_else(|| damaged(&format!("there is no column {name}")))
    };
    let mut files = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = &*reader.get_row_group(group)?;
        let paths = read_full::<ByteArrayType>(group, leaf("path")?)?;
        let sizes = read_full::<Int64Type>(group, leaf("file_bytes")?)?;
        let times = read_full::<Int64Type>(group, leaf("modified_ns")?)?;
        for ((path, size), time) in paths.iter().zip(sizes).zip(times) {
            files.push((
                String::from_utf8_lossy(path.data()).into_owned(),
                size,
                time,
            ));
        }
    }
    Ok((files, pairs.collect()))
}
