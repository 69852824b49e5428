"""Numbers about an array: extremes, mean, what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np


def leaves(value: Any) -> list[Any]:
    """The arrays of nested tuples; None where there is no array."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def as_numbers(array: Any) -> Any:
    """The array in a type NumPy can compute with: narrow floats as float32."""
    if array.dtype.kind == "V" or (array.dtype.itemsize < 4 and array.dtype.kind not in "biu"):
        return array.astype(np.float32)
    return array


def statistics(array: Any) -> dict[str, Any]:
    """`min`, `max`, `mean` of the finite elements, and counts of `nan` and `inf`; complex numbers by size."""
    found: dict[str, Any] = {"nan": 0, "inf": 0, "min": None, "max": None, "mean": None}
    if array.size == 0:
        return found
    array = as_numbers(array)
    if array.dtype.kind == "c":
        array = np.abs(array)
    if array.dtype.kind == "f":
        finite = np.isfinite(array)
        if not finite.all():
            found["nan"] = int(np.isnan(array).sum())
            found["inf"] = int(array.size - finite.sum()) - found["nan"]
            array = array[finite]
            if array.size == 0:
                return found
    found["min"], found["max"] = array.min().item(), array.max().item()
    found["mean"] = float(array.mean(dtype=np.float64))
    return found
