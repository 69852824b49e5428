"""What a whole program is: a JAX function, its inputs, how close results must be.

In: nothing at import but NumPy; the suites import JAX. Out: `programs()`, all of them in a fixed order. Inputs come
from `numpy.random.RandomState` seeded by the program's name, so they never change.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Maker = Callable[[np.random.RandomState], Array]
SUITES = [
    "arrays",
    "numerics",
    "transforms",
    "control",
    "networks",
    "training",
    "randomness",
    "linear",
    "lowprecision",
]


@dataclass(frozen=True)
class Program:
    """`rel` is the error allowed relative to the largest element of an output, 0 for the default of its type.

    `x64` turns JAX's 64-bit types on; `cuda` also stores what JAX lowers for that platform.
    """

    name: str
    suite: str
    function: Callable[..., Any]
    makers: tuple[Maker, ...]
    x64: bool = False
    cuda: bool = False
    rel: float = 0.0

    def inputs(self) -> list[Array]:
        """The same arrays every time."""
        seed = int(hashlib.sha256(self.name.encode()).hexdigest()[:8], 16)
        return [make(np.random.RandomState((seed + k) % 2**32)) for k, make in enumerate(self.makers)]


class Suite:
    """Collects the programs of one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.programs: list[Program] = []

    def __call__(self, name: str, function: Callable[..., Any], *makers: Maker, **options: Any) -> None:
        """Add one program."""
        self.programs.append(Program(name, self.name, function, makers, **options))


def dtype_of(name: str) -> np.dtype[Any]:
    """A NumPy or ml_dtypes dtype."""
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def normal(*dims: int, dtype: str = "float32", scale: float = 1.0) -> Maker:
    """Sums of uniform numbers: bell-shaped and the same bits everywhere."""
    return lambda r: np.asarray((r.uniform(-1, 1, (3, *dims)).sum(0)) * scale).astype(dtype_of(dtype))


def uniform(*dims: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Maker:
    """Between low and high."""
    return lambda r: np.asarray(r.uniform(low, high, dims)).astype(dtype_of(dtype))


def ints(*dims: int, low: int = 0, high: int = 10, dtype: str = "int32") -> Maker:
    """low ≤ x < high."""
    return lambda r: np.asarray(r.randint(low, high, dims, dtype=np.int64)).astype(dtype_of(dtype))


def bools(*dims: int) -> Maker:
    """True or false."""
    return lambda r: np.asarray(r.randint(0, 2, dims)).astype(bool)


def key() -> Maker:
    """A raw threefry key."""
    return lambda r: r.randint(0, 2**31, 2).astype(np.uint32)


def spd(n: int, *lead: int, dtype: str = "float32") -> Maker:
    """Symmetric, positive definite."""

    def make(r: np.random.RandomState) -> Array:
        a = r.uniform(-1, 1, (*lead, n, n))
        return np.asarray(a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(dtype_of(dtype))

    return make


def value(x: float, dtype: str = "float32") -> Maker:
    """One scalar."""
    return lambda r: np.asarray(x).astype(dtype_of(dtype))


def programs() -> list[Program]:
    """Every program of every suite; names are unique."""
    import suites

    present = {m.name for m in pkgutil.iter_modules(suites.__path__)}
    assert present == set(SUITES), f"suites on disk and in the list differ: {present ^ set(SUITES)}"
    found = [p for name in SUITES for p in importlib.import_module(f"suites.{name}").suite.programs]
    names = [p.name for p in found]
    assert len(set(names)) == len(names), "two programs of one name"
    return found
