"""The vocabulary of the differential cases: what a case is, its inputs, and how results are compared.

In: nothing. Out: `all_cases()`, every case of every family, in a fixed order and with fixed inputs. A family is a
module of `families` with a function `cases()`. Inputs come from `streams`: they are the same on every machine, so
goldens keep meaning what they meant.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import families
import ml_dtypes
import numpy as np
from streams import Stream, paired

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]
Reference = Callable[..., Any]

NUMPY_NAME = {
    "pred": "bool",
    "s2": "int2",
    "s4": "int4",
    "u2": "uint2",
    "u4": "uint4",
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
    "f4e2m1fn": "float4_e2m1fn",
    "f8e3m4": "float8_e3m4",
    "f8e4m3": "float8_e4m3",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    **{
        f"{letter}{bits}": f"{word}{bits}"
        for letter, word in (("s", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
SIGNED = ["s2", "s4", "s8", "s16", "s32", "s64"]
UNSIGNED = ["u2", "u4", "u8", "u16", "u32", "u64"]
INTEGERS = SIGNED + UNSIGNED
TINY_FLOATS = [name for name in NUMPY_NAME if name.startswith(("f8", "f4"))]
WIDE_FLOATS = ["f16", "bf16", "f32", "f64"]
FLOATS = WIDE_FLOATS + TINY_FLOATS
COMPLEX = ["c64", "c128"]
ALL = ["pred", *INTEGERS, *FLOATS, *COMPLEX]
COMMON = ["pred", "s8", "s32", "u8", "u32", "s64", "f16", "bf16", "f32", "f64", "c64"]
BITS = {
    name: int("".join(c for c in name.split("e")[0] if c.isdigit())) if name != "pred" else 8
    for name in NUMPY_NAME
}


def np_dtype(name: str) -> np.dtype[Any]:
    """The array dtype of an HLO primitive type."""
    numpy_name = NUMPY_NAME[name]
    return (
        np.dtype(getattr(ml_dtypes, numpy_name)) if hasattr(ml_dtypes, numpy_name) else np.dtype(numpy_name)
    )


HLO_NAME = {np_dtype(name): name for name in NUMPY_NAME}


@dataclass(frozen=True)
class Tolerance:
    """How far a float may be: `ulps` of the wanted value, or `rel` times the largest wanted magnitude plus `abs`.

    All zero means the same bits, except that any NaN equals any NaN. `zero_sign` False lets 0 be -0. `bits` True takes
    a signed result for an unsigned one of the same bits: jaxlib hands random bits of signed types out as unsigned.
    """

    ulps: int = 0
    rel: float = 0.0
    abs: float = 0.0
    zero_sign: bool = True
    bits: bool = False


EXACT = Tolerance()
CLOSE = {"f64": 1e-13, "c128": 1e-13, "f32": 2e-6, "c64": 4e-6, "f16": 2e-3, "bf16": 2e-2}


def sums(dtype: str, scale: float = 1.0) -> Tolerance:
    """For results that depend on the order of additions, relative to the largest element."""
    if dtype in INTEGERS or dtype == "pred":
        return EXACT
    return Tolerance(rel=CLOSE.get(dtype, 0.15) * scale, abs=1e-30, zero_sign=False)


@dataclass(frozen=True)
class Case:
    """One module with inputs. `oracle_text` says the same without what XLA:CPU cannot take (layouts, async pairs, …).

    `reference` computes the results from the inputs with NumPy; it makes the golden where XLA:CPU refuses the text, or
    always when `prefer_reference`: for meanings that XLA:CPU's front door does not carry.
    """

    name: str
    opcode: str
    dtype: str
    text: str
    inputs: list[Array] = field(default_factory=list)
    tolerance: Tolerance = EXACT
    oracle_text: str | None = None
    reference: Reference | None = None
    prefer_reference: bool = False

    def digest(self) -> str:
        """Changes when the text or the inputs do, so that a stale golden is seen."""
        h = hashlib.sha256((self.oracle_text or self.text).encode())
        for x in self.inputs:
            h.update(f"{x.dtype}{x.shape}".encode())
            h.update(np.ascontiguousarray(x).tobytes())
        return h.hexdigest()[:12]


# -- text ---------------------------------------------------------------------------------------------------------


def sh(dtype: str, dims: Sequence[int] = (), layout: Sequence[int] | None = None) -> str:
    """A shape in HLO syntax: f32[2,3]{1,0}, the layout only when given."""
    text = f"{dtype}[{csv(dims)}]"
    return text if not dims or layout is None else text + "{" + csv(layout) + "}"


def csv(numbers: Sequence[int]) -> str:
    """1,2,3"""
    return ",".join(str(n) for n in numbers)


def body(lines: str) -> str:
    """The lines of a computation, indented; the last becomes ROOT unless one already is."""
    rows = [row.strip() for row in lines.strip().splitlines() if row.strip()]
    if not any(row.startswith("ROOT ") for row in rows):
        rows[-1] = "ROOT " + rows[-1]
    return "".join(f"  {row}\n" for row in rows)


def computation(name: str, lines: str) -> str:
    """A named computation."""
    return f"{name} {{\n{body(lines)}}}\n"


def module(entry: str, *computations: str, header: str = "") -> str:
    """A module: the computations, then the entry."""
    parts = [f"HloModule case{header}\n", *computations, f"ENTRY main {{\n{body(entry)}}}\n"]
    return "\n".join(parts)


def combiner(name: str, op: str, dtype: str) -> str:
    """A computation of two scalars."""
    s = sh(dtype)
    return computation(name, f"x = {s} parameter(0)\ny = {s} parameter(1)\nz = {s} {op}(x, y)")


def literal(dtype: str, value: float | bool) -> str:
    """A scalar constant as HLO writes it."""
    if dtype == "pred":
        return "true" if value else "false"
    if dtype in COMPLEX:
        return f"({value}, 0)"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(value)


# -- inputs -------------------------------------------------------------------------------------------------------

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -3.0,
    1.5,
    2.5,
    -2.5,
    3.5,
    0.1,
    -0.7,
    10.0,
    -88.0,
    100.0,
    math.pi,
]


def every(dtype: str) -> Array:
    """All values of a type of at most 8 bits."""
    bits = BITS[dtype]
    if dtype == "pred":
        return np.array([False, True])
    if dtype in INTEGERS:
        low = -(1 << (bits - 1)) if dtype in SIGNED else 0
        return np.arange(low, low + (1 << bits)).astype(np_dtype(dtype))
    # Zero bits are 2^-127 in f8e8m0fnu, a denormal of f32.
    first = 1 if dtype == "f8e8m0fnu" else 0
    return np.arange(first, 1 << bits, dtype=np.uint8).view(np_dtype(dtype))


def specials(dtype: str) -> Array:
    """The values where operations go wrong; no denormals of f32, bf16 and f64, which XLA:CPU may flush."""
    kind = np_dtype(dtype)
    if dtype in INTEGERS and BITS[dtype] >= 8:
        info = ml_dtypes.iinfo(kind)
        low, high, bits = int(info.min), int(info.max), BITS[dtype]
        values = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, high, high - 1, high // 2, low, low + 1]
        if dtype in SIGNED:
            values += [-1, -2, -3, -7]
        return np.array(values, dtype=kind)
    if dtype in INTEGERS or dtype == "pred":
        return every(dtype)
    if dtype in COMPLEX:
        part = np.array([0.0, -0.0, 1.0, -1.5, 0.25, 3.0], dtype=kind.type(0).real.dtype)
        return np.array([complex(a, b) for a in part for b in part], dtype=kind)
    with np.errstate(all="ignore"):
        if dtype in TINY_FLOATS:
            return np.array(
                [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1.5, 6.0, np.inf, np.nan], np.float32
            ).astype(kind)
        info = ml_dtypes.finfo(kind)
        edge = [info.max, info.min, info.tiny, -info.tiny, info.eps, 1 + float(info.eps), 1 - float(info.eps)]
        edge = [float(x) for x in edge]
        return np.array([*SPECIAL, np.inf, -np.inf, np.nan, *edge], dtype=np.float64).astype(kind)


def random(dtype: str, dims: Sequence[int], *key: object, scale: float = 3.0) -> Array:
    """Ordinary finite values: floats in ±scale, small integers in ±9, any bool."""
    dims = tuple(dims)
    stream = Stream(dtype, dims, scale, *key)
    if dtype == "pred":
        return stream.integers(0, 2, dims).astype(bool)
    if dtype in INTEGERS:
        low, high = (-9, 10) if dtype in SIGNED else (0, 19)
        bits = BITS[dtype]
        if bits < 8:
            low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if dtype in SIGNED else (0, 1 << bits)
        return stream.integers(low, high, dims).astype(np_dtype(dtype))
    if dtype in COMPLEX:
        real, imaginary = stream.uniform(-scale, scale, dims), stream.uniform(-scale, scale, dims)
        return paired(real, imaginary).astype(np_dtype(dtype))
    if dtype == "f8e8m0fnu":
        return np.ldexp(1.0, stream.integers(-2, 3, dims)).astype(np_dtype(dtype))
    return stream.uniform(-scale, scale, dims, np_dtype(dtype))


def wide(dtype: str, count: int, *key: object) -> Array:
    """Specials, then values of every magnitude (all values of types of at most 8 bits), cut or repeated to count."""
    stream = Stream(dtype, count, *key)
    kind = np_dtype(dtype)
    if dtype == "f8e8m0fnu":
        middle = stream.integers(64, 191, count).astype(np.uint8).view(kind)
        values = np.concatenate([specials(dtype)[specials(dtype) == specials(dtype)], middle])
    elif BITS[dtype] <= 8:
        values = np.concatenate([specials(dtype), stream.permutation(every(dtype).view(np.uint8)).view(kind)])
    elif dtype in INTEGERS:
        size = kind.itemsize
        bits = np.frombuffer(stream.bytes(size * count), dtype=kind)
        shift = np.asarray(stream.integers(0, size * 8, count)).astype(kind)
        values = np.concatenate([specials(dtype), random(dtype, (count // 3,), *key), bits >> shift])
    elif dtype in COMPLEX:
        values = np.concatenate([specials(dtype), random(dtype, (count,), *key, scale=5.0)])
    else:
        info = ml_dtypes.finfo(kind)
        any_size = stream.magnitudes(int(info.minexp) // 2, int(info.maxexp) // 2, count).astype(kind)
        near = random(dtype, (count,), *key, scale=8.0)
        mixed = np.stack([near, any_size], axis=1).reshape(-1)
        values = np.concatenate([specials(dtype), mixed])
    return np.resize(values, (count,))


def shaped(dtype: str, dims: Sequence[int], *key: object) -> Array:
    """`wide` values in a shape."""
    count = math.prod(dims)
    return wide(dtype, max(count, 1), *key)[:count].reshape(tuple(dims))


# -- comparison ---------------------------------------------------------------------------------------------------


def _ordered(x: Array) -> Array:
    """Float bits as integers in the order of the values, so that neighbours differ by one."""
    bits = x.view({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize])
    low = np.iinfo(bits.dtype).min
    return np.where(bits < 0, low - bits, bits).astype(np.int64)


def difference(got: Array, want: Array, tolerance: Tolerance) -> str | None:
    """None when got is as good as want, else what is wrong, with the largest error."""
    if tolerance.bits and got.dtype.kind == "i" and want.dtype.kind == "u" and got.itemsize == want.itemsize:
        want = want.view(got.dtype)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "biu" or want.dtype.name.startswith(("int", "uint")):
        bad = got != want
        return _first(bad, got, want, f"{int(bad.sum())} of {bad.size} differ") if bad.any() else None
    if want.dtype.kind == "c":
        part = np.float32 if want.dtype == np.complex64 else np.float64
        dims = (*want.shape, 2)
        got = np.ascontiguousarray(got).view(part).reshape(dims)
        want = np.ascontiguousarray(want).view(part).reshape(dims)
    got, want = np.ascontiguousarray(got), np.ascontiguousarray(want)
    with np.errstate(all="ignore"):
        g, w = got.astype(np.float64), want.astype(np.float64)
        both_nan = np.isnan(g) & np.isnan(w)
        same = both_nan | (g == w)
        if tolerance.zero_sign:
            same &= both_nan | (np.signbit(g) == np.signbit(w))
        error = np.abs(g - w)
        finite = np.abs(w[np.isfinite(w)])
        limit = tolerance.abs + tolerance.rel * float(np.max(finite, initial=0.0))
        opposite = (g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w))
        comparable = np.isfinite(g) & np.isfinite(w)
        near = comparable & (error <= limit) & (limit > 0)
        if tolerance.ulps:
            ulps = np.abs(_ordered(got) - _ordered(want))
            whole = np.isnan(g) == np.isnan(w)
            near |= whole & (ulps <= tolerance.ulps)
    if tolerance.zero_sign:
        near &= ~opposite
    bad = ~(same | near)
    if not bad.any():
        return None
    worst = float(np.nanmax(np.where(bad & comparable, error, 0.0), initial=0.0))
    return _first(bad, got, want, f"{int(bad.sum())} of {bad.size} differ, max error {worst:.3g}")


def _first(bad: Array, got: Array, want: Array, message: str) -> str:
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{message}; at {list(at)}: {got[at]!r} instead of {want[at]!r}"


def flatten(result: Any) -> list[Array]:
    """Tuples of any depth to a flat list of arrays."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in flatten(part)]
    return [np.asarray(result)]


# -- families -----------------------------------------------------------------------------------------------------


def family_names() -> list[str]:
    """Every family, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(families.__path__))


def family(name: str) -> list[Case]:
    """The cases of one family; their names are unique."""
    found: Iterator[Case] = importlib.import_module(f"families.{name}").cases()
    cases = list(found)
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise ValueError(f"family {name} has cases of the same name: {twice[:5]}")
    return cases


def all_cases() -> Iterator[tuple[str, Case]]:
    """(family, case) for every case."""
    for name in family_names():
        for case in family(name):
            yield name, case
