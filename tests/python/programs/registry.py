"""What a whole program is: a JAX function, its inputs, how close results must be.

In: nothing at import but NumPy; the suites import JAX. Out: `programs()`, all of them in a fixed order. Inputs come
from `streams` by the program's name, so they never change.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ml_dtypes
import numpy as np
import streams
from streams import Stream

Array = np.ndarray[Any, Any]
Maker = Callable[[Stream], Array]
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
        return [make(Stream(self.name, k)) for k, make in enumerate(self.makers)]


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
    """Bell-shaped."""
    return lambda r: np.asarray(r.normal(dims, np.float64) * scale).astype(dtype_of(dtype))


def uniform(*dims: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Maker:
    """Between low and high."""
    return lambda r: r.uniform(low, high, dims, dtype_of(dtype))


def ints(*dims: int, low: int = 0, high: int = 10, dtype: str = "int32") -> Maker:
    """low ≤ x < high."""
    return lambda r: np.asarray(r.integers(low, high, dims)).astype(dtype_of(dtype))


def bools(*dims: int) -> Maker:
    """True or false."""
    return lambda r: np.asarray(r.integers(0, 2, dims)).astype(bool)


def key() -> Maker:
    """A raw threefry key."""
    return lambda r: r.integers(0, 2**31, 2).astype(np.uint32)


def spd(n: int, *lead: int, dtype: str = "float32") -> Maker:
    """Symmetric, positive definite."""
    return lambda r: streams.positive(r, (*lead, n, n)).astype(dtype_of(dtype))


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
