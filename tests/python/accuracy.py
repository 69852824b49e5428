"""How far the math library is from the true value, in units in the last place; writes docs/accuracy.md.

`python tests/python/accuracy.py [COUNT]`; COUNT values for each function and type, 10^7 when not given, a tenth of them
for f64. f16 and bf16 take every value. True values come from double precision, for f64 from the 64-bit significand of
x87, for erf and complex numbers from mpmath. With JAX installed the page also holds XLA's figures for the same values.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from streams import Stream, paired

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


def wide_erf(x: float) -> Any:
    """erf as an extended-precision number."""
    import mpmath

    if x == 0 or not math.isfinite(x):
        return np.longdouble(math.erf(x))
    with mpmath.workprec(80):
        y = mpmath.erf(mpmath.mpf(float(x)))
        high = float(y)
        return np.longdouble(high) + np.longdouble(float(y - high))


def erf(x: Array) -> Array:
    """erf, from mpmath where the type asks for more than double precision."""
    one: Callable[[float], Any] = wide_erf if x.dtype == np.longdouble else math.erf
    return np.array([one(float(v)) for v in x], x.dtype)


# Opcode, true value, and the range where the function bends.
UNARY: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exponential": (np.exp, -110.0, 90.0),
    "exponential-minus-one": (np.expm1, -20.0, 90.0),
    "log": (np.log, 0.0, 4.0),
    "log-plus-one": (np.log1p, -1.0, 4.0),
    "logistic": (logistic, -110.0, 20.0),
    "sqrt": (np.sqrt, 0.0, 4.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.0, 4.0),
    "cbrt": (np.cbrt, -8.0, 8.0),
    "sine": (np.sin, -1e4, 1e4),
    "cosine": (np.cos, -1e4, 1e4),
    "tan": (np.tan, -1e4, 1e4),
    "tanh": (np.tanh, -20.0, 20.0),
    "erf": (erf, -6.0, 6.0),
    "acos": (np.arccos, -1.0, 1.0),
    "acosh": (np.arccosh, 1.0, 100.0),
    "asin": (np.arcsin, -1.0, 1.0),
    "asinh": (np.arcsinh, -100.0, 100.0),
    "atanh": (np.arctanh, -1.0, 1.0),
    "sinh": (np.sinh, -90.0, 90.0),
    "cosh": (np.cosh, -90.0, 90.0),
}
BINARY: dict[str, tuple[Callable[[Array, Array], Array], float, float]] = {
    "power": (np.power, -30.0, 30.0),
    "atan2": (np.arctan2, -1e3, 1e3),
}
REAL = [*UNARY, *BINARY]
# What the tests hold every function to: f32 and f64. A 16-bit result is the f32 one rounded.
BOUNDS: dict[str, tuple[float, float]] = {
    "exponential": (1.1, 1.1),
    "exponential-minus-one": (1.6, 1.9),
    "log": (0.9, 0.9),
    "log-plus-one": (1.5, 1.5),
    "logistic": (1.75, 1.75),
    "sqrt": (0.501, 0.501),
    "rsqrt": (1.5, 1.5),
    "cbrt": (0.501, 0.75),
    "sine": (1.6, 0.9),
    "cosine": (1.6, 0.9),
    "tan": (0.501, 1.6),
    "tanh": (1.3, 1.9),
    "erf": (1.25, 1.1),
    "acos": (0.501, 1.0),
    "acosh": (0.501, 1.75),
    "asin": (0.501, 1.0),
    "asinh": (0.501, 1.6),
    "atanh": (0.501, 1.6),
    "sinh": (0.501, 1.75),
    "cosh": (0.501, 1.5),
    "power": (0.501, 1.25),
    "atan2": (0.501, 1.75),
}
HALF_BOUND = 0.501

# mpmath's name of the complex functions; the error is relative to the modulus of the true value.
COMPLEX = {
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log": "log",
    "log-plus-one": "log1p",
    "logistic": "logistic",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "cbrt": "cbrt",
    "sine": "sin",
    "cosine": "cos",
    "tan": "tan",
    "tanh": "tanh",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atanh": "atanh",
    "sinh": "sinh",
    "cosh": "cosh",
    "abs": "fabs",
    "divide": "fdiv",
    "multiply": "fmul",
    "power": "power",
}
COMPLEX_COUNT = 5_000
COMPLEX_BINARY = {"divide", "multiply", "power"}
COMPLEX_BOUNDS: dict[str, tuple[float, float]] = dict.fromkeys(COMPLEX, (1.0, 4.0))
# The angle b·log a of a power may be a hundred; it is rounded like any other number, by XLA too.
COMPLEX_BOUNDS["power"] = (1.0, 150.0)
COMPLEX_TYPES: dict[str, Any] = {"c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}


def specials(dtype: str) -> Array:
    """Both zeros, infinities and limits of the type, NaN, and where functions change their course."""
    kind = TYPES[dtype]
    info = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    one = float(info.eps)
    positive = [
        0.0,
        float(info.smallest_subnormal),
        float(info.tiny),
        float(info.tiny) * (1 - one),
        float(info.max),
        math.inf,
    ]
    positive += [
        1.0,
        1 - one / 2,
        1 + one,
        0.5,
        2.0,
        3.0,
        4.0,
        88.72283,
        88.7229,
        87.33654,
        103.97207,
        103.9721,
    ]
    positive += [
        709.7827,
        709.7828,
        708.3964,
        745.1332,
        745.1333,
        math.pi,
        math.pi / 2,
        math.pi / 4,
        1e6,
        1e22,
        0.6,
        43.0,
    ]
    with np.errstate(over="ignore"):
        return np.array([*positive, *(-x for x in positive), math.nan]).astype(kind)


def inputs(dtype: str, low: float, high: float, count: int, seed: int) -> Array:
    """Special values, then a third each of any bits, evenly spread, and of every magnitude; all of a 16-bit type."""
    kind = TYPES[dtype]
    if kind.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(kind)
    stream = Stream("accuracy", seed)
    third = count // 3
    bits = np.frombuffer(stream.bytes(third * kind.itemsize), kind)
    even = stream.uniform(low, high, third)
    top = math.frexp(max(high, -low))[1]
    bent = stream.magnitudes(top - 40, top, third)
    return np.concatenate([specials(dtype), bits, even.astype(kind), np.clip(bent, low, high).astype(kind)])


def ulps(got: Array, true: Array, dtype: str) -> Array:
    """Each distance in units of the true value's last place; infinite where a special value is wrong."""
    kind = TYPES[dtype]
    wide = np.longdouble if dtype == "f64" else np.float64
    with np.errstate(all="ignore"):
        rounded: Array = true.astype(kind).astype(wide)
        g: Array = got.astype(wide)
        t: Array = true.astype(wide)
        exponent = np.frexp(t)[1] - 1
        unit = np.ldexp(wide(1), np.maximum(exponent, LOWEST[dtype]) - MANTISSA[dtype])
        distance = np.abs(g - t) / unit
        special = ~np.isfinite(rounded) | ~np.isfinite(g)
        same = (np.isnan(rounded) & np.isnan(g)) | (rounded == g)
        zero = (t == 0) & (g == 0)
        distance = np.where(special, np.where(same, 0, np.inf), distance)
        return np.where(zero & (np.signbit(t) != np.signbit(g)), np.inf, distance).astype(np.float64)


def program(opcode: str, dtype: str, arity: int, count: int, result: str | None = None) -> str:
    """A module of one instruction."""
    names = ["p", "q"][:arity]
    lines = "".join(f"{name} = {dtype}[{count}] parameter({k})\n" for k, name in enumerate(names))
    root = f"ROOT r = {result or dtype}[{count}] {opcode}({', '.join(names)})"
    return f"HloModule m\nENTRY e {{\n{lines}{root}\n}}\n"


def run(opcode: str, dtype: str, *args: Array, result: str | None = None) -> Array:
    """What hlorun computes."""
    import hlorun

    text = program(opcode, dtype, len(args), args[0].size, result)
    return np.asarray(hlorun.compile(hlorun.parse(text))(*args))


def run_xla(opcode: str, _: str, *args: Array, result: str | None = None) -> Array:
    """What XLA:CPU computes, through JAX's function where XLA has no such opcode."""
    import jax

    del result
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call,unused-ignore]
    lax, jnp = jax.lax, jax.numpy
    functions: dict[str, Any] = {
        "exponential": lax.exp, "exponential-minus-one": lax.expm1, "log": lax.log, "log-plus-one": lax.log1p,
        "logistic": lax.logistic, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sine": lax.sin,
        "cosine": lax.cos, "tan": lax.tan, "tanh": lax.tanh, "erf": lax.erf, "acos": jnp.arccos, "acosh": jnp.arccosh,
        "asin": jnp.arcsin, "asinh": jnp.arcsinh, "atanh": jnp.arctanh, "sinh": jnp.sinh, "cosh": jnp.cosh,
        "power": lax.pow, "atan2": lax.atan2, "abs": lax.abs, "divide": lax.div, "multiply": lax.mul,
    }  # fmt: skip
    return np.asarray(jax.jit(functions[opcode])(*args))


def measure(
    opcode: str, dtype: str, count: int, runner: Callable[..., Array] = run, *, normal: bool = False
) -> float:
    """Largest error of one function in one type; with `normal`, only where the true value is a normal number."""
    binary = opcode in BINARY
    _, low, high = BINARY[opcode] if binary else UNARY[opcode]
    if opcode == "erf" and dtype == "f64":
        count = min(count, 100_000)
    xs = [inputs(dtype, low, high, count, seed) for seed in range(2 if binary else 1)]
    if binary:
        some = specials(dtype)
        pairs = np.meshgrid(some, some)
        xs[1] = Stream("pairs").permutation(xs[1])
        xs = [np.concatenate([pair.ravel(), x]) for pair, x in zip(pairs, xs, strict=True)]
    got = runner(opcode, dtype, *xs)
    wide = np.longdouble if dtype == "f64" else np.float64
    worst = 0.0
    for at in range(0, xs[0].size, 1 << 18):
        with np.errstate(all="ignore"):
            part = [x[at : at + (1 << 18)].astype(wide) for x in xs]
            true = BINARY[opcode][0](*part) if binary else UNARY[opcode][0](*part)
        distance = ulps(got[at : at + (1 << 18)], true, dtype)
        if normal:
            with np.errstate(all="ignore"):
                fit = (np.abs(true) >= np.exp2(wide(LOWEST[dtype]))) & np.isfinite(true.astype(TYPES[dtype]))
                fit &= np.abs(part[0]) >= np.exp2(wide(LOWEST[dtype]))
            distance = distance[fit]
        worst = max(worst, float(np.max(distance, initial=0.0)))
    return worst


def true_complex(opcode: str, *z: complex) -> Any:
    """The value mpmath gives with 120 bits."""
    import mpmath

    a = [mpmath.mpc(v.real, v.imag) for v in z]
    if opcode == "logistic":
        return 1 / (1 + mpmath.exp(-a[0]))
    if opcode == "rsqrt":
        return 1 / mpmath.sqrt(a[0])
    if opcode == "exponential-minus-one":
        return mpmath.exp(a[0]) - 1
    if opcode == "log-plus-one":
        return mpmath.log(1 + a[0])
    return getattr(mpmath, COMPLEX[opcode])(*a)


def measure_complex(opcode: str, dtype: str, count: int, runner: Callable[..., Array] = run) -> float:
    """Largest error of a complex function relative to the modulus, in units of the component type's epsilon."""
    import mpmath

    kind = COMPLEX_TYPES[dtype]
    stream = Stream("complex", opcode)

    def part() -> Array:
        even = stream.uniform(-8, 8, count // 2)
        bent = stream.magnitudes(-24, 4, count - count // 2)
        return stream.permutation(np.concatenate([even, bent]))

    zs: list[Array] = [
        paired(part(), part()).astype(kind) for _ in range(2 if opcode in COMPLEX_BINARY else 1)
    ]
    result = {"c64": "f32", "c128": "f64"}[dtype] if opcode == "abs" else None
    got = runner(opcode, dtype, *zs, result=result)
    eps = 2.0 ** -{"c64": 23, "c128": 52}[dtype]
    least, most = {"c64": (2.0**-126, 2.0**127), "c128": (2.0**-1022, 2.0**1023)}[dtype]
    worst = 0.0
    with mpmath.workprec(150):
        for k, values in enumerate(zip(*zs, strict=True)):
            true = true_complex(opcode, *(complex(v) for v in values))
            size = abs(true)
            if least < size < most:
                g = complex(got[k])
                worst = max(worst, float(abs(mpmath.mpc(g.real, g.imag) - true) / size / eps))
    return worst


def table(count: int) -> str:
    """The page."""
    try:
        import jax  # noqa: F401

        xla = True
    except ImportError:
        xla = False
    lines = [
        "# Accuracy of the math library",
        "",
        "Generated by `python tests/python/accuracy.py`; do not edit. `tests/python/test_accuracy.py` checks the bounds on 100,000",
        "values of each type (erf: 2,000; complex: 500).",
        "",
        f"Largest error in units in the last place over {count:,} f32 and {count // 10:,} f64 values (erf: 100,000), and over",
        "every f16 and bf16 value: a third of the values have random bits, a third are spread evenly over the range where",
        "the function bends, a third are of every magnitude. Subnormal arguments and results count, and so do NaN, infinities,",
        "zeros with their signs, limits and overflow: a wrong one would be an infinite error. Half a unit is perfect rounding.",
        "XLA's columns are jaxlib's on a tenth as many values, where argument and result are normal numbers, as XLA:CPU takes",
        "subnormal ones for zero in places. They depend on the CPU.",
        "",
        "| function | f32 bound | f32 | XLA f32 | f64 bound | f64 | XLA f64 | f16 | bf16 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    above = []
    for opcode in REAL:
        found: dict[str, float] = {}
        for dtype in TYPES:
            many = count // 10 if dtype == "f64" else count
            found[dtype] = measure(opcode, dtype, many)
            if xla and dtype in ("f32", "f64"):
                found["XLA " + dtype] = measure(opcode, dtype, many // 10, run_xla, normal=True)
        print(opcode, found, flush=True)
        cell = {name: f"{worst:.2f}" for name, worst in found.items()}
        single, double = BOUNDS[opcode]
        above += [f"{opcode} of f32"] * (found["f32"] > single) + [f"{opcode} of f64"] * (
            found["f64"] > double
        )
        lines.append(
            f"| {opcode} | {single} | {cell['f32']} | {cell.get('XLA f32', '')} | {double} | {cell['f64']} "
            f"| {cell.get('XLA f64', '')} | {cell['f16']} | {cell['bf16']} |"
        )
    if above:
        lines += ["", f"Over so many values, above the bound that the tests check: {', '.join(above)}."]
    lines += [
        "",
        "## Complex numbers",
        "",
        f"Largest distance from the true value divided by its modulus, in units of 2^-23 and 2^-52, over {COMPLEX_COUNT:,}",
        "values with parts of magnitudes from 2^-24 to 16.",
        "",
        "| function | c64 bound | c64 | XLA c64 | c128 bound | c128 | XLA c128 |",
        "|---|---|---|---|---|---|---|",
    ]
    for opcode in COMPLEX:
        ours = [measure_complex(opcode, dtype, COMPLEX_COUNT) for dtype in COMPLEX_TYPES]
        # XLA has no complex cbrt.
        other = xla and opcode != "cbrt"
        theirs = (
            [measure_complex(opcode, dtype, COMPLEX_COUNT, run_xla) for dtype in COMPLEX_TYPES]
            if other
            else []
        )
        print(opcode, ours, theirs, flush=True)
        line = f"| {opcode} "
        for k, bound in enumerate(COMPLEX_BOUNDS[opcode]):
            line += f"| {bound} | {ours[k]:.2f} | {f'{theirs[k]:.2f}' if theirs else ''} "
        lines.append(line + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = table(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**7)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(page)
