"""Sorts of which only the beginning of each row is read give what the whole sort gives, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "u8": np.uint8}
CANONICAL = """
  zero = TYPE[] constant(0)
  a_zero = pred[] compare(a, zero), direction=EQ
  b_zero = pred[] compare(b, zero), direction=EQ
  a_plus = TYPE[] select(a_zero, zero, a)
  b_plus = TYPE[] select(b_zero, zero, b)
  none = TYPE[] constant(nan)
  a_none = pred[] compare(a, a), direction=NE
  b_none = pred[] compare(b, b), direction=NE
  left = TYPE[] select(a_none, none, a_plus)
  right = TYPE[] select(b_none, none, b_plus)"""


@pytest.mark.parametrize("seed", range(60))
def test_beginnings_are_those_of_the_whole_sort(seed: int) -> None:
    stream = Stream("beginnings", seed)
    name = list(KINDS)[seed % len(KINDS)]
    is_float = name.startswith("f")
    dims = tuple(int(n) for n in stream.choice([1, 2, 5], int(stream.integers(0, 3)))) + (
        int(stream.choice([8, 33, 700], 1)[0]),
    )
    k = max(1, dims[-1] // int(stream.choice([4, 8, 100], 1)[0]))
    x = stream.integers(-6, 7, dims) / 2 if is_float else stream.integers(0, 9, dims)
    if is_float:
        x = np.where(stream.integers(0, 9, dims) == 0, stream.choice([np.nan, -0.0, np.inf], dims), x)
    x = x.astype(KINDS[name])
    v = stream.normal(dims)
    shape = ",".join(map(str, dims))
    short = ",".join(map(str, (*dims[:-1], k)))
    last = len(dims) - 1
    slices = ", ".join(f"[0:{n}]" for n in (*dims[:-1], k))
    compared = CANONICAL.replace("TYPE", name) if is_float else ""
    sides = "left, right" if is_float else "a, b"
    order = ", type=TOTALORDER" if is_float else ""
    direction = "GT" if seed % 3 == 0 else "LT"
    all_of = f"({name}[{shape}], f32[{shape}], s64[{shape}])"
    text = f"""HloModule m
first {{
  a = {name}[] parameter(0)
  b = {name}[] parameter(1){compared}
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = s64[] parameter(4)
  f = s64[] parameter(5)
  ROOT r = pred[] compare({sides}), direction={direction}{order}
}}
ENTRY e {{
  x = {name}[{shape}] parameter(0)
  v = f32[{shape}] parameter(1)
  i = s64[{shape}] iota(), iota_dimension={last}
  s = {all_of} sort(x, v, i), dimensions={{{last}}}, is_stable=true, to_apply=first
  keys = {name}[{shape}] get-tuple-element(s), index=0
  values = f32[{shape}] get-tuple-element(s), index=1
  places = s64[{shape}] get-tuple-element(s), index=2
  p = {name}[{short}] slice(keys), slice={{{slices}}}
  q = f32[{short}] slice(values), slice={{{slices}}}
  w = s64[{short}] slice(places), slice={{{slices}}}
  ROOT r = ({name}[{short}], f32[{short}], s64[{short}]) tuple(p, q, w)
}}"""
    module = hlorun.parse(text)
    fast = hlorun.compile(module)
    whole = hlorun.compile(module, disable=["sort-top-k"])
    assert any(step.name == "sort-top-k" and step.changes for step in fast.passes)
    for got, want in zip(fast(x, v), whole(x, v), strict=True):
        assert got.tobytes() == want.tobytes()
