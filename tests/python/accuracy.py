"""How far the math library is from the true value, in units in the last place; writes docs/accuracy.md.

`python tests/python/accuracy.py [COUNT]`; COUNT random values for each function and type, 10^7 when not given. f16 and
bf16 take every value. True values come from double precision, for f64 from x87 extended precision.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
OUT = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
TYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
MANTISSA = {"f32": 23, "f64": 52, "f16": 10, "bf16": 7}
LOWEST = {"f32": -126, "f64": -1022, "f16": -14, "bf16": -126}


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1) / (1 + e))


ERF = np.frompyfunc(lambda x: math.erf(float(x)), 1, 1)

# Opcode, true value, and the range of inputs: beyond it the result is 0, 1, infinite, or NaN.
UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exponential": (np.exp, -88.0, 88.0),
    "exponential-minus-one": (np.expm1, -20.0, 88.0),
    "log": (np.log, 0.0, 1e30),
    "log-plus-one": (np.log1p, -1.0, 1e30),
    "logistic": (logistic, -80.0, 80.0),
    "sqrt": (np.sqrt, 0.0, 1e30),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.0, 1e30),
    "cbrt": (np.cbrt, -1e30, 1e30),
    "sine": (np.sin, -1e4, 1e4),
    "cosine": (np.cos, -1e4, 1e4),
    "tan": (np.tan, -1e4, 1e4),
    "tanh": (np.tanh, -20.0, 20.0),
    "erf": (lambda x: ERF(x).astype(x.dtype), -4.0, 4.0),
    "acos": (np.arccos, -1.0, 1.0),
    "acosh": (np.arccosh, 1.0, 1e30),
    "asin": (np.arcsin, -1.0, 1.0),
    "asinh": (np.arcsinh, -1e30, 1e30),
    "atanh": (np.arctanh, -1.0, 1.0),
    "sinh": (np.sinh, -88.0, 88.0),
    "cosh": (np.cosh, -88.0, 88.0),
}
BINARY: dict[str, tuple[Callable[[Array, Array], Array], float, float]] = {
    "power": (np.power, 0.0, 30.0),
    "atan2": (np.arctan2, -1e3, 1e3),
}
# What the tests hold every function to; a wider one is listed by itself.
BOUND = {"f32": 2.0, "f64": 2.0, "f16": 1.0, "bf16": 1.0}


def inputs(dtype: str, low: float, high: float, count: int, seed: int) -> Array:
    """Half evenly spread, half of every magnitude; every value of the 16-bit types."""
    kind = TYPES[dtype]
    if kind.itemsize == 2:
        x = np.arange(1 << 16, dtype=np.uint16).view(kind)
        with np.errstate(invalid="ignore"):
            wide = x.astype(np.float64)
        return np.asarray(x[(wide >= low) & (wide <= high)])
    rng = np.random.RandomState(seed)
    even = rng.uniform(low, min(high, 1e4), count // 2)
    lowest = LOWEST[dtype] * 0.9
    bent = np.exp2(
        rng.uniform(lowest if dtype == "f32" else -300, math.log2(max(high, -low)), count - count // 2)
    )
    if low < 0:
        bent *= np.where(rng.rand(bent.size) < 0.5, -1, 1)
    bent = np.clip(bent, low, high)
    return np.concatenate([even, bent]).astype(kind)


def ulps(got: Array, true: Array, dtype: str) -> float:
    """The largest distance, where the true value is a normal number of the type."""
    true_wide = true.astype(np.longdouble)
    top = np.longdouble(float(ml_dtypes.finfo(TYPES[dtype]).max))  # type: ignore[no-untyped-call]
    normal = (np.abs(true_wide) >= np.exp2(np.longdouble(LOWEST[dtype]))) & (np.abs(true_wide) < top)
    if not normal.any():
        return 0.0
    g, t = got[normal].astype(np.longdouble), true_wide[normal]
    _, exponent = np.frexp(t)
    return float(np.max(np.abs(g - t) / np.ldexp(np.longdouble(1), exponent - 1 - MANTISSA[dtype])))


def measure(opcode: str, dtype: str, count: int) -> float:
    """Largest error of one function in one type."""
    import hlorun

    binary = opcode in BINARY
    _, low, high = BINARY[opcode] if binary else UNARY[opcode]
    if dtype == "f16":
        low, high = max(low, -6e4), min(high, 6e4)
    names = ["p", "q"] if binary else ["p"]
    xs = [inputs(dtype, low, high, count, seed) for seed in range(len(names))]
    if binary:
        rng = np.random.RandomState(9)
        xs[1] = rng.permutation(np.resize(xs[1], xs[0].shape))
    shape = f"{dtype}[{xs[0].size}]"
    lines = "".join(f"{name} = {shape} parameter({k})\n" for k, name in enumerate(names))
    text = f"HloModule m\nENTRY e {{\n{lines}ROOT r = {shape} {opcode}({', '.join(names)})\n}}\n"
    got = np.asarray(hlorun.compile(hlorun.parse(text))(*xs))
    wide = np.longdouble if dtype == "f64" else np.float64
    worst = 0.0
    with np.errstate(all="ignore"):
        for at in range(0, xs[0].size, 1 << 20):
            part = [x[at : at + (1 << 20)].astype(wide) for x in xs]
            true = BINARY[opcode][0](*part) if binary else UNARY[opcode][0](*part)
            worst = max(worst, ulps(got[at : at + (1 << 20)], true, dtype))
    return worst


def table(count: int) -> str:
    """The page."""
    lines = [
        "# Accuracy of the math library",
        "",
        "Generated by `python tests/python/accuracy.py`; do not edit.",
        "",
        f"Largest error in units in the last place over {count:,} random f32 and {count // 10:,} random f64 values, half",
        "of them evenly spread and half of every magnitude, and over every f16 and bf16 value. Half a unit is perfect",
        "rounding. Measured where the true value is a normal number; special values are tested for themselves.",
        "",
        "| function | " + " | ".join(TYPES) + " |",
        "|---|" + "---|" * len(TYPES),
    ]
    for opcode in [*UNARY, *BINARY]:
        cells = []
        for dtype in TYPES:
            worst = measure(opcode, dtype, count // 10 if dtype == "f64" else count)
            cells.append(f"{worst:.2f}")
            print(opcode, dtype, f"{worst:.3f}", flush=True)
        lines.append(f"| {opcode} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = table(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**7)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(page)
