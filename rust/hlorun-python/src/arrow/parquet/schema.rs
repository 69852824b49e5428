//! The columns of a file, and how its values are written.

use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};

use super::pages::{PACKED, PAGE_ROWS};
use crate::arrow::ffi::{Column, Table};

/// Rows between looks at the size of a page.
const BATCH_ROWS: usize = 1 << 12;

fn leaf(name: &str, repetition: Repetition, column: &Column) -> Result<TypePtr> {
    let (physical, logical) = match column {
        Column::Bool(..) => (Physical::BOOLEAN, None),
        Column::Int64(..) => (Physical::INT64, None),
        Column::Float64(..) => (Physical::DOUBLE, None),
        Column::Repeats(..) => (Physical::FLOAT, None),
        Column::Utf8(..) | Column::Dictionary(..) => {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        }
        Column::List(..) | Column::Map(..) => unreachable!("lists are not nested"),
    };
    let leaf = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical);
    Ok(Arc::new(leaf.build()?))
}

fn group(
    name: &str,
    repetition: Repetition,
    logical: Option<LogicalType>,
    fields: Vec<TypePtr>,
) -> Result<TypePtr> {
    let group = Type::group_type_builder(name)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_fields(fields);
    Ok(Arc::new(group.build()?))
}

fn field(name: &str, column: &Column) -> Result<TypePtr> {
    match column {
        Column::List(_, items) => {
            let item = leaf("element", Repetition::REQUIRED, items)?;
            let list = group("list", Repetition::REPEATED, None, vec![item])?;
            group(
                name,
                Repetition::REQUIRED,
                Some(LogicalType::List),
                vec![list],
            )
        }
        Column::Map(_, entries) => {
            let key = leaf("key", Repetition::REQUIRED, &entries.0)?;
            let value = leaf("value", Repetition::OPTIONAL, &entries.1)?;
            let entry = group("key_value", Repetition::REPEATED, None, vec![key, value])?;
            group(
                name,
                Repetition::REQUIRED,
                Some(LogicalType::Map),
                vec![entry],
            )
        }
        Column::Int64(..) | Column::Float64(..) => leaf(name, Repetition::OPTIONAL, column),
        _ => leaf(name, Repetition::REQUIRED, column),
    }
}

/// Of the columns of a table.
///
/// # Errors
/// None for tables of this crate.
pub fn schema_of(table: &Table) -> Result<TypePtr> {
    let columns = table.columns.iter();
    let fields = columns.map(|(name, column)| field(name, column));
    let schema = Type::group_type_builder("schema").with_fields(fields.collect::<Result<_>>()?);
    Ok(Arc::new(schema.build()?))
}

/// What all files are written with.
fn common(metadata: Vec<KeyValue>) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("hlorun version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata))
        .set_compression(PACKED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_statistics_truncate_length(None)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
}

/// Whether row groups have the minimum and maximum of a column; `has_words` says that it is dictionary-encoded.
/// Nobody looks for rows by items of lists or by opcodes and names.
pub fn has_statistics(column: &ColumnDescriptor, has_words: bool) -> bool {
    column.max_rep_level() == 0 && (!has_words || column.path().parts() == ["path"])
}

/// How columns are written, the dictionaries of those that have words by the library.
fn properties(
    schema: &SchemaDescriptor,
    metadata: Vec<KeyValue>,
    has_words: impl Fn(usize) -> bool,
) -> WriterProperties {
    let mut properties = common(metadata);
    for (leaf, column) in schema.columns().iter().enumerate() {
        let (path, has_words) = (column.path().clone(), has_words(leaf));
        if has_statistics(column, has_words) {
            properties =
                properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if column.physical_type() == Physical::INT64 {
            properties =
                properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        properties = properties.set_column_dictionary_enabled(path, has_words);
    }
    properties.build()
}

/// How a file of these columns is written; `metadata` is what it says of itself.
pub fn properties_of(schema: &SchemaDescriptor, metadata: &[(String, String)]) -> WriterProperties {
    let pairs = metadata.iter();
    let pairs = pairs.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    // Columns that have words are pages already when the library gets them.
    properties(schema, pairs.collect(), |_| false)
}

/// How a copy of a file is written: columns that have words have them in the copy.
pub fn copy_properties(source: &ParquetMetaData) -> WriterProperties {
    let file = source.file_metadata();
    let metadata = file.key_value_metadata().cloned().unwrap_or_default();
    let is_dictionary = |column: &ColumnChunkMetaData| column.dictionary_page_offset().is_some();
    let has_words = |leaf| {
        let mut groups = source.row_groups().iter();
        groups.any(|group| group.columns().get(leaf).is_some_and(is_dictionary))
    };
    properties(file.schema_descr(), metadata, has_words)
}
