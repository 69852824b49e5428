"""`bitcast` to another element type: in computations applied element by element, in comparators, between widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun

Array = np.ndarray[Any, Any]

FLOATS = np.array([np.nan, 1, -0.0, 0, np.inf, -np.inf, -np.nan, 2, -3, 1e-40], np.float32)


def run(text: str, *arguments: Array) -> Any:
    return hlorun.run(hlorun.parse(text), *arguments)


def entry(operand: str, lines: str) -> str:
    return f"HloModule m\nENTRY e {{\n p = {operand} parameter(0)\n {lines}\n}}"


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_a_comparator_orders_floats_by_their_bits(direction: str) -> None:
    text = f"""HloModule m
before {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  zero = s32[] constant(0)
  most = s32[] constant(2147483647)
  i = s32[] bitcast(a)
  j = s32[] bitcast(b)
  k = s32[] xor(most, i)
  l = s32[] xor(most, j)
  c = pred[] compare(i, zero), direction=LT
  d = pred[] compare(j, zero), direction=LT
  x = s32[] select(c, k, i)
  y = s32[] select(d, l, j)
  ROOT r = pred[] compare(x, y), direction={direction}
}}
ENTRY e {{
  p = f32[10] parameter(0)
  ROOT s = f32[10] sort(p), dimensions={{0}}, to_apply=before
}}"""
    bits = FLOATS.view(np.int32)
    order = np.argsort(np.where(bits < 0, bits ^ 0x7FFFFFFF, bits))
    want = FLOATS[order if direction == "LT" else order[::-1]]
    assert run(text, FLOATS).tobytes() == want.tobytes()


def test_a_computation_of_scalars_works_on_bits() -> None:
    text = """HloModule m
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] bitcast(a)
  j = s32[] bitcast(b)
  m = s32[] maximum(i, j)
  ROOT r = f32[] bitcast(m)
}
ENTRY e {
  p = f32[10] parameter(0)
  q = f32[10] reverse(p), dimensions={0}
  least = f32[] constant(-0)
  reduced = f32[] reduce(p, least), dimensions={0}, to_apply=most
  mapped = f32[10] map(p, q), dimensions={0}, to_apply=most
  ROOT r = (f32[], f32[10]) tuple(reduced, mapped)
}"""
    bits = FLOATS.view(np.int32)
    reduced, mapped = run(text, FLOATS)
    assert reduced.tobytes() == bits.max().tobytes()
    assert mapped.tobytes() == np.maximum(bits, bits[::-1]).tobytes()


def test_rows_of_a_loop_keep_their_type() -> None:
    text = """HloModule m
body {
  p = (s32[], s32[4,8], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  x = s32[4,8] get-tuple-element(p), index=1
  y = f32[4,8] get-tuple-element(p), index=2
  row = s32[1,8] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,8}
  ones = s32[1,8] broadcast(one), dimensions={}
  sum = s32[1,8] add(row, ones)
  floats = f32[1,8] bitcast(sum)
  z = f32[4,8] dynamic-update-slice(y, floats, i, zero)
  ROOT r = (s32[], s32[4,8], f32[4,8]) tuple(next, x, z)
}
condition {
  p = (s32[], s32[4,8], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = s32[4,8] parameter(0)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  y = f32[4,8] broadcast(none), dimensions={}
  t = (s32[], s32[4,8], f32[4,8]) tuple(zero, x, y)
  w = (s32[], s32[4,8], f32[4,8]) while(t), condition=condition, body=body
  ROOT r = f32[4,8] get-tuple-element(w), index=2
}"""
    x = np.arange(32, dtype=np.int32).reshape(4, 8) + 0x3F800000
    assert run(text, x).tobytes() == (x + 1).tobytes()


def test_widths_change_in_physical_order() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = run(entry("f32[2,3]{1,0}", "ROOT r = u16[2,3,2]{0,1,2} bitcast(p)"), x)
    assert np.array_equal(got, x.view(np.uint16).ravel().reshape((2, 3, 2), order="F"))
    got = run(entry("f32[2,3]{0,1}", "ROOT r = u8[24] bitcast(p)"), x)
    assert np.array_equal(got, np.ascontiguousarray(x.T).view(np.uint8).ravel())
    got = run(entry("u8[24]", "ROOT r = f64[3]{0} bitcast(p)"), np.arange(24, dtype=np.uint8))
    assert np.array_equal(got, np.arange(24, dtype=np.uint8).view(np.float64))
    nibbles = "q = u4[4] bitcast(p)\n ROOT r = s32[4] convert(q)"
    assert run(entry("s8[2]", nibbles), np.array([-1, 0x21], np.int8)).tolist() == [15, 15, 1, 2]
    assert run(entry("pred[3]", "ROOT r = u8[3] bitcast(p)"), np.array([False, True, True])).tolist() == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize("call", ["fusion(p), kind=kInput, calls=f", "call(p), to_apply=f"])
def test_the_layout_of_the_text_counts(call: str) -> None:
    """A parameter of a called computation may have another layout than what is passed."""
    text = f"""HloModule m
f {{
  p = f32[2,3]{{1,0}} parameter(0)
  ROOT r = f32[3,2]{{1,0}} bitcast(p)
}}
ENTRY e {{
  p = f32[2,3]{{0,1}} parameter(0)
  ROOT c = f32[3,2]{{1,0}} {call}
}}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(run(text, x), x.reshape(3, 2))


def test_the_layout_of_a_replaced_operand_counts() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  q = f32[2,3]{0,1} parameter(1)
  c = pred[] parameter(2)
  t = (f32[2,3]{0,1}) tuple(p)
  u = (f32[2,3]{0,1}) tuple(q)
  s = (f32[2,3]{0,1}) tuple-select(c, t, u)
  g = f32[2,3]{0,1} get-tuple-element(s), index=0
  ROOT r = f32[3,2]{1,0} bitcast(g)
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(run(text, x, -x, np.array(True)), x.T)
