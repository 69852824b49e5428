"""Integers of fewer than 8 bits: what NumPy leaves in the other bits of their bytes says nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hlorun
from streams import Stream

NARROW = {"s2": ml_dtypes.int2, "s4": ml_dtypes.int4, "u2": ml_dtypes.uint2, "u4": ml_dtypes.uint4}


@pytest.mark.parametrize("dtype", NARROW)
def test_products_read_the_own_bits_alone(dtype: str) -> None:
    stream = Stream("narrow", dtype)
    low, high = (-8, 8) if dtype == "s4" else (-2, 2) if dtype == "s2" else (0, 4 if dtype == "u2" else 16)
    for m, k, n in [(3, 4, 5), (17, 40, 33), (1, 70, 90), (90, 70, 1)]:
        a, b = (stream.integers(low, high, dims) for dims in [(m, k), (k, n)])
        text = f"""HloModule narrow
ENTRY e {{
  a = {dtype}[{m},{k}] parameter(0)
  b = {dtype}[{k},{n}] parameter(1)
  ROOT c = s32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
        run = hlorun.compile(hlorun.parse(text))
        np.testing.assert_array_equal(run(a.astype(NARROW[dtype]), b.astype(NARROW[dtype])), a @ b)


@pytest.mark.parametrize("dtype", ["s2", "s4"])
def test_slices_start_at_the_first_element_when_asked_for_one_before_it(dtype: str) -> None:
    text = f"""HloModule narrow
ENTRY e {{
  x = f32[16] parameter(0)
  at = {dtype}[] parameter(1)
  new = f32[2] parameter(2)
  part = f32[4] dynamic-slice(x, at), dynamic_slice_sizes={{4}}
  whole = f32[16] dynamic-update-slice(x, new, at)
  vector = {dtype}[1] reshape(at)
  row = f32[4] gather(x, vector), offset_dims={{0}}, collapsed_slice_dims={{}}, start_index_map={{0}}, index_vector_dim=0, slice_sizes={{4}}
  ROOT all = (f32[4], f32[16], f32[4]) tuple(part, whole, row)
}}
"""
    run = hlorun.compile(hlorun.parse(text))
    x, new = np.arange(16, dtype=np.float32), np.array([90, 91], np.float32)
    for at in (-2, -1, 0, 1):
        first = max(at, 0)
        part, whole, row = run(x, np.array([at]).astype(NARROW[dtype]).reshape(()), new)
        want = x.copy()
        want[first : first + 2] = new
        np.testing.assert_array_equal(part, x[first : first + 4])
        np.testing.assert_array_equal(row, x[first : first + 4])
        np.testing.assert_array_equal(whole, want)


def test_index_vectors_without_components_place_every_window_at_the_front() -> None:
    text = """HloModule none
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,5] parameter(0)
  at = s32[3,0] parameter(1)
  new = f32[3,2,5] parameter(2)
  ROOT out = f32[4,5] scatter(x, at, new), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=add
}
"""
    new = np.arange(30, dtype=np.float32).reshape(3, 2, 5)
    want = np.ones((4, 5), np.float32)
    want[:2] += new.sum(0)
    run = hlorun.compile(hlorun.parse(text))
    got = run(np.ones((4, 5), np.float32), np.zeros((3, 0), np.int32), new)
    np.testing.assert_array_equal(got, want)
