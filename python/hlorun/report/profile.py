"""Times of the steps of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hlorun._hlorun import HloInstruction

Event = tuple[HloInstruction, str, int, float, float]
"""Instruction, kind of step, device, start and duration in seconds."""

CONTAINERS = ("while", "conditional")
"""Kinds of steps whose time is that of the steps inside them."""


def _trace_events(module: str, events: list[Event]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": module}}
    for device in sorted({event[2] for event in events}):
        name = {"name": f"device {device}"}
        yield {"ph": "M", "pid": 0, "tid": device, "name": "thread_name", "args": name}
    for instruction, kind, device, start, duration in events:
        metadata = instruction.metadata
        yield {
            "ph": "X",
            "pid": 0,
            "tid": device,
            "name": instruction.name,
            "cat": kind,
            "ts": round(start * 1e6, 3),
            "dur": round(duration * 1e6, 3),
            "args": {
                "step": kind,
                "opcode": instruction.opcode,
                "shape": str(instruction.shape)[:200],
                "op_name": metadata.op_name,
                "source": f"{metadata.source_file}:{metadata.source_line}" if metadata.source_file else "",
            },
        }


def write_trace(path: Path, module: str, events: list[Event]) -> None:
    """Write a Chrome trace: times in microseconds, one row per device."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        for number, event in enumerate(_trace_events(module, events)):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(event, ensure_ascii=False))
        file.write("\n]}\n")


def slowest(events: list[Event], count: int = 10) -> list[dict[str, Any]]:
    """The steps that took longest in all their runs; loops by the steps inside them."""
    rows: dict[tuple[HloInstruction, str], dict[str, Any]] = {}
    total = 0.0
    for instruction, kind, _, _, duration in events:
        if kind in CONTAINERS:
            continue
        total += duration
        row = rows.get((instruction, kind))
        if row is None:
            row = rows[instruction, kind] = {
                "name": instruction.name,
                "kind": kind,
                "opcode": instruction.opcode,
                "op_name": instruction.metadata.op_name,
                "runs": 0,
                "seconds": 0.0,
            }
        row["runs"] += 1
        row["seconds"] += duration
    found = sorted(rows.values(), key=lambda row: -row["seconds"])[:count]
    return [{**row, "share": row["seconds"] / total if total else 0.0} for row in found]
