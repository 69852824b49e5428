"""A module on several devices held against the one it was partitioned from, which runs on one device."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlorun import _hlorun
from hlorun._hlorun import HloInstruction, HloModule, compile
from hlorun._statistics import as_numbers, leaves
from hlorun.errors import HloArgumentError
from hlorun.find.deadline import Deadline
from hlorun.find.gap import epsilon
from hlorun.find.sides import MAX_KEPT
from hlorun.report.result import Place, Result
from hlorun.report.units import plural

ROUNDINGS = 1e3
"""Roundings of the type, at the scale of the value, that another order of sums may make."""

EXACT = 1e-9
"""Part of the scale of a value that another order of sums may change in f64."""

_SUMS = ("all-reduce", "all-reduce-start", "reduce-scatter")


@dataclass(frozen=True)
class DeviceComparison(Result):
    r"""How the values of several devices lie to those of one.

    Attributes:
        verdict: "equal" where every result is, up to rounding, the one device's: whole on each device or in
            tiles; else "different".
        devices: How many there are.
        outputs: Of each result "whole", "tiles", "partial sums" or "different".
        matched: How many intermediates lie so to a value of the one device.
        suspect: The `Place` of the first instruction whose operands do and whose value does not, or None.
        reason: What is known of it.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> tiles = "p = f32[1] parameter(0), sharding={devices=[2]<=[2]} ROOT a = f32[1] add(p, p)"
        >>> parts = hlorun.parse(f"HloModule m, num_partitions=2\nENTRY e {{ {tiles} }}")
        >>> hlorun.compare_devices(module, parts).outputs
        ('tiles',)
    """

    verdict: str
    devices: int
    outputs: tuple[str, ...]
    matched: int
    suspect: Place | None
    reason: str

    def __str__(self) -> str:
        """As a person reads it."""
        lines = [f"{self.verdict} on {plural(self.devices, 'device')}"]
        lines += [f"output {number}: {how}" for number, how in enumerate(self.outputs)]
        lines.append(
            f"{plural(self.matched, 'intermediate matches', 'intermediates match')} those of one device"
        )
        if self.suspect is not None:
            lines.append(f"suspect: {self.suspect}: {self.reason}")
        return "\n".join(lines)


def _tiles_of(array: Any, tiles: list[int], shard: tuple[int, ...]) -> list[Any]:
    """The pieces of an array in row-major order; the last ones may be filled up with zeros."""
    pieces = []
    for at in itertools.product(*(range(count) for count in tiles)):
        part = array[tuple(slice(k * n, (k + 1) * n) for k, n in zip(at, shard, strict=True))]
        whole = np.zeros(shard, array.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        pieces.append(whole)
    return pieces


def _shares(parameter: HloInstruction, value: Any, count: int) -> list[Any]:
    """What each device gets of an argument."""
    array = np.asarray(value)
    shard = tuple(parameter.shape.dims)
    if array.shape == shard:
        return [array] * count
    text = parameter.attributes.get("sharding")
    if not isinstance(text, str):
        raise HloArgumentError(
            f"parameter {parameter.name} is {parameter.shape} on each device and has no sharding that says "
            f"which part of {list(array.shape)} that is"
        )
    try:
        ((tiles, devices),) = _hlorun._tiles(text, count)
    except ValueError as error:
        raise HloArgumentError(f"parameter {parameter.name}: {error}") from None
    if len(tiles) != array.ndim or any(
        -(-n // k) != size for n, k, size in zip(array.shape, tiles, shard, strict=False)
    ):
        raise HloArgumentError(
            f"parameter {parameter.name}: {text} of {list(array.shape)} is not {parameter.shape} on a device"
        )
    pieces = _tiles_of(array, tiles, shard)
    copies = len(devices) // len(pieces)
    shares: list[Any] = [None] * count
    for place, device in enumerate(devices):
        shares[device] = pieces[place // copies]
    if any(share is None for share in shares):
        raise HloArgumentError(f"parameter {parameter.name}: {text} does not name all {count} devices")
    return shares


def _tolerance(dtype: Any) -> float:
    """What another order of sums may change, as a part of the scale."""
    return EXACT if dtype in (np.float64, np.complex128) else ROUNDINGS * epsilon(dtype)


def _is_close(x: Any, y: Any) -> bool:
    """Equal up to what another order of sums makes."""
    if x.dtype.kind in "biu" or y.dtype.kind in "biu":
        return bool(np.array_equal(x, y))
    finite = np.abs(y[np.isfinite(y)])
    tolerance = _tolerance(x.dtype) * float(finite.max(initial=0))
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.allclose(as_numbers(x), as_numbers(y), rtol=0, atol=tolerance, equal_nan=True))


def _lies(values: list[Any], whole: Any) -> str:
    """How the values of the devices lie to the one device's: "whole", "tiles", "partial sums" or ""."""
    first = values[0]
    if first.dtype != whole.dtype or first.ndim != whole.ndim:
        return ""
    if first.shape == whole.shape:
        if all(_is_close(value, whole) for value in values):
            return "whole"
    elif all(0 < n <= m for n, m in zip(first.shape, whole.shape, strict=True)):
        tiles = [-(-m // n) for n, m in zip(first.shape, whole.shape, strict=True)]
        if int(np.prod(tiles)) <= len(values) and _covers(values, whole, tiles):
            return "tiles"
    return "partial sums" if _adds_up(values, whole) else ""


def _covers(values: list[Any], whole: Any, tiles: list[int]) -> bool:
    """Whether every value is a tile, and every tile is some value."""
    shard = values[0].shape
    pieces = _tiles_of(whole, tiles, shard)
    inside = _tiles_of(np.ones(whole.shape, bool), tiles, shard)
    found = set()
    for value in values:
        at = [
            k
            for k, piece in enumerate(pieces)
            if _is_close(np.where(inside[k], value, np.zeros((), value.dtype)), piece)
        ]
        if not at:
            return False
        found.update(at)
    return len(found) == len(pieces)


def _adds_up(values: list[Any], whole: Any) -> bool:
    """Whether the sum over some of the devices, the same number of times each, is the whole or its tiles."""
    if values[0].dtype.kind not in "fc" or values[0].ndim != whole.ndim:
        return False
    total = sum(as_numbers(value).astype(np.complex128) for value in values)
    shard = values[0].shape
    if any(not 0 < n <= m for n, m in zip(shard, whole.shape, strict=True)):
        return False
    tiles = [-(-m // n) for n, m in zip(shard, whole.shape, strict=True)]
    expected = sum(as_numbers(piece).astype(np.complex128) for piece in _tiles_of(whole, tiles, shard))
    scale = max((float(np.abs(as_numbers(v)).max(initial=0)) for v in values), default=0.0)
    if not np.isfinite(scale) or scale == 0:
        return False
    tolerance = _tolerance(whole.dtype) * scale * len(values)
    # Each tile is held by as many devices as there are copies of it.
    for copies in range(1, len(values) // int(np.prod(tiles)) + 1):
        if np.abs(total - copies * expected).max(initial=0) <= tolerance:
            return True
    return False


class _Devices:
    """An observer that keeps the last value of each instruction on every device."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: dict[HloInstruction, list[Any]] = {}
        self.bytes = 0

    def __call__(self, instruction: HloInstruction, value: Any, device: int) -> None:
        arrays = leaves(value)
        if len(arrays) != 1 or arrays[0] is None:
            return
        if instruction not in self.values:
            self.bytes += arrays[0].nbytes * self.count
            if self.bytes > MAX_KEPT:
                return
            self.values[instruction] = [None] * self.count
        self.values[instruction][device] = arrays[0]


def compare_devices(
    a: HloModule, b: HloModule, *arrays: Any, seed: int = 0, timeout: float | None = None
) -> DeviceComparison:
    r"""Run a module on one device and what it was partitioned into on many, and hold the values together.

    Both compute in f64 where they can, so that a small difference is not taken for rounding. The arguments
    are divided as the shardings of the parameters of `b` say. A missing all-reduce, a
    wrong group or a wrong slice shows as the first instruction whose value matches none of the same
    op_name.

    Args:
        a: The module before partitioning.
        b: The module after it, with its number of partitions or replicas in the header.
        *arrays: A whole array per parameter of `a`, of its dtype and sizes; without any, the random ones of
            `hlorun.make_inputs`.
        seed: Of the random ones.
        timeout: Seconds that all of it may take, the runs and the matching of values.

    Returns:
        A `DeviceComparison`.

    Raises:
        HloError: A module breaks rules of HLO, or does not run here.
        HloTimeoutError: It took longer than `timeout`.
        ValueError: `timeout` is negative or NaN.
        HloArgumentError: The parameters of `b` do not say which part of the arguments they take.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> tiles = "p = f32[1] parameter(0), sharding={devices=[2]<=[2]} ROOT a = f32[1] add(p, p)"
        >>> parts = hlorun.parse(f"HloModule m, num_partitions=2\nENTRY e {{ {tiles} }}")
        >>> hlorun.compare_devices(module, parts).verdict
        'equal'
    """
    from hlorun._inputs import make_inputs

    deadline = Deadline(timeout)
    meeting = next((i for i in a.instructions if i.collective is not None), None)
    if meeting is not None:
        raise HloArgumentError(
            f"the first module is to be one before partitioning, and {meeting.name} is a {meeting.opcode}"
        )
    arguments = list(arrays) if arrays else make_inputs(a, seed)
    whole: dict[HloInstruction, Any] = {}

    def keep(instruction: HloInstruction, value: Any) -> None:
        found = leaves(value)
        if len(found) == 1 and found[0] is not None:
            whole[instruction] = found[0]

    one, many = _hlorun._widen(a), _hlorun._widen(b)
    if one is None or many is None:
        one, many = a, b
    alone, executable = compile(one, replicas=1, partitions=1), compile(many)
    expected = leaves(deadline.run(lambda seconds: alone(*arguments, observer=keep, timeout=seconds)))
    count = executable.replicas * executable.partitions
    entry = many.entry_computation
    parameters = entry.parameters if entry is not None else ()
    if len(parameters) != len(arguments):
        raise HloArgumentError(
            f"the first module takes {plural(len(arguments), 'parameter')}, the second {len(parameters):,}"
        )
    shares = [_shares(p, value, count) for p, value in zip(parameters, arguments, strict=True)]
    kept = _Devices(count)
    per_device = [[share[device] for share in shares] for device in range(count)]
    results = deadline.run(
        lambda seconds: executable.run_replicas(per_device, observer=kept, timeout=seconds)
    )
    flat = [leaves(result) for result in results]
    outputs = tuple(
        _lies([result[number] for result in flat], want) or "different"
        for number, want in enumerate(expected)
    )
    verdict = "equal" if all(how in ("whole", "tiles") for how in outputs) else "different"
    for parameter, values in zip(parameters, shares, strict=True):
        kept.values[parameter] = values
    relations = _relations(kept.values, whole, deadline)
    suspect, reason = _suspect(kept.values, relations) if verdict == "different" else (None, "")
    matched = sum(bool(how) for i, how in relations.items() if i.opcode != "parameter")
    return DeviceComparison(
        verdict, count, outputs, matched, Place.of(suspect) if suspect is not None else None, reason
    )


def _relations(
    values: dict[HloInstruction, list[Any]], whole: dict[HloInstruction, Any], deadline: Deadline
) -> dict[HloInstruction, str]:
    """How each instruction of the many devices lies to one of the one device, where op_names say to which."""
    named: dict[str, list[Any]] = defaultdict(list)
    for i, value in whole.items():
        if i.metadata.op_name:
            named[i.metadata.op_name].append(value)
    relations = {}
    for i, found in values.items():
        deadline.check()
        if i.opcode == "parameter":
            relations[i] = "tiles"
            continue
        candidates = named.get(i.metadata.op_name, [])
        if any(value is None for value in found) or not candidates or found[0].size == 0:
            continue
        hows = (_lies(found, candidate) for candidate in candidates)
        relations[i] = next((how for how in hows if how), "")
    return relations


def _suspect(
    values: dict[HloInstruction, list[Any]], relations: dict[HloInstruction, str]
) -> tuple[HloInstruction | None, str]:
    """The first instruction that is wrong though what it reads is right."""
    for i in values:
        how = relations.get(i, "?")
        if how == "partial sums" and i.opcode in _SUMS and all(user.opcode not in _SUMS for user in i.users):
            return i, "its values on the devices are still partial sums: a group is too small or a wrong one"
        if how != "":
            continue
        before = _sources(i, relations)
        if any(relations.get(operand) == "" for operand in before):
            continue
        partial = [operand for operand in before if relations.get(operand) == "partial sums"]
        if partial and i.opcode not in _SUMS:
            return i, f"it reads {partial[0].name}, whose partial sums were not reduced over the devices"
        return i, "its values match none of one device with its op_name"
    return None, ""


def _sources(instruction: HloInstruction, relations: dict[HloInstruction, str]) -> list[HloInstruction]:
    """The nearest instructions before it of which something is known."""
    found, open_, seen = [], list(instruction.operands), set()
    while open_:
        operand = open_.pop()
        if operand in seen:
            continue
        seen.add(operand)
        if operand in relations:
            found.append(operand)
        else:
            open_.extend(operand.operands)
    return found
