//! The Python module `hlorun._hlorun`: handles on modules, executables and arrays.
//!
//! Comes in: Python calls. Goes out: Python objects that hold an `Arc` and an id, made when
//! touched. Promise: the interpreter lock is released while parsing, compiling and running, and
//! no panic crosses into Python.

mod array;
mod arrow;
mod assignment;
mod attributes;
mod callbacks;
mod computation;
mod constants;
mod coverage;
mod dtype;
mod edit;
mod error;
mod executable;
mod explain;
mod handle;
mod instruction;
mod literal;
mod memory;
mod metadata;
mod module;
mod passes;
mod pjrt;
mod printing;
mod reading;
mod replicas;
mod shape;
mod sharding;
mod source;
mod values;
mod watch;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _hlorun {
    #[pymodule_export]
    use super::array::Memory;
    #[pymodule_export]
    use super::arrow::{_batch_schema, _copy_rows, _read_stored, PyArrowTable, PyTableRows};
    #[pymodule_export]
    use super::assignment::{
        PyAssignedValue, PyBufferAllocation, PyBufferAssignment, PyBufferFinding, PyBufferValue,
        PyLiveRanges, PyMemorySpaceUsage, load_buffer_assignment, parse_buffer_assignment,
    };
    #[pymodule_export]
    use super::callbacks::_register_custom_call;
    #[pymodule_export]
    use super::computation::PyComputation;
    #[pymodule_export]
    use super::edit::{edit, resize, widen};
    #[pymodule_export]
    use super::executable::PyExecutable;
    #[pymodule_export]
    use super::executable::compiling::compile;
    #[pymodule_export]
    use super::instruction::PyInstruction;
    #[pymodule_export]
    use super::memory::PyMemoryStats;
    #[pymodule_export]
    use super::metadata::PyMetadata;
    #[pymodule_export]
    use super::module::{_computation, _set_blas_path, PyHloModule};
    #[pymodule_export]
    use super::passes::PyPassRecord;
    #[pymodule_export]
    use super::pjrt::_set_stablehlo_versions;
    #[pymodule_export]
    use super::reading::{
        _read_stablehlo, _restore, extract, load, load_modules, parse, parse_modules,
    };
    #[pymodule_export]
    use super::replicas::PyNetwork;
    #[pymodule_export]
    use super::shape::{PyLayout, PyShape};
    #[pymodule_export]
    use super::sharding::_tiles;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
