"""Reads XLA HLO text dumps and runs them on the CPU, NumPy arrays in and out.

import hlorun

module = hlorun.load("dump.txt")
executable = hlorun.compile(module)
outputs = executable(*arrays)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hlorun import _blas, _hlorun
from hlorun._custom import register_custom_call
from hlorun._hlorun import (
    ArrowTable,
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
    MemorySpaceUsage,
    OpMetadata,
    PassRecord,
    Shape,
    __version__,
    compile,
    extract,
    load,
    load_buffer_assignment,
    load_modules,
    parse,
    parse_buffer_assignment,
    parse_modules,
)
from hlorun._records import Alias, Donor, ModuleWarning, StackFrame
from hlorun.errors import (
    HloArgumentError,
    HloError,
    HloExecutionError,
    HloParseError,
    HloTimeoutError,
    HloUnsupportedError,
    HloVerifyError,
    VerifyFinding,
)

if TYPE_CHECKING:
    from hlorun._batch import BatchRecord, batch, batch_schema
    from hlorun._scan import DumpFolder, DumpModule, DumpStage, scan
    from hlorun._smith import mutate, smith
    from hlorun.find.bisection import Bisection, bisect
    from hlorun.find.comparison import Comparison, Match, compare
    from hlorun.find.devices import DeviceComparison, compare_devices
    from hlorun.find.gap import Gap
    from hlorun.find.nan import NanReport, Origin, find_nan
    from hlorun.find.reduction import Reduction, reduce
    from hlorun.report.collective_reason import CollectiveReason, ShardedValue
    from hlorun.report.collectives import Collective, Collectives, KindOfCollective, collectives
    from hlorun.report.cost import Cost, CostGroup, cost
    from hlorun.report.devices import Device
    from hlorun.report.diff import Diff, diff
    from hlorun.report.graph import Graph, graph
    from hlorun.report.planned import Rates
    from hlorun.report.ranks import RankDiff, RankGroup, diff_ranks
    from hlorun.report.result import Place
    from hlorun.report.roofline import Roofline, RooflineGroup, RooflineStep, roofline
    from hlorun.report.summary import Summary, summary
    from hlorun.report.trace import TracedValue, TraceReport, trace
    from hlorun.report.what_if import MemoryChange, WhatIf, memory_what_if
    from hlorun.tables.drive import BatchTables
    from hlorun.tables.graphs import ModuleGraph, graphs

__all__ = [
    "Alias",
    "ArrowTable",
    "AssignedValue",
    "BatchRecord",
    "BatchTables",
    "Bisection",
    "BufferAllocation",
    "BufferAssignment",
    "BufferFinding",
    "BufferLiveRanges",
    "BufferValue",
    "Collective",
    "CollectiveReason",
    "Collectives",
    "Comparison",
    "CompiledMemoryStats",
    "Cost",
    "CostGroup",
    "Device",
    "DeviceComparison",
    "Diff",
    "Donor",
    "DumpFolder",
    "DumpModule",
    "DumpStage",
    "Executable",
    "Gap",
    "Graph",
    "HloArgumentError",
    "HloComputation",
    "HloError",
    "HloExecutionError",
    "HloInstruction",
    "HloModule",
    "HloParseError",
    "HloTimeoutError",
    "HloUnsupportedError",
    "HloVerifyError",
    "KindOfCollective",
    "Layout",
    "Match",
    "MemoryChange",
    "MemorySpaceUsage",
    "ModuleGraph",
    "ModuleWarning",
    "NanReport",
    "OpMetadata",
    "Origin",
    "PassRecord",
    "Place",
    "RankDiff",
    "RankGroup",
    "Rates",
    "Reduction",
    "Roofline",
    "RooflineGroup",
    "RooflineStep",
    "Shape",
    "ShardedValue",
    "StackFrame",
    "Summary",
    "TraceReport",
    "TracedValue",
    "VerifyFinding",
    "WhatIf",
    "__version__",
    "batch",
    "batch_schema",
    "bisect",
    "collectives",
    "compare",
    "compare_devices",
    "compile",
    "cost",
    "diff",
    "diff_ranks",
    "extract",
    "find_nan",
    "graph",
    "graphs",
    "load",
    "load_buffer_assignment",
    "load_modules",
    "make_inputs",
    "memory_what_if",
    "mutate",
    "parse",
    "parse_buffer_assignment",
    "parse_modules",
    "reduce",
    "register_custom_call",
    "roofline",
    "run",
    "scan",
    "smith",
    "summary",
    "trace",
]

# The tools need NumPy or parts of the standard library that are slow to import: they are loaded when they are
# asked for.
_TOOLS = {
    "BatchRecord": "hlorun._batch",
    "batch": "hlorun._batch",
    "batch_schema": "hlorun._batch",
    "DumpFolder": "hlorun._scan",
    "DumpModule": "hlorun._scan",
    "DumpStage": "hlorun._scan",
    "scan": "hlorun._scan",
    "BatchTables": "hlorun.tables.drive",
    "ModuleGraph": "hlorun.tables.graphs",
    "graphs": "hlorun.tables.graphs",
    "Bisection": "hlorun.find.bisection",
    "bisect": "hlorun.find.bisection",
    "Comparison": "hlorun.find.comparison",
    "Gap": "hlorun.find.gap",
    "Match": "hlorun.find.comparison",
    "compare": "hlorun.find.comparison",
    "DeviceComparison": "hlorun.find.devices",
    "compare_devices": "hlorun.find.devices",
    "NanReport": "hlorun.find.nan",
    "Origin": "hlorun.find.nan",
    "find_nan": "hlorun.find.nan",
    "Reduction": "hlorun.find.reduction",
    "reduce": "hlorun.find.reduction",
    "Collective": "hlorun.report.collectives",
    "CollectiveReason": "hlorun.report.collective_reason",
    "Collectives": "hlorun.report.collectives",
    "KindOfCollective": "hlorun.report.collectives",
    "collectives": "hlorun.report.collectives",
    "Device": "hlorun.report.devices",
    "Rates": "hlorun.report.planned",
    "Roofline": "hlorun.report.roofline",
    "RooflineGroup": "hlorun.report.roofline",
    "RooflineStep": "hlorun.report.roofline",
    "roofline": "hlorun.report.roofline",
    "Cost": "hlorun.report.cost",
    "CostGroup": "hlorun.report.cost",
    "cost": "hlorun.report.cost",
    "Diff": "hlorun.report.diff",
    "diff": "hlorun.report.diff",
    "RankDiff": "hlorun.report.ranks",
    "RankGroup": "hlorun.report.ranks",
    "diff_ranks": "hlorun.report.ranks",
    "Graph": "hlorun.report.graph",
    "graph": "hlorun.report.graph",
    "Place": "hlorun.report.result",
    "ShardedValue": "hlorun.report.collective_reason",
    "Summary": "hlorun.report.summary",
    "summary": "hlorun.report.summary",
    "MemoryChange": "hlorun.report.what_if",
    "WhatIf": "hlorun.report.what_if",
    "memory_what_if": "hlorun.report.what_if",
    "mutate": "hlorun._smith",
    "smith": "hlorun._smith",
    "TraceReport": "hlorun.report.trace",
    "TracedValue": "hlorun.report.trace",
    "trace": "hlorun.report.trace",
}


def __getattr__(name: str) -> Any:
    if name not in _TOOLS:
        raise AttributeError(f"module 'hlorun' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_TOOLS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Only the path is handed over: the library is loaded at the first matrix product.
if (_path := _blas.library_path()) is not None:
    _hlorun._set_blas_path(_path)
del _path


def make_inputs(module: HloModule, seed: int = 0, *, given: Mapping[str, Any] | None = None) -> list[Any]:
    """One value per parameter of the entry computation: reproducible random ones, as `hlorun run` makes.

    Args:
        module: The module.
        seed: Of the random values.
        given: Arrays of the parameters' dtypes and sizes by the names of parameters, instead of random ones.

    Returns:
        Values that an executable of the module takes: arrays of the parameters' dtypes and sizes.

    Raises:
        HloArgumentError: A name of `given` is no parameter's.
        HloUnsupportedError: A parameter is a token or opaque.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> inputs = hlorun.make_inputs(module, seed=1, given={"p": np.ones(2, np.float32)})
        >>> inputs[0]
        array([1., 1.], dtype=float32)
    """
    # NumPy is slow to import, and reading modules needs none of it.
    from hlorun._inputs import make_inputs

    return make_inputs(module, seed, given=given)


def run(
    module_or_path: HloModule | str | os.PathLike[str], *arrays: Any, timeout: float | None = None
) -> Any:
    """Compile a module, or the file at a path, and run it once.

    Args:
        module_or_path: A module of one device, or the path of an HLO text file.
        *arrays: An array per parameter of the entry computation, of its dtype and sizes; nested tuples for
            tuples.
        timeout: Seconds after which the run ends with `HloTimeoutError`.

    Returns:
        One NumPy array of the result's dtype and sizes, or nested tuples of arrays when the root is a tuple.

    Raises:
        HloError: The file is no HLO, or the module is illegal or does not run here, or a value does not fit.
        OSError: The file cannot be read.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.run(module, np.ones(2, np.float32))
        array([2., 2.], dtype=float32)
    """
    module = module_or_path if isinstance(module_or_path, HloModule) else load(module_or_path)
    return compile(module)(*arrays, timeout=timeout)
