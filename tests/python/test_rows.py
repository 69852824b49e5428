"""Gathers, scatters, reductions and rounds of ciphers over enough elements for their own paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
max {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT m = f32[] maximum(a.1, b.1)
}
"""


def run(text: str, *arguments: Array, disable: tuple[str, ...] = ()) -> list[Array]:
    """Results, which must not depend on the number of threads."""
    module = hlorun.parse(text)
    results = [
        hlorun.compile(module, threads=threads, disable=list(disable))(*arguments) for threads in (1, 3)
    ]
    alone, shared = ([x] if isinstance(x, np.ndarray) else list(x) for x in results)
    for x, y in zip(alone, shared, strict=True):
        assert x.tobytes() == y.tobytes()
    return shared


@pytest.mark.parametrize("windows", [1, 15, 16, 700])
@pytest.mark.parametrize("dtype", ["s8", "u16", "f32", "f64"])
def test_columns_of_a_matrix(windows: int, dtype: str) -> None:
    stream = Stream("rows", windows)
    numpy_dtype = {"s8": np.int8, "u16": np.uint16, "f32": np.float32, "f64": np.float64}[dtype]
    x = stream.integers(-99, 99, (333, 50)).astype(numpy_dtype)
    at = stream.integers(-5, 60, windows).astype(np.int32)
    text = f"""HloModule columns
ENTRY main {{
  x = {dtype}[333,50] parameter(0)
  i = s32[{windows}] parameter(1)
  ROOT g = {dtype}[333,{windows}] gather(x, i), offset_dims={{0}}, collapsed_slice_dims={{1}},
    start_index_map={{1}}, index_vector_dim=1, slice_sizes={{333,1}}
}}
"""
    np.testing.assert_array_equal(run(text, x, at)[0], x[:, at.clip(0, 49)])


@pytest.mark.parametrize("rows", [1, 513, 3000])
def test_elements_by_one_and_by_two_indices(rows: int) -> None:
    stream = Stream("rows", rows)
    x = stream.normal((40, 30))
    pairs = stream.integers(-3, 45, (rows, 2)).astype(np.int64)
    text = f"""HloModule pairs
ENTRY main {{
  x = f32[40,30] parameter(0)
  i = s64[{rows},2] parameter(1)
  ROOT g = f32[{rows}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0,1}},
    start_index_map={{1,0}}, index_vector_dim=1, slice_sizes={{1,1}}
}}
"""
    want = x[pairs[:, 1].clip(0, 39), pairs[:, 0].clip(0, 29)]
    np.testing.assert_array_equal(run(text, x, pairs)[0], want)
    # One index per row, of which the row is a batching dimension.
    at = stream.integers(-3, 45, (40, 77)).astype(np.int32)
    text = """HloModule along
ENTRY main {
  x = f32[40,30] parameter(0)
  i = s32[40,77,1] parameter(1)
  ROOT g = f32[40,77] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
    operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
}
"""
    want = np.take_along_axis(x, at.clip(0, 29), 1)
    np.testing.assert_array_equal(run(text, x, at[..., None])[0], want)


@pytest.mark.parametrize("rows", [2, 3, 37, 1000, 4097])
@pytest.mark.parametrize("columns", [1, 3, 10, 128, 129])
def test_few_columns_are_folded_in_order(rows: int, columns: int) -> None:
    """Affine functions one after the other: associative, but not commutative."""
    stream = Stream("few columns", rows, columns)
    a, b = (stream.integers(-9, 9, (rows, columns)).astype(np.int32) for _ in range(2))
    text = f"""HloModule affine
then {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ac = s32[] multiply(a, c)
  bc = s32[] multiply(b, c)
  e = s32[] add(bc, d)
  ROOT t = (s32[], s32[]) tuple(ac, e)
}}
ENTRY main {{
  a = s32[{rows},{columns}] parameter(0)
  b = s32[{rows},{columns}] parameter(1)
  one = s32[] constant(1)
  zero = s32[] constant(0)
  ROOT r = (s32[{columns}], s32[{columns}]) reduce(a, b, one, zero), dimensions={{0}}, to_apply=then
}}
"""
    first, second = np.ones(columns, np.int32), np.zeros(columns, np.int32)
    for c, d in zip(a, b, strict=True):
        first, second = first * c, second * c + d
    got = run(text, a, b)
    np.testing.assert_array_equal(got[0], first)
    np.testing.assert_array_equal(got[1], second)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("depth", [*range(1, 70), 200])
def test_sums_of_every_length(depth: int, dtype: str) -> None:
    stream = Stream("depth", depth)
    numpy_dtype = {"f32": np.float32, "f64": np.float64}[dtype]
    x, y = (stream.integers(1, 9, dims).astype(numpy_dtype) for dims in ((3, depth), (50, depth)))
    text = f"""HloModule sums
ENTRY main {{
  x = {dtype}[3,{depth}] parameter(0)
  y = {dtype}[50,{depth}] parameter(1)
  ROOT d = {dtype}[3,50] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}
"""
    np.testing.assert_array_equal(run(text, x, y)[0], x @ y.T)
    # Infinity times a number is counted once, and never times zero.
    for at in range(depth):
        y[at % 50, at] = np.inf
    np.testing.assert_array_equal(run(text, x, y)[0], x @ y.T)


@pytest.mark.parametrize("width", [*range(1, 36), 63, 64, 65])
def test_rows_of_few_bytes(width: int) -> None:
    stream = Stream("few bytes", width)
    x = stream.integers(0, 255, (50, width)).astype(np.uint8)
    at = stream.integers(-3, 55, 600).astype(np.int32)
    text = f"""HloModule rows
ENTRY main {{
  x = u8[50,{width}] parameter(0)
  i = s32[600] parameter(1)
  ROOT g = u8[600,{width}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}
}}
"""
    np.testing.assert_array_equal(run(text, x, at)[0], x[at.clip(0, 49)])


@pytest.mark.parametrize("count", [2, 8, 9])
@pytest.mark.parametrize("combine", ["add", "max", "put"])
@pytest.mark.parametrize("unroll", [1, 4])
def test_few_windows_in_a_loop(count: int, combine: str, unroll: int) -> None:
    """Windows that overlap, or lie outside, window after window as by the gather and the scatter themselves."""
    stream = Stream("windows in a loop", count, combine, unroll)
    x = stream.normal((12, 5))
    start = stream.integers(-2, 14, (count, 2)).astype(np.int32)
    start[:, 1] = stream.integers(-1, 5, count)
    text = f"""HloModule windows
{ADD}
put {{
  a.2 = f32[] parameter(0)
  ROOT b.2 = f32[] parameter(1)
}}
body {{
  t = (s32[], f32[12,5], s32[{count},2]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  x = f32[12,5] get-tuple-element(t), index=1
  i = s32[{count},2] get-tuple-element(t), index=2
  one = s32[] constant(1)
  n = s32[] add(k, one)
  g = f32[{count},{unroll}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,{unroll}}}
  half = f32[] constant(0.5)
  h = f32[{count},{unroll}] broadcast(half), dimensions={{}}
  u = f32[{count},{unroll}] multiply(g, h)
  y = f32[12,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply={combine}
  ones = s32[{count},2] broadcast(one), dimensions={{}}
  j = s32[{count},2] add(i, ones)
  ROOT r = (s32[], f32[12,5], s32[{count},2]) tuple(n, y, j)
}}
condition {{
  t = (s32[], f32[12,5], s32[{count},2]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  m = s32[] constant(7)
  ROOT c = pred[] compare(k, m), direction=LT
}}
ENTRY main {{
  z = s32[] constant(-3)
  x = f32[12,5] parameter(0)
  i = s32[{count},2] parameter(1)
  s = (s32[], f32[12,5], s32[{count},2]) tuple(z, x, i)
  w = (s32[], f32[12,5], s32[{count},2]) while(s), condition=condition, body=body
  ROOT r = f32[12,5] get-tuple-element(w), index=1
}}
"""
    want = x.copy()
    at = start.copy()
    for _ in range(10):
        rows, columns = at[:, 0].clip(0, 11), at[:, 1].clip(0, 5 - unroll)
        update = [want[r, c : c + unroll] * np.float32(0.5) for r, c in zip(rows, columns, strict=True)]
        for (r, c), values in zip(at, update, strict=True):
            if 0 <= r <= 11 and 0 <= c <= 5 - unroll:
                here = want[r, c : c + unroll]
                here[:] = {"add": here + values, "max": np.maximum(here, values), "put": values}[combine]
        at += 1
    for disable in ((), ("gather-scatter-simplifier",), ("machine-code",)):
        np.testing.assert_array_equal(run(text, x, start, disable=disable)[0], want)


@pytest.mark.parametrize("width", [1, 3, 8, 33])
@pytest.mark.parametrize("reducer", ["add", "max"])
def test_rows_are_scattered_in_order(width: int, reducer: str) -> None:
    stream = Stream("rows", width)
    x = stream.normal((20, width))
    updates = stream.normal((1000, width))
    at = stream.integers(-2, 23, 1000).astype(np.int32)
    text = f"""HloModule rows
{ADD}
ENTRY main {{
  x = f32[20,{width}] parameter(0)
  i = s32[1000] parameter(1)
  u = f32[1000,{width}] parameter(2)
  ROOT s = f32[20,{width}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={reducer}
}}
"""
    want = x.copy()
    combine = np.add if reducer == "add" else np.maximum
    for row, update in zip(at, updates, strict=True):
        if 0 <= row < 20:
            want[row] = combine(want[row], update)
    np.testing.assert_array_equal(run(text, x, at, updates)[0], want)


@pytest.mark.parametrize("columns", [8, 11, 4096])
@pytest.mark.parametrize("combine", ["add", "max", "put"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_threads_share_a_scatter_by_places(columns: int, combine: str, is_sorted: bool) -> None:
    """Windows of eight elements: whole rows, which are apart, and parts of rows, which overlap."""
    stream = Stream("shared scatter", columns, combine, is_sorted)
    rows, count = 90, 30000
    x = stream.integers(-99, 99, (rows, columns)).astype(np.int32)
    updates = stream.integers(-99, 99, (count, 8)).astype(np.int32)
    at = np.stack([stream.integers(-1, rows + 1, count), stream.integers(-1, columns - 6, count)], axis=1)
    at = (at[np.argsort(at[:, 0], kind="stable")] if is_sorted else at).astype(np.int32)
    text = f"""HloModule shared
add {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}}
max {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b)
}}
put {{
  a = s32[] parameter(0)
  ROOT b = s32[] parameter(1)
}}
ENTRY main {{
  x = s32[{rows},{columns}] parameter(0)
  i = s32[{count},2] parameter(1)
  u = s32[{count},8] parameter(2)
  ROOT s = s32[{rows},{columns}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply={combine}
}}
"""
    want = x.copy()
    for (r, c), values in zip(at, updates, strict=True):
        if 0 <= r < rows and 0 <= c <= columns - 8:
            here = want[r, c : c + 8]
            here[:] = {"add": here + values, "max": np.maximum(here, values), "put": values}[combine]
    np.testing.assert_array_equal(run(text, x, at, updates)[0], want)


@pytest.mark.parametrize("dims", [(7, 20, 1), (3, 20, 5), (2, 20, 70), (3, 9000, 20)])
@pytest.mark.parametrize("count", [3, 40, 6000])
@pytest.mark.parametrize("is_outer", [True, False])
@pytest.mark.parametrize("combine", ["add", "max", "put"])
def test_windows_whose_elements_lie_apart(
    dims: tuple[int, ...], count: int, is_outer: bool, combine: str
) -> None:
    """Windows of several rows or columns, the same ones often, some outside: gathered, and scattered in order."""
    stream = Stream("apart", dims, count, is_outer, combine)
    a, n, b = dims
    x = stream.normal(dims)
    at = stream.integers(-2, n + 2, count).astype(np.int32)
    shape, window = ((count, a, b), "{1,2}") if is_outer else ((a, count, b), "{0,2}")
    updates = stream.normal(shape)
    arrays = ",".join(map(str, shape))
    text = f"""HloModule apart
{ADD}
put {{
  a.2 = f32[] parameter(0)
  ROOT b.2 = f32[] parameter(1)
}}
ENTRY main {{
  x = f32[{a},{n},{b}] parameter(0)
  i = s32[{count}] parameter(1)
  u = f32[{arrays}] parameter(2)
  g = f32[{arrays}] gather(x, i), offset_dims={window}, collapsed_slice_dims={{1}}, start_index_map={{1}},
    index_vector_dim=1, slice_sizes={{{a},1,{b}}}
  s = f32[{a},{n},{b}] scatter(x, i, u), update_window_dims={window}, inserted_window_dims={{1}},
    scatter_dims_to_operand_dims={{1}}, index_vector_dim=1, to_apply={combine}
  ROOT r = (f32[{arrays}], f32[{a},{n},{b}]) tuple(g, s)
}}
"""
    gathered, scattered = run(text, x, at, updates)
    taken = x[:, at.clip(0, n - 1)]
    np.testing.assert_array_equal(gathered, taken.transpose(1, 0, 2) if is_outer else taken)
    want = x.copy()
    for place, values in zip(at, updates if is_outer else updates.transpose(1, 0, 2), strict=True):
        if 0 <= place < n:
            here = want[:, place]
            here[:] = {"add": here + values, "max": np.maximum(here, values), "put": values}[combine]
    np.testing.assert_array_equal(scattered, want)


@pytest.mark.parametrize("dims", [(4, 32, 8, 8, 16), (1, 900, 1, 3, 5), (2, 3, 3, 7, 11), (3, 300, 1, 16, 8)])
def test_sums_of_groups(dims: tuple[int, ...]) -> None:
    """Group normalization: kept and reduced dimensions alternate."""
    x = Stream("rows").normal(dims)
    shape, (b, _, _, g, _) = ",".join(map(str, dims)), dims
    text = f"""HloModule groups
{ADD}
ENTRY main {{
  x = f32[{shape}] parameter(0)
  zero = f32[] constant(1)
  low = f32[] constant(-inf)
  square = f32[{shape}] multiply(x, x)
  s = f32[{b},{g}] reduce(x, zero), dimensions={{1,2,4}}, to_apply=add
  q = f32[{b},{g}] reduce(square, zero), dimensions={{1,2,4}}, to_apply=add
  m = f32[{b},{g}] reduce(x, low), dimensions={{1,2,4}}, to_apply=max
  ROOT t = (f32[{b},{g}], f32[{b},{g}], f32[{b},{g}]) tuple(s, q, m)
}}
"""
    total, squares, most = run(text, x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(total, 1 + wide.sum((1, 2, 4)), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(squares, 1 + (wide**2).sum((1, 2, 4)), rtol=1e-5)
    np.testing.assert_array_equal(most, x.max((1, 2, 4)))


def rounds(shape: str, results: str, prefix: str) -> str:
    """Rounds of add, rotate and exclusive or as a fusion that returns one of both words."""
    lines = []
    x, y = "x", "y"
    for k in range(4):
        lines.append(f"""
  d{k}.1 = u32[1] slice(d), slice={{[{k}:{k + 1}]}}
  d{k} = u32[] reshape(d{k}.1)
  l{k} = {shape} broadcast(d{k}), dimensions={{}}
  w{k} = u32[] constant(32)
  e{k} = u32[] subtract(w{k}, d{k})
  r{k} = {shape} broadcast(e{k}), dimensions={{}}
  a{k} = {shape} add({x}, {y})
  h{k} = {shape} shift-left({y}, l{k})
  o{k} = {shape} shift-right-logical({y}, r{k})
  t{k} = {shape} or(h{k}, o{k})
  z{k} = {shape} xor(a{k}, t{k})""")
        x, y = f"a{k}", f"z{k}"
    root = x if results == "x" else y
    return f"""
{prefix} {{
  x = {shape} parameter(0)
  y = {shape} parameter(1)
  d = u32[4] parameter(2)
  i = s32[] parameter(3)
{"".join(lines)}
  j = u32[] convert(i)
  k = {shape} broadcast(j), dimensions={{}}
  ROOT out = {shape} add({root}, k)
}}
"""


@pytest.mark.parametrize("trips", [1, 2, 5, 9])
@pytest.mark.parametrize("dims", [(512, 1024), (3, 5)])
def test_rounds_of_a_cipher(trips: int, dims: tuple[int, int]) -> None:
    """What two results have in common is computed once, and few trips are written out."""
    shape = f"u32[{dims[0]},{dims[1]}]"
    state = f"(s32[], {shape}, {shape}, u32[4], u32[4])"
    text = f"""HloModule cipher
{rounds(shape, "x", "first")}
{rounds(shape, "y", "second")}
body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {shape} get-tuple-element(p), index=1
  y = {shape} get-tuple-element(p), index=2
  d = u32[4] get-tuple-element(p), index=3
  e = u32[4] get-tuple-element(p), index=4
  one = s32[] constant(1)
  next = s32[] add(i, one)
  u = {shape} fusion(x, y, d, i), kind=kLoop, calls=first
  v = {shape} fusion(x, y, d, next), kind=kLoop, calls=second
  ROOT t = {state} tuple(next, u, v, e, d)
}}
condition {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  zero = s32[] constant(0)
  x = {shape} parameter(0)
  y = {shape} parameter(1)
  d = u32[4] constant({{13, 15, 26, 6}})
  e = u32[4] constant({{17, 29, 16, 24}})
  init = {state} tuple(zero, x, y, d, e)
  w = {state} while(init), condition=condition, body=body
  u = {shape} get-tuple-element(w), index=1
  v = {shape} get-tuple-element(w), index=2
  ROOT out = ({shape}, {shape}) tuple(u, v)
}}
"""
    stream = Stream("rows", trips)
    x, y = (stream.integers(0, 1 << 32, dims, dtype=np.uint32) for _ in range(2))
    found = run(text, x, y)
    for name in ("row-tiling", "vector-bytecode", "loop-unroll", "common-subexpressions"):
        for a, b in zip(found, run(text, x, y, disable=(name,)), strict=True):
            np.testing.assert_array_equal(a, b)
    distances = [(13, 15, 26, 6), (17, 29, 16, 24)]
    for trip in range(trips):
        u, v = x, y
        for by in distances[trip % 2]:
            u = u + v
            v = u ^ (v << np.uint32(by) | v >> np.uint32(32 - by))
        x, y = u + np.uint32(trip), v + np.uint32(trip + 1)
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


@pytest.mark.parametrize("dtype", ["f32", "s8", "f64"])
@pytest.mark.parametrize("kept", [(2,), (1, 2), (1,), (0, 2)])
def test_broadcasts_that_repeat(dtype: str, kept: tuple[int, ...]) -> None:
    """Tiles begin anywhere in a short operand that repeats over a large result."""
    dims = (1531, 7, 3)
    kind = {"f32": np.float32, "s8": np.int8, "f64": np.float64}[dtype]
    small = [dims[d] for d in kept]
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[1531,7,3] parameter(0)
  y = {dtype}[{",".join(map(str, small))}] parameter(1)
  b = {dtype}[1531,7,3] broadcast(y), dimensions={{{",".join(map(str, kept))}}}
  s = {dtype}[1531,7,3] subtract(b, x)
  ROOT r = {dtype}[1531,7,3] multiply(s, b)
}}"""
    stream = Stream("rows", 0)
    x, y = (stream.integers(-5, 6, shape).astype(kind) for shape in (dims, small))
    shape = [n if d in kept else 1 for d, n in enumerate(dims)]
    b = y.reshape(shape)
    (got,) = run(text, x, y)
    assert np.array_equal(got, (b - x) * b)


@pytest.mark.parametrize("dtype", ["s8", "f16", "f32", "f64", "c128"])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 20])
def test_short_rows_are_copied(dtype: str, count: int) -> None:
    """Elements repeated side by side, and short rows in another order."""
    types = {"s8": np.int8, "f16": np.float16, "f32": np.float32, "f64": np.float64, "c128": np.complex128}
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[50,9,{count}] parameter(0)
  y = {dtype}[50,9] parameter(1)
  t = {dtype}[9,50,{count}] transpose(x), dimensions={{1,0,2}}
  v = {dtype}[50,9,{count}] reverse(x), dimensions={{2}}
  w = {dtype}[50,9,{count}] reverse(x), dimensions={{1}}
  b = {dtype}[50,9,{count}] broadcast(y), dimensions={{0,1}}
  c = {dtype}[9,50,{count}]{{2,0,1}} copy(t)
  ROOT r = ({dtype}[9,50,{count}], {dtype}[50,9,{count}], {dtype}[50,9,{count}], {dtype}[50,9,{count}]) tuple(c, v, w, b)
}}"""
    stream = Stream("rows", 0)
    x = stream.integers(-5, 6, (50, 9, count)).astype(types[dtype])
    y = stream.integers(-5, 6, (50, 9)).astype(types[dtype])
    turned, reversed_rows, reversed_lines, repeated = run(text, x, y)
    assert np.array_equal(turned, x.transpose(1, 0, 2))
    assert np.array_equal(reversed_rows, x[:, :, ::-1])
    assert np.array_equal(reversed_lines, x[:, ::-1])
    assert np.array_equal(repeated, np.repeat(y[..., None], count, 2))


@pytest.mark.parametrize(
    "sizes", [(37, 37, 3, 1), (500, 2, 5, 1), (40, 3, 2, 4), (1000, 7, 16, 1), (9, 64, 2, 1)]
)
@pytest.mark.parametrize("op", ["add", "max"])
def test_many_short_runs(sizes: tuple[int, int, int, int], op: str) -> None:
    x = Stream("short runs", *sizes).normal(sizes)
    outer, reduced, kept, inner = sizes
    shape = f"f32[{outer},{reduced},{kept},{inner}]"
    text = f"""HloModule runs
{ADD}
ENTRY main {{
  x = {shape} parameter(0)
  y = {shape} multiply(x, x)
  z = f32[] constant(0.5)
  ROOT r = f32[{outer},{kept}] reduce(y, z), dimensions={{1,3}}, to_apply={op}
}}
"""
    squares = x.astype(np.float64) ** 2
    want = squares.sum((1, 3)) + 0.5 if op == "add" else np.maximum(squares.max((1, 3)), 0.5)
    [got] = run(text, x)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for disable in ("machine-code", "scalar-bytecode", "vector-bytecode"):
        assert run(text, x, disable=(disable,))[0].tobytes() == got.tobytes()


@pytest.mark.parametrize("width", [2, 3, 40])
def test_updates_that_lie_apart(width: int) -> None:
    stream = Stream("apart", width)
    x, u = stream.normal((50, width)), stream.normal((width, 700))
    at = stream.integers(-3, 53, 700).astype(np.int32)
    text = f"""HloModule apart
{ADD}
ENTRY main {{
  x = f32[50,{width}] parameter(0)
  i = s32[700] parameter(1)
  u = f32[{width},700] parameter(2)
  ROOT s = f32[50,{width}] scatter(x, i, u), update_window_dims={{0}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
"""
    want = x.copy()
    for k in range(700):
        if 0 <= at[k] < 50:
            want[at[k]] += u[:, k]
    np.testing.assert_array_equal(run(text, x, at, u)[0], want)


@pytest.mark.parametrize("count", [1, 64, 5000])
def test_unsigned_indices(count: int) -> None:
    stream = Stream("unsigned", count)
    x = stream.normal((90, 3))
    at = stream.integers(0, 95, count).astype(np.uint32)
    at[::7] += np.uint32(1 << 31)
    at[::11] = np.uint32(0xFFFF_FFFF)
    text = f"""HloModule unsigned
{ADD}
ENTRY main {{
  x = f32[90,3] parameter(0)
  i = u32[{count}] parameter(1)
  u = f32[{count},3] parameter(2)
  g = f32[{count},3] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,3}}
  s = f32[90,3] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=max
  ROOT r = (f32[{count},3], f32[90,3]) tuple(g, s)
}}
"""
    u = stream.normal((count, 3))
    gathered, scattered = run(text, x, at, u)
    np.testing.assert_array_equal(gathered, x[at.clip(0, 89)])
    want = x.copy()
    inside = at < 90
    np.maximum.at(want, at[inside], u[inside])
    np.testing.assert_array_equal(scattered, want)
