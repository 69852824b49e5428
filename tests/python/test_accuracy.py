"""Every function of the math library keeps its stated bound, and gets every special value right."""

from __future__ import annotations

import pytest

import accuracy

COUNT = 100_000


@pytest.mark.parametrize("dtype", accuracy.TYPES)
@pytest.mark.parametrize("opcode", accuracy.REAL)
def test_bound(opcode: str, dtype: str) -> None:
    if opcode == "erf" and dtype == "f64":
        pytest.importorskip("mpmath")
    count = 2_000 if opcode == "erf" else COUNT
    single, double = accuracy.BOUNDS[opcode]
    bound = {"f32": single, "f64": double}.get(dtype, accuracy.HALF_BOUND)
    assert accuracy.measure(opcode, dtype, count) <= bound


@pytest.mark.parametrize("dtype", accuracy.COMPLEX_TYPES)
@pytest.mark.parametrize("opcode", accuracy.COMPLEX)
def test_complex_bound(opcode: str, dtype: str) -> None:
    pytest.importorskip("mpmath")
    bound = accuracy.COMPLEX_BOUNDS[opcode][dtype == "c128"]
    assert accuracy.measure_complex(opcode, dtype, 500) <= bound
