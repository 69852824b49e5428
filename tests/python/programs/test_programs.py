"""Whole JAX programs agree with JAX: as lowered, as XLA:CPU compiled them, and as lowered for CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import cases
import oracle
import store

DEFAULT = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "float32": 3e-5,
    "complex64": 3e-5,
    "float16": 5e-3,
    "bfloat16": 3e-2,
}
SHOWN = 100


def tolerance(x: store.Array, rel: float) -> cases.Tolerance:
    """Relative to the largest element; integers are exact whatever this says."""
    allowed = max(rel, DEFAULT.get(x.dtype.name, 0.13))
    if rel and x.dtype.name in ("float64", "complex128"):
        allowed = rel
    return cases.Tolerance(rel=allowed, abs=allowed * 1e-3, zero_sign=False)


def problem(text: str, program: store.Stored) -> str | None:
    """None when hlorun computes what JAX did."""
    import hlorun

    try:
        got = cases.flatten(hlorun.compile(hlorun.parse(text))(*program.inputs))
    except Exception as error:  # noqa: BLE001 - a verdict, not an end
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if len(got) != len(program.outputs):
        return f"{len(got)} results instead of {len(program.outputs)}"
    for k, (x, y) in enumerate(zip(got, program.outputs, strict=True)):
        wrong = cases.difference(x, y, tolerance(y, program.rel))
        if wrong:
            return f"result {k}: {wrong}"
    return None


@pytest.mark.parametrize("form", ["lowered", "compiled", "cuda"])
@pytest.mark.parametrize("suite", store.suites())
def test_programs(suite: str, form: str) -> None:
    """All programs of a suite in one form."""
    pytest.importorskip("hlorun")
    programs = [p for p in store.read(suite) if form in p.texts]
    failed = [(p.name, problem(p.texts[form], p)) for p in programs]
    failed = [(name, why) for name, why in failed if why]
    lines = "\n".join(f"{name}: {why}" for name, why in failed[:SHOWN])
    assert not failed, f"{len(failed)} of {len(programs)} {form} programs of {suite} fail:\n{lines}"


def test_there_are_enough_programs() -> None:
    """At least 200 programs in both forms, at least 30 of them also for CUDA."""
    programs = [p for suite in store.suites() for p in store.read(suite)]
    assert sum({"lowered", "compiled"} <= p.texts.keys() for p in programs) >= 200
    assert sum("cuda" in p.texts for p in programs) >= 30
    assert not any("{...}" in text for p in programs for text in p.texts.values())
    assert all(
        np.isfinite(x.astype(np.float64)).any()
        for p in programs
        for x in p.outputs
        if x.dtype.kind == "f" and x.size
    )


@pytest.mark.skipif(not oracle.available(), reason="the recipes need JAX")
def test_stored_inputs_are_those_of_the_recipes() -> None:
    """So that what is made again is the same."""
    import registry

    stored = {p.name: p.inputs for suite in store.suites() for p in store.read(suite)}
    made = {p.name: p.inputs() for p in registry.programs()}
    assert stored.keys() == made.keys()
    for name, inputs in made.items():
        for x, y in zip(inputs, stored[name], strict=True):
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), name
