"""Inner and outer products, which run as loops, in every type that has them and with dimensions in odd places."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlorun
from streams import Stream

NAME = "dot-strength-reduction"
TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "u64": np.uint64,
}

# Shapes, layouts, dimension numbers, shape of the result, and the same as numpy.einsum.
CASES = [
    ("[600]", "[600]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}", "[]", "k,k->"),
    ("[1,600]", "[600,1]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}", "[1,1]", "ik,kj->ij"),
    (
        "[30,1,20,3]{0,1,2,3}",
        "[20,3,30]{1,2,0}",
        "lhs_batch_dims={3}, rhs_batch_dims={1}, lhs_contracting_dims={2,0}, rhs_contracting_dims={0,2}",
        "[3,1]",
        "aibc,bca->ci",
    ),
    (
        "[600,3,2]",
        "[2,600,3]",
        "lhs_batch_dims={2,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        "[2,3]{0,1}",
        "kba,akb->ab",
    ),
    ("[40]", "[50]", "lhs_contracting_dims={}, rhs_contracting_dims={}", "[40,50]{0,1}", "i,j->ij"),
    (
        "[4,2,1,3]{1,3,0,2}",
        "[5,1,2]{0,1,2}",
        "lhs_batch_dims={1}, rhs_batch_dims={2}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        "[2,4,3,5]",
        "iakj,lka->aijl",
    ),
]


def dims(shape: str) -> list[int]:
    return [int(n) for n in shape[1 : shape.index("]")].split(",") if n]


@pytest.mark.parametrize("case", CASES, ids=[case[-1] for case in CASES])
@pytest.mark.parametrize("dtype", TYPES)
def test_it_is_the_dot(dtype: str, case: tuple[str, str, str, str, str]) -> None:
    lhs, rhs, numbers, result, einsum = case
    stream = Stream("dot strength")
    low = 0 if dtype.startswith("u") else -3
    x, y = (stream.integers(low, 4, dims(shape)) for shape in (lhs, rhs))
    wider = {"s8": "s32", "u8": "s32", "s16": "s64", "f16": "f32", "bf16": "f32"}
    for out in {dtype, wider.get(dtype, dtype)}:
        text = f"""HloModule m
ENTRY e {{
  x = {dtype}{lhs} parameter(0)
  y = {dtype}{rhs} parameter(1)
  ROOT d = {out}{result} dot(x, y), {numbers}
}}"""
        module = hlorun.parse(text)
        arguments = [a.astype(TYPES[dtype]) for a in (x, y)]
        executable = hlorun.compile(module)
        got = executable(*arguments)
        kind = TYPES.get(out, np.int64)
        want = np.einsum(einsum, x, y).astype(kind)
        assert got.dtype == want.dtype and got.shape == tuple(dims(result))
        assert np.array_equal(got, want)
        apart = hlorun.compile(module, disable=[NAME])(*arguments)
        assert np.array_equal(got, apart)


def test_what_it_applies_to() -> None:
    def applied(dtype: str, shapes: tuple[str, str], contracting: str, result: str, more: str = "") -> bool:
        text = f"""HloModule m
ENTRY e {{
  x = {dtype}{shapes[0]} parameter(0)
  y = {dtype}{shapes[1]} parameter(1)
  ROOT d = {dtype}{result} dot(x, y), lhs_contracting_dims={contracting}, rhs_contracting_dims={contracting}{more}
}}"""
        executable = hlorun.compile(hlorun.parse(text))
        return NAME in executable.explain()

    assert applied("f32", ("[600]", "[600]"), "{0}", "[]")
    assert applied("bf16", ("[60]", "[60]"), "{}", "[60,60]")
    assert not applied("f32", ("[60]", "[60]"), "{}", "[60,60]")
    assert not applied("f32", ("[6]", "[6]"), "{0}", "[]")
    assert not applied("f32", ("[600,2]", "[600]"), "{0}", "[2]")
    assert not applied("f32", ("[600]", "[600]"), "{0}", "[]", ", algorithm=dot_bf16_bf16_f32_x3")
