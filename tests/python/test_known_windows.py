"""Gathers and scatters whose indices are constants give the same bits as slices and without the pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

PASS = "gather-scatter-simplifier"
COMBINES = ["add(a, b)", "multiply(a, b)", "minimum(a, b)", "maximum(b, a)", "copy(b)"]


def text_of(values: Any) -> str:
    """An array as HLO writes constants."""
    if isinstance(values, list):
        return "{" + ",".join(text_of(value) for value in values) + "}"
    return str(values)


def shape(dims: list[int], ty: str = "f32") -> str:
    return f"{ty}[{','.join(map(str, dims))}]"


def numbers(values: list[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def random_module(stream: Stream) -> tuple[str, list[list[int]]]:
    """A gather and a scatter by one array of constant indices, and the sizes of their parameters."""

    def number(low: int, high: int) -> int:
        return int(stream.integers(low, high + 1))

    rank = number(1, 3)
    operand = [number(1, 5) for _ in range(rank)]
    moved = stream.permutation(rank)[: number(1, rank)].tolist()
    collapsed = [dim for dim in range(rank) if number(0, 4) < 2]
    sizes = [1 if d in collapsed else number(1, operand[d]) for d in range(rank)]
    kept = [sizes[d] for d in range(rank) if d not in collapsed]
    batch = [number(1, 4) for _ in range(number(0, 2))]
    # Evenly spaced, or anywhere, some of them outside.
    start, step = number(-1, 2), number(0, 2)
    is_even = number(0, 1) == 1
    count = int(np.prod(batch))
    vectors = [
        [start + n * step if is_even else number(-2, operand[d] + 1) for d in moved] for n in range(count)
    ]
    indices: Any = np.array(vectors).reshape([*batch, len(moved)]).tolist()
    rank_out = len(batch) + len(kept)
    offsets = sorted(stream.permutation(rank_out)[: len(kept)].tolist())
    windows, batches = iter(kept), iter(batch)
    result = [next(windows) if d in offsets else next(batches) for d in range(rank_out)]
    index_type = str(stream.choice(["s32", "s64", "u8", "s16"], (1,))[0])
    if index_type == "u8":
        indices = np.abs(np.array(indices)).tolist()
    common = f"index_vector_dim={len(batch)}"
    text = f"""HloModule m

combine {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {COMBINES[number(0, len(COMBINES) - 1)]}
}}

ENTRY e {{
  x = {shape(operand)} parameter(0)
  u = {shape(result)} parameter(1)
  i = {shape([*batch, len(moved)], index_type)} constant({text_of(indices)})
  g = {shape(result)} gather(x, i), offset_dims={numbers(offsets)}, collapsed_slice_dims={numbers(collapsed)}, start_index_map={numbers(moved)}, {common}, slice_sizes={numbers(sizes)}
  s = {shape(operand)} scatter(x, i, u), update_window_dims={numbers(offsets)}, inserted_window_dims={numbers(collapsed)}, scatter_dims_to_operand_dims={numbers(moved)}, {common}, to_apply=combine
  ROOT t = ({shape(result)}, {shape(operand)}) tuple(g, s)
}}
"""
    return text, [operand, result]


@pytest.mark.parametrize("seed", range(4))
def test_bits_are_those_without_the_pass(seed: int) -> None:
    stream = Stream("known windows", seed)
    changed = 0
    for _ in range(100):
        text, sizes = random_module(stream)
        module = hlorun.parse(text)
        arrays = [stream.normal(dims) for dims in sizes]
        plain = hlorun.compile(module, disable=[PASS])(*arrays)
        executable = hlorun.compile(module, check="shadow")
        changed += any(record.name == PASS and record.changes for record in executable.passes)
        for ours, expected in zip(executable(*arrays), plain, strict=True):
            assert ours.tobytes() == expected.tobytes(), text
    assert changed > 50
