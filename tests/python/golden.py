"""Golden results in a compact form: per output its norms and a few elements."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).parents[1] / "data" / "golden"
SAMPLES = 12
RTOL, ATOL = 2e-3, 2e-5


def positions(size: int) -> npt.NDArray[np.int64]:
    """Which elements are kept: spread over the array, both ends among them."""
    return np.unique(np.linspace(0, max(size - 1, 0), min(size, SAMPLES)).astype(np.int64))


def digest(array: npt.NDArray[Any]) -> dict[str, Any]:
    """What is kept of an output."""
    entry: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind in "biu":
        entry["crc32"] = zlib.crc32(np.ascontiguousarray(array).tobytes())
        entry["samples"] = [int(x) for x in array.reshape(-1)[positions(array.size)]]
        return entry
    wide = array.astype(np.float64)
    entry["l1"] = float(f"{np.abs(wide).sum():.7g}")
    entry["l2"] = float(f"{np.sqrt(np.square(wide).sum()):.7g}")
    entry["max"] = float(f"{np.abs(wide).max(initial=0):.7g}")
    entry["samples"] = [float(f"{x:.7g}") for x in wide.reshape(-1)[positions(array.size)]]
    return entry


def worst_error(got: npt.NDArray[Any], want: dict[str, Any]) -> float:
    """The largest deviation over its tolerance; above 1 is wrong. Integers must be equal."""
    assert str(got.dtype) == want["dtype"]
    assert list(got.shape) == want["shape"]
    mine = digest(got)
    if "crc32" in want:
        return 0.0 if mine == want else float("inf")
    scale = ATOL + RTOL * want["max"]
    pairs = zip(mine["samples"], want["samples"], strict=True)
    errors = [abs(a - b) / scale for a, b in pairs]
    count = max(got.size, 1)
    norms = abs(mine["l2"] - want["l2"]) / (np.sqrt(count) * ATOL + RTOL * want["l2"])
    sums = abs(mine["l1"] - want["l1"]) / (count * ATOL + RTOL * want["l1"])
    worst = float(np.max([norms, sums, *errors]))
    return float("inf") if np.isnan(worst) else worst


def load(number: str) -> dict[str, Any]:
    """The golden results of a dump by its number."""
    loaded: dict[str, Any] = json.loads((FOLDER / f"{number}.json").read_text())
    return loaded


def save(number: str, oracle: str, results: dict[int, Sequence[npt.NDArray[Any]]]) -> None:
    """Write the golden results of a dump, by seed of its inputs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    seeds = {str(seed): [digest(array) for array in arrays] for seed, arrays in results.items()}
    lines = [
        f' "{seed}": [\n  ' + ",\n  ".join(map(json.dumps, entries)) + "\n ]"
        for seed, entries in seeds.items()
    ]
    body = ",\n".join(lines)
    text = f'{{"oracle": {json.dumps(oracle)}, "seeds": {{\n{body}\n}}}}\n'
    (FOLDER / f"{number}.json").write_text(text)
