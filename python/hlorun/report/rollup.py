"""Sums by where things come from: the one meaning of `by` in costs, profiles, memory and traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hlorun._hlorun import HloInstruction, HloModule
from hlorun._names import UnknownWordError, hint
from hlorun.report.loops import loop_paths
from hlorun.report.result import Place

BY = ("source", "op_name", "loop", "opcode", "computation", "instruction")
"""What can be summed by."""


def check(by: str) -> None:
    """Raise `UnknownWordError` where nothing can be summed by `by`."""
    if by not in BY:
        raise UnknownWordError(f"by is one of {', '.join(BY)}, not {by!r}{hint(by, BY)}")


def key_of(module: HloModule, by: str) -> Callable[[HloInstruction], str]:
    """The function from an instruction to the group that it belongs to.

    Args:
        module: The module of the instructions.
        by: One of `BY`.

    Returns:
        The function; what an instruction does not say is "no source", "no op_name" or "no loop".

    Raises:
        HloArgumentError: `by` is another word.
    """
    check(by)
    if by == "loop":
        paths = loop_paths(module)
        return lambda instruction: paths.get(instruction.computation, "") or "no loop"
    keys: dict[str, Callable[[HloInstruction], str]] = {
        "source": lambda instruction: Place.of(instruction).source or "no source",
        "op_name": lambda instruction: instruction.metadata.op_name or "no op_name",
        "opcode": lambda instruction: instruction.opcode,
        "computation": lambda instruction: instruction.computation.name,
        "instruction": lambda instruction: instruction.name,
    }
    return keys[by]


def rolled_up(rows: Iterable[tuple[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Sums of numbers by group, in the order in which the groups come first; "count" is of the rows."""
    groups: dict[str, dict[str, float]] = {}
    for key, numbers in rows:
        group = groups.setdefault(key, {"count": 0})
        group["count"] += 1
        for name, number in numbers.items():
            group[name] = group.get(name, 0) + number
    return groups


def shares(groups: dict[str, dict[str, float]], of: str) -> list[dict[str, Any]]:
    """Groups as rows with their "key" and their "share" of the sum of one number, the largest first."""
    total = sum(group[of] for group in groups.values())
    rows = [
        {"key": key, **group, "share": group[of] / total if total else 0.0} for key, group in groups.items()
    ]
    return sorted(rows, key=lambda row: -row[of])
