"""Thunks that a loop of scalar bytecode leaves for are prepared after their first trip: later trips must see what changed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import hlorun
import oracle
from streams import Stream

HEAD = """HloModule prepared
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT
}
least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] minimum(a, b)
}
narrow_sum {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}
first_greatest {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  is_nan = pred[] compare(a, a), direction=NE
  wins = pred[] or(gt, is_nan)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  ties = pred[] and(eq, lt)
  left = pred[] or(wins, ties)
  v = f32[] select(wins, a, b)
  w = s32[] select(left, i, j)
  ROOT r = (f32[], s32[]) tuple(v, w)
}
STATE_condition {
  t = STATE parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
STATE_body {
  t = STATE parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x0 = f32[600] get-tuple-element(t), index=1
  m0 = f32[128,160] get-tuple-element(t), index=2
  k = s32[600] get-tuple-element(t), index=3
  one = s32[] constant(1)
  zero = f32[] constant(0)
  half = f32[] constant(0.5)
  halves = f32[600] broadcast(half), dimensions={}
  j = s32[] add(i, one)
  seven = s32[] constant(7)
  sevens = s32[600] broadcast(seven), dimensions={}
  length = s32[] constant(600)
  lengths = s32[600] broadcast(length), dimensions={}
  is = s32[600] broadcast(j), dimensions={}
  k7 = s32[600] multiply(k, sevens)
  ki = s32[600] add(k7, is)
  k1 = s32[600] remainder(ki, lengths)
"""
TAIL = """  ROOT o = STATE tuple(j, x{n}, m{n}, k1)
}}
ENTRY e {{
  x = f32[600] parameter(0)
  m = f32[128,160] parameter(1)
  k = s32[600] parameter(2)
  z = s32[] constant(0)
  s = STATE tuple(z, x, m, k)
  l = STATE while(s), condition=STATE_condition, body=STATE_body
  a = f32[600] get-tuple-element(l), index=1
  b = f32[128,160] get-tuple-element(l), index=2
  ROOT r = (f32[600], f32[128,160]) tuple(a, b)
}}
"""
STATE = "(s32[], f32[600], f32[128,160], s32[600])"

# What a trip does to `x` and `m`, which X and M stand for; x and m are the results, and N makes names different.
STEPS = [
    # Windows whose places change.
    """  gN = f32[600] gather(X, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1}
  x = f32[600] multiply(gN, halves)
  m = f32[128,160] copy(M)""",
    """  kN = s32[90] slice(k1), slice={[10:100]}
  uN = f32[90] slice(X), slice={[100:190]}
  x = f32[600] scatter(X, kN, uN), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=sum
  m = f32[128,160] copy(M)""",
    # Windows of several elements.
    """  kN = s32[40] slice(k), slice={[0:40]}
  gN = f32[40,7] gather(X, kN), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={7}
  hN = f32[280] reshape(gN)
  fN = f32[320] slice(X), slice={[280:600]}
  uN = f32[600] concatenate(hN, fN), dimensions={0}
  x = f32[600] cosine(uN)
  m = f32[128,160] copy(M)""",
    """  kN = s32[200] slice(k), slice={[200:400]}
  uN = f32[200] slice(X), slice={[100:300]}
  x = f32[600] scatter(X, kN, uN), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=least
  m = f32[128,160] copy(M)""",
    # Sorted rows.
    """  aN = f32[20,30] reshape(X)
  bN = f32[20,30] sort(aN), dimensions={1}, to_apply=less
  cN = f32[600] reshape(bN)
  yN = f32[600] multiply(cN, halves)
  x = f32[600] cosine(yN)
  m = f32[128,160] copy(M)""",
    # The inside of an array, at a known place and at one that changes.
    """  aN = f32[126,158] slice(M), slice={[1:127], [1:159]}
  bN = f32[126,158] slice(M), slice={[0:126], [2:160]}
  cN = f32[126,158] multiply(aN, bN)
  dN = f32[126,158] add(cN, aN)
  eN = f32[126,158] cosine(dN)
  lN = s32[] constant(1)
  m = f32[128,160] dynamic-update-slice(M, eN, lN, lN)
  x = f32[600] negate(X)""",
    """  zN = s32[] constant(0)
  aN = f32[120,150] dynamic-slice(M, i, zN), dynamic_slice_sizes={120,150}
  bN = f32[120,150] slice(M), slice={[8:128], [10:160]}
  cN = f32[120,150] multiply(aN, bN)
  dN = f32[120,150] cosine(cN)
  m = f32[128,160] dynamic-update-slice(M, dN, i, i)
  x = f32[600] negate(X)""",
    """  aN = f32[1,160] slice(M), slice={[7:8], [0:160]}
  lN = s32[] constant(3)
  zN = s32[] constant(0)
  bN = f32[128,160] dynamic-update-slice(M, aN, lN, zN)
  cN = f32[128,1] slice(bN), slice={[0:128], [9:10]}
  m = f32[128,160] dynamic-update-slice(bN, cN, zN, lN)
  x = f32[600] negate(X)""",
    # A running sum.
    """  pN = f32[600] reduce-window(X, zero), window={size=600 pad=599_0}, to_apply=sum
  qN = f32[] constant(0.002)
  bN = f32[600] broadcast(qN), dimensions={}
  hN = f32[600] multiply(pN, bN)
  x = f32[600] cosine(hN)
  m = f32[128,160] copy(M)""",
    # A product, and one of a row whose place changes.
    """  aN = f32[20,30] reshape(X)
  bN = f32[30,25] slice(M), slice={[3:33], [5:30]}
  cN = f32[20,25] dot(aN, bN), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  fN = f32[500] reshape(cN)
  eN = f32[100] slice(X), slice={[500:600]}
  dN = f32[600] concatenate(fN, eN), dimensions={0}
  x = f32[600] sine(dN)
  m = f32[128,160] copy(M)""",
    """  zN = s32[] constant(0)
  aN = f32[1,160] dynamic-slice(M, i, zN), dynamic_slice_sizes={1,160}
  bN = f32[160,128] reshape(M)
  cN = f32[1,128] dot(aN, bN), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dN = f32[1,128] sine(cN)
  fN = f32[128] reshape(dN)
  gN = f32[472] slice(X), slice={[128:600]}
  x = f32[600] concatenate(fN, gN), dimensions={0}
  m = f32[128,160] copy(M)""",
    # The greatest of many, and its place.
    """  nN = s32[600] iota(), iota_dimension=0
  lN = f32[] constant(-inf)
  qN = s32[] constant(0)
  rN = (f32[], s32[]) reduce(X, nN, lN, qN), dimensions={0}, to_apply=first_greatest
  wN = s32[] get-tuple-element(rN), index=1
  vN = f32[] convert(wN)
  bN = f32[600] broadcast(vN), dimensions={}
  yN = f32[600] add(X, bN)
  x = f32[600] sine(yN)
  m = f32[128,160] copy(M)""",
    # Single elements, and a row, that are repeated.
    """  aN = f32[1] slice(X), slice={[3:4]}
  sN = f32[] reshape(aN)
  bN = f32[128,160] broadcast(sN), dimensions={}
  cN = f32[128,160] multiply(M, bN)
  dN = f32[128,160] subtract(cN, bN)
  m = f32[128,160] sine(dN)
  x = f32[600] negate(X)""",
    """  aN = f32[160] slice(X), slice={[30:190]}
  bN = f32[128,160] broadcast(aN), dimensions={1}
  m = f32[128,160] multiply(M, bN)
  x = f32[600] cosine(X)""",
    # Rows that lie across memory.
    """  aN = f32[160,128] transpose(M), dimensions={1,0}
  bN = f32[160,128] reshape(M)
  cN = f32[160,128] add(aN, bN)
  dN = f32[160,128] cosine(cN)
  m = f32[128,160] reshape(dN)
  x = f32[600] negate(X)""",
    # Sums of what is multiplied by an element that changes, in `f32` and in fewer bits.
    """  aN = f32[1] slice(X), slice={[5:6]}
  rN = f32[] reshape(aN)
  qN = f32[] constant(0.02)
  sN = f32[] multiply(rN, qN)
  bN = f32[128,160] broadcast(sN), dimensions={}
  cN = f32[128,160] multiply(M, bN)
  dN = f32[160] reduce(cN, zero), dimensions={0}, to_apply=sum
  eN = f32[128] reduce(cN, zero), dimensions={1}, to_apply=sum
  fN = f32[312] slice(X), slice={[288:600]}
  gN = f32[600] concatenate(dN, eN, fN), dimensions={0}
  x = f32[600] sine(gN)
  m = f32[128,160] copy(M)""",
    """  aN = bf16[128,160] convert(M)
  zN = bf16[] constant(0)
  dN = bf16[160] reduce(aN, zN), dimensions={0}, to_apply=narrow_sum
  eN = f32[160] convert(dN)
  fN = f32[440] slice(X), slice={[160:600]}
  gN = f32[600] concatenate(fN, eN), dimensions={0}
  x = f32[600] sine(gN)
  m = f32[128,160] negate(M)""",
]


def text(steps: list[str]) -> str:
    body = []
    for n, step in enumerate(steps):
        step = step.replace("  x = ", f"  x{n + 1} = ").replace("  m = ", f"  m{n + 1} = ")
        for name in "abcdefghlnpqrsuvwyzk":
            step = step.replace(f"{name}N", f"{name}N{n}")
        for old, new in (("X", f"x{n}"), ("M", f"m{n}")):
            step = step.replace(f"({old}", f"({new}").replace(f", {old}", f", {new}")
        body.append(step)
    whole = HEAD + "\n".join(body) + "\n" + TAIL.format(n=len(steps))
    return whole.replace("STATE_", "loop_").replace("STATE", STATE)


def arrays(seed: int) -> list[Any]:
    values = Stream("prepared thunks", seed)
    return [
        values.uniform(-2, 2, 600, "f4"),
        values.uniform(-2, 2, (128, 160), "f4"),
        values.integers(0, 600, 600, "i4"),
    ]


@pytest.mark.parametrize("seed", range(len(STEPS) + 30))
def test_later_trips_see_what_changed(seed: int) -> None:
    pick = random.Random(seed)
    steps = [STEPS[seed]] if seed < len(STEPS) else pick.sample(STEPS, 4)
    module = hlorun.parse(text(steps))
    inputs = arrays(seed)
    wanted = hlorun.compile(module, threads=1, check="shadow")(*inputs)
    for threads in (1, 2):
        executable = hlorun.compile(module, threads=threads)
        for _ in range(2):
            for a, b in zip(executable(*inputs), wanted, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib")
def test_every_trip_means_what_it_means_to_xla() -> None:
    xla = oracle.Oracle()
    try:
        for at, step in enumerate(STEPS):
            # XLA rounds every sum of `bf16`.
            if "bf16" in step:
                continue
            inputs = arrays(at)
            wanted = xla.run(text([step]), inputs)
            for a, b in zip(hlorun.compile(hlorun.parse(text([step])))(*inputs), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3, err_msg=step)
    finally:
        xla.close()
