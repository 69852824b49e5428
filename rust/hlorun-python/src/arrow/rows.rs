//! `_TableRows`: the rows of all tables of `hlorun.batch`, collected file by file.
//!
//! Comes in: modules and what is known of their files. Goes out: a Parquet file per table. Promise:
//! what a module does not give, for whatever reason, is a typed error in its row.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use hlorun::analysis::buffer_assignment::PlacedBuffers;
use hlorun::analysis::cost::{CostAnalysis, Key, Properties, cost_sums};
use hlorun::analysis::runs::trip_count;
use hlorun::error::HloError;
use hlorun::module::{HloModule, HloOpcode};
use hlorun::types::PrimitiveType;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::columns::{Floats, Schema, TableRows};
use super::graph::{Graphs, feature_names};
use super::instructions::{Instructions, in_order};
use super::parquet::{ParquetFile, Stored, copy_rows, read_stored};
use super::tables::{
    Buffers, Collectives, Computations, CustomCalls, Edges, Modules, opcode_counts,
};
use crate::error::{Error, Result, class_name, detached, guarded};
use crate::handle::{ModuleHandle, SharedModule};
use crate::memory::{place, placed_statistics};
use crate::module::PyHloModule;
use crate::shape::leaf_bytes;

/// Version of the tables: another one where a column changes its meaning or goes.
const VERSION: u32 = 1;

const SCHEMAS: [Schema; 8] = [
    Modules::SCHEMA,
    Computations::SCHEMA,
    Instructions::SCHEMA,
    Edges::SCHEMA,
    Collectives::SCHEMA,
    CustomCalls::SCHEMA,
    Buffers::SCHEMA,
    Graphs::SCHEMA,
];

/// What Python knows of a file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FileFacts {
    path: String,
    file_bytes: i64,
    modified_ns: i64,
    error_stage: String,
    error_kind: String,
    error_message: String,
    compile_seconds: Option<f64>,
    run_seconds: Option<f64>,
    output_nan: Option<i64>,
    output_inf: Option<i64>,
}

/// Rows of the tables of `hlorun.batch`, and the files that they are written to.
#[pyclass(module = "hlorun", name = "_TableRows")]
pub struct PyTableRows {
    rows: Rows,
    /// In the order of [`Rows::tables`].
    files: Vec<ParquetFile>,
}

#[derive(Default)]
struct Rows {
    modules: Modules,
    computations: Option<Computations>,
    instructions: Option<Instructions>,
    edges: Option<Edges>,
    collectives: Option<Collectives>,
    custom_calls: Option<CustomCalls>,
    buffers: Option<Buffers>,
    graphs: Option<Graphs>,
}

/// What the analyses say of a module.
struct Facts<'m> {
    module: &'m ModuleHandle,
    fingerprint: String,
    costs: Option<CostAnalysis>,
    buffers: Option<PlacedBuffers>,
}

#[pymethods]
impl PyTableRows {
    /// Files without rows in a folder; `tables` are those that are wanted, `metadata` is what each says of itself.
    #[new]
    fn new(
        tables: Vec<String>,
        folder: PathBuf,
        metadata: Vec<(String, String)>,
    ) -> Result<PyTableRows> {
        let mut rows = Rows::of(&tables)?;
        let mut files = Vec::new();
        for table in rows.tables() {
            let path = folder.join(format!("{}.parquet", table.schema().0));
            let file = ParquetFile::new(path, &table.take(), &metadata);
            files.push(file.map_err(PyErr::from)?);
        }
        Ok(PyTableRows { rows, files })
    }

    /// Adds a file: its module, where it has one, and what else is known of it. What failed first, as
    /// its row says it; "" where nothing did.
    fn add(
        &mut self,
        py: Python<'_>,
        module: Option<&PyHloModule>,
        facts: FileFacts,
    ) -> Result<String> {
        let handle = module.map(|module| module.handle.clone());
        detached(py, || Ok(self.rows.add_file(handle, facts)))
    }

    /// Bytes that the rows take, about.
    #[getter]
    fn nbytes(&mut self) -> usize {
        self.rows.tables().map(|table| table.bytes()).sum()
    }

    /// Appends the rows to the files, as a row group of each; none are left.
    fn write(&mut self, py: Python<'_>) -> Result<()> {
        if self.files.is_empty() {
            let error = PyValueError::new_err("the tables are closed");
            return Err(Error::Python(error));
        }
        let written = detached(py, || {
            let mut tables = self.rows.tables().zip(&mut self.files);
            Ok(tables.try_for_each(|(table, file)| {
                let rows = table.take();
                let written = file.write(&rows);
                table.put_back(rows);
                written.map_err(|error| (file.path().to_owned(), error))
            }))
        })?;
        written.map_err(|(path, error)| os_error(py, &path, error))
    }

    /// Ends the files.
    fn close(&mut self, py: Python<'_>) -> Result<()> {
        let finished = detached(py, || {
            let mut files = self.files.drain(..);
            Ok(files.try_for_each(|mut file| {
                let finished = file.finish();
                finished.map_err(|error| (file.path().to_owned(), error))
            }))
        })?;
        finished.map_err(|(path, error)| os_error(py, &path, error))
    }

    /// Closes the files, which are not to be finished.
    fn abandon(&mut self) {
        self.files.clear();
    }
}

/// The `OSError` of a file.
fn os_error(py: Python<'_>, path: &Path, error: io::Error) -> Error {
    let Some(number) = error.raw_os_error() else {
        let message = format!("{}: {error}", path.display());
        return Error::Python(PyOSError::new_err(message));
    };
    let text = || {
        py.import("os")?
            .call_method1("strerror", (number,))?
            .extract::<String>()
    };
    Error::Python(match text() {
        Ok(text) => PyOSError::new_err((number, text, path.as_os_str().to_owned())),
        Err(error) => error,
    })
}

/// What a table `modules` has of its files, path, bytes and time each, and what it says of itself.
#[pyfunction]
pub fn _read_stored(py: Python<'_>, path: PathBuf) -> Result<Stored> {
    let stored = detached(py, || Ok(read_stored(&path)))?;
    stored.map_err(|error| os_error(py, &path, error))
}

/// Copies a table with the rows of some files.
#[pyfunction]
pub fn _copy_rows(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    paths: HashSet<String>,
) -> Result<()> {
    let copied = detached(py, || Ok(copy_rows(&source, &target, &paths)))?;
    copied.map_err(|(path, error)| os_error(py, &path, error))
}

impl Rows {
    fn of(tables: &[String]) -> PyResult<Rows> {
        let mut rows = Rows::default();
        for name in tables {
            match name.as_str() {
                "modules" => {}
                "computations" => rows.computations = Some(Computations::default()),
                "instructions" => rows.instructions = Some(Instructions::default()),
                "edges" => rows.edges = Some(Edges::default()),
                "collectives" => rows.collectives = Some(Collectives::default()),
                "custom_calls" => rows.custom_calls = Some(CustomCalls::default()),
                "buffers" => rows.buffers = Some(Buffers::default()),
                "graphs" => rows.graphs = Some(Graphs::default()),
                _ => return Err(PyValueError::new_err(format!("there is no table {name}"))),
            }
        }
        Ok(rows)
    }

    /// All tables that are wanted.
    fn tables(&mut self) -> impl Iterator<Item = &mut dyn TableRows> {
        fn of<T: TableRows>(table: &mut Option<T>) -> Option<&mut dyn TableRows> {
            table.as_mut().map(|table| table as &mut dyn TableRows)
        }
        let tables: [Option<&mut dyn TableRows>; SCHEMAS.len()] = [
            Some(&mut self.modules),
            of(&mut self.computations),
            of(&mut self.instructions),
            of(&mut self.edges),
            of(&mut self.collectives),
            of(&mut self.custom_calls),
            of(&mut self.buffers),
            of(&mut self.graphs),
        ];
        tables.into_iter().flatten()
    }

    fn add_file(&mut self, handle: Option<SharedModule>, mut facts: FileFacts) -> String {
        let Some(shared) = handle else {
            self.modules.add_file(&facts, None);
            return facts.error_message;
        };
        let mut note = |stage: &str, error: HloError| {
            if facts.error_stage.is_empty() {
                facts.error_stage = stage.to_owned();
                facts.error_kind = class_name(&error).to_owned();
                facts.error_message = error.to_string();
            }
        };
        let costs = guarded(|| cost_sums(&shared.module));
        let costs = costs.map_err(|error| note("cost", error)).ok();
        let buffers = guarded(|| place(&shared.module));
        let buffers = buffers.map_err(|error| note("memory", error)).ok();
        let module = Facts {
            module: &shared,
            fingerprint: shared.module.fingerprint(),
            costs,
            buffers,
        };
        let path = &facts.path;
        if let Some(table) = &mut self.computations {
            table.add(&shared, path);
        }
        if let Some(table) = &mut self.instructions {
            table.add(&shared, module.costs.as_ref(), path);
        }
        if let Some(table) = &mut self.edges {
            table.add(&shared.module, path);
        }
        if let Some(table) = &mut self.collectives {
            table.add(&shared, path);
        }
        if let Some(table) = &mut self.custom_calls {
            table.add(&shared, path);
        }
        if let (Some(table), Some(buffers)) = (&mut self.buffers, &module.buffers) {
            table.add(&shared.module, buffers, path);
        }
        if let Some(table) = &mut self.graphs {
            table.add(&shared.module, path, &module.fingerprint);
        }
        self.modules.add_file(&facts, Some(&module));
        facts.error_message
    }
}

impl Modules {
    fn add_file(&mut self, file: &FileFacts, facts: Option<&Facts<'_>>) {
        self.path.push(&file.path);
        self.file_bytes.push(file.file_bytes);
        self.modified_ns.push(file.modified_ns);
        self.error_stage.push(&file.error_stage);
        self.error_kind.push(&file.error_kind);
        self.error_message.push(&file.error_message);
        self.compile_seconds.push(file.compile_seconds);
        self.run_seconds.push(file.run_seconds);
        self.output_nan.push(file.output_nan);
        self.output_inf.push(file.output_inf);
        let module = facts.map(|facts| &*facts.module.module);
        self.header(facts, module);
        self.costs(facts);
        self.memory(facts);
        self.contents(facts, module);
    }

    fn header(&mut self, facts: Option<&Facts<'_>>, module: Option<&HloModule>) {
        let kind = facts.map_or("", |facts| match &facts.module.proto {
            Some(proto) if proto.arguments.is_some() => "snapshot",
            Some(_) => "proto",
            None => "text",
        });
        self.kind.push(kind);
        let name = module.map(|module| module.str(module.name));
        self.name.push(&name.unwrap_or_default());
        let fingerprint = facts.map_or("", |facts| &facts.fingerprint);
        self.fingerprint.push(fingerprint);
        let text = module.map(|module| module.text().source().len() as i64);
        self.text_bytes.push(text);
        let config = module.map(|module| &module.config);
        self.is_scheduled
            .push(config.is_some_and(|config| config.is_scheduled));
        let replicas = config.map(|config| config.replica_count.unwrap_or(1));
        let partitions = config.map(|config| config.num_partitions.unwrap_or(1));
        self.replica_count.push(replicas);
        self.num_partitions.push(partitions);
        self.devices
            .push(replicas.zip(partitions).map(|(r, p)| r.saturating_mul(p)));
    }

    fn costs(&mut self, facts: Option<&Facts<'_>>) {
        const KEYS: [Key; 3] = [Key::Flops, Key::Transcendentals, Key::BytesAccessed];
        let costs = facts.and_then(|facts| facts.costs.as_ref());
        let mut sums = [0.0; 3];
        let mut unknown = 0;
        if let (Some(facts), Some(costs)) = (facts, costs) {
            for instruction in in_order(&facts.module.module) {
                let Some(runs) = facts.module.runs().step(instruction) else {
                    continue;
                };
                let cost: &Properties = costs.instruction(instruction.id);
                unknown += i64::from(cost.get(&Key::BytesAccessed) < 0.0);
                for (sum, key) in sums.iter_mut().zip(&KEYS) {
                    *sum += cost.get(key).max(0.0) * runs as f64;
                }
            }
        }
        let once: [&mut Floats; 3] = [
            &mut self.flops,
            &mut self.transcendentals,
            &mut self.bytes_accessed,
        ];
        for (column, key) in once.into_iter().zip(&KEYS) {
            column.push(costs.map(|costs| costs.total.get(key)));
        }
        let in_a_run: [&mut Floats; 3] = [
            &mut self.run_flops,
            &mut self.run_transcendentals,
            &mut self.run_bytes_accessed,
        ];
        for (column, sum) in in_a_run.into_iter().zip(sums) {
            column.push(costs.map(|_| sum));
        }
        self.unknown_custom_calls.push(costs.map(|_| unknown));
    }

    fn memory(&mut self, facts: Option<&Facts<'_>>) {
        let buffers = facts.and_then(|facts| facts.buffers.as_ref());
        let sums = buffers.map(placed_statistics);
        let sums = sums.as_ref();
        for (column, bytes) in [
            (
                &mut self.argument_bytes,
                sums.map(|s| s.argument_size_in_bytes),
            ),
            (&mut self.output_bytes, sums.map(|s| s.output_size_in_bytes)),
            (&mut self.temp_bytes, sums.map(|s| s.temp_size_in_bytes)),
            (&mut self.alias_bytes, sums.map(|s| s.alias_size_in_bytes)),
            (
                &mut self.peak_bytes,
                sums.and_then(|s| s.peak_memory_in_bytes),
            ),
        ] {
            column.push(bytes.map(|bytes| bytes as i64));
        }
    }

    fn contents(&mut self, facts: Option<&Facts<'_>>, module: Option<&HloModule>) {
        self.computations
            .push(module.map(|module| module.computation_count() as i64));
        self.instructions
            .push(module.map(|module| module.instruction_count() as i64));
        self.opcodes
            .push(module.map_or_else(Vec::new, opcode_counts));
        self.collective_bytes
            .push(facts.map_or_else(Vec::new, |facts| collective_bytes(facts.module)));
        let loops = module.map(|module| {
            let loops = in_order(module).filter(|i| i.opcode() == HloOpcode::While);
            loops.fold((0, 0), |(all, unknown), instruction| {
                let is_unknown = trip_count(instruction).is_none();
                (all + 1, unknown + i64::from(is_unknown))
            })
        });
        self.loops.push(loops.map(|loops| loops.0));
        self.loops_of_unknown_trips.push(loops.map(|loops| loops.1));
    }
}

/// Bytes of the results of collectives in one run, by opcode, those of most first.
fn collective_bytes(shared: &ModuleHandle) -> Vec<(&'static str, i64)> {
    let mut found: Vec<(&'static str, i64)> = Vec::new();
    for instruction in in_order(&shared.module) {
        let Some(opcode) = instruction.opcode().collective() else {
            continue;
        };
        let runs = shared.runs().computation(instruction.computation());
        let bytes = leaf_bytes(shared, instruction.collective_shape()).unwrap_or(0) as i64;
        let bytes = bytes.saturating_mul(runs.unwrap_or(0) as i64);
        match found.iter_mut().find(|(name, _)| *name == opcode.name()) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => found.push((opcode.name(), bytes)),
        }
    }
    found.sort_by_key(|(_, bytes)| -bytes);
    found
}

/// The tables of `hlorun.batch`: version, names, columns, and what numbers in them stand for.
#[pyfunction]
pub fn _batch_schema(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for (name, about, columns) in SCHEMAS {
        let made = PyDict::new(py);
        made.set_item("about", about.trim())?;
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, kind, doc)| (*name, *kind, doc.trim()))
            .collect();
        made.set_item("columns", columns)?;
        tables.set_item(name, made)?;
    }
    let schema = PyDict::new(py);
    schema.set_item("version", VERSION)?;
    schema.set_item("tables", tables)?;
    let opcodes = HloOpcode::all().chain([HloOpcode::Unknown]);
    schema.set_item("opcodes", opcodes.map(HloOpcode::name).collect::<Vec<_>>())?;
    let types = PrimitiveType::all().map(PrimitiveType::name);
    schema.set_item("element_types", types.collect::<Vec<_>>())?;
    schema.set_item("features", feature_names())?;
    Ok(schema)
}
