#!/usr/bin/env python3
"""Time `hlorun.jax.jit`, or hlorun as a platform of JAX, against `jax.jit` as a user meets them: to the first result, and per call after it.

  python benches/python/vs_jax_jit.py [--plugin] [--only PATTERN] [--seed 0] [--seconds 0.6]

The programs are those of `programs`, by default the ones written with libraries around JAX. The first result is timed
with nothing traced before: trace, lowering, XLA's compilation or hlorun's plan, and the run. Calls after it are timed in
turn. Results are compared first. With `--plugin`, both are `jax.jit`, on the CPU and on hlorun's device. Printed: seconds, milliseconds, ratios (below 1 hlorun is faster) and their geometric
means; at the end the cost of a call that adds two numbers. Needs jax; exit 1 where a program fails.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu,hlorun" if "--plugin" in sys.argv else "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import numpy as np
from timing import alternate, compare

import hlorun.jax
from programs import PROGRAMS, Draw

IS_PLUGIN = "--plugin" in sys.argv
ENGINES = {"jax": jax.jit, "hlorun": jax.jit if IS_PLUGIN else hlorun.jax.jit}
PLACES = {"jax": jax.devices("cpu")[0], "hlorun": jax.devices("hlorun" if IS_PLUGIN else "cpu")[0]}


def placed(name: str, arguments: Any) -> Any:
    """Arguments where an engine takes them."""
    arrays = jax.tree.map(jax.numpy.asarray, arguments)
    return jax.device_put(arrays, PLACES[name]) if IS_PLUGIN else arrays


def first(name: str, make: Callable[[], Any]) -> tuple[float, Any, Callable[[], Any]]:
    """Seconds to an engine's first result, it, and a call for another one."""
    function, arguments = make()
    jax.clear_caches()
    arguments = placed(name, arguments)
    jitted = ENGINES[name](function)

    def call() -> Any:
        return jax.block_until_ready(jitted(*arguments))

    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result, call


def measure(
    make: Callable[[], Any], tolerance: float, seconds: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds to the first result and per call, of each engine."""
    begins, results, calls = {}, {}, {}
    for name in ENGINES:
        begins[name], results[name], calls[name] = first(name, make)
    ours, theirs = (jax.tree.leaves(results[name]) for name in ("hlorun", "jax"))
    compare([np.asarray(x) for x in ours], [np.asarray(x) for x in theirs], tolerance)
    steady = {name: statistics.median(times) for name, times in alternate(calls, seconds).items()}
    return begins, steady


def dispatch(seconds: float) -> None:
    """Prints what a call costs that does nothing else."""
    numbers = {name: placed(name, (jax.numpy.float32(1), jax.numpy.float32(2))) for name in ENGINES}
    jitted = {name: jit(lambda a, b: a + b) for name, jit in ENGINES.items()}
    calls = {name: (lambda f=f, given=numbers[name]: f(*given)) for name, f in jitted.items()}
    times = {name: statistics.median(taken) * 1e6 for name, taken in alternate(calls, seconds).items()}
    ratio = times["hlorun"] / times["jax"]
    print(f"a + b: jax {times['jax']:.1f} µs, hlorun {times['hlorun']:.1f} µs a call, {ratio:.2f}")


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--plugin", action="store_true")
    parser.add_argument("--only", default="^ecosystem/")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.6)
    options = parser.parse_args()
    # What either engine does once in a process.
    for name, jit in ENGINES.items():
        jit(lambda x: x + 1)(placed(name, 1.0))
    ratios: list[tuple[float, float]] = []
    failed = 0
    print(
        f"{'program':34} {'first s: jax':>12} {'hlorun':>8} {'ratio':>6} {'call ms: jax':>13} {'hlorun':>8} {'ratio':>6}"
    )
    for program in PROGRAMS:
        name = f"{program.group}/{program.name}"
        if not re.search(options.only, name):
            continue
        if program.missing():
            print(f"{name}: skipped, {program.needs} is not installed")
            continue
        try:
            begins, steady = measure(
                lambda program=program: program.make(Draw(options.seed, program.name)),
                program.tolerance,
                options.seconds,
            )
        except Exception as error:
            failed += 1
            print(f"{name:34} {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        ratio = begins["hlorun"] / begins["jax"], steady["hlorun"] / steady["jax"]
        ratios.append(ratio)
        print(
            f"{name:34} {begins['jax']:12.2f} {begins['hlorun']:8.2f} {ratio[0]:6.2f} "
            f"{steady['jax'] * 1e3:13.3f} {steady['hlorun'] * 1e3:8.3f} {ratio[1]:6.2f}",
            flush=True,
        )
    if ratios:
        means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios, strict=True)]
        print(f"geometric means: first {means[0]:.2f}, call {means[1]:.2f}")
    dispatch(options.seconds)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
