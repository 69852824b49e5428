"""Stored programs: texts, inputs and JAX's outputs, one xz file per suite under tests/data/programs.

Inside: one line of JSON, `{name: {texts: {form: size}, inputs: [[dtype, dims, bytes]], outputs: …, rel, x64}}`, then
the texts' and arrays' bytes in that order. Reading needs neither JAX nor the suites.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "data" / "programs"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stored:
    """One program. `texts` by form: "lowered", "compiled", "cuda"; outputs are flat."""

    name: str
    texts: dict[str, str]
    inputs: list[Array]
    outputs: list[Array]
    rel: float


def _rows(arrays: list[Array], blobs: list[bytes]) -> list[list[Any]]:
    rows = []
    for x in arrays:
        data = np.ascontiguousarray(x).tobytes()
        blobs.append(data)
        rows.append([x.dtype.name, list(x.shape), len(data)])
    return rows


def write(suite: str, programs: list[Stored]) -> int:
    """Store a suite; returns the size in bytes."""
    head: dict[str, Any] = {}
    blobs: list[bytes] = []
    for p in programs:
        texts = {}
        for form, text in p.texts.items():
            data = text.encode()
            blobs.append(data)
            texts[form] = len(data)
        head[p.name] = {
            "texts": texts,
            "inputs": _rows(p.inputs, blobs),
            "outputs": _rows(p.outputs, blobs),
            "rel": p.rel,
        }
    raw = json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(blobs)
    FOLDER.mkdir(parents=True, exist_ok=True)
    packed = lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / f"{suite}.xz").write_bytes(packed)
    return len(packed)


def suites() -> list[str]:
    """The stored suites, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.xz"))


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def read(suite: str) -> list[Stored]:
    """The programs of a suite."""
    line, _, rest = lzma.decompress((FOLDER / f"{suite}.xz").read_bytes()).partition(b"\n")
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return rest[at - size : at]

    found = []
    for name, entry in json.loads(line).items():
        texts = {form: take(size).decode() for form, size in entry["texts"].items()}
        arrays = {
            part: [
                np.frombuffer(take(size), _dtype(dtype)).reshape(dims) for dtype, dims, size in entry[part]
            ]
            for part in ("inputs", "outputs")
        }
        found.append(Stored(name, texts, arrays["inputs"], arrays["outputs"], entry["rel"]))
    return found
