"""The list of operations, and what a seed decides of one case of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "pred": np.bool_,
    "c64": np.complex64,
}
FLOATS = ("f32", "f64", "bf16", "f16")
WIDE = ("f32", "f64")
INTEGERS = ("s32", "s8", "u8")
NUMBERS = (*FLOATS, *INTEGERS, "c64")
ALL = (*NUMBERS, "pred")
TOLERANCES = {"bf16": 0.05, "f16": 0.01, "f64": 1e-9}


class Setting:
    """One case: its elements, type and layout, and the stream of its inputs.

    Args:
        rng: decides the rest.
        elements: of the largest array, about.
        dtype: a key of `DTYPES`.
    """

    def __init__(self, rng: np.random.Generator, elements: int, dtype: str) -> None:
        self.rng, self.elements, self.dtype = rng, elements, dtype
        self.rank = int(rng.integers(1, 5)) if elements >= 16 else 1
        self.turned = self.rank > 1 and bool(rng.integers(0, 2))

    def dims(self, rank: int | None = None, elements: int | None = None) -> tuple[int, ...]:
        """Dimensions of about `elements` elements, as unequal as the stream wants."""
        rank, left = rank or self.rank, float(elements or self.elements)
        sizes = []
        for i in range(rank - 1):
            share = left ** (self.rng.uniform(0.3, 1.7) / (rank - i))
            sizes.append(max(1, int(min(share, left))))
            left /= sizes[-1]
        sizes.append(max(1, int(left)))
        return tuple(int(n) for n in self.rng.permutation(sizes))

    def array(self, *dims: int, low: float = -4.0, high: float = 4.0, dtype: str = "") -> Any:
        """Elements between `low` and `high`, of the case's type unless `dtype` says another."""
        kind = dtype or self.dtype
        if kind == "pred":
            return self.rng.integers(0, 2, dims).astype(np.bool_)
        if kind in INTEGERS:
            least = 0 if kind == "u8" else -100
            return self.rng.integers(least, 100, dims).astype(DTYPES[kind])
        x = self.rng.uniform(low, high, dims)
        return (x + 1j * self.rng.uniform(low, high, dims) if kind == "c64" else x).astype(DTYPES[kind])

    def places(self, high: int, *dims: int) -> Any:
        """s32 indices from 0 to below `high`."""
        return self.rng.integers(0, max(high, 1), dims, dtype=np.int32)

    def laid_out(self, function: Callable[..., Any], *arrays: Any) -> Made:
        """The function over the arrays; where the case is turned, they come with their dimensions reversed."""
        if not self.turned:
            return function, arrays
        turned = tuple(np.ascontiguousarray(x.T) for x in arrays)
        return lambda *xs: function(*(jnp.transpose(x) for x in xs)), turned


@dataclass(frozen=True)
class Operation:
    """An operation; `make` gives its function and arguments."""

    name: str
    group: str
    make: Callable[[Setting], Made]
    dtypes: tuple[str, ...]
    most: int
    tolerance: float


OPERATIONS: list[Operation] = []


def operation(
    name: str,
    group: str,
    make: Callable[[Setting], Made],
    dtypes: tuple[str, ...] = FLOATS,
    most: int = 10**7,
    tolerance: float = 1e-4,
) -> None:
    """Adds an operation to the list.

    Args:
        name: HLO's.
        group: its class in the tables.
        make: gives the function and its arguments.
        dtypes: the types it is legal for.
        most: elements beyond which one case takes too long.
        tolerance: for f32; that of the other floats is `TOLERANCES`, if larger.
    """
    OPERATIONS.append(Operation(name, group, make, dtypes, most, tolerance))
