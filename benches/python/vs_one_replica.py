"""What N replicas of a dump cost beside one, in turns, so that both see the same machine.

    python benches/python/vs_one_replica.py [DUMP] [--replicas 8] [--rounds 60]

Arguments of the replicas: `same` are one set of arrays for all, `batches` are weights in common and data
of their own, `apart` are arrays of their own throughout; `batches, per device` is `batches` with
`disable=["replicated-values"]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hlorun
from hlorun._inputs import random_inputs

DUMPS = Path(__file__).resolve().parents[2] / "tests" / "data" / "dumps"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump", nargs="?", type=Path, default=next(DUMPS.glob("003_*")))
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--shared", type=int, default=6, help="parameters that are weights, from the first")
    options = parser.parse_args()
    module = hlorun.load(options.dump)
    n = options.replicas
    own = [random_inputs(module, seed=replica) for replica in range(n)]
    batches = [own[0][: options.shared] + inputs[options.shared :] for inputs in own]
    one = hlorun.compile(module)
    many = hlorun.compile(module, replicas=n)
    each = hlorun.compile(module, replicas=n, disable=["replicated-values"])
    runs: dict[str, Callable[[], Any]] = {
        "one": lambda: one(*own[0]),
        "same": lambda: many.run_replicas([own[0]] * n),
        "batches": lambda: many.run_replicas(batches),
        "batches, per device": lambda: each.run_replicas(batches),
        "apart": lambda: many.run_replicas(own),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            # The first run of a turn finds the caches as the others left them.
            run()
            for _ in range(n if name == "one" else 1):
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    unit = float(np.median(times["one"]))
    print(f"{n} replicas of {options.dump.name}: median and best of {options.rounds} turns")
    for name, list_ in times.items():
        median = float(np.median(list_))
        print(f"{name:20} {median:8.3f} ms  best {min(list_):8.3f} ms  {median / unit:6.2f} x one")


if __name__ == "__main__":
    main()
