"""Updates of arrays of which parts are needed afterwards, in loops and outside, with and without their passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]
PASSES = ("update-order", "updated-parts", "select-updates", "one-hot-updates")


def loop(array: str, body: str, result: str) -> str:
    """A loop of 40 trips over `x`, with two places `p` and `q` in each."""
    state = f"(s32[], {array}, s32[40,2])"
    return f"""HloModule updates
sum {{
  a.2 = f32[] parameter(0)
  b.2 = f32[] parameter(1)
  ROOT c.2 = f32[] add(a.2, b.2)
}}
goes_on {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = {array} get-tuple-element(s), index=1
  places = s32[40,2] get-tuple-element(s), index=2
  p.1 = s32[1,1] dynamic-slice(places, i, zero), dynamic_slice_sizes={{1,1}}
  p = s32[] reshape(p.1)
  q.1 = s32[1,1] dynamic-slice(places, i, one), dynamic_slice_sizes={{1,1}}
  q = s32[] reshape(q.1)
{body}
  ROOT r = {state} tuple(next, {result}, places)
}}
ENTRY e {{
  x = {array} parameter(0)
  places = s32[40,2] parameter(1)
  zero = s32[] constant(0)
  s = {state} tuple(zero, x, places)
  w = {state} while(s), condition=goes_on, body=step
  ROOT y = {array} get-tuple-element(w), index=1
}}
"""


def check(text: str, want: Array, *arguments: Array) -> None:
    module = hlorun.parse(text)
    for disable in ((), PASSES[:1], PASSES[1:2], PASSES[2:], PASSES, ("machine-code",)):
        got = hlorun.compile(module, disable=list(disable), check=True)(*arguments)
        np.testing.assert_array_equal(got, want, err_msg=str(disable))


def places(length: int, *facts: object) -> Array:
    """Pairs of places, some of them the same twice."""
    pairs: Array = Stream("places", length, *facts).integers(0, length, (40, 2)).astype(np.int32)
    pairs[::7, 1] = pairs[::7, 0]
    return pairs


@pytest.mark.parametrize("length", [3, 50, 5000])
@pytest.mark.parametrize("is_late", [True, False])
def test_swaps(length: int, is_late: bool) -> None:
    """A slice that the module reads before or after the first update."""
    x = Stream("swaps", length).normal(length)
    slice_of_q = "  b = f32[1] dynamic-slice(x, q), dynamic_slice_sizes={1}\n"
    body = f"""  a = f32[1] dynamic-slice(x, p), dynamic_slice_sizes={{1}}
{"" if is_late else slice_of_q}  y = f32[{length}] dynamic-update-slice(x, a, q)
{slice_of_q if is_late else ""}  z = f32[{length}] dynamic-update-slice(y, b, p)"""
    at = places(length)
    want = x.copy()
    for p, q in at:
        want[[q, p]] = want[[p, q]]
    check(loop(f"f32[{length}]", body, "z"), want, x, at)


@pytest.mark.parametrize("dims", [(40, 30), (3, 8), (200, 4)])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_of_which_two_change(dims: tuple[int, int], axis: int) -> None:
    x = Stream("columns", dims, axis).normal(dims)
    n, m = dims
    part = f"f32[1,{m}]" if axis == 0 else f"f32[{n},1]"
    sizes = part[3:].strip("[]")
    first, second = ("p, zero", "q, zero") if axis == 0 else ("zero, p", "zero, q")
    body = f"""  c = {part} dynamic-slice(x, {first}), dynamic_slice_sizes={{{sizes}}}
  d = {part} dynamic-slice(x, {second}), dynamic_slice_sizes={{{sizes}}}
  half = f32[] constant(0.5)
  halves = {part} broadcast(half), dimensions={{}}
  c.1 = {part} multiply(c, halves)
  u = {part} add(c.1, d)
  y = f32[{n},{m}] dynamic-update-slice(x, u, {first})
  v = {part} subtract(c.1, d)
  z = f32[{n},{m}] dynamic-update-slice(y, v, {second})"""
    at = places(dims[axis], axis)
    want = x.copy()
    for p, q in at:
        c, d = want.take(p, axis) * np.float32(0.5), want.take(q, axis)
        both = (slice(None), p) if axis else (p,), (slice(None), q) if axis else (q,)
        want[both[0]] = c + d
        want[both[1]] = c - d
    check(loop(f"f32[{n},{m}]", body, "z"), want, x, at)


@pytest.mark.parametrize("length", [4, 300])
def test_updates_before_a_sum_of_the_array(length: int) -> None:
    """The sum of the array as it was is written into its first element in the same trip."""
    x = Stream("sums", length).integers(-9, 9, length).astype(np.float32)
    body = f"""  a = f32[1] dynamic-slice(x, p), dynamic_slice_sizes={{1}}
  y = f32[{length}] dynamic-update-slice(x, a, q)
  b = f32[1] dynamic-slice(y, p), dynamic_slice_sizes={{1}}
  z = f32[{length}] dynamic-update-slice(y, b, i)
  start = f32[] constant(0)
  all = f32[] reduce(x, start), dimensions={{0}}, to_apply=sum
  ten = f32[] constant(10)
  rest = f32[] remainder(all, ten)
  t = f32[1] reshape(rest)
  v = f32[{length}] dynamic-update-slice(z, t, zero)"""
    at = places(length, "sum")
    want = x.copy()
    for i, (p, q) in enumerate(at):
        total = np.fmod(want.sum(dtype=np.float32), np.float32(10))
        want[q] = want[p]
        want[min(i, length - 1)] = want[p]
        want[0] = total
    check(loop(f"f32[{length}]", body, "v"), want, x, at)


@pytest.mark.parametrize("length", [5, 300])
@pytest.mark.parametrize("is_swapped", [True, False])
def test_an_update_that_is_selected(length: int, is_swapped: bool) -> None:
    """Two updates that may overlap: both happen, or none."""
    x = Stream("selected", length).normal(length)
    sides = "v, x" if is_swapped else "x, v"
    body = f"""  a = f32[1] dynamic-slice(x, q), dynamic_slice_sizes={{1}}
  zeros = f32[1] broadcast(f32[] constant(0)), dimensions={{}}
  is = pred[1] compare(a, zeros), direction=GT
  c = pred[] reshape(is)
  b = f32[2] broadcast(f32[] constant(0.25)), dimensions={{}}
  y = f32[{length}] dynamic-update-slice(x, b, p)
  d = f32[1] negate(a)
  v = f32[{length}] dynamic-update-slice(y, d, q)
  all = pred[{length}] broadcast(c), dimensions={{}}
  z = f32[{length}] select(all, {sides})"""
    body = body.replace("broadcast(f32[] constant(0))", "broadcast(nought)").replace(
        "broadcast(f32[] constant(0.25))", "broadcast(quarter)"
    )
    body = "  nought = f32[] constant(0)\n  quarter = f32[] constant(0.25)\n" + body
    at = places(length, "selected")
    want = x.copy()
    for p, q in at:
        old = want[q]
        if (old > 0) == is_swapped:
            want[min(p, length - 2) :][:2] = 0.25
            want[q] = -old
    check(loop(f"f32[{length}]", body, "z"), want, x, at)


@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("combine", ["put", "sum"])
def test_scatters_of_a_batch_of_which_some_are_selected(count: int, combine: str) -> None:
    """Places outside, too; rows stay where the mask is true."""
    stream = Stream("batch", count, combine)
    n = 60
    x = stream.normal((count, n))
    body = f"""  steps = s32[{count}] iota(), iota_dimension=0
  ps = s32[{count}] broadcast(p), dimensions={{}}
  qs = s32[{count}] broadcast(q), dimensions={{}}
  w = s32[{count}] multiply(steps, ps)
  index = s32[{count}] subtract(w, qs)
  places.1 = s32[{count},1] reshape(index)
  column = f32[{count},1] slice(x), slice={{[0:{count}], [3:4]}}
  values = f32[{count}] reshape(column)
  halves = f32[{count}] broadcast(half), dimensions={{}}
  u = f32[{count}] multiply(values, halves)
  y = f32[{count},{n}] scatter(x, places.1, u), update_window_dims={{}}, inserted_window_dims={{1}},
    scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}},
    index_vector_dim=1, indices_are_sorted=true, unique_indices=true, to_apply={combine}
  noughts = f32[{count}] broadcast(nought), dimensions={{}}
  c = pred[{count}] compare(values, noughts), direction=GT
  all = pred[{count},{n}] broadcast(c), dimensions={{0}}
  z = f32[{count},{n}] select(all, x, y)"""
    body = "  half = f32[] constant(0.5)\n  nought = f32[] constant(0)\n" + body
    text = loop(f"f32[{count},{n}]", body, "z").replace(
        "goes_on {",
        "put {\n  a.3 = f32[] parameter(0)\n  ROOT b.3 = f32[] parameter(1)\n}\ngoes_on {",
        1,
    )
    at = Stream("batch places").integers(0, 12, (40, 2)).astype(np.int32)
    want = x.copy()
    for p, q in at:
        old = want[:, 3].copy()
        for row in range(count):
            place = row * p - q
            if old[row] > 0 or not 0 <= place < n:
                continue
            update = old[row] * np.float32(0.5)
            want[row, place] = want[row, place] + update if combine == "sum" else update
    check(text, want, x, at)


@pytest.mark.parametrize("dims", [(40, 30), (300, 2), (2, 300)])
@pytest.mark.parametrize("kind", ["row", "column", "element"])
def test_one_index_that_changes(dims: tuple[int, int], kind: str) -> None:
    """The index is outside in some trips."""
    n, m = dims
    x = Stream("one hot", dims, kind).normal(dims)
    matrix = f"{n},{m}"
    body = f"""  three = s32[] constant(3)
  k = s32[] subtract(p, three)
  ks = s32[{matrix}] broadcast(k), dimensions={{}}
  qs = s32[{matrix}] broadcast(q), dimensions={{}}
  rows = s32[{matrix}] iota(), iota_dimension=0
  columns = s32[{matrix}] iota(), iota_dimension=1
  row = pred[{matrix}] compare(rows, ks), direction=EQ
  column = pred[{matrix}] compare(qs, columns), direction=EQ
  element = pred[{matrix}] and(row, column)
  tenth = f32[] constant(0.1)
  tenths = f32[{matrix}] broadcast(tenth), dimensions={{}}
  new = f32[{matrix}] subtract(tenths, x)
  z = f32[{matrix}] select({kind}, new, x)"""
    at = np.stack([places(n + 5, "one")[:, 0], places(m + 2, "hot")[:, 1]], 1)
    want = x.copy()
    for p, q in at:
        row, column = np.arange(n)[:, None] == p - 3, np.arange(m) == q
        mask = {"row": row | np.zeros_like(column), "column": np.zeros_like(row) | column, "element": row & column}
        want = np.where(mask[kind], np.float32(0.1) - want, want)
    check(loop(f"f32[{matrix}]", body, "z"), want, x, at)


def test_a_mask_of_many_comparisons() -> None:
    """A chain of tens of thousands, with a selection by each of many of them: nothing is followed to its end."""
    count = 30_000
    chain = "\n".join(f"  m{k + 1} = pred[300] and(m{k}, one_more)" for k in range(count))
    selects = "\n".join(
        f"  x{k + 1} = f32[300] select(m{k * 30}, new, x{k})" for k in range(count // 30)
    )
    body = f"""  steps = s32[300] iota(), iota_dimension=0
  ps = s32[300] broadcast(p), dimensions={{}}
  m0 = pred[300] compare(steps, ps), direction=EQ
  qs = s32[300] broadcast(q), dimensions={{}}
  one_more = pred[300] compare(steps, qs), direction=NE
{chain}
  half = f32[] constant(0.5)
  new = f32[300] broadcast(half), dimensions={{}}
  x0 = f32[300] negate(x)
{selects}"""
    text = loop("f32[300]", body, f"x{count // 30}")
    x, at = Stream("chain").normal(300), places(300, "chain")
    want = x.copy()
    for p in at[:, 0]:
        want = -want
        want[p] = 0.5
    np.testing.assert_array_equal(hlorun.compile(hlorun.parse(text))(x, at), want)


def test_parts_of_what_a_scatter_changes() -> None:
    stream = Stream("scatter")
    x, u = stream.normal((40, 30)), stream.normal((70, 30))
    at = stream.integers(-1, 41, 70).astype(np.int32)
    text = """HloModule scattered
put {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY e {
  p = f32[40,30] parameter(0)
  i = s32[70] parameter(1)
  u = f32[70,30] parameter(2)
  x = f32[40,30] negate(p)
  z = f32[40,30] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=put
  row = f32[1,30] slice(x), slice={[3:4], [0:30]}
  f = f32[30] reshape(row)
  rows = f32[40,30] broadcast(f), dimensions={1}
  ROOT r = f32[40,30] subtract(z, rows)
}
"""
    want = -x
    for place, row in zip(at, u, strict=True):
        if 0 <= place < 40:
            want[place] = row
    check(text, want - -x[3], x, at, u)
