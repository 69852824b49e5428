"""Signed integers are divided as NumPy divides them, with `integer-division` and without."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

TYPES: dict[str, Any] = {"s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}
DIVISORS = [1, 2, 3, 4, 7, 8, 10, 64, 100]
SIZE = 300
# That the dividend x is negative, or that the remainder r is, by a divisor that is positive.
NEGATIVE = {
    "signs": "sx = T sign(x)\n  sc = T sign(cs)\n  n = P compare(sx, sc), direction=NE",
    "sign": "sx = T sign(x)\n  n = P compare(sx, os), direction=NE",
    "dividend": "n = P compare(x, zs), direction=LT",
    "no more than zero": "n = P compare(x, zs), direction=LE",
    "remainder": "l = P compare(r, zs), direction=LT\n  c0 = P compare(cs, zs), direction=LT\n  n = P compare(l, c0), direction=NE",
}


# What XLA makes of a division by a power of two.
EXPANDED = """below = P compare(x, zs), direction=LT
  nx = T negate(x)
  magnitude = T select(below, nx, x)
  k = {kind}[] constant({shift})
  ks = T broadcast(k), dimensions={{}}
  high = T shift-right-logical(magnitude, ks)
  nhigh = T negate(high)
  q = T select(below, nhigh, high)
  m = {kind}[] constant({mask})
  ms = T broadcast(m), dimensions={{}}
  low = T and(magnitude, ms)
  nlow = T negate(low)
  r = T select(below, nlow, low)"""


def text(kind: str, divisor: int, negative: str, divisions: str) -> str:
    """A module of `x // divisor`, `x % divisor`, and whether the remainder towards zero is zero."""
    lines = f"""HloModule m
ENTRY e {{
  x = T parameter(0)
  c = {kind}[] constant({divisor})
  cs = T broadcast(c), dimensions={{}}
  o = {kind}[] constant(1)
  os = T broadcast(o), dimensions={{}}
  z = {kind}[] constant(0)
  zs = T broadcast(z), dimensions={{}}
  {divisions}
  {NEGATIVE[negative]}
  some = P compare(r, zs), direction=NE
  none = P compare(r, zs), direction=EQ
  both = P and(n, some)
  less = T subtract(q, os)
  floor = T select(both, less, q)
  more = T add(r, cs)
  modulus = T select(both, more, r)
  ROOT t = (T, T, P, T, T) tuple(floor, modulus, none, q, r)
}}
"""
    return re.sub(r"\bT\b", f"{kind}[{SIZE}]", re.sub(r"\bP\b", f"pred[{SIZE}]", lines))


@pytest.mark.parametrize("negative", NEGATIVE)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("expanded", [False, True])
def test_divisions_round_down(kind: str, negative: str, expanded: bool) -> None:
    dtype = TYPES[kind]
    info = np.iinfo(dtype)
    stream = Stream("integer-division", kind)
    for divisor in [n for n in DIVISORS if not expanded or n in (2, 4, 8, 64)]:
        x = stream.integers(-130 if info.min < -130 else info.min, 127, (SIZE,), dtype)
        x[:6] = [info.min, info.max, 0, -1, 1, info.min + 1]
        divisions = "q = T divide(x, cs)\n  r = T remainder(x, cs)"
        if expanded:
            divisions = EXPANDED.format(kind=kind, shift=divisor.bit_length() - 1, mask=divisor - 1)
        module = hlorun.parse(text(kind, divisor, negative, divisions))
        wide = x.astype(object)
        for disable in ([], ["integer-division"]):
            executable = hlorun.compile(module, disable=disable)
            floor, modulus, none, quotient, remainder = executable(x)
            assert (floor.astype(object) == wide // divisor).all(), (divisor, disable)
            assert (modulus.astype(object) == wide % divisor).all(), (divisor, disable)
            assert (none == (wide % divisor == 0)).all(), (divisor, disable)
            towards_zero = [abs(value) // divisor * (1 if value > 0 else -1) for value in wide]
            assert (quotient.astype(object) == towards_zero).all(), (divisor, disable)
            assert (remainder.astype(object) == wide - quotient.astype(object) * divisor).all()
        changes = {done.name: done.changes for done in hlorun.compile(module).passes}
        assert changes["integer-division"] > 0, divisor
