"""How long the steps that hlorun plans take at rates that were measured."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hlorun._hlorun import HloInstruction
from hlorun.report.result import Result

Touched = tuple[int, int, int, int, int, bool]
"""Allocation, first byte, bytes from the first to the last, bytes that move, windows at indices that they lie
in, whether they are written."""

Curve = tuple[tuple[float, float], ...]
"""Seconds for a byte by the bytes that pass until it is touched again, fewest first."""

LINE = 64
"""Bytes that come from memory together."""

SPLIT = 8e-6
"""Seconds of one thread below which steps are not shared: waking another takes about as long."""

OVERLAP = 2.0
"""A step takes this norm of its times for computing and memory: 1 is their sum, infinity the longer one."""

_CHEAP = (
    "add subtract multiply maximum minimum abs negate sign and or xor not shiftleft shiftrightlogical "
    "shiftrightarithmetic select clamp convert bitcast floor ceil roundnearesteven roundnearestafz isfinite "
    "eq ne lt le gt ge real imag populationcount countleadingzeros multiplyhigh other"
)

CLASSES = {
    **dict.fromkeys(_CHEAP.split(), "cheap"),
    **dict.fromkeys(("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"), "tan"),
    "window-general": "fold-general",
    "scattered-general": "scatter",
    "sort-compared": "sort-rows-levels",
    "register": "scratch",
    "rng": "threefry",
    **{
        f"{kind}{suffix}": f"{like}{suffix}"
        for suffix in ("", "-elements")
        for kind, like in (
            ("lu", "getrf"),
            ("orgqr", "geqrf"),
            ("ormqr", "geqrf"),
            ("geqp3", "geqrf"),
            ("syevd", "syevd-vectors"),
            ("gesdd", "gesdd-vectors"),
            ("geev-vectors", "gesdd-vectors"),
            ("gees-vectors", "gesdd-vectors"),
        )
    },
}
"""Operations that are not measured themselves, and those that they cost about as much as."""

_SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s64": 8, "u64": 8, "f64": 8,
          "c64": 8, "c128": 16}  # fmt: skip
"""Bytes of the element types that have not 4."""


def key(kind: str, element_type: str) -> str:
    """The name of a rate."""
    return f"{kind} {element_type}".strip()


@dataclass(frozen=True)
class Rates(Result):
    """What operations and bytes take on this machine, all threads working together. Times are seconds.

    Attributes:
        operations: Of one operation, by its class and element type: "exp f32".
        read: For a byte that is read, by the bytes that are touched until it is touched again: pairs, the
            fewest first.
        written: The same for a byte that is written.
        window: The same for going to a place that an index says, beyond what it takes in the nearest cache.
        threads: How many threads there are.
        step: What starting a step takes.
        shared: What a step takes besides that several threads share.
        call: What a call takes, of a program of one small step.

    Examples:
        >>> rates = hlorun.Rates({"exp f32": 1e-10}, read=((1e6, 1e-11),), written=((1e6, 2e-11),))
        >>> rates.of("exp", "f64")
        2e-10
    """

    operations: dict[str, float]
    read: Curve
    written: Curve
    window: Curve = ((1.0, 0.0),)
    threads: int = 1
    step: float = 0.0
    shared: float = 0.0
    call: float = 0.0

    def of(self, kind: str, element_type: str) -> float:
        """Seconds of one operation.

        Args:
            kind: The class of operations.
            element_type: XLA's name of the type.

        Returns:
            What was measured; else that of the type whose size is nearest, in proportion to the size; 0 where
            the class was not measured at all.

        Examples:
            >>> rates = hlorun.Rates({"exp f32": 1e-10}, read=((1e6, 1e-11),), written=((1e6, 2e-11),))
            >>> rates.of("exp", "f32")
            1e-10
        """
        names = (kind, CLASSES.get(kind, kind))
        for name in names:
            known = self.operations.get(key(name, element_type))
            if known is not None:
                return known
        size = _SIZES.get(element_type, 4)
        for name in names:
            others = [ty for ty in _types(self.operations, name) if ty]
            if others:
                nearest = min(others, key=lambda ty: abs(_SIZES.get(ty, 4) - size))
                return self.operations[key(name, nearest)] * size / _SIZES.get(nearest, 4)
        return 0.0


def _types(operations: Iterable[str], name: str) -> list[str]:
    return [known.partition(" ")[2] for known in operations if known.partition(" ")[0] == name]


def at(curve: Curve, size: float) -> float:
    """Seconds for a byte of a working set; between two that were measured by the logarithm of its size."""
    place = bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    if place == len(curve):
        return curve[-1][1]
    (low, a), (high, b) = curve[place - 1], curve[place]
    return a + (b - a) * math.log(size / low) / math.log(high / low)


class Caches:
    """How many bytes were touched since a piece of memory was."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.pieces: dict[int, list[tuple[int, int, float]]] = defaultdict(list)

    def touch(self, touched: Touched) -> float:
        """Bytes that passed since these were touched, themselves included; infinite if they never were."""
        allocation, start, span, moved, windows, _ = touched
        moved = min(max(moved, LINE * windows), span)
        end, pieces = start + span, self.pieces[allocation]
        over = [piece for piece in pieces if piece[0] < end and start < piece[1]]
        covered = sum(min(end, high) - max(start, low) for low, high, _ in over)
        oldest = min((when for *_, when in over), default=0.0)
        distance = self.clock - oldest if 2 * covered >= span else math.inf
        kept = [piece for piece in pieces if piece not in over or piece[0] < start or end < piece[1]]
        self.pieces[allocation] = [*kept, (start, end, self.clock)]
        self.clock += moved
        return max(distance, float(moved))


@dataclass
class PlannedStep:
    """A step of a plan, and what one run of it takes.

    Attributes:
        instruction: The instruction it computes; the last one, where it computes several.
        kind: What kind of step it is.
        runs: How often it runs.
        counts: What it computes: class of operations, element type and how many.
        bytes_accessed: Bytes that it moves.
        compute: Seconds of the operations.
        memory: Seconds of the bytes, the mean of all runs.
        start: Seconds that starting it takes.
    """

    instruction: HloInstruction
    kind: str
    runs: float
    counts: list[tuple[str, str, float]]
    bytes_accessed: float
    compute: float
    memory: float
    start: float

    @property
    def seconds(self) -> float:
        """What one run takes."""
        both = self.compute**OVERLAP + self.memory**OVERLAP
        return self.start + float(both ** (1 / OVERLAP))


class Planned:
    """Goes through the steps of a plan in the order in which they run.

    Args:
        work: What `Executable._work` says.
        rates: What operations and bytes take.
    """

    def __init__(self, work: list[Any], rates: Rates) -> None:
        self.rates, self.caches = rates, Caches()
        self.found: dict[int, PlannedStep] = {}
        self.unknown_loops: set[int] = set()
        # What a run leaves in the caches is what the next one finds there.
        for _ in range(2):
            self.found.clear()
            self._sequence(work, 1.0, is_inside=False)

    @property
    def steps(self) -> list[PlannedStep]:
        """The steps."""
        return list(self.found.values())

    @property
    def seconds(self) -> float:
        """What a call takes."""
        return self.rates.call + sum(step.seconds * step.runs for step in self.steps)

    def _sequence(self, steps: list[Any], runs: float, *, is_inside: bool) -> None:
        for step in steps:
            instruction, kind, trips, is_small, _, _, nested = step
            if kind == "while":
                trips = instruction.trip_count if trips is None else trips
                if trips is None:
                    self.unknown_loops.add(id(step))
                trips = 1 if trips is None else trips
                # The first trip finds in the caches what was before the loop, the others what a trip leaves.
                for times in (min(trips, 1), trips - 1):
                    for part in nested if times > 0 else ():
                        self._sequence(part, runs * times, is_inside=is_inside or is_small)
            elif nested:
                for branch in nested:
                    self._sequence(branch, runs / len(nested), is_inside=is_inside)
            else:
                self._step(step, runs, is_inside=is_inside)

    def _step(self, step: Any, runs: float, *, is_inside: bool) -> None:
        instruction, kind, _, is_small, counts, touched, _ = step
        rates = self.rates
        compute = sum(amount * rates.of(name, ty) for name, ty, amount in counts)
        memory = 0.0
        for piece in touched:
            *_, span, moved, windows, is_written = piece
            passed = self.caches.touch(piece)
            curve = rates.written if is_written else rates.read
            # Bytes that indices lead to more than once come from far away only once, and are found
            # again after half of all others on average.
            once, again = min(moved, span), span / 2
            memory += once * at(curve, passed) + (moved - once) * at(curve, again)
            if windows and not is_written:
                lines = min(windows, max(span // LINE, 1))
                memory += lines * at(rates.window, passed) + (windows - lines) * at(rates.window, again)
        start = 0.0 if is_small or is_inside else rates.step
        if compute * rates.threads < SPLIT:
            compute *= rates.threads
        else:
            start += rates.shared
        known = self.found.get(id(step))
        if known is None:
            total = float(sum(piece[3] for piece in touched))
            self.found[id(step)] = PlannedStep(instruction, kind, runs, counts, total, compute, memory, start)
        else:
            known.memory = (known.memory * known.runs + memory * runs) / (known.runs + runs)
            known.runs += runs
