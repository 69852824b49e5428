"""Gathers and scatters whose indices are constants give the same bits as slices and without the pass."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import hlorun

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


def random_module(rng: random.Random) -> tuple[str, list[list[int]]]:
    """A gather and a scatter by one array of constant indices, and the sizes of their parameters."""
    rank = rng.randint(1, 3)
    operand = [rng.randint(1, 5) for _ in range(rank)]
    moved = rng.sample(range(rank), rng.randint(1, rank))
    collapsed = [dim for dim in range(rank) if rng.random() < 0.4]
    sizes = [1 if d in collapsed else rng.randint(1, operand[d]) for d in range(rank)]
    kept = [sizes[d] for d in range(rank) if d not in collapsed]
    batch = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))]
    # Evenly spaced, or anywhere, some of them outside.
    start, step = rng.randint(-1, 2), rng.randint(0, 2)
    is_even = rng.random() < 0.5
    count = int(np.prod(batch))
    vectors = [
        [start + n * step if is_even else rng.randint(-2, operand[d] + 1) for d in moved]
        for n in range(count)
    ]
    indices: Any = np.array(vectors).reshape([*batch, len(moved)]).tolist()
    rank_out = len(batch) + len(kept)
    offsets = sorted(rng.sample(range(rank_out), len(kept)))
    windows, batches = iter(kept), iter(batch)
    result = [next(windows) if d in offsets else next(batches) for d in range(rank_out)]
    index_type = rng.choice(["s32", "s64", "u8", "s16"])
    if index_type == "u8":
        indices = np.abs(np.array(indices)).tolist()
    common = f"index_vector_dim={len(batch)}"
    text = f"""HloModule m

combine {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {rng.choice(COMBINES)}
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
    rng = random.Random(seed)
    values = np.random.default_rng(seed)
    changed = 0
    for _ in range(100):
        text, sizes = random_module(rng)
        module = hlorun.parse(text)
        arrays = [values.standard_normal(dims).astype(np.float32) for dims in sizes]
        plain = hlorun.compile(module, disable=[PASS])(*arrays)
        executable = hlorun.compile(module, check="shadow")
        changed += any(record.name == PASS and record.changes for record in executable.passes)
        for ours, expected in zip(executable(*arrays), plain, strict=True):
            assert ours.tobytes() == expected.tobytes(), text
    assert changed > 50
