"""Loops of small steps run as scalar bytecode: the same bits as step by step, with any passes."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any

import numpy as np
import pytest

import hlorun
import oracle
import random_loops
from streams import Stream

INPUTS: list[Any] = [
    np.int32(5),
    np.float32(1.25),
    np.uint32(77),
    np.array([3, -1, 4, 1, -5, 9], np.int32),
    np.array([0.5, -2.0, 8.25, 0.0, -0.0, 3.0], np.float32),
]


@pytest.mark.parametrize("seed", range(60))
def test_random_loops_are_the_same_step_by_step(seed: int) -> None:
    module = hlorun.parse(random_loops.text(seed))
    wanted = hlorun.compile(module, disable=["scalar-bytecode"])(*INPUTS)
    plain = hlorun.compile(module, disable=hlorun.Executable.optional_passes)(*INPUTS)
    for result in (hlorun.compile(module)(*INPUTS), plain):
        for a, b in zip(result, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib")
def test_random_loops_agree() -> None:
    """Counters, slices at places that change and conditions mean what they mean to XLA:CPU."""
    xla = oracle.Oracle()
    try:
        for seed in range(80):
            text = random_loops.text(seed)
            try:
                wanted = xla.run(text, [np.asarray(x) for x in INPUTS])
            except oracle.Refused:
                continue
            for k, (a, b) in enumerate(zip(hlorun.compile(hlorun.parse(text))(*INPUTS), wanted, strict=True)):
                np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=f"seed {seed}, result {k}")
    finally:
        xla.close()


COUNT = """HloModule count
body {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  half = f32[] constant(0.5)
  j = s32[] add(i, one)
  y = f32[] multiply(x, half)
  ROOT r = (s32[], f32[]) tuple(j, y)
}
condition {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(LIMIT)
  ROOT q = pred[] compare(i, n), direction=RELATION
}
ENTRY main {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[]) tuple(zero, x)
  ROOT w = (s32[], f32[]) while(t), condition=condition, body=body
}
"""


def test_no_trip_and_many() -> None:
    for limit in (-1, 0, 1, 2, 70000):
        module = hlorun.parse(COUNT.replace("LIMIT", str(limit)).replace("RELATION", "LT"))
        count, value = hlorun.compile(module)(np.float32(3))
        assert count == max(limit, 0)
        assert value == np.float32(3) * np.float32(0.5) ** min(max(limit, 0), 200)


def test_an_endless_comparison_can_be_interrupted() -> None:
    text = COUNT.replace("LIMIT", "-1").replace("RELATION", "NE").replace("add(i, one)", "and(i, one)")
    executable = hlorun.compile(hlorun.parse(text))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executable(np.float32(1))
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_profiles_still_show_every_step() -> None:
    module = hlorun.parse(COUNT.replace("LIMIT", "3").replace("RELATION", "LT"))
    (count, _), steps = hlorun.compile(module).profile(np.float32(1))
    assert count == 3
    assert len(steps) > 6


BITCAST = """HloModule bitcast
condition {
  p = (s32[], f32[2,3]{0,1}, f32[2,3]{1,0}, f32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT q = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[2,3]{0,1}, f32[2,3]{1,0}, f32[6]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[2,3]{0,1} get-tuple-element(p), index=1
  y = f32[2,3]{1,0} get-tuple-element(p), index=2
  sum = f32[6] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  always = pred[] compare(i, zero), direction=GE
  chosen = f32[2,3]{1,0} select(always, x, y)
  flat = f32[6] bitcast(chosen)
  more = f32[6] add(sum, flat)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[2,3]{0,1}, f32[2,3]{1,0}, f32[6]) tuple(j, x, y, more)
}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  y = f32[2,3]{1,0} parameter(1)
  sum = f32[6] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[2,3]{0,1}, f32[2,3]{1,0}, f32[6]) tuple(zero, x, y, sum)
  w = (s32[], f32[2,3]{0,1}, f32[2,3]{1,0}, f32[6]) while(t), condition=condition, body=body
  ROOT g = f32[6] get-tuple-element(w), index=3
}
"""


@pytest.mark.parametrize("disable", [[], ["range-analysis"]])
def test_a_known_choice_keeps_its_layout(disable: list[str]) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = hlorun.compile(hlorun.parse(BITCAST), disable=disable)(
        x, np.ones_like(x), np.zeros(6, np.float32)
    )
    np.testing.assert_array_equal(result, 4 * np.arange(6, dtype=np.float32))


GATHER = """HloModule m
body {
  p = (s32[], f32[8,30]{LAYOUT}, TYPE[3,5,2], f32[3,5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8,30]{LAYOUT} get-tuple-element(p), index=1
  places = TYPE[3,5,2] get-tuple-element(p), index=2
  sum = f32[3,5] get-tuple-element(p), index=3
  g = f32[3,5] gather(x, places), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=2, slice_sizes={1,1}
  pairs = f32[2,3,5]{0,2,1} gather(x, places), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={1,0}, index_vector_dim=2, slice_sizes={1,2}
  zero = f32[] constant(0)
  folded = f32[3,5] reduce(pairs, zero), dimensions={0}, to_apply=add
  first = s32[] constant(0)
  column = f32[8,1] dynamic-slice(x, first, i), dynamic_slice_sizes={8,1}
  turned = f32[8,1] multiply(column, column)
  next = f32[8,30]{LAYOUT} dynamic-update-slice(x, turned, first, i)
  half = f32[] constant(0.5)
  halves = f32[3,5] broadcast(half), dimensions={}
  less = f32[3,5] multiply(sum, halves)
  more = f32[3,5] add(less, g)
  all = f32[3,5] add(more, folded)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,30]{LAYOUT}, TYPE[3,5,2], f32[3,5]) tuple(j, next, places, all)
}
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
condition {
  p = (s32[], f32[8,30]{LAYOUT}, TYPE[3,5,2], f32[3,5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(29)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[8,30]{LAYOUT} parameter(0)
  places = TYPE[3,5,2] parameter(1)
  sum = f32[3,5] parameter(2)
  t = (s32[], f32[8,30]{LAYOUT}, TYPE[3,5,2], f32[3,5]) tuple(zero, x, places, sum)
  w = (s32[], f32[8,30]{LAYOUT}, TYPE[3,5,2], f32[3,5]) while(t), condition=condition, body=body
  after = f32[8,30]{LAYOUT} get-tuple-element(w), index=1
  result = f32[3,5] get-tuple-element(w), index=3
  ROOT r = (f32[8,30], f32[3,5]) tuple(after, result)
}
"""


@pytest.mark.parametrize("kind", ["s8", "u8", "s32", "u64"])
@pytest.mark.parametrize("layout", ["1,0", "0,1"])
def test_windows_of_gathers_and_elements_that_lie_apart(kind: str, layout: str) -> None:
    """Each is an operation of the code; places outside are moved inside."""
    dtypes: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32, "u64": np.uint64}
    dtype = dtypes[kind]
    stream = Stream("gathered windows", kind, layout)
    info = np.iinfo(dtype)
    places = stream.integers(0, 35, (3, 5, 2)).astype(dtype)
    places[0, 1], places[2, 3] = (info.min, info.max), (info.max, info.min)
    x = stream.normal((8, 30))
    start = stream.normal((3, 5))
    text = GATHER.replace("{LAYOUT}", f"{{{layout}}}").replace("TYPE", kind)
    module = hlorun.parse(text)
    if layout == "1,0":
        assert "bytecode, 0 thunks outside" in hlorun.compile(module).listing()
    want, sums = x.copy(), start.copy()
    rows = np.clip(places[..., 1].astype(np.float64), 0, 7).astype(int)
    columns = np.clip(places[..., 0].astype(np.float64), 0, 29).astype(int)
    shifted = np.minimum(columns, 28)
    for i in range(29):
        both = want[rows, shifted] + want[rows, shifted + 1]
        sums = sums * np.float32(0.5) + want[rows, columns] + both
        want[:, i] *= want[:, i]
    for disabled in ([], ["machine-code"], ["scalar-bytecode"]):
        after, result = hlorun.compile(module, disable=disabled)(x, places, start)
        np.testing.assert_array_equal(after, want)
        np.testing.assert_allclose(result, sums, rtol=1e-6)
