"""Where NaN and Inf are made, apart from where they only pass through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np

from hlorun._hlorun import Executable, HloInstruction, HloModule, compile
from hlorun._statistics import as_numbers, leaves
from hlorun.errors import HloTimeoutError
from hlorun.find.deadline import Deadline
from hlorun.find.values import Values
from hlorun.report.graph import family
from hlorun.report.result import Place, Result
from hlorun.report.trace import is_moved_constant, odd_inputs
from hlorun.report.units import plural

MAX_ORIGINS = 100
"""Origins that are reported; further ones are counted."""

PAUSE = 0.5
"""Seconds between two reports of how far a search is."""


@dataclass(frozen=True)
class Origin(Result):
    """An instruction that makes NaN or Inf from operands without any.

    Attributes:
        kind: "NaN" or "Inf".
        place: The `Place` of the instruction.
        time: Which of its executions, from 1: the trip, inside a loop.
        index: The first element that is so.
        value: The value there.
        operands: The operands' names with their values there, or a summary where they have other shapes.
        count: How many elements are so.
        device: The number of the device, where there are several.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] log(p) }")
        >>> origin = hlorun.find_nan(module, np.array([1, 0], np.float32)).origins[0]
        >>> origin.place.name, origin.index, origin.value, origin.operands
        ('a', (1,), '-inf', (('p', '0.0'),))
    """

    kind: str
    place: Place
    time: int
    index: tuple[int, ...]
    value: str
    operands: tuple[tuple[str, str], ...]
    count: int
    device: int | None = None

    def __str__(self) -> str:
        """As a person reads it."""
        on = f" on device {self.device}" if self.device is not None else ""
        at = f"[{','.join(map(str, self.index))}]" if self.index else ""
        trip = f", in its execution {self.time:,}" if self.time > 1 else ""
        operands = ", ".join(f"{name} = {value}" for name, value in self.operands)
        more = f"; {self.count:,} elements" if self.count > 1 else ""
        what = f"{self.value} at {at or 'the scalar'} from {operands}{more}"
        return f"{self.kind} made by {self.place}{on}{trip}: {what}"


@dataclass(frozen=True)
class NanReport(Result):
    """What a run shows of NaN and Inf, in the order of the run; false where it shows none.

    Attributes:
        origins: An `Origin` for each instruction that makes some, as far as they are listed.
        inputs: Names of the parameters that hold some already.
        spread: How many values only carry on what others made.
        outputs: Numbers of the results that hold some.
        more: How many origins are not listed.
        is_complete: False where the run was ended early: what it had not reached may hold more.
        carriers: The values that only carry on what others made, as `spread` counts them.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] log(p) }")
        >>> report = hlorun.find_nan(module, np.array([1, 0], np.float32))
        >>> bool(report), report.outputs
        (True, (0,))
    """

    origins: tuple[Origin, ...]
    inputs: tuple[str, ...]
    spread: int
    outputs: tuple[int, ...]
    more: int
    is_complete: bool = True
    carriers: tuple[Place, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.origins or self.inputs or self.outputs)

    def __str__(self) -> str:
        """As a person reads it."""
        lines = [str(origin) for origin in self.origins]
        lines += [f"{plural(self.more, 'further origin')} not listed"] if self.more else []
        lines += [f"parameter {name} holds NaN or Inf" for name in self.inputs]
        if not lines:
            lines = ["no NaN and no Inf" + ("" if self.is_complete else " found so far")]
        else:
            lines.append(f"{plural(self.spread, 'further value carries', 'further values carry')} them on")
        if not self.is_complete:
            lines.append("ended before the run was done: there may be more")
        return "\n".join(lines)


def _numbers(value: Any) -> Any:
    """The array as floating-point or complex numbers; None for what cannot hold NaN."""
    if value is None or not hasattr(value, "dtype"):
        return None
    array = as_numbers(np.asarray(value))
    return array if array.dtype.kind in "fc" else None


_TESTS = {"NaN": np.isnan, "Inf": np.isinf}


class _Search:
    """An observer that looks for origins."""

    def __init__(self, module: HloModule, arguments: list[Any], device: int | None) -> None:
        self.device = device
        self.values = Values(module, arguments)
        self.times: dict[HloInstruction, int] = {}
        self.origins: list[Origin] = []
        self.made: set[tuple[str, HloInstruction]] = set()
        self.spread: set[HloInstruction] = set()

    def __call__(self, instruction: HloInstruction, value: Any) -> None:
        time = self.times[instruction] = self.times.get(instruction, 0) + 1
        if not instruction.called_computations or instruction.opcode in ("reduce", "map", "sort", "scatter"):
            self._look(instruction, value, time)
        self.values.note(instruction, value)

    def _look(self, instruction: HloInstruction, value: Any, time: int) -> None:
        for leaf in leaves(value):
            array = _numbers(leaf)
            if array is None or np.isfinite(array).all() or is_moved_constant(instruction):
                continue
            operands = [(operand, self.values.of(operand)) for operand in instruction.operands]
            for kind, test in _TESTS.items():
                odd = test(array)
                if not odd.any():
                    continue
                new = self._new(kind, odd, operands, family(instruction) == "elementwise")
                if not new.any():
                    self.spread.add(instruction)
                elif (kind, instruction) not in self.made:
                    self.made.add((kind, instruction))
                    origin = _origin(kind, instruction, time, array, new, operands)
                    self.origins.append(replace(origin, device=self.device))

    def _new(self, kind: str, odd: Any, operands: list[Any], is_elementwise: bool) -> Any:
        """The elements that are so although what they are computed from is not."""
        tests = [_TESTS["NaN"]] if kind == "NaN" else [np.isnan, np.isinf]
        # The test of a scalar is no array, and cannot be written to.
        new = np.array(odd)
        for _, value in operands:
            for leaf in leaves(value):
                array = _numbers(leaf)
                if array is None:
                    continue
                before = np.any([test(array) for test in tests], axis=0)
                if not before.any():
                    continue
                if is_elementwise and array.shape == odd.shape:
                    new &= ~before
                else:
                    new[...] = False
        return new


def _origin(
    kind: str, instruction: HloInstruction, time: int, array: Any, new: Any, operands: list[Any]
) -> Origin:
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(new)), new.shape))
    shown = []
    for operand, value in operands:
        if value is None or not hasattr(value, "shape"):
            text = "unknown" if value is None else "a tuple"
        elif value.shape == array.shape:
            text = str(value[index])
        elif value.size == 1:
            text = str(np.asarray(value).reshape(-1)[0])
        else:
            numbers = as_numbers(np.asarray(value))
            text = f"{value.dtype}{list(value.shape)} from {numbers.min()} to {numbers.max()}"
        shown.append((operand.name, text))
    place = Place.of(instruction)
    return Origin(kind, place, time, index, str(array[index]), tuple(shown), int(new.sum()))


def find_nan(
    module: HloModule,
    *arrays: Any,
    executable: Executable | None = None,
    timeout: float | None = None,
    until_interrupted: bool = False,
    progress: Callable[[str], None] | None = None,
) -> NanReport:
    """Find the instructions that make NaN or Inf from clean operands.

    The module runs without fusion, so an instruction inside one is named too; inside a loop with the trip.
    A module of several devices runs on all of them, and the device is named.

    Args:
        module: The module.
        *arrays: An array per parameter of the entry computation, of its dtype and sizes; nested tuples for
            tuples; the same for every device; without any, the random ones of `hlorun.make_inputs`, others
            for each device.
        executable: The module compiled already.
        timeout: Seconds that all of it may take.
        until_interrupted: Whether Ctrl-C, or the end of `timeout`, ends the search with what was found so
            far, which says so, instead of an exception.
        progress: Called with a line such as `1,024 values, 0 origins of NaN or Inf`, at most twice a second.

    Returns:
        A `NanReport`, which is false when no value that was looked at is NaN or Inf; one that was ended
        early is not `is_complete`.

    Raises:
        HloError: The module is illegal or does not run here, or a value does not fit.
        HloTimeoutError: It took longer than `timeout`, unless `until_interrupted`.
        KeyboardInterrupt: Ctrl-C, unless `until_interrupted`.
        ValueError: `timeout` is negative or NaN.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] log(p) }")
        >>> report = hlorun.find_nan(module, np.array([1, 0], np.float32))
        >>> report.origins[0].place.name
        'a'
    """
    from hlorun._inputs import make_inputs

    deadline = Deadline(timeout)
    made = executable if executable is not None else compile(module)
    count = made.replicas * made.partitions
    arguments = [list(arrays) if arrays else make_inputs(module, device) for device in range(count)]
    searches = [_Search(module, own, device if count > 1 else None) for device, own in enumerate(arguments)]
    results: list[Any] = []
    is_complete = True
    told = _Told(searches, progress) if progress is not None else None

    def observer(instruction: HloInstruction, value: Any, device: int = 0) -> None:
        searches[device](instruction, value)
        if told is not None:
            told.tell()

    try:
        results = deadline.run(lambda seconds: _results(made, arguments, observer, seconds))
    except (KeyboardInterrupt, HloTimeoutError):
        if not until_interrupted:
            raise
        is_complete = False
    return _report(module, arguments, searches, results, is_complete)


def _results(
    made: Executable, arguments: list[list[Any]], observer: Callable[..., None], timeout: float | None
) -> list[Any]:
    """What each device returns."""
    if len(arguments) == 1:
        return [made(*arguments[0], observer=observer, timeout=timeout)]
    return made.run_replicas(arguments, observer=observer, timeout=timeout)


class _Told:
    """Says now and then how many values were looked at, and what was found."""

    def __init__(self, searches: list[_Search], progress: Callable[[str], None]) -> None:
        self.searches = searches
        self.progress = progress
        self.values = 0
        self.next = monotonic() + PAUSE

    def tell(self) -> None:
        """One more value."""
        self.values += 1
        if (now := monotonic()) >= self.next:
            self.next = now + PAUSE
            origins = sum(len(search.origins) for search in self.searches)
            self.progress(f"{plural(self.values, 'value')}, {plural(origins, 'origin')} of NaN or Inf")


def _report(
    module: HloModule,
    arguments: list[list[Any]],
    searches: list[_Search],
    results: list[Any],
    is_complete: bool,
) -> NanReport:
    outputs: set[int] = set()
    for result in results:
        numbers = [_numbers(leaf) for leaf in leaves(result)]
        odd = (k for k, array in enumerate(numbers) if array is not None and not np.isfinite(array).all())
        outputs.update(odd)
    origins = [origin for search in searches for origin in search.origins]
    made = {instruction for search in searches for _, instruction in search.made}
    spread = {instruction for search in searches for instruction in search.spread} - made
    return NanReport(
        tuple(origins[:MAX_ORIGINS]),
        tuple(item["name"] for item in odd_inputs(module, arguments)),
        len(spread),
        tuple(sorted(outputs)),
        max(0, len(origins) - MAX_ORIGINS),
        is_complete,
        tuple(Place.of(instruction) for instruction in sorted(spread, key=lambda i: i.name)),
    )
