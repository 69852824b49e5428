#!/usr/bin/env python3
"""What this machine allows, and what hlorun costs before it computes: import, a call on eight elements.

python benches/python/measure_machine.py [--json OUT]
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def best(call: Callable[[], Any], seconds: float = 0.5) -> float:
    """The least time of a call."""
    least = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def each(call: Callable[[], Any], count: int = 20_000) -> float:
    """The mean time of a call among many, the best of some rounds."""

    def loop() -> None:
        for _ in range(count):
            call()

    return best(loop, 1.0) / count


def import_ms() -> float:
    """What `import hlorun` adds to `import numpy`, the least of some fresh processes."""

    def seconds(code: str) -> float:
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
            for _ in range(7)
        ]
        return min(float(run.stdout) for run in runs)

    return (seconds("import numpy, hlorun") - seconds("import numpy")) * 1e3


def copy_gbps(threads: int) -> float:
    """Bytes read and written by a copy of 256 MiB."""
    import numpy as np

    a = np.ones(1 << 26, np.float32)
    b = np.zeros_like(a)
    cuts = [len(a) * i // threads for i in range(threads + 1)]

    def copy() -> None:
        workers = [
            threading.Thread(target=np.copyto, args=(b[i:j], a[i:j])) for i, j in itertools.pairwise(cuts)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return 2 * a.nbytes / best(copy, 1.0) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    import numpy as np
    from machine import describe, versions

    import hlorun

    add = """HloModule add
ENTRY e {
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  ROOT c = f32[8]{0} add(a, b)
}
"""
    executable = hlorun.compile(hlorun.parse(add))
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    call = each(lambda: executable(x, x))
    call_out = each(lambda: executable(x, x, out=out))
    product = """HloModule product
ENTRY e {
  a = f32[2048,2048]{1,0} parameter(0)
  b = f32[2048,2048]{1,0} parameter(1)
  ROOT c = f32[2048,2048]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    m = np.random.default_rng(0).standard_normal((2048, 2048), dtype=np.float32)
    to = np.empty_like(m)
    speeds = []
    for threads in (1, None):
        compiled = hlorun.compile(hlorun.parse(product), threads=threads)
        compiled(m, m, out=to)

        def run(compiled: Any = compiled) -> None:
            compiled(m, m, out=to)

        speeds.append(2 * 2048**3 / best(run, 1.0) / 1e9)
    row = {
        "machine": describe(),
        "versions": versions(),
        "import_ms": import_ms(),
        "call_us": call * 1e6,
        "call_out_us": call_out * 1e6,
        "copy_gbps": copy_gbps(describe()["cores"]),
        "product_one_thread_gflops": speeds[0],
        "product_gflops": speeds[1],
    }
    print(json.dumps(row, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
