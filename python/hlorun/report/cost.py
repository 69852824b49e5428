"""What a module costs: XLA's counts, and the same with every trip of every loop."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction, HloModule
from hlorun.report.loops import run_counts

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
