"""Loops and reductions over rows that are read where they lie, against NumPy and against tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]
TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32}


def operand(
    rng: Stream, kind: str, name: str, number: int, dims: list[int], dtype: str
) -> tuple[str, Array, Array]:
    """Lines of an operand of sizes `dims`, its parameter, and its elements."""
    shape = ",".join(map(str, dims))
    all_dims = ",".join(map(str, range(len(dims))))

    def values(sizes: list[int]) -> Array:
        return np.asarray(rng.integers(-9, 9, sizes)).astype(TYPES[dtype])

    if kind == "rows":
        before, behind = rng.integers(0, 4, len(dims)), rng.integers(0, 4, len(dims))
        whole = values([b + d + e for b, d, e in zip(before, dims, behind, strict=True)])
        ends = [(int(b), int(b) + d) for b, d in zip(before, dims, strict=True)]
        window = ", ".join(f"[{b}:{e}]" for b, e in ends)
        use = f"slice(p{name}), slice={{{window}}}"
        found = whole[tuple(slice(*end) for end in ends)]
    elif kind == "columns":
        whole = values(dims[:-1])
        use = f"broadcast(p{name}), dimensions={{{all_dims[:-2]}}}"
        found = np.broadcast_to(whole[..., None], dims)
    elif kind == "one row":
        whole = values(dims[-1:])
        use = f"broadcast(p{name}), dimensions={{{len(dims) - 1}}}"
        found = np.broadcast_to(whole, dims)
    elif kind == "crossed":
        whole = values(dims[::-1])
        use = f"transpose(p{name}), dimensions={{{all_dims[::-1]}}}"
        found = whole.T
    else:
        whole = values(dims)
        use = f"copy(p{name})"
        found = whole
    sizes = ",".join(map(str, whole.shape))
    lines = f"  p{name} = {dtype}[{sizes}] parameter({number})\n  {name} = {dtype}[{shape}] {use}\n"
    return lines, whole, found


def module_of(seed: int) -> tuple[hlorun.HloModule, list[Array], Array]:
    """A module of random arrays, its arguments and its result."""
    rng = Stream("row loops", seed)
    dtype = ["f32", "f64", "s32"][seed % 3]
    dims = [int(rng.integers(8, 50)), int(rng.integers(9, 400))]
    if seed % 4 == 0:
        dims.insert(0, int(rng.integers(2, 5)))
    kinds = ["rows", "rows", *rng.choice(["rows", "columns", "one row", "crossed", "dense"], 3)]
    shape = ",".join(map(str, dims))
    text, values, found = "", list[Array](), list[Array]()
    for number, kind in enumerate(kinds):
        lines, value, elements = operand(rng, str(kind), "abcde"[number], number, dims, dtype)
        text += lines
        values.append(value)
        found.append(elements)
    a, b, c, d, e = found
    wanted = np.maximum((a - b) * c + d, e)
    text += f"""  f = {dtype}[{shape}] subtract(a, b)
  g = {dtype}[{shape}] multiply(f, c)
  h = {dtype}[{shape}] add(g, d)
"""
    end = f"r = {dtype}[{shape}] maximum(h, e)\n"
    fold = ""
    match ["whole", "reduce", "update", "add in place"][int(rng.integers(0, 4))]:
        case "whole":
            text += f"  ROOT {end}"
        case "reduce":
            axis = int(rng.integers(0, len(dims)))
            kept = ",".join(str(size) for at, size in enumerate(dims) if at != axis)
            fold = f"add {{\n  x = {dtype}[] parameter(0)\n  y = {dtype}[] parameter(1)\n  ROOT z = {dtype}[] add(x, y)\n}}\n"
            text += f"  {end}  n = {dtype}[] constant(0)\n"
            text += f"  ROOT s = {dtype}[{kept}] reduce(r, n), dimensions={{{axis}}}, to_apply=add\n"
            wanted = wanted.sum(axis, dtype=wanted.dtype)
        case "add in place":
            sizes = ",".join(str(size + 3) for size in dims)
            window = ", ".join(f"[1:{1 + size}]" for size in dims)
            starts = ", ".join(["o"] * len(dims))
            room = np.asarray(rng.integers(-9, 9, [size + 3 for size in dims]))
            values.append(room.astype(TYPES[dtype]))
            text += f"  {end}  o = s32[] constant(1)\n  w = {dtype}[{sizes}] parameter(5)\n"
            text += f"  z = {dtype}[{sizes}] negate(w)\n"
            text += f"  y = {dtype}[{shape}] slice(z), slice={{{window}}}\n"
            text += f"  x = {dtype}[{shape}] add(y, r)\n"
            text += f"  ROOT s = {dtype}[{sizes}] dynamic-update-slice(z, x, {starts})\n"
            room = -values[-1]
            room[tuple(slice(1, 1 + size) for size in dims)] += wanted
            wanted = room
        case _:
            room = np.zeros([size + 3 for size in dims], TYPES[dtype])
            sizes = ",".join(map(str, room.shape))
            starts = ", ".join(["o"] * len(dims))
            text += f"  {end}  o = s32[] constant(1)\n  n = {dtype}[] constant(0)\n"
            text += f"  z = {dtype}[{sizes}] broadcast(n), dimensions={{}}\n"
            text += f"  ROOT s = {dtype}[{sizes}] dynamic-update-slice(z, r, {starts})\n"
            room[tuple(slice(1, 1 + size) for size in dims)] = wanted
            wanted = room
    module = hlorun.parse(f"HloModule rows\n{fold}ENTRY e {{\n{text}}}\n")
    return module, values, wanted


@pytest.mark.parametrize("seed", range(60))
def test_rows_where_they_lie(seed: int) -> None:
    """Sums and products of slices, repeated and crossed arrays; some are reduced, some update a part of an array,
    or are added to it."""
    module, values, wanted = module_of(seed)
    for disable in ([], ["row-loops"]):
        executable = hlorun.compile(module, disable=disable, check=True)
        for _ in range(3):
            np.testing.assert_array_equal(executable(*values), wanted)


def test_many_go_over_rows() -> None:
    """The modules of the test above show something."""
    listings = [hlorun.compile(module_of(seed)[0]).listing() for seed in range(60)]
    # Not every CPU has vector bytecode.
    if any("vector bytecode" in listing for listing in listings):
        assert sum("over rows of" in listing for listing in listings) > 20
