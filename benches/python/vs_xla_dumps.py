#!/usr/bin/env python3
"""Time the dumps on hlorun and on XLA:CPU, in alternating fresh processes.

  python benches/python/vs_xla_dumps.py [001 003 004] [--rounds 3] [--seconds 3] [--json OUT]

Per dump: the time to compile, the median and best run, the peak of resident memory, hlorun's run on one thread, and of
`--first` dumps the time to the first result: from the start of a fresh process to the result of one run. hlorun reads the
dump itself, XLA:CPU the same program in plain HLO (benches/data). Needs jax.
"""

from __future__ import annotations

import argparse
import json
import lzma
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))


def inputs(parameters: list[tuple[Any, tuple[int, ...]]]) -> list[Any]:
    """Arrays under which training steps stay finite."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(0))
    made: list[Any] = []
    for dtype, dims in parameters:
        if dtype == np.bool_:
            x = rng.integers(0, 2, dims)
        elif dtype.kind == "u":
            x = rng.integers(0, 2**31 if dtype.itemsize > 2 else 10, dims)
        elif dtype.kind == "i":
            x = rng.integers(0, 256, dims) if dims else np.asarray(10)
        elif len(dims) >= 2:
            x = 0.05 * rng.standard_normal(dims, dtype=np.float32)
        else:
            x = rng.uniform(0.01, 0.1, dims)
        made.append(np.asarray(x).astype(dtype))
    return made


def prepare(engine: str, name: str, threads: int | None) -> tuple[Any, float]:
    """A call that runs the dump once, and the seconds its compilation took."""
    if engine == "xla":
        import jax
        import numpy as np
        from jax._src.lib import xla_client
        from jaxlib import _hlo

        (file,) = (ROOT / "benches" / "data").glob(f"{name}_*.xz")
        module = _hlo.hlo_module_from_text(lzma.decompress(file.read_bytes()).decode())
        start = time.perf_counter()
        computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        mlir = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
        client = jax.devices("cpu")[0].client
        devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
        compiled = client.compile_and_load(mlir, devices, xla_client.CompileOptions())
        took = time.perf_counter() - start
        shapes = computation.program_shape().parameter_shapes()
        made = inputs([(np.dtype(s.numpy_dtype()), tuple(s.dimensions())) for s in shapes])
        buffers = [jax.device_put(x) for x in made]

        def run_xla() -> None:
            for out in compiled.execute(buffers):
                out.block_until_ready()

        return run_xla, took
    import numpy as np

    import hlorun

    (file,) = (ROOT / "tests" / "data" / "dumps").glob(f"{name}_*.zst")
    dump = hlorun.load(file)
    start = time.perf_counter()
    executable = hlorun.compile(dump, threads=threads)
    took = time.perf_counter() - start
    entry = dump.entry_computation
    assert entry is not None
    arrays = inputs([(np.dtype(p.shape.dtype), tuple(p.shape.dims)) for p in entry.parameters])
    return lambda: executable(*arrays), took


def child(engine: str, name: str, seconds: float, threads: int | None) -> None:
    """Measures in this process; with no seconds, one run."""
    call, compile_s = prepare(engine, name, threads)
    call()
    done = time.time()
    runs: list[float] = []
    end = time.perf_counter() + seconds
    while seconds and (len(runs) < 3 or (time.perf_counter() < end and len(runs) < 2000)):
        start = time.perf_counter()
        call()
        runs.append(time.perf_counter() - start)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {"compile_s": compile_s, "rss_mb": rss, "done": done}
    if runs:
        row |= {"run_s": statistics.median(runs), "best_s": min(runs)}
    print(json.dumps(row))


def spawn(engine: str, name: str, seconds: float, threads: int | None = None) -> dict[str, float]:
    command = [sys.executable, __file__, name, "--engine", engine, "--seconds", str(seconds)]
    if threads:
        command += ["--threads", str(threads)]
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{engine} {name} failed:\n{done.stderr[-2000:]}")
    row: dict[str, float] = json.loads(done.stdout.strip().split("\n")[-1])
    row["first_s"] = row["done"] - start
    return row


def middle(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(r[key] for r in rows) for key in rows[0] if key != "done"}


def measure(name: str, rounds: int, seconds: float, first: bool) -> dict[str, Any]:
    ways: dict[str, tuple[str, float, int | None]] = {
        "hlorun": ("hlorun", seconds, None),
        "xla": ("xla", seconds, None),
        "one_thread": ("hlorun", seconds, 1),
    }
    if first:
        ways |= {"hlorun_first": ("hlorun", 0.0, None), "xla_first": ("xla", 0.0, None)}
    rows: dict[str, list[dict[str, float]]] = {key: [] for key in ways}
    for _ in range(rounds):
        for key, (engine, length, threads) in ways.items():
            rows[key].append(spawn(engine, name, length, threads))
    row: dict[str, Any] = {"name": name, **{key: middle(value) for key, value in rows.items()}}
    ours, theirs = row["hlorun"], row["xla"]
    row["ratios"] = {key: ours[key] / theirs[key] for key in ("compile_s", "run_s", "best_s", "rss_mb")}
    row["speedup_two_threads"] = row["one_thread"]["run_s"] / ours["run_s"]
    if first:
        row["ratios"]["first_s"] = row["hlorun_first"]["first_s"] / row["xla_first"]["first_s"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dumps", nargs="*", default=["001", "003", "004"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of runs in each process")
    parser.add_argument("--first", default="001", help="dumps whose first result is timed")
    parser.add_argument("--engine", choices=["hlorun", "xla"], help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.engine:
        child(arguments.engine, arguments.dumps[0], arguments.seconds, arguments.threads)
        return
    from machine import describe, versions

    rows = []
    for name in arguments.dumps:
        row = measure(name, arguments.rounds, arguments.seconds, name in arguments.first.split(","))
        rows.append(row)
        ratios = "  ".join(f"{key} {value:.3f}" for key, value in row["ratios"].items())
        print(
            f"{name}: run {row['hlorun']['run_s'] * 1e3:.3f} ms, XLA {row['xla']['run_s'] * 1e3:.3f} ms; {ratios}"
        )
    if arguments.json:
        page = {"machine": describe(), "versions": versions(), "cases": rows}
        arguments.json.write_text(json.dumps(page, indent=1) + "\n")


if __name__ == "__main__":
    main()
