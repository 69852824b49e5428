"""How far two arrays are apart, and whether that is rounding."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hlorun._statistics import as_numbers
from hlorun.report.result import Result

EXACT = 1e-4
"""Part of a difference that may be left between the exact results of equal programs."""

LARGE = 1e4
"""Roundings of the type in use that are taken for a difference where the exact results are not known."""

ULPS = 8
"""Roundings of the type in use that constants folded beforehand may differ by."""

BUCKETS = (0, 1, 2, 4, 16, 256, 65536)
"""Least numbers of ulps of the classes of a histogram."""


@dataclass(frozen=True)
class Gap(Result):
    """How far two arrays are apart; NaN on one side, and other shapes, count as infinite.

    Attributes:
        verdict: "equal", "rounding" or "different".
        ulps: The greatest distance of two elements in representable numbers.
        absolute: The greatest difference.
        relative: That divided by the largest finite element.
        index: Where the absolute one is.
        a: The value of A there.
        b: The value of B there.
        histogram: How many elements are apart by 0, 1, 2, 4, 16, 256, 65,536 ulps or more, each up to the
            next.
        exact: The greatest difference of the two results in f64; None where that is not known, as the next
            two.
        error_a: The greatest difference of A from its own result in f64.
        error_b: That of B.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> gap = hlorun.compare(module, other, np.ones(2, np.float32)).outputs[0]
        >>> gap.absolute, gap.index, gap.a, gap.b
        (2.0, (0,), '2.0', '0.0')
    """

    verdict: str
    ulps: float
    absolute: float
    relative: float
    index: tuple[int, ...]
    a: str
    b: str
    histogram: tuple[int, ...]
    exact: float | None
    error_a: float | None
    error_b: float | None

    def __str__(self) -> str:
        """As a person reads it."""
        if self.verdict == "equal":
            return "equal"
        at = f" at [{','.join(map(str, self.index))}]" if self.index else ""
        text = (
            f"{self.verdict}: {self.a} and {self.b}{at}, {self.ulps:.3g} ulps, relative {self.relative:.3g}"
        )
        if self.exact is not None:
            text += f"; in f64 they differ by {self.exact:.3g}"
            text += f"; A is off by {self.error_a:.3g} and B by {self.error_b:.3g} from its own f64 result"
        return text


def _ordered(array: Any) -> Any:
    """Floating-point numbers as integers in the same order."""
    width = array.dtype.itemsize * 8
    bits = array.view(f"i{array.dtype.itemsize}").astype(np.int64 if width < 64 else object)
    return np.where(bits < 0, -(2 ** (width - 1)) - bits, bits)


def _ulps(x: Any, y: Any) -> Any:
    """Representable numbers between elements, infinite where one is NaN."""
    if x.dtype.kind in "biu":
        return _distance(x, y)
    if x.dtype.itemsize > 4 or x.dtype.kind == "c":
        scale = np.spacing(np.maximum(np.abs(x), np.abs(y)).astype(np.float64))
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.abs(x - y).astype(np.float64) / scale
        return np.where(x == y, 0, np.where(np.isnan(found), np.inf, found))
    distance = np.abs(_ordered(x) - _ordered(y)).astype(np.float64)
    odd = np.isnan(x) | np.isnan(y)
    both = np.isnan(x) & np.isnan(y)
    return np.where(both | (x == y), 0, np.where(odd, np.inf, distance))


def _worst(gap: Any) -> float:
    return float(np.max(gap, initial=0))


def _distance(x: Any, y: Any) -> Any:
    same = (x == y) | ((x != x) & (y != y))
    if x.dtype.kind in "biu":
        # In their own type differences wrap around; two that f64 rounds to one are still apart.
        far = np.abs(x.astype(np.float64) - y.astype(np.float64))
        return np.where(same, 0, np.maximum(far, 1))
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.abs(x - y)
    return np.where(same, 0, np.where(np.isnan(found), np.inf, found)).astype(np.float64)


def gap(a: Any, b: Any, exact_a: Any = None, exact_b: Any = None) -> Gap:
    """Compare two arrays, with what they are in f64 where that is known."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return unlike(*(f"{x.dtype}{list(x.shape)}" for x in (a, b)))
    x, y = _numbers(a), _numbers(b)
    far = _distance(x, y)
    ulps = _ulps(*((a, b) if a.dtype.kind == "f" and a.dtype.itemsize == 2 else (x, y)))
    at = int(np.argmax(far)) if far.size else 0
    index = tuple(int(i) for i in np.unravel_index(at, far.shape)) if far.size else ()
    scale = _scale(x, y)
    histogram = tuple(
        int(((ulps >= low) & ((ulps < high) | (high == np.inf))).sum())
        for low, high in pairwise((*BUCKETS, np.inf))
    )
    worst = _worst(far)
    exact = error_a = error_b = None
    if exact_a is not None and exact_b is not None and exact_a.shape == exact_b.shape == x.shape:
        p, q = _numbers(exact_a), _numbers(exact_b)
        exact, error_a, error_b = _worst(_distance(p, q)), _worst(_distance(x, p)), _worst(_distance(y, q))
    return Gap(
        verdict=_verdict(worst, exact, scale, a.dtype),
        ulps=_worst(ulps),
        absolute=worst,
        relative=worst / scale if scale else (0.0 if worst == 0 else float("inf")),
        index=index,
        a=str(a.reshape(-1)[at]) if a.size else "",
        b=str(b.reshape(-1)[at]) if b.size else "",
        histogram=histogram,
        exact=exact,
        error_a=error_a,
        error_b=error_b,
    )


def unlike(a: str, b: str) -> Gap:
    """The gap of what cannot be compared."""
    return Gap("different", np.inf, np.inf, np.inf, (), a, b, (), None, None, None)


def _numbers(array: Any) -> Any:
    """The array in a type that can be subtracted."""
    return array.astype(np.int8) if array.dtype.kind == "b" else as_numbers(array)


def _scale(x: Any, y: Any) -> float:
    """The largest finite element."""
    sizes = [
        np.abs(v[np.isfinite(v)]) if v.dtype.kind in "fc" else np.abs(v.astype(np.float64)) for v in (x, y)
    ]
    return max((float(s.max(initial=0)) for s in sizes), default=0.0)


def epsilon(dtype: Any) -> float:
    """The distance of 1 to the next number of a type; 0 for integers."""
    if dtype.kind in "biu":
        return 0.0
    if np.issubdtype(dtype, np.inexact):
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    try:
        return float(finfo(dtype).eps)
    except ValueError:
        # Narrow integers.
        return 0.0


def _verdict(worst: float, exact: float | None, scale: float, dtype: Any) -> str:
    if worst == 0:
        return "equal"
    if dtype.kind in "biu":
        # Rounding may turn a comparison over, as in argmax.
        return "rounding" if exact == 0 else "different"
    unit = epsilon(dtype)
    if exact is None:
        return "rounding" if worst <= LARGE * unit * scale else "different"
    if not np.isfinite(exact):
        return "different"
    return "rounding" if exact <= max(EXACT * worst, ULPS * unit * scale) else "different"
