"""The list of programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams import Stream

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A program; `make` gives its function and arguments.

    Attributes:
        name: Its name; one with "f64" in it runs with double precision enabled.
        group: "tuned" for those that served to make the model, "held out" for the others.
        make: Gives the function and its arguments.
    """

    name: str
    group: str
    make: Callable[[], Made]


PROGRAMS: list[Program] = []


def program(group: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Adds a program to the list."""

    def add(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS.append(Program(make.__name__, group, make))
        return make

    return add


def normal(*dims: int, scale: float = 1.0, seed: int = 0) -> Any:
    """Bell-shaped numbers, f32."""
    return Stream("estimates", seed).normal(dims) * np.float32(scale)


def uniform(*dims: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> Any:
    """Uniform numbers, f32."""
    return Stream("estimates", seed).uniform(low, high, dims, np.float32)


def integers(high: int, *dims: int, seed: int = 0) -> Any:
    """Integers from 0 to below `high`, s32."""
    return Stream("estimates", seed).integers(0, high, dims, np.int32)
