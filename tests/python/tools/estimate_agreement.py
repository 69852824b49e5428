"""How far estimates are from measured times: `python tests/python/tools/estimate_agreement.py [PROGRAMS]`.

Each stored JAX program that runs longer than 50 microseconds, the longest first, is estimated with `roofline` on
this machine's measured peaks and run. It prints measured and estimated times with what bounds the estimate, the
median of the errors, and how many programs are within 30 %. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hlorun
from hlorun.report.devices import measured
from programs import store

SHORTEST = 50e-6
"""Seconds below which what a call costs counts for more than what it computes."""
BATCH = 0.02
"""Seconds that runs are repeated for, several times over; the fastest counts, as for the peaks."""


def seconds_of(run: Callable[[], object]) -> float:
    """Seconds of one run: the mean of a batch, the fastest of five batches."""
    run()
    start = time.perf_counter()
    run()
    times = max(1, int(BATCH / max(time.perf_counter() - start, 1e-7)))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            run()
        best = min(best, (time.perf_counter() - start) / times)
    return best


def main(count: int = 30) -> None:
    """Print the table."""
    device = measured()
    peaks = ", ".join(f"{name} {peak / 1e9:.0f}" for name, peak in device.products.items())
    print(
        f"products {peaks} GFLOP/s, vector {(device.vector or 0) / 1e9:.1f} GFLOP/s, "
        f"memory {device.memory / 1e9:.1f} GB/s"
    )
    rows = []
    for suite in store.suites():
        for program in store.read(suite):
            module = hlorun.parse(program.texts["compiled"])
            try:
                executable = hlorun.compile(module, replicas=1, partitions=1)
                took = seconds_of(lambda run=executable, args=program.inputs: run(*args))  # type: ignore[misc]
            except hlorun.HloError:
                continue
            if took >= SHORTEST:
                estimate = hlorun.roofline(module, device)
                rows.append((took, estimate.seconds, estimate, program.name))
    rows.sort(key=lambda row: -row[0])
    rows = rows[:count]
    print(f"{'measured us':>12} {'estimate us':>12} {'error':>7}  bound (program)")
    errors = []
    for took, expected, estimate, name in rows:
        errors.append(abs(expected - took) / took)
        bound = max(("compute", "memory"), key=lambda kind: getattr(estimate, kind))
        print(f"{took * 1e6:12.0f} {expected * 1e6:12.0f} {expected / took - 1:7.0%}  {bound} ({name})")
    within = sum(error <= 0.3 for error in errors)
    print(
        f"{len(errors)} programs: median error {statistics.median(errors):.0%}, {within} of them within 30 %"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
