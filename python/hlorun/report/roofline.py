"""Estimates the time of a module on a device, and what bounds each part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from hlorun._hlorun import Executable, HloInstruction, HloModule
from hlorun.report.collectives import runs_of, sent_bytes, wrappers
from hlorun.report.cost import parts_of, steps_of
from hlorun.report.devices import Device, device
from hlorun.report.products import product_flops
from hlorun.report.result import Place, Result
from hlorun.report.rollup import check, key_of, rolled_up

BOUNDS = ("compute", "memory", "interconnect")
"""What can bound a step."""


@dataclass(frozen=True)
class RooflineStep(Result):
    """One step of a module on a device. Times are seconds of one run.

    Attributes:
        place: The instruction, and where it comes from.
        runs: How often it runs; on a measured machine, each of n branches of a conditional counts 1/n.
        flops: Operations of one run.
        bytes_accessed: Bytes that one run reads and writes.
        compute: The time of the operations.
        memory: The time of the bytes.
        interconnect: The time on the links.
        bound: Which of the three is the longest.
        seconds: The time of one run: the longest of the three. On a measured machine compute and memory
            overlap in part, and the start of the step is added.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> step = hlorun.roofline(module, "H100").steps[0]
        >>> step.flops, step.bytes_accessed, step.bound
        (2.0, 24.0, 'memory')
    """

    place: Place
    runs: float
    flops: float
    bytes_accessed: float
    compute: float
    memory: float
    interconnect: float
    bound: str
    seconds: float

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte; None without bytes."""
        return self.flops / self.bytes_accessed if self.bytes_accessed else None


@dataclass(frozen=True)
class RooflineGroup(Result):
    """What the steps of a group take, all trips counted.

    FLOPs inside a fusion count for the group of the instruction that does them, and so does the time of a
    fusion that is bound by FLOPs. Bytes count for the group of the fusion. On a measured machine a step
    counts as a whole for the group of its instruction.

    Attributes:
        key: What the steps share: a source line, an opcode, …
        seconds: Their time.
        share: Part of the module's time, from 0 to 1.
        bound: What most of the time is bound by.
        compute: The part of `seconds` that FLOPs bound.
        memory: The part that memory bandwidth bounds.
        interconnect: The part that the links bound.
        flops: Operations.
        bytes_accessed: Bytes read and written.
        intensity: FLOPs for each byte; None without bytes.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> group = hlorun.roofline(module, "H100", by="opcode").groups[0]
        >>> group.key, group.share
        ('add', 1.0)
    """

    key: str
    seconds: float
    share: float
    bound: str
    compute: float
    memory: float
    interconnect: float
    flops: float
    bytes_accessed: float
    intensity: float | None


@dataclass(frozen=True)
class Roofline(Result):
    """The least time of a module on a device; on a measured machine, an estimate. Times are seconds.

    Attributes:
        module: The module's name.
        device: The `Device`.
        by: What the groups are.
        seconds: The time of all steps, one after another, and of `call`.
        compute: The part of `seconds` that FLOPs bound.
        memory: The part that the speed of memory bounds.
        interconnect: The part that the links bound.
        communication: The time of all collectives.
        exposed: What of it no other step hides between the start and the end of an asynchronous one; None
            where the module has no schedule.
        unknown_custom_calls: Custom calls that take as long as their operands and results take to move.
        unknown_loops: Loops of unknown trips, which run once.
        groups: Parts of the time, the longest first: `key`, `seconds`, `share`, `bound`, `compute`, `memory`,
            `interconnect`, `flops`, `bytes_accessed`, and `intensity` in FLOPs for each byte.
        steps: The steps, the longest first: `place`, `runs`, `bound`, and of one run `seconds`, `compute`,
            `memory`, `interconnect`, `flops` and `bytes_accessed`.
        call: The time of a call besides its steps, on a measured machine; 0 on others.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> roofline = hlorun.roofline(module, "H100")
        >>> f"{roofline.seconds:.2e}", roofline.steps[0].bound
        ('7.16e-12', 'memory')
    """

    module: str
    device: Device
    by: str
    seconds: float
    compute: float
    memory: float
    interconnect: float
    communication: float
    exposed: float | None
    unknown_custom_calls: int
    unknown_loops: int
    groups: tuple[RooflineGroup, ...] = field(repr=False)
    steps: tuple[RooflineStep, ...] = field(repr=False)
    call: float = 0.0


_ALGORITHM = re.compile(r"dot_(any_f8|tf32|bf16|f16|f32|f64)_\w+?(?:_x(\d))?")
"""`algorithm=` of a product: the type that is multiplied, and how many products it makes of one."""

_ALGORITHM_TYPES = {"any_f8": "f8e4m3fn", "tf32": "f32"}


_ASYNC = ("-start", "-update", "-done")
"""How the opcodes of the parts of an asynchronous operation end."""


def _compute_seconds(part: HloInstruction, flops: float, on: Device) -> float:
    """Seconds that the operations of one instruction take at the peak for its types."""
    if not flops:
        return 0.0
    if product_flops(part) is None and part.opcode != "custom-call":
        return flops / on.vector if on.vector else 0.0
    named = _ALGORITHM.fullmatch(str(part.attributes.get("algorithm") or ""))
    if named is not None:
        name, times = named.group(1), int(named.group(2) or 1)
        peak = on.product_peak(_ALGORITHM_TYPES.get(name, name), exact=name == "f32")
        return times * flops / peak
    types = [operand.shape.element_type for operand in part.operands if operand.shape.is_array]
    precisions = part.attributes.get("operand_precision") or ()
    exact = any(str(precision).lower() in ("high", "highest") for precision in precisions)
    return flops / on.product_peak(types[0] if types else "f32", exact=exact)


def _bytes(step: HloInstruction) -> tuple[float, bool]:
    """Bytes a step moves, and whether XLA does not know: then what goes in and comes out, once."""
    counted = step.cost_analysis()["bytes accessed"]
    if counted >= 0:
        return counted, False
    moved = sum(operand.shape.nbytes or 0 for operand in step.operands) + (step.shape.nbytes or 0)
    return float(moved), True


def _begun(step: HloInstruction) -> HloInstruction | None:
    """The collective that a step is, or that it ends: `-done` is where an asynchronous one takes its time."""
    if step.collective is not None and not step.opcode.endswith("-start"):
        return step
    start = _started(step)
    if start is None or start.collective is not None:
        return start
    inner = [i for callee in start.called_computations for i in callee.instructions]
    return next((i for i in inner if i.collective is not None), None)


def _started(step: HloInstruction) -> HloInstruction | None:
    """The start of what a `-done` ends."""
    start = step if step.opcode.endswith("-done") else None
    seen: set[HloInstruction] = set()
    while start is not None and start not in seen and start.opcode.endswith(("-done", "-update")):
        seen.add(start)
        start = start.operands[0] if start.operands else None
    return start


def grouped(rows: list[tuple[str, dict[str, float]]], total: float) -> tuple[RooflineGroup, ...]:
    """Groups of rows of "flops", "bytes" and the times by what bounds them, the longest first."""
    made = []
    for key, sums in rolled_up(rows).items():
        times = {name: sums.get(name, 0.0) for name in BOUNDS}
        seconds = sum(times.values())
        made.append(
            RooflineGroup(
                key,
                seconds,
                seconds / total if total else 0.0,
                max(BOUNDS, key=lambda name, times=times: times[name]),  # type: ignore[misc]
                **times,
                flops=sums["flops"],
                bytes_accessed=sums["bytes"],
                intensity=sums["flops"] / sums["bytes"] if sums["bytes"] else None,
            )
        )
    return tuple(sorted(made, key=lambda group: (-group.seconds, -group.flops)))


class _Estimate:
    """Times of steps, and their parts by group."""

    def __init__(self, module: HloModule, on: Device, by: str) -> None:
        self.module, self.on = module, on
        self.key = key_of(module, by)
        self.is_whole = by == "instruction"
        self.steps: list[tuple[HloInstruction, RooflineStep]] = []
        self.rows: list[tuple[str, dict[str, float]]] = []
        self.unknown = 0
        wrapped = wrappers(module)
        for instruction, runs in steps_of(module):
            # What an async-start wraps takes its time where that ends.
            if instruction.collective is None or instruction.computation.name not in wrapped:
                self._add(instruction, runs)

    def _add(self, step: HloInstruction, runs: int) -> None:
        parts = [
            (part, cost["flops"], _compute_seconds(part, cost["flops"], self.on))
            for part, cost in parts_of(step)
        ]
        moved, is_unknown = _bytes(step)
        self.unknown += is_unknown
        collective = _begun(step)
        sent = sent_bytes(collective, self.module) if collective is not None else 0.0
        if step.opcode.endswith("-start") or (collective is not None and collective is not step):
            # It is counted once, where it ends, and by what it sends.
            moved = 0.0
        times = {
            "compute": sum(seconds for _, _, seconds in parts),
            "memory": moved / self.on.memory,
            "interconnect": sent / self.on.link if self.on.link else 0.0,
        }
        bound = max(BOUNDS, key=lambda name: times[name])
        flops = sum(flops for _, flops, _ in parts)
        made = RooflineStep(Place.of(step), runs, flops, moved, **times, bound=bound, seconds=times[bound])
        self.steps.append((step, made))
        if self.is_whole:
            parts = [(step, flops, times["compute"])]
        own = made.seconds if bound != "compute" else 0.0
        row = {"flops": 0.0, "bytes": moved * runs, **dict.fromkeys(BOUNDS, 0.0)}
        self.rows.append((self.key(step), {**row, bound: own * runs}))
        for part, count, seconds in parts:
            took = seconds * runs if bound == "compute" else 0.0
            self.rows.append((self.key(part), {"flops": count * runs, "bytes": 0.0, "compute": took}))

    def exposed(self) -> float | None:
        """Seconds of collectives that no step between start and end hides; None without a schedule."""
        if not self.module.is_scheduled:
            return None
        seconds = dict(self.steps)
        listed = self.module.instructions
        place = {i: n for n, i in enumerate(listed)}
        # Two collectives need the same links: a step hides one of them, or a part of each.
        left = {
            i: made.seconds
            for i, made in seconds.items()
            if not made.interconnect and not i.opcode.endswith(_ASYNC)
        }
        total = 0.0
        for step, made in self.steps:
            if not made.interconnect:
                continue
            bare, start = made.interconnect, _started(step)
            if start is not None and start in place:
                for i in listed[place[start] + 1 : place[step]]:
                    hidden = min(bare, left.get(i, 0.0))
                    if hidden:
                        left[i] -= hidden
                        bare -= hidden
            total += bare * made.runs
        return total


def _planned(module: HloModule) -> Executable | None:
    """The module's plan; None where hlorun cannot compile it."""
    import hlorun

    try:
        return hlorun.compile(module)
    except (hlorun.HloError, ValueError):
        return None


def roofline(module: HloModule, on: str | Device, by: str = "source") -> Roofline:
    """Estimate the least time of a module on a device, and what bounds each part.

    A step takes the longest of: its FLOPs at the peak of their types, its bytes at the speed of memory, what
    it must send at the speed of the links. Steps run one after another, loops as often as they have trips.

    On this machine the result is an estimate of the time of a run rather than the least time: the steps are
    those of hlorun's plan, each at the measured rates of its operations and of the memory that holds its
    arrays. A module that hlorun cannot compile is estimated as on other devices, with this machine's peaks.

    Args:
        module: The module.
        on: A name ("H100", "A100", "MI300X", "v5e", …), "this" for this machine, which is measured once in a
            process, the path of a JSON file, or a `Device`.
        by: What the groups are: "source", "op_name", "loop", "opcode", "computation" or "instruction".

    Returns:
        A `Roofline`; its groups and steps are the longest first.

    Raises:
        HloArgumentError: There is no such device, or `by` is another word.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> hlorun.roofline(module, "H100").groups[0].bound
        'memory'
    """
    check(by)
    device_ = device(on)
    if device_.rates is not None and (executable := _planned(module)) is not None:
        from hlorun.report.estimate import estimate as of_plan

        return of_plan(module, executable, device_, by)
    # Without a plan it is the least time, with the peaks of this machine.
    device_ = replace(device_, rates=None)
    estimate = _Estimate(module, device_, by)
    steps = [made for _, made in estimate.steps]
    bounds = {name: sum(s.seconds * s.runs for s in steps if s.bound == name) for name in BOUNDS}
    total = sum(bounds.values())
    callers = wrappers(module)
    communication = sum(
        sent_bytes(i, module) / device_.link * runs_of(i, callers)
        for i in module.instructions
        if i.collective is not None and device_.link
    )
    loops = [i for i in module.find(opcode="while") if i.trip_count is None and i.computation.runs]
    return Roofline(
        module.name,
        device_,
        by,
        total,
        **bounds,
        communication=communication,
        exposed=estimate.exposed(),
        unknown_custom_calls=estimate.unknown,
        unknown_loops=len(loops),
        groups=grouped(estimate.rows, total),
        steps=tuple(sorted(steps, key=lambda step: -step.seconds * step.runs)),
    )
