"""Every operation agrees with XLA:CPU: one test per family, which names all the cases that fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import cases
import goldens
import numpy as np
import oracle
import runner

FAMILIES = cases.family_names()
SHOWN = 200


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    """All cases of a family."""
    pytest.importorskip("hlorun")
    xla = runner.live()
    try:
        results = runner.run_family(name, xla)
    finally:
        if xla is not None:
            xla.close()
    failed = [r for r in results if r.error is not None]
    lines = [f"{r.case.name}: {r.error}" for r in failed[:SHOWN]]
    if len(failed) > SHOWN:
        lines.append(f"… and {len(failed) - SHOWN} more")
    assert not failed, f"{len(failed)} of {len(results)} cases of {name} fail:\n" + "\n".join(lines)


@pytest.mark.parametrize("name", FAMILIES)
def test_goldens_are_current(name: str) -> None:
    """Every case has a golden made from its present text and inputs, and no golden is left over."""
    stored = goldens.read(name)
    now = {case.name: case.digest() for case in cases.family(name)}
    assert {k: g.digest for k, g in stored.items()} == now


def test_there_are_enough_cases() -> None:
    """The suite covers at least 3,000 cases."""
    assert sum(len(cases.family(name)) for name in FAMILIES) >= 3000


@pytest.mark.parametrize(
    ("got", "want", "tolerance", "fits"),
    [
        (np.float32([1, np.nan]), np.float32([1, -np.nan]), cases.EXACT, True),
        (np.float32([0.0]), np.float32([-0.0]), cases.EXACT, False),
        (np.float32([0.0]), np.float32([-0.0]), cases.Tolerance(ulps=4), False),
        (np.float32([0.0]), np.float32([-0.0]), cases.Tolerance(rel=1e-6, zero_sign=False), True),
        (np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)), cases.EXACT, False),
        (np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2)), cases.Tolerance(ulps=1), True),
        (np.float32([np.inf]), np.float32([np.nan]), cases.Tolerance(ulps=4, abs=1.0), False),
        (np.float32([np.inf]), np.float32([3e38]), cases.Tolerance(rel=1.0), False),
        (np.int32([1]), np.int32([2]), cases.Tolerance(abs=5.0), False),
        (np.int32([1]), np.int64([1]), cases.EXACT, False),
        (np.complex64([1 + 2j]), np.complex64([1 + 2j]), cases.EXACT, True),
        (np.complex64([1 + 2j]), np.complex64([1 - 2j]), cases.Tolerance(rel=0.1), False),
    ],
)
def test_comparison(got: cases.Array, want: cases.Array, tolerance: cases.Tolerance, fits: bool) -> None:
    """The comparison itself can say no."""
    assert (cases.difference(got, want, tolerance) is None) is fits


@pytest.mark.skipif(not oracle.available(), reason="needs jaxlib")
def test_oracle_survives_an_abort() -> None:
    """A worker that dies is a refusal, and the next module runs."""
    xla = oracle.Oracle()
    two_bits = cases.module("p = s2[3] parameter(0)\nr = s2[6] concatenate(p, p), dimensions={0}")
    with pytest.raises(oracle.Refused):
        xla.run(two_bits, [cases.random("s2", (3,))])
    with pytest.raises(oracle.Refused):
        xla.run("no module", [])
    (one,) = xla.run(cases.module("r = f32[] constant(1)"), [])
    assert one == 1
    xla.close()
