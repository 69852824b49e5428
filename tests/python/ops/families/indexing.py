"""gather and scatter in full generality, checked against their definition written in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cases as c
import numpy as np
from cases import ALL, Case

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Gather:
    """Dimension numbers; `index_dims` is the shape of the indices, `vector` where a start vector lies in it."""

    operand: Ints
    index_dims: Ints
    vector: int
    offset: Ints
    collapsed: Ints
    start_map: Ints
    sizes: Ints
    operand_batch: Ints = ()
    index_batch: Ints = ()

    def window(self) -> Ints:
        """Slice sizes that stay."""
        gone = self.collapsed + self.operand_batch
        return tuple(n for k, n in enumerate(self.sizes) if k not in gone)

    def batch(self) -> Ints:
        """Index dimensions without the vector."""
        return tuple(n for k, n in enumerate(self.index_dims) if k != self.vector)

    def out(self) -> Ints:
        """Batch dimensions and window dimensions, woven by `offset`."""
        batch, window = iter(self.batch()), iter(self.window())
        rank = len(self.batch()) + len(self.window())
        return tuple(next(window) if k in self.offset else next(batch) for k in range(rank))

    def walk(self, indices: c.Array) -> Iterator[tuple[Ints, list[int]]]:
        """(place in the batch, unclamped start in the operand)."""
        moved = np.moveaxis(indices, self.vector, -1) if self.vector < indices.ndim else indices[..., None]
        for at in itertools.product(*map(range, self.batch())):
            start = [0] * len(self.operand)
            for k, d in enumerate(self.start_map):
                start[d] = int(moved[at][k])
            for d, b in zip(self.operand_batch, self.index_batch, strict=True):
                start[d] = at[b if b < self.vector else b - 1]
            yield at, start

    def place(self, at: Ints, offset: Ints) -> Ints:
        """The position in the gathered (or updates) array."""
        batch, window = iter(at), iter(offset)
        return tuple(next(window) if k in self.offset else next(batch) for k in range(len(at) + len(offset)))

    def offsets(self) -> Iterator[tuple[Ints, Ints]]:
        """(offset in the window, offset in the operand)."""
        gone = self.collapsed + self.operand_batch
        for o in itertools.product(*map(range, self.window())):
            rest = iter(o)
            yield o, tuple(0 if k in gone else next(rest) for k in range(len(self.operand)))

    def gather(self, x: c.Array, indices: c.Array) -> c.Array:
        """Starts are clamped."""
        out = np.zeros(self.out(), x.dtype)
        for at, start in self.walk(indices):
            start = [max(0, min(s, n - w)) for s, n, w in zip(start, self.operand, self.sizes, strict=True)]
            for o, full in self.offsets():
                out[self.place(at, o)] = x[tuple(s + d for s, d in zip(start, full, strict=True))]
        return out

    def scatter(self, x: c.Array, indices: c.Array, updates: c.Array, combine: Any) -> c.Array:
        """What falls outside is left out, a whole window at a time."""
        out = x.copy()
        for at, start in self.walk(indices):
            bounds = zip(start, self.operand, self.sizes, strict=True)
            if any(s < 0 or s + w > n for s, n, w in bounds):
                continue
            for o, full in self.offsets():
                where = tuple(s + d for s, d in zip(start, full, strict=True))
                out[where] = combine(out[where], updates[self.place(at, o)])
        return out

    def gather_attributes(self) -> str:
        """As HLO writes them."""
        more = ""
        if self.operand_batch:
            more = f"operand_batching_dims={{{c.csv(self.operand_batch)}}}, "
            more += f"start_indices_batching_dims={{{c.csv(self.index_batch)}}}, "
        return (
            f"offset_dims={{{c.csv(self.offset)}}}, collapsed_slice_dims={{{c.csv(self.collapsed)}}}, "
            f"start_index_map={{{c.csv(self.start_map)}}}, {more}index_vector_dim={self.vector}, "
            f"slice_sizes={{{c.csv(self.sizes)}}}"
        )

    def scatter_attributes(self) -> str:
        """The same numbers by scatter's names."""
        more = ""
        if self.operand_batch:
            more = f"input_batching_dims={{{c.csv(self.operand_batch)}}}, "
            more += f"scatter_indices_batching_dims={{{c.csv(self.index_batch)}}}, "
        return (
            f"update_window_dims={{{c.csv(self.offset)}}}, inserted_window_dims={{{c.csv(self.collapsed)}}}, "
            f"scatter_dims_to_operand_dims={{{c.csv(self.start_map)}}}, {more}index_vector_dim={self.vector}"
        )


FORMS = {
    "rows": Gather((5, 3), (4, 1), 1, (1,), (0,), (0,), (1, 3)),
    "rows-implicit": Gather((5, 3), (4,), 1, (1,), (0,), (0,), (1, 3)),
    "columns": Gather((5, 3), (4,), 1, (0,), (1,), (1,), (5, 1)),
    "scalar": Gather((7,), (4, 1), 1, (), (0,), (0,), (1,)),
    "one": Gather((7,), (1,), 0, (), (0,), (0,), (1,)),
    "slice": Gather((7,), (4, 1), 1, (1,), (), (0,), (3,)),
    "point": Gather((5, 6), (4, 2), 1, (), (0, 1), (0, 1), (1, 1)),
    "point-swapped": Gather((5, 6), (4, 2), 1, (), (0, 1), (1, 0), (1, 1)),
    "window": Gather((5, 6), (3, 2), 1, (1, 2), (), (0, 1), (2, 3)),
    "window-first": Gather((5, 6), (3, 2), 1, (0, 1), (), (0, 1), (2, 3)),
    "window-around": Gather((5, 6), (3, 2), 1, (0, 2), (), (0, 1), (2, 3)),
    "vector-first": Gather((5, 6), (2, 3), 0, (1,), (0,), (0, 1), (1, 2)),
    "batch-2": Gather((6, 4), (2, 3, 1), 2, (2,), (0,), (0,), (1, 4)),
    "partial": Gather((4, 5, 3), (3, 1), 1, (1, 2), (1,), (1,), (2, 1, 3)),
    "empty-index": Gather((5, 3), (0, 1), 1, (1,), (0,), (0,), (1, 3)),
    "empty-window": Gather((5, 3), (2, 1), 1, (1,), (0,), (0,), (1, 0)),
    "batching": Gather((3, 5), (3, 4, 1), 2, (), (1,), (1,), (1, 1), (0,), (0,)),
    "batching-window": Gather((3, 5, 4), (2, 3, 1), 2, (2,), (1,), (1,), (1, 1, 4), (0,), (1,)),
    "batching-2": Gather((2, 3, 5), (3, 2, 1), 2, (2,), (), (2,), (1, 1, 2), (0, 1), (1, 0)),
    "whole": Gather((3, 4), (0,), 0, (0, 1), (), (), (3, 4)),
}


def indices_for(form: Gather, dtype: str, outside: bool, *key: object) -> c.Array:
    """Inside the operand, or partly far outside."""
    stream = c.Stream("indices", dtype, outside, *key)
    moved = [n for k, n in enumerate(form.index_dims) if k != form.vector]
    parts = []
    for d in form.start_map:
        room = form.operand[d] - form.sizes[d] + 1
        if outside:
            low = -3 if dtype in c.SIGNED else 0
            parts.append(stream.integers(low, form.operand[d] + 4, moved))
        else:
            parts.append(stream.integers(0, room, moved))
    if form.vector == len(form.index_dims):
        return np.asarray(parts[0]).astype(c.np_dtype(dtype))
    if not parts:
        return np.zeros(form.index_dims, c.np_dtype(dtype))
    return np.asarray(np.stack(parts, axis=form.vector)).astype(c.np_dtype(dtype))


def gather_case(
    label: str, form: Gather, dtype: str, index: str, outside: bool, layout: bool = False
) -> Case:
    """One gather."""

    def text(on: bool) -> str:
        def lay(dims: Ints) -> Ints | None:
            return tuple(range(len(dims))) if on else None

        return c.module(
            f"p = {c.sh(dtype, form.operand, lay(form.operand))} parameter(0)\n"
            f"i = {c.sh(index, form.index_dims, lay(form.index_dims))} parameter(1)\n"
            f"r = {c.sh(dtype, form.out(), lay(form.out()))} gather(p, i), {form.gather_attributes()}"
        )

    inputs = [c.shaped(dtype, form.operand, label), indices_for(form, index, outside, label)]
    name = f"gather-{label}-{dtype}-{index}{'-outside' if outside else ''}{'-layout' if layout else ''}"
    return Case(name, "gather", dtype, text(layout), inputs, c.EXACT, text(False), form.gather)


def gathers() -> Iterator[Case]:
    """Forms × types × index types, inside and outside."""
    for label, form in FORMS.items():
        for dtype in ("f32", "s8", "bf16", "f64", "c64"):
            for outside in (False, True):
                yield gather_case(label, form, dtype, "s32", outside)
        for index in ("s64", "u32", "u8", "s8", "s16", "u64"):
            yield gather_case(label, form, "f32", index, True)
        yield gather_case(label, form, "f32", "s32", True, layout=True)
    for dtype in ALL:
        if dtype not in ("f32", "s8", "bf16", "f64", "c64"):
            yield gather_case("window", FORMS["window"], dtype, "s32", True)


COMBINE: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "replace": lambda a, b: b,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
ARITHMETIC = ("add", "multiply", "maximum", "minimum", "replace")


def scatter_case(
    label: str, form: Gather, op: str, dtype: str, index: str, outside: bool, extra: str = ""
) -> Case:
    """One scatter with one opcode as its combiner; `replace` keeps the update."""
    lines = f"x = {dtype}[] parameter(0)\ny = {dtype}[] parameter(1)\n"
    lines += "ROOT z = " + (f"{dtype}[] copy(y)" if op == "replace" else f"{dtype}[] {op}(x, y)")
    unique = op == "replace"
    where = indices_for(form, index, outside, label, "scatter")
    out = form.out()
    if unique:
        # The order of writes to one place is not promised: all of them write the same.
        updates = np.full(out, 2).astype(c.np_dtype(dtype))
    else:
        updates = c.random(dtype, out, label, "updates", scale=1.5)
    text = c.module(
        f"p = {c.sh(dtype, form.operand)} parameter(0)\ni = {c.sh(index, form.index_dims)} parameter(1)\n"
        f"u = {c.sh(dtype, out)} parameter(2)\n"
        f"r = {c.sh(dtype, form.operand)} scatter(p, i, u), {form.scatter_attributes()}{extra}, to_apply=f",
        c.computation("f", lines),
    )
    inputs = [c.random(dtype, form.operand, label), where, updates]
    close = c.EXACT if op in ("maximum", "minimum", "replace") else c.sums(dtype, 2.0)

    def reference(x: c.Array, i: c.Array, u: c.Array) -> c.Array:
        return form.scatter(x, i, u, COMBINE[op])

    name = f"scatter-{label}-{op}-{dtype}-{index}{'-outside' if outside else ''}{extra.replace(', ', '-')}"
    return Case(name, "scatter", dtype, text, inputs, close, reference=reference)


def scatters() -> Iterator[Case]:
    """Forms × combiners × types; several operands; odd combiners."""
    usable = {k: f for k, f in FORMS.items() if k != "empty-window"}
    # The whole operand as one window needs no start.
    for label, form in usable.items():
        for op in ARITHMETIC:
            for outside in (False, True):
                yield scatter_case(label, form, op, "f32", "s32", outside)
        for dtype in ("s32", "bf16", "f64"):
            yield scatter_case(label, form, "add", dtype, "s32", True)
        for index in ("s64", "u32", "s8", "u8"):
            yield scatter_case(label, form, "add", "f32", index, True)
    for dtype in (
        "s8",
        "u8",
        "s16",
        "u16",
        "u32",
        "s64",
        "u64",
        "f16",
        "c64",
        "c128",
        "f8e5m2",
        "f8e4m3fn",
        "s4",
    ):
        yield scatter_case("rows", FORMS["rows"], "add", dtype, "s32", True)
    for op in ("and", "or", "xor"):
        for dtype in ("s32", "u8", "pred"):
            yield scatter_case("rows", FORMS["rows"], op, dtype, "s32", True)
    base = scatter_case("rows", FORMS["rows"], "add", "f32", "s32", False, ", indices_are_sorted=true")
    order = np.sort(base.inputs[1], axis=0)
    yield replace(base, inputs=[base.inputs[0], order, base.inputs[2]])
    form = replace(FORMS["rows"], index_dims=(4, 1))
    base = scatter_case("rows", form, "multiply", "f32", "s32", False, ", unique_indices=true")
    yield replace(base, inputs=[base.inputs[0], np.array([[3], [0], [4], [1]], np.int32), base.inputs[2]])
    yield from several()


def several() -> Iterator[Case]:
    """Two operands of two types through one combiner; a combiner that weighs."""
    form = windows = FORMS["window"]
    out = form.out()
    lines = (
        "a = f32[] parameter(0)\nb = s32[] parameter(1)\nd = f32[] parameter(2)\ne = s32[] parameter(3)\n"
        "g = f32[] add(a, d)\nh = s32[] maximum(b, e)\nt = (f32[], s32[]) tuple(g, h)"
    )
    where = indices_for(form, "s32", True, "several")
    o, u = form.operand, out
    text = c.module(
        f"p = {c.sh('f32', o)} parameter(0)\nq = {c.sh('s32', o)} parameter(1)\n"
        f"i = {c.sh('s32', form.index_dims)} parameter(2)\nu = {c.sh('f32', u)} parameter(3)\n"
        f"v = {c.sh('s32', u)} parameter(4)\n"
        f"r = ({c.sh('f32', o)}, {c.sh('s32', o)}) scatter(p, q, i, u, v), {form.scatter_attributes()}, to_apply=f",
        c.computation("f", lines),
    )
    inputs = [c.random("f32", o), c.random("s32", o), where, c.random("f32", u), c.random("s32", u)]

    def both(p: c.Array, q: c.Array, i: c.Array, u: c.Array, v: c.Array) -> Any:
        return windows.scatter(p, i, u, COMBINE["add"]), windows.scatter(q, i, v, np.maximum)

    yield Case("scatter-two-operands", "scatter", "f32", text, inputs, c.sums("f32"), reference=both)
    form = FORMS["rows"]
    lines = (
        "x = f32[] parameter(0)\ny = f32[] parameter(1)\nk = f32[] constant(0.5)\na = f32[] multiply(y, k)\n"
        "z = f32[] add(x, a)"
    )
    text = c.module(
        f"p = f32[5,3] parameter(0)\ni = s32[4,1] parameter(1)\nu = f32[4,3] parameter(2)\n"
        f"r = f32[5,3] scatter(p, i, u), {form.scatter_attributes()}, to_apply=f",
        c.computation("f", lines),
    )
    inputs = [c.random("f32", (5, 3)), indices_for(form, "s32", False, "half"), c.random("f32", (4, 3))]

    def half(p: c.Array, i: c.Array, u: c.Array) -> c.Array:
        return form.scatter(p, i, u, lambda a, b: a + b / 2)

    yield Case("scatter-weighed", "scatter", "f32", text, inputs, c.sums("f32"), reference=half)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from gathers()
    yield from scatters()
