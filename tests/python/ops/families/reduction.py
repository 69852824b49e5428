"""reduce, reduce-window, select-and-scatter and map, with computations of any content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cases as c
import numpy as np
from cases import FLOATS, INTEGERS, Case

from families.contraction import Window, window_text

SIMPLE = ["add", "multiply", "maximum", "minimum"]
LOGIC = ["and", "or", "xor"]
REDUCED = [
    ((7,), (0,)),
    ((3, 5), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0, 1)),
    ((3, 5), ()),
    ((2, 3, 4), (1,)),
    ((2, 3, 4), (0, 2)),
    ((0, 3), (0,)),
    ((3, 0), (0,)),
    ((1,), (0,)),
    ((17, 33), (1,)),
    ((4, 3, 2, 3), (2, 0)),
]
IDENTITY = {"add": 0, "multiply": 1, "and": 1, "or": 0, "xor": 0}


def left(dims: Sequence[int], over: Sequence[int]) -> tuple[int, ...]:
    """Dimensions that stay."""
    return tuple(n for k, n in enumerate(dims) if k not in over)


def close(op: str, dtype: str) -> c.Tolerance:
    """Only sums and products depend on order."""
    return c.EXACT if op not in ("add", "multiply") else c.sums(dtype, 2.0)


def start(op: str, dtype: str) -> str:
    """An initial value that leaves its mark."""
    if dtype == "pred":
        return c.literal("pred", op in ("and", "multiply", "minimum"))
    return c.literal(dtype, {"add": 1, "multiply": 2}.get(op, 1))


def reduce_case(
    op: str, dtype: str, dims: tuple[int, ...], over: tuple[int, ...], layout: bool = False
) -> Case:
    """One operand, one opcode."""
    if op == "multiply" and dtype not in ("pred", *INTEGERS):
        x = c.random(dtype, dims, op, scale=1.5)
    elif op == "add" or dtype in c.COMPLEX:
        x = c.random(dtype, dims, op)
    else:
        x = c.shaped(dtype, dims, op)

    def text(on: bool) -> str:
        lay = tuple(range(len(dims))) if on else None
        out = left(dims, over)
        return c.module(
            f"p = {c.sh(dtype, dims, lay)} parameter(0)\nv = {c.sh(dtype)} constant({start(op, dtype)})\n"
            f"r = {c.sh(dtype, out)} reduce(p, v), dimensions={{{c.csv(over)}}}, to_apply=f",
            c.combiner("f", op, dtype),
        )

    name = f"reduce-{op}-{c.sh(dtype, dims, tuple(range(len(dims))) if layout else None)}-{c.csv(over)}"
    # An initial value that is no identity may count any number of times; here it counts once, and XLA:CPU agrees
    # except for these shapes, which it splits or drops.
    odd = op in SIMPLE and dtype != "pred" and (not over or (dims, over) in (((1,), (0,)), ((17, 33), (1,))))
    reference = fold_once(op, dtype, over) if odd else None
    return Case(name, "reduce", dtype, text(layout), [x], close(op, dtype), text(False), reference, odd)


def fold_once(op: str, dtype: str, over: tuple[int, ...]) -> c.Reference:
    """The reduction with its initial value counted once, in the widest type of the kind."""
    kind = c.np_dtype(dtype)
    wide = kind if dtype in INTEGERS else np.dtype(np.complex128 if dtype in c.COMPLEX else np.float64)
    first = np.asarray(2 if op == "multiply" else 1).astype(wide)

    def run(x: c.Array) -> c.Array:
        with np.errstate(all="ignore"):
            return np.asarray(getattr(np, op).reduce(x.astype(wide), axis=over, initial=first)).astype(kind)

    return run


ARGMAX = """
  a = {0}[] parameter(0)
  i = s32[] parameter(1)
  b = {0}[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction={1}
  odd = pred[] compare(a, a), direction=NE
  first = pred[] or(gt, odd)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  keep = pred[] or(first, tie)
  va = {0}[] select(first, a, b)
  vi = s32[] select(keep, i, j)
  t = ({0}[], s32[]) tuple(va, vi)
"""


def reduces() -> Iterator[Case]:
    """Opcodes × types × dimensions; layouts; several operands; odd computations."""
    for op in SIMPLE:
        for dtype in ["pred", *INTEGERS, *FLOATS, *c.COMPLEX]:
            if dtype in c.COMPLEX and op in ("maximum", "minimum"):
                continue
            if dtype in ("f8e8m0fnu", "f4e2m1fn", "s2", "u2") and op in ("add", "multiply"):
                continue
            yield reduce_case(op, dtype, (3, 5), (1,))
        for dtype in ("f32", "s32", "bf16", "f64"):
            for dims, over in REDUCED:
                if (dims, over) != ((3, 5), (1,)):
                    yield reduce_case(op, dtype, dims, over)
        for dims, over in (((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 4), (0, 2))):
            yield reduce_case(op, "f32", dims, over, layout=True)
    for op in LOGIC:
        for dtype in ["pred", *INTEGERS]:
            yield reduce_case(op, dtype, (4, 5), (0,))
    for direction, label, first in (("GT", "argmax", "-inf"), ("LT", "argmin", "inf")):
        for dtype in ("f32", "bf16", "f64", "s32"):
            worst = first if dtype != "s32" else {"-inf": "-2147483648", "inf": "2147483647"}[first]
            for dims, over in (((9,), 0), ((4, 6), 1), ((4, 6), 0), ((2, 3, 4), 1), ((3, 0), 1)):
                out = left(dims, (over,))
                both = f"({c.sh(dtype, out)}, {c.sh('s32', out)})"
                text = c.module(
                    f"p = {c.sh(dtype, dims)} parameter(0)\ni = {c.sh('s32', dims)} iota(), iota_dimension={over}\n"
                    f"v = {dtype}[] constant({worst})\nz = s32[] constant(0)\n"
                    f"r = {both} reduce(p, i, v, z), dimensions={{{over}}}, to_apply=f",
                    c.computation("f", ARGMAX.format(dtype, direction)),
                )
                name = f"reduce-{label}-{c.sh(dtype, dims)}-{over}"
                yield Case(name, "reduce", dtype, text, [c.shaped(dtype, dims, label)])
    yield from odd_computations()


ODD = {
    "logaddexp": "x = f32[] parameter(0)\ny = f32[] parameter(1)\nm = f32[] maximum(x, y)\na = f32[] subtract(x, m)\n"
    "b = f32[] subtract(y, m)\nc = f32[] exponential(a)\nd = f32[] exponential(b)\ne = f32[] add(c, d)\n"
    "g = f32[] log(e)\nz = f32[] add(m, g)",
    "swapped": "y = f32[] parameter(1)\nx = f32[] parameter(0)\nz = f32[] add(y, x)",
    "hypot": "x = f32[] parameter(0)\ny = f32[] parameter(1)\na = f32[] multiply(x, x)\nb = f32[] multiply(y, y)\n"
    "s = f32[] add(a, b)\nz = f32[] sqrt(s)",
    "with-constant": "x = f32[] parameter(0)\ny = f32[] parameter(1)\nk = f32[] constant(0.5)\na = f32[] add(x, y)\n"
    "b = f32[] add(a, k)\nz = f32[] subtract(b, k)",
    "through-bf16": "x = f32[] parameter(0)\ny = f32[] parameter(1)\na = bf16[] convert(x)\nb = bf16[] convert(y)\n"
    "m = bf16[] maximum(a, b)\nz = f32[] convert(m)",
}


def odd_computations() -> Iterator[Case]:
    """More than one instruction inside; three operands of three types; a nested call."""
    for label, lines in ODD.items():
        for dims, over in (((6,), (0,)), ((4, 6), (1,)), ((4, 6), (0,))):
            text = c.module(
                f"p = {c.sh('f32', dims)} parameter(0)\nv = f32[] constant(0)\n"
                f"r = {c.sh('f32', left(dims, over))} reduce(p, v), dimensions={{{c.csv(over)}}}, to_apply=f",
                c.computation("f", lines),
            )
            name = f"reduce-{label}-{c.sh('f32', dims)}-{c.csv(over)}"
            x = c.random("f32", dims, label)
            tolerance = c.sums("bf16" if label == "through-bf16" else "f32", 4.0)
            yield Case(name, "reduce", "f32", text, [x], tolerance)
    lines = (
        "a = f32[] parameter(0)\nb = s32[] parameter(1)\nd = pred[] parameter(2)\ne = f32[] parameter(3)\n"
        "g = s32[] parameter(4)\nh = pred[] parameter(5)\ni = f32[] add(a, e)\nj = s32[] maximum(b, g)\n"
        "k = pred[] or(d, h)\nt = (f32[], s32[], pred[]) tuple(i, j, k)"
    )
    for dims, over in (((6,), (0,)), ((4, 6), (1,)), ((2, 3, 4), (0, 2))):
        out = left(dims, over)
        shapes = [c.sh(t, out) for t in ("f32", "s32", "pred")]
        text = c.module(
            f"p = {c.sh('f32', dims)} parameter(0)\nq = {c.sh('s32', dims)} parameter(1)\n"
            f"s = {c.sh('pred', dims)} parameter(2)\nv = f32[] constant(0)\nw = s32[] constant(-5)\n"
            "z = pred[] constant(false)\n"
            f"r = ({', '.join(shapes)}) reduce(p, q, s, v, w, z), dimensions={{{c.csv(over)}}}, to_apply=f",
            c.computation("f", lines),
        )
        inputs = [c.random("f32", dims, 1), c.shaped("s32", dims, 2), c.random("pred", dims, 3)]
        yield Case(f"reduce-three-{c.sh('f32', dims)}", "reduce", "f32", text, inputs, c.sums("f32"))
    text = c.module(
        "p = f32[4,6] parameter(0)\nv = f32[] constant(0)\nr = f32[4] reduce(p, v), dimensions={1}, to_apply=f",
        c.combiner("g", "maximum", "f32"),
        c.computation(
            "f", "x = f32[] parameter(0)\ny = f32[] parameter(1)\nz = f32[] call(x, y), to_apply=g"
        ),
    )
    yield Case("reduce-nested-call", "reduce", "f32", text, [c.random("f32", (4, 6), "call")])


WINDOWS: dict[str, tuple[tuple[int, ...], tuple[Window, ...]]] = {
    "1d": ((9,), (Window(3),)),
    "1d-stride": ((9,), (Window(3, 2),)),
    "1d-pad": ((5,), (Window(3, 1, 1, 1),)),
    "1d-dilated": ((9,), (Window(3, 1, 0, 0, 1, 2),)),
    "1d-base-dilated": ((5,), (Window(3, 1, 1, 1, 2),)),
    "cumulative": ((8,), (Window(8, 1, 7, 0),)),
    "2d": ((5, 6), (Window(2), Window(3))),
    "2d-all": ((5, 6), (Window(2, 2, 1, 0, 2, 2), Window(3, 1, -1, 2, 1, 2))),
    "pool": ((2, 6, 6, 3), (Window(1), Window(2, 2), Window(2, 2), Window(1))),
    "pool-same": ((1, 5, 5, 2), (Window(1), Window(3, 2, 1, 1), Window(3, 2, 1, 1), Window(1))),
    "rows": ((4, 5), (Window(1), Window(5, 1, 4, 0))),
    "only-padding": ((2,), (Window(2, 2, 3, 3),)),
    "empty": ((2,), (Window(5),)),
    "3d": ((3, 4, 3), (Window(2), Window(2, 1, 1, 1), Window(1, 2))),
}


def reduce_windows() -> Iterator[Case]:
    """Every window attribute, several types, two operands."""
    for label, (dims, ws) in WINDOWS.items():
        out = tuple(w.out(n) for w, n in zip(ws, dims, strict=True))
        for op in SIMPLE:
            types = ["f32", "s32", "bf16"] + (
                ["f64", "f16", "s8", "u8", "s64"] if label in ("1d", "2d-all") else []
            )
            for dtype in types:
                text = c.module(
                    f"p = {c.sh(dtype, dims)} parameter(0)\nv = {dtype}[] constant({start(op, dtype)})\n"
                    f"r = {c.sh(dtype, out)} reduce-window(p, v), {window_text(ws)}, to_apply=f",
                    c.combiner("f", op, dtype),
                )
                x = c.random(dtype, dims, label, op, scale=1.5 if op == "multiply" else 3.0)
                yield Case(
                    f"reduce-window-{label}-{op}-{dtype}", "reduce-window", dtype, text, [x], close(op, dtype)
                )
        both = f"({c.sh('f32', out)}, {c.sh('s32', out)})"
        text = c.module(
            f"p = {c.sh('f32', dims)} parameter(0)\nq = {c.sh('s32', dims)} parameter(1)\nv = f32[] constant(-inf)\n"
            f"z = s32[] constant(0)\nr = {both} reduce-window(p, q, v, z), {window_text(ws)}, to_apply=f",
            c.computation("f", ARGMAX.format("f32", "GT")),
        )
        inputs = [c.random("f32", dims, label), c.random("s32", dims, label)]
        yield Case(f"reduce-window-{label}-two", "reduce-window", "f32", text, inputs)


def select_and_scatters() -> Iterator[Case]:
    """Max-pool gradients: the first selected element of each window takes its source."""
    forms: dict[str, tuple[tuple[int, ...], tuple[Window, ...]]] = {
        "1d": ((8,), (Window(2, 2),)),
        "1d-overlap": ((8,), (Window(3, 2),)),
        "1d-pad": ((7,), (Window(3, 2, 1, 1),)),
        "2d": ((4, 6), (Window(2, 2), Window(3, 3))),
        "2d-overlap": ((5, 6), (Window(3, 1, 1, 1), Window(2, 1))),
        "pool": ((2, 4, 6, 3), (Window(1), Window(2, 2), Window(2, 2), Window(1))),
        "pool-same": ((1, 5, 5, 2), (Window(1), Window(3, 2, 1, 1), Window(3, 2, 1, 1), Window(1))),
        "pool-tasks": ((5, 20, 20, 17), (Window(1), Window(3, 2, 1, 1), Window(3, 2, 1, 1), Window(1))),
    }
    for label, (dims, ws) in forms.items():
        out = tuple(w.out(n) for w, n in zip(ws, dims, strict=True))
        for dtype in ("f32", "bf16", "s32", "f64"):
            for direction in ("GE", "LE"):
                s = c.sh(dtype, dims)
                select = f"x = {dtype}[] parameter(0)\ny = {dtype}[] parameter(1)\n"
                text = c.module(
                    f"p = {s} parameter(0)\nq = {c.sh(dtype, out)} parameter(1)\nv = {dtype}[] constant(1)\n"
                    f"r = {s} select-and-scatter(p, q, v), {window_text(ws)}, select=g, scatter=f",
                    c.computation("g", f"{select}z = pred[] compare(x, y), direction={direction}"),
                    c.combiner("f", "add", dtype),
                )
                inputs = [c.random(dtype, dims, label), c.random(dtype, out, label, "source")]
                name = f"select-and-scatter-{label}-{direction}-{dtype}"
                yield Case(name, "select-and-scatter", dtype, text, inputs, c.sums(dtype))


def maps() -> Iterator[Case]:
    """One, two and three operands; another result type."""
    for dtype in ("f32", "s32", "f64", "bf16", "u8", "c64"):
        for dims in ((7,), (3, 4), (), (0, 2)):
            s = c.sh(dtype, dims)
            at = c.csv(range(len(dims)))
            lines = f"x = {dtype}[] parameter(0)\ny = {dtype}[] parameter(1)\na = {dtype}[] multiply(x, y)\n"
            text = c.module(
                f"p = {s} parameter(0)\nq = {s} parameter(1)\nr = {s} map(p, q), dimensions={{{at}}}, to_apply=f",
                c.computation("f", lines + f"z = {dtype}[] add(a, x)"),
            )
            inputs = [c.random(dtype, dims, 1), c.random(dtype, dims, 2)]
            yield Case(f"map-{s}", "map", dtype, text, inputs, c.sums(dtype))
    lines = "x = f32[] parameter(0)\nk = f32[] constant(1)\nz = pred[] compare(x, k), direction=GT"
    text = c.module(
        "p = f32[9] parameter(0)\nr = pred[9] map(p), dimensions={0}, to_apply=f", c.computation("f", lines)
    )
    yield Case("map-predicate", "map", "pred", text, [c.shaped("f32", (9,), "map")])


def cases() -> Iterator[Case]:
    """All of them."""
    yield from reduces()
    yield from reduce_windows()
    yield from select_and_scatters()
    yield from maps()


__all__: list[Any] = ["ARGMAX", "cases"]
