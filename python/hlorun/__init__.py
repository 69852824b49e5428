"""Reads XLA HLO text dumps and runs them on the CPU, NumPy arrays in and out.

import hlorun

module = hlorun.load("dump.txt")
executable = hlorun.compile(module)
outputs = executable(*arrays)
"""

from __future__ import annotations

import os
from typing import Any

from hlorun import _blas, _hlorun
from hlorun._batch import BatchRecord, batch
from hlorun._custom import register_custom_call
from hlorun._hlorun import (
    AssignedValue,
    BufferAllocation,
    BufferAssignment,
    BufferFinding,
    BufferLiveRanges,
    BufferValue,
    CompiledMemoryStats,
    Executable,
    HloComputation,
    HloInstruction,
    HloModule,
    Layout,
    OpMetadata,
    Shape,
    __version__,
    compile,
    load,
    load_buffer_assignment,
    parse,
    parse_buffer_assignment,
)
from hlorun.errors import (
    HloArgumentError,
    HloError,
    HloExecutionError,
    HloParseError,
    HloUnsupportedError,
    HloVerifyError,
    VerifyFinding,
)

__all__ = [
    "AssignedValue",
    "BatchRecord",
    "BufferAllocation",
    "BufferAssignment",
    "BufferFinding",
    "BufferLiveRanges",
    "BufferValue",
    "CompiledMemoryStats",
    "Executable",
    "HloArgumentError",
    "HloComputation",
    "HloError",
    "HloExecutionError",
    "HloInstruction",
    "HloModule",
    "HloParseError",
    "HloUnsupportedError",
    "HloVerifyError",
    "Layout",
    "OpMetadata",
    "Shape",
    "VerifyFinding",
    "__version__",
    "batch",
    "compile",
    "load",
    "load_buffer_assignment",
    "parse",
    "parse_buffer_assignment",
    "register_custom_call",
    "run",
]

# Only the path is handed over: the library is loaded at the first matrix product.
if (_path := _blas.library_path()) is not None:
    _hlorun._set_blas_path(_path)
del _path


def run(module_or_path: HloModule | str | os.PathLike[str], *arrays: Any) -> Any:
    """Compile a module, or the file at a path, and run it once.

    Args:
        module_or_path: A module, or the path of an HLO text file.
        *arrays: One value per parameter of the entry computation.

    Returns:
        One array, or nested tuples of arrays when the root is a tuple.
    """
    module = module_or_path if isinstance(module_or_path, HloModule) else load(module_or_path)
    return compile(module)(*arrays)
