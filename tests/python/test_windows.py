"""`reduce-window` over small random shapes against a plain loop over windows."""

from __future__ import annotations

import itertools
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "u32": np.uint32,
    "pred": np.bool_,
}
OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}


def naive(x: Array, init: Any, op: Any, window: list[dict[str, int]]) -> Array:
    """Every window by itself, in row-major order."""
    sizes = []
    for n, w in zip(x.shape, window, strict=True):
        base = (n - 1) * w["base"] + 1 if n else 0
        reach = (w["size"] - 1) * w["dilate"] + 1
        sizes.append(max(0, (base + w["low"] + w["high"] - reach) // w["stride"] + 1))
    out = np.full(sizes, init, x.dtype)
    with np.errstate(all="ignore"):
        fold(x, out, op, window)
    return out


def fold(x: Array, out: Array, op: Any, window: list[dict[str, int]]) -> None:
    """Folds the windows of `x` into `out`."""
    for at in np.ndindex(*out.shape):
        total = out[at]
        for step in itertools.product(*(range(w["size"]) for w in window)):
            index = [
                i * w["stride"] + k * w["dilate"] - w["low"] for i, k, w in zip(at, step, window, strict=True)
            ]
            inside = all(
                i >= 0 and i % w["base"] == 0 and i // w["base"] < n
                for i, w, n in zip(index, window, x.shape, strict=True)
            )
            if inside:
                place = tuple(i // w["base"] for i, w in zip(index, window, strict=True))
                total = op(total, x[place]).astype(x.dtype)
        out[at] = total


@pytest.mark.parametrize("seed", range(200))
def test_windows(seed: int) -> None:
    rng = random.Random(seed)
    dtype = list(TYPES)[seed % len(TYPES)]
    op = rng.choice(["or", "and"] if dtype == "pred" else ["add", "multiply", "maximum", "minimum"])
    rank = rng.randint(1, 4)
    dims = [rng.choice([1, 2, 5, 9] if rank > 2 else [1, 3, 8, 40]) for _ in range(rank)]
    # One long dimension among short ones, wherever it lies, makes the rows.
    if rank > 2 and rng.random() < 0.3:
        dims = [rng.choice([1, 2, 5]) for _ in range(rank)]
        dims[rng.randrange(rank)] = 24
    window = []
    for n in dims:
        w = {
            "size": rng.choice([1, 1, 2, 3, 4]),
            "stride": rng.choice([1, 1, 2, 3]),
            "dilate": rng.choice([1, 1, 2]),
        }
        w["base"] = 2 if rng.random() < 0.06 else 1
        w["low"], w["high"] = rng.choice([0, 0, 1, 2, 5, -1]), rng.choice([0, 0, 1, 3, -1])
        reach = (w["size"] - 1) * w["dilate"] + 1
        if (n - 1) * w["base"] + 1 + w["low"] + w["high"] < reach:
            w["low"] = reach
            w["high"] = max(w["high"], 0)
        # Dimensions without a window are blocks that stay together, where they lie densest.
        if rng.random() < 0.4:
            w = {"size": 1, "stride": 1, "dilate": 1, "base": 1, "low": 0, "high": 0}
        window.append(w)
    # Small integers, so that any order of the operation gives the same; products stay small.
    kind = TYPES[dtype]
    values = [0, 1] if dtype in ("pred", "u32") else [-1, 1, 1, 2] if op == "multiply" else [-3, -1, 0, 2, 5]
    x = np.array([rng.choice(values) for _ in range(int(np.prod(dims)))]).astype(kind).reshape(dims)
    if dtype in ("f32", "f64", "bf16") and op in ("maximum", "minimum") and rng.random() < 0.5:
        x.reshape(-1)[rng.randrange(x.size)] = np.nan
    init = np.asarray(rng.choice([0, 1, 3])).astype(kind)
    text = "x".join
    attributes = [
        "size=" + text(str(w["size"]) for w in window),
        "stride=" + text(str(w["stride"]) for w in window),
        "pad=" + text(f"{w['low']}_{w['high']}" for w in window),
        "lhs_dilate=" + text(str(w["base"]) for w in window),
        "rhs_dilate=" + text(str(w["dilate"]) for w in window),
    ]
    want = naive(x, init, OPERATIONS[op], window)
    layout = list(range(rank))
    rng.shuffle(layout)
    sizes, result = (",".join(map(str, shape)) for shape in (dims, want.shape))
    order = ",".join(map(str, layout))
    program = f"""HloModule m
c {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {dtype}[] {op}(a, b)
}}
ENTRY e {{
  x = {dtype}[{sizes}]{{{order}}} parameter(0)
  i = {dtype}[] parameter(1)
  ROOT w = {dtype}[{result}]{{{order}}} reduce-window(x, i), window={{{" ".join(attributes)}}}, to_apply=c
}}"""
    got = hlorun.run(hlorun.parse(program), x, init)
    assert got.shape == want.shape
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64), equal_nan=True)


def sums(kind: str, dims: str, result: str, window: str) -> hlorun.HloModule:
    """A module that adds up windows."""
    return hlorun.parse(f"""HloModule m
add {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] add(a, b)
}}
ENTRY e {{
  x = {kind}[{dims}] parameter(0)
  i = {kind}[] constant(0)
  ROOT w = {kind}[{result}] reduce-window(x, i), window={{{window}}}, to_apply=add
}}""")


def test_windows_that_reach_far_beyond_wide_rows() -> None:
    """The first output sees the second row, and the second one nothing."""
    module = sums("f32", "2,300000", "2,300000", "size=64x1 pad=251_1x0_0 rhs_dilate=4x1")
    x = np.arange(600000, dtype=np.float32).reshape(2, -1)
    np.testing.assert_array_equal(hlorun.run(module, x), np.stack([x[1], x[1] * 0]))


def test_pieces_of_rows() -> None:
    """Rows that are computed piece by piece, with borders at both ends."""
    module = sums("s32", "70001,3", "23335,3", "size=5x1 stride=3x1 pad=2_5x0_0")
    x = np.arange(70001 * 3, dtype=np.int32).reshape(-1, 3) % 1000
    padded = np.pad(x, ((2, 5), (0, 0)))
    want = sum(padded[k : k + 3 * 23335 : 3][:23335] for k in range(5))
    np.testing.assert_array_equal(hlorun.run(module, x), want)


def test_short_rows_that_go_together() -> None:
    """More of them than are computed at a time, with padding at both ends and steps that do not divide a row."""
    module = sums("s32", "700,7", "700,4", "size=1x3 stride=1x2 pad=0_0x2_1")
    x = np.arange(4900, dtype=np.int32).reshape(-1, 7)
    padded = np.pad(x, ((0, 0), (2, 1)))
    want = sum(padded[:, k : k + 8 : 2][:, :4] for k in range(3))
    np.testing.assert_array_equal(hlorun.run(module, x), want)


def running(kind: str, operation: str, n: int, identity: int) -> hlorun.HloModule:
    """A module whose windows of one line reach back to the start."""
    return hlorun.parse(f"""HloModule m
c {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {operation}(a, b)
}}
ENTRY e {{
  x = {kind}[{n}] parameter(0)
  i = {kind}[] constant({identity})
  ROOT w = {kind}[{n}] reduce-window(x, i), window={{size={n} pad={n - 1}_0}}, to_apply=c
}}""")


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "s32", "s8"])
@pytest.mark.parametrize("operation", ["add", "multiply", "maximum", "minimum"])
def test_running_folds_of_one_line(kind: str, operation: str) -> None:
    """Every step is rounded, and a NaN stays."""
    dtype = {**TYPES, "f16": np.float16, "s32": np.int32}[kind]
    rng = random.Random(kind + operation)
    values = [1, 2, 3, -1] if operation == "multiply" else [5, -7, 3, 11, -2]
    x = np.array([rng.choice(values) for _ in range(16)]).astype(dtype)
    if not kind.startswith("s"):
        x = (x * np.asarray(1.1).astype(dtype)).astype(dtype)
        x[12] = np.nan
    identity = {"add": 0, "multiply": 1, "maximum": -100, "minimum": 100}[operation]
    want, total = np.empty_like(x), np.asarray(identity).astype(dtype)
    with np.errstate(all="ignore"):
        for k, value in enumerate(x):
            want[k] = total = OPERATIONS[operation](total, value).astype(dtype)
    got = hlorun.run(running(kind, operation, len(x), identity), x)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_running_extremes_tell_zeros_apart(kind: str) -> None:
    """+0 is larger than -0."""
    dtype = {**TYPES, "f16": np.float16}[kind]
    zeros = np.array([-0.0, 0.0, -0.0]).astype(dtype)
    largest = hlorun.run(running(kind, "maximum", 3, -1), zeros)
    assert np.signbit(largest.astype(np.float64)).tolist() == [True, False, False]
    smallest = hlorun.run(running(kind, "minimum", 3, 1), -zeros)
    assert np.signbit(smallest.astype(np.float64)).tolist() == [False, True, True]


@pytest.mark.parametrize("padding", ["", " pad=0_0x1_0x0_2x0_0"])
@pytest.mark.parametrize("dims", [(2, 25, 25, 11), (1, 9, 130, 3), (3, 7, 5, 64)])
def test_windows_of_several_arrays(dims: tuple[int, int, int, int], padding: str) -> None:
    """The largest of each window, the first of equals, and where it was, in short rows that are folded together."""
    low, high = ((0, 1, 0, 0), (0, 0, 2, 0)) if padding else ((0,) * 4, (0,) * 4)
    sizes = (1, 3, 3, 1)
    out = tuple((n + a + b - w) // s + 1 for n, a, b, w, s in zip(dims, low, high, sizes, (1, 2, 2, 1), strict=True))
    shape, result = (",".join(map(str, value)) for value in (dims, out))
    module = hlorun.parse(f"""HloModule m
c {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  least = s32[] constant(-1)
  is = pred[] compare(i, least), direction=NE
  js = pred[] compare(j, least), direction=NE
  more = pred[] compare(a, b), direction=GE
  own = pred[] and(more, is)
  none = pred[] not(js)
  left = pred[] or(own, none)
  value = f32[] select(left, a, b)
  place = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(value, place)
}}
ENTRY e {{
  x = f32[{shape}] parameter(0)
  p = s32[{shape}] parameter(1)
  z = f32[] constant(-7)
  n = s32[] constant(-1)
  ROOT w = (f32[{result}], s32[{result}]) reduce-window(x, p, z, n),
    window={{size=1x3x3x1 stride=1x2x2x1{padding}}}, to_apply=c
}}""")
    x = Stream("windows", *dims).integers(0, 20, dims).astype(np.float32)
    places = np.arange(x.size, dtype=np.int32).reshape(dims)
    pads = list(zip(low, high, strict=True))
    values, at = np.pad(x, pads, constant_values=-1e9), np.pad(places, pads, constant_values=-1)

    def windows(array: Any) -> Any:
        every = np.lib.stride_tricks.sliding_window_view(array, sizes)[:, ::2, ::2]
        return every.reshape(*out, 9)

    best = windows(values).argmax(-1)[..., None]
    largest, place = hlorun.run(module, x, places)
    np.testing.assert_array_equal(largest, np.take_along_axis(windows(values), best, -1)[..., 0])
    np.testing.assert_array_equal(place, np.take_along_axis(windows(at), best, -1)[..., 0])
