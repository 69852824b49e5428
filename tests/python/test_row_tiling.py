"""Loops and reductions that run together in tiles of rows give what they give one after the other."""

from __future__ import annotations

import re
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

SOFTMAX = f"""HloModule softmax
{ADD}
ENTRY main {{
  x = f32[ROWS,COLUMNS] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[ROWS] reduce(x, low), dimensions={{1}}, to_apply=max
  tops = f32[ROWS,COLUMNS] broadcast(top), dimensions={{0}}
  d = f32[ROWS,COLUMNS] subtract(x, tops)
  e = f32[ROWS,COLUMNS] exponential(d)
  total = f32[ROWS] reduce(e, zero), dimensions={{1}}, to_apply=add
  totals = f32[ROWS,COLUMNS] broadcast(total), dimensions={{0}}
  ROOT y = f32[ROWS,COLUMNS] divide(e, totals)
}}
"""

# Three results over the same four inputs; `m` and `v` are read again by what makes `q`.
STEP = """HloModule step
ENTRY main {
  p = f32[N] parameter(0)
  m0 = f32[N] parameter(1)
  v0 = f32[N] parameter(2)
  g = f32[N] parameter(3)
  c = f32[] constant(0.9)
  cs = f32[N] broadcast(c), dimensions={}
  m1 = f32[N] multiply(m0, cs)
  m = f32[N] add(m1, g)
  gg = f32[N] multiply(g, g)
  v1 = f32[N] multiply(v0, cs)
  v = f32[N] add(v1, gg)
  r = f32[N] rsqrt(v)
  u = f32[N] multiply(m, r)
  q = f32[N] subtract(p, u)
  ROOT t = (f32[N], f32[N], f32[N]) tuple(q, m, v)
}
"""

# The state of a loop, whose next value is computed from row sums of this one.
LOOP = f"""HloModule loop
{ADD}
body {{
  s = (s32[], f32[ROWS,COLUMNS]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[ROWS,COLUMNS] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = f32[] constant(0)
  xx = f32[ROWS,COLUMNS] multiply(x, x)
  total = f32[ROWS] reduce(xx, zero), dimensions={{1}}, to_apply=add
  root = f32[ROWS] rsqrt(total)
  roots = f32[ROWS,COLUMNS] broadcast(root), dimensions={{0}}
  y = f32[ROWS,COLUMNS] multiply(x, roots)
  z = f32[ROWS,COLUMNS] add(y, xx)
  ROOT t = (s32[], f32[ROWS,COLUMNS]) tuple(next, z)
}}
condition {{
  s.1 = (s32[], f32[ROWS,COLUMNS]) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(i.1, three), direction=LT
}}
ENTRY main {{
  start = s32[] constant(0)
  x.1 = f32[ROWS,COLUMNS] parameter(0)
  t.1 = (s32[], f32[ROWS,COLUMNS]) tuple(start, x.1)
  w = (s32[], f32[ROWS,COLUMNS]) while(t.1), condition=condition, body=body
  ROOT out = f32[ROWS,COLUMNS] get-tuple-element(w), index=1
}}
"""


def both(text: str, *arguments: Array) -> tuple[list[Array], list[Array]]:
    """Results with and without row tiling, and of one thread, which has to give the same bits."""
    module = hlorun.parse(text)
    apart = hlorun.compile(module, disable=["row-tiling"])(*arguments)
    alone = hlorun.compile(module, threads=1)(*arguments)
    together = hlorun.compile(module)(*arguments)
    lists = [list(x) if isinstance(x, (list, tuple)) else [x] for x in (together, apart, alone)]
    for x, y in zip(lists[0], lists[2], strict=True):
        assert x.tobytes() == y.tobytes()
    return lists[0], lists[1]


def values(*dims: int, seed: int = 0) -> Array:
    return Stream("values", seed).normal(dims)


@pytest.mark.parametrize(("rows", "columns"), [(4096, 100), (333, 1777), (37, 50257), (100003, 7)])
def test_softmax(rows: int, columns: int) -> None:
    text = SOFTMAX.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    x = values(rows, columns)
    together, apart = both(text, x)
    np.testing.assert_allclose(together[0], apart[0], rtol=1e-6, atol=0)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(together[0], e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("count", [1 << 20, 1_000_003])
def test_several_results(count: int) -> None:
    p, m, v, g = (values(count, seed=k) for k in range(4))
    together, apart = both(STEP.replace("N]", f"{count}]"), p, m, abs(v) + 1, g)
    for x, y in zip(together, apart, strict=True):
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize(("rows", "columns"), [(1000, 1024), (64, 9999)])
def test_state_of_a_loop(rows: int, columns: int) -> None:
    text = LOOP.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    together, apart = both(text, values(rows, columns))
    np.testing.assert_allclose(together[0], apart[0], rtol=1e-5, atol=1e-6)


def test_narrow_sums() -> None:
    text = SOFTMAX.replace("ROWS", "2048").replace("COLUMNS", "640").replace("f32", "bf16")
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    together, apart = both(text, values(2048, 640).astype(bf16))
    assert together[0].tobytes() == apart[0].tobytes()


def test_transposed_input() -> None:
    text = """HloModule turned
ENTRY main {
  x = f32[700,900] parameter(0)
  y = f32[900,700] parameter(1)
  t = f32[900,700] transpose(x), dimensions={1,0}
  ROOT s = f32[900,700] add(t, y)
}
"""
    x, y = values(700, 900), values(900, 700, seed=1)
    np.testing.assert_array_equal(hlorun.compile(hlorun.parse(text))(x, y), x.T + y)


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1 << 20), (3, 300_000), (5000, 100), (5000, 9), (40, 1000)]
)
def test_general_reducers_keep_the_order(rows: int, columns: int) -> None:
    """The last of equal maxima: associative, but not commutative."""
    text = f"""HloModule last
pick {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  v = f32[] select(more, a, b)
  k = s32[] select(more, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}}
ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  at = s32[{rows},{columns}] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  none = s32[] constant(-1)
  ROOT r = (f32[{rows}], s32[{rows}]) reduce(x, at, low, none), dimensions={{1}}, to_apply=pick
}}
"""
    x = Stream("ties").integers(0, 50, (rows, columns)).astype(np.float32)
    value, index = hlorun.compile(hlorun.parse(text))(x)
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(index, columns - 1 - x[:, ::-1].argmax(1))


@pytest.mark.parametrize("dims", [(1 << 20, 3), (70_000, 17), (3, 400_000), (900, 1200), (64, 3000, 5)])
def test_sums_of_any_shape(dims: tuple[int, ...]) -> None:
    x = values(*dims)
    for axis in range(len(dims)):
        kept = [d for k, d in enumerate(dims) if k != axis]
        shape = ",".join(map(str, dims))
        result = ",".join(map(str, kept))
        text = f"""HloModule sums
{ADD}
ENTRY main {{
  x = f32[{shape}] parameter(0)
  start = f32[] constant(2.5)
  ROOT r = f32[{result}] reduce(x, start), dimensions={{{axis}}}, to_apply=add
}}
"""
        together, _ = both(text, x)
        want = x.sum(axis, dtype=np.float64) + 2.5
        np.testing.assert_allclose(together[0], want, rtol=1e-4, atol=1e-2)


# The gradients of two layers and the step that they are made for; `g` is also a result.
GRADIENTS = f"""HloModule gradients
{ADD}
ENTRY main {{
  x = f32[K,M] parameter(0)
  d = f32[K,N] parameter(1)
  p = f32[M,N] parameter(2)
  q = f32[M,N] parameter(3)
  e = f32[K,N] parameter(4)
  c = f32[] constant(0.1)
  cs = f32[M,N] broadcast(c), dimensions={{}}
  g = f32[M,N] dot(x, d), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  h = f32[M,N] dot(x, e), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  one = (f32[M,N], f32[M,N]) all-reduce(g, h), replica_groups={{}}, to_apply=add
  g1 = f32[M,N] get-tuple-element(one), index=0
  h1 = f32[M,N] get-tuple-element(one), index=1
  gc = f32[M,N] multiply(g1, cs)
  p1 = f32[M,N] subtract(p, gc)
  hc = f32[M,N] multiply(h1, cs)
  q1 = f32[M,N] subtract(q, hc)
  zero = f32[] constant(0)
  rows = f32[M] reduce(q1, zero), dimensions={{1}}, to_apply=add
  ROOT t = (f32[M,N], f32[M,N], f32[M,N], f32[M]) tuple(p1, q1, g, rows)
}}
"""


@pytest.mark.parametrize(("m", "k", "n"), [(784, 12, 1024), (801, 7, 333), (35, 64, 9000), (4096, 1, 80)])
def test_products_are_members(m: int, k: int, n: int) -> None:
    text = GRADIENTS
    for name, size in {"M": m, "K": k, "N": n}.items():
        text = re.sub(rf"\b{name}\b", str(size), text)
    x, d, e = values(k, m), values(k, n, seed=1), values(k, n, seed=4)
    p, q = values(m, n, seed=2), values(m, n, seed=3)
    # One device alone needs no all-reduce, so that nothing stands between a product and its use.
    steps = hlorun.compile(hlorun.parse(text)).explain().splitlines()[0]
    assert "collective" not in steps
    # Rows of 9000 are too long to keep a tile of three arrays in a cache.
    assert ("matrix product" in steps) == (n == 9000)
    together, apart = both(text, x, d, p, q, e)
    g, h = (x.T.astype(np.float64) @ side for side in (d, e))
    wants = (p - 0.1 * g, q - 0.1 * h, g, (q - 0.1 * h).sum(1))
    for got, other, want in zip(together, apart, wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-3)
        np.testing.assert_allclose(got, other, rtol=1e-4, atol=2e-3)


def test_rows_of_a_band_are_multiplied() -> None:
    text = """HloModule layer
ENTRY main {
  x = f32[9001,48] parameter(0)
  w = f32[48,40] parameter(1)
  e = f32[9001,48] tanh(x)
  y = f32[9001,40] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[9001,40] negate(y)
  ROOT t = (f32[9001,40], f32[9001,48]) tuple(n, e)
}
"""
    x, w = values(9001, 48), values(48, 40, seed=1)
    assert "steps: 1: 1 x fused rows" in str(hlorun.compile(hlorun.parse(text)).explain())
    together, _ = both(text, x, w)
    np.testing.assert_allclose(together[0], -(np.tanh(x.astype(np.float64)) @ w), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(together[1], np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize("count", [8_000_000, 8_388_611])
def test_results_past_the_caches(count: int) -> None:
    text = f"""HloModule far
ENTRY main {{
  x = f32[{count}] parameter(0)
  y = f32[{count}] parameter(1)
  s = f32[{count}] add(x, y)
  h = bf16[{count}] convert(s)
  ROOT t = (f32[{count}], bf16[{count}]) tuple(s, h)
}}
"""
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    x, y = values(count), values(count, seed=1)
    exe = hlorun.compile(hlorun.parse(text))
    # The second time into arrays that begin in the middle of a line, and over one that is read.
    odd = (np.zeros(count + 1, np.float32)[1:], np.zeros(count + 3, bf16)[3:])
    for got in (exe(x, y), exe(x, y, out=odd), exe(x, y, out=(x.copy(), odd[1]))):
        np.testing.assert_array_equal(got[0], x + y)
        np.testing.assert_array_equal(got[1], (x + y).astype(bf16))
