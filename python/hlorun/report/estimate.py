"""Estimates the time of a module on this machine: the steps of its plan at measured rates."""

from __future__ import annotations

from hlorun._hlorun import Executable, HloModule
from hlorun.report.collectives import sent_bytes
from hlorun.report.devices import Device
from hlorun.report.planned import CLASSES, Planned, PlannedStep
from hlorun.report.result import Place
from hlorun.report.rollup import key_of
from hlorun.report.roofline import BOUNDS, Roofline, RooflineStep, grouped

_MOVES = [
    "scratch",
    "operand",
    "result",
    "patch",
    "matrix",
    "repeated",
    "reversed",
    "strided",
    "transposed",
    "short-row",
    "tiny-row",
    "patch-apart",
    "custom-call",
    "folded-row",
    "folded-row-general",
]
"""Classes that move or start something; they count no FLOPs."""


def _flops(step: PlannedStep) -> float:
    return sum(amount for name, _, amount in step.counts if CLASSES.get(name, name) not in _MOVES)


def estimate(module: HloModule, executable: Executable, on: Device, by: str) -> Roofline:
    """Estimate a module from its plan.

    Args:
        module: The module.
        executable: Its plan.
        on: A device with measured rates.
        by: What the groups are.

    Returns:
        The estimate. All time of collectives is exposed: devices of one process wait for each other.
    """
    assert on.rates is not None
    key = key_of(module, by)
    planned = Planned(executable._work(), on.rates)
    steps: list[RooflineStep] = []
    rows: list[tuple[str, dict[str, float]]] = []
    for step in planned.steps:
        instruction = step.instruction
        sent = sent_bytes(instruction, module) if instruction.collective is not None else 0.0
        times = {
            "compute": step.compute,
            "memory": step.memory,
            "interconnect": sent / on.link if on.link else 0.0,
        }
        bound = max(BOUNDS, key=lambda name, times=times: times[name])  # type: ignore[misc]
        seconds = max(step.seconds, times["interconnect"])
        flops = _flops(step)
        made = RooflineStep(
            Place.of(instruction),
            step.runs,
            flops,
            step.bytes_accessed,
            **times,
            bound=bound,
            seconds=seconds,
        )
        steps.append(made)
        sums = {"flops": flops * step.runs, "bytes": step.bytes_accessed * step.runs}
        rows.append((key(instruction), {**dict.fromkeys(BOUNDS, 0.0), **sums, bound: seconds * step.runs}))
    bounds = {name: sum(row[name] for _, row in rows) for name in BOUNDS}
    total = sum(bounds.values()) + on.rates.call
    communication = sum(step.interconnect * step.runs for step in steps)
    return Roofline(
        module.name,
        on,
        by,
        total,
        **bounds,
        communication=communication,
        exposed=communication,
        unknown_custom_calls=len(executable.unknown_custom_calls()),
        unknown_loops=len(planned.unknown_loops),
        groups=grouped(rows, total),
        steps=tuple(sorted(steps, key=lambda step: -step.seconds * step.runs)),
        call=on.rates.call,
    )
