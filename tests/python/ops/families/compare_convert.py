"""compare, convert, bitcast-convert, reduce-precision, stochastic-convert, select, clamp, is-finite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cases as c
import numpy as np
from cases import ALL, COMPLEX, FLOATS, INTEGERS, Case

from families.elementwise import SHAPES, grid

DIRECTIONS: dict[str, Any] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compare() -> Iterator[Case]:
    """Every direction on every type; total order on floats, where -NaN < -inf < -0 < 0 < inf < NaN."""
    for dtype in ALL:
        x, y = grid(dtype, "compare")
        for direction, function in DIRECTIONS.items():
            if dtype in COMPLEX and direction not in ("EQ", "NE"):
                continue
            kinds = ["", ", type=TOTALORDER"] if dtype in FLOATS and dtype != "f8e8m0fnu" else [""]
            for kind in kinds:
                s = c.sh(dtype, x.shape)
                line = f"r = {c.sh('pred', x.shape)} compare(p, q), direction={direction}{kind}"
                text = c.module(f"p = {s} parameter(0)\nq = {s} parameter(1)\n{line}")
                order = "-total" if kind else ""
                reference = None if kind else function
                name = f"compare-{direction}{order}-{dtype}"
                yield Case(name, "compare", dtype, text, [x, y], reference=reference)
    for dims, layout in SHAPES:

        def text_of(lay: Any, dims: Any = dims) -> str:
            s = c.sh("f32", dims, lay)
            line = f"r = {c.sh('pred', dims, lay)} compare(p, q), direction=LE"
            return c.module(f"p = {s} parameter(0)\nq = {s} parameter(1)\n{line}")

        x, y = c.random("f32", dims, 1), c.random("f32", dims, 2)
        name = f"compare-LE-{c.sh('f32', dims, layout)}"
        yield Case(
            name,
            "compare",
            "f32",
            text_of(layout),
            [x, y],
            oracle_text=text_of(None),
            reference=np.less_equal,
        )


def convert_reference(source: str, target: str) -> c.Reference:
    """Saturating float to integer, NaN to 0; integers wrap; complex loses its imaginary part."""

    def run(x: c.Array) -> c.Array:
        kind = c.np_dtype(target)
        if target == "pred":
            return (
                np.asarray(x.astype(np.complex128) != 0) if source in COMPLEX else x.astype(np.float64) != 0
            )
        if source in COMPLEX and target not in COMPLEX:
            x = np.real(x)
        if target in INTEGERS:
            bits = c.BITS[target]
            low = -(1 << (bits - 1)) if target in c.SIGNED else 0
            high = low + (1 << bits) - 1
            floats = source in FLOATS or source in COMPLEX
            wide = np.int64 if low else np.uint64
            values = []
            for v in x.ravel():
                if not floats:
                    values.append(((int(v) - low) & ((1 << bits) - 1)) + low)
                    continue
                f = float(v)
                values.append(0 if np.isnan(f) else low if f <= low else high if f >= high else int(f))
            return np.array(values, dtype=wide).reshape(x.shape).astype(kind)
        if source in INTEGERS or source == "pred":
            return x.astype(np.int64 if source != "u64" else np.uint64).astype(kind)
        if source in FLOATS and target in FLOATS:
            x = x.astype(np.float64)
        return x.astype(kind)

    return run


def convert() -> Iterator[Case]:
    """All pairs of types."""
    for source in ALL:
        x = c.wide(source, 72, "convert")
        for target in ALL:
            text = c.module(
                f"p = {c.sh(source, x.shape)} parameter(0)\nr = {c.sh(target, x.shape)} convert(p)"
            )
            close = c.EXACT
            if target in c.TINY_FLOATS:
                # Integers wider than f32 may round twice; NaN in f4e2m1fn is a zero of either sign.
                close = c.Tolerance(ulps=1 if source in ("s32", "u32", "s64", "u64", "f64", "c128") else 0)
            if target == "f4e2m1fn":
                close = c.Tolerance(ulps=1, zero_sign=False)
            if source in ("f64", "c128") and target in ("f32", "bf16", "c64"):
                close = c.Tolerance(abs=2.0**-125)
            values = x
            if source == "f64" and target == "f8e8m0fnu":
                values = np.where(np.abs(x) < 2.0**-126, 1.0, x)
            reference = convert_reference(source, target)
            case = Case(
                f"convert-{source}-{target}", "convert", target, text, [values], close, reference=reference
            )
            # XLA:CPU takes the largest f4e2m1fn for an infinity here.
            yield replace(case, prefer_reference=source == "f4e2m1fn" and target in INTEGERS)
    for dims, layout in SHAPES:
        x = c.random("f32", dims, "convert")
        line = "p = {} parameter(0)\nr = {} convert(p)"
        full = c.module(line.format(c.sh("f32", dims, layout), c.sh("s16", dims, layout)))
        plain = c.module(line.format(c.sh("f32", dims), c.sh("s16", dims)))
        yield Case(f"convert-{c.sh('f32', dims, layout)}-s16", "convert", "s16", full, [x], oracle_text=plain)


def bitcast_convert() -> Iterator[Case]:
    """Between types of one width, and to narrower and wider ones through a last dimension."""
    types = [t for t in ALL if t not in ("pred", "s2", "u2", *COMPLEX)]
    for source in types:
        for target in types:
            a, b = c.BITS[source], c.BITS[target]
            if source == target or (min(a, b) == 4 and max(a, b) > 16):
                continue
            if a == 4 and b == 4 or a == b and a <= 8 and "f8" in source and "f8" in target:
                continue
            if a == b:
                dims, out = (24,), (24,)
            elif a > b:
                dims, out = (6,), (6, a // b)
            else:
                dims, out = (6, b // a), (6,)
            x = c.shaped(source, dims, "bitcast") if a >= 8 else c.random(source, dims, "bitcast")
            text = c.module(
                f"p = {c.sh(source, dims)} parameter(0)\nr = {c.sh(target, out)} bitcast-convert(p)"
            )
            kind = c.np_dtype(target)

            def view(v: c.Array, k: Any = kind, out: Any = out) -> c.Array:
                return np.ascontiguousarray(v).view(k).reshape(out)

            reference = view if min(a, b) >= 8 else None
            name = f"bitcast-convert-{source}-{target}"
            yield Case(name, "bitcast-convert", target, text, [x], reference=reference)


def reduce_precision() -> Iterator[Case]:
    """To the formats of other floats and to odd ones."""
    for dtype in c.WIDE_FLOATS:
        for exponent, mantissa in (
            (5, 10),
            (8, 7),
            (8, 23),
            (11, 52),
            (4, 3),
            (5, 2),
            (3, 1),
            (2, 0),
            (8, 1),
        ):
            x = c.wide(dtype, 128, "reduce-precision")
            s = c.sh(dtype, x.shape)
            attributes = f"exponent_bits={exponent}, mantissa_bits={mantissa}"
            text = c.module(f"p = {s} parameter(0)\nr = {s} reduce-precision(p), {attributes}")
            name = f"reduce-precision-{dtype}-e{exponent}m{mantissa}"
            yield Case(name, "reduce-precision", dtype, text, [x])


def stochastic(bits: int) -> c.Reference:
    """Round up where the random number is below the fraction dropped."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def run(x: c.Array, r: c.Array) -> c.Array:
        values = []
        for v, u in zip(x.ravel(), r.ravel(), strict=True):
            f = float(v)
            if np.isnan(f):
                values.append(0)
            elif abs(f) >= -low:
                values.append(low if f < 0 else high)
            else:
                whole = int(abs(f))
                fraction = abs(f) - whole
                up = int(u) < int(fraction * 2 ** (r.dtype.itemsize * 8))
                whole += 1 if up else 0
                values.append(max(low, -whole) if f < 0 else min(high, whole))
        return np.array(values, dtype=f"int{bits}").reshape(x.shape)

    return run


def stochastic_convert() -> Iterator[Case]:
    """Floats with random bits of their own width."""
    for source, random_type in (("f16", "u16"), ("bf16", "u16"), ("f32", "u32"), ("f64", "u64")):
        x = c.wide(source, 64, "stochastic")
        kind = c.np_dtype(random_type)
        r = np.frombuffer(c.Stream("stochastic", source).bytes(64 * kind.itemsize), dtype=kind)
        for target in ("s8", "s16", "s32", "s64"):
            text = c.module(
                f"p = {c.sh(source, (64,))} parameter(0)\nq = {c.sh(random_type, (64,))} parameter(1)\n"
                f"r = {c.sh(target, (64,))} stochastic-convert(p, q)"
            )
            name = f"stochastic-convert-{source}-{target}"
            reference = stochastic(c.BITS[target])
            yield Case(name, "stochastic-convert", target, text, [x, r], reference=reference)


def select_clamp() -> Iterator[Case]:
    """Arrays and scalars as predicate and bounds."""
    for dtype in ALL:
        x, y = c.wide(dtype, 40, "select"), c.wide(dtype, 40, "other")
        mask = c.random("pred", (40,), dtype)
        s = c.sh(dtype, (40,))
        for form, test in (("array", mask), ("scalar", mask[0])):
            text = c.module(
                f"t = {c.sh('pred', np.shape(test))} parameter(0)\np = {s} parameter(1)\nq = {s} parameter(2)\n"
                f"r = {s} select(t, p, q)"
            )
            inputs = [np.asarray(test), x, y]
            yield Case(f"select-{form}-{dtype}", "select", dtype, text, inputs, reference=np.where)
        if dtype in COMPLEX:
            continue
        low, high = c.random(dtype, (40,), "low"), c.random(dtype, (40,), "high")
        scalars = [
            np.asarray(low.min() if dtype == "pred" else np.sort(low)[10]),
            np.asarray(np.sort(high)[-5]),
        ]
        for form, bounds in (("array", [low, high]), ("scalar", scalars)):
            b = c.sh(dtype, np.shape(bounds[0]))
            text = c.module(
                f"a = {b} parameter(0)\np = {s} parameter(1)\nb = {b} parameter(2)\nr = {s} clamp(a, p, b)"
            )
            yield Case(f"clamp-{form}-{dtype}", "clamp", dtype, text, [bounds[0], x, bounds[1]])
    for dims, layout in SHAPES:

        def text_of(lay: Any, dims: Any = dims) -> str:
            s = c.sh("f32", dims, lay)
            return c.module(
                f"t = {c.sh('pred', dims, lay)} parameter(0)\np = {s} parameter(1)\nq = {s} parameter(2)\n"
                f"r = {s} select(t, p, q)"
            )

        inputs = [c.random("pred", dims), c.random("f32", dims, 1), c.random("f32", dims, 2)]
        name = f"select-{c.sh('f32', dims, layout)}"
        yield Case(name, "select", "f32", text_of(layout), inputs, oracle_text=text_of(None))


def is_finite() -> Iterator[Case]:
    """Floats only."""
    for dtype in FLOATS:
        x = c.wide(dtype, 96, "is-finite")
        text = c.module(f"p = {c.sh(dtype, (96,))} parameter(0)\nr = pred[96] is-finite(p)")
        reference = lambda v: np.isfinite(v.astype(np.float32 if v.dtype.itemsize < 8 else v.dtype))
        yield Case(f"is-finite-{dtype}", "is-finite", dtype, text, [x], reference=reference)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from compare()
    yield from convert()
    yield from bitcast_convert()
    yield from reduce_precision()
    yield from stochastic_convert()
    yield from select_clamp()
    yield from is_finite()
