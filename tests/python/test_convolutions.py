"""`convolution` over small random shapes and layouts against a plain loop over windows, in whole numbers."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]
KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "s32": np.int32}


class Window(NamedTuple):
    """One spatial dimension."""

    size: int
    stride: int
    low: int
    high: int
    base: int
    dilate: int
    reverse: bool

    def outputs(self, inputs: int) -> int:
        """How often the window fits."""
        reach = (self.size - 1) * self.dilate + 1
        return ((inputs - 1) * self.base + 1 + self.low + self.high - reach) // self.stride + 1


class Sizes(NamedTuple):
    """The sizes of a convolution: features are those of a group."""

    images: int
    groups: int
    features: int
    outputs: int


def naive(x: Array, k: Array, sizes: Sizes, windows: list[Window]) -> Array:
    """Of `[image][feature][…]` and `[output feature][feature][…]`, window by window."""
    dims = [w.outputs(n) for w, n in zip(windows, x.shape[2:], strict=True)]
    out = np.zeros((sizes.images, sizes.groups * sizes.outputs, *dims), x.dtype)
    for at in np.ndindex(*dims):
        for step in itertools.product(*(range(w.size) for w in windows)):
            dilated = [i * w.stride + s * w.dilate - w.low for i, s, w in zip(at, step, windows, strict=True)]
            place = tuple(d // w.base for d, w in zip(dilated, windows, strict=True))
            if any(d % w.base for d, w in zip(dilated, windows, strict=True)) or not all(
                0 <= p < n for p, n in zip(place, x.shape[2:], strict=True)
            ):
                continue
            taken = tuple(w.size - 1 - s if w.reverse else s for s, w in zip(step, windows, strict=True))
            for group in range(sizes.groups):
                own = slice(group * sizes.features, (group + 1) * sizes.features)
                to = slice(group * sizes.outputs, (group + 1) * sizes.outputs)
                # With spatial dimensions first, what is left are images, or outputs, and features.
                seen = np.moveaxis(x, (0, 1), (-2, -1))[place][:, own]
                weights = np.moveaxis(k, (0, 1), (-2, -1))[taken][to]
                np.moveaxis(out, (0, 1), (-2, -1))[at][:, to] += seen @ weights.T
    return out


def window(stream: Stream, inputs: int) -> Window:
    """One that fits at least once."""

    def one_of(*values: int) -> int:
        return int(stream.choice(values, 1)[0])

    found = Window(
        one_of(1, 2, 3, 3, 4),
        one_of(1, 1, 2),
        one_of(0, 1, 1, 2, -1),
        one_of(0, 1, 2, -1),
        one_of(1, 1, 1, 2, 3),
        one_of(1, 1, 2),
        one_of(0, 0, 1) == 1,
    )
    reach = (found.size - 1) * found.dilate + 1
    return found if found.outputs(inputs) > 0 else found._replace(low=reach, high=reach)


@pytest.mark.parametrize("seed", range(150))
def test_convolutions(seed: int) -> None:
    stream = Stream("convolutions", seed)

    def one_of(*values: int) -> int:
        return int(stream.choice(values, 1)[0])

    name = list(KINDS)[one_of(0, 0, 0, 1, 1, 2)]
    sizes = Sizes(one_of(1, 1, 3, 9), one_of(1, 1, 1, 4), one_of(1, 1, 2, 3), one_of(1, 1, 2, 5, 9))
    run_case(stream, name, sizes, dense=False)


@pytest.mark.parametrize("seed", range(60))
def test_features_side_by_side(seed: int) -> None:
    """Rows of windows are copied at once, and outputs of a spread input are computed apart."""
    stream = Stream("convolutions of many features", seed)
    name = list(KINDS)[int(stream.choice((0, 0, 1, 2), 1)[0])]
    sizes = Sizes(*(int(stream.choice(of, 1)[0]) for of in ((1, 1, 2), (1, 1, 2), (1, 3, 4), (9, 12, 20))))
    run_case(stream, name, sizes, dense=True)


@pytest.mark.parametrize("seed", range(40))
def test_features_that_do_not_mix(seed: int) -> None:
    """Outputs are sums of weighted vectors, some of them at a time."""
    stream = Stream("convolutions feature by feature", seed)
    name = list(KINDS)[int(stream.choice((0, 0, 1, 2), 1)[0])]
    sizes = Sizes(int(stream.choice((1, 2), 1)[0]), int(stream.choice((2, 3, 5, 16, 17, 40), 1)[0]), 1, 1)
    run_case(stream, name, sizes, dense=seed % 4 > 0)


@pytest.mark.parametrize("seed", range(60))
def test_inputs_read_in_place(seed: int) -> None:
    """Output features that fill whole strips or not, and weights that are constant or not."""
    stream = Stream("convolutions of strips", seed)
    name = list(KINDS)[seed % 2]
    choices = ((1, 1, 2, 3), (1, 1, 2), (2, 5, 16, 33, 70), (9, 16, 24, 40, 64, 65, 100, 140))
    sizes = Sizes(*(int(stream.choice(of, 1)[0]) for of in choices))
    run_case(stream, name, sizes, dense=True, constant=seed % 3 > 0)


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_windows_read_as_one(seed: int) -> None:
    """Few features, so that positions of a row of the window are one term."""
    stream = Stream("convolutions of few features", seed)
    name = list(KINDS)[seed % 2]
    choices = ((1, 1, 2, 3), (1,), (2, 3, 3, 4, 16, 17), (9, 16, 24, 64, 65, 100))
    sizes = Sizes(*(int(stream.choice(of, 1)[0]) for of in choices))
    run_case(stream, name, sizes, dense=True, constant=seed % 3 > 0, plain=True)


def run_case(
    stream: Stream, name: str, sizes: Sizes, dense: bool, constant: bool = False, plain: bool = False
) -> None:
    """Draws the rest of a case and compares.

    If `dense`, features lie side by side; if `plain`, windows are neither dilated nor reversed.
    """

    def one_of(*values: int) -> int:
        return int(stream.choice(values, 1)[0])

    rank = one_of(1, 2, 2, 3)
    inputs = [one_of(1, 3, 7) for _ in range(rank - 1)] + [one_of(5, 12, 25, 70)]
    windows = [window(stream, n) for n in inputs]
    if plain:
        windows = [w._replace(base=1, dilate=1, reverse=False) for w in windows]
        windows = [
            w if w.outputs(n) > 0 else w._replace(low=w.size, high=w.size)
            for w, n in zip(windows, inputs, strict=True)
        ]
    x = stream.integers(-3, 4, (sizes.images, sizes.groups * sizes.features, *inputs)).astype(KINDS[name])
    kernel = (sizes.groups * sizes.outputs, sizes.features, *(w.size for w in windows))
    k = stream.integers(-3, 4, kernel).astype(KINDS[name])
    want = naive(x, k, sizes, windows)

    def shape(array: Array) -> str:
        layout = list(stream.permutation(array.ndim))
        if dense:
            spatial = reversed(range(2, array.ndim))
            layout = [0, 1, *spatial] if array is k else [1, *spatial, 0]
        return f"{name}[{','.join(map(str, array.shape))}]{{{','.join(map(str, layout))}}}"

    def per_window(key: str, text: list[str]) -> str:
        return f"{key}={'x'.join(text)}"

    spatial = "".join(map(str, range(rank)))
    attributes = [
        per_window("size", [str(w.size) for w in windows]),
        per_window("stride", [str(w.stride) for w in windows]),
        per_window("pad", [f"{w.low}_{w.high}" for w in windows]),
        per_window("lhs_dilate", [str(w.base) for w in windows]),
        per_window("rhs_dilate", [str(w.dilate) for w in windows]),
        per_window("rhs_reversal", [str(int(w.reverse)) for w in windows]),
    ]
    kernel_text = (
        f"constant({json.dumps(k.tolist()).replace('[', '{').replace(']', '}')})"
        if constant
        else "parameter(1)"
    )
    text = f"""HloModule m
ENTRY e {{
  x = {shape(x)} parameter(0)
  k = {shape(k)} {kernel_text}
  ROOT y = {shape(want)} convolution(x, k), window={{{" ".join(attributes)}}}, dim_labels=bf{spatial}_oi{spatial}->bf{spatial}, feature_group_count={sizes.groups}
}}"""
    got = hlorun.run(hlorun.parse(text), *([x] if constant else [x, k]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("features", [1, 16])
@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("dilation", [7, 8, 9, 1 << 40, 1 << 62, (1 << 63) - 20, (1 << 63) - 1])
def test_inputs_far_apart(dilation: int, low: int, features: int) -> None:
    """Every output is written once and nothing else, however far apart those are that see an input."""
    text = f"""HloModule m
ENTRY e {{
  x = f32[1,1,1] parameter(0)
  k = f32[{features},1,2] parameter(1)
  ROOT y = f32[1,{features},20] convolution(x, k), window={{size=2 pad={low}_{20 - low} lhs_dilate={dilation}}}, dim_labels=bf0_oi0->bf0
}}"""
    x, k = np.full((1, 1, 1), 3, np.float32), np.full((features, 1, 2), 2, np.float32)
    k[:, :, 1] = 5
    want = np.zeros((1, features, 20), np.float32)
    want[:, :, low] = 6
    if low:
        want[:, :, low - 1] = 15
    for threads in (1, 2):
        got = hlorun.compile(hlorun.parse(text), threads=threads)(x, k)
        np.testing.assert_array_equal(got, want)


LARGE = {
    # As many outputs see different positions of the window as it has: lists of them all would take gigabytes.
    "depthwise": (
        "p = f32[1,16384,4] parameter(0); q = f32[16384,1,4] parameter(1); ROOT r = f32[1,16385,4] "
        "convolution(p, q), window={size=16384 pad=8192_8192}, dim_labels=b0f_0io->b0f, feature_group_count=4"
    ),
    # Patches of one position of the window are as large as the input.
    "padded": (
        "p = f32[1,8192,4096] parameter(0); q = f32[1,4096,64] parameter(1); ROOT r = f32[1,8194,64] "
        "convolution(p, q), window={size=1 pad=1_1}, dim_labels=b0f_0io->b0f"
    ),
    # Of the positions of the window, one sees the input.
    "spread": (
        "p = f32[1,1,1] parameter(0); q = f32[4194304,1,1] parameter(1); ROOT r = f32[1,64,1] convolution(p, q), "
        f"window={{size=4194304 pad=0_4194366 lhs_dilate={(1 << 62) + 1}}}, dim_labels=b0f_0io->b0f"
    ),
}

# Runs a small module so that all is loaded and started, then the other one with so many megabytes more.
BOUNDED = """
import re, resource, sys
import numpy as np
import hlorun

def ready(text):
    module = hlorun.parse(text)
    shapes = [p.shape for p in module.entry_computation.parameters]
    return hlorun.compile(module, threads=2), [np.ones(s.dims, s.dtype) for s in shapes]

small, given = ready(sys.argv[1])
small(*given)
run, given = ready(sys.argv[2])
used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[3]) << 20), resource.RLIM_INFINITY))
run(*given)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
@pytest.mark.parametrize("name", LARGE)
def test_memory_is_bounded(name: str) -> None:
    """What is allocated beside the arrays grows neither with the square of the window nor with the outputs."""
    small = "p = f32[64,64] parameter(0); ROOT r = f32[64,64] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    texts = [f"HloModule m\nENTRY e {{ {body.replace(';', chr(10))} }}" for body in (small, LARGE[name])]
    subprocess.run([sys.executable, "-c", BOUNDED, *texts, "64"], check=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", [129, 300])
def test_windows_longer_than_inputs(window: int, threads: int) -> None:
    """Features that do not mix, under windows of which most positions see no input."""
    stream = Stream("convolutions of long windows", window)
    x = stream.integers(-3, 4, (2, 3, 40)).astype(np.float32)
    k = stream.integers(-3, 4, (3, 1, window)).astype(np.float32)
    windows = [Window(window, 2, window - 1, window + 5, 3, 1, False)]
    want = naive(x, k, Sizes(2, 3, 1, 1), windows)
    text = f"""HloModule m
ENTRY e {{
  x = f32[2,40,3] parameter(0)
  k = f32[{window},1,3] parameter(1)
  ROOT y = f32[2,{want.shape[2]},3] convolution(x, k), window={{size={window} stride=2 pad={window - 1}_{window + 5} lhs_dilate=3}}, dim_labels=b0f_0io->b0f, feature_group_count=3
}}"""
    executable = hlorun.compile(hlorun.parse(text), threads=threads)
    got = executable(np.moveaxis(x, 1, 2).copy(), np.transpose(k, (2, 1, 0)).copy())
    np.testing.assert_array_equal(np.moveaxis(got, 2, 1), want)
