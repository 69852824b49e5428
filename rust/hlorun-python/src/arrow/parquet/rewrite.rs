//! Files of tables that are there: what they say of themselves, and copies of them with fewer rows.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::schema::copy_properties;

/// The values of a column of a row group, with their levels; those are empty where all are the same.
struct Read<T: DataType> {
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

fn read<T: DataType>(group: &dyn RowGroupReader, leaf: usize) -> Result<Read<T>> {
    let mut column = get_typed_column_reader::<T>(group.get_column_reader(leaf)?);
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = usize::try_from(group.metadata().num_rows())?;
    while left > 0 {
        let levels = (Some(&mut definition), Some(&mut repetition));
        let (rows, _, _) = column.read_records(left, levels.0, levels.1, &mut values)?;
        if rows == 0 {
            return Err(ParquetError::EOF(
                "a column ends before its rows".to_owned(),
            ));
        }
        left -= rows;
    }
    Ok(Read {
        values,
        definition,
        repetition,
    })
}

/// Copies the rows of a column that are kept.
fn copy<T: DataType>(
    group: &dyn RowGroupReader,
    leaf: usize,
    kept: &[bool],
    out: &mut SerializedRowGroupWriter<'_, File>,
) -> Result<()> {
    let all = read::<T>(group, leaf)?;
    let most = group.metadata().column(leaf).column_descr().max_def_level();
    let mut some = Read::<T> {
        values: Vec::new(),
        definition: Vec::new(),
        repetition: Vec::new(),
    };
    let slots = all.definition.len().max(all.repetition.len());
    let slots = if slots > 0 { slots } else { all.values.len() };
    let (mut next_row, mut values) = (0, all.values.into_iter());
    for slot in 0..slots {
        let repetition = all.repetition.get(slot);
        next_row += usize::from(repetition.is_none_or(|&level| level == 0));
        let definition = all.definition.get(slot);
        let value = match definition {
            Some(&level) if level < most => None,
            _ => values.next(),
        };
        if kept[next_row - 1] {
            some.values.extend(value);
            some.definition.extend(definition);
            some.repetition.extend(repetition);
        }
    }
    let column = out.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("no such column".to_owned()))?;
    let definition = (!some.definition.is_empty()).then_some(&*some.definition);
    let repetition = (!some.repetition.is_empty()).then_some(&*some.repetition);
    let writer = column.typed::<T>();
    writer.write_batch(&some.values, definition, repetition)?;
    column.close()
}

fn copy_group(
    group: &dyn RowGroupReader,
    is_kept: impl Fn(&[u8]) -> bool,
    out: &mut SerializedFileWriter<File>,
) -> Result<()> {
    let columns = group.metadata().columns();
    let is_path = |leaf: &usize| columns[*leaf].column_path().parts() == ["path"];
    let path = (0..columns.len()).find(is_path);
    let path = path.ok_or_else(|| ParquetError::General("there is no path".to_owned()))?;
    let paths = read::<ByteArrayType>(group, path)?.values;
    let kept: Vec<bool> = paths.iter().map(|path| is_kept(path.data())).collect();
    if !kept.contains(&true) {
        return Ok(());
    }
    let mut out = out.next_row_group()?;
    for (leaf, column) in columns.iter().enumerate() {
        match column.column_type() {
            Physical::BOOLEAN => copy::<BoolType>(group, leaf, &kept, &mut out)?,
            Physical::INT64 => copy::<Int64Type>(group, leaf, &kept, &mut out)?,
            Physical::FLOAT => copy::<FloatType>(group, leaf, &kept, &mut out)?,
            Physical::DOUBLE => copy::<DoubleType>(group, leaf, &kept, &mut out)?,
            Physical::BYTE_ARRAY => copy::<ByteArrayType>(group, leaf, &kept, &mut out)?,
            other => return Err(ParquetError::General(format!("no column has {other}"))),
        }
    }
    out.close()?;
    Ok(())
}

/// Copies a table to `to` with the rows of some files.
///
/// # Errors
/// Where the system does not give or take it, or it is no such table.
pub fn copy_rows(from: File, to: &Path, paths: &HashSet<String>) -> Result<()> {
    let reader = SerializedFileReader::new(from)?;
    let metadata = reader.metadata().file_metadata();
    let schema = metadata.schema_descr().root_schema_ptr();
    let pairs = metadata.key_value_metadata().cloned().unwrap_or_default();
    let properties = copy_properties(metadata.schema_descr(), pairs);
    let mut out = SerializedFileWriter::new(File::create(to)?, schema, Arc::new(properties))?;
    let is_kept = |path: &[u8]| std::str::from_utf8(path).is_ok_and(|path| paths.contains(path));
    for group in 0..reader.num_row_groups() {
        copy_group(&*reader.get_row_group(group)?, is_kept, &mut out)?;
    }
    out.finish()?;
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
        found.ok_or_else(|| ParquetError::General(format!("there is no column {name}")))
    };
    let mut files = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = &*reader.get_row_group(group)?;
        let paths = read::<ByteArrayType>(group, leaf("path")?)?.values;
        let sizes = read::<Int64Type>(group, leaf("file_bytes")?)?.values;
        let times = read::<Int64Type>(group, leaf("modified_ns")?)?.values;
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
