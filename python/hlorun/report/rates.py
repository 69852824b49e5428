"""Measures the rates of operations and of memory on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from hlorun.report.planned import CLASSES, LINE, Curve, Planned, Rates, key
from hlorun.report.probes import Probe, arguments, fold, probes

BYTES = tuple(1 << power for power in (16, 18, 20, 21, 22, 23, 24, 25, 26, 27))
"""Working sets with which memory is measured, in bytes."""

WINDOWS = tuple(1 << power for power in (17, 20, 22, 23, 25, 26))
"""Bytes of all cache lines with which windows at indices are measured."""

HALVINGS = 24
"""Steps of the bisection for a rate."""

DOTS = 16
"""Products in a row with which the start of a step is measured."""


def best(run: Callable[[], object], least: float = 0.004) -> float:
    """Seconds of the fastest of several runs: three or more, until `least` seconds have passed."""
    run()
    found, start = float("inf"), perf_counter()
    for times in range(1000):
        before = perf_counter()
        run()
        now = perf_counter()
        found = min(found, now - before)
        if times >= 2 and now - start > least:
            break
    return found


class _Timed:
    """A program with its plan and its time.

    Args:
        probe: The program.
        values: Its arguments; by default those of `probes.arguments`.
    """

    def __init__(self, probe: Probe, *values: Any) -> None:
        import hlorun

        module = hlorun.parse(probe.text)
        executable = hlorun.compile(module)
        self.probe, self.work, self.seconds = probe, executable._work(), float("inf")
        values = values or tuple(arguments(module))
        self.run = lambda: executable(*values)

    def measure(self) -> None:
        """Runs it several times and keeps the time of the fastest run so far."""
        self.seconds = min(self.seconds, best(self.run))

    @property
    def amount(self) -> float:
        """Operations of the probe's class and type that the plan counts."""
        kind, ty = self.probe.kind, self.probe.element_type
        found = [count for step in self.work for count in step[4]]
        mine = [n for name, other, n in found if other == ty and kind in (name, CLASSES.get(name))]
        return float(sum(mine))


def _threads() -> int:
    """Number of threads that hlorun uses by default: one for each CPU that the process may run on."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _program(*lines: str, before: str = "") -> Probe:
    return Probe("", "", lines, before)


def _dots(size: int, count: int) -> Probe:
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    shape = f"f32[{size},{size}]"
    lines = [f"p0 = {shape} parameter(0)", f"v0 = {shape} negate(p0)"]
    lines += [f"v{k + 1} = {shape} dot(v{k}, p0), {dims}" for k in range(count)]
    return _program(*lines)


def _sum(n: int) -> Probe:
    zero, reduce = "z = f32[] constant(0)", "r = f32[] reduce(p0, z), dimensions={0}, to_apply=f"
    return _program(f"p0 = f32[{n}] parameter(0)", zero, reduce, before=fold("f32", "add"))


def _filled(n: int) -> Probe:
    return _program("p0 = f32[] parameter(0)", f"r = f32[{n}] broadcast(p0), dimensions={{}}")


def _gather(windows: int) -> Probe:
    dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
    table = f"f32[{windows * LINE // 4},1]"
    last = f"r = f32[{windows},1] gather(p0, p1), {dims}, slice_sizes={{1,1}}"
    return _program(f"p0 = {table} parameter(0)", f"p1 = s32[{windows},1] parameter(1)", last)


class _Levels:
    """Programs with which the levels of memory are measured."""

    def __init__(self) -> None:
        import numpy as np

        memory = np.ones(max(*BYTES, *WINDOWS) // 4, np.float32)
        rng = np.random.default_rng(0)
        self.read = {size: _Timed(_sum(size // 4), memory[: size // 4]) for size in BYTES}
        self.written = {size: _Timed(_filled(size // 4), np.float32(1)) for size in BYTES}
        self.window = {}
        for size in WINDOWS:
            lines = size // LINE
            places = (rng.permutation(lines) * (LINE // 4)).astype(np.int32)[:, None]
            self.window[size] = _Timed(_gather(lines), memory[: size // 4, None], places)

    @property
    def timed(self) -> list[_Timed]:
        """All programs."""
        return [*self.read.values(), *self.written.values(), *self.window.values()]

    def curves(self, call: float) -> tuple[Curve, Curve, Curve]:
        """Curves of `Rates.read`, `Rates.written` and `Rates.window`; `call` is the time of a call."""
        read, written = (
            _rising([(float(size), max(timed.seconds - call, call / 100) / size) for size, timed in each])
            for each in (self.read.items(), self.written.items())
        )
        lines = [(size, (timed.seconds - call) / (size // LINE)) for size, timed in self.window.items()]
        least = min(seconds for _, seconds in lines)
        return read, written, _rising([(float(size), seconds - least) for size, seconds in lines])


def _rising(curve: list[tuple[float, float]]) -> Curve:
    """The curve with no time above that of a larger working set.

    Where a byte of a smaller working set takes longer, that is the start of the step and not the memory.
    """
    least = float("inf")
    found = []
    for size, seconds in reversed(curve):
        least = min(least, seconds)
        found.append((size, least))
    return tuple(reversed(found))


def _fit(timed: _Timed, rates: Rates) -> None:
    """Sets the rate of a probe's class so that the estimate of the probe is its measured time."""
    name = key(timed.probe.kind, timed.probe.element_type)
    low, high = 0.0, timed.seconds * rates.threads / timed.amount
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rates.operations[name] = middle
        if Planned(timed.work, rates).seconds < timed.seconds:
            low = middle
        else:
            high = middle
    # Never zero, since a peak is the inverse of a rate.
    rates.operations[name] = high


def measure(rounds: int) -> Rates:
    """Measure the rates of classes of operations and of levels of memory, in a few seconds.

    Args:
        rounds: How often everything is measured; the fastest run counts.

    Returns:
        The rates.
    """
    call = _Timed(_program("p0 = f32[1] parameter(0)", "r = f32[1] add(p0, p0)"))
    small, large, levels = _Timed(_dots(8, DOTS)), _Timed(_dots(128, DOTS)), _Levels()
    classes = [_Timed(probe) for probe in probes()]
    # Other work on the machine disturbs all runs of a program in one round, but rarely those of every round.
    for _ in range(rounds):
        for timed in (call, small, large, *levels.timed, *classes):
            timed.measure()
    step = max(small.seconds - call.seconds, 0.0) / DOTS
    rates = Rates({}, *levels.curves(call.seconds), _threads(), step, 0.0, call.seconds)
    for timed in classes:
        # The plan of a probe may lack the class that the probe is for: plans depend on the CPU.
        if timed.amount:
            _fit(timed, rates)
    rest = max(large.seconds - Planned(large.work, rates).seconds, 0.0)
    return replace(rates, shared=rest / DOTS)
