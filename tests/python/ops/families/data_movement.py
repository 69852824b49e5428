"""What moves data and computes nothing: pad, slices, reverse, concatenate, iota, transpose, reshape, broadcast, copy,
and bitcast, whose meaning is its layouts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cases as c
import numpy as np
from cases import ALL, COMMON, Case

Layout = Sequence[int] | None


def one(name: str, opcode: str, dtype: str, text: str, inputs: list[c.Array], **more: Any) -> Case:
    """An exact case."""
    return Case(name, opcode, dtype, text, inputs, **more)


def simple(
    opcode: str,
    label: str,
    dtype: str,
    dims: Sequence[int],
    out: Sequence[int],
    attributes: str,
    layouts: tuple[Layout, Layout] = (None, None),
    reference: c.Reference | None = None,
) -> Case:
    """One operand, one result, attributes."""

    def text(a: Layout, b: Layout) -> str:
        line = f"r = {c.sh(dtype, out, b)} {opcode}(p){attributes}"
        return c.module(f"p = {c.sh(dtype, dims, a)} parameter(0)\n{line}")

    x = c.shaped(dtype, dims, opcode, label)
    name = f"{opcode}-{label}-{c.sh(dtype, dims, layouts[0])}"
    plain = text(None, None) if layouts != (None, None) else None
    return one(name, opcode, dtype, text(*layouts), [x], oracle_text=plain, reference=reference)


def orders(rank: int) -> list[Layout]:
    """No layout, and one that is not the default."""
    return [None] if rank < 2 else [None, tuple(range(rank))]


def pad() -> Iterator[Case]:
    """Low, high, interior; negative trims."""
    configs: list[tuple[tuple[int, ...], str, tuple[int, ...]]] = [
        ((5,), "1_2", (8,)),
        ((5,), "0_0_1", (9,)),
        ((5,), "-1_2", (6,)),
        ((5,), "-2_-2", (1,)),
        ((5,), "-3_4_2", (14,)),
        ((5,), "-5_0", (0,)),
        ((0,), "2_1", (3,)),
        ((1,), "0_0_5", (1,)),
        ((3, 4), "1_0x0_2", (4, 6)),
        ((3, 4), "2_-1_1x-1_-1_2", (6, 8)),
        ((2, 3, 2), "0_1x-1_0_1x3_0", (3, 4, 5)),
    ]
    for dims, config, out in configs:
        for dtype in COMMON if dims == (5,) and config == "-3_4_2" else ["f32", "s32"]:
            for layout in orders(len(dims)):

                def text(
                    lay: Layout, dims: Any = dims, out: Any = out, config: str = config, t: str = dtype
                ) -> str:
                    line = f"r = {c.sh(t, out, lay)} pad(p, v), padding={config}"
                    return c.module(
                        f"p = {c.sh(t, dims, lay)} parameter(0)\nv = {c.sh(t)} parameter(1)\n{line}"
                    )

                inputs = [c.shaped(dtype, dims, "pad"), c.random(dtype, (), "value")]
                name = f"pad-{config}-{c.sh(dtype, dims, layout)}"
                yield one(name, "pad", dtype, text(layout), inputs, oracle_text=text(None))


def slices() -> Iterator[Case]:
    """Static starts, limits and strides."""
    configs: list[tuple[tuple[int, ...], str, tuple[int, ...]]] = [
        ((7,), "[2:5]", (3,)),
        ((7,), "[0:7:3]", (3,)),
        ((7,), "[1:6:2]", (3,)),
        ((7,), "[3:3]", (0,)),
        ((0,), "[0:0]", (0,)),
        ((4, 6), "[1:3], [0:6:5]", (2, 2)),
        ((4, 6), "[0:4:2], [1:6:2]", (2, 3)),
        ((3, 4, 5), "[2:3], [0:4:3], [1:5:2]", (1, 2, 2)),
    ]
    for dims, config, out in configs:
        for dtype in ALL if config == "[1:6:2]" else ["f32", "s32", "bf16"]:
            for layout in orders(len(dims)):
                attributes = ", slice={" + config + "}"
                label = config.replace(" ", "")
                yield simple("slice", label, dtype, dims, out, attributes, (layout, layout))


def dynamic_slices() -> Iterator[Case]:
    """Starts far outside are clamped; any integer type; update in place and not."""
    configs = [
        ((9,), (4,)),
        ((5, 6), (2, 6)),
        ((5, 6), (3, 2)),
        ((3, 4, 5), (1, 4, 2)),
        ((4,), (4,)),
        ((3, 2), (0, 2)),
    ]
    starts = [0, 1, 2, -1, -100, 100, 3]
    for dims, size in configs:
        for n, first in enumerate(starts):
            index_type = ["s32", "s64", "u32", "s8", "u8", "s16", "u64"][n]
            if first < 0 and index_type[0] == "u":
                continue
            for dtype in COMMON if (dims, first) == ((5, 6), 100) else ["f32"]:
                rank = len(dims)
                at = [(first + k) if abs(first) < 100 else first for k in range(rank)]
                indices = [np.asarray(v).astype(c.np_dtype(index_type)) for v in at]
                names = ", ".join(f"i{k}" for k in range(rank))

                def lines(offset: int, rank: int = rank, t: str = index_type) -> str:
                    return "\n".join(f"i{k} = {t}[] parameter({offset + k})" for k in range(rank))

                x, u = c.shaped(dtype, dims, "dynamic"), c.shaped(dtype, size, "update")
                text = c.module(
                    f"p = {c.sh(dtype, dims)} parameter(0)\n{lines(1)}\n"
                    f"r = {c.sh(dtype, size)} dynamic-slice(p, {names}), dynamic_slice_sizes={{{c.csv(size)}}}"
                )
                tail = f"{c.sh(dtype, dims)}-{c.csv(size)}-{first}"
                yield one(f"dynamic-slice-{tail}", "dynamic-slice", dtype, text, [x, *indices])
                text = c.module(
                    f"p = {c.sh(dtype, dims)} parameter(0)\nu = {c.sh(dtype, size)} parameter(1)\n{lines(2)}\n"
                    f"r = {c.sh(dtype, dims)} dynamic-update-slice(p, u, {names})"
                )
                yield one(
                    f"dynamic-update-slice-{tail}", "dynamic-update-slice", dtype, text, [x, u, *indices]
                )
                if rank == 1:
                    continue
                old = f"i = {index_type}[{rank}] parameter(1)"
                text = c.module(
                    f"p = {c.sh(dtype, dims)} parameter(0)\n{old}\n"
                    f"r = {c.sh(dtype, size)} dynamic-slice(p, i), dynamic_slice_sizes={{{c.csv(size)}}}"
                )
                wanted = [max(0, min(v, d - s)) for v, d, s in zip(at, dims, size, strict=True)]
                where = tuple(slice(v, v + s) for v, s in zip(wanted, size, strict=True))
                # One vector of starts: what dumps of 2019 hold and XLA:CPU no longer takes.
                yield one(
                    f"dynamic-slice-vector-{tail}",
                    "dynamic-slice",
                    dtype,
                    text,
                    [x, np.stack(indices)],
                    reference=lambda v, _, where=where: v[where],
                    prefer_reference=True,
                )


def reverse_transpose() -> Iterator[Case]:
    """Every type once, several shapes and layouts."""
    for dtype in ALL:
        yield simple("reverse", "0", dtype, (6, 3), (6, 3), ", dimensions={0}")
        yield simple("transpose", "10", dtype, (6, 3), (3, 6), ", dimensions={1,0}", reference=np.transpose)
    for dims, axes in (
        ((7,), "0"),
        ((3, 4), "0,1"),
        ((2, 3, 4), "1"),
        ((2, 3, 4), "0,2"),
        ((0, 3), "1"),
        ((3,), ""),
    ):
        for layout in orders(len(dims)):
            label = axes.replace(",", "") or "none"
            yield simple("reverse", label, "s32", dims, dims, f", dimensions={{{axes}}}", (layout, layout))
    for dims, perm in (
        ((2, 3, 4), (2, 0, 1)),
        ((2, 3, 4), (1, 2, 0)),
        ((2, 3, 4), (0, 2, 1)),
        ((2, 3, 4, 5), (3, 1, 0, 2)),
        ((3, 0, 2), (1, 2, 0)),
        ((17, 33), (1, 0)),
        ((5,), (0,)),
        ((2, 2, 2, 2, 2), (4, 2, 0, 3, 1)),
    ):
        out = tuple(dims[k] for k in perm)
        forms: list[tuple[Layout, Layout]] = [(a, b) for a in orders(len(dims)) for b in orders(len(out))]
        for n, layouts in enumerate(forms):
            label = f"{c.csv(perm)}-{n}"
            yield simple("transpose", label, "f32", dims, out, f", dimensions={{{c.csv(perm)}}}", layouts)


def reshape_broadcast() -> Iterator[Case]:
    """Reshape keeps logical order whatever the layouts; broadcast maps dimensions, also out of order."""
    for dtype in ALL:
        yield simple("reshape", "flat", dtype, (4, 3), (12,), "", reference=lambda v: v.reshape(12))
        yield simple("broadcast", "scalar", dtype, (), (2, 3), ", dimensions={}")
        yield simple("broadcast", "row", dtype, (3,), (2, 3), ", dimensions={1}")
        yield simple("copy", "plain", dtype, (4, 3), (4, 3), "", reference=np.copy)
    for dims, out in (
        ((12,), (3, 4)),
        ((2, 3, 4), (4, 6)),
        ((6, 4), (2, 3, 2, 2)),
        ((1, 1), ()),
        ((0, 3), (5, 0)),
    ):
        forms: list[tuple[Layout, Layout]] = [(a, b) for a in orders(len(dims)) for b in orders(len(out))]
        for n, layouts in enumerate(forms):
            yield simple("reshape", f"{c.csv(out)}-{n}", "f32", dims, out, "", layouts)
    for dims, out, at in (
        ((3,), (3, 2), "0"),
        ((2, 3), (2, 4, 3), "0,2"),
        ((2, 3), (3, 2), "1,0"),
        ((2, 3, 4), (4, 2, 5, 3), "1,3,0"),
        ((3,), (0, 3), "1"),
        ((5,), (5,), "0"),
        ((1,), (1, 4), "0"),
    ):
        forms = [(a, b) for a in orders(len(dims)) for b in orders(len(out))]
        for n, layouts in enumerate(forms):
            label = f"{at}-{c.csv(out)}-{n}"
            yield simple("broadcast", label, "f32", dims, out, f", dimensions={{{at}}}", layouts)
    for dims in ((2, 3), (2, 3, 4), (3, 0)):
        for a in orders(len(dims)):
            for b in orders(len(dims)):
                if a != b:
                    label = "to-default" if b is None else "from-default"
                    yield simple("copy", label, "bf16", dims, dims, "", (a, b), np.copy)


def concatenate_iota() -> Iterator[Case]:
    """One, two and several operands; iota in every type and dimension."""
    for dtype in ALL:
        x, y = c.shaped(dtype, (2, 3), 1), c.shaped(dtype, (2, 2), 2)
        text = c.module(
            f"p = {c.sh(dtype, (2, 3))} parameter(0)\nq = {c.sh(dtype, (2, 2))} parameter(1)\n"
            f"r = {c.sh(dtype, (2, 5))} concatenate(p, q), dimensions={{1}}"
        )
        both = lambda a, b: np.concatenate([a, b], axis=1)
        yield one(f"concatenate-{dtype}", "concatenate", dtype, text, [x, y], reference=both)
        if dtype not in ("pred", "s2", "u2", "f8e8m0fnu"):
            for dims, axis in (((5,), 0), ((2, 4), 1), ((3, 2, 2), 0)):
                text = c.module(f"r = {c.sh(dtype, dims)} iota(), iota_dimension={axis}")
                yield one(f"iota-{axis}-{c.sh(dtype, dims)}", "iota", dtype, text, [])
    for dims, axis in (((0,), 0), ((3, 0), 0), ((300,), 0), ((7, 1), 1)):
        for dtype in ("f32", "s8", "u8", "bf16"):
            text = c.module(f"r = {c.sh(dtype, dims)} iota(), iota_dimension={axis}")
            yield one(f"iota-{axis}-{c.sh(dtype, dims)}", "iota", dtype, text, [])
    for sizes, axis in (([1], 0), ([0, 3], 0), ([2, 0, 1, 4], 1), ([3, 3, 3], 2)):
        rank = axis + 1
        shapes = [(2,) * axis + (n,) for n in sizes]
        out = (2,) * axis + (sum(sizes),)
        for layout in orders(rank):

            def text_of(lay: Layout, shapes: Any = shapes, out: Any = out, axis: int = axis) -> str:
                rows = [f"p{k} = {c.sh('f32', s, lay)} parameter({k})" for k, s in enumerate(shapes)]
                names = ", ".join(f"p{k}" for k in range(len(shapes)))
                rows.append(f"r = {c.sh('f32', out, lay)} concatenate({names}), dimensions={{{axis}}}")
                return c.module("\n".join(rows))

            inputs = [c.shaped("f32", s, k) for k, s in enumerate(shapes)]
            name = f"concatenate-{len(sizes)}-{c.sh('f32', out, layout)}"
            yield one(name, "concatenate", "f32", text_of(layout), inputs, oracle_text=text_of(None))


def physical(x: c.Array, layout: Sequence[int]) -> c.Array:
    """The elements in memory order: the layout lists dimensions from the fastest."""
    return np.transpose(x, tuple(reversed(layout))).reshape(-1)


def logical(flat: c.Array, dims: Sequence[int], layout: Sequence[int]) -> c.Array:
    """Back from memory order."""
    slow_first = tuple(reversed(layout))
    return np.transpose(
        flat.reshape([dims[k] for k in slow_first]), tuple(int(k) for k in np.argsort(slow_first))
    )


def bitcast() -> Iterator[Case]:
    """Memory order is kept. XLA:CPU takes no bitcast before layout assignment, so NumPy says what is right."""
    forms: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3), (1, 0), (3, 2), (1, 0)),
        ((2, 3), (0, 1), (3, 2), (1, 0)),
        ((2, 3), (1, 0), (3, 2), (0, 1)),
        ((2, 3), (0, 1), (6,), (0,)),
        ((6,), (0,), (2, 3), (0, 1)),
        ((2, 3, 4), (2, 1, 0), (6, 4), (1, 0)),
        ((2, 3, 4), (0, 2, 1), (4, 6), (0, 1)),
        ((2, 3, 4), (1, 0, 2), (4, 2, 3), (2, 0, 1)),
        ((1, 5, 1), (2, 1, 0), (5,), (0,)),
        ((1, 1), (0, 1), (), ()),
        ((0, 3), (1, 0), (3, 0), (0, 1)),
    ]
    for dims, a, out, b in forms:
        for dtype in ALL if (dims, a, out) == ((2, 3), (0, 1), (6,)) else ["f32", "s8", "bf16"]:
            text = c.module(f"p = {c.sh(dtype, dims, a)} parameter(0)\nr = {c.sh(dtype, out, b)} bitcast(p)")

            def run(x: c.Array, a: Any = a, out: Any = out, b: Any = b) -> c.Array:
                return logical(physical(x, a), out, b)

            name = f"bitcast-{c.sh(dtype, dims, a)}-{c.sh(dtype, out, b)}"
            x = c.shaped(dtype, dims, "bitcast")
            yield one(name, "bitcast", dtype, text, [x], reference=run, prefer_reference=True)
    text = c.module(
        "p = f32[2,3]{1,0} parameter(0)\na = f32[2,3]{0,1} add(p, p)\nb = f32[3,2]{1,0} bitcast(a)\n"
        "c = f32[3,2]{0,1} copy(b)\nd = f32[6]{0} bitcast(c)\nr = f32[6]{0} negate(d)"
    )
    x = c.random("f32", (2, 3), "chain")
    yield one(
        "bitcast-chain",
        "bitcast",
        "f32",
        text,
        [x],
        reference=lambda v: -physical(logical(physical(v + v, (0, 1)), (3, 2), (1, 0)), (0, 1)),
        prefer_reference=True,
    )


def signed_zeros(dtype: str) -> c.Reference:
    """The constant with a negative zero, as written."""
    if dtype in c.COMPLEX:
        values: list[complex] = [1 - 2.5j, 0, complex(-0.0, 1), 1e3 + 2j]
    else:
        values = [-0.0, 1.5, math.nan, -0.125]
    return lambda: np.array(values).reshape(2, 2).astype(c.np_dtype(dtype))


def constants() -> Iterator[Case]:
    """Values written in the text, in every type, nested and special."""
    for dtype in ALL:
        if dtype == "pred":
            values = "{ { true, false }, { false, true } }"
        elif dtype in c.COMPLEX:
            values = "{ { (1, -2.5), (0, 0) }, { (-0, 1), (1e3, 2) } }"
        elif dtype in c.INTEGERS:
            values = "{ { 0, 1 }, { 1, 0 } }"
        elif dtype in ("f8e8m0fnu", "f4e2m1fn"):
            values = "{ { 1, 2 }, { 4, 0.5 } }"
        else:
            values = "{ { -0, 1.5 }, { nan, -0.125 } }"
        text = c.module(f"r = {c.sh(dtype, (2, 2))} constant({values})")
        if "-0" in values:
            # Readers of XLA before 2026 lose the sign of `-0`.
            yield Case(
                f"constant-{dtype}",
                "constant",
                dtype,
                text,
                reference=signed_zeros(dtype),
                prefer_reference=True,
            )
        else:
            yield one(f"constant-{dtype}", "constant", dtype, text, [])
    for label, line in {
        "inf": "f32[3] constant({inf, -inf, 3.4028234663852886e+38})",
        "empty": "f32[0] constant({})",
        "empty2": "f32[2,0] constant({ { }, { } })",
        "large": f"s32[200] constant({{{', '.join(str(k * 7919 % 1000 - 500) for k in range(200))}}})",
        "extreme": "s64[2] constant({-9223372036854775808, 9223372036854775807})",
        "scalar": "u64[] constant(18446744073709551615)",
    }.items():
        dtype = line.split("[")[0]
        yield one(f"constant-{label}", "constant", dtype, c.module("r = " + line), [])


def cases() -> Iterator[Case]:
    """All of them."""
    yield from pad()
    yield from slices()
    yield from dynamic_slices()
    yield from reverse_transpose()
    yield from reshape_broadcast()
    yield from concatenate_iota()
    yield from bitcast()
    yield from constants()
