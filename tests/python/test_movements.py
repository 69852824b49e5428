"""Copies of elements that lie apart are those of NumPy, however often and by how many threads they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

TYPES: dict[str, Any] = {"u8": np.uint8, "s16": np.int16, "f32": np.float32, "f64": np.float64, "c128": np.complex128}
CASES = 12
# As many as runs that find how elements are copied by vectors, and some more.
RUNS = 6


def transposed(stream: Stream, kind: str, largest: int) -> tuple[str, Any, Any]:
    """A module that transposes, slices and reverses an array; the array, and what comes out."""
    rank = int(stream.integers(2, 6))
    dims = [int(stream.choice(np.array([1, 2, 3, 4, 5, 7, 9, 16]), (1,))[0]) for _ in range(rank)]
    dims[int(stream.integers(0, rank))] = int(stream.integers(2, largest))
    order = [int(d) for d in np.argsort(stream.integers(0, 1 << 30, (rank,)))]
    turned = [dims[d] for d in order]
    back = [d for d in range(rank) if stream.integers(0, 3) == 0]
    starts = [int(stream.integers(0, size)) for size in turned]
    limits = [int(stream.integers(start + 1, size + 1)) for start, size in zip(starts, turned, strict=True)]
    left = [limit - start for start, limit in zip(starts, limits, strict=True)]
    slices = ",".join(f"[{start}:{limit}]" for start, limit in zip(starts, limits, strict=True))

    def shape(sizes: list[int]) -> str:
        return f"{kind}[{','.join(map(str, sizes))}]"

    text = f"""HloModule m
ENTRY e {{
  x = {shape(dims)} parameter(0)
  t = {shape(turned)} transpose(x), dimensions={{{",".join(map(str, order))}}}
  s = {shape(left)} slice(t), slice={{{slices}}}
  ROOT r = {shape(left)} reverse(s), dimensions={{{",".join(map(str, back))}}}
}}
"""
    x = stream.integers(0, 200, tuple(dims)).astype(TYPES[kind])
    part = tuple(slice(start, limit) for start, limit in zip(starts, limits, strict=True))
    return text, x, np.flip(np.transpose(x, order)[part], tuple(back))


@pytest.mark.parametrize("largest", [30, 3000])
@pytest.mark.parametrize("kind", TYPES)
def test_random_movements(kind: str, largest: int) -> None:
    stream = Stream("movements", f"{kind} {largest}")
    for _ in range(CASES):
        text, x, wanted = transposed(stream, kind, largest)
        for threads in (1, 2):
            executable = hlorun.compile(hlorun.parse(text), threads=threads)
            for _ in range(RUNS):
                assert np.array_equal(executable(x), wanted), text


def test_many_small_matrices_by_all_threads() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[60000,3,4] parameter(0)
  ROOT t = f32[60000,4,3] transpose(x), dimensions={0,2,1}
}
"""
    x = Stream("movements", "matrices").integers(0, 1 << 20, (60000, 3, 4)).astype(np.float32)
    for threads in (1, 2, 3):
        executable = hlorun.compile(hlorun.parse(text), threads=threads)
        for _ in range(2):
            assert np.array_equal(executable(x), np.transpose(x, (0, 2, 1)))
