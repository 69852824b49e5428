"""Every elementwise opcode of one and two operands on every type it takes, and in several shapes and layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import cases as c
import numpy as np
from cases import COMPLEX, FLOATS, INTEGERS, SIGNED, WIDE_FLOATS, Case, Tolerance

COUNT = 96
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
    ((), None),
    ((0,), None),
    ((3, 0, 2), None),
    ((1,), None),
    ((17,), None),
    ((5, 3), (0, 1)),
    ((2, 3, 5), (0, 2, 1)),
    ((2, 1, 3, 2, 2), None),
]
# How far XLA:CPU itself is from the exact value decides these, in units of the last place.
ULPS = {"tan": 8, "erf": 8, "logistic": 8, "tanh": 8, "log1p": 8, "expm1": 8, "cbrt": 8}

erf = np.vectorize(math.erf, otypes=[np.float64])


def round_away(x: Any) -> Any:
    """Halves go away from zero."""
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0), x)


def sign(x: Any) -> Any:
    """sign(-0) is -0."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(1.0, x))


def maximum(x: Any, y: Any) -> Any:
    """0 is more than -0; NaN wins."""
    zeros = (x == 0) & (y == 0)
    return np.where(zeros, np.where(np.signbit(x) & np.signbit(y), -0.0, 0.0), np.maximum(x, y))


EXACT_FLOAT = {
    "abs": np.abs,
    "negate": np.negative,
    "ceil": np.ceil,
    "floor": np.floor,
    "round-nearest-afz": round_away,
    "round-nearest-even": np.rint,
    "sign": sign,
}
ROUNDED_FLOAT = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "tan": np.tan,
    "sine": np.sin,
    "cosine": np.cos,
    "erf": erf,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
}
NOT_COMPLEX = {"erf", "ceil", "floor", "round-nearest-afz", "round-nearest-even"}
COMPLEX_FORM = {
    "sign": lambda x: np.where(x == 0, x, x / np.abs(x)),
    "cbrt": lambda x: x ** (1 / 3),
}
BINARY_FLOAT = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": maximum,
    "minimum": lambda x, y: -maximum(-x, -y),
    "remainder": np.fmod,
    "power": np.power,
    "atan2": np.arctan2,
}


def tiny(dtype: str) -> float:
    """The smallest normal number: XLA:CPU flushes results below it, or not."""
    return float(c.ml_dtypes.finfo(c.np_dtype(dtype)).tiny)


def tolerance(opcode: str, dtype: str) -> Tolerance:
    """Exact for what rounds once or not at all, else some units of the last place."""
    if dtype in COMPLEX:
        return Tolerance(rel=c.CLOSE[dtype], zero_sign=False)
    if dtype == "f4e2m1fn":
        # NaN becomes a zero of no promised sign.
        return Tolerance(ulps=1, zero_sign=False)
    if opcode == "sqrt" and dtype in c.TINY_FLOATS:
        return Tolerance(ulps=1)
    if opcode in ("add", "subtract", "multiply", "divide", "sqrt", "maximum", "minimum", "remainder"):
        return c.EXACT
    if dtype in ("f32", "f64"):
        return Tolerance(ulps=ULPS.get(opcode, 4), abs=tiny(dtype))
    return Tolerance(ulps=2 if opcode == "logistic" else 1, abs=tiny(dtype) if dtype == "bf16" else 0.0)


def through_double(function: Any, dtype: str) -> c.Reference:
    """Compute in float64 (or complex128) and round to the type."""

    def run(*inputs: c.Array) -> c.Array:
        wide = np.complex128 if dtype in COMPLEX else np.float64
        return np.asarray(function(*[np.asarray(x).astype(wide) for x in inputs])).astype(c.np_dtype(dtype))

    return run


def unary(
    opcode: str,
    dtype: str,
    dims: Sequence[int],
    layout: Sequence[int] | None,
    x: c.Array,
    reference: Any,
    out: str = "",
) -> Case:
    """One unary case, with a layout on parameter and result when given."""
    out = out or dtype

    def text(lay: Sequence[int] | None) -> str:
        return c.module(f"p = {c.sh(dtype, dims, lay)} parameter(0)\nr = {c.sh(out, dims, lay)} {opcode}(p)")

    name = f"{opcode}-{c.sh(dtype, dims, layout)}"
    exact = opcode in EXACT_FLOAT and dtype not in COMPLEX
    close = c.EXACT if exact else tolerance(opcode, dtype)
    return Case(name, opcode, dtype, text(layout), [x], close, text(None), reference)


def binary(
    opcode: str,
    dtype: str,
    dims: Sequence[int],
    layout: Sequence[int] | None,
    x: c.Array,
    y: c.Array,
    reference: Any,
) -> Case:
    """One binary case."""

    def text(lay: Sequence[int] | None) -> str:
        s = c.sh(dtype, dims, lay)
        return c.module(f"p = {s} parameter(0)\nq = {s} parameter(1)\nr = {s} {opcode}(p, q)")

    name = f"{opcode}-{c.sh(dtype, dims, layout)}"
    return Case(name, opcode, dtype, text(layout), [x, y], tolerance(opcode, dtype), text(None), reference)


def unary_float() -> Iterator[Case]:
    """Floats and complex numbers."""
    for opcode, function in {**EXACT_FLOAT, **ROUNDED_FLOAT}.items():
        for dtype in FLOATS:
            x = c.wide(dtype, COUNT, opcode)
            case = unary(opcode, dtype, (COUNT,), None, x, through_double(function, dtype))
            # XLA:CPU forms 1 + exp(-x) in f16, where it becomes infinite too early.
            yield replace(case, prefer_reference=(opcode, dtype) == ("logistic", "f16"))
        for dtype in ("f32", "bf16"):
            for dims, layout in SHAPES:
                x = c.shaped(dtype, dims, opcode)
                yield unary(opcode, dtype, dims, layout, x, through_double(function, dtype))
        if opcode not in NOT_COMPLEX:
            for dtype in COMPLEX:
                out = ("f32" if dtype == "c64" else "f64") if opcode == "abs" else dtype
                # Away from the axes: on a branch cut the sign of zero decides, which XLA does not promise.
                x = c.random(dtype, (40,), opcode, scale=2.0)
                function = COMPLEX_FORM.get(opcode, function)
                reference = through_double(function, dtype)
                if opcode == "abs":
                    kind = c.np_dtype(out)
                    yield unary(opcode, dtype, (40,), None, x, lambda v, k=kind: np.abs(v).astype(k), out)
                else:
                    yield unary(opcode, dtype, (40,), None, x, reference)
    for dtype in COMPLEX:
        part = "f32" if dtype == "c64" else "f64"
        for opcode, function in (("real", np.real), ("imag", np.imag)):
            for dims in ((36,), (), (2, 3)):
                x = c.shaped(dtype, dims, opcode)
                yield unary(opcode, dtype, dims, None, x, function, part)


def trailing(x: c.Array, bits: int, leading: bool) -> c.Array:
    """Zeros before the first one, or the ones."""
    words = [format(int(v) & ((1 << bits) - 1), f"0{bits}b") for v in x.ravel()]
    counts = [len(w) - len(w.lstrip("0")) if leading else w.count("1") for w in words]
    return np.array(counts, dtype=np.int64).reshape(x.shape).astype(x.dtype)


def unary_integer() -> Iterator[Case]:
    """Integers and pred, wrapping."""
    for dtype in INTEGERS:
        kind = c.np_dtype(dtype)
        bits = c.BITS[dtype]
        table: dict[str, Any] = {
            "negate": lambda x, k=kind: (-x.astype(np.int64)).astype(k),
            "not": lambda x, k=kind: (~x.astype(np.int64)).astype(k),
            "popcnt": lambda x, b=bits: trailing(x, b, False),
            "count-leading-zeros": lambda x, b=bits: trailing(x, b, True),
            "abs": lambda x, k=kind: np.abs(x.astype(np.int64)).astype(k),
            "sign": lambda x, k=kind: np.sign(x.astype(np.int64)).astype(k),
        }
        for opcode, function in table.items():
            if opcode in ("abs", "sign") and dtype not in SIGNED:
                continue
            sizes = [((64,), None)] + (SHAPES if dtype == "s32" else [])
            for dims, layout in sizes:
                case = unary(opcode, dtype, dims, layout, c.shaped(dtype, dims, opcode), function)
                # XLA:CPU counts the sign bits that widening s4 adds.
                yield replace(case, prefer_reference=(opcode, dtype) == ("popcnt", "s4"))
    for dims, layout in SHAPES:
        yield unary("not", "pred", dims, layout, c.shaped("pred", dims), np.logical_not)


def grid(dtype: str, *key: object) -> tuple[c.Array, c.Array]:
    """Every special with every other, then random pairs, seldom a whole type."""
    s = c.specials(dtype)
    if len(s) > 16 and c.BITS[dtype] <= 8:
        s = s[:: max(1, len(s) // 16)]
    left, right = np.repeat(s, len(s)), np.tile(s, len(s))
    more = 64
    left = np.concatenate([left, c.wide(dtype, more, "left", *key)])
    right = np.concatenate([right, c.wide(dtype, more, "right", *key)[::-1]])
    return left, right


def integer_reference(opcode: str, dtype: str) -> c.Reference:
    """Python integers, so that nothing overflows unseen."""
    bits = c.BITS[dtype]
    low = -(1 << (bits - 1)) if dtype in SIGNED else 0
    mask = (1 << bits) - 1

    def wrap(v: int) -> int:
        return ((v - low) & mask) + low

    def one(a: int, b: int) -> int:
        if opcode == "divide":
            return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        if opcode == "remainder":
            return a if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)
        if opcode == "shift-left":
            return 0 if not 0 <= b < bits else a << b
        if opcode == "shift-right-logical":
            return 0 if not 0 <= b < bits else (a & mask) >> b
        if opcode == "shift-right-arithmetic":
            signed = ((a + (1 << (bits - 1))) & mask) - (1 << (bits - 1))
            return (-1 if signed < 0 else 0) if not 0 <= b < bits else signed >> b
        if opcode == "power":
            if b < 0:
                return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)
            return pow(a, b, 1 << bits)
        if opcode == "mulhi":
            return (a * b) >> bits
        table = {
            "add": a + b,
            "subtract": a - b,
            "multiply": a * b,
            "maximum": max(a, b),
            "minimum": min(a, b),
        }
        return {**table, "and": a & b, "or": a | b, "xor": a ^ b}[opcode]

    def run(x: c.Array, y: c.Array) -> c.Array:
        out = [wrap(one(int(a), int(b))) for a, b in zip(x.ravel(), y.ravel(), strict=True)]
        wide = np.int64 if dtype in SIGNED else np.uint64
        return np.array(out, dtype=wide).reshape(x.shape).astype(c.np_dtype(dtype))

    return run


INTEGER_BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
]
INTEGER_BINARY += ["shift-left", "shift-right-logical", "shift-right-arithmetic", "power"]


def binary_integer() -> Iterator[Case]:
    """Integers with zero divisors, MIN / -1 and shifts by any amount; pred."""
    for opcode in INTEGER_BINARY:
        for dtype in INTEGERS:
            x, y = grid(dtype, opcode)
            if opcode == "power":
                # XLA:CPU is unspecified for negative exponents beyond these bases; keep exponents small.
                y = np.clip(y.astype(np.int64) % 7, 0, 1 if c.BITS[dtype] < 8 else 7).astype(
                    c.np_dtype(dtype)
                )
            yield binary(opcode, dtype, x.shape, None, x, y, integer_reference(opcode, dtype))
        for dims, layout in SHAPES:
            x, y = c.shaped("s32", dims, opcode), c.random("s32", dims, opcode, 2)
            if opcode == "power":
                y = np.abs(y)
            yield binary(opcode, "s32", dims, layout, x, y, integer_reference(opcode, "s32"))
    # XLA:CPU has the opcode, its front door does not.
    for dtype in ("s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"):
        x, y = grid(dtype, "mulhi")
        case = binary("mulhi", dtype, x.shape, None, x, y, integer_reference("mulhi", dtype))
        yield replace(case, prefer_reference=True)
    logic = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    logic |= {
        "add": np.logical_or,
        "multiply": np.logical_and,
        "maximum": np.logical_or,
        "minimum": np.logical_and,
    }
    for opcode, function in logic.items():
        x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
        yield binary(opcode, "pred", (4,), None, x, y, function)


def binary_float() -> Iterator[Case]:
    """Floats over the whole grid of specials; complex numbers of ordinary size."""
    for opcode, function in BINARY_FLOAT.items():
        for dtype in FLOATS:
            x, y = grid(dtype, opcode)
            if dtype in WIDE_FLOATS and opcode in ("divide", "multiply", "remainder"):
                # Results that f32, bf16 and f64 could flush or not are kept out.
                with np.errstate(all="ignore"):
                    z = np.abs(function(x.astype(np.float64), y.astype(np.float64)))
                    bad = (z > 0) & (z < 4 * float(c.ml_dtypes.finfo(c.np_dtype(dtype)).tiny))
                    bad |= (opcode == "remainder") & (
                        np.abs(x.astype(np.float64) / y.astype(np.float64)) > 2**20
                    )
                x, y = x[~bad], y[~bad]
            yield binary(opcode, dtype, x.shape, None, x, y, through_double(function, dtype))
        for dtype in ("f32", "bf16"):
            for dims, layout in SHAPES:
                x, y = c.random(dtype, dims, opcode, 1), c.random(dtype, dims, opcode, 2)
                yield binary(opcode, dtype, dims, layout, x, y, through_double(function, dtype))
        if opcode in ("add", "subtract", "multiply", "divide", "power", "atan2"):
            for dtype in COMPLEX:
                x, y = c.random(dtype, (40,), opcode, 1), c.random(dtype, (40,), opcode, 2)
                if opcode == "atan2":
                    function = complex_atan2
                yield binary(opcode, dtype, (40,), None, x, y, through_double(function, dtype))
    for part, dtype in (("f32", "c64"), ("f64", "c128")):
        for dims, layout in SHAPES:
            x, y = c.shaped(part, dims, "re"), c.shaped(part, dims, "im")
            text = "p = {0} parameter(0)\nq = {0} parameter(1)\nr = {1} complex(p, q)"
            full = c.module(text.format(c.sh(part, dims, layout), c.sh(dtype, dims, layout)))
            plain = c.module(text.format(c.sh(part, dims), c.sh(dtype, dims)))
            name = f"complex-{c.sh(part, dims, layout)}"
            yield Case(name, "complex", part, full, [x, y], c.EXACT, plain)


def complex_atan2(y: c.Array, x: c.Array) -> Any:
    """-i log((x + i y) / sqrt(x^2 + y^2))"""
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def denormals() -> Iterator[Case]:
    """Where XLA:CPU may flush them, a result may be the flushed or the exact one: both lie within a denormal."""
    for dtype in ("f32", "f64", "bf16"):
        kind = c.np_dtype(dtype)
        tiny = float(c.ml_dtypes.finfo(kind).tiny)
        x = (np.array([0.25, -0.25, 0.5, -0.75, 0.125, 1.0]) * tiny).astype(kind)
        y = (np.array([0.25, 0.25, 1.0, 0.5, -0.125, -1.0]) * tiny).astype(kind)
        either = Tolerance(abs=2 * tiny, zero_sign=False)
        s = c.sh(dtype, (6,))
        for opcode in ("add", "subtract", "multiply", "maximum", "minimum"):
            text = c.module(f"p = {s} parameter(0)\nq = {s} parameter(1)\nr = {s} {opcode}(p, q)")
            yield Case(f"{opcode}-denormal-{dtype}", opcode, dtype, text, [x, y], either)
        for opcode in ("abs", "negate", "sine", "tanh", "exponential-minus-one", "copy"):
            close = c.EXACT if opcode in ("abs", "negate", "copy") else either
            text = c.module(f"p = {s} parameter(0)\nr = {s} {opcode}(p)")
            yield Case(f"{opcode}-denormal-{dtype}", opcode, dtype, text, [x], close)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from unary_float()
    yield from unary_integer()
    yield from binary_integer()
    yield from binary_float()
    yield from denormals()
