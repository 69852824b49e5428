"""set-dimension-size, get-dimension-size and what works on bounded dynamic dimensions; dynamic-reshape.

Results have static shapes where XLA:CPU judges; it hands dynamic arrays out with anything behind their elements.
"""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import Case


def dynamic_results() -> Iterator[Case]:
    """Arrays of dynamic size as results, alone, in tuples, beside their sizes; through the compiler's own calls."""
    head = "p = f32[4,6] parameter(0)\nn = s32[] parameter(1)\nd = f32[4,<=6] set-dimension-size(p, n), dimensions={1}\n"
    both = head + "m = s32[] parameter(2)\ne = f32[<=4,<=6] set-dimension-size(d, m), dimensions={0}\n"
    call = 'custom-call({}), custom_call_target="{}"\n'
    texts = {
        "array": (head + "r = f32[4,<=6] negate(d)", lambda v, n, m: -v[:, :n]),
        "two": (both + "r = f32[<=6,<=4] transpose(e), dimensions={1,0}", lambda v, n, m: v[:m, :n].T),
        "tuple": (
            both + "t = (f32[<=4,<=6], f32[4,6]) tuple(e, p)\nr = (f32[4,<=6], (f32[<=4,<=6], f32[4,6]), s32[]) tuple(d, t, n)",
            lambda v, n, m: (v[:, :n], v[:m, :n], v, np.int32(n)),
        ),
        "element": (
            both + "t = (f32[<=4,<=6], f32[4,6]) tuple(e, p)\nr = f32[<=4,<=6] get-tuple-element(t), index=0",
            lambda v, n, m: v[:m, :n],
        ),
        "concatenate": (
            both + "r = f32[4,<=12] concatenate(d, d), dimensions={1}",
            lambda v, n, m: np.concatenate([v[:, :n], v[:, :n]], 1),
        ),
        "to-static": (
            head + "t = (f32[4,6], s32[], s32[]) " + call.format("d", "PadToStatic")
            + "a = s32[] get-tuple-element(t), index=1\nb = s32[] get-tuple-element(t), index=2\nr = (s32[], s32[]) tuple(a, b)",
            lambda v, n, m: (np.int32(4), np.int32(n)),
        ),
        "to-dynamic": (
            "p = f32[4,6] parameter(0)\nn = s32[] parameter(1)\nm = s32[] parameter(2)\nr = f32[<=4,<=6] "
            + call.format("p, m, n", "SliceToDynamic"),
            lambda v, n, m: v[:m, :n],
        ),
    }  # fmt: skip
    x = c.random("f32", (4, 6), "results")
    for label, (text, reference) in texts.items():
        for n, m in ((0, 2), (3, 0), (6, 4), (5, 3)):
            sizes = [np.asarray(n, np.int32), np.asarray(m, np.int32)]
            inputs = [x, *sizes] if "parameter(2)" in text else [x, sizes[0]]

            def run(v: c.Array, n: c.Array, m: c.Array | None = None, f: c.Reference = reference) -> object:
                return f(v, int(n), 0 if m is None else int(m))

            name = f"dynamic-result-{label}-{n}-{m}"
            yield Case(
                name,
                "set-dimension-size",
                "f32",
                c.module(text),
                inputs,
                reference=run,
                prefer_reference=True,
            )


def dynamic_windows() -> Iterator[Case]:
    """Padding, windows, slices, gathers, scatters and sorts of arrays with a dynamic dimension."""
    plus = c.combiner("plus", "add", "f32")
    less = c.computation(
        "less", "x = f32[] parameter(0)\ny = f32[] parameter(1)\nz = pred[] compare(x, y), direction=LT"
    )
    head = "p = f32[3,6] parameter(0)\nn = s32[] parameter(1)\nd = f32[3,<=6] set-dimension-size(p, n), dimensions={1}\n"
    head += "z = f32[] constant(7)\no = f32[] constant(0)\n"
    index = "i = s32[6] parameter(2)\nj = s32[<=6] set-dimension-size(i, n), dimensions={0}\n"

    def padded(low: int, high: int, inner: int) -> c.Reference:
        def run(v: c.Array, n: int, i: c.Array) -> c.Array:
            wide = np.full((3, max(0, n + max(0, n - 1) * inner)), 7, np.float32)
            wide[:, :: inner + 1] = v[:, :n]
            wide = wide[:, -low:] if low < 0 else np.pad(wide, ((0, 0), (low, 0)), constant_values=7)
            if high < 0:
                return wide[:, : max(0, wide.shape[1] + high)]
            return np.pad(wide, ((0, 0), (0, high)), constant_values=7)

        return run

    def windows(size: int, stride: int, pad: int) -> c.Reference:
        def run(v: c.Array, n: int, i: c.Array) -> c.Array:
            wide = np.pad(v[:, :n], ((0, 0), (pad, pad)))
            count = max(0, (wide.shape[1] - size) // stride + 1)
            sums = [wide[:, k * stride : k * stride + size].sum(1) for k in range(count)]
            return np.stack(sums, 1) if sums else np.zeros((3, 0), np.float32)

        return run

    def scattered(v: c.Array, n: int, i: c.Array) -> c.Array:
        out = v.copy()
        for k in range(n):
            if 0 <= i[k] < 6:
                out[:, i[k]] += v[:, k]
        return out

    texts: dict[str, tuple[str, c.Reference]] = {
        "sort": (
            "r = f32[3,<=6] sort(d), dimensions={0}, to_apply=less",
            lambda v, n, i: np.sort(v[:, :n], 0),
        ),
        "map": (
            "r = f32[3,<=6] map(d, d), dimensions={0,1}, to_apply=plus",
            lambda v, n, i: v[:, :n] + v[:, :n],
        ),
        "dynamic-slice": (
            "k = s32[] constant(1)\nl = s32[] constant(0)\nr = f32[2,<=6] dynamic-slice(d, k, l), dynamic_slice_sizes={2,6}",
            lambda v, n, i: v[1:3, :n],
        ),
        "dynamic-update-slice": (
            "k = s32[] constant(1)\nl = s32[] constant(0)\nu = f32[1,1] constant({{5}})\n"
            "s = f32[3,<=6] dynamic-update-slice(d, u, k, l)\nr = f32[3] reduce(s, o), dimensions={1}, to_apply=plus",
            lambda v, n, i: np.where((np.arange(3)[:, None] == 1) & (np.arange(6) == 0), np.float32(5), v)[
                :, :n
            ].sum(1, dtype=np.float32),
        ),
        "gather": (
            index
            + "r = f32[3,<=6] gather(p, j), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
            "index_vector_dim=1, slice_sizes={3,1}",
            lambda v, n, i: v[:, np.clip(i[:n], 0, 5)],
        ),
        "gather-rows": (
            "i = s32[6] parameter(2)\nr = f32[6,<=6] gather(d, i), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
            lambda v, n, i: v[np.clip(i, 0, 2), :n],
        ),
        "scatter": (
            index + "r = f32[3,6] scatter(p, j, d), update_window_dims={0}, inserted_window_dims={1}, "
            "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=plus",
            scattered,
        ),
    }
    for low, high, inner in ((1, 2, 0), (0, 1, 2), (-1, 1, 0), (2, -1, 1)):
        bound = 6 + 5 * inner + low + high
        text = f"r = f32[3,<={bound}] pad(d, z), padding=0_0x{low}_{high}_{inner}"
        texts[f"pad-{low}-{high}-{inner}"] = (text, padded(low, high, inner))
    for size, stride, pad in ((2, 1, 0), (3, 2, 1), (1, 1, 0)):
        bound = (6 + 2 * pad - size) // stride + 1
        more = f"window={{size=1x{size} stride=1x{stride} pad=0_0x{pad}_{pad}}}, to_apply=plus"
        texts[f"window-{size}-{stride}-{pad}"] = (
            f"r = f32[3,<={bound}] reduce-window(d, o), {more}",
            windows(size, stride, pad),
        )
    x = c.random("f32", (3, 6), "windows")
    at = np.array([4, -1, 0, 4, 7, 2], np.int32)
    for label, (text, reference) in texts.items():
        for n in (0, 1, 3, 6):
            # XLA clamps sizes below zero nowhere else either.
            if label == "pad--1-1-0" and n == 0:
                continue
            full = head + text
            inputs = [x, np.asarray(n, np.int32), *([at] if "parameter(2)" in full else [])]

            def run(v: c.Array, n: c.Array, i: c.Array = at, f: c.Reference = reference) -> object:
                return f(v, int(n), i)

            used = [s for name, s in (("plus", plus), ("less", less)) if f"={name}" in full]
            name = f"dynamic-{label}-{n}"
            text_of = c.module(full, *used)
            close = c.sums("f32", 4.0)
            yield Case(
                name,
                "set-dimension-size",
                "f32",
                text_of,
                inputs,
                close,
                reference=run,
                prefer_reference=True,
            )


def cases() -> Iterator[Case]:
    """All of them."""
    yield from static_results()
    yield from dynamic_results()
    yield from dynamic_windows()
    yield from differing_sizes()
    yield from moved_sizes()


def static_results() -> Iterator[Case]:
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


def differing_sizes() -> Iterator[Case]:
    """Elementwise operations on arrays of different sizes: 1 is repeated, else the smaller size counts."""
    plus = c.combiner("plus", "add", "f32")
    head = "p = f32[6,2] parameter(0)\nq = f32[6,2] parameter(1)\nn = s32[] parameter(2)\nm = s32[] parameter(3)\n"
    head += "d = f32[<=6,2] set-dimension-size(p, n), dimensions={0}\n"
    head += "e = f32[<=6,2] set-dimension-size(q, m), dimensions={0}\nz = f32[] constant(0)\n"
    tail = "s = f32[2] reduce(r, z), dimensions={0}, to_apply=plus\nk = s32[] get-dimension-size(r), dimensions={0}\n"
    tail += "t = (f32[2], s32[]) tuple(s, k)"

    def met(v: c.Array, w: c.Array, n: c.Array, m: c.Array) -> tuple[c.Array, c.Array]:
        v, w = v[: int(n)], w[: int(m)]
        if len(v) == 1 and len(w) > 1:
            v = np.repeat(v, len(w), 0)
        if len(w) == 1 and len(v) > 1:
            w = np.repeat(w, len(v), 0)
        size = min(len(v), len(w))
        return v[:size], w[:size]

    def summed(f: c.Reference) -> c.Reference:
        def run(v: c.Array, w: c.Array, n: c.Array, m: c.Array) -> object:
            a, b = met(v, w, n, m)
            values = f(a, b)
            return (values.sum(0, dtype=np.float32), np.int32(len(values)))

        return run

    texts = {
        "multiply": ("r = f32[<=6,2] multiply(d, e)\n", lambda a, b: a * b),
        "compare": (
            "g = pred[<=6,2] compare(d, e), direction=LT\nr = f32[<=6,2] convert(g)\n",
            lambda a, b: (a < b).astype(np.float32),
        ),
        "map": ("r = f32[<=6,2] map(d, e), dimensions={0,1}, to_apply=plus\n", lambda a, b: a + b),
        "static": ("r = f32[<=6,2] subtract(d, q)\n", None),
    }
    x, y = c.random("f32", (6, 2), "meet"), c.random("f32", (6, 2), "met")
    for label, (text, f) in texts.items():
        for n, m in ((1, 4), (4, 1), (0, 1), (1, 0), (5, 3), (6, 6), (1, 1)):
            run = summed(f) if f else (lambda v, w, n, m: ((v - w)[: int(n)].sum(0, dtype=np.float32), n))
            inputs = [x, y, np.asarray(n, np.int32), np.asarray(m, np.int32)]
            full = c.module(head + text + tail, plus)
            name = f"dynamic-meet-{label}-{n}-{m}"
            close = c.sums("f32", 4.0)
            yield Case(name, "set-dimension-size", "f32", full, inputs, close, reference=run)


def moved_sizes() -> Iterator[Case]:
    """Sorts along a dynamic dimension, parts, results of several arrays, updates and reshapes."""
    plus = c.combiner("plus", "add", "f32")
    less = c.computation(
        "less", "x = f32[] parameter(0)\ny = f32[] parameter(1)\nz = pred[] compare(x, y), direction=LT"
    )
    pairs = c.computation(
        "pairs",
        "x = f32[] parameter(0)\ny = f32[] parameter(1)\nv = s32[] parameter(2)\nw = s32[] parameter(3)\n"
        "z = pred[] compare(x, y), direction=GT",
    )
    both = c.computation(
        "both",
        "a = f32[] parameter(0)\nb = f32[] parameter(1)\nx = f32[] parameter(2)\ny = f32[] parameter(3)\n"
        "v = f32[] add(a, x)\nw = f32[] maximum(b, y)\nr = (f32[], f32[]) tuple(v, w)",
    )
    head = "p = f32[3,6] parameter(0)\nn = s32[] parameter(1)\nd = f32[3,<=6] set-dimension-size(p, n), dimensions={1}\n"
    head += "o = f32[] constant(0)\nk = s32[] constant(1)\nl = s32[] constant(2)\ni = s32[3,6] iota(), iota_dimension=1\n"

    def updated(v: c.Array, n: int) -> c.Array:
        out = v.copy()
        out[1, 2 : 2 + min(n, 4)] = v[0, : min(n, 4)]
        return out

    texts: dict[str, tuple[str, c.Reference]] = {
        "sort": ("r = f32[3,<=6] sort(d), dimensions={1}, to_apply=less", lambda v, n: np.sort(v[:, :n], 1)),
        "sort-pairs": (
            "s = (f32[3,<=6], s32[3,<=6]) sort(d, i), dimensions={1}, is_stable=true, to_apply=pairs\n"
            "r = s32[3,<=6] get-tuple-element(s), index=1",
            lambda v, n: np.argsort(-v[:, :n], 1, kind="stable").astype(np.int32),
        ),
        "part": ("r = f32[3,2] slice(d), slice={[0:3], [1:3]}", lambda v, n: v[:, 1:3]),
        "reduce-both": (
            "r = (f32[<=6], f32[<=6]) reduce(d, d, o, o), dimensions={0}, to_apply=both",
            lambda v, n: (v[:, :n].sum(0), np.maximum(v[:, :n].max(0, initial=0), 0)),
        ),
        "reduce-both-along": (
            "r = (f32[3], f32[3]) reduce(d, d, o, o), dimensions={1}, to_apply=both",
            lambda v, n: (v[:, :n].sum(1), np.maximum(v[:, :n].max(1, initial=0), 0)),
        ),
        "update": (
            "f = f32[1,4] slice(p), slice={[0:1], [0:4]}\nh = s32[] constant(4)\nm = s32[] minimum(n, h)\n"
            "u = f32[1,<=4] set-dimension-size(f, m), dimensions={1}\n"
            "r = f32[3,6] dynamic-update-slice(p, u, k, l)",
            updated,
        ),
        "flat": (
            "r = f32[<=18] reshape(d)",
            lambda v, n: v[:, :n].reshape(-1),
        ),
    }
    x = c.random("f32", (3, 6), "moved")
    for label, (text, reference) in texts.items():
        for n in (0, 1, 4, 6):
            if label == "part" and n < 3:
                continue
            full = head + text
            known = (("plus", plus), ("less", less), ("pairs", pairs), ("both", both))
            used = [s for name, s in known if f"={name}" in full]

            def run(v: c.Array, n: c.Array, f: c.Reference = reference) -> object:
                return f(v, int(n))

            inputs = [x, np.asarray(n, np.int32)]
            close = c.sums("f32", 4.0)
            name = f"dynamic-moved-{label}-{n}"
            yield Case(
                name,
                "set-dimension-size",
                "f32",
                c.module(full, *used),
                inputs,
                close,
                reference=run,
                prefer_reference=True,
            )
    head = "p = f32[6,4] parameter(0)\nn = s32[] parameter(1)\nm = s32[] parameter(2)\n"
    head += "d = f32[<=6,4] set-dimension-size(p, n), dimensions={0}\n"
    head += "e = f32[<=6,<=4] set-dimension-size(d, m), dimensions={1}\n"
    split = lambda v, n, m: v[: int(n), : int(m)].reshape(int(n) // 2, 2, int(m))
    y = c.random("f32", (6, 4), "split")
    for n, m in ((0, 4), (2, 3), (4, 0), (6, 4), (6, 1)):
        inputs = [y, np.asarray(n, np.int32), np.asarray(m, np.int32)]
        full = c.module(head + "r = f32[<=3,2,<=4] reshape(e)")
        name = f"dynamic-moved-split-{n}-{m}"
        yield Case(
            name, "set-dimension-size", "f32", full, inputs, reference=split, prefer_reference=True
        )
