"""What a module costs: XLA's counts, and the same with every trip of every loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hlorun._hlorun import HloInstruction, HloModule
from hlorun.report.result import Place, Result
from hlorun.report.rollup import key_of, rolled_up

KEYS = ("flops", "transcendentals", "bytes accessed")
"""What is counted, by XLA's names."""


def steps_of(module: HloModule) -> list[tuple[HloInstruction, int]]:
    """What runs as a step of its own, with how often."""
    instructions = (i for computation in module.computations for i in computation.instructions)
    return [(i, runs) for i in instructions if (runs := i.runs) is not None]


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
    rows = [_row(instruction, runs) for instruction, runs in steps_of(module)]
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


def parts_of(step: HloInstruction) -> Iterator[tuple[HloInstruction, dict[str, float]]]:
    """The costs of a step where they arise: of a fusion its operations are those of what is fused."""
    cost = whole_cost(step)
    if step.opcode != "fusion":
        yield step, cost
        return
    yield step, {**dict.fromkeys(KEYS, 0.0), "bytes accessed": cost["bytes accessed"]}
    for callee in step.called_computations:
        for instruction in callee.instructions:
            for inner, own in parts_of(instruction):
                if own["flops"] or own["transcendentals"]:
                    yield inner, {**own, "bytes accessed": 0.0}


def cost_groups(module: HloModule, by: str) -> tuple[CostGroup, ...]:
    """What a run of a module costs by source, op_name and so on, the most expensive first.

    Operations inside fusions count where they are; bytes count for the fusion, which alone touches memory.
    By "instruction", a fusion is one with all that is in it.

    Args:
        module: The module.
        by: One of `rollup.BY`.

    Raises:
        HloArgumentError: `by` is another word.
    """
    key = key_of(module, by)
    rows = (
        (key(part), {name: value * runs for name, value in cost.items()})
        for step, runs in steps_of(module)
        for part, cost in ([(step, whole_cost(step))] if by == "instruction" else parts_of(step))
    )
    groups = rolled_up(rows)
    found = [
        CostGroup(name, int(group["count"]), *(group[key] for key in KEYS)) for name, group in groups.items()
    ]
    return tuple(sorted(found, key=lambda group: (-group.flops, -group.bytes_accessed)))


def whole_cost(step: HloInstruction) -> dict[str, float]:
    """The cost of one run; what XLA does not know is 0."""
    cost = step.cost_analysis()
    return {key: max(cost[key], 0.0) for key in KEYS}


@dataclass(frozen=True)
class CostGroup(Result):
    """What the instructions of one group cost in a run, all trips of loops counted.

    Attributes:
        key: What they have in common: the opcode, the source line, or what else `by` asks for.
        instructions: How many there are.
        flops: Floating-point operations.
        transcendentals: Elements of transcendental functions.
        bytes_accessed: Bytes read and written.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> group = hlorun.cost(module).groups[0]
        >>> group.key, group.flops, group.bytes_accessed
        ('add', 2.0, 24.0)
    """

    key: str
    instructions: int
    flops: float
    transcendentals: float
    bytes_accessed: float


@dataclass(frozen=True)
class Cost(Result):
    """What a module costs.

    Attributes:
        module: The module's name.
        by: What the groups are.
        xla: XLA's own count under its keys, one trip of each loop.
        run: "flops", "transcendentals" and "bytes accessed" of all trips, where their number is known.
        unknown_custom_calls: Custom calls that XLA's analysis counts as nothing.
        groups: A `CostGroup` for each part of `run`, the most expensive first.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.cost(module).run["flops"]
        2.0
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
        by: What the groups are: "source", "op_name", "loop", "opcode", "computation" or "instruction".

    Returns:
        A `Cost`.

    Raises:
        HloArgumentError: `by` is another word.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.cost(module, by="opcode").groups[0].key
        'add'
    """
    found = costs(module)
    groups = cost_groups(module, by)
    return Cost(found["module"], by, found["xla"], found["run"], found["unknown_custom_calls"], groups)
