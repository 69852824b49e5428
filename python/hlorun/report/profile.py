"""Times of the steps of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hlorun._hlorun import HloInstruction, HloModule
from hlorun.report.rollup import key_of, rolled_up, shares

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
    """Write a Chrome trace: times in microseconds, one row per device.

    Args:
        path: The file to write, JSON.
        module: The name of the module.
        events: The steps that `Executable.profile` returned beside the outputs.

    Raises:
        OSError: The file cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from hlorun.report.profile import write_trace
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
        >>> write_trace(Path("trace.json"), module.name, steps)
    """
    with path.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        for number, event in enumerate(_trace_events(module, events)):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(event, ensure_ascii=False))
        file.write("\n]}\n")


def steps_of(events: list[Event]) -> list[Event]:
    """The steps whose time is their own; that of loops and branches is that of the steps inside them."""
    return [event for event in events if event[1] not in CONTAINERS]


def slowest(events: list[Event], count: int = 10) -> list[dict[str, Any]]:
    """The steps that took longest in all their runs; loops by the steps inside them."""
    steps = {(event[0].name, event[1]): event[0] for event in events}
    rows = ((f"{event[0].name}\0{event[1]}", {"seconds": event[4]}) for event in steps_of(events))
    found = []
    for row in shares(rolled_up(rows), "seconds")[:count]:
        name, kind = row.pop("key").split("\0")
        instruction = steps[name, kind]
        about = {"name": name, "kind": kind, "opcode": instruction.opcode}
        about["op_name"] = instruction.metadata.op_name
        found.append({**about, "runs": row["count"], "seconds": row["seconds"], "share": row["share"]})
    return found


def times_by(module: HloModule, events: list[Event], by: str) -> list[dict[str, Any]]:
    """Where the time of a run goes, the largest first.

    Args:
        module: The module that was profiled.
        events: The steps that `Executable.profile` returned beside the outputs.
        by: What the groups are: "source", "op_name", "loop", "opcode", "computation" or "instruction".

    Returns:
        Rows of "key", "steps", "seconds" and "share", which is of the time of all steps.

    Raises:
        HloArgumentError: `by` is another word.

    Examples:
        >>> from hlorun.report.profile import times_by
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
        >>> [row["key"] for row in times_by(module, steps, "opcode")]
        ['add']
    """
    key = key_of(module, by)
    rows = ((key(event[0]), {"seconds": event[4]}) for event in steps_of(events))
    return [
        {"key": row["key"], "steps": row["count"], "seconds": row["seconds"], "share": row["share"]}
        for row in shares(rolled_up(rows), "seconds")
    ]
