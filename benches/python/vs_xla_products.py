#!/usr/bin/env python3
"""Time matrix products on hlorun, on XLA:CPU and on OpenBLAS, in alternation in one process.

  python benches/python/vs_xla_products.py [--only TEXT] [--dtypes f32,f64,bf16,f16] [--rounds 5] [--core NAME] [--json OUT]

All three use every core the process may run on. OpenBLAS is the copy NumPy brings; `--core` (default: the widest this
CPU has; `env` keeps OPENBLAS_CORETYPE as it is) names its kernels. It has no product of bf16 or f16. Prints GFLOP/s of each, and
hlorun's share of the best of the others. Needs jax.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from machine import describe, versions

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """C[m,n] = A[m,k] B[k,n], `batch` times; `ta` and `tb` store the operand transposed."""

    m: int
    k: int
    n: int
    layout: str = "nn"
    batch: int = 1
    constant: bool = False

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        constant = " constant" if self.constant else ""
        return f"{batch}{self.m}x{self.k}x{self.n} {self.layout}{constant}"

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.k * self.n

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        lead = (self.batch,) if self.batch > 1 else ()
        a = (self.k, self.m) if self.layout[0] == "t" else (self.m, self.k)
        b = (self.n, self.k) if self.layout[1] == "t" else (self.k, self.n)
        return lead + a, lead + b, (*lead, self.m, self.n)


CASES = [
    Case(1, 1024, 1024),
    Case(1, 4096, 4096),
    Case(1, 4096, 4096, "nt"),
    Case(12, 784, 1024),
    Case(12, 1024, 1024),
    Case(12, 1024, 1024, "nt"),
    Case(784, 12, 1024, "tn"),
    Case(32, 784, 128),
    Case(12, 1024, 10),
    Case(16, 256, 512, constant=True),
    Case(16, 2048, 4096),
    Case(16, 4096, 2048, "nt"),
    Case(64, 1024, 1024),
    Case(64, 1024, 1024, "nt"),
    Case(4096, 64, 64),
    Case(8192, 128, 32),
    Case(64, 64, 64),
    Case(128, 128, 128),
    Case(256, 256, 256),
    Case(512, 512, 512),
    Case(1024, 1024, 1024),
    Case(1024, 1024, 1024, "nt"),
    Case(1024, 1024, 1024, "tn"),
    Case(2048, 2048, 2048),
    Case(64, 8192, 64),
    Case(128, 64, 128, "nt", batch=64),
    Case(128, 128, 64, batch=64),
    Case(16, 16, 16, batch=256),
]
DTYPES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2}


def text_of(case: Case, dtype: str) -> str:
    """The product as HLO."""

    def shape(dims: tuple[int, ...]) -> str:
        order = ",".join(str(d) for d in reversed(range(len(dims))))
        return f"{dtype}[{','.join(map(str, dims))}]{{{order}}}"

    a, b, c = case.shapes()
    lead = len(a) - 2
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if lead else ""
    left = lead + (0 if case.layout[0] == "t" else 1)
    right = lead + (1 if case.layout[1] == "t" else 0)
    if case.constant:
        rows = (", ".join(f"{(i * 31 + j * 17) % 13 / 8 - 0.75}" for j in range(b[1])) for i in range(b[0]))
        weights = f"{shape(b)} constant({{{', '.join('{' + row + '}' for row in rows)}}})"
    else:
        weights = f"{shape(b)} parameter(1)"
    return f"""HloModule product
ENTRY e {{
  a = {shape(a)} parameter(0)
  b = {weights}
  ROOT c = {shape(c)} dot(a, b), {batch}lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
}}
"""


def arrays(case: Case, dtype: str) -> list[Any]:
    import ml_dtypes
    import numpy as np

    ty: Any = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
    rng = np.random.default_rng(7)
    made = [rng.standard_normal(s, dtype=np.float32).astype(ty) for s in case.shapes()[:2]]
    return made[:1] if case.constant else made


def on_hlorun(case: Case, dtype: str, inputs: list[Any]) -> tuple[Call, Call]:
    import numpy as np

    import hlorun

    executable = hlorun.compile(hlorun.parse(text_of(case, dtype)))
    out = np.empty(case.shapes()[2], inputs[0].dtype)

    def call() -> None:
        executable(*inputs, out=out)

    return call, lambda: out


def on_xla(case: Case, dtype: str, inputs: list[Any]) -> tuple[Call, Call]:
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    from jaxlib import _hlo

    module = _hlo.hlo_module_from_text(text_of(case, dtype))
    computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
    client = jax.devices("cpu")[0].client
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(mlir, devices, xla_client.CompileOptions())
    buffers = [jax.device_put(x) for x in inputs]

    def call() -> Any:
        (out,) = executable.execute(buffers)
        out.block_until_ready()
        return out

    return call, lambda: np.asarray(call())


class OpenBlas:
    """The library NumPy brings, with 64-bit integers."""

    def __init__(self) -> None:
        import numpy as np

        folder = Path(np.__file__).parents[1] / "numpy.libs"
        (path,) = folder.glob("libscipy_openblas64_*")
        self.library = ctypes.CDLL(str(path))
        core = self.library.scipy_openblas_get_corename64_
        core.restype = ctypes.c_char_p
        self.core = core().decode()
        threads = self.library.scipy_openblas_set_num_threads64_
        threads.argtypes = [ctypes.c_int]
        threads(len(os.sched_getaffinity(0)))
        version = self.library.scipy_openblas_get_config64_
        version.restype = ctypes.c_char_p
        self.version = version().decode().split()[1]

    def product(self, case: Case, dtype: str, inputs: list[Any]) -> tuple[Call, Call] | None:
        import numpy as np

        # This OpenBLAS crashes on batches of very small products.
        if dtype not in ("f32", "f64") or case.constant or (case.batch > 1 and case.m < 32):
            return None
        a, b = inputs
        c = np.empty(case.shapes()[2], a.dtype)
        letter, scalar = ("s", ctypes.c_float) if dtype == "f32" else ("d", ctypes.c_double)
        ints: Any = ctypes.c_int64
        pointer: Any = ctypes.c_void_p
        flags = [111 if side == "n" else 112 for side in case.layout]
        lda, ldb, ldc = a.shape[-1], b.shape[-1], case.n
        sizes = [ctypes.c_int(101), *map(ctypes.c_int, flags), *map(ints, (case.m, case.n, case.k))]
        one, zero = scalar(1), scalar(0)
        at = [pointer(x.ctypes.data) for x in (a, b, c)]
        if case.batch == 1:
            function = self.library[f"scipy_cblas_{letter}gemm64_"]
            args = [*sizes, one, at[0], ints(lda), at[1], ints(ldb), zero, at[2], ints(ldc)]
        else:
            function = self.library[f"cblas_{letter}gemm_batch_strided"]
            steps = [ints(x.size // case.batch) for x in (a, b, c)]
            left = [one, at[0], ints(lda), steps[0], at[1], ints(ldb), steps[1]]
            args = [*sizes, *left, zero, at[2], ints(ldc), steps[2], ints(case.batch)]
        function.restype = None
        keep = (a, b)

        def call() -> Any:
            function(*args)
            return keep

        return call, lambda: c


def seconds_per_call(call: Call, least: float) -> float:
    """The mean time of a call, over at least `least` seconds."""
    call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= least:
            return took / count
        count = max(count + 1, min(count * 10, int(count * least / max(took, 1e-7) * 1.2)))


def measure(case: Case, dtype: str, blas: OpenBlas, rounds: int, least: float) -> dict[str, Any]:
    import numpy as np

    inputs = arrays(case, dtype)
    engines = {"hlorun": on_hlorun(case, dtype, inputs), "xla": on_xla(case, dtype, inputs)}
    if (product := blas.product(case, dtype, inputs)) is not None:
        engines["openblas"] = product
    results = {}
    for name, (call, result) in engines.items():
        call()
        results[name] = np.asarray(result(), np.float64)
    scale = float(np.abs(results["xla"]).max()) or 1.0
    for name, values in results.items():
        error = float(np.abs(values - results["xla"]).max()) / scale
        if not error < {"f32": 1e-4, "f64": 1e-12}.get(dtype, 2e-2):
            raise SystemExit(f"{case.name} {dtype}: {name} differs from XLA by {error}")
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, (call, _result) in engines.items():
            # The others' worker threads spin for a while after their last product.
            time.sleep(0.05)
            times[name].append(seconds_per_call(call, least))
    speed = {name: case.flops / statistics.median(t) / 1e9 for name, t in times.items()}
    best = max(v for k, v in speed.items() if k != "hlorun")
    return {
        "name": case.name,
        "dtype": dtype,
        "shape": [case.batch, case.m, case.k, case.n],
        **{f"gflops_{k}": round(speed[k], 2) if k in speed else None for k in ("hlorun", "openblas", "xla")},
        "share": round(speed["hlorun"] / best, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--dtypes", default="f32,f64,bf16,f16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.01, help="per measurement")
    parser.add_argument("--core", default="", help="OPENBLAS_CORETYPE, or `env`")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if arguments.core != "env":
        has_avx512 = "avx512dq" in Path("/proc/cpuinfo").read_text()
        core = arguments.core or ("SkylakeX" if has_avx512 else "")
        os.environ.pop("OPENBLAS_CORETYPE", None)
        if core:
            os.environ["OPENBLAS_CORETYPE"] = core
    # Its idle threads would otherwise occupy the cores for a tenth of a second after each product.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    import jax

    jax.config.update("jax_enable_x64", True)
    blas = OpenBlas()
    rows = []
    print(f"{'case':24} {'type':5} {'hlorun':>9} {'OpenBLAS':>9} {'XLA':>9}  share")
    for dtype in arguments.dtypes.split(","):
        for case in CASES:
            if arguments.only not in case.name:
                continue
            row = measure(case, dtype, blas, arguments.rounds, arguments.seconds)
            rows.append(row)
            cells = [row[f"gflops_{k}"] for k in ("hlorun", "openblas", "xla")]
            shown = " ".join(f"{c:9.1f}" if c is not None else f"{'-':>9}" for c in cells)
            print(f"{case.name:24} {dtype:5} {shown}  {row['share']:.2f}", flush=True)
    if arguments.json:
        known = {**versions(), "openblas": f"{blas.version} {blas.core}"}
        page = {"machine": describe(), "versions": known, "cases": rows}
        arguments.json.write_text(json.dumps(page, indent=1) + "\n")


if __name__ == "__main__":
    main()
