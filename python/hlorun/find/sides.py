"""A module run as it is and in f64, with what its instructions computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import Executable, HloInstruction, HloModule, compile
from hlorun._statistics import as_numbers, leaves
from hlorun.errors import HloError, HloTimeoutError
from hlorun.find.deadline import Deadline

MAX_KEPT = 1 << 30
"""Bytes of intermediates that are kept of each run."""

MAX_EXECUTIONS = 256
"""Executions of an instruction of which fingerprints are kept."""

FEW = 4
"""Executions of which fingerprints are kept, of instructions with more than `LARGE` elements."""

LARGE = 4096
"""Elements above which a fingerprint takes longer than computing the value."""

BLOCK = 1 << 15
"""Elements that a fingerprint takes at a time."""

FEATURES = 10
"""Numbers in a fingerprint: root mean square, mean, mean magnitude, minimum, maximum, third and
fourth moment, shares of NaN, Inf and -Inf."""


def fingerprint(array: Any) -> Any:
    """Numbers that no transposition, reshape, layout, type or broadcast of every element changes.

    The first is the root of the mean square, the next six belong to the elements in its units, and the last
    three are the shares of NaN, Inf and -Inf. None for what has no elements.
    """
    elements = np.asarray(array).reshape(-1)
    if elements.size == 0:
        return None
    found = np.zeros(FEATURES)
    least, most = _extremes(elements)
    if not np.isfinite([least, most]).all():
        numbers = np.concatenate([block.copy() for block in _blocks(elements)])
        finite, infinite = np.isfinite(numbers), numbers[np.isinf(numbers)]
        found[7:] = np.isnan(numbers).mean(), (infinite > 0).sum(), (infinite < 0).sum()
        found[8:] /= numbers.size
        elements = numbers[finite]
        least, most = _extremes(elements)
    largest = max(-least, most)
    if largest <= 0:
        return found
    count, sums = 0, np.zeros(5)
    for block in _blocks(elements):
        block /= largest
        squares = block * block
        count += block.size
        products = (np.einsum("i,i", x, y) for x, y in ((block, block), (squares, block), (squares, squares)))
        sums += (block.sum(), np.abs(block).sum(), *products)
    mean, magnitude, square, third, fourth = sums / count
    root = float(np.sqrt(square))
    found[0] = largest * root
    found[1:7] = mean, magnitude, least / largest, most / largest, third / square, fourth / (square * root)
    found[1:7] /= root
    return found


def alike(rows: Any, row: Any, limit: float) -> Any:
    """Which fingerprints are of the same elements as one, but for a relative difference."""
    is_near = np.abs(rows[:, 0] - row[0]) <= limit * (abs(row[0]) + 1e-30)
    return is_near & (np.abs(rows[:, 1:] - row[1:]) <= limit * (1 + np.abs(row[1:]))).all(axis=1)


def _extremes(elements: Any) -> tuple[float, float]:
    """The least and the greatest element, NaN where there is one; infinite where there are no elements."""
    found = [(block.min(), block.max()) for block in _blocks(elements)]
    if not found:
        return np.inf, -np.inf
    least, most = np.array(found).T
    return float(least.min()), float(most.max())


def _blocks(elements: Any) -> Iterator[Any]:
    """The elements as f64, so many at a time that what is computed from them stays in the cache.

    Each block is in the place of the one before; complex numbers are pairs.
    """
    place = np.empty(min(BLOCK, elements.size), np.float64)
    for first in range(0, elements.size, BLOCK):
        block = as_numbers(elements[first : first + BLOCK])
        if block.dtype.kind == "c":
            yield block.astype(np.complex128).view(np.float64)
        else:
            place[: block.size] = block
            yield place[: block.size]


class Kept:
    """An observer that keeps the last value of each instruction, and fingerprints of the first ones."""

    def __init__(self, is_printing: bool, is_keeping: bool = True) -> None:
        self.values: dict[HloInstruction, list[Any]] = {}
        self.prints: dict[HloInstruction, list[Any]] = {}
        self.times: dict[HloInstruction, list[int]] = {}
        self.count = 0
        self.is_printing = is_printing
        self.is_keeping = is_keeping
        self.bytes = 0

    def __call__(self, instruction: HloInstruction, value: Any) -> None:
        """Take a value down."""
        arrays = leaves(value)
        self.count += 1
        if self.is_printing and len(arrays) == 1 and arrays[0] is not None:
            prints = self.prints.setdefault(instruction, [])
            if (
                len(prints) < (FEW if arrays[0].size > LARGE else MAX_EXECUTIONS)
                and (made := fingerprint(arrays[0])) is not None
            ):
                prints.append(made)
                self.times.setdefault(instruction, []).append(self.count)
        if not self.is_keeping:
            return
        if instruction not in self.values:
            size = sum(array.nbytes for array in arrays if array is not None)
            if self.bytes + size > MAX_KEPT:
                return
            self.bytes += size
        self.values[instruction] = arrays


def others_of(arguments: list[Any], seed: int = 0) -> list[Any]:
    """Inputs like those given: the same numbers in another order and a quarter larger.

    Integers, which may be indices, and single numbers, which may be settings, stay as they are.
    """
    stream = np.random.default_rng(seed)
    found = []
    for argument in arguments:
        array = None if isinstance(argument, tuple) else np.asarray(argument)
        if array is None or array.dtype.kind in "biu" or array.size < 2:
            found.append(argument)
            continue
        mixed = stream.permutation(array.reshape(-1)).reshape(array.shape)
        found.append((as_numbers(mixed) * 1.25).astype(array.dtype))
    return found


def results_of(
    executable: Executable,
    arguments: list[Any],
    observer: Callable[[HloInstruction, Any], None] | None,
    deadline: Deadline,
) -> list[Any]:
    """The arrays that a run returns; those of several devices stacked, each of which has other inputs.

    An observer is told of the first device.
    """
    count = executable.replicas * executable.partitions
    if count == 1:
        result = deadline.run(lambda seconds: executable(*arguments, observer=observer, timeout=seconds))
        return [leaf for leaf in leaves(result) if leaf is not None]
    each = [arguments, *(others_of(arguments, device) for device in range(1, count))]
    first = None if observer is None else lambda i, value, device: None if device else observer(i, value)
    results = deadline.run(lambda seconds: executable.run_replicas(each, observer=first, timeout=seconds))
    columns = zip(*map(leaves, results), strict=True)
    return [np.stack(column) for column in columns if column[0] is not None]


def name_of(instruction: HloInstruction) -> str:
    """A name that no other instruction of the module has."""
    return f"{instruction.computation.name}/{instruction.name}"


class Side:
    """One module, run as it is and in f64.

    `prints` maps a name to the fingerprints of its executions in f64, `times` to when in the run they were.
    `is_exact` is false where there is no run in f64.
    """

    def __init__(self, module: HloModule, arguments: list[Any], deadline: Deadline) -> None:
        self.module = module
        self.arguments = arguments
        self.wide: Executable | None = None
        self.deadline = deadline
        self.kept = Kept(False)
        self.result = self._run(compile(module), self.kept, arguments)
        self.exact: list[Any] = []
        self.exact_values: dict[str, list[Any]] = {}
        self.prints: dict[str, list[Any]] = {}
        self.times: dict[str, list[int]] = {}
        self.is_exact = False
        try:
            wide = _hlorun._widen(module)
            if wide is None:
                return
            kept, self.wide = Kept(True), compile(wide)
            self.exact = self._run(self.wide, kept, arguments)
        except HloTimeoutError:
            raise
        except HloError:
            return
        self.is_exact = True
        self.exact_values = {name_of(i): arrays for i, arrays in kept.values.items()}
        self.prints = {name_of(i): rows for i, rows in kept.prints.items()}
        self.times = {name_of(i): times for i, times in kept.times.items()}

    @cached_property
    def again(self) -> dict[str, list[Any]] | None:
        """Fingerprints of a run in f64 on other inputs, which rule out matches by chance, if any."""
        if self.wide is None or not self.is_exact:
            return None
        kept = Kept(True, is_keeping=False)
        try:
            self._run(self.wide, kept, others_of(self.arguments))
        except HloTimeoutError:
            raise
        except HloError:
            return None
        return {name_of(i): rows for i, rows in kept.prints.items()}

    def _run(self, executable: Executable, kept: Kept, arguments: list[Any]) -> list[Any]:
        """The results of a run of which everything is kept, the arguments too."""
        entry = executable.module.entry_computation
        parameters = entry.parameters if entry is not None else ()
        for parameter, value in zip(parameters, arguments, strict=False):
            if parameter.shape.is_array:
                kept(parameter, np.asarray(value))
        return results_of(executable, arguments, kept, self.deadline)

    def exact_of(self, instruction: HloInstruction) -> Any:
        """What it is in f64; None where that is not known."""
        if instruction.opcode == "constant":
            return None if instruction.literal is None else np.asarray(instruction.literal)
        if instruction.opcode == "parameter":
            return self.kept.values[instruction][0]
        found = self.exact_values.get(name_of(instruction), [])
        return found[0] if len(found) == 1 else None

    def element_of(self, element: HloInstruction) -> Any:
        """What an element of a tuple of arrays last was in f64; None where that is not known."""
        whole, number = element.operands[0], element.tuple_index or 0
        found = self.exact_values.get(name_of(whole), [])
        is_flat = whole.shape.is_tuple and all(part.is_array for part in whole.shape.tuple_shapes)
        return found[number] if is_flat and number < len(found) else None

    def value_of(self, instruction: HloInstruction) -> Any:
        """What it is in f64, or else as it is."""
        exact = self.exact_of(instruction)
        return exact if exact is not None else self.kept.values[instruction][0]

    def prints_of(self, instruction: HloInstruction) -> list[Any]:
        """Fingerprints of its executions; of the last one where there was no run in f64."""
        found = self.prints.get(name_of(instruction))
        if found is None:
            made = [fingerprint(x) for x in self.kept.values.get(instruction, []) if x is not None]
            return [row for row in made if row is not None] if len(made) == 1 else []
        return found

    def arrays(self) -> dict[HloInstruction, Any]:
        """Intermediates that are one array of several elements, in the order of the run.

        The root of a fusion stands for nothing that the fusion itself does not.
        """
        fused = {called for i in self.module.find(opcode="fusion") for called in i.called_computations}
        return {
            i: arrays[0]
            for i, arrays in self.kept.values.items()
            if len(arrays) == 1 and arrays[0] is not None and arrays[0].size > 1
            if not (i.is_root and i.computation in fused)
        }
