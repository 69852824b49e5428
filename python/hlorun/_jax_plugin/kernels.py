"""Calls of jaxlib's own on the CPU that hlorun gives no meaning of itself, in NumPy.

In: their operands. Out: what jaxlib's functions of these names return.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlorun._custom import register_custom_call

Numbers = NDArray[Any]
"""An array of floating-point or complex numbers, or of integers."""


def sparse_product(values: Numbers, starts: Numbers, columns: Numbers, dense: Numbers) -> Numbers:
    """Multiply a matrix in compressed rows by a vector or a matrix.

    Args:
        values: The elements, row by row, n of them.
        starts: Where each row begins among them, and where the last one ends; m + 1 integers.
        columns: The column of each element; n integers.
        dense: A vector of k numbers or a matrix of k rows.

    Returns:
        m numbers, or m rows.

    Examples:
        >>> sparse_product(np.array([2.0, 3.0]), np.array([0, 1, 2]), np.array([1, 0]), np.array([1.0, 10.0]))
        array([20.,  3.])
    """
    counts = np.diff(starts)
    rows = np.repeat(np.arange(len(counts)), counts)
    used = slice(starts[0], starts[-1])
    terms = values[used].reshape(-1, *(1,) * (dense.ndim - 1)) * dense[columns[used]]
    product: Numbers = np.zeros((len(counts), *dense.shape[1:]), dense.dtype)
    np.add.at(product, rows, terms)
    return product


def tridiagonal_solution(below: Numbers, diagonal: Numbers, above: Numbers, right: Numbers) -> Numbers:
    """Solve tridiagonal systems, where tiny pivots of singular ones are moved away from zero.

    Args:
        below: The elements left of the diagonal, the first of which is none; [..., n].
        diagonal: The diagonal; [..., n].
        above: The elements right of it, the last of which is none; [..., n].
        right: The right-hand sides, columns of [..., n, k].

    Returns:
        The solutions; [..., n, k].

    Examples:
        >>> one, two = np.ones(2), np.full(2, 2.0)
        >>> tridiagonal_solution(one, two, one, np.array([[3.0], [3.0]]))
        array([[1.],
               [1.]])
    """
    n = diagonal.shape[-1]
    if right.size == 0:
        return right
    lower, pivot, upper = (np.moveaxis(part, -1, 0)[..., None].copy() for part in (below, diagonal, above))
    upper[-1] = 0
    second = np.zeros_like(upper)
    x = np.moveaxis(right, -2, 0).copy()
    for i in range(n - 1):
        # Rows i and i + 1 change places where the element below the pivot is the larger one.
        swap = np.abs(lower[i + 1]) > np.abs(pivot[i])
        first = np.where(swap, lower[i + 1], pivot[i]), np.where(swap, pivot[i + 1], upper[i])
        other = np.where(swap, pivot[i], lower[i + 1]), np.where(swap, upper[i], pivot[i + 1])
        second[i] = np.where(swap, upper[i + 1], 0)
        factor = other[0] / np.where(first[0] == 0, 1, first[0])
        pivot[i], upper[i] = first
        pivot[i + 1] = other[1] - factor * first[1]
        upper[i + 1] = np.where(swap, -factor * upper[i + 1], upper[i + 1])
        x[i], x[i + 1] = np.where(swap, x[i + 1], x[i]), np.where(swap, x[i], x[i + 1])
        x[i + 1] -= factor * x[i]
    largest = np.max([np.abs(part).max(axis=0) for part in (pivot, upper, second)], axis=0)
    least = (np.finfo(diagonal.dtype).eps * np.where(largest == 0, 1, largest)).astype(largest.dtype)
    pivot = np.where(np.abs(pivot) < least, np.where(pivot.real < 0, -least, least), pivot)
    for i in range(n - 1, -1, -1):
        if i + 1 < n:
            x[i] -= upper[i] * x[i + 1]
        if i + 2 < n:
            x[i] -= second[i] * x[i + 2]
        x[i] /= pivot[i]
    return np.moveaxis(x, 0, -2)


def register() -> None:
    """Gives the calls their meanings."""
    register_custom_call("cpu_csr_sparse_dense_ffi", sparse_product)
    register_custom_call("tridiagonal_solve_perturbed_ffi", tridiagonal_solution)
