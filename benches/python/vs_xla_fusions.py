#!/usr/bin/env python3
"""Time fused loops of hlorun against XLA:CPU, in turn in one process, both on all cores.

  python benches/python/vs_xla_fusions.py [--only PATTERN] [--form {before,after,both}] [--elements 16777216]
                                          [--seconds 0.6] [--json OUT] [--list]

Every case is a JAX function. `before` runs the HLO that JAX hands to XLA (nothing fused yet), `after` the HLO that XLA
compiled (its own fusions). Printed per case: medians, their ratio (below 1 hlorun is faster), GB/s of useful traffic,
which is every input read once and every result written once, and that as a share of the bandwidth of a copy of the
same machine: both cores copy 64 MiB each way, several times, in the same run. Results are compared before they are
timed. Needs jax.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import numpy as np
from engines import outputs_of, text_of
from timing import DifferentResultsError, alternate, compare

import hlorun

Array = Any


@dataclass
class Case:
    """A function and its arguments."""

    name: str
    function: Callable[..., Any]
    make: Callable[[], tuple[Array, ...]]
    flops: float = 0.0
    tolerance: float = 2e-5


@functools.cache
def normal(*dims: int, seed: int = 0) -> Array:
    """Standard normal f32."""
    return np.random.default_rng(seed).standard_normal(dims, dtype=np.float32)


def adam(p: Array, m: Array, v: Array, g: Array) -> tuple[Array, Array, Array]:
    """One step of Adam."""
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8), m, v


def long_chain(a: Array, b: Array) -> Array:
    """Ten operations on two inputs."""
    x = a * b + a
    x = jnp.maximum(x, b) * 0.5
    x = x - a * 0.25
    return jnp.minimum(x + b, 3.0) * x


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    """Layer normalization of rows."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x: Array, scale: Array) -> Array:
    """Root-mean-square normalization of rows."""
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def cross_entropy(x: Array, labels: Array) -> Array:
    """Mean cross entropy of rows of logits."""
    y = jax.nn.log_softmax(x)
    return -jnp.take_along_axis(y, labels[:, None], -1).mean()


def cases(n: int) -> Iterator[Case]:
    """All cases over about `n` elements."""
    side = int(n**0.5) // 64 * 64
    rows = n // 1024

    def flat(count: int) -> Callable[[], tuple[Array, ...]]:
        return lambda: tuple(normal(n, seed=k) for k in range(count))

    def square(count: int = 1) -> Callable[[], tuple[Array, ...]]:
        return lambda: tuple(normal(side, side, seed=k) for k in range(count))

    def halves(count: int) -> Callable[[], tuple[Array, ...]]:
        return lambda: tuple(normal(n, seed=k).astype(jnp.bfloat16) for k in range(count))

    yield Case("copy_scale", lambda x: x * 2.0, flat(1), n)
    yield Case("multiply_add", lambda x, y, z: x * y + z, flat(3), 2 * n)
    yield Case("long_chain", long_chain, flat(2), 10 * n)
    yield Case("adam", adam, lambda: (*flat(2)(), abs(normal(n, seed=2)), normal(n, seed=3)), 14 * n, 2e-4)
    yield Case("relu", jax.nn.relu, flat(1), n)
    yield Case("gelu_tanh", lambda x: jax.nn.gelu(x, approximate=True), flat(1), 20 * n)
    yield Case("gelu_erf", lambda x: jax.nn.gelu(x, approximate=False), flat(1), 20 * n)
    yield Case("sigmoid", jax.nn.sigmoid, flat(1), 12 * n)
    yield Case("silu", jax.nn.silu, flat(1), 13 * n)
    yield Case("exp", jnp.exp, flat(1), 10 * n)
    yield Case("log", jnp.log, lambda: (abs(normal(n)) + np.float32(0.1),), 12 * n)
    yield Case("sin", jnp.sin, flat(1), 12 * n)
    for width in (128, 1024, 4096, 50257):
        yield Case(f"softmax_{width}", jax.nn.softmax, lambda w=width: (normal(n // w, w),), 14 * n)
    yield Case(
        "layer_norm",
        layer_norm,
        lambda: (normal(rows, 1024), normal(1024), normal(1024, seed=1)),
        9 * n,
        1e-4,
    )
    yield Case("rms_norm", rms_norm, lambda: (normal(rows, 1024), normal(1024)), 4 * n, 1e-4)
    yield Case("log_softmax", jax.nn.log_softmax, lambda: (normal(n // 4096, 4096),), 13 * n)
    labels = np.arange(n // 4096, dtype=np.int32) % 4096
    yield Case("cross_entropy", cross_entropy, lambda: (normal(n // 4096, 4096), labels), 13 * n, 1e-4)
    yield Case("transpose", lambda x: x.T, square())
    yield Case("transpose_odd", lambda x: x.T, lambda: (normal(side - 5, side + 3),))
    yield Case("transpose_add", lambda x, y: x.T + y, square(2), n)
    images = (32, 64, n // (32 * 64 * 64), 64)
    yield Case("nchw_to_nhwc", lambda x: x.transpose(0, 2, 3, 1), lambda: (normal(*images),))
    yield Case("nhwc_to_nchw", lambda x: x.transpose(0, 3, 1, 2), lambda: (normal(*images),))
    yield Case("reduce_rows", lambda x: x.sum(-1), square(), n, 1e-3)
    yield Case("reduce_columns", lambda x: x.sum(0), square(), n, 1e-3)
    yield Case("reduce_max_rows", lambda x: x.max(-1), square(), n)
    yield Case("reduce_few_rows", lambda x: x.sum(-1), lambda: (normal(3, n // 3),), n, 1e-2)
    yield Case("reduce_few_columns", lambda x: x.sum(0), lambda: (normal(n // 4, 4),), n, 1e-2)
    yield Case("sum", jnp.sum, flat(1), n, 1e-2)
    yield Case("max", jnp.max, flat(1), n)
    yield Case("sum_of_squares", lambda x: (x * x).sum(), flat(1), 2 * n, 1e-2)
    yield Case("argmax", jnp.argmax, flat(1), n)
    yield Case("argmax_rows", lambda x: x.argmax(-1), square(), n)
    yield Case("bf16_chain", lambda x, y, z: x * y + z, halves(3), 2 * n, 4e-2)
    yield Case(
        "bf16_to_f32_chain",
        lambda x, y: (x.astype(jnp.float32) * 1.5 + y.astype(jnp.float32)).astype(jnp.bfloat16),
        halves(2),
        2 * n,
        4e-2,
    )
    yield Case(
        "broadcast_row", lambda x, r: jnp.maximum(x + r, 0), lambda: (normal(rows, 1024), normal(1024)), 2 * n
    )
    yield Case("broadcast_column", lambda x, r: x * r, lambda: (normal(rows, 1024), normal(rows, 1)), n)

    def split() -> tuple[Array, ...]:
        return normal(side // 2, side), normal(side // 2, side, seed=1)

    yield Case("concatenate", lambda x, y: jnp.concatenate([x, y + 1], 0), split)
    yield Case("concatenate_minor", lambda x, y: jnp.concatenate([x, y + 1], 1), split)
    yield Case("pad", lambda x: jnp.pad(x * 2, ((3, 5), (7, 9))), square())
    yield Case("slice_add", lambda x: x[1:, 1:] + x[:-1, :-1], square(), n)
    yield Case(
        "update_slice",
        lambda x, y: jax.lax.dynamic_update_slice(x, y * 2, (5, 7)),
        lambda: (normal(side, side), normal(side // 2, side // 2)),
    )
    yield Case("cumsum", lambda x: jnp.cumsum(x, axis=-1), lambda: (normal(rows, 1024),), n, 1e-3)
    tokens = np.random.default_rng(7).integers(0, 50257, n // 256).astype(np.int32)
    yield Case("embedding", lambda t, i: t[i], lambda: (normal(50257, 256), tokens))
    yield Case(
        "scatter_add",
        lambda t, i, u: t.at[i].add(u),
        lambda: (normal(50257, 256), tokens, normal(n // 256, 256)),
        n,
        1e-3,
    )

    def integers() -> tuple[Array, ...]:
        return tuple(np.random.default_rng(s).integers(-1000, 1000, n).astype(np.int32) for s in (0, 1))

    yield Case("int32_chain", lambda x, y: (x * 3 + y) & 255 | (y << 2), integers, 5 * n)
    yield Case("select_compare", lambda x, y: jnp.where(x > y, x * 2, y), flat(2), 3 * n)
    yield Case("mask", lambda x, y: (x > 0) & (y < 1), flat(2), 3 * n)


def texts(case: Case, arguments: tuple[Array, ...], form: str) -> Iterator[tuple[str, str]]:
    """The HLO of the case."""
    for one in ("before", "after") if form == "both" else (form,):
        yield one, text_of(case.function, arguments, one)


def copy_bandwidth(size: int = 64 << 20, rounds: int = 7) -> float:
    """GB/s read plus written by all cores copying `size` bytes together."""
    cores = os.cpu_count() or 1
    source = np.ones(size, np.uint8)
    target = np.empty_like(source)
    target.fill(0)
    parts = [slice(size * i // cores, size * (i + 1) // cores) for i in range(cores)]
    best = []
    for _ in range(rounds):
        threads = [threading.Thread(target=np.copyto, args=(target[p], source[p])) for p in parts]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best.append(time.perf_counter() - start)
    return 2 * size / statistics.median(best) / 1e9


def measure(
    case: Case, arguments: tuple[Array, ...], form: str, text: str, seconds: float, disable: list[str]
) -> dict[str, Any]:
    """Alternates both engines for some seconds."""
    executable = hlorun.compile(hlorun.parse(text), disable=disable)
    reference = jax.jit(case.function)
    buffers = [jax.device_put(x) for x in arguments]

    def ours() -> Any:
        return executable(*arguments)

    def theirs() -> Any:
        return jax.block_until_ready(reference(*buffers))

    outputs = outputs_of(ours())
    try:
        compare(outputs, jax.tree.leaves(theirs()), case.tolerance)
    except DifferentResultsError as error:
        sys.exit(f"{case.name}: {error}")
    size = sum(x.nbytes for x in arguments) + sum(np.asarray(x).nbytes for x in outputs)
    del outputs
    ours()
    taken = alternate({"hlorun": ours, "xla": theirs}, seconds, least=0.0)
    mine, other = (statistics.median(taken[engine]) for engine in ("hlorun", "xla"))
    return {
        "name": f"{case.name}/{form}",
        "hlorun_ms": mine * 1e3,
        "xla_ms": other * 1e3,
        "ratio": mine / other,
        "bytes": size,
        "flops": case.flops,
        "gbps": size / mine / 1e9,
    }


def machine() -> str:
    """The processor's name and number of cores."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        name = names[0] if names else name
    return f"{name}, {os.cpu_count()} cores"


def main() -> None:
    """Runs the cases and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="*", help="names, as shell patterns, separated by commas")
    parser.add_argument("--form", choices=["before", "after", "both"], default="both")
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--disable", default="", help="passes to switch off, separated by commas")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    patterns = options.only.split(",")
    disable = [name for name in options.disable.split(",") if name]
    if options.list:
        for case in cases(1 << 16):
            print(case.name)
        return
    copy = copy_bandwidth()
    print(f"copy {copy:.1f} GB/s")
    print(f"{'case':32s} {'hlorun ms':>10s} {'xla ms':>10s} {'ratio':>7s} {'GB/s':>7s} {'share':>6s}")
    rows = []
    for case in cases(options.elements):
        if not any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns):
            continue
        arguments = case.make()
        normal.cache_clear()
        for form, text in texts(case, arguments, options.form):
            row = measure(case, arguments, form, text, options.seconds, disable)
            row["copy_share"] = row["gbps"] / copy
            rows.append(row)
            print(
                f"{row['name']:32s} {row['hlorun_ms']:10.2f} {row['xla_ms']:10.2f} {row['ratio']:7.2f} "
                f"{row['gbps']:7.1f} {row['copy_share']:6.2f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(
            json.dumps(
                {
                    "machine": machine(),
                    "versions": {
                        "hlorun": hlorun.__version__,
                        "jax": jax.__version__,
                        "numpy": np.__version__,
                    },
                    "copy_gbps": copy,
                    "elements": options.elements,
                    "cases": rows,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
