"""Two modules on the same inputs: equal, different by rounding, or different programs.

The verdict rests on a third and a fourth run. Both modules are rewritten to compute in f64: where two
programs mean the same, their exact results agree, however far rounding takes them apart in f32 or bf16.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hlorun._hlorun import HloModule
from hlorun._statistics import as_numbers
from hlorun.find.deadline import Deadline
from hlorun.find.gap import Gap, gap, unlike
from hlorun.find.matching import NAMED, VALUE, Pair, factor_of, index_of, pairs_of
from hlorun.find.sides import Side
from hlorun.find.suspect import suspect_of
from hlorun.report.result import Place, Result
from hlorun.report.units import plural


@dataclass(frozen=True)
class Match(Result):
    """An intermediate that both modules compute.

    Attributes:
        a: The `Place` of the instruction of A.
        b: That of B.
        by: How they were matched: "value", "factor", "reciprocal", "name", "origin" or "op_name".
        gap: The `Gap` of their values.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> match = hlorun.compare(module, module).matches[0]
        >>> match.a.name, match.b.name, match.gap.verdict
        ('a', 'a', 'equal')
    """

    a: Place
    b: Place
    by: str
    gap: Gap

    def __str__(self) -> str:
        """As a person reads it."""
        other = "" if self.a.name == self.b.name else f" and {self.b.name}"
        return f"{self.a}{other} (by {self.by}): {self.gap}"


@dataclass(frozen=True)
class Comparison(Result):
    """What a comparison found.

    Attributes:
        verdict: "equal" where all results have the same values, "rounding" where the programs mean the same,
            else "different".
        is_certain: Whether f64 could judge; calls that know their types may keep it from that, and the
            verdict then rests on the size of the differences.
        outputs: A `Gap` for each result.
        matches: A `Match` for each intermediate of B that has a partner in A.
        suspect: The `Place` of the instruction of B that is most likely at fault: one that makes something
            else of the same operands than its counterpart in A, or else the first in the order of the run
            whose value A does not have; None where none is known.
        first: The first `Match` that is different, or None.
        unmatched: How many intermediates of B have no partner.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> comparison = hlorun.compare(module, other, np.ones(2, np.float32))
        >>> comparison.verdict, comparison.suspect.name
        ('different', 'a')
    """

    verdict: str
    is_certain: bool
    outputs: tuple[Gap, ...]
    matches: tuple[Match, ...] = field(repr=False)
    suspect: Place | None
    first: Match | None
    unmatched: int

    def __str__(self) -> str:
        """As a person reads it."""
        sure = "" if self.is_certain else " (by size alone: f64 could not judge)"
        lines = [f"{self.verdict}{sure}"]
        lines += [f"output {k}: {gap}" for k, gap in enumerate(self.outputs) if gap.verdict != "equal"]
        differ = sum(match.gap.verdict == "different" for match in self.matches)
        but = f", {differ:,} of them different" if self.verdict == "different" else ""
        lines.append(
            f"{plural(len(self.matches), 'intermediate')} matched{but}; {self.unmatched:,} not matched"
        )
        is_first = self.first is not None and self.first.b == self.suspect
        if self.suspect is not None:
            lines.append(f"suspect: {self.suspect}{f': {self.first.gap}' if self.first and is_first else ''}")
        if self.first is not None and not is_first:
            lines.append(f"first different: {self.first}")
        return "\n".join(lines)


def _gap_of(a: Side, b: Side, pair: Pair) -> Gap:
    """The gap of a pair: of the elements in their order where both stand in the same, else sorted.

    Where a loop's last trip is not the one in which they agree, that of their fingerprints.
    """
    b.deadline.check()
    x, y = pair.a, pair.b
    ours = [np.asarray(x.literal) if x not in a.kept.values else a.kept.values[x][0], a.value_of(x)]
    theirs = [b.kept.values[y][0], b.value_of(y)]
    values = [ours[0], theirs[0], *((ours[1], theirs[1]) if a.is_exact and b.is_exact else (None, None))]
    if values[0].dtype != values[1].dtype:
        wide = np.complex128 if any(v.dtype.kind == "c" for v in values[:2]) else np.float64
        values[:2] = [as_numbers(v).astype(wide) for v in values[:2]]
    if values[0].shape == values[1].shape:
        found = gap(*values)
        if pair.by not in VALUE or found.verdict != "different":
            return found
    found = gap(*_in_order(values, pair.by))
    if found.verdict != "different" or pair.by not in VALUE:
        return found
    row = b.prints_of(y)[-1]
    rows = a.prints_of(x) or [row]
    return gap(min(rows, key=lambda other: float(np.abs(other - row).sum())), row)


def _in_order(values: list[Any], by: str) -> list[Any]:
    """Both sides sorted, as long as the longer one, and A's as B's factor or reciprocal."""
    made = [None if v is None else as_numbers(v).reshape(-1) for v in values]
    ours, theirs = made[2] if made[2] is not None else made[0], made[3] if made[3] is not None else made[1]
    if by == "reciprocal":
        with np.errstate(divide="ignore", over="ignore"):
            made[::2] = [None if v is None else 1 / v for v in made[::2]]
    elif by == "factor":
        factor = factor_of(ours, theirs)
        made[::2] = [None if v is None else (v * factor).astype(v.dtype) for v in made[::2]]
    size = max(v.size for v in made if v is not None)
    return [None if v is None else np.repeat(np.sort(v), max(1, size // max(1, v.size))) for v in made]


def compare(
    a: HloModule, b: HloModule, *arrays: Any, seed: int = 0, timeout: float | None = None
) -> Comparison:
    """Run two modules on the same inputs, and tell rounding from a difference of the programs.

    Intermediates are matched by value; where the programs differ, also by name, or by opcode and op_name. The
    first one whose exact values differ is named.

    Args:
        a: A module.
        b: Another with the same parameters, for example after a pass or from another version of XLA. Modules
            of several devices run on all of them, and every device after the first gets permuted and scaled
            inputs; results are stacked, and intermediates are those of the first device.
        *arrays: An array per parameter of the entry computation, of its dtype and sizes; nested tuples for
            tuples; without any, the random ones of `hlorun.make_inputs` of `a`.
        seed: Of the random ones.
        timeout: Seconds that all of it may take, the runs and the matching of values.

    Returns:
        A `Comparison`.

    Raises:
        HloArgumentError: The modules have other parameters, or the inputs do not fit.
        HloError: A module breaks rules of HLO, or does not run here.
        HloTimeoutError: It took longer than `timeout`.
        ValueError: `timeout` is negative or NaN.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> hlorun.compare(module, other).verdict
        'different'
    """
    from hlorun._inputs import make_inputs, require_same_parameters

    deadline = Deadline(timeout)
    require_same_parameters(a, b)
    arguments = list(arrays) if arrays else make_inputs(a, seed)
    return compare_sides(Side(a, arguments, deadline), Side(b, arguments, deadline))


def outputs_of(first: Side, second: Side) -> tuple[str, list[Gap]]:
    """The verdict on two runs, and the gap of each result."""
    exact = [
        side.exact if len(side.exact) == len(side.result) else [None] * len(side.result)
        for side in (first, second)
    ]
    outputs = []
    for number in range(max(len(first.result), len(second.result))):
        second.deadline.check()
        if number >= min(len(first.result), len(second.result)):
            outputs.append(unlike("", ""))
            continue
        outputs.append(gap(first.result[number], second.result[number], exact[0][number], exact[1][number]))
    verdicts = {found.verdict for found in outputs}
    return next((v for v in ("different", "rounding") if v in verdicts), "equal"), outputs


def compare_sides(first: Side, second: Side) -> Comparison:
    """What two runs say of their modules, intermediates and all."""
    verdict, outputs = outputs_of(first, second)
    index = index_of(first, second)
    pairs = pairs_of(first, second, verdict == "different", index)
    matches = [Match(Place.of(p.a), Place.of(p.b), p.by, _gap_of(first, second, p)) for p in pairs]
    differing = [match for match in matches if match.gap.verdict == "different"]
    suspect = None
    if verdict == "different":
        # Of several executions only the last value is kept, and those of A and B may be of different trips.
        bad = {
            p.b
            for p, m in zip(pairs, matches, strict=True)
            if m.gap.verdict == "different"
            if p.by in NAMED or len(first.prints_of(p.a)) == len(second.prints_of(p.b)) == 1
        }
        derived = {p.b for p in pairs if p.by == "reciprocal"}
        numbers = [number for number, found in enumerate(outputs) if found.verdict == "different"]
        suspect = suspect_of(first, second, index, bad, derived, numbers)
    is_certain = verdict == "equal" or all(
        found.exact is not None or found.verdict == "equal" or np.isinf(found.absolute) for found in outputs
    )
    return Comparison(
        verdict,
        is_certain,
        tuple(outputs),
        tuple(matches),
        Place.of(suspect) if suspect is not None else None,
        differing[0] if differing and verdict == "different" else None,
        sum(y.opcode != "parameter" for y in second.arrays()) - len(pairs),
    )
