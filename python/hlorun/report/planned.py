"""The steps of a module as hlorun plans them, and how long each takes at measured rates."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hlorun._hlorun import Executable, HloInstruction, HloModule
from hlorun.report.result import Result

Count = tuple[str, str, float]
"""Class of operations, element type and how many."""

Touched = tuple[int, int, int, int, bool]
"""Allocation, first byte, bytes from the first to the last, bytes that move, whether they are written."""

MOST_UNKNOWN = "least"


@dataclass(frozen=True)
class Rates(Result):
    """What operations and bytes take on this machine, with all its threads.

    Attributes:
        seconds: Of one operation by its class and element type.
        read: Seconds for a byte by the bytes that are touched before it is touched again.
        written: The same for bytes that are written.
        threads: How many threads there are.
    """

    seconds: dict[tuple[str, str], float]
    read: tuple[tuple[float, float], ...]
    written: tuple[tuple[float, float], ...]
    threads: int = 1

    def of(self, kind: str, element_type: str) -> float:
        """Seconds of one operation; one that was not measured counts as its relative of another type."""
        return _rate(self.seconds, kind, element_type)


SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s64": 8, "u64": 8, "f64": 8,
         "c64": 8, "c128": 16}  # fmt: skip
"""Bytes of element types; all others count as 4."""

ALIASES = {
    **dict.fromkeys(
        ("add", "subtract", "multiply", "maximum", "minimum", "abs", "negate", "sign", "and", "or", "xor", "not",
         "shiftleft", "shiftrightlogical", "shiftrightarithmetic", "select", "clamp", "convert", "bitcast", "floor",
         "ceil", "roundnearesteven", "roundnearestafz", "isfinite", "eq", "ne", "lt", "le", "gt", "ge", "real",
         "imag", "populationcount", "countleadingzeros", "multiplyhigh", "other"), "cheap"),
    **dict.fromkeys(("divide", "sqrt", "rsqrt", "cbrt"), "divide"),
}  # fmt: skip


def _rate(seconds: dict[tuple[str, str], float], kind: str, element_type: str) -> float:
    for name in (kind, ALIASES.get(kind, kind)):
        if (name, element_type) in seconds:
            return seconds[name, element_type]
        known = [(ty, rate) for (other, ty), rate in seconds.items() if other == name]
        if known:
            size = SIZES.get(element_type, 4)
            ty, rate = min(known, key=lambda item: abs(SIZES.get(item[0], 4) - size))
            return rate * size / SIZES.get(ty, 4)
    return 0.0


def _at(curve: tuple[tuple[float, float], ...], size: float) -> float:
    """The seconds for a byte of a working set, between those that were measured in proportion to their logarithms."""
    if not curve:
        return 0.0
    place = bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    if place == len(curve):
        return curve[-1][1]
    (low, a), (high, b) = curve[place - 1], curve[place]
    part = math.log(size / low) / math.log(high / low)
    return a * (b / a) ** part


class Caches:
    """How long ago bytes were touched, in bytes that were touched since."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.known: dict[int, list[tuple[int, int, float]]] = defaultdict(list)

    def touch(self, touched: Touched) -> float:
        """The bytes that passed since these were touched, these included; infinite where they never were."""
        allocation, start, span, bytes_, _ = touched
        end = start + span
        pieces = self.known[allocation]
        over = [piece for piece in pieces if piece[0] < end and start < piece[1]]
        covered = sum(min(end, e) - max(start, s) for s, e, _ in over)
        oldest = min((at for *_, at in over), default=None)
        distance = math.inf if oldest is None or 2 * covered < span else self.clock - oldest
        self.known[allocation] = [p for p in pieces if not (start <= p[0] and p[1] <= end)]
        self.known[allocation].append((start, end, self.clock))
        self.clock += bytes_
        return max(distance, float(bytes_))


@dataclass
class Planned:
    """A planned step and what it takes."""

    instruction: HloInstruction
    kind: str
    runs: float
    counts: list[Count]
    compute: float
    memory: float
    overhead: float
    bytes_accessed: float
    counted: bool = field(default=True)

    @property
    def seconds(self) -> float:
        return self.overhead + max(self.compute, self.memory) + 0.3 * min(self.compute, self.memory)


class Walk:
    """Goes through the steps of a plan in the order they run."""

    def __init__(self, rates: Rates) -> None:
        self.rates, self.caches = rates, Caches()
        self.steps: dict[int, Planned] = {}
        self.unknown_loops: set[int] = set()

    def sequence(self, steps: list[Any], runs: float, *, is_inside: bool = False) -> None:
        for step in steps:
            self.step(step, runs, is_inside=is_inside)

    def step(self, step: Any, runs: float, *, is_inside: bool) -> None:
        instruction, kind, trips, is_small, counts, touched, nested = step
        self.one(step, runs, is_inside=is_inside)
        if kind == "while":
            condition, body = nested
            if trips is None:
                self.unknown_loops.add(id(step))
            trips = 1 if trips is None else trips
            inside = is_inside or is_small
            for times in (min(trips, 1), max(trips - 1, 0)):
                if times:
                    self.sequence(condition, runs * times, is_inside=inside)
                    self.sequence(body, runs * times, is_inside=inside)
        elif nested:
            # Any branch may run; each counts in part.
            for branch in nested:
                self.sequence(branch, runs / len(nested), is_inside=is_inside)

    def one(self, step: Any, runs: float, *, is_inside: bool) -> None:
        instruction, kind, _, is_small, counts, touched, _ = step
        rates = self.rates
        compute = sum(amount * rates.of(name, ty) for name, ty, amount in counts)
        memory = 0.0
        for piece in touched:
            curve = rates.written if piece[4] else rates.read
            memory += piece[3] * _at(curve, self.caches.touch(piece))
        small = rates.of("small-step", "")
        overhead = 0.0 if kind in ("while", "conditional") else rates.of("step", "")
        if is_small or is_inside:
            overhead = small
        if compute * rates.threads < SPLIT:
            compute *= rates.threads
        if is_small:
            memory = 0.0
        bytes_ = float(sum(piece[3] for piece in touched))
        known = self.steps.get(id(step))
        if known is None:
            self.steps[id(step)] = Planned(
                instruction, kind, runs, counts, compute, memory, overhead, bytes_
            )
        else:
            total = known.runs + runs
            known.memory = (known.memory * known.runs + memory * runs) / total
            known.runs = total


SPLIT = 10e-6
"""Seconds of one thread below which a step does not pay to be shared."""


def planned(executable: Executable, rates: Rates) -> Walk:
    """The steps of a plan with their times, as they are in one of many runs."""
    work = executable._work()
    first = Walk(rates)
    first.sequence(work, 1.0)
    second = Walk(rates)
    second.caches = first.caches
    second.sequence(work, 1.0)
    return second


def total(walk: Walk) -> float:
    return walk.rates.of("call", "") + sum(step.seconds * step.runs for step in walk.steps.values())
