"""Every function of the math library keeps its stated bound."""

from __future__ import annotations

import pytest

import accuracy

COUNT = 100_000


@pytest.mark.parametrize("dtype", accuracy.TYPES)
@pytest.mark.parametrize("opcode", [*accuracy.UNARY, *accuracy.BINARY])
def test_bound(opcode: str, dtype: str) -> None:
    assert accuracy.measure(opcode, dtype, COUNT) <= accuracy.BOUND[dtype]
