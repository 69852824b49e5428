"""Random numbers for tests: the same bits on every machine.

A stream hands out whole numbers of NumPy's Mersenne Twister, which NumPy promises never to change, and what is made
of them by operations that IEEE 754 rounds in one way: sums, differences and products element by element, each a NumPy
call of its own, and scaling by powers of two. Logarithms, exponentials, `standard_normal`, matrix products and
transforms are for expected results with a tolerance, not for inputs: their bits depend on the CPU and its libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, Any]
Dims = int | Sequence[int]


class Stream:
    """Numbers that depend on the key alone."""

    def __init__(self, *key: object) -> None:
        self._numbers = np.random.RandomState(seed_of(*key))

    def integers(self, low: Any, high: Any, dims: Dims | None = None, dtype: Any = np.int64) -> Any:
        """low ≤ x < high; one number when there are no dimensions."""
        return self._numbers.randint(low, high, dims, dtype=dtype)

    def bytes(self, count: int) -> bytes:
        """Any bits."""
        return self._numbers.bytes(count)

    def permutation(self, of: int | Array) -> Array:
        """The numbers below `of`, or its rows, in another order."""
        return np.asarray(self._numbers.permutation(of))

    def choice(self, values: Sequence[Any] | Array, dims: Dims) -> Array:
        """Some of the values, each as often as it comes."""
        values = np.asarray(values)
        return np.asarray(values[self.integers(0, len(values), dims)])

    def uniform(self, low: float, high: float, dims: Dims, dtype: npt.DTypeLike = np.float64) -> Array:
        """Evenly between low and high, in double precision before it is converted."""
        part = np.asarray(self._numbers.random_sample(dims)) * (high - low)
        return narrowed(np.asarray(low + part), dtype)

    def normal(self, dims: Dims, dtype: npt.DTypeLike = np.float32) -> Array:
        """Bell-shaped, of mean 0 and deviation 1: the sum of three uniform numbers."""
        a, b, c = (self.uniform(-1, 1, dims) for _ in range(3))
        return narrowed(np.asarray(a + b + c), dtype)

    def magnitudes(self, low: int, high: int, dims: Dims) -> Array:
        """Doubles of either sign whose exponents are spread evenly over low ≤ e < high."""
        signs = self.choice([-1.0, 1.0], dims)
        return np.asarray(np.ldexp(signs * self.uniform(1, 2, dims), self.integers(low, high, dims)))


def narrowed(values: Array, dtype: npt.DTypeLike) -> Array:
    """Doubles in another type. Versions of ml_dtypes differ in whether they round doubles once or by way of floats."""
    dtype = np.dtype(dtype)
    is_native = not dtype.type.__module__.startswith("ml_dtypes")
    return (values if is_native else values.astype(np.float32)).astype(dtype)


def legacy(seed: int) -> np.random.RandomState:
    """The generator that makers of inputs in other packages' tests take; its fractions are theirs."""
    return np.random.RandomState(seed)


def seed_of(*key: object) -> int:
    """The seed of a stream."""
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:8], 16)


def paired(real: Array, imaginary: Array) -> Array:
    """Complex doubles of two parts, as they are."""
    parts = np.stack(np.broadcast_arrays(real, imaginary), axis=-1).astype(np.float64)
    return np.ascontiguousarray(parts).view(np.complex128)[..., 0]


def positive(stream: Stream, dims: Sequence[int], *, complex_: bool = False) -> Array:
    """Hermitian matrices far from singular, exact in single precision: products of small whole numbers."""

    def part() -> Array:
        return np.asarray(stream.integers(-32, 33, dims))

    def times(a: Array, b: Array) -> Array:
        # Products of integers go through no library, and are exact.
        return np.asarray(a @ np.swapaxes(b, -1, -2))

    n = dims[-1]
    a = part()
    real = times(a, a) + 1024 * n * np.eye(n, dtype=np.int64)
    if not complex_:
        return np.ldexp(real.astype(np.float64), -10)
    b = part()
    real, imaginary = real + times(b, b), times(b, a) - times(a, b)
    return paired(np.ldexp(real.astype(np.float64), -10), np.ldexp(imaginary.astype(np.float64), -10))
