"""What operations and bytes take on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from hlorun.report.planned import CLASSES, LINE, Curve, Planned, Rates, key
from hlorun.report.probes import Probe, arguments, fold, probes

BYTES = tuple(1 << power for power in (16, 18, 20, 21, 22, 23, 24, 25, 26, 27))
"""Working sets that memory is measured with."""

WINDOWS = tuple(1 << power for power in (17, 20, 22, 23, 25, 26))
"""Bytes of lines that elements at indices are measured with."""

HALVINGS = 24
"""Steps of the search for a rate."""


def best(run: Callable[[], object], least: float = 0.005) -> float:
    """Seconds of the fastest of several runs."""
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


@dataclass
class _Timed:
    """A probe with its plan and its time."""

    probe: Probe
    work: list[Any]
    seconds: float

    def counts_it(self) -> bool:
        """Whether the plan counts the class that the probe is for."""
        found = ((name, ty) for step in self.work for name, ty, _ in step[4])
        return any(
            ty == self.probe.element_type and self.probe.kind in (name, CLASSES.get(name))
            for name, ty in found
        )


def _threads() -> int:
    """Threads that hlorun uses: one for each CPU that the process may run on."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _prepared(text: str) -> tuple[Any, Callable[[], object]]:
    import hlorun

    module = hlorun.parse(text)
    executable = hlorun.compile(module)
    values = arguments(module)
    return executable, lambda: executable(*values)


def _timed(probe: Probe) -> _Timed:
    executable, run = _prepared(probe.text)
    return _Timed(probe, executable._work(), best(run))


def _seconds(text: str) -> float:
    return best(_prepared(text)[1])


def _rising(curve: list[tuple[float, float]]) -> Curve:
    """Without what smaller working sets take longer for: starting to work, not moving bytes."""
    least = float("inf")
    found = []
    for size, seconds in reversed(curve):
        least = min(least, seconds)
        found.append((size, least))
    return tuple(reversed(found))


def _memory(call: float) -> tuple[Curve, Curve]:
    """Seconds for a byte that a sum reads and that a broadcast writes, by their number."""
    read: list[tuple[float, float]] = []
    written: list[tuple[float, float]] = []
    for size in BYTES:
        n = size // 4
        zero, reduce = "z = f32[] constant(0)", "r = f32[] reduce(p0, z), dimensions={0}, to_apply=f"
        total = Probe("", "", (f"p0 = f32[{n}] parameter(0)", zero, reduce), fold("f32", "add"))
        filled = Probe("", "", ("p0 = f32[] parameter(0)", f"r = f32[{n}] broadcast(p0), dimensions={{}}"))
        for probe, curve in ((total, read), (filled, written)):
            curve.append((float(size), max(_seconds(probe.text) - call, call / 100) / size))
    return _rising(read), _rising(written)


def _windows(call: float) -> Curve:
    """Seconds for an element at an index beyond the least, by the bytes of all lines that indices lead to."""
    import numpy as np

    import hlorun

    found = []
    for size in WINDOWS:
        n = size // LINE
        dims = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"
        gather = f"r = f32[{n},1] gather(p0, p1), {dims}, slice_sizes={{1,1}}"
        lines = (f"p0 = f32[{size // 4},1] parameter(0)", f"p1 = s32[{n},1] parameter(1)", gather)
        run = hlorun.compile(hlorun.parse(Probe("", "", lines).text))
        rng = np.random.default_rng(0)
        table = np.ones((size // 4, 1), np.float32)
        places = (rng.permutation(n) * (LINE // 4)).astype(np.int32)[:, None]
        found.append((float(size), (best(lambda r=run, t=table, p=places: r(t, p)) - call) / n))  # type: ignore[misc]
    least = min(seconds for _, seconds in found)
    return tuple((size, max(seconds - least, 1e-13)) for size, seconds in _rising(found))


def _dots(size: int, count: int) -> str:
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    shape = f"f32[{size},{size}]"
    lines = [f"p0 = {shape} parameter(0)", f"v0 = {shape} negate(p0)"]
    lines += [f"v{k + 1} = {shape} dot(v{k}, p0), {dims}" for k in range(count)]
    return Probe("", "", tuple(lines)).text


def _fit(timed: _Timed, rates: Rates) -> None:
    """Sets the rate of a probe's class so that the estimate is what was measured."""
    name = key(timed.probe.kind, timed.probe.element_type)
    low, high = 0.0, timed.seconds
    for _ in range(HALVINGS * 2):
        middle = (low + high) / 2
        rates.operations[name] = middle
        if Planned(timed.work, rates).seconds < timed.seconds:
            low = middle
        else:
            high = middle
    rates.operations[name] = low


def measure(extra: Iterable[Probe] = ()) -> Rates:
    """Measure what classes of operations and levels of memory take, in a few seconds.

    Args:
        extra: Further probes.

    Returns:
        The rates.
    """
    call = _seconds("ENTRY e { p = f32[1] parameter(0) ROOT r = f32[1] add(p, p) }")
    read, written = _memory(call)
    window = _windows(call)
    step = max(_seconds(_dots(8, 32)) - call, 0.0) / 32
    rates = Rates({}, read, written, window, _threads(), step, 0.0, call)
    for timed in map(_timed, [*probes(), *extra]):
        if timed.counts_it():
            _fit(timed, rates)
    executable, run = _prepared(_dots(128, 16))
    rest = best(run) - Planned(executable._work(), rates).seconds
    return replace(rates, shared=max(rest, 0.0) / 16)
