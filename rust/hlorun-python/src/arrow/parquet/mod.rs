//! `_ParquetWriter`: tables as Parquet files, row group by row group.
//!
//! Comes in: tables of the same columns. Goes out: a file that every reader of Parquet takes: dictionaries of
//! words, plain numbers and texts, pages packed by Snappy. Promise: memory in proportion to one column of one
//! row group; without the interpreter lock. Levels, which readers and general writers handle value by value,
//! are written as runs, which is what makes long lists of features cheap.

mod pages;
mod runs;
mod snappy;
mod statistics;
mod thrift;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use pyo3::prelude::*;

use super::PyArrowTable;
use super::ffi::{Column, Table};
use crate::error::{Result, detached};
use pages::{Chunk, kind_of, leaves};
use thrift::Thrift;

const MAGIC: &[u8] = b"PAR1";
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
const REQUIRED: i32 = 0;
const SNAPPY: i32 = 1;
/// Version of the format that has what is used here.
const FORMAT: i32 = 2;

/// Numbers of what columns mean: in the older form, and as the field of a union.
#[derive(Clone, Copy)]
enum Meaning {
    Text,
    Map,
    List,
}

impl Meaning {
    fn numbers(self) -> (i32, i16) {
        match self {
            Meaning::Text => (0, 1),
            Meaning::Map => (1, 2),
            Meaning::List => (3, 3),
        }
    }
}

/// Writes tables to a Parquet file.
#[pyclass(module = "hlorun", name = "_ParquetWriter")]
pub struct PyParquetWriter {
    inner: Writer,
}

struct Writer {
    file: File,
    at: i64,
    metadata: Vec<(Vec<u8>, Vec<u8>)>,
    /// What the columns are, once there is a table; and their number.
    schema: Thrift,
    nodes: usize,
    columns: usize,
    groups: Vec<Group>,
}

struct Group {
    rows: i64,
    chunks: Vec<Chunk>,
}

#[pymethods]
impl PyParquetWriter {
    /// Begins the file `path`; `metadata` are keys and values that it will have.
    #[new]
    fn new(path: PathBuf, metadata: Vec<(Vec<u8>, Vec<u8>)>) -> PyResult<PyParquetWriter> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        let inner = Writer {
            file,
            at: MAGIC.len() as i64,
            metadata,
            schema: Thrift::default(),
            nodes: 0,
            columns: 0,
            groups: Vec::new(),
        };
        Ok(PyParquetWriter { inner })
    }

    /// Appends the rows of a table as a row group; of a table without rows only its columns count.
    fn write(&mut self, py: Python<'_>, table: &PyArrowTable) -> Result<()> {
        let table = table.table.clone();
        let written = detached(py, || Ok(self.inner.write(&table)))?;
        Ok(written.map_err(PyErr::from)?)
    }

    /// Ends the file, which is none before.
    fn close(&mut self, py: Python<'_>) -> Result<()> {
        let written = detached(py, || Ok(self.inner.finish()))?;
        Ok(written.map_err(PyErr::from)?)
    }
}

impl Writer {
    fn write(&mut self, table: &Table) -> io::Result<()> {
        if self.nodes == 0 {
            self.columns = table.columns.len();
            for (name, column) in &table.columns {
                self.describe(name, column);
            }
        }
        if table.rows() == 0 {
            return Ok(());
        }
        let mut group = Group {
            rows: table.rows() as i64,
            chunks: Vec::new(),
        };
        for (name, column) in &table.columns {
            for leaf in leaves(name, column) {
                let mut out = Vec::new();
                let chunk = leaf.write(&mut out, self.at).ok_or_else(|| {
                    let message = format!("column {name}: a row is too long for Parquet");
                    io::Error::new(io::ErrorKind::FileTooLarge, message)
                })?;
                self.file.write_all(&out)?;
                self.at += out.len() as i64;
                group.chunks.push(chunk);
            }
        }
        self.groups.push(group);
        Ok(())
    }

    fn node(
        &mut self,
        name: &str,
        repetition: i32,
        kind: Option<i32>,
        children: i32,
        meaning: Option<Meaning>,
    ) {
        self.nodes += 1;
        let schema = &mut self.schema;
        schema.begin();
        if let Some(kind) = kind {
            schema.i32(1, kind);
        }
        schema.i32(3, repetition);
        schema.binary(4, name.as_bytes());
        if children > 0 {
            schema.i32(5, children);
        }
        if let Some((older, field)) = meaning.map(Meaning::numbers) {
            schema.i32(6, older);
            schema.structure(10);
            schema.structure(field);
            schema.end();
            schema.end();
        }
        schema.end();
    }

    /// Says what a column is.
    fn describe(&mut self, name: &str, column: &Column) {
        let text = |values: &Column| match values {
            Column::Utf8(..) | Column::Dictionary(..) => Some(Meaning::Text),
            _ => None,
        };
        match column {
            Column::List(_, items) => {
                self.node(name, OPTIONAL, None, 1, Some(Meaning::List));
                self.node("list", REPEATED, None, 1, None);
                self.node("element", OPTIONAL, Some(kind_of(items)), 0, text(items));
            }
            Column::Map(_, pair) => {
                let (keys, values) = &**pair;
                self.node(name, OPTIONAL, None, 1, Some(Meaning::Map));
                self.node("key_value", REPEATED, None, 2, None);
                self.node("key", REQUIRED, Some(kind_of(keys)), 0, text(keys));
                self.node("value", OPTIONAL, Some(kind_of(values)), 0, text(values));
            }
            _ => self.node(name, OPTIONAL, Some(kind_of(column)), 0, text(column)),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut end = Thrift::default();
        end.begin();
        end.i32(1, FORMAT);
        end.structures(2, self.nodes + 1);
        end.begin();
        end.i32(3, REQUIRED);
        end.binary(4, b"schema");
        end.i32(5, self.columns as i32);
        end.end();
        end.bytes.extend_from_slice(&self.schema.bytes);
        end.i64(3, self.groups.iter().map(|group| group.rows).sum());
        end.structures(4, self.groups.len());
        for group in &self.groups {
            write_group(&mut end, group);
        }
        end.structures(5, self.metadata.len());
        for (key, value) in &self.metadata {
            end.begin();
            end.binary(1, key);
            end.binary(2, value);
            end.end();
        }
        end.binary(
            6,
            concat!("hlorun version ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        let leaves = self.groups.first().map_or(0, |group| group.chunks.len());
        if leaves > 0 {
            // The extremes are those of the order that the types have.
            end.structures(7, leaves);
            for _ in 0..leaves {
                end.begin();
                end.structure(1);
                end.end();
                end.end();
            }
        }
        end.end();
        self.file.write_all(&end.bytes)?;
        self.file
            .write_all(&(end.bytes.len() as u32).to_le_bytes())?;
        self.file.write_all(MAGIC)?;
        self.file.flush()
    }
}

fn write_group(end: &mut Thrift, group: &Group) {
    end.begin();
    end.structures(1, group.chunks.len());
    for chunk in &group.chunks {
        end.begin();
        end.i64(2, 0);
        end.structure(3);
        end.i32(1, chunk.kind);
        end.i32s(2, &chunk.encodings);
        end.binaries(3, &chunk.path);
        end.i32(4, SNAPPY);
        end.i64(5, chunk.entries);
        end.i64(6, chunk.unpacked);
        end.i64(7, chunk.packed);
        end.i64(9, chunk.data_at);
        if let Some(at) = chunk.dictionary_at {
            end.i64(11, at);
        }
        if let Some(statistics) = &chunk.statistics {
            end.structure(12);
            end.i64(3, statistics.nulls);
            if let Some((least, most)) = &statistics.extremes {
                end.binary(5, most);
                end.binary(6, least);
            }
            end.end();
        }
        end.end();
        end.end();
    }
    end.i64(2, group.chunks.iter().map(|chunk| chunk.unpacked).sum());
    end.i64(3, group.rows);
    end.end();
}
