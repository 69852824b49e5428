"""Reductions by a computation of several results: what NumPy says, to the bit, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Array, Stream

KINDS: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "s32": np.int32,
    "s8": np.int8,
    "s64": np.int64,
}
# Of one dimension that is reduced with some before and after it: short and long rows, of lengths that lanes divide and do
# not, few and many columns.
SHAPES = [
    (1, 1, 1),
    (300, 14, 1),
    (40, 137, 1),
    (3, 15001, 1),
    (700, 65, 1),
    (90, 128, 1),
    (1, 70000, 1),
    (1, 6, 12007),
    (5, 9, 33),
    (1, 400, 37),
    (2, 3000, 5),
    (37, 20, 3),
    (50, 2, 7),
]


def reducer(kind: str, index: str, ties: str) -> str:
    """The larger value and its index; of equal ones the first or the last."""
    return f"""pick {{
  a = {kind}[] parameter(0)
  i = {index}[] parameter(1)
  b = {kind}[] parameter(2)
  j = {index}[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction={ties}
  tie = pred[] and(same, before)
  left = pred[] or(more, tie)
  x = {kind}[] select(left, a, b)
  k = {index}[] select(left, i, j)
  ROOT r = ({kind}[], {index}[]) tuple(x, k)
}}"""


def picked(x: Array, first: bool) -> tuple[Array, Array]:
    """The largest values along the middle dimension, and where they are."""
    at = x.argmax(1) if first else x.shape[1] - 1 - x[:, ::-1].argmax(1)
    return np.take_along_axis(x, at[:, None], 1)[:, 0], at


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", SHAPES)
def test_values_and_indices(kind: str, dims: tuple[int, int, int]) -> None:
    stream = Stream("picked", kind, dims)
    x = stream.integers(-90, 90, dims).astype(KINDS[kind])
    shape = ",".join(map(str, dims))
    kept = f"{dims[0]},{dims[2]}"
    for ties in ("LT", "GT"):
        text = f"""HloModule m
{reducer(kind, "s64", ties)}
ENTRY e {{
  p = {kind}[{shape}] parameter(0)
  line = s64[{dims[1]}] iota(), iota_dimension=0
  i = s64[{shape}] broadcast(line), dimensions={{1}}
  least = {kind}[] constant(-100)
  none = s64[] constant({dims[1] if ties == "LT" else -1})
  m = ({kind}[{kept}], s64[{kept}]) reduce(p, i, least, none), dimensions={{1}}, to_apply=pick
  x = {kind}[{kept}] get-tuple-element(m), index=0
  k = s64[{kept}] get-tuple-element(m), index=1
  ROOT r = ({kind}[{kept}], s64[{kept}]) tuple(x, k)
}}"""
        want = picked(x, ties == "LT")
        for options in ({"threads": 1}, {"threads": 4}, {"disable": ["narrow-indices"]}):
            executable = hlorun.compile(hlorun.parse(text), **options)
            got = executable(x)
            assert np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1]), (options, ties)


@pytest.mark.parametrize("kind", ["f32", "f16", "f64"])
@pytest.mark.parametrize("dims", SHAPES)
def test_the_first_nan_is_the_largest(kind: str, dims: tuple[int, int, int]) -> None:
    stream = Stream("nan", kind, dims)
    x = stream.integers(-9, 9, dims).astype(KINDS[kind])
    x = np.where(stream.integers(0, 2 * dims[1], dims) == 0, np.nan, x).astype(KINDS[kind])
    shape = ",".join(map(str, dims))
    kept = f"{dims[0]},{dims[2]}"
    text = f"""HloModule m
pick {{
  a = {kind}[] parameter(0)
  i = s64[] parameter(1)
  b = {kind}[] parameter(2)
  j = s64[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  none = pred[] compare(a, a), direction=NE
  wins = pred[] or(more, none)
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  first = pred[] or(wins, tie)
  x = {kind}[] select(wins, a, b)
  k = s64[] select(first, i, j)
  ROOT r = ({kind}[], s64[]) tuple(x, k)
}}
ENTRY e {{
  p = {kind}[{shape}] parameter(0)
  line = s64[{dims[1]}] iota(), iota_dimension=0
  i = s64[{shape}] broadcast(line), dimensions={{1}}
  least = {kind}[] constant(-inf)
  none = s64[] constant(0)
  m = ({kind}[{kept}], s64[{kept}]) reduce(p, i, least, none), dimensions={{1}}, to_apply=pick
  x = {kind}[{kept}] get-tuple-element(m), index=0
  k = s64[{kept}] get-tuple-element(m), index=1
  ROOT r = ({kind}[{kept}], s64[{kept}]) tuple(x, k)
}}"""
    at = x.argmax(1)
    values = np.take_along_axis(x, at[:, None], 1)[:, 0]
    for options in ({"threads": 1}, {"threads": 3}, {"disable": ["narrow-indices"]}):
        got = hlorun.compile(hlorun.parse(text), **options)(x)
        assert np.array_equal(got[0], values, equal_nan=True) and np.array_equal(got[1], at), options


@pytest.mark.parametrize("dims", SHAPES)
def test_sums_have_the_same_bits_for_all_threads(dims: tuple[int, int, int]) -> None:
    stream = Stream("two sums", dims)
    x = stream.uniform(-1, 1, dims, np.float32)
    shape = ",".join(map(str, dims))
    kept = f"{dims[0]},{dims[2]}"
    text = f"""HloModule m
both {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  t = f32[] add(b, d)
  ROOT r = (f32[], f32[]) tuple(s, t)
}}
ENTRY e {{
  p = f32[{shape}] parameter(0)
  q = f32[{shape}] multiply(p, p)
  zero = f32[] constant(0)
  ROOT m = (f32[{kept}], f32[{kept}]) reduce(p, q, zero, zero), dimensions={{1}}, to_apply=both
}}"""
    module = hlorun.parse(text)
    one = hlorun.compile(module, threads=1)(x)
    for threads in (2, 3, 7):
        many = hlorun.compile(module, threads=threads)(x)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, many, strict=True)), threads
    wide = x.astype(np.float64)
    scale = np.abs(wide).sum(1) * 1e-6
    assert (np.abs(one[0] - wide.sum(1)) <= scale).all()
    assert (np.abs(one[1] - (wide * wide).sum(1)) <= scale).all()


@pytest.mark.parametrize("dims", [(3000, 8), (500, 7), (900, 3), (400, 31), (77, 100), (8, 5000), (1, 9)])
@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_truth_values_of_rows(dims: tuple[int, int], op: str) -> None:
    stream = Stream("truths", dims, op)
    rare = stream.integers(0, 2 * dims[1], dims) == 0
    x = ~rare if op == "and" else rare
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op]
    start = "true" if op == "and" else "false"
    text = f"""HloModule m
all {{
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] {op}(a, b)
}}
ENTRY e {{
  p = pred[{dims[0]},{dims[1]}] parameter(0)
  s = pred[] constant({start})
  ROOT m = pred[{dims[0]}] reduce(p, s), dimensions={{1}}, to_apply=all
}}"""
    got = hlorun.compile(hlorun.parse(text))(x)
    assert np.array_equal(got, function.reduce(x, axis=1))


def test_reducers_that_compare_bits() -> None:
    """The order of reinterpreted bits is another one than that of the values: as unsigned numbers, -1 is the largest."""
    bits = "  p = u32[] bitcast-convert(a)\n  q = u32[] bitcast-convert(b)\n"
    pick = reducer("s32", "s32", "LT").replace("compare(a, b)", "compare(p, q)")
    pick = pick.replace("  more", bits + "  more", 1)
    text = f"""HloModule m
{pick}
ENTRY e {{
  v = s32[70,5] parameter(0)
  n = s32[70,5] iota(), iota_dimension=1
  least = s32[] constant(0)
  none = s32[] constant(99)
  ROOT m = (s32[70], s32[70]) reduce(v, n, least, none), dimensions={{1}}, to_apply=pick
}}"""
    x = Stream("bits").integers(-3, 4, (70, 5)).astype(np.int32)
    x[:, 0] = np.where((x == 0).all(1), 1, x[:, 0])
    values, places = hlorun.compile(hlorun.parse(text))(x)
    want = x.view(np.uint32).argmax(1)
    assert np.array_equal(places, want)
    assert np.array_equal(values, np.take_along_axis(x, want[:, None], 1)[:, 0])
