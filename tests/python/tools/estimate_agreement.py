"""How far estimates are from measured times: `python tests/python/tools/estimate_agreement.py [PATTERN]`.

The programs of `estimates`, whose steps are large, are compiled by XLA, estimated with `roofline` at the measured
rates of this machine, and run. Half of them served to make the model, the others are held out. It prints measured and
estimated times with what bounds most of the estimate, the median of the errors, and how many programs are within 30 %.
Programs shorter than 50 microseconds do not count. Rates and programs are measured in several rounds, and the fastest
of each counts. Other work on the machine disturbs long runs on several threads most: `taskset -c 0` before the command
restricts both the rates and the programs to one thread. Needs jax and flax.
"""

from __future__ import annotations

import fnmatch
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import jax
import numpy as np
from estimates import PROGRAMS, Program
from jaxlib import _hlo

import hlorun
from hlorun.report.devices import measured

SHORTEST = 50e-6
"""Seconds of a program below which the call costs more than what it computes."""
ROUNDS = 5
"""How often rates and programs are measured."""
BATCH = 0.1
"""Seconds for which a program is run again and again in a round."""
NEAR = 0.3
"""The error up to which an estimate is called near."""


@dataclass
class Row:
    """A program and its times."""

    program: Program
    run: Callable[[], object]
    estimate: hlorun.Roofline
    seconds: float = float("inf")

    @property
    def error(self) -> float:
        """Relative error of the estimate; positive where it is too long."""
        return self.estimate.seconds / self.seconds - 1

    def measure(self) -> None:
        """Runs the program for `BATCH` seconds and keeps the time of the fastest run so far."""
        end = time.perf_counter() + BATCH
        self.run()
        while True:
            start = time.perf_counter()
            self.run()
            now = time.perf_counter()
            self.seconds = min(self.seconds, now - start)
            if now > end:
                return


def compiled(program: Program) -> tuple[str, list[Any]]:
    """The program's HLO as XLA compiled it, and its arguments."""
    with jax.enable_x64("f64" in program.name):
        function, arguments = program.make()
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        [module] = lowered.compile().runtime_executable().hlo_modules()
        return module.to_string(options), [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]


def prepared(program: Program, device: hlorun.Device) -> Row:
    """A row without its measured time."""
    text, leaves = compiled(program)
    module = hlorun.parse(text)
    executable = hlorun.compile(module)
    return Row(program, lambda: executable(*leaves), hlorun.roofline(module, device))


def show(group: str, rows: list[Row]) -> None:
    """Prints the table of a group."""
    print(f"\n{group}\n{'measured us':>12} {'estimate us':>12} {'error':>7}  bound (program)")
    for row in sorted(rows, key=lambda row: -row.seconds):
        bound = max(("compute", "memory"), key=lambda kind, row=row: getattr(row.estimate, kind))
        print(
            f"{row.seconds * 1e6:12.0f} {row.estimate.seconds * 1e6:12.0f} {row.error:7.0%}  "
            f"{bound} ({row.program.name})"
        )
    summarize(rows)


def summarize(rows: list[Row]) -> None:
    """Prints how far the estimates are off."""
    errors = [abs(row.error) for row in rows]
    near = sum(error <= NEAR for error in errors)
    print(f"{len(rows)} programs: median error {statistics.median(errors):.0%}, {near} of them within {NEAR:.0%}")


def main(pattern: str = "*") -> None:
    """Print the tables."""
    device = measured(ROUNDS)
    peaks = ", ".join(f"{name} {peak / 1e9:.0f}" for name, peak in device.products.items())
    print(
        f"products {peaks} GFLOP/s, vector {(device.vector or 0) / 1e9:.1f} GFLOP/s, "
        f"memory {device.memory / 1e9:.1f} GB/s"
    )
    chosen = [program for program in PROGRAMS if fnmatch.fnmatch(program.name, pattern)]
    rows = [prepared(program, device) for program in chosen]
    for _ in range(ROUNDS):
        for row in rows:
            row.measure()
    long = [row for row in rows if row.seconds >= SHORTEST]
    for group in dict.fromkeys(row.program.group for row in long):
        show(group, [row for row in long if row.program.group == group])
    print("\nall")
    summarize(long)


if __name__ == "__main__":
    main(*sys.argv[1:])
