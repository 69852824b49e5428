"""Custom calls that the user gives a meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hlorun

TARGET = "tests.mine"
PAIR = hlorun.parse(f"""HloModule m
ENTRY e {{ p = f32[2,3] parameter(0)
  t = f32[3,2] transpose(p), dimensions={{1,0}}
  k = (f32[3,2]{{0,1}}, s32[]) custom-call(t, p), custom_call_target="{TARGET}", backend_config="{{\\"a\\": 1}}"
  ROOT g = f32[3,2] get-tuple-element(k), index=0 }}""")
P = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def unregister() -> Iterator[None]:
    yield
    hlorun.register_custom_call(TARGET, None)


def test_a_target_nobody_knows_is_named() -> None:
    with pytest.raises(hlorun.HloUnsupportedError, match=TARGET):
        hlorun.compile(PAIR)(P)


def test_operands_and_results_are_logical_arrays() -> None:
    calls = []

    def mine(t: Any, p: Any, instruction: hlorun.HloInstruction) -> Any:
        calls.append(instruction)
        np.testing.assert_array_equal(t, p.T)
        return t * 10, np.int32(7)

    hlorun.register_custom_call(TARGET, mine)
    executable = hlorun.compile(PAIR)
    np.testing.assert_array_equal(executable(P), P.T * 10)
    np.testing.assert_array_equal(executable(P, observer=lambda i, v: None), P.T * 10)
    assert calls[0] == PAIR["k"] and calls[0].backend_config == {"a": 1}


def test_the_instruction_is_left_out_where_it_is_not_taken() -> None:
    hlorun.register_custom_call(TARGET, lambda t, p: (t, np.int32(0)))
    np.testing.assert_array_equal(hlorun.compile(PAIR)(P), P.T)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (P, "tuple of 2"),
        ((P.T, P, P), "tuple of 2"),
        ((P, np.int32(0)), "f32.3,2."),
        ((P.T.astype(np.float64), np.int32(0)), "float64"),
        ((None, np.int32(0)), "NoneType"),
    ],
)
def test_results_that_do_not_fit(value: Any, message: str) -> None:
    hlorun.register_custom_call(TARGET, lambda t, p: value)
    with pytest.raises(hlorun.HloArgumentError, match=message) as error:
        hlorun.compile(PAIR)(P)
    assert TARGET in str(error.value)


def test_what_a_function_raises_is_raised() -> None:
    def mine(*operands: Any) -> Any:
        raise ZeroDivisionError("mine")

    hlorun.register_custom_call(TARGET, mine)
    with pytest.raises(ZeroDivisionError, match="mine"):
        hlorun.compile(PAIR)(P)


def test_only_functions_are_registered() -> None:
    with pytest.raises(hlorun.HloArgumentError, match="callable"):
        hlorun.register_custom_call(TARGET, 3)  # type: ignore[arg-type]


def test_eigenvalues_as_jaxlib_called_for_them_before_its_foreign_functions() -> None:
    # Options and sizes are operands, and results begin with LAPACK's workspaces.
    text = """HloModule case

ENTRY main {
  batch = s32[] constant(1)
  n = s32[] constant(2)
  no = u8[] constant(78)
  yes = u8[] constant(86)
  a = f32[2,2]{0,1} parameter(0)
  f = (f32[2,2]{0,1}, f32[2,2]{0,1}, f32[2,2]{0,1}, f32[2]{0}, f32[2]{0}, /*index=5*/c64[2,2]{0,1}, c64[2,2]{0,1}, s32[]) custom-call(batch, n, no, yes, a), custom_call_target="lapack_sgeev", api_version=API_VERSION_STATUS_RETURNING
  re = f32[2] get-tuple-element(f), index=3
  im = f32[2] get-tuple-element(f), index=4
  size = f32[2] abs(im)
  info = s32[] get-tuple-element(f), index=7
  ROOT o = (f32[2], f32[2], s32[]) tuple(re, size, info)
}
"""
    real, imaginary, status = hlorun.run(hlorun.parse(text), np.array([[0, 2], [-2, 0]], np.float32))
    np.testing.assert_allclose(real, [0, 0], atol=1e-6)
    np.testing.assert_allclose(imaginary, [2, 2], rtol=1e-6)
    assert status == 0


CONDITION = """HloModule condition
condition {
  p = (s32[], f32[131072]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  seen = s32[] custom-call(i), custom_call_target="seen", custom_call_has_side_effect=true
  ROOT q = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[131072]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[131072] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[131072] add(x, x)
  ROOT r = (s32[], f32[131072]) tuple(j, y)
}
ENTRY main {
  x = f32[131072] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[131072]) tuple(zero, x)
  ROOT w = (s32[], f32[131072]) while(t), condition=condition, body=body
}
"""


def test_a_condition_calls_in_every_trip() -> None:
    seen: list[int] = []

    def call(i: Any) -> Any:
        seen.append(int(i))
        return i

    hlorun.register_custom_call("seen", call)
    try:
        hlorun.run(hlorun.parse(CONDITION), np.ones(131072, np.float32))
    finally:
        hlorun.register_custom_call("seen", None)
    assert seen == [0, 1, 2, 3, 4]
