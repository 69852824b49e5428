"""Observers, results into given arrays, constants from outside, passes by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from hlorun._inputs import random_inputs

LOOP = """HloModule m
double { x = f32[2] parameter(0)
  ROOT twice = f32[2] add(x, x) }
body { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[2] get-tuple-element(s), index=1
  grown = f32[2] fusion(v), kind=kLoop, calls=double
  ROOT t = (s32[], f32[2]) tuple(next, grown) }
cond { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT }
ENTRY e { p = f32[2] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[2]) tuple(zero, p)
  loop = (s32[], f32[2]) while(start), condition=cond, body=body
  ROOT out = f32[2] get-tuple-element(loop), index=1 }
"""


def observe(module: hlorun.HloModule, *arrays: Any) -> tuple[Any, list[tuple[str, str, Any]]]:
    seen = []

    def observer(instruction: hlorun.HloInstruction, value: Any) -> None:
        seen.append((instruction.computation.name, instruction.name, value))

    return hlorun.compile(module)(*arrays, observer=observer), seen


def test_every_trip_of_a_loop_is_shown_and_fusions_with_their_insides() -> None:
    result, seen = observe(hlorun.parse(LOOP), np.array([1, 2], np.float32))
    np.testing.assert_array_equal(result, [8, 16])
    grown = [value.tolist() for _, name, value in seen if name == "grown"]
    assert grown == [[2, 4], [4, 8], [8, 16]]
    assert [c for c, name, _ in seen if name == "twice"] == ["double"] * 3
    assert [bool(value) for _, name, value in seen if name == "less"] == [True, True, True, False]
    ((_, _, loop),) = [item for item in seen if item[1] == "loop"]
    assert loop[0] == 3 and loop[1].tolist() == [8, 16]


@pytest.mark.parametrize("number", ["001", "003"])
def test_values_of_dumps_are_those_of_the_run(modules: dict[str, hlorun.HloModule], number: str) -> None:
    module = modules[number]
    arguments = random_inputs(module)
    result, seen = observe(module, *arguments)
    plain = hlorun.compile(module)(*arguments)
    for a, b in zip(plain, result, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    values = {name: value for _, name, value in seen}
    assert module.entry_computation is not None and module.entry_computation.root is not None
    silent = ("parameter", "constant", "tuple", "get-tuple-element")
    computed = {i.name for i in module.entry_computation.instructions if i.opcode not in silent}
    assert computed <= set(values)
    for operand, value in zip(module.entry_computation.root.operands, result, strict=True):
        if operand.name in values:
            np.testing.assert_array_equal(values[operand.name], value)


WRITTEN_OUT = """HloModule written_out
half { x = f32[] parameter(0)
  h = f32[] constant(0.5)
  ROOT y = f32[] multiply(x, h) }
ENTRY e { x = f32[4,2] parameter(0)
  s = f32[2] parameter(1)
  m = f32[4,2] map(x), dimensions={0,1}, to_apply=half
  n = (f32[4,2], f32[2], f32[2]) batch-norm-training(m, s, s), epsilon=0, feature_index=1
  mean = f32[2] get-tuple-element(n), index=1
  ROOT r = f32[2] negate(mean) }
"""


def test_an_instruction_that_is_written_out_is_shown_once() -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    result, seen = observe(hlorun.parse(WRITTEN_OUT), x, np.ones(2, np.float32))
    assert [name for _, name, _ in seen] == ["m", "n", "r"]
    values = {name: value for _, name, value in seen}
    np.testing.assert_array_equal(values["m"], x / 2)
    np.testing.assert_array_equal(values["n"][1], (x / 2).mean(0))
    np.testing.assert_array_equal(result, -(x / 2).mean(0))


def test_what_an_observer_raises_ends_the_run() -> None:
    def observer(instruction: hlorun.HloInstruction, value: Any) -> None:
        raise KeyError(instruction.name)

    executable = hlorun.compile(hlorun.parse(LOOP))
    with pytest.raises(KeyError, match="less"):
        executable(np.zeros(2, np.float32), observer=observer)
    np.testing.assert_array_equal(executable(np.ones(2, np.float32)), [8, 8])


def test_results_into_given_arrays() -> None:
    executable = hlorun.compile(hlorun.parse(LOOP))
    out = np.empty(2, np.float32)
    p = np.ones(2, np.float32)
    assert executable(p, out=out) is out
    assert out.tolist() == [8, 8]
    frozen = np.empty(2, np.float32)
    frozen.setflags(write=False)
    for bad in (p, frozen, np.empty(4, np.float32)[::2], np.empty(2, np.float64), np.empty(3, np.float32)):
        with pytest.raises(hlorun.HloArgumentError, match="out"):
            executable(p, out=bad)


def test_values_of_elided_constants_come_from_outside() -> None:
    module = hlorun.parse("""HloModule m
ENTRY e { p = f32[3] parameter(0)
  c = f32[3] constant({...})
  ROOT r = f32[3] add(p, c) }""")
    p = np.ones(3, np.float32)
    with pytest.raises(hlorun.HloUnsupportedError, match="with_constants"):
        hlorun.compile(module)
    executable = hlorun.compile(module, constants={"c": np.array([1, 2, 3], np.float32)})
    assert executable(p).tolist() == [2, 3, 4]
    with pytest.raises(hlorun.HloArgumentError, match="constant c"):
        hlorun.compile(module, constants={"c": np.zeros(2, np.float32)})
    with pytest.raises(hlorun.HloArgumentError, match="called d"):
        hlorun.compile(module, constants={"d": p})


def test_passes_are_switched_off_by_name(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["001"]
    arguments = random_inputs(module)
    plain = hlorun.compile(module, disable=hlorun.Executable.optional_passes)
    for a, b in zip(plain(*arguments), hlorun.compile(module)(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert "fusion is off" in plain.explain()
    with pytest.raises(hlorun.HloArgumentError, match="fusion"):
        hlorun.compile(module, disable=["no-such-pass"])
