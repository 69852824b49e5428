"""The list of programs, and what a seed decides of each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]


class Draw:
    """What a seed decides: sizes and inputs.

    Args:
        seed: of the benchmark; each program draws from its own stream, so that one more changes no other.
        name: the program's.
    """

    def __init__(self, seed: int, name: str) -> None:
        self.rng = np.random.default_rng([seed, *name.encode()])

    def size(self, low: int, high: int, step: int = 1) -> int:
        """A multiple of `step` between both, small ones as likely as large ones."""
        drawn = np.exp(self.rng.uniform(np.log(low), np.log(high)))
        return max(step, round(drawn / step) * step)

    def normal(self, *dims: int, scale: float = 1.0, dtype: Any = np.float32) -> Any:
        """Normal numbers of mean 0 and deviation `scale`."""
        return (self.rng.standard_normal(dims, dtype=np.float32) * np.float32(scale)).astype(dtype)

    def uniform(self, *dims: int, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniform f32."""
        return self.rng.uniform(low, high, dims).astype(np.float32)

    def integers(self, high: int, *dims: int) -> Any:
        """s32 from 0 to below `high`."""
        return self.rng.integers(0, high, dims, dtype=np.int32)

    def key(self) -> Any:
        """A key of JAX's generator, as its two words."""
        return self.rng.integers(0, 2**32, 2, dtype=np.uint32)

    def positive_definite(self, *dims: int) -> Any:
        """Well conditioned symmetric matrices f32[..., n, n], where `dims` ends in n."""
        n = dims[-1]
        x = self.normal(*dims, n)
        return x @ x.swapaxes(-1, -2) / n + np.eye(n, dtype=np.float32)


@dataclass(frozen=True)
class Program:
    """A program; `make` gives its function and arguments."""

    name: str
    group: str
    make: Callable[[Draw], Made]
    tolerance: float
    needs: str

    def missing(self) -> bool:
        """Whether the library it is written with is not installed."""
        return bool(self.needs) and importlib.util.find_spec(self.needs) is None


PROGRAMS: list[Program] = []


def program(
    group: str, needs: str = "", tolerance: float = 1e-3
) -> Callable[[Callable[[Draw], Made]], Callable[[Draw], Made]]:
    """Adds a program to the list.

    Args:
        group: its class in the tables.
        needs: the library it is written with, besides JAX.
        tolerance: how far results may be apart, see `timing.compare`.
    """

    def add(make: Callable[[Draw], Made]) -> Callable[[Draw], Made]:
        PROGRAMS.append(Program(make.__name__, group, make, tolerance, needs))
        return make

    return add
