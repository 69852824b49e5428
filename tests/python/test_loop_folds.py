"""Reductions in loops: scalar bytecode and machine code fold values in the same order as thunks, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

BEST = """best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  left = pred[] or(gt, nan)
  eq = pred[] compare(a, b), direction=EQ
  lower = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lower)
  first = pred[] or(left, tie)
  x = f32[] select(left, a, b)
  k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k)
}
"""

LOOP = """HloModule m
fold {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  ROOT c = TYPE[] OPCODE(a, b)
}
BEST
body {
  p = (s32[], TYPE[SHAPE]{LAYOUT}, TYPE[KEPT], s32[KEPT]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = TYPE[SHAPE]{LAYOUT} get-tuple-element(p), index=1
  sums = TYPE[KEPT] get-tuple-element(p), index=2
  places = s32[KEPT] get-tuple-element(p), index=3
  initial = TYPE[] constant(INITIAL)
  scale = TYPE[] constant(SCALE)
  scales = TYPE[SHAPE]{LAYOUT} broadcast(scale), dimensions={}
  y = TYPE[SHAPE]{LAYOUT} multiply(x, scales)
FOLD
  all = TYPE[KEPT] add(sums, folded)
  sure = s32[KEPT] add(places, found)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], TYPE[SHAPE]{LAYOUT}, TYPE[KEPT], s32[KEPT]) tuple(j, y, all, sure)
}
condition {
  p = (s32[], TYPE[SHAPE]{LAYOUT}, TYPE[KEPT], s32[KEPT]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = TYPE[SHAPE]{LAYOUT} parameter(0)
  sums = TYPE[KEPT] parameter(1)
  places = s32[KEPT] parameter(2)
  zero = s32[] constant(0)
  t = (s32[], TYPE[SHAPE]{LAYOUT}, TYPE[KEPT], s32[KEPT]) tuple(zero, x, sums, places)
  w = (s32[], TYPE[SHAPE]{LAYOUT}, TYPE[KEPT], s32[KEPT]) while(t), condition=condition, body=body
  all = TYPE[KEPT] get-tuple-element(w), index=2
  sure = s32[KEPT] get-tuple-element(w), index=3
  ROOT r = (TYPE[KEPT], s32[KEPT]) tuple(all, sure)
}
"""

ONE = """  folded = TYPE[KEPT] reduce(SOURCE, initial), dimensions={REDUCED}, to_apply=fold
  found = s32[KEPT] negate(places)"""

TWO = """  numbers = s32[SHAPE]{LAYOUT} iota(), iota_dimension=FIRST
  none = s32[] constant(0)
  both = (f32[KEPT], s32[KEPT]) reduce(SOURCE, numbers, initial, none), dimensions={REDUCED}, to_apply=best
  folded = f32[KEPT] get-tuple-element(both), index=0
  found = s32[KEPT] get-tuple-element(both), index=1"""

SHAPES = [
    ((24, 24), (0,)),
    ((23, 31), (0,)),
    ((2, 128), (0,)),
    ((3, 127), (0,)),
    ((129, 1), (0,)),
    ((65, 3), (0,)),
    ((2, 200), (0,)),
    ((24, 24), (1,)),
    ((4, 12, 13), (1,)),
    ((5, 7, 6), (0, 2)),
    ((40, 2, 3), (0, 2)),
    ((1500,), (0,)),
]
KINDS = ["add", "maximum", "minimum", "or", "argmax"]


def text_of(
    kind: str, shape: tuple[int, ...], reduced: tuple[int, ...], layout: str, *, is_read: bool
) -> str:
    """A loop that folds `shape` along the dimensions `reduced` in each trip: what the trip reads, or what it computes."""
    kept = [size for dim, size in enumerate(shape) if dim not in reduced]
    type_name = "s32" if kind == "or" else "f32"
    initial = {"add": "0.25", "minimum": "inf", "or": "0"}.get(kind, "-inf")
    text = LOOP.replace("FOLD", TWO if kind == "argmax" else ONE)
    words = {
        "BEST": BEST if kind == "argmax" else "",
        "OPCODE": "maximum" if kind == "argmax" else kind,
        "INITIAL": initial,
        "SCALE": "3" if kind == "or" else "1.125",
        "SOURCE": "x" if is_read else "y",
        "SHAPE": ",".join(map(str, shape)),
        "KEPT": ",".join(map(str, kept)),
        "REDUCED": ",".join(map(str, reduced)),
        "FIRST": str(reduced[0]),
        "LAYOUT": f"{{{layout}}}",
        "{{": "{",
        "}}": "}",
        "TYPE": type_name,
    }
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "reduced"), SHAPES)
def test_scalar_code_folds_in_the_order_of_thunks(
    kind: str, shape: tuple[int, ...], reduced: tuple[int, ...]
) -> None:
    stream = Stream("folds of loops", kind, str(shape), str(reduced))
    kept = tuple(size for dim, size in enumerate(shape) if dim not in reduced)
    dtype: Any = np.int32 if kind == "or" else np.float32
    x = (stream.normal(shape) * 9).astype(dtype)
    if kind == "argmax":
        x = np.round(x)
    if dtype is np.float32:
        x.flat[:: max(5, x.size // 6)] = [np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-40, np.nan, 0.0, 0.0][
            : len(x.flat[:: max(5, x.size // 6)])
        ]
    inputs = [x, np.ones(kept, dtype), np.zeros(kept, np.int32)]
    plain = ",".join(str(dim) for dim in reversed(range(len(shape))))
    reversed_ = ",".join(str(dim) for dim in range(len(shape)))
    for layout in dict.fromkeys([plain, reversed_]):
        for is_read in (False, True):
            module = hlorun.parse(text_of(kind, shape, reduced, layout, is_read=is_read))
            wanted = hlorun.compile(module, disable=["scalar-bytecode"])(*inputs)
            for disabled in ([], ["machine-code"]):
                got = hlorun.compile(module, disable=disabled)(*inputs)
                for a, b in zip(got, wanted, strict=True):
                    np.testing.assert_array_equal(
                        np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32)
                    )


@pytest.mark.parametrize(("kind", "rows"), [("add", 20), ("argmax", 20), ("argmax", 40)])
def test_columns_are_folded_by_scalar_bytecode(kind: str, rows: int) -> None:
    module = hlorun.parse(text_of(kind, (rows, 24), (0,), "1,0", is_read=False))
    assert "bytecode, 0 thunks outside" in hlorun.compile(module).listing()


def test_kernels_outside_choose_among_many_pairs_of_rows() -> None:
    module = hlorun.parse(text_of("argmax", (24, 40), (1,), "1,0", is_read=False))
    assert "bytecode, 0 thunks outside" not in hlorun.compile(module).listing()
