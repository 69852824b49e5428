"""Many modules that ought to be one: the ranks of a job, or what one key of a cache gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hlorun._hlorun import HloComputation, HloInstruction, HloModule
from hlorun.errors import HloArgumentError
from hlorun.report.diff import Diff, diff, elided
from hlorun.report.result import Place, Result

EFFECTS = {
    "collectives": "its collectives differ: ranks may deadlock or exchange data that does not match",
    "interface": "its parameters or results differ",
    "values": "it computes something else",
    "order": "the same instructions in another order",
}
"""What a difference may lead to, the worst first."""


@dataclass(frozen=True)
class RankGroup(Result):
    """Modules that compute the same in the same way.

    Attributes:
        names: Their names.
        fingerprint: What `module.fingerprint()` of each gives.
        effect: "" for the largest group, which the others are held against, else what a difference may lead
            to: "collectives", "interface", "values" or "order".
        at: The `Place` of the first instruction that differs, or None.
        instead_of: That of the one of the largest group in its place, or None.
        difference: `hlorun.diff` of the largest group's first module and this one's, or None.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> group = hlorun.diff_ranks({"0": module, "1": module, "2": other}).groups[1]
        >>> group.names, group.effect, group.at.opcode, group.instead_of.opcode
        (('2',), 'values', 'subtract', 'add')
    """

    names: tuple[str, ...]
    fingerprint: str
    effect: str
    at: Place | None
    instead_of: Place | None
    difference: Diff | None


@dataclass(frozen=True)
class RankDiff(Result):
    """What `hlorun.diff_ranks` found; false when all modules are the same.

    Attributes:
        groups: A `RankGroup` for each set of modules that are the same, the largest first.
        elided_constants: How many constants have values that the texts leave out.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> bool(hlorun.diff_ranks({"0": module, "1": other}))
        True
    """

    groups: tuple[RankGroup, ...]
    elided_constants: int

    def __bool__(self) -> bool:
        """Whether any differ."""
        return len(self.groups) > 1


def diff_ranks(modules: Mapping[str, HloModule]) -> RankDiff:
    """Group modules that ought to be one, and say where the others differ and whether it matters.

    Names and metadata do not count. In scheduled modules collectives are compared in their order, which all
    ranks must share; in others only which there are.

    Args:
        modules: Two or more, by rank, file or whatever tells them apart.

    Returns:
        A `RankDiff`, which is false when all are the same.

    Raises:
        HloArgumentError: There are fewer than two.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> ranks = {"rank 0": module, "rank 1": module, "rank 2": other}
        >>> [group.names for group in hlorun.diff_ranks(ranks).groups]
        [('rank 0', 'rank 1'), ('rank 2',)]
    """
    if len(modules) < 2:
        raise HloArgumentError(f"expected two modules or more, got {len(modules)}")
    alike: dict[str, list[str]] = {}
    for name, module in modules.items():
        alike.setdefault(module.fingerprint(), []).append(name)
    ordered = sorted(alike.items(), key=lambda item: -len(item[1]))
    (most, names), *others = ordered
    reference = modules[names[0]]
    groups = [RankGroup(tuple(names), most, "", None, None, None)]
    groups += [_group(reference, modules, names, fingerprint) for fingerprint, names in others]
    return RankDiff(tuple(groups), max(elided(module) for module in modules.values()))


def _group(
    reference: HloModule, modules: Mapping[str, HloModule], names: list[str], fingerprint: str
) -> RankGroup:
    module = modules[names[0]]
    difference = diff(reference, module)
    ours, theirs = _collectives(module), _collectives(reference)
    effect, at, instead = "collectives", *_first(ours, theirs)
    if at is None and instead is None:
        effect = _effect(difference)
        at, instead = _changed(difference, module, "+"), _changed(difference, reference, "-")
    place, other = (None if i is None else Place.of(i) for i in (at, instead))
    return RankGroup(tuple(names), fingerprint, effect, place, other, difference)


def _effect(difference: Diff) -> str:
    if difference.parameters or difference.output is not None:
        return "interface"
    return "values" if difference.differences else "order"


def _changed(difference: Diff, module: HloModule, side: str) -> HloInstruction | None:
    """The first instruction of a module that the other does not have."""
    here = "B" if side == "+" else "A"
    computations = {computation.name: computation for computation in module.computations}
    for found in difference.differences:
        if "only_in" in found:
            if found["only_in"] == here:
                return computations[found["name"]].root
            continue
        computation = computations[found["other"] if side == "+" else found["name"]]
        for change in found["changes"]:
            if change["side"] == side:
                return computation[change["name"]]
    return None


def _reached(module: HloModule) -> Iterator[HloComputation]:
    """The computations that a run reaches, each once, in the order of the calls."""
    entry = module.entry_computation
    stack = [entry] if entry is not None else []
    seen = set(stack)
    while stack:
        computation = stack.pop()
        yield computation
        called = [c for i in computation.instructions for c in i.called_computations]
        new = [c for c in dict.fromkeys(called) if c not in seen]
        seen.update(new)
        stack += reversed(new)


def _collectives(module: HloModule) -> list[tuple[str, HloInstruction]]:
    """What each collective does, in the order that ranks must share."""
    found = [
        (f"{i.signature()} of {' '.join(str(operand.shape) for operand in i.operands)}", i)
        for computation in _reached(module)
        for i in computation.instructions
        if i.collective is not None
    ]
    return found if module.is_scheduled else sorted(found, key=lambda item: item[0])


def _first(
    ours: list[tuple[str, HloInstruction]], theirs: list[tuple[str, HloInstruction]]
) -> tuple[HloInstruction | None, HloInstruction | None]:
    """The first pair that is not one."""
    for (mine, at), (other, instead) in zip(ours, theirs, strict=False):
        if mine != other:
            return at, instead
    extra, missing = ours[len(theirs) :], theirs[len(ours) :]
    return extra[0][1] if extra else None, missing[0][1] if missing else None
