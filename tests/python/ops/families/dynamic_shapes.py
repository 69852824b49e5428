"""set-dimension-size, get-dimension-size and what works on bounded dynamic dimensions; dynamic-reshape.

Results have static shapes, so that nothing depends on how a dynamic array is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import Case


def cases() -> Iterator[Case]:
    """Every size from none to all, in each operation."""
    plus = c.combiner("plus", "add", "f32")
    most = c.combiner("most", "maximum", "f32")
    head = "p = f32[6] parameter(0)\nn = s32[] parameter(1)\nd = f32[<=6] set-dimension-size(p, n), dimensions={0}\n"
    wide = "p = f32[4,6] parameter(0)\nn = s32[] parameter(1)\nd = f32[4,<=6] set-dimension-size(p, n), dimensions={1}\n"
    zero = "z = f32[] constant(0)\n"
    x, y = c.random("f32", (6,), "dynamic"), c.random("f32", (4, 6), "dynamic")
    close = c.sums("f32", 4.0)
    for dtype in c.COMMON:
        text = c.module(
            f"p = {c.sh(dtype, (3, 5))} parameter(0)\nr = s32[] get-dimension-size(p), dimensions={{1}}"
        )
        yield Case(
            f"get-dimension-size-{dtype}", "get-dimension-size", dtype, text, [c.random(dtype, (3, 5))]
        )
    total = lambda v, n: v[:n].sum(dtype=np.float64).astype(np.float32)
    one = {
        "size": (head + "r = s32[] get-dimension-size(d), dimensions={0}", lambda v, n: n),
        "reduce": (head + zero + "r = f32[] reduce(d, z), dimensions={0}, to_apply=plus", total),
        "elementwise": (
            head
            + zero
            + "e = f32[<=6] multiply(d, d)\nr = f32[] reduce(e, z), dimensions={0}, to_apply=plus",
            lambda v, n: total(v * v, n),
        ),
        "maximum": (
            head + "k = f32[] constant(-100)\nr = f32[] reduce(d, k), dimensions={0}, to_apply=most",
            lambda v, n: np.float32(max([-100.0, *v[:n]])),
        ),
        "dot": (
            head + "r = f32[] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            lambda v, n: total(v * v, n),
        ),
        "reverse": (
            head + "e = f32[<=6] reverse(d), dimensions={0}\ni = f32[6] iota(), iota_dimension=0\n"
            "j = f32[<=6] set-dimension-size(i, n), dimensions={0}\nr = f32[] dot(e, j), lhs_contracting_dims={0}, "
            "rhs_contracting_dims={0}",
            lambda v, n: total(v[:n][::-1] * np.arange(n, dtype=np.float32), n),
        ),
        "concatenate": (
            head + zero + "e = f32[<=12] concatenate(d, d), dimensions={0}\n"
            "m = s32[] get-dimension-size(e), dimensions={0}\ns = f32[] reduce(e, z), dimensions={0}, to_apply=plus\n"
            "r = (s32[], f32[]) tuple(m, s)",
            lambda v, n: (np.int32(2 * n), np.float32(2 * total(v, n))),
        ),
        "static-again": (
            head + "k = s32[] constant(6)\nr = f32[6] set-dimension-size(d, k), dimensions={0}",
            None,
        ),
    }
    for label, (text, reference) in one.items():
        for n in (0, 1, 4, 6):
            if label == "static-again" and n < 6:
                continue
            used = [s for name, s in (("plus", plus), ("most", most)) if name in text]
            full = c.module(text, *used)
            opcode = "get-dimension-size" if label == "size" else "set-dimension-size"
            inputs = [x, np.asarray(n, np.int32)]
            yield Case(f"{opcode}-{label}-{n}", opcode, "f32", full, inputs, close, reference=reference)
    two = {
        "rows": wide + zero + "r = f32[4] reduce(d, z), dimensions={1}, to_apply=plus",
        "all": wide + zero + "r = f32[] reduce(d, z), dimensions={0,1}, to_apply=plus",
        "transpose": wide + zero + "t = f32[<=6,4] transpose(d), dimensions={1,0}\n"
        "r = f32[4] reduce(t, z), dimensions={0}, to_apply=plus",
        "matmul": wide + "r = f32[4,4] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "compare": wide + zero + "b = f32[4,<=6] broadcast(z), dimensions={}\n"
        "g = pred[4,<=6] compare(d, b), direction=GT\nk = f32[4,<=6] select(g, d, b)\n"
        "r = f32[4] reduce(k, z), dimensions={1}, to_apply=plus",
    }
    wanted = {
        "rows": lambda v, n: v[:, :n].sum(1),
        "all": lambda v, n: v[:, :n].sum(),
        "transpose": lambda v, n: v[:, :n].sum(1),
        "matmul": lambda v, n: v[:, :n] @ v[:, :n].T,
        "compare": lambda v, n: np.maximum(v[:, :n], 0).sum(1),
    }
    for label, text in two.items():
        for n in (0, 3, 6):
            full = c.module(text, plus) if "plus" in text else c.module(text)
            inputs = [y, np.asarray(n, np.int32)]
            name = f"set-dimension-size-{label}-{n}"
            yield Case(name, "set-dimension-size", "f32", full, inputs, close, reference=wanted[label])
    text = c.module(
        "p = f32[6] parameter(0)\nn = s32[] parameter(1)\nm = s32[] parameter(2)\n"
        "d = f32[<=2,<=3] dynamic-reshape(p, n, m)\nz = f32[] constant(0)\n"
        "r = f32[] reduce(d, z), dimensions={0,1}, to_apply=plus",
        plus,
    )
    sizes = [np.asarray(2, np.int32), np.asarray(3, np.int32)]
    reference = lambda v, n, m: v.sum()
    yield Case("dynamic-reshape", "dynamic-reshape", "f32", text, [x, *sizes], close, reference=reference)
