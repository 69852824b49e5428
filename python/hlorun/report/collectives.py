"""What devices send each other: each collective, its groups, and what the network needs for it at least."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hlorun._hlorun import HloInstruction, HloModule
from hlorun.errors import HloArgumentError, HloUnsupportedError
from hlorun.report.collective_reason import CollectiveReason, Flow, reason
from hlorun.report.devices import Device, device
from hlorun.report.result import Place, Result

SENT: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: float(n - 1),
    "all-to-all": lambda n: (n - 1) / n,
    "ragged-all-to-all": lambda n: (n - 1) / n,
    "collective-broadcast": lambda n: 1.0,
    "collective-permute": lambda n: 1.0,
}
"""Bytes that each device of a group of n must send at least, per byte of its result; n is 2 or more."""


def result_bytes(instruction: HloInstruction) -> int:
    """Bytes of what a collective gives each device."""
    shape = instruction.collective_shape
    return (shape.nbytes or 0) if shape is not None else 0


def group_sizes(instruction: HloInstruction, module: HloModule) -> tuple[int, ...]:
    """Devices in each group of a collective; those of a permutation are one group."""
    attributes = instruction.attributes
    kind = instruction.collective
    if kind == "collective-permute":
        pairs = attributes.get("source_target_pairs") or ()
        return (len({member for pair in pairs for member in pair}),)
    groups = attributes.get("replica_groups")
    has_channel = attributes.get("channel_id") is not None
    is_of_both = kind in ("all-reduce", "all-gather", "reduce-scatter")
    if isinstance(groups, str) and groups.startswith("mesh["):
        return _mesh_sizes(groups)
    if isinstance(groups, tuple) and groups and groups != ((),):
        # With a channel and no global ids, these are groups of replicas with all their partitions.
        has_all = has_channel and is_of_both and not attributes.get("use_global_device_ids")
        return tuple(len(group) * (module.num_partitions if has_all else 1) for group in groups)
    if not has_channel:
        return (module.replica_count,)
    return (module.num_partitions * (module.replica_count if is_of_both else 1),)


def _mesh_sizes(text: str) -> tuple[int, ...]:
    """Sizes of the groups along axes of a mesh: `mesh['x'=2,'y'=4], device_ids=(…) {'y':(2)2}`."""
    axes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", text[: text.index("]")])}
    grouped = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", text[text.rindex("{") :])
    if not axes or any(name not in axes for name, _ in grouped):
        raise HloUnsupportedError(f"replica_groups={text} names axes that its mesh does not have")
    size = math.prod(int(part) if part else axes[name] for name, part in grouped)
    return (size,) * (math.prod(axes.values()) // size)


def sent_bytes(instruction: HloInstruction, module: HloModule) -> float:
    """Bytes that a device must send for one run of a collective, by the algorithms for large values.

    Zero for groups of one. Of groups of several sizes the largest counts.
    """
    pairs = instruction.attributes.get("source_target_pairs")
    if pairs is not None and all(source == target for source, target in pairs):
        return 0.0
    size = max(group_sizes(instruction, module))
    factor = SENT.get(instruction.collective or "")
    return factor(size) * result_bytes(instruction) if factor is not None and size > 1 else 0.0


def runs_of(instruction: HloInstruction, callers: dict[str, HloInstruction]) -> int:
    """How often a collective runs; what an async-start wraps runs as often as that."""
    computation = instruction.computation
    for _ in range(len(callers) + 1):
        if computation.runs is not None or computation.name not in callers:
            break
        computation = callers[computation.name].computation
    return computation.runs or 0


def wrappers(module: HloModule) -> dict[str, HloInstruction]:
    """The async-start of each computation that one calls."""
    return {
        callee.name: instruction
        for instruction in module.find(opcode="async-start")
        for callee in instruction.called_computations
    }


@dataclass(frozen=True)
class Collective(Result):
    """A collective of a module.

    Attributes:
        kind: Its opcode, "all-reduce" also for "all-reduce-start".
        place: The `Place` of the instruction.
        runs: How often it runs in one run of the module.
        bytes: What one run of it gives each device.
        sent: Bytes that each device must send for it at least.
        groups: How many groups of devices there are.
        group_size: Devices in each.
        seconds: The time of `sent` over the links of the device; None without a device.
        reason: The `CollectiveReason` why it is there.

    Examples:
        >>> text = (
        ...     "HloModule m, replica_count=2 "
        ...     "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        ...     "ENTRY e { p = f32[8] parameter(0) "
        ...     "ROOT s = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"
        ... )
        >>> one = hlorun.collectives(hlorun.parse(text)).collectives[0]
        >>> one.kind, one.bytes, one.group_size
        ('all-reduce', 32, 2)
    """

    kind: str
    place: Place
    runs: int
    bytes: int
    sent: float
    groups: int
    group_size: int
    seconds: float | None
    reason: CollectiveReason


@dataclass(frozen=True)
class KindOfCollective(Result):
    """All collectives of one kind in one run of a module, trips counted.

    Attributes:
        kind: The opcode.
        count: How many instructions there are.
        runs: How often they run in one run of the module, together.
        bytes: Of the results on each device, over all runs.
        sent: Bytes that each device sends at least, over all runs.
        seconds: The time of `sent` on the links; None without a device.

    Examples:
        >>> swap = "collective-permute(p), source_target_pairs={{0,1},{1,0}}"
        >>> entry = f"ENTRY e {{ p = f32[8] parameter(0) ROOT s = f32[8] {swap} }}"
        >>> module = hlorun.parse(f"HloModule m, replica_count=2 {entry}")
        >>> sums = hlorun.collectives(module).kinds[0]
        >>> sums.kind, sums.bytes
        ('collective-permute', 32)
    """

    kind: str
    count: int
    runs: int
    bytes: int
    sent: float
    seconds: float | None


@dataclass(frozen=True)
class Collectives(Result):
    """The collectives of a module.

    Attributes:
        module: The module's name.
        device: The `Device` that times are for, or None.
        kinds: Sums by kind: `kind`, `count`, `runs`, and of all runs `bytes`, `sent` and `seconds`.
        collectives: A `Collective` for each, those that send most first.

    Examples:
        >>> text = (
        ...     "HloModule m, replica_count=2 "
        ...     "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        ...     "ENTRY e { p = f32[8] parameter(0) "
        ...     "ROOT s = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"
        ... )
        >>> [(sums.kind, sums.count, sums.sent) for sums in hlorun.collectives(hlorun.parse(text)).kinds]
        [('all-reduce', 1, 32.0)]
    """

    module: str
    device: Device | None
    kinds: tuple[KindOfCollective, ...]
    collectives: tuple[Collective, ...] = field(repr=False)


def collectives(module: HloModule, on: str | Device | None = None) -> Collectives:
    """List what devices send each other.

    Args:
        module: The module.
        on: A device as `hlorun.roofline` takes it; with one, the least time each collective takes is told.

    Returns:
        A `Collectives`; empty where the module has none.

    Raises:
        HloArgumentError: There is no such device, or it has no links.

    Examples:
        >>> text = (
        ...     "HloModule m, replica_count=2 "
        ...     "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        ...     "ENTRY e { p = f32[8] parameter(0) "
        ...     "ROOT s = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"
        ... )
        >>> hlorun.collectives(hlorun.parse(text), "H100").kinds[0].kind
        'all-reduce'
    """
    with_links = device(on) if on is not None else None
    if with_links is not None and with_links.link is None:
        raise HloArgumentError(f"{with_links.name} has no links to other devices")
    callers, flow = wrappers(module), Flow(module)
    found = []
    for i in module.instructions:
        if (kind := i.collective) is None:
            continue
        sizes, sent = group_sizes(i, module), sent_bytes(i, module)
        seconds = sent / with_links.link if with_links is not None and with_links.link else None
        row = (runs_of(i, callers), result_bytes(i), sent, len(sizes), max(sizes), seconds)
        found.append(Collective(kind, Place.of(i), *row, reason(i, flow)))
    found.sort(key=lambda c: (-c.runs * c.sent, -c.bytes))
    return Collectives(module.name, with_links, _sums(found), tuple(found))


def _sums(found: list[Collective]) -> tuple[KindOfCollective, ...]:
    kinds: dict[str, list[Collective]] = {}
    for one in found:
        kinds.setdefault(one.kind, []).append(one)
    sums = [
        KindOfCollective(
            kind,
            len(ones),
            sum(one.runs for one in ones),
            sum(one.runs * one.bytes for one in ones),
            sum(one.runs * one.sent for one in ones),
            sum(one.runs * (one.seconds or 0.0) for one in ones) if ones[0].seconds is not None else None,
        )
        for kind, ones in kinds.items()
    ]
    return tuple(sorted(sums, key=lambda one: -one.sent))
