#!/usr/bin/env python3
"""Where the time of a dump's run goes, by kind of step.

  python benches/python/profile_dump.py 004 [--json OUT] [--trace TRACE.json]

The same measurement as `hlorun run --profile`; `--trace` writes its Chrome trace.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from machine import describe, versions
from measure_machine import best
from vs_xla_dumps import ROOT, inputs

CONTAINERS = ("while", "conditional")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dump", nargs="?", default="004")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--trace", type=Path)
    arguments = parser.parse_args()
    import numpy as np

    import hlorun
    from hlorun.report.profile import write_trace

    (file,) = (ROOT / "tests" / "data" / "dumps").glob(f"{arguments.dump}_*.zst")
    dump = hlorun.load(file)
    executable = hlorun.compile(dump)
    entry = dump.entry_computation
    assert entry is not None
    arrays = inputs([(np.dtype(p.shape.dtype), tuple(p.shape.dims)) for p in entry.parameters])
    executable(*arrays)
    seconds = best(lambda: executable(*arrays), 3.0)
    events = executable.profile(*arrays)[1]
    if arguments.trace:
        write_trace(arguments.trace, dump.name, events)
    kinds: dict[str, list[float]] = defaultdict(list)
    for _instruction, kind, _device, _start, duration in events:
        if kind in CONTAINERS:
            continue
        kinds[kind].append(duration)
    m = np.ones((2048, 2048), np.float32)
    text = """HloModule p
ENTRY e {
  a = f32[2048,2048]{1,0} parameter(0)
  ROOT c = f32[2048,2048]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    product = hlorun.compile(hlorun.parse(text))
    peak = 2 * 2048**3 / best(lambda: product(m)) / 1e9
    total = sum(sum(runs) for runs in kinds.values())
    row = {
        "machine": describe(),
        "versions": versions(),
        "name": arguments.dump,
        "run_s": seconds,
        "seconds": total,
        "peak_gflops": peak,
        "kinds": [
            {"kind": kind, "runs": len(runs), "seconds": sum(runs)}
            for kind, runs in sorted(kinds.items(), key=lambda item: -sum(item[1]))
        ],
    }
    print(json.dumps(row, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
