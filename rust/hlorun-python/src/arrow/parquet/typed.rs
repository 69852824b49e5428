//! Columns of numbers, truth values and texts, through the writers of the library.

use std::borrow::Cow;
use std::fs::File;

use bytes::Bytes;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;

use crate::arrow::ffi::Column;

type Group<'g> = SerializedRowGroupWriter<'g, File>;

/// Appends a column of values with the levels of its slots.
///
/// # Errors
/// Where the system does not take it.
pub fn append<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) -> Result<()> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("no such column".to_owned()))?;
    column
        .typed::<T>()
        .write_batch(values, definition, repetition)?;
    column.close()
}

/// The values of rows that have one, and the levels that say which.
fn present<'c, T: Copy>(values: &'c [T], valid: Option<&[u8]>) -> (Cow<'c, [T]>, Vec<i16>) {
    let Some(valid) = valid else {
        return (Cow::Borrowed(values), vec![1; values.len()]);
    };
    let levels = (0..values.len()).map(|row| i16::from(valid[row / 8] >> (row % 8) & 1));
    let levels: Vec<i16> = levels.collect();
    let rows = values.iter().zip(&levels);
    let there = rows
        .filter(|(_, level)| **level > 0)
        .map(|(value, _)| *value);
    (there.collect(), levels)
}

fn texts(ends: &[i64], data: &[u8]) -> Vec<ByteArray> {
    let data = Bytes::copy_from_slice(data);
    let rows = ends.windows(2);
    rows.map(|end| ByteArray::from(data.slice(end[0] as usize..end[1] as usize)))
        .collect()
}

/// The levels of lists whose rows have `counts` items; those of an item are `there` and 1 or 0.
fn list_levels(counts: impl Iterator<Item = usize>) -> (Vec<i16>, Vec<i16>) {
    let (mut definition, mut repetition) = (Vec::new(), Vec::new());
    for count in counts {
        let slots = definition.len() + count.max(1);
        definition.resize(slots, i16::from(count > 0));
        repetition.push(0);
        repetition.resize(slots, 1);
    }
    (definition, repetition)
}

/// Appends a column of a value per row.
///
/// # Errors
/// Where the system does not take it.
pub fn write_column(group: &mut Group<'_>, column: &Column) -> Result<()> {
    match column {
        Column::Int64(values, valid) => {
            let (values, levels) = present(values, valid.as_deref());
            append::<Int64Type>(group, &values, Some(&levels), None)
        }
        Column::Float64(values, valid) => {
            let (values, levels) = present(values, valid.as_deref());
            append::<DoubleType>(group, &values, Some(&levels), None)
        }
        Column::Bool(bits, rows) => {
            let rows = (0..*rows).map(|row| bits[row / 8] >> (row % 8) & 1 == 1);
            append::<BoolType>(group, &rows.collect::<Vec<_>>(), None, None)
        }
        Column::Utf8(ends, data) => append::<ByteArrayType>(group, &texts(ends, data), None, None),
        _ => unreachable!("lists and words have ways of their own"),
    }
}

/// Appends a column of lists, the end of row `i` of which is entry `i + 1`.
///
/// # Errors
/// As [`write_column`].
pub fn write_list(group: &mut Group<'_>, ends: &[i64], items: &Column) -> Result<()> {
    let (definition, repetition) =
        list_levels(ends.windows(2).map(|end| (end[1] - end[0]) as usize));
    let levels = (Some(&*definition), Some(&*repetition));
    match items {
        Column::Int64(values, None) => append::<Int64Type>(group, values, levels.0, levels.1),
        Column::Utf8(ends, data) => {
            append::<ByteArrayType>(group, &texts(ends, data), levels.0, levels.1)
        }
        _ => unreachable!("lists hold whole numbers, texts or features"),
    }
}

/// Appends the two columns of maps from texts to whole numbers, as [`write_list`].
///
/// # Errors
/// As [`write_column`].
pub fn write_map(group: &mut Group<'_>, ends: &[i32], entries: &(Column, Column)) -> Result<()> {
    let (mut definition, repetition) =
        list_levels(ends.windows(2).map(|end| (end[1] - end[0]) as usize));
    let (Column::Utf8(ends, data), Column::Int64(values, None)) = entries else {
        unreachable!("maps are from texts to whole numbers");
    };
    append::<ByteArrayType>(
        group,
        &texts(ends, data),
        Some(&definition),
        Some(&repetition),
    )?;
    // The value of an entry may be absent by the schema, so that one that is there is a level deeper.
    definition.iter_mut().for_each(|level| *level *= 2);
    append::<Int64Type>(group, values, Some(&definition), Some(&repetition))
}
