"""The results of a run beside those that a snapshot recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import HloModule, compile
from hlorun._statistics import leaves
from hlorun.errors import HloError

CLOSE = {8: 2.0**-40, 4: 2.0**-15, 2: 2.0**-6, 1: 2.0**-2}
"""Part of the largest element of an output that rounding may change, by the bytes of its type."""

FARTHER = 16
"""How many times as far from the exact result as ours a recorded result may be by rounding."""


def against_recorded(
    module: HloModule, names: list[tuple[str, str]], arguments: list[Any], results: list[Any]
) -> dict[str, Any]:
    """How far outputs are from the recorded ones.

    Where more than a rounding of the output's scale parts them, sums may have cancelled: then both are
    held against the exact result, which is that of the module in f64.

    Args:
        module: Of a snapshot.
        names: A name and an index for each output.
        arguments: What it ran on.
        results: The outputs, flat.

    Returns:
        Whether all agree, the platform of the recorded run, and a row for each output.
    """
    rows = []
    exact: list[Any] | None = None
    outputs = zip(names, results, leaves(module.result), strict=True)
    for number, ((name, index), ours, theirs) in enumerate(outputs):
        row: dict[str, Any] = {"name": name, "index": index, "agrees": True, "equal": True, "largest": 0.0}
        rows.append(row)
        if ours is None or theirs is None:
            continue
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            row.update(agrees=False, equal=False, largest=None)
            continue
        row["equal"] = ours.tobytes() == theirs.tobytes()
        if row["equal"]:
            continue
        row["largest"] = largest = _apart(ours, theirs)
        row["agrees"] = largest <= _rounding(theirs)
        if not row["agrees"] and np.isfinite(largest) and _rounding(theirs) > 0:
            exact = exact if exact is not None else _exact(module, arguments)
            if number < len(exact) and exact[number] is not None and exact[number].shape == ours.shape:
                own = _apart(ours, exact[number])
                row["agrees"] = own > 0 and _apart(theirs, exact[number]) <= FARTHER * own
    return {
        "agrees": all(row["agrees"] for row in rows),
        "platform": module.execution_platform,
        "outputs": rows,
    }


def _wide(array: Any) -> Any:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _apart(ours: Any, theirs: Any) -> float:
    """The largest difference; two NaN are none."""
    a, b = _wide(ours), _wide(theirs)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(apart, initial=0.0))


def _rounding(array: Any) -> float:
    """What rounding may change, at the scale of the array; 0 for integers."""
    if array.dtype.kind not in "fcV":
        return 0.0
    wide = _wide(array)
    scale = float(np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0))
    return CLOSE.get(array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1), 0.0) * max(scale, 1e-30)


def _exact(module: HloModule, arguments: list[Any]) -> list[Any]:
    """The outputs in f64; none where that cannot be."""
    try:
        wide = _hlorun._widen(module)
        return leaves(compile(wide)(*arguments)) if wide is not None else []
    except HloError:
        return []
