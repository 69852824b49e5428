"""Reductions of rows and columns that are folded in one pass, and rows whose greatest element is asked for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from streams import Stream
from test_rows import ADD, run

PAIRS = """HloModule pairs
fold {
  x = TYPE[] parameter(0)
  y = TYPE[] parameter(1)
  ROOT z = TYPE[] FOLD(x, y)
}
ENTRY main {
  p = TYPE[N,K] parameter(0)
  q = TYPE[M,K2] parameter(1)
  c = TYPE[K] parameter(2)
  z = TYPE[] constant(3)
  t = TYPE[] constant(2)
  s = TYPE[M,K] slice(q), slice={[0:M], [0:K2:2]}
  r = TYPE[M,K] reverse(s), dimensions={0}
  a = TYPE[N,M,K] broadcast(p), dimensions={0,2}
  b = TYPE[N,M,K] broadcast(r), dimensions={1,2}
  w = TYPE[N,M,K] broadcast(c), dimensions={2}
  ts = TYPE[N,M,K] broadcast(t), dimensions={}
  d = TYPE[N,M,K] subtract(a, b)
  e = TYPE[N,M,K] multiply(d, d)
  f = TYPE[N,M,K] multiply(e, w)
  g = TYPE[N,M,K] subtract(f, ts)
  ROOT o = TYPE[N,M] reduce(g, z), dimensions={2}, to_apply=fold
}
"""


@pytest.mark.parametrize("sizes", [(20, 150, 4), (40, 300, 33), (16, 129, 250), (300, 200, 2), (16, 777, 3)])
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "bf16"])
def test_distances_of_all_pairs(sizes: tuple[int, int, int], op: str, dtype: str) -> None:
    """Sums and maxima over short rows of values that are made of repeated arrays, some of them with gaps."""
    n, m, k = sizes
    text = PAIRS.replace("TYPE", dtype).replace("FOLD", op).replace("K2", str(2 * k))
    for name, size in (("N", n), ("M", m), ("K", k)):
        text = text.replace(f"[{name}]", f"[{size}]").replace(f"[{name},", f"[{size},")
        text = (
            text.replace(f",{name}]", f",{size}]")
            .replace(f",{name},", f",{size},")
            .replace(f":{name}]", f":{size}]")
        )
    stream = Stream("pairs", *sizes)
    types = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "bf16": ml_dtypes.bfloat16}
    shapes = [(n, k), (m, 2 * k), (k,)]
    # Sums of these show in which order they were made.
    inputs = [
        (stream.integers(-9, 10, shape) if dtype == "s32" else 10 * stream.normal(shape)).astype(types[dtype])
        for shape in shapes
    ]
    x, y, c = (array.astype(np.float64) for array in inputs)
    values = (x[:, None] - y[::-1, ::2][None]) ** 2 * c - 2
    want = values.sum(-1) + 3 if op == "add" else np.maximum(values.max(-1), 3)
    [got] = run(text, *inputs)
    tolerance = {"f32": 1e-6, "f64": 1e-14, "s32": 0, "bf16": 0.03}[dtype]
    scale = np.abs(values).sum(-1) if op == "add" else np.abs(values).max(-1)
    assert np.all(np.abs(got.astype(np.float64) - want) <= tolerance * (scale + 3))
    for disable in ("column-folds", "vector-bytecode", "row-tiling", "machine-code"):
        assert run(text, *inputs, disable=(disable,))[0].tobytes() == got.tobytes()
    if dtype == "s32" or op == "maximum":
        assert run(text, *inputs, disable=("reduced-outward",))[0].tobytes() == got.tobytes()


def test_columns_in_a_loop_and_in_row_tiles() -> None:
    """Planes at places that a trip computes, truth values and halves among the rows, and a softmax over the results."""
    text = f"""HloModule columns
{ADD}
body {{
  s = (s32[], f32[30,5,200], pred[5,200], f16[5,200], f32[30,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[30,5,200] get-tuple-element(s), index=1
  m = pred[5,200] get-tuple-element(s), index=2
  h = f16[5,200] get-tuple-element(s), index=3
  r = f32[30,200] get-tuple-element(s), index=4
  one = s32[] constant(1)
  none = s32[] constant(0)
  j = s32[] add(i, one)
  z = f32[] constant(0.25)
  low = f32[] constant(-inf)
  zs = f32[30,5,200] broadcast(z), dimensions={{}}
  part = f32[20,5,200] dynamic-slice(x, i, none, none), dynamic_slice_sizes={{20,5,200}}
  mb = pred[20,5,200] broadcast(m), dimensions={{1,2}}
  hf = f32[5,200] convert(h)
  hb = f32[20,5,200] broadcast(hf), dimensions={{1,2}}
  v = f32[20,5,200] select(mb, part, hb)
  w = f32[20,5,200] multiply(v, hb)
  y = f32[20,200] reduce(w, z), dimensions={{1}}, to_apply=add
  top = f32[20] reduce(y, low), dimensions={{1}}, to_apply=max
  tops = f32[20,200] broadcast(top), dimensions={{0}}
  e = f32[20,200] subtract(y, tops)
  p = f32[20,200] exponential(e)
  n = f32[20] reduce(p, z), dimensions={{1}}, to_apply=add
  ns = f32[20,200] broadcast(n), dimensions={{0}}
  q = f32[20,200] divide(p, ns)
  u = f32[30,200] dynamic-update-slice(r, q, i, none)
  ROOT t = (s32[], f32[30,5,200], pred[5,200], f16[5,200], f32[30,200]) tuple(j, x, m, h, u)
}}
cond {{
  s = (s32[], f32[30,5,200], pred[5,200], f16[5,200], f32[30,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  zero = s32[] constant(0)
  x = f32[30,5,200] parameter(0)
  m = pred[5,200] parameter(1)
  h = f16[5,200] parameter(2)
  r = f32[30,200] parameter(3)
  s = (s32[], f32[30,5,200], pred[5,200], f16[5,200], f32[30,200]) tuple(zero, x, m, h, r)
  l = (s32[], f32[30,5,200], pred[5,200], f16[5,200], f32[30,200]) while(s), condition=cond, body=body
  ROOT o = f32[30,200] get-tuple-element(l), index=4
}}
"""
    stream = Stream("columns", 0)
    x, m = stream.normal((30, 5, 200)), stream.integers(0, 2, (5, 200)).astype(bool)
    h, r = stream.normal((5, 200)).astype(np.float16), stream.normal((30, 200))
    want = r.astype(np.float64)
    wide = h.astype(np.float64)
    for i in range(9):
        y = (np.where(m, x[i : i + 20].astype(np.float64), wide) * wide).sum(1) + 0.25
        e = np.exp(y - y.max(1, keepdims=True))
        want[i : i + 20] = e / (e.sum(1, keepdims=True) + 0.25)
    [got] = run(text, x, m, h, r)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    for disable in ("column-folds", "vector-bytecode", "machine-code", "scalar-bytecode"):
        assert run(text, x, m, h, r, disable=(disable,))[0].tobytes() == got.tobytes()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32", "u8"])
@pytest.mark.parametrize("size", [31, 64, 65, 96, 100, 500, 3001, 140001])
def test_places_of_the_greatest_in_rows(dtype: str, size: int) -> None:
    """The first of the greatest in rows of few different values, of zeros of both signs, and of some NaN."""
    text = f"""HloModule places
later {{
  x = {dtype}[] parameter(0)
  i = s32[] parameter(1)
  y = {dtype}[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(x, y), direction=GT
  nan = pred[] compare(x, x), direction=NE
  wins = pred[] or(gt, nan)
  eq = pred[] compare(x, y), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  ties = pred[] and(eq, lt)
  left = pred[] or(wins, ties)
  v = {dtype}[] select(wins, x, y)
  k = s32[] select(left, i, j)
  ROOT t = ({dtype}[], s32[]) tuple(v, k)
}}
ENTRY main {{
  x = {dtype}[23,{size}] parameter(0)
  at = s32[23,{size}] iota(), iota_dimension=1
  low = {dtype}[] parameter(1)
  none = s32[] constant(0)
  ROOT r = ({dtype}[23], s32[23]) reduce(x, at, low, none), dimensions={{1}}, to_apply=later
}}
"""
    types = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "u8": np.uint8}
    stream = Stream("places", size)
    x = stream.integers(0, 50, (23, size)).astype(types[dtype])
    low: Any = types[dtype](0)
    if dtype in ("f32", "bf16"):
        x[3:6] = np.where(stream.integers(0, 2, (3, size)) == 0, -0.0, 0.0).astype(types[dtype])
        x[[7, 7, 8], [size // 2, size - 1, 0]] = np.nan
        low = types[dtype](-np.inf)
    values, places = run(text, x, low)
    wide = x.astype(np.float64)
    want = np.argmax(wide, 1)
    if dtype in ("s32", "u8"):
        # The initial value is left of them all.
        want = np.where(wide.max(1) == 0, 0, want)
    assert np.array_equal(places, want)
    assert np.array_equal(values.astype(np.float64), wide.max(1), equal_nan=True)
    for disable in ("select-reducers", "vector-bytecode"):
        other_values, other_places = run(text, x, low, disable=(disable,))
        assert other_places.tobytes() == places.tobytes()
        is_number = ~np.isnan(wide.max(1))
        assert other_values[is_number].tobytes() == values[is_number].tobytes()
