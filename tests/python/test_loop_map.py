"""Loops that compute rows one after the other give what whole arrays give."""

from __future__ import annotations

import numpy as np
import pytest

import hlorun
from streams import Stream

STEPS = ["add", "multiply", "subtract", "maximum", "minimum", "divide"]


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_the_loop(seed: int) -> None:
    stream = Stream("rows", seed)
    kind = ["f32", "f64", "s32"][seed % 3]
    trips = int(stream.choice([4, 7, 50, 3000], 1)[0])
    row = [int(n) for n in stream.choice([1, 3, 20], int(stream.integers(0, 3)))]
    dims = ",".join(map(str, row))
    all_dims = ",".join(map(str, [trips, *row]))
    one = ",".join(map(str, [1, *row]))
    zeros = ", ".join(["at", *["nought"] * len(row)])
    sizes = f"dynamic_slice_sizes={{{one}}}"
    values = ["u", "v", "c"]
    lines = []
    for k in range(int(stream.integers(1, 7))):
        a, b = (values[int(n)] for n in stream.integers(0, len(values), 2))
        if stream.integers(0, 3) == 0:
            lines.append(f"  g{k} = pred[{dims}] compare({a}, {b}), direction=GT")
            lines.append(f"  w{k} = {kind}[{dims}] select(g{k}, {b}, {a})")
        else:
            lines.append(f"  w{k} = {kind}[{dims}] {STEPS[int(stream.integers(0, 5))]}({a}, {b})")
        values.append(f"w{k}")
    index = "subtract(last, i)" if seed % 2 else "add(i, nought)"
    steps = "\n".join(lines)
    state = f"(s32[], {kind}[{all_dims}], {kind}[{all_dims}], {kind}[{dims}], {kind}[{all_dims}])"
    text = f"""HloModule m
condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {kind}[{all_dims}] get-tuple-element(s), index=1
  y = {kind}[{all_dims}] get-tuple-element(s), index=2
  b = {kind}[{dims}] get-tuple-element(s), index=3
  z = {kind}[{all_dims}] get-tuple-element(s), index=4
  one = s32[] constant(1)
  nought = s32[] constant(0)
  last = s32[] constant({trips - 1})
  next = s32[] add(i, one)
  at = s32[] {index}
  p = {kind}[{one}] dynamic-slice(x, {zeros}), {sizes}
  q = {kind}[{one}] dynamic-slice(y, {zeros}), {sizes}
  u = {kind}[{dims}] reshape(p)
  v = {kind}[{dims}] reshape(q)
  two = {kind}[] constant(2)
  twos = {kind}[{dims}] broadcast(two), dimensions={{}}
  c = {kind}[{dims}] multiply(b, twos)
{steps}
  w = {kind}[{one}] reshape({values[-1]})
  all = {kind}[{all_dims}] dynamic-update-slice(z, w, {zeros})
  ROOT r = {state} tuple(next, x, y, b, all)
}}
ENTRY e {{
  x = {kind}[{all_dims}] parameter(0)
  y = {kind}[{all_dims}] parameter(1)
  b = {kind}[{dims}] parameter(2)
  zero = s32[] constant(0)
  none = {kind}[] constant(0)
  start = {kind}[{all_dims}] broadcast(none), dimensions={{}}
  s = {state} tuple(zero, x, y, b, start)
  w = {state} while(s), condition=condition, body=body
  ROOT r = {kind}[{all_dims}] get-tuple-element(w), index=4
}}"""
    type_ = {"f32": np.float32, "f64": np.float64, "s32": np.int32}[kind]
    x, y = (stream.integers(-40, 40, [trips, *row]).astype(type_) for _ in range(2))
    b = stream.integers(-40, 40, row).astype(type_)
    module = hlorun.parse(text)
    fast = hlorun.compile(module)
    assert any(step.name == "loop-map" and step.changes for step in fast.passes)
    want = hlorun.compile(module, disable=["loop-map"])(x, y, b)
    assert fast(x, y, b).tobytes() == want.tobytes()
