//! The columns of a file, and how its values are written.

use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};

use super::pages::PACKED;
use crate::arrow::ffi::{Column, Table};

/// Most rows of a page, as columns of absent numbers have no bytes that could bound it.
const PAGE_ROWS: usize = 1 << 17;
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
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
}

/// Adds how a column is written. Lists have no extremes, as nobody looks for rows by them.
fn with_column(
    properties: WriterPropertiesBuilder,
    column: &ColumnDescriptor,
) -> WriterPropertiesBuilder {
    let path = column.path().clone();
    let properties = match column.max_rep_level() {
        0 => properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk),
        _ => properties,
    };
    match column.physical_type() {
        Physical::INT64 => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        _ => properties,
    }
}

/// How a file of these columns is written; `metadata` is what it says of itself.
pub fn properties_of(schema: &SchemaDescriptor, metadata: &[(String, String)]) -> WriterProperties {
    let pairs = metadata.iter();
    let pairs = pairs.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let columns = schema.columns().iter();
    let properties = columns.fold(common(pairs.collect()), |properties, column| {
        with_column(properties, column)
    });
    properties.build()
}

/// How a copy of a file is written, whose words and features are looked up again.
pub fn copy_properties(schema: &SchemaDescriptor, metadata: Vec<KeyValue>) -> WriterProperties {
    let columns = schema.columns().iter();
    let properties = columns.fold(common(metadata), |properties, column| {
        let is_word = matches!(
            column.physical_type(),
            Physical::BYTE_ARRAY | Physical::FLOAT
        );
        let path = column.path().clone();
        with_column(properties, column).set_column_dictionary_enabled(path, is_word)
    });
    properties.build()
}
