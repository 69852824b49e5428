"""Scatters whose windows overlap: updates of an element are combined in the order of the indices, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hlorun
from streams import Array, Stream

COMBINERS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "overwrite": lambda old, new: new,
}


def text(combiner: str, dtype: str, operand: str, window: str, windows: int) -> str:
    """A scatter of `windows` windows of the sizes `window`, placed along the first dimension."""
    rank = window.count(",") + 1
    value = f"{dtype}[] {combiner}(a, b)" if combiner != "overwrite" else f"{dtype}[] copy(b)"
    dims = ",".join(str(dim + 1) for dim in range(rank))
    return f"""HloModule m
combine {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {value}
}}
ENTRY e {{
  x = {dtype}[{operand}] parameter(0)
  i = s32[{windows},1] parameter(1)
  u = {dtype}[{windows},{window}] parameter(2)
  ROOT s = {dtype}[{operand}] scatter(x, i, u), update_window_dims={{{dims}}}, inserted_window_dims={{}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=combine
}}"""


def in_order(combiner: str, x: Array, places: Array, updates: Array) -> Array:
    """The same, window by window."""
    x = x.copy()
    for place, update in zip(places[:, 0], updates, strict=True):
        window = x[place : place + len(update)]
        window[...] = COMBINERS[combiner](window, update)
    return x


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize(
    ("operand", "window", "windows"),
    [
        *(((size + size // 2 + 1,), (size,), 300) for size in (2, 3, 5, 7, 12, 20, 28, 31, 33, 64)),
        ((129,), (128,), 2000),
        ((2000,), (1024,), 400),
        ((40, 33), (20, 33), 300),
        ((90, 3), (70, 3), 2000),
    ],
)
def test_updates_are_combined_in_order(
    operand: tuple[int, ...],
    window: tuple[int, ...],
    windows: int,
    combiner: str,
    threads: int,
) -> None:
    stream = Stream(f"{operand} {window} {combiner}")
    for name, dtype in (("f32", np.float32), ("s32", np.int32)):
        # Sums of these floats show in which order they were made.
        values = np.array([1e8, 1.5, -1e8, 3.0, 1e-3, -7.0]).astype(dtype)
        x = values[stream.integers(0, len(values), operand)]
        updates = values[stream.integers(0, len(values), (windows, *window))]
        places = stream.integers(0, operand[0] - window[0] + 1, (windows, 1)).astype(np.int32)
        sizes = [",".join(map(str, dims)) for dims in (operand, window)]
        module = hlorun.parse(text(combiner, name, sizes[0], sizes[1], windows))
        executable = hlorun.compile(module, threads=threads)
        expected = in_order(combiner, x, places, updates)
        for _ in range(5):
            assert np.array_equal(executable(x, places, updates), expected)


@pytest.mark.parametrize("windows", [40, 3000])
@pytest.mark.parametrize("combiner", ["maximum", "minimum"])
@pytest.mark.parametrize("name", ["s32", "u32", "s64", "u64", "s16", "f64"])
def test_extremes_of_single_elements(name: str, combiner: str, windows: int) -> None:
    """Few updates of each element, and so many that most leave it as it is."""
    stream = Stream(f"{name} {combiner} {windows}")
    dtype = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64, "s16": np.int16, "f64": np.float64}[name]
    low = 0 if name[0] == "u" else -(1 << 14)
    x = stream.integers(low, 1 << 14, (23,)).astype(dtype)
    updates = stream.integers(low, 1 << 15, (windows, 1)).astype(dtype)
    if name == "u32":
        updates[::7] += np.uint32(1 << 31)
    places = stream.integers(0, 23, (windows, 1)).astype(np.int32)
    got = hlorun.run(hlorun.parse(text(combiner, name, "23", "1", windows)), x, places, updates)
    assert np.array_equal(got, in_order(combiner, x, places, updates))
