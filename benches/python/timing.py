"""How two engines are timed against each other: in turn, in one process, and only if their numbers agree."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Call = Callable[[], Any]


class DifferentResultsError(Exception):
    """Two engines disagree, so that their times mean nothing."""


def timed(call: Call, count: int = 1) -> float:
    """Seconds per call of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def calls_per_sample(call: Call, least: float) -> int:
    """How many calls take about `least` seconds."""
    return max(1, min(10000, int(least / max(timed(call), 1e-7))))


def alternate(
    calls: dict[str, Call], seconds: float, least: float = 1e-3, samples: int = 5
) -> dict[str, list[float]]:
    """Seconds per call of each of `calls`, sampled in turn.

    Args:
        calls: what to time, by name; each returns when its work is done.
        seconds: how long to go on, all of them together.
        least: a sample repeats its call until it takes about this many seconds.
        samples: of each at least, however long they take.
    """
    counts = {name: calls_per_sample(call, least) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while any(len(t) < samples for t in taken.values()) or time.perf_counter() < end:
        for name, call in calls.items():
            taken[name].append(timed(call, counts[name]))
    return taken


def wide(x: Any) -> Any:
    """The elements as the widest type of their kind."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def compare(ours: Sequence[Any], theirs: Sequence[Any], tolerance: float) -> None:
    """Checks that results agree.

    Args:
        ours: arrays.
        theirs: as many, of the same shapes.
        tolerance: of an element, as a share of itself plus that of the largest finite one of its array, and of
            a millionth where all are smaller.

    Raises:
        DifferentResultsError: where they do not.
    """
    if len(ours) != len(theirs):
        raise DifferentResultsError(f"{len(ours)} results, not {len(theirs)}")
    for at, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        u, v = wide(x), wide(y)
        if u.shape != v.shape:
            raise DifferentResultsError(f"result {at}: {u.shape}, not {v.shape}")
        finite = np.abs(v[np.isfinite(v)])
        scale = float(finite.max()) if finite.size else 0.0
        if not np.allclose(u, v, rtol=tolerance, atol=tolerance * max(scale, 1e-6), equal_nan=True):
            with np.errstate(invalid="ignore"):
                worst = np.nanmax(np.abs(u - v))
            raise DifferentResultsError(
                f"result {at} differs by {worst:.3g} where the largest is {scale:.3g}"
            )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(statistics.fmean(math.log(v) for v in values))


def heading() -> str:
    """The table's first line."""
    return f"{'case':44s} {'hlorun us':>11s} {'xla us':>11s} {'ratio':>7s} {'best':>7s}"


def line(row: dict[str, Any]) -> str:
    """A case as a line of the table."""
    return f"{row['name']:44s} {row['hlorun_us']:11.1f} {row['xla_us']:11.1f} {row['ratio']:7.2f} {row['best']:7.2f}"


def summary(rows: list[dict[str, Any]], shortest_us: float = 20.0) -> str:
    """Geometric means and worst cases by group and of all, and the worst ten.

    Args:
        rows: what `engines.alternating_row` returns, with a `group` each.
        shortest_us: cases that XLA runs in less than this many microseconds count in means, but not as worst.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    if len(groups) > 1:
        groups["all"] = rows
    width = max(len(name) for name in groups)
    lines = [f"{'group':{width}s} cases   mean  worst  slower"]
    for name, members in groups.items():
        mean = geometric_mean(row["ratio"] for row in members)
        long = [row["ratio"] for row in members if row["xla_us"] >= shortest_us]
        worst = f"{max(long):6.2f}" if long else f"{'-':>6s}"
        lines.append(
            f"{name:{width}s} {len(members):5d} {mean:6.2f} {worst} {sum(r > 1 for r in long):4d}/{len(long)}"
        )
    longest = [row for row in rows if row["xla_us"] >= shortest_us]
    ranked = sorted(longest, key=lambda row: -row["ratio"])[:10]
    return "\n".join([*lines, "", f"worst of those over {shortest_us:g} us:", *map(line, ranked)])
