"""sort with any comparator, dimension and operands, and topk."""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import ALL, Case

KEYS = [t for t in ALL if t not in c.COMPLEX]


def comparator(types: list[str], direction: str, kind: str = "", operand: int = 0) -> str:
    """Compares one operand's two elements."""
    lines = []
    for k, t in enumerate(types):
        lines += [f"a{k} = {t}[] parameter({2 * k})", f"b{k} = {t}[] parameter({2 * k + 1})"]
    lines.append(f"z = pred[] compare(a{operand}, b{operand}), direction={direction}{kind}")
    return c.computation("less", "\n".join(lines))


def sort_case(
    label: str,
    types: list[str],
    dims: tuple[int, ...],
    axis: int,
    direction: str,
    inputs: list[c.Array],
    **more: str,
) -> Case:
    """One sort; results of several operands are a tuple."""
    kind, stable = more.get("kind", ""), more.get("stable", ", is_stable=true")
    shapes = [c.sh(t, dims) for t in types]
    rows = [f"p{k} = {s} parameter({k})" for k, s in enumerate(shapes)]
    names = ", ".join(f"p{k}" for k in range(len(types)))
    out = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    rows.append(f"r = {out} sort({names}), dimensions={{{axis}}}{stable}, to_apply=less")
    text = c.module("\n".join(rows), comparator(types, direction, kind))

    def reference(*xs: c.Array) -> list[c.Array]:
        key = xs[0].astype(np.float64)
        order = np.argsort(key if direction == "LT" else -key, axis=axis, kind="stable")
        return [np.take_along_axis(x, order, axis) for x in xs]

    # XLA:CPU breaks its own packing of two-bit types here. Without `is_stable` equal keys may come in any order.
    packed = types[0] in ("s2", "u2")
    known = None if kind else reference
    return Case(f"sort-{label}", "sort", types[0], text, inputs, reference=known, prefer_reference=packed)


def few(dtype: str, dims: tuple[int, ...], *key: object) -> c.Array:
    """Many equal keys, to show stability."""
    if dtype == "pred":
        return c.random(dtype, dims, *key)
    return c.Stream("few", dtype, dims, *key).integers(0, 3, dims).astype(c.np_dtype(dtype))


def sorts() -> Iterator[Case]:
    """Types × directions; total order with NaN; dimensions; operands; comparators of several instructions."""
    for dtype in KEYS:
        x = c.wide(dtype, 40, "sort")
        kind = ", type=TOTALORDER" if dtype in c.FLOATS and dtype != "f8e8m0fnu" else ""
        for direction in ("LT", "GT"):
            if kind:
                yield sort_case(f"total-{direction}-{dtype}", [dtype], (40,), 0, direction, [x], kind=kind)
            finite = c.random(dtype, (40,), "sort")
            yield sort_case(f"{direction}-{dtype}", [dtype], (40,), 0, direction, [finite])
        if dtype not in ("f8e8m0fnu",):
            keys = few(dtype, (30,), "keys")
            iota = np.arange(30, dtype=np.int32)
            yield sort_case(f"stable-{dtype}", [dtype, "s32"], (30,), 0, "LT", [keys, iota])
    for dims, axis in (
        ((3, 5), 0),
        ((3, 5), 1),
        ((2, 3, 4), 1),
        ((1,), 0),
        ((0,), 0),
        ((3, 0), 0),
        ((17, 9), 0),
    ):
        for dtype in ("f32", "s32"):
            x = c.random(dtype, dims, "sort")
            yield sort_case(f"{c.sh(dtype, dims)}-{axis}", [dtype], dims, axis, "LT", [x])
            others = [few("s32", dims, "k"), x, c.random("u8", dims, "third")]
            yield sort_case(
                f"three-{c.sh(dtype, dims)}-{axis}", ["s32", dtype, "u8"], dims, axis, "GT", others
            )
    for n in (2, 31, 64, 100, 1000):
        x = c.Stream("long", n).permutation(n).astype(np.float32)
        yield sort_case(f"unstable-{n}", ["f32"], (n,), 0, "LT", [x], stable="")
        keys = few("s32", (n,), "long")
        yield sort_case(f"long-{n}", ["s32", "s32"], (n,), 0, "LT", [keys, np.arange(n, dtype=np.int32)])
    yield from comparators()


def comparators() -> Iterator[Case]:
    """By the second operand, by two keys, by absolute value, by a key computed in another type."""
    n = 40
    base = "a = {0}[] parameter(0)\nb = {0}[] parameter(1)\n"
    two = base.format("s32") + "d = f32[] parameter(2)\ne = f32[] parameter(3)\n"
    s = "p = s32[40] parameter(0)\nq = f32[40] parameter(1)\n"
    tail = "dimensions={0}, is_stable=true, to_apply=less"
    both = [few("s32", (n,), "two"), c.random("f32", (n,), "two")]
    forms = {
        "second": "z = pred[] compare(d, e), direction=GT",
        "lexicographic": "l = pred[] compare(a, b), direction=LT\nq = pred[] compare(a, b), direction=EQ\n"
        "m = pred[] compare(d, e), direction=LT\nw = pred[] and(q, m)\nz = pred[] or(l, w)",
    }
    for label, lines in forms.items():
        text = c.module(s + f"r = (s32[40], f32[40]) sort(p, q), {tail}", c.computation("less", two + lines))
        yield Case(f"sort-{label}", "sort", "s32", text, both)
    one = {
        "absolute": base.format("f32")
        + "d = f32[] abs(a)\ne = f32[] abs(b)\nz = pred[] compare(d, e), direction=LT",
        "key-bits": base.format("f32") + "d = s32[] bitcast-convert(a)\ne = s32[] bitcast-convert(b)\n"
        "z = pred[] compare(d, e), direction=LT",
        "never": base.format("f32") + "z = pred[] constant(false)",
        "modulo": base.format("f32") + "d = s32[] convert(a)\ne = s32[] convert(b)\nk = s32[] constant(3)\n"
        "g = s32[] remainder(d, k)\nh = s32[] remainder(e, k)\nz = pred[] compare(g, h), direction=LT",
        "jax": base.format("f32") + "zero = f32[] constant(0)\nna = f32[] constant(nan)\n"
        "az = pred[] compare(a, zero), direction=EQ\nbz = pred[] compare(b, zero), direction=EQ\n"
        "aa = f32[] select(az, zero, a)\nbb = f32[] select(bz, zero, b)\n"
        "an = pred[] compare(a, a), direction=NE\nbn = pred[] compare(b, b), direction=NE\n"
        "ac = f32[] select(an, na, aa)\nbc = f32[] select(bn, na, bb)\n"
        "z = pred[] compare(ac, bc), direction=LT, type=TOTALORDER",
    }
    for label, lines in one.items():
        text = c.module(
            f"p = f32[40] parameter(0)\nr = f32[40] sort(p), {tail}", c.computation("less", lines)
        )
        x = c.wide("f32", n, "jax") if label == "jax" else c.random("f32", (n,), label, scale=9.0)
        yield Case(f"sort-{label}", "sort", "f32", text, [x])


def topks() -> Iterator[Case]:
    """Largest and smallest, several ranks and types, ties and NaN."""
    for dtype in ("f32", "bf16", "f16", "f64", "s32", "u32", "s8"):
        for dims in ((9,), (3, 7), (2, 3, 5)):
            for k in (1, 3):
                for largest in ("true", "false"):
                    x = c.wide(dtype, 400, "topk", dims)[-int(np.prod(dims)) :].reshape(dims)
                    if dims == (3, 7):
                        x = few(dtype, dims, "topk")
                    out = (*dims[:-1], k)
                    text = c.module(
                        f"p = {c.sh(dtype, dims)} parameter(0)\n"
                        f"r = ({c.sh(dtype, out)}, {c.sh('s32', out)}) topk(p), k={k}, largest={largest}"
                    )

                    def reference(v: c.Array, k: int = k, largest: str = largest) -> tuple[c.Array, c.Array]:
                        wide = v.astype(np.float64)
                        order = np.argsort(-wide if largest == "true" else wide, axis=-1, kind="stable")[
                            ..., :k
                        ]
                        return np.take_along_axis(v, order, -1), order.astype(np.int32)

                    name = f"topk-{c.sh(dtype, dims)}-{k}-{largest}"
                    yield Case(name, "topk", dtype, text, [x], reference=reference)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from sorts()
    yield from topks()
