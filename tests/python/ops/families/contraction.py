"""dot, scaled-dot, ragged-dot and convolution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cases as c
import numpy as np
from cases import FLOATS, INTEGERS, Case

Layout = Sequence[int] | None


def scale_of(contracted: int, dtype: str) -> c.Tolerance:
    """Sums of products of values up to 3."""
    return c.sums(dtype, 2.0)


def accumulate(x: c.Array) -> c.Array:
    """Wide enough to hold sums."""
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    if x.dtype == np.float64:
        return x
    if c.HLO_NAME[x.dtype] in INTEGERS or x.dtype == bool:
        return x.astype(np.int64)
    return x.astype(np.float64)


@dataclass(frozen=True)
class Dot:
    """Dimension numbers of one dot."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()

    def out(self) -> tuple[int, ...]:
        """Batch, then what is left of lhs, then of rhs."""
        batch = [self.lhs[k] for k in self.lhs_batch]
        left = [n for k, n in enumerate(self.lhs) if k not in self.lhs_contract + self.lhs_batch]
        right = [n for k, n in enumerate(self.rhs) if k not in self.rhs_contract + self.rhs_batch]
        return (*batch, *left, *right)

    def attributes(self) -> str:
        """As HLO writes them."""
        parts = []
        if self.lhs_batch:
            parts += [f"lhs_batch_dims={{{c.csv(self.lhs_batch)}}}"]
        parts += [f"lhs_contracting_dims={{{c.csv(self.lhs_contract)}}}"]
        if self.rhs_batch:
            parts += [f"rhs_batch_dims={{{c.csv(self.rhs_batch)}}}"]
        parts += [f"rhs_contracting_dims={{{c.csv(self.rhs_contract)}}}"]
        return ", ".join(parts)

    def reference(self, out: str) -> c.Reference:
        """Through einsum."""
        letters = iter("abcdefghijklmnop")
        left = [next(letters) for _ in self.lhs]
        right = [next(letters) for _ in self.rhs]
        pairs = zip(self.lhs_contract + self.lhs_batch, self.rhs_contract + self.rhs_batch, strict=True)
        for a, b in pairs:
            right[b] = left[a]
        batch = [left[k] for k in self.lhs_batch]
        free = [s for k, s in enumerate(left) if k not in self.lhs_contract + self.lhs_batch]
        free += [s for k, s in enumerate(right) if k not in self.rhs_contract + self.rhs_batch]
        form = f"{''.join(left)},{''.join(right)}->{''.join(batch + free)}"
        kind = c.np_dtype(out)
        return lambda x, y: np.einsum(form, accumulate(x), accumulate(y)).astype(kind)


FORMS = {
    "mm": Dot((3, 5), (5, 4), (1,), (0,)),
    "mm-tn": Dot((5, 3), (5, 4), (0,), (0,)),
    "mm-nt": Dot((3, 5), (4, 5), (1,), (1,)),
    "mm-tt": Dot((5, 3), (4, 5), (0,), (1,)),
    "mv": Dot((3, 5), (5,), (1,), (0,)),
    "vm": Dot((5,), (5, 4), (0,), (0,)),
    "vv": Dot((5,), (5,), (0,), (0,)),
    "outer": Dot((3,), (4,), (), ()),
    "scalar": Dot((), (2, 3), (), ()),
    "batch": Dot((2, 3, 5), (2, 5, 4), (2,), (1,), (0,), (0,)),
    "batch-last": Dot((3, 5, 2), (5, 2, 4), (1,), (0,), (2,), (1,)),
    "batch-2": Dot((2, 3, 4, 5), (3, 2, 5, 2), (3,), (2,), (0, 1), (1, 0)),
    "batch-only": Dot((2, 3), (2, 3), (), (), (0, 1), (0, 1)),
    "batch-vv": Dot((4, 5), (4, 5), (1,), (1,), (0,), (0,)),
    "contract-2": Dot((2, 3, 5), (5, 3, 4), (1, 2), (1, 0)),
    "contract-all": Dot((2, 3), (3, 2), (0, 1), (1, 0)),
    "empty-k": Dot((3, 0), (0, 4), (1,), (0,)),
    "empty-m": Dot((0, 5), (5, 4), (1,), (0,)),
    "one": Dot((1, 1), (1, 1), (1,), (0,)),
    "odd": Dot((17, 33), (33, 9), (1,), (0,)),
    "tall": Dot((65, 3), (3, 1), (1,), (0,)),
    "free-3": Dot((2, 3, 4), (4, 2, 2), (2,), (0,)),
}


def dot_case(
    label: str, form: Dot, types: tuple[str, str, str], extra: str = "", layouts: bool = False
) -> Case:
    """One dot; with `layouts` all three are column-major."""
    a, b, out = types

    def text(on: bool) -> str:
        def lay(dims: Sequence[int]) -> Layout:
            return tuple(range(len(dims))) if on else None

        dims = form.out()
        return c.module(
            f"p = {c.sh(a, form.lhs, lay(form.lhs))} parameter(0)\nq = {c.sh(b, form.rhs, lay(form.rhs))} parameter(1)\n"
            f"r = {c.sh(out, dims, lay(dims))} dot(p, q), {form.attributes()}{extra}"
        )

    inputs = [c.random(a, form.lhs, label, 1), c.random(b, form.rhs, label, 2)]
    close = scale_of(math.prod(form.lhs), a if "bf16" in extra else out)
    if "bf16_bf16" in extra or "tf32" in extra:
        close = c.Tolerance(rel=2e-2)
    # i8 products wrap in the result type, as einsum in int64 then narrowing does.
    reference = form.reference(out)
    return Case(f"dot-{label}", "dot", out, text(layouts), inputs, close, text(False), reference)


def dots() -> Iterator[Case]:
    """Forms × types, preferred types, algorithms, layouts."""
    for label, form in FORMS.items():
        for dtype in ("f32", "f64", "bf16", "f16", "s32", "c64", "s8"):
            yield dot_case(f"{label}-{dtype}", form, (dtype, dtype, dtype))
        if len(form.lhs) + len(form.rhs) > 2:
            yield dot_case(f"{label}-layout", form, ("f32", "f32", "f32"), layouts=True)
    for dtype in [*INTEGERS, *FLOATS, "pred", "c128"]:
        if dtype not in ("f32", "f64", "bf16", "f16", "s32", "s8", "f8e8m0fnu", "f4e2m1fn"):
            yield dot_case(f"mm-{dtype}", FORMS["mm"], (dtype, dtype, dtype))
    wide = [
        ("bf16", "f32"),
        ("f16", "f32"),
        ("s8", "s32"),
        ("u8", "s32"),
        ("s4", "s32"),
        ("u8", "u32"),
        ("f32", "f64"),
    ]
    wide += [(t, "f32") for t in c.TINY_FLOATS if t not in ("f8e8m0fnu",)] + [
        ("f8e4m3fn", "bf16"),
        ("s16", "s32"),
    ]
    for narrow, out in wide:
        for label in ("mm", "batch", "vv"):
            yield dot_case(f"{label}-{narrow}-{out}", FORMS[label], (narrow, narrow, out))
    for a, b, out in (
        ("bf16", "f32", "f32"),
        ("f8e4m3fn", "f8e5m2", "f32"),
        ("s8", "u8", "s32"),
        ("s8", "bf16", "f32"),
    ):
        yield dot_case(f"mixed-{a}-{b}", FORMS["mm"], (a, b, out))
    algorithms = ["dot_f32_f32_f32", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6"]
    algorithms += ["dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_bf16_bf16_f32_x9"]
    for algorithm in algorithms:
        yield dot_case(
            f"algorithm-{algorithm}", FORMS["mm"], ("f32", "f32", "f32"), f", algorithm={algorithm}"
        )
    for precision in ("highest", "high", "default"):
        extra = f", operand_precision={{{precision},{precision}}}"
        yield dot_case(f"precision-{precision}", FORMS["mm"], ("f32", "f32", "f32"), extra)


def scaled() -> Iterator[Case]:
    """Operands times block scales, each scale repeated over its block; XLA:CPU's front door has no such operation."""
    forms: dict[str, tuple[Dot, tuple[int, ...], tuple[int, ...]]] = {
        "nt": (Dot((3, 32), (4, 32), (1,), (1,)), (3, 2), (4, 4)),
        "nn": (Dot((3, 32), (32, 4), (1,), (0,)), (3, 1), (2, 4)),
        "batch": (Dot((2, 3, 16), (2, 4, 16), (2,), (2,), (0,), (0,)), (2, 3, 2), (2, 4, 2)),
        "one-scale": (Dot((4, 4), (4, 4), (1,), (1,)), (1, 1), (1, 1)),
        "rows-too": (Dot((4, 16), (6, 16), (1,), (1,)), (2, 2), (3, 4)),
    }
    types = [("f8e4m3fn", "f8e8m0fnu", "f32"), ("f8e5m2", "f8e8m0fnu", "bf16"), ("bf16", "bf16", "bf16")]
    types += [("f4e2m1fn", "f8e4m3fn", "f32"), ("f4e2m1fn", "f8e8m0fnu", "f16")]
    for label, (form, left, right) in forms.items():
        for a, s, out in types:
            text = c.module(
                f"p = {c.sh(a, form.lhs)} parameter(0)\nq = {c.sh(a, form.rhs)} parameter(1)\n"
                f"s = {c.sh(s, left)} parameter(2)\nu = {c.sh(s, right)} parameter(3)\n"
                f"r = {c.sh(out, form.out())} scaled-dot(p, q, s, u), {form.attributes()}"
            )

            def reference(
                p: c.Array, q: c.Array, s: c.Array, u: c.Array, form: Dot = form, out: str = out
            ) -> c.Array:
                plain = form.reference(out)
                return np.asarray(plain(stretch(p, s), stretch(q, u)))

            inputs = [c.random(a, form.lhs, label, 1), c.random(a, form.rhs, label, 2)]
            inputs += [np.abs(c.random(s, left, label, 3)), np.abs(c.random(s, right, label, 4))]
            close = c.Tolerance(rel=2e-2, zero_sign=False)
            name = f"scaled-dot-{label}-{a}-{s}-{out}"
            case = Case(
                name, "scaled-dot", out, text, inputs, close, reference=reference, prefer_reference=True
            )
            yield case


def stretch(x: c.Array, scale: c.Array) -> c.Array:
    """x times its scale, repeated to x's shape."""
    wide = scale.astype(np.float64)
    for axis, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True)):
        wide = np.repeat(wide, n // m, axis)
    return x.astype(np.float64) * wide


def ragged() -> Iterator[Case]:
    """Ragged rows and ragged contraction, with empty groups."""
    sizes = [np.array(v, np.int32) for v in ([2, 3, 1], [0, 6, 0], [1, 1, 1], [0, 0, 0])]
    for dtype in ("f32", "bf16", "f64"):
        for n, groups in enumerate(sizes):
            x, w = c.random(dtype, (6, 4), n), c.random(dtype, (3, 4, 5), n)
            text = c.module(
                f"p = {dtype}[6,4] parameter(0)\nq = {dtype}[3,4,5] parameter(1)\ng = s32[3] parameter(2)\n"
                f"r = {dtype}[6,5] ragged-dot(p, q, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, "
                "lhs_ragged_dims={0}, rhs_group_dims={0}"
            )

            def rows(x: c.Array, w: c.Array, g: c.Array, t: str = dtype) -> c.Array:
                out = np.zeros((6, 5))
                ends = np.cumsum(g)
                for k, (a, b) in enumerate(zip(ends - g, ends, strict=True)):
                    out[a:b] = accumulate(x)[a:b] @ accumulate(w)[k]
                return out.astype(c.np_dtype(t))

            inputs = [x, w, groups]
            close = c.sums(dtype)
            yield Case(
                f"ragged-dot-rows-{dtype}-{n}", "ragged-dot", dtype, text, inputs, close, reference=rows
            )
            y = c.random(dtype, (6, 5), n)
            text = c.module(
                f"p = {dtype}[6,4] parameter(0)\nq = {dtype}[6,5] parameter(1)\ng = s32[3] parameter(2)\n"
                f"r = {dtype}[3,4,5] ragged-dot(p, q, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, "
                "lhs_ragged_dims={0}"
            )

            def inner(x: c.Array, y: c.Array, g: c.Array, t: str = dtype) -> c.Array:
                ends = np.cumsum(g)
                parts = [
                    accumulate(x)[a:b].T @ accumulate(y)[a:b] for a, b in zip(ends - g, ends, strict=True)
                ]
                return np.stack(parts).astype(c.np_dtype(t))

            inputs = [x, y, groups]
            yield Case(
                f"ragged-dot-contract-{dtype}-{n}", "ragged-dot", dtype, text, inputs, close, reference=inner
            )


@dataclass(frozen=True)
class Window:
    """One spatial dimension of a convolution."""

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    lhs_dilate: int = 1
    rhs_dilate: int = 1
    reversal: int = 0

    def out(self, n: int) -> int:
        """Positions the window takes over n elements."""
        padded = (0 if n == 0 else (n - 1) * self.lhs_dilate + 1) + self.low + self.high
        reach = (self.size - 1) * self.rhs_dilate + 1
        return 0 if padded < reach else (padded - reach) // self.stride + 1


def window_text(ws: Sequence[Window]) -> str:
    """window={size=3x3 pad=1_1x0_0 …}"""
    parts = ["size=" + "x".join(str(w.size) for w in ws)]
    if any(w.stride != 1 for w in ws):
        parts.append("stride=" + "x".join(str(w.stride) for w in ws))
    if any(w.low or w.high for w in ws):
        parts.append("pad=" + "x".join(f"{w.low}_{w.high}" for w in ws))
    for key, name in (("lhs_dilate", "lhs_dilate"), ("rhs_dilate", "rhs_dilate")):
        if any(getattr(w, key) != 1 for w in ws):
            parts.append(f"{name}=" + "x".join(str(getattr(w, key)) for w in ws))
    if any(w.reversal for w in ws):
        parts.append("rhs_reversal=" + "x".join(str(w.reversal) for w in ws))
    return "window={" + " ".join(parts) + "}"


@dataclass(frozen=True)
class Convolution:
    """Sizes in logical order (batch, feature, spatial…); labels say where each dimension lies."""

    labels: str
    batch: int
    features: int
    spatial: tuple[int, ...]
    outputs: int
    windows: tuple[Window, ...]
    groups: int = 1
    batch_groups: int = 1

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """lhs, rhs, out."""
        left, right, out = self.labels.replace("->", "_").split("_")
        positions = [w.out(n) for w, n in zip(self.windows, self.spatial, strict=True)]
        sizes = {"b": self.batch, "f": self.features, **{str(k): n for k, n in enumerate(self.spatial)}}
        kernel = {"i": self.features // self.groups, "o": self.outputs}
        kernel |= {str(k): w.size for k, w in enumerate(self.windows)}
        result = {"b": self.batch // self.batch_groups, "f": self.outputs}
        result |= {str(k): n for k, n in enumerate(positions)}
        return (
            tuple(sizes[s] for s in left),
            tuple(kernel[s] for s in right),
            tuple(result[s] for s in out),
        )

    def reference(self, dtype: str) -> c.Reference:
        """By definition, one product at a time over kernel positions."""

        def run(x: c.Array, k: c.Array) -> c.Array:
            left, right, out = self.labels.replace("->", "_").split("_")
            axes = [str(n) for n in range(len(self.spatial))]
            x = np.transpose(accumulate(x), [left.index(s) for s in ["b", "f", *axes]])
            k = np.transpose(accumulate(k), [right.index(s) for s in ["o", "i", *axes]])
            positions = [w.out(n) for w, n in zip(self.windows, self.spatial, strict=True)]
            per = self.batch // self.batch_groups
            y = np.zeros((per, self.outputs, *positions), dtype=x.dtype)
            inner = self.features // self.groups
            for at in itertools.product(*map(range, positions)):
                for tap in itertools.product(*(range(w.size) for w in self.windows)):
                    where = []
                    for w, n, p, t in zip(self.windows, self.spatial, at, tap, strict=True):
                        q = p * w.stride + t * w.rhs_dilate - w.low
                        where.append(
                            q // w.lhs_dilate if q % w.lhs_dilate == 0 and 0 <= q // w.lhs_dilate < n else -1
                        )
                    if min(where, default=0) < 0:
                        continue
                    flip = tuple(
                        w.size - 1 - t if w.reversal else t for w, t in zip(self.windows, tap, strict=True)
                    )
                    for o in range(self.outputs):
                        g = o // (self.outputs // self.groups)
                        b = o // (self.outputs // self.batch_groups)
                        rows = x[(slice(b * per, (b + 1) * per), slice(g * inner, (g + 1) * inner), *where)]
                        y[(slice(None), o, *at)] += rows @ k[(o, slice(None), *flip)]
            order = ["b", "f", *axes]
            return np.transpose(y, [order.index(s) for s in out]).astype(c.np_dtype(dtype))

        return run

    def case(self, label: str, dtype: str, layouts: bool = False, out: str = "") -> Case:
        """One convolution; with `layouts` all three shapes are stored in the reverse order."""
        lhs, rhs, result = self.shapes()
        out = out or dtype

        def text(on: bool) -> str:
            def lay(dims: Sequence[int]) -> Layout:
                return tuple(range(len(dims))) if on else None

            parts = [window_text(self.windows)] if self.windows else []
            parts.append(f"dim_labels={self.labels}")
            if self.groups != 1:
                parts.append(f"feature_group_count={self.groups}")
            if self.batch_groups != 1:
                parts.append(f"batch_group_count={self.batch_groups}")
            return c.module(
                f"p = {c.sh(dtype, lhs, lay(lhs))} parameter(0)\nq = {c.sh(dtype, rhs, lay(rhs))} parameter(1)\n"
                f"r = {c.sh(out, result, lay(result))} convolution(p, q), {', '.join(parts)}"
            )

        inputs = [c.random(dtype, lhs, label, 1), c.random(dtype, rhs, label, 2)]
        close = c.sums(out, 4.0)
        name = f"convolution-{label}-{dtype}"
        return Case(name, "convolution", out, text(layouts), inputs, close, text(False), self.reference(out))


W = Window
CONVOLUTIONS = {
    "1d": Convolution("b0f_0io->b0f", 2, 3, (7,), 4, (W(3),)),
    "1d-nch": Convolution("bf0_oi0->bf0", 2, 3, (7,), 4, (W(3, 2, 1, 1),)),
    "1x1": Convolution("b01f_01io->b01f", 2, 3, (4, 5), 4, (W(1), W(1))),
    "same": Convolution("b01f_01io->b01f", 2, 3, (4, 5), 4, (W(3, 1, 1, 1), W(3, 1, 1, 1))),
    "nchw": Convolution("bf01_oi01->bf01", 2, 3, (4, 5), 4, (W(3, 1, 1, 1), W(2, 1, 0, 1))),
    "stride": Convolution("b01f_01io->b01f", 1, 2, (7, 6), 3, (W(3, 2), W(2, 3))),
    "transposed": Convolution("b01f_01io->b01f", 1, 2, (3, 4), 3, (W(3, 1, 2, 2, 2), W(2, 1, 1, 1, 3))),
    "dilated": Convolution("b01f_01io->b01f", 1, 2, (7, 8), 3, (W(3, 1, 2, 2, 1, 2), W(2, 2, 0, 0, 1, 3))),
    "negative-pad": Convolution("b01f_01io->b01f", 1, 2, (7, 6), 3, (W(3, 1, -1, 0), W(2, 1, 1, -2))),
    "reversal": Convolution("b01f_01io->b01f", 1, 2, (5, 6), 3, (W(3, reversal=1), W(2, reversal=1))),
    "reversal-one": Convolution("b01f_01io->b01f", 1, 2, (5, 6), 3, (W(3, reversal=1), W(2, 1, 1, 0))),
    "backward-input": Convolution(
        "b01f_01oi->b01f", 2, 4, (3, 3), 2, (W(3, 1, 2, 2, 2, 1, 1), W(3, 1, 2, 2, 2, 1, 1))
    ),
    "backward-filter": Convolution("f01b_i01o->01bf", 3, 2, (6, 5), 4, (W(4), W(3))),
    "grouped": Convolution("b01f_01io->b01f", 2, 6, (4, 4), 9, (W(2), W(3, 1, 1, 1)), 3),
    "depthwise": Convolution("b01f_01io->b01f", 2, 4, (5, 4), 8, (W(3, 1, 1, 1), W(3, 1, 1, 1)), 4),
    "depthwise-1d": Convolution("b0f_0io->b0f", 2, 5, (9,), 5, (W(4, 1, 3, 0),), 5),
    "batch-grouped": Convolution("b01f_01io->b01f", 6, 2, (4, 4), 9, (W(2), W(2)), 1, 3),
    "batch-grouped-nchw": Convolution("fb01_io01->bf01", 4, 3, (5, 4), 4, (W(3, 1, 1, 1), W(2)), 1, 4),
    "3d": Convolution("b012f_012io->b012f", 1, 2, (4, 3, 5), 3, (W(2), W(3, 1, 1, 1), W(2, 2))),
    "3d-ncdhw": Convolution(
        "bf012_oi012->bf012", 2, 2, (3, 4, 3), 2, (W(2, 1, 1, 0), W(2, 1, 0, 0, 2), W(1))
    ),
    "0d": Convolution("bf_io->bf", 3, 4, (), 5, ()),
    "odd-labels": Convolution("0fb1_1o0i->f1b0", 2, 3, (5, 4), 4, (W(2), W(3, 1, 1, 1))),
    "empty": Convolution("b0f_0io->b0f", 0, 3, (7,), 4, (W(3),)),
    "window-larger": Convolution("b0f_0io->b0f", 1, 2, (2,), 2, (W(5),)),
    "all-padding": Convolution("b0f_0io->b0f", 1, 2, (1,), 2, (W(2, 3, 4, 4, 1, 2),)),
}


def random_convolution(n: int) -> Convolution:
    """Everything at once."""
    stream = c.Stream("convolution", n)
    rank = int(stream.integers(1, 4))
    axes = [str(k) for k in range(rank)]

    def shuffled(extra: list[str]) -> str:
        names = extra + axes
        return "".join(names[k] for k in stream.permutation(len(names)))

    labels = f"{shuffled(['b', 'f'])}_{shuffled(['i', 'o'])}->{shuffled(['b', 'f'])}"
    form = stream.integers(0, 4)
    groups = int(stream.integers(2, 4)) if form == 1 else 1
    batch_groups = int(stream.integers(2, 4)) if form == 2 else 1
    size = 7 if rank == 1 else 5 if rank == 2 else 4
    spatial, windows = [], []
    for _ in range(rank):
        spatial.append(int(stream.integers(2, size)))
        low, high, left, right = (int(v) for v in stream.integers([-1, -1, 1, 1], [4, 4, 3, 3]))
        windows.append(
            W(
                int(stream.integers(1, 4)),
                int(stream.integers(1, 3)),
                low,
                high,
                left,
                right,
                int(stream.integers(0, 4) == 0),
            )
        )
    features, outputs, batch = (
        groups * int(stream.integers(1, 3)),
        groups * batch_groups * int(stream.integers(1, 3)),
        batch_groups * 2,
    )
    return Convolution(labels, batch, features, tuple(spatial), outputs, tuple(windows), groups, batch_groups)


def convolutions() -> Iterator[Case]:
    """The table in several types and layouts, then random ones."""
    for label, form in CONVOLUTIONS.items():
        for dtype in ("f32", "bf16", "f64"):
            yield form.case(label, dtype)
        yield form.case(f"{label}-layout", "f32", layouts=True)
    for label in ("1d", "same", "grouped", "batch-grouped", "dilated"):
        for dtype in ("f16", "s32", "s8", "c64", "u8", "f8e4m3fn", "f8e5m2", "c128"):
            yield CONVOLUTIONS[label].case(label, dtype)
        for narrow, out in (("bf16", "f32"), ("s8", "s32"), ("f16", "f32")):
            yield CONVOLUTIONS[label].case(f"{label}-to-{out}", narrow, out=out)
    for n in range(80):
        yield random_convolution(n).case(f"random-{n}", "f32")


def cases() -> Iterator[Case]:
    """All of them."""
    yield from dots()
    yield from scaled()
    yield from ragged()
    yield from convolutions()


__all__: list[Any] = ["Window", "cases", "window_text"]
