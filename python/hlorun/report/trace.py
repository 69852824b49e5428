"""Every intermediate of a run, in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction, HloModule, compile
from hlorun._statistics import leaves, statistics
from hlorun.errors import HloArgumentError
from hlorun.report.result import Place, Result
from hlorun.report.rollup import key_of


class _Until(Exception):
    """The instruction to stop at has run."""


def is_moved_constant(instruction: HloInstruction) -> bool:
    """Whether it only spreads constants of the text: a NaN or -inf there is meant, as in masks."""
    moves = ("broadcast", "reshape", "bitcast", "copy", "transpose", "concatenate", "pad", "slice")
    while instruction.opcode in moves:
        if any(operand.opcode != "constant" for operand in instruction.operands[1:]):
            return False
        instruction = instruction.operands[0]
    return instruction.opcode == "constant"


def odd_inputs(module: HloModule, arguments: list[list[Any]]) -> list[dict[str, Any]]:
    """The parameters whose values hold NaN or Inf, with how many; `arguments` are those of each device."""
    entry = module.entry_computation
    found = []
    for number, parameter in enumerate(entry.parameters if entry is not None else ()):
        counts = {"nan": 0, "inf": 0}
        # Devices may share a value.
        values = {id(values[number]): values[number] for values in arguments}
        for array in (array for value in values.values() for array in leaves(value)):
            if array is None:
                continue
            try:
                of = statistics(np.asarray(array))
            except (TypeError, ValueError):
                # No numbers: the run says what it expects.
                continue
            counts = {kind: count + of[kind] for kind, count in counts.items()}
        if any(counts.values()):
            found.append({"number": parameter.parameter_number, "name": parameter.name, **counts})
    return found


class Trace:
    """An observer that keeps statistics; its `rows` are in the order of the first evaluation."""

    def __init__(self, until: str | None = None, *, until_nan: bool = False) -> None:
        """Stop after the instruction `until`, or at the first NaN."""
        self.until = until
        self.until_nan = until_nan
        self.rows: dict[tuple[HloInstruction, int], dict[str, Any]] = {}
        self.first: dict[str, dict[str, Any]] = {}

    def __call__(self, instruction: HloInstruction, value: Any, device: int = 0) -> None:
        """Take a value down, whatever device has it."""
        for index, array in enumerate(leaves(value)):
            if array is not None:
                self._leaf(instruction, index if isinstance(value, tuple) else -1, array)
        if instruction.name == self.until or (self.until_nan and "nan" in self.first):
            raise _Until

    def _leaf(self, instruction: HloInstruction, index: int, array: Any) -> None:
        row = self.rows.get((instruction, index))
        if row is None:
            row = self.rows[instruction, index] = {
                **Place.of(instruction).to_dict(),
                "index": None if index < 0 else index,
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "times": 0,
                "nan": 0,
                "inf": 0,
                "min": None,
                "max": None,
                "mean": None,
            }
        found = statistics(array)
        times = row["times"] = row["times"] + 1
        for kind in ("nan", "inf"):
            row[kind] += found[kind]
            if found[kind] and kind not in self.first and not is_moved_constant(instruction):
                self.first[kind] = {**Place.of(instruction).to_dict(), "time": times, "count": found[kind]}
        if found["mean"] is not None:
            row["min"] = found["min"] if row["min"] is None else min(row["min"], found["min"])
            row["max"] = found["max"] if row["max"] is None else max(row["max"], found["max"])
            mean = row["mean"]
            row["mean"] = found["mean"] if mean is None else mean + (found["mean"] - mean) / times

    def run(self, run: Callable[[Trace], Any]) -> Any:
        """What `run` returns, which takes this for its observer; None when it stopped early."""
        try:
            return run(self)
        except _Until:
            return None


def values_by(
    module: HloModule, rows: dict[tuple[HloInstruction, int], dict[str, Any]], by: str
) -> list[dict[str, Any]]:
    """What was computed, and what of it is not finite, in the order of the run.

    Args:
        module: The module that ran.
        rows: Those of a `Trace`.
        by: One of `rollup.BY`.

    Returns:
        Rows of "key", "values", "times", "nan", "inf", and "min" and "max" of the finite elements.

    Raises:
        HloArgumentError: `by` is another word.
    """
    key = key_of(module, by)
    found: dict[str, dict[str, Any]] = {}
    for (instruction, _), row in rows.items():
        name = key(instruction)
        group = found.setdefault(
            name, {"key": name, "values": 0, "times": 0, "nan": 0, "inf": 0, "min": None, "max": None}
        )
        group["values"] += 1
        for count in ("times", "nan", "inf"):
            group[count] += row[count]
        for bound, choose in (("min", min), ("max", max)):
            known = [value for value in (group[bound], row[bound]) if value is not None]
            group[bound] = choose(known, default=None)
    return list(found.values())


@dataclass(frozen=True)
class TracedValue(Result):
    """Statistics of an array that an instruction computed, of all times it ran together.

    Attributes:
        name: The instruction's name.
        opcode: Its opcode.
        computation: The computation it stands in.
        op_name: The framework's name for it; "" when absent.
        source: "file:line" of the program; "" when absent.
        index: The array's place in a tuple; None where the value is none.
        dtype: NumPy's name of the element type.
        shape: The sizes of its dimensions.
        times: How often the instruction ran.
        nan: How many elements are NaN.
        inf: How many are infinite.
        min: The least finite element; None where there is none, as the next two.
        max: The greatest finite element.
        mean: The mean of the finite elements.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> value = hlorun.trace(module, np.ones(2, np.float32)).values[0]
        >>> value.name, value.dtype, value.shape, value.mean
        ('a', 'float32', [2], 2.0)
    """

    name: str
    opcode: str
    computation: str
    op_name: str
    source: str
    index: int | None
    dtype: str
    shape: list[int]
    times: int
    nan: int
    inf: int
    min: float | None
    max: float | None
    mean: float | None


@dataclass(frozen=True)
class TraceReport(Result):
    """Every intermediate of a run.

    Attributes:
        values: A `TracedValue` for each, in the order of the run.
        first_nan: The first that holds NaN: the fields of its `Place`, "time" (which execution, from 1) and
            "count" of the elements; None where none does.
        first_inf: The same of Inf.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> report = hlorun.trace(module, np.ones(2, np.float32))
        >>> [value.name for value in report.values], report.first_nan
        (['a'], None)
    """

    values: tuple[TracedValue, ...] = field(repr=False)
    first_nan: dict[str, Any] | None
    first_inf: dict[str, Any] | None


def trace(
    module: HloModule, *arrays: Any, until: str | None = None, timeout: float | None = None
) -> TraceReport:
    """Run without fusion and sum up every intermediate.

    Args:
        module: A module of one device.
        *arrays: An array per parameter of the entry computation, of its dtype and sizes; nested tuples for
            tuples; without any, the random ones of `hlorun.make_inputs`.
        until: The name of an instruction after which the run ends.
        timeout: Seconds after which the run ends with `HloTimeoutError`.

    Returns:
        A `TraceReport`.

    Raises:
        HloArgumentError: No instruction is called `until`, or a value does not fit.
        HloError: The module breaks rules of HLO, or does not run here.
        HloTimeoutError: The time is over.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.trace(module, np.ones(2, np.float32)).values[0].max
        2.0
    """
    from hlorun._inputs import make_inputs

    if until is not None:
        until = until.removeprefix("%")
        if until not in module:
            raise HloArgumentError(f"the module has no instruction called {until}")
    arguments = list(arrays) if arrays else make_inputs(module)
    found = Trace(until)
    executable = compile(module)
    found.run(lambda observer: executable(*arguments, observer=observer, timeout=timeout))
    values = tuple(TracedValue(**row) for row in found.rows.values())
    return TraceReport(values, found.first.get("nan"), found.first.get("inf"))
