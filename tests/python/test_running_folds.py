"""Windows that reach back to the start of a dimension, or on to its end, fold floats by blocks of 16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlorun
from streams import Stream

TEXT = """HloModule running
fold {
  x = TYPE[] parameter(0)
  y = TYPE[] parameter(1)
  ROOT z = TYPE[] FOLD(x, y)
}
ENTRY main {
  p = TYPE[DIMS] parameter(0)
  i = TYPE[] parameter(1)
  ROOT o = TYPE[RESULT] reduce-window(p, i), window={size=SIZE pad=PAD}, to_apply=fold
}
"""

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "c64": np.complex64,
    "s32": np.int32,
}
FOLDS: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}


def fold(ty: str, op: str, x: Any, init: Any, axis: int, window: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """What a window of a size and padding before and behind gives along a dimension, by one thread and by three."""
    size, low, high = window
    dims = list(x.shape)
    dims[axis] += low + high - size + 1
    ones = ["1"] * x.ndim
    pads = ["0_0"] * x.ndim
    ones[axis], pads[axis] = str(size), f"{low}_{high}"
    module = TEXT
    for name, value in {
        "TYPE": ty,
        "FOLD": op,
        "RESULT": ",".join(map(str, dims)),
        "DIMS": ",".join(map(str, x.shape)),
        "SIZE": "x".join(ones),
        "PAD": "x".join(pads),
    }.items():
        module = module.replace(name, value)
    parsed = hlorun.parse(module)
    one, three = (np.asarray(hlorun.compile(parsed, threads=n)(x, init)) for n in (1, 3))
    assert one.tobytes() == three.tobytes()
    return one


def reaching(length: int, backwards: bool) -> tuple[int, int, int]:
    """The window that reaches back to the start of a dimension of this length, or on to its end."""
    return (length, 0, length - 1) if backwards else (length, length - 1, 0)


def in_blocks(op: Any, x: Any) -> Any:
    """Folds of the first dimension: blocks of 16 by themselves, then what the blocks before give together."""
    n = len(x)
    out = x.copy()
    for i in range(1, n):
        if i % 16:
            out[i] = op(out[i - 1], x[i])
    if n > 16:
        before = in_blocks(op, out[15 : n - n % 16 : 16])
        for i in range(16, n):
            out[i] = op(out[i], before[i // 16 - 1])
    return out


SHAPES = [((593,), 0), ((5000,), 0), ((16,), 0), ((17, 3), 0), ((3, 273), 1), ((300, 40), 0), ((40, 300), 1), ((2, 50, 9, 2), 1)]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", TYPES)
def test_bits_are_those_of_blocks(name: str, shape: tuple[int, ...], axis: int, backwards: bool) -> None:
    """Each element has the bits that the order of blocks gives, whichever way its line is walked."""
    dtype = TYPES[name]
    for op in ("add", "multiply") if name == "c64" else FOLDS:
        stream = Stream(f"running/{name}/{shape}/{op}")
        if name == "s32":
            x = stream.integers(-9, 9, shape).astype(dtype)
            init = np.int32(3)
        else:
            x = (1 + 0.1 * stream.normal(shape)).astype(dtype)
            init = dtype(1.5)
        line = np.moveaxis(x, axis, 0)
        line = (line[::-1] if backwards else line).copy()
        line[0] = FOLDS[op](init, line[0])
        expected = in_blocks(FOLDS[op], line)
        expected = np.moveaxis(expected[::-1] if backwards else expected, 0, axis)
        got = fold(name, op, x, init, axis, reaching(shape[axis], backwards))
        if name == "c64" and op == "multiply":
            np.testing.assert_allclose(got, expected, rtol=1e-4)
        else:
            assert got.tobytes() == np.ascontiguousarray(expected).tobytes(), (name, op)


@pytest.mark.parametrize("lead", [1, 3])
@pytest.mark.parametrize("last", [-5, 0, 4])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_results_before_and_behind(shape: tuple[int, ...], axis: int, lead: int, last: int) -> None:
    """Results that fold nothing are the initial value, and there may be others than elements."""
    n = shape[axis]
    for name, dtype in (("f32", np.float32), ("s32", np.int32), ("c64", np.complex64)):
        x = Stream(f"running/{shape}/{name}").integers(-9, 9, shape).astype(dtype)
        init = dtype(7)
        sums = np.concatenate([np.zeros_like(x.take([0], axis)), np.cumsum(x, axis)], axis) + init
        places = np.clip(np.arange(n + lead + last) - lead + 1, 0, n)
        size = n + max(last, 0)
        got = fold(name, "add", x, init, axis, (size, size - 1 + lead, last))
        np.testing.assert_array_equal(got, sums.take(places, axis))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("length", [600, 4000, 1_000_000])
def test_errors_do_not_grow_with_the_length(length: int, backwards: bool) -> None:
    """Sums of positive numbers stay within four units in the last place of those in float64."""
    x = Stream(f"running/{length}").uniform(0, 1, (length,)).astype(np.float32)
    got = fold("f32", "add", x, np.float32(0), 0, reaching(length, backwards))
    wide = x.astype(np.float64)
    exact = np.cumsum(wide[::-1])[::-1] if backwards else np.cumsum(wide)
    assert np.max(np.abs(got / exact - 1)) < 4 * 2.0**-23
