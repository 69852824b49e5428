"""What a module costs: XLA's counts, and the same with every trip of every loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction, HloModule
from hlorun.errors import HloArgumentError
from hlorun.report.loops import run_counts
from hlorun.report.result import Place, Result

KEYS = ("flops", "transcendentals", "bytes accessed")
"""What is counted, by XLA's names."""

_CONTROL = ("while", "call", "conditional", "async-start")


def _stored(module: HloModule) -> dict[HloComputation, int]:
    """Computations whose instructions run one by one, with how often; not those of fusions."""
    counts = run_counts(module)
    fused = {
        callee
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode not in _CONTROL
        for callee in instruction.called_computations
    }
    return {computation: count for computation, count in counts.items() if computation not in fused}


def _row(instruction: HloInstruction, runs: int) -> dict[str, Any]:
    cost = instruction.cost_analysis()
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "computation": instruction.computation.name,
        "runs": runs,
        **{key: cost[key] for key in KEYS},
        "op_name": instruction.metadata.op_name,
        "source": Place.of(instruction).source,
    }


def costs(module: HloModule) -> dict[str, Any]:
    """Costs of a module.

    `xla` is what XLA's HloCostAnalysis says, with loops counted as one trip; `run` counts the trips, where
    the text says how many there are; `instructions` lists what is run with its cost per run of its own;
    `opcodes` sums them up, runs included. Custom calls nobody knows count as -1 in `xla` only.
    """
    rows = [
        _row(instruction, runs)
        for computation, runs in _stored(module).items()
        for instruction in computation.instructions
        if instruction.opcode not in _CONTROL
    ]
    total: dict[str, float] = dict.fromkeys(KEYS, 0.0)
    opcodes: dict[str, dict[str, float]] = defaultdict(lambda: {"count": 0, **dict.fromkeys(KEYS, 0.0)})
    unknown = 0
    for row in rows:
        if row["bytes accessed"] < 0:
            unknown += 1
        opcodes[row["opcode"]]["count"] += 1
        for key in KEYS:
            cost = max(row[key], 0.0) * row["runs"]
            total[key] += cost
            opcodes[row["opcode"]][key] += cost
    return {
        "module": module.name,
        "xla": module.cost_analysis(),
        "run": total,
        "unknown_custom_calls": unknown,
        "opcodes": dict(sorted(opcodes.items(), key=lambda item: -item[1]["flops"])),
        "instructions": rows,
    }


_GROUPS: dict[str, Callable[[dict[str, Any]], str]] = {
    "source": lambda row: row["source"] or "no source",
    "op_name": lambda row: row["op_name"] or "no op_name",
    "opcode": lambda row: str(row["opcode"]),
    "computation": lambda row: str(row["computation"]),
    "instruction": lambda row: str(row["name"]),
}


@dataclass(frozen=True)
class CostGroup(Result):
    """What the instructions of one group cost in a run, all trips of loops counted."""

    key: str
    instructions: int
    flops: float
    transcendentals: float
    bytes_accessed: float


@dataclass(frozen=True)
class Cost(Result):
    """What a module costs.

    `xla` is XLA's own count, one trip of each loop; `run` counts all trips where their number is known;
    `groups` part the latter, the most expensive first.
    """

    module: str
    by: str
    xla: dict[str, float]
    run: dict[str, float]
    unknown_custom_calls: int
    groups: tuple[CostGroup, ...] = field(repr=False)


def cost(module: HloModule, by: str = "opcode") -> Cost:
    """Count FLOPs, transcendentals and bytes by XLA's cost analysis.

    Args:
        module: The module.
        by: What the groups are: "source", "op_name", "opcode", "computation" or "instruction".

    Returns:
        A `Cost`.

    Raises:
        HloArgumentError: `by` is another word.

    Example:
        >>> hlorun.cost(module, by="source").groups[0].key
        'rnn.py:58'
    """
    if by not in _GROUPS:
        raise HloArgumentError(f"by is one of {', '.join(_GROUPS)}, not {by!r}")
    found = costs(module)
    counts: dict[str, int] = defaultdict(int)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(KEYS, 0.0))
    for row in found["instructions"]:
        key = _GROUPS[by](row)
        counts[key] += 1
        for kind in KEYS:
            sums[key][kind] += max(row[kind], 0.0) * row["runs"]
    groups = [CostGroup(key, counts[key], *(sums[key][kind] for kind in KEYS)) for key in counts]
    groups.sort(key=lambda group: (-group.flops, -group.bytes_accessed))
    return Cost(
        found["module"], by, found["xla"], found["run"], found["unknown_custom_calls"], tuple(groups)
    )  # fmt: skip
