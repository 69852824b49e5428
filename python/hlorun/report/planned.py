"""How long the steps of a plan take at measured rates."""

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
"""A piece of memory that a step touches: allocation, first byte, bytes from the first to the last, bytes that
are moved, windows at indices that they lie in (0 where they lie side by side), whether they are written."""

Curve = tuple[tuple[float, float], ...]
"""Pairs of reuse distance and seconds of a byte or of a window, the nearest first. The reuse distance is how
many bytes are touched from one use of a byte to the next."""

LINE = 64
"""Bytes of a cache line."""

SPLIT = 8e-6
"""Seconds of one thread below which threads do not share a step: waking another takes about as long."""

OVERLAP = 2.0
"""The order of the norm that joins compute and memory times: 1 is their sum, infinity the longer one."""

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
            ("geev", "gesdd-vectors"),
            ("geev-vectors", "gesdd-vectors"),
            ("gees", "gesdd-vectors"),
            ("gees-vectors", "gesdd-vectors"),
            ("gehrd", "geqrf"),
            ("sytrd", "syevd-vectors"),
            ("gtsv", "trsm"),
            ("syrk", "trsm"),
            ("pivots", "getrf"),
        )
    },
}
"""Classes without a probe, and the measured classes whose rates they take."""

_SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s64": 8, "u64": 8, "f64": 8,
          "c64": 8, "c128": 16}  # fmt: skip
"""Bytes of element types; the others have 4."""


def key(kind: str, element_type: str) -> str:
    """The name of a rate."""
    return f"{kind} {element_type}".strip()


@dataclass(frozen=True)
class Rates(Result):
    """Measured times of operations and of memory on this machine, in seconds, all threads working together.

    Attributes:
        operations: Time of one operation, by class and element type: "exp f32".
        read: Time of a byte that is read, by its reuse distance in bytes: how many bytes are touched from one
            use of it to the next. Pairs of distance and time, the nearest first.
        written: The same for a byte that is written.
        window: The same for a window at an index, in excess of the shortest measured time.
        threads: Number of threads.
        step: Time to start a step.
        shared: Further time of a step that several threads share.
        call: Time of a call of a program of one small step.

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
            The measured time of the class, or of the class whose rates it takes. A type that was not measured
            takes the time of the type of the nearest size, in proportion to the sizes. 0 where nothing of the
            class was measured.

        Examples:
            >>> rates = hlorun.Rates({"exp f32": 1e-10}, read=((1e6, 1e-11),), written=((1e6, 2e-11),))
            >>> rates.of("exp", "f32")
            1e-10
        """
        # Without a rate of their own, small matrices take that of large ones.
        large = kind.replace("-small", "")
        names = (kind, CLASSES.get(kind, kind), large, CLASSES.get(large, large))
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
    """Seconds at a reuse distance: linear in its logarithm between two measured ones, else constant."""
    place = bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    if place == len(curve):
        return curve[-1][1]
    (low, a), (high, b) = curve[place - 1], curve[place]
    return a + (b - a) * math.log(size / low) / math.log(high / low)


class Caches:
    """The reuse distance of pieces of memory: bytes touched since the last use."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.pieces: dict[int, list[tuple[int, int, float]]] = defaultdict(list)

    def touch(self, touched: Touched) -> float:
        """Touches a piece; returns its reuse distance, its own bytes included.

        It is infinite where less than half of the piece was touched before, and that of the oldest part else.
        """
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
        instruction: The last instruction it computes; for a product or a convolution with an epilogue, that
            product or convolution.
        runs: How often it runs in a call; branches count in part.
        counts: Its operations: class, element type and number.
        bytes_accessed: Bytes that it moves.
        compute: Seconds of the operations.
        memory: Seconds of the bytes, the mean of all runs.
        start: Seconds to start it and to share it among threads.
    """

    instruction: HloInstruction
    runs: float
    counts: list[tuple[str, str, float]]
    bytes_accessed: float
    compute: float
    memory: float
    start: float

    @property
    def seconds(self) -> float:
        """Seconds of one run."""
        both = self.compute**OVERLAP + self.memory**OVERLAP
        return self.start + float(both ** (1 / OVERLAP))


class Planned:
    """The steps of a plan with their times, found by going through them in the order in which they run.

    Args:
        work: The steps as `Executable._work` lists them.
        rates: The rates.
    """

    def __init__(self, work: list[Any], rates: Rates) -> None:
        self.rates, self.caches = rates, Caches()
        self.found: dict[int, PlannedStep] = {}
        self.unknown_loops: set[int] = set()
        # The second pass counts: a call finds in the caches what the last one has left there.
        for _ in range(2):
            self.found.clear()
            self._sequence(work, 1.0, is_inside=False, is_repeated=True)

    @property
    def steps(self) -> list[PlannedStep]:
        """The steps, in the order in which they first run."""
        return list(self.found.values())

    @property
    def seconds(self) -> float:
        """Seconds of a call."""
        return self.rates.call + sum(step.seconds * step.runs for step in self.steps)

    def _sequence(self, steps: list[Any], runs: float, *, is_inside: bool, is_repeated: bool) -> None:
        for step in steps:
            instruction, kind, trips, is_small, _, _, nested = step
            if kind == "while":
                trips = instruction.trip_count if trips is None else trips
                if trips is None:
                    self.unknown_loops.add(id(step))
                trips = 1 if trips is None else trips
                # The first trip finds in the caches what was before the loop, the others what a trip
                # leaves. Loops inside the first trip count as a whole, so that the visits of nested
                # loops do not double at each level.
                first = trips if not is_repeated else min(trips, 1)
                for times, is_last in ((first, trips <= 1), (trips - first, True)):
                    for part in nested if times > 0 else ():
                        self._sequence(
                            part,
                            runs * times,
                            is_inside=is_inside or is_small,
                            is_repeated=is_repeated and is_last,
                        )
            elif nested:
                for branch in nested:
                    self._sequence(branch, runs / len(nested), is_inside=is_inside, is_repeated=is_repeated)
            else:
                self._step(step, runs, is_inside=is_inside)

    def _step(self, step: Any, runs: float, *, is_inside: bool) -> None:
        instruction, _, _, is_small, counts, touched, _ = step
        rates = self.rates
        compute = sum(amount * rates.of(name, ty) for name, ty, amount in counts)
        memory = 0.0
        for piece in touched:
            *_, span, moved, windows, is_written = piece
            distance = self.caches.touch(piece)
            curve = rates.written if is_written else rates.read
            # Bytes that indices lead to several times have the piece's reuse distance the first time. After
            # that it is half of the piece on average.
            once, repeated = min(moved, span), span / 2
            memory += once * at(curve, distance) + (moved - once) * at(curve, repeated)
            if windows and not is_written:
                lines = min(windows, max(span // LINE, 1))
                memory += lines * at(rates.window, distance) + (windows - lines) * at(rates.window, repeated)
        start = 0.0 if is_small or is_inside else rates.step
        if compute * rates.threads < SPLIT:
            compute *= rates.threads
        else:
            start += rates.shared
        known = self.found.get(id(step))
        if known is None:
            total = float(sum(piece[3] for piece in touched))
            self.found[id(step)] = PlannedStep(instruction, runs, counts, total, compute, memory, start)
        else:
            known.memory = (known.memory * known.runs + memory * runs) / (known.runs + runs)
            known.runs += runs
