"""The same inputs give the same bits in every run and for every thread count."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hlorun
from hlorun._inputs import random_inputs

PROGRAMS = Path(__file__).resolve().parent / "programs"
if str(PROGRAMS) not in sys.path:
    sys.path.insert(0, str(PROGRAMS))

import store  # noqa: E402

THREADS = (1, 2, 3, 8)


def leaves(result: object) -> list[bytes]:
    """Bytes of all arrays of a result."""
    if isinstance(result, (tuple, list)):
        return [data for part in result for data in leaves(part)]
    return [np.ascontiguousarray(np.asarray(result)).tobytes()]


def differing(module: hlorun.HloModule, inputs: list[object]) -> str | None:
    """None when every thread count gives the bits that one thread gives, twice."""
    want = leaves(hlorun.compile(module, threads=1)(*inputs))
    for threads in THREADS:
        executable = hlorun.compile(module, threads=threads)
        for _ in range(2):
            got = leaves(executable(*inputs))
            bad = [k for k, (x, y) in enumerate(zip(got, want, strict=True)) if x != y]
            if bad:
                return f"{threads} threads: results {bad[:8]} of {len(want)} differ"
    return None


@pytest.mark.parametrize("number", ["001", "003"])
def test_dumps(modules: dict[str, hlorun.HloModule], number: str) -> None:
    module = modules[number]
    assert differing(module, list(random_inputs(module, 0))) is None


@pytest.mark.parametrize("suite", store.suites())
def test_programs(suite: str) -> None:
    failed = []
    for program in store.read(suite):
        why = differing(hlorun.parse(program.texts["lowered"]), list(program.inputs))
        if why:
            failed.append(f"{program.name}: {why}")
    assert not failed, "\n".join(failed)


ROWS = """HloModule rows
plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  p = f32[SHAPE] parameter(0)
  e = f32[SHAPE] exponential(p)
  z = f32[] constant(0)
  ROOT r = f32[KEPT] reduce(e, z), dimensions={DIMS}, to_apply=plus
}
"""


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((257, 333), (1,)),
        ((333, 257), (0,)),
        ((5, 40001), (1,)),
        ((40001, 5), (0,)),
        ((300007,), (0,)),
        ((7, 33, 999), (0, 2)),
        ((31, 9, 777), (1,)),
        ((3, 70001, 3), (0, 1, 2)),
    ],
)
def test_reductions(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    """Rows that no number of threads divides, longer and shorter than a tile."""

    def csv(numbers: object) -> str:
        return ",".join(str(n) for n in numbers)  # type: ignore[attr-defined]

    kept = [n for k, n in enumerate(shape) if k not in dims]
    text = ROWS.replace("SHAPE", csv(shape)).replace("KEPT", csv(kept)).replace("DIMS", csv(dims))
    x = np.random.RandomState(0).uniform(-3, 3, shape).astype(np.float32)
    assert differing(hlorun.parse(text), [x]) is None
