"""Print what all inputs of tests come to, by where they are used: `python tests/python/inputs_digest.py`.

`test_streams.py` runs this with parts of the CPU hidden from NumPy and its libraries, which must not change a bit.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE / "ops", HERE / "programs", HERE / "sweep"):
    sys.path.insert(0, str(folder))

import numpy as np  # noqa: E402


def operations() -> Iterator[Any]:
    """Of the cases with goldens."""
    import cases

    for _, case in cases.all_cases():
        yield from case.inputs


def collectives() -> Iterator[Any]:
    """Of the modules in which devices meet."""
    from replicas.collective_cases import CASES

    for case in CASES.values():
        for arrays in case.inputs():
            yield from arrays


def dumps() -> Iterator[Any]:
    """Of the dumps: what `hlorun run` takes when it is given nothing."""
    import hlorun
    from conftest import dump_path
    from hlorun._inputs import random_inputs

    yield from random_inputs(hlorun.load(dump_path("001")), 7)


def programs() -> Iterator[Any]:
    """Of the JAX programs: one of each maker, since the suites need JAX."""
    import registry

    from streams import Stream

    for make in (
        registry.normal(7, 9, scale=0.3), registry.uniform(50, low=0.1, high=0.7, dtype="bfloat16"),
        registry.ints(9), registry.bools(9), registry.key(), registry.spd(5, 3), registry.spd(4, dtype="float64"),
    ):  # fmt: skip
        yield make(Stream("programs"))


def graphs() -> Iterator[Any]:
    """Of random graphs."""
    import sweep

    for seed in range(20):
        yield from sweep.make(seed).inputs


def accuracy() -> Iterator[Any]:
    """Of the measurement of the math library."""
    import accuracy

    for dtype in accuracy.TYPES:
        yield accuracy.inputs(dtype, -87.0, 88.0, 3000, 1)


KINDS = [operations, collectives, dumps, programs, graphs, accuracy]


def digest(arrays: Iterator[Any]) -> str:
    """Of types, shapes and bytes."""
    found = hashlib.sha256()
    for array in arrays:
        x = np.ascontiguousarray(array)
        found.update(f"{x.dtype.name}{np.shape(array)}".encode() + x.tobytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    for kind in KINDS:
        print(kind.__name__, digest(kind()))
