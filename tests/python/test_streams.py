"""Inputs of tests are the same bits on every machine, since goldens were made from them on another one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import processors
from streams import Stream, paired, positive

HERE = Path(__file__).resolve().parent

# What `inputs_digest.py` printed when the goldens were made. Graphs have no goldens.
DIGESTS = {
    "operations": "c3ae66429981f922",
    "collectives": "0dc6b497e2bb62b1",
    "dumps": "bf4261fbae3f4c7b",
    "programs": "11f8dc0e16fa8aca",
    "accuracy": "64ee757b27714214",
}


def digests(**environment: str) -> dict[str, str]:
    """The digests in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "inputs_digest.py")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return digests()


def test_inputs_are_those_of_the_goldens(here: dict[str, str]) -> None:
    assert {name: here[name] for name in DIGESTS} == DIGESTS


def test_inputs_do_not_depend_on_the_loops_of_numpy(here: dict[str, str]) -> None:
    assert digests(NPY_DISABLE_CPU_FEATURES=" ".join(processors.dispatched())) == here


@pytest.mark.parametrize("core", processors.NEEDS["OPENBLAS_CORETYPE"])
def test_inputs_do_not_depend_on_the_library_of_products(here: dict[str, str], core: str) -> None:
    if core not in processors.runnable("OPENBLAS_CORETYPE"):
        pytest.skip(f"this CPU cannot run the kernels for {core}")
    assert digests(OPENBLAS_CORETYPE=core) == here


def test_nothing_else_makes_random_arrays() -> None:
    """NumPy's generators are asked for whole numbers, by `streams` alone."""
    found = [
        str(path.relative_to(HERE))
        for path in sorted(HERE.rglob("*.py"))
        if path.name not in ("streams.py", Path(__file__).name)
        and re.search(r"np\.random|numpy\.random|default_rng|RandomState", path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_positive_matrices_are_exact() -> None:
    """Single precision holds them as they are, so the type does not change what is factored."""
    for complex_ in (False, True):
        x = positive(Stream("exact"), (2, 33, 33), complex_=complex_)
        narrow = x.astype(np.complex64 if complex_ else np.float32)
        np.testing.assert_array_equal(narrow.astype(x.dtype), x)
        np.testing.assert_array_equal(np.conj(np.swapaxes(x, -1, -2)), x)
        assert np.linalg.eigvalsh(x).min() > 1


def test_streams_depend_on_the_key_alone() -> None:
    np.testing.assert_array_equal(Stream("a", 1).bytes(8), Stream("a", 1).bytes(8))
    assert Stream("a", 1).bytes(8) != Stream("a", 2).bytes(8)
    z = paired(np.array([1.0, -0.0]), np.array([-0.0, np.inf]))
    assert np.signbit(z.imag[0]) and np.signbit(z.real[1]) and z.imag[1] == np.inf
