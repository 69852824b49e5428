"""Stored results of the cases: one gzip file per family under tests/data/goldens.

Inside: one line of JSON, `{name: {digest, source, reason?, outputs: [[dtype, dims, bytes]]}}`, then all the arrays'
bytes in that order. Writing the same results gives the same file.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cases import HLO_NAME, Array, np_dtype

FOLDER = Path(__file__).resolve().parents[2] / "data" / "goldens"


@dataclass(frozen=True)
class Golden:
    """Results of one case. `source` is "xla" or "reference"; `reason` is why XLA:CPU did not give it."""

    digest: str
    source: str
    outputs: list[Array]
    reason: str | None = None


def write(family: str, goldens: dict[str, Golden]) -> int:
    """Store a family; returns the size in bytes."""
    head: dict[str, Any] = {}
    blobs = []
    for name, golden in goldens.items():
        rows = []
        for x in golden.outputs:
            data = np.ascontiguousarray(x).tobytes()
            rows.append([HLO_NAME[x.dtype], list(x.shape), len(data)])
            blobs.append(data)
        head[name] = {"digest": golden.digest, "source": golden.source, "outputs": rows}
        if golden.reason:
            head[name]["reason"] = golden.reason
    raw = json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(blobs)
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = gzip.compress(raw, 9, mtime=0)
    (FOLDER / f"{family}.gz").write_bytes(data)
    return len(data)


def read(family: str) -> dict[str, Golden]:
    """The stored results of a family, empty when there are none."""
    path = FOLDER / f"{family}.gz"
    if not path.exists():
        return {}
    line, _, rest = gzip.decompress(path.read_bytes()).partition(b"\n")
    at = 0
    goldens = {}
    for name, entry in json.loads(line).items():
        outputs = []
        for dtype, dims, size in entry["outputs"]:
            outputs.append(np.frombuffer(rest[at : at + size], np_dtype(dtype)).reshape(dims))
            at += size
        goldens[name] = Golden(entry["digest"], entry["source"], outputs, entry.get("reason"))
    return goldens
