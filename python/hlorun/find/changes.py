"""What was changed from one module to another, as the values of two runs prove.

An instruction that makes something else of the same values than its counterpart was changed, or a constant
that it reads; where operands differ, what computes them is held against each other in turn. Counterparts have
one opcode and one name. Or they have related opcodes and, of several operands, one of the same value; then B
lacks what the one in A computes, or the caller asks for less proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction
from hlorun._statistics import as_numbers
from hlorun.find.flow import CALLS, MOVES, Flow, Moment
from hlorun.find.gap import epsilon
from hlorun.find.matching import CLOSE, Index, index_of
from hlorun.find.sides import Side, alike, name_of

SAME = 1e-9
"""Relative difference up to which operands in f64 are the same."""

DEPTH = 8
"""Instructions between one whose value is new and the one that was changed."""

RUNS = 16
"""Runs of a computation of A in which a counterpart is looked for; those of a long loop are much alike."""

MOST_UNLIKE = 2
"""Operands that may hold something else; of more, nobody says which belong together."""

KIN = (("subtract", "add"), ("divide", "multiply"))
"""Opcodes of which a pass writes the second for the first, with a constant negated or inverted."""

_WHOLES = (*CALLS, "while", "conditional", "tuple", "get-tuple-element", "parameter")
"""What computes nothing itself."""

Operands = list[tuple[HloInstruction, HloInstruction]]


class Changes:
    """Two runs side by side: A, which is right, and B.

    Args:
        a: The run that is right.
        b: The run that is wrong.
        index: The values of A.
    """

    def __init__(self, a: Side, b: Side, index: Index) -> None:
        self.a, self.b, self.index = a, b, index
        self.ours, self.theirs = Flow(a), Flow(b)
        self.are_exact = a.is_exact and b.is_exact
        self.known: dict[tuple[Moment, Moment], bool | None] = {}
        self.lost: dict[HloInstruction, list[int]] = {}

    def by_name(self) -> Iterator[HloInstruction]:
        """Instructions of B that differ from their namesakes, in the order of the run."""
        if not self.are_exact:
            return
        named = {name_of(i): i for i in self.a.module.instructions}
        for y in self.b.kept.values:
            self.b.deadline.check()
            x = named.get(name_of(y))
            if x is None or x.opcode != y.opcode or y.opcode in _WHOLES:
                continue
            rows = zip(self.a.prints_of(x), self.b.prints_of(y), strict=False)
            at = next((n for n, (row, other) in enumerate(rows) if not _agree(row, other, CLOSE)), None)
            # Or each runs once, and the elements are in other places.
            values = self.ours.only_value(x), self.theirs.only_value(y)
            if at is None and _are_equal(*values, CLOSE) is not False:
                continue
            rest = self._unlike((x, at or 0), (y, at or 0)) if y.operands else None
            if rest is not None and all(_are_one_constant(i, j) for i, j in rest):
                yield rest[-1][1] if rest else y

    def behind(self, y: HloInstruction, is_lost: bool) -> HloInstruction | None:
        """What was changed where B computes `y`, whose value A lacks; None if nothing is proved.

        Args:
            y: An instruction of B.
            is_lost: Whether B must lack what a counterpart computes.
        """
        if not self.are_exact:
            return None
        at = next((n for n, row in enumerate(self.b.prints_of(y)) if not self.index.same(row)), 0)
        causes: dict[tuple[bool, int], set[HloInstruction]] = {}
        related = [y.opcode, *(opcode for opcode, other in KIN if other == y.opcode)]
        for x in (x for opcode in related for x in self.by_opcode[opcode]):
            self.b.deadline.check()
            lost = self._lost(x)
            if is_lost and not lost:
                continue
            for n in dict.fromkeys([at, *lost[:RUNS]]):
                rest = self._unlike((x, n), (y, at))
                if rest is None or len(rest) == len(x.operands) > 1:
                    continue
                found = self._cause((x, n), (y, at), DEPTH)
                # Constants differ between any two counterparts that are none.
                if found is not None and (is_lost or found.opcode != "constant"):
                    causes.setdefault((n != at, len(rest)), set()).add(found)
        # Trips of the same number, and counterparts with more operands in common, say more.
        best = causes[min(causes)] if causes else set()
        return best.pop() if len(best) == 1 else None

    @cached_property
    def by_opcode(self) -> dict[str, list[HloInstruction]]:
        """The instructions of A that ran."""
        found = defaultdict(list)
        for x in self.a.kept.values:
            found[x.opcode].append(x)
        return found

    @cached_property
    def values_of_b(self) -> Index:
        """The values of B, to find those of A that it lacks."""
        return index_of(self.b, self.a)

    def _lost(self, x: HloInstruction) -> list[int]:
        """The runs in which B lacks what `x` computes."""
        if x not in self.lost:
            rows = self.a.prints_of(x)
            self.lost[x] = [n for n, row in enumerate(rows) if not self.values_of_b.same(row)]
        return self.lost[x]

    def _cause(self, ours: Moment, theirs: Moment, depth: int) -> HloInstruction | None:
        """What was changed: the instruction of B, or what its operands come from; None if not proved."""
        (x, _), (y, _) = ours, theirs
        if y.opcode in _WHOLES or self._are_same(ours, theirs) is not False:
            return None
        if y.opcode == "constant":
            # What a pass folded is a constant in the place of something else.
            return y if x.opcode == "constant" or x.shape.dims == y.shape.dims != () else None
        rest = self._unlike(ours, theirs)
        if rest is None or (not y.operands and x.opcode != y.opcode):
            return None
        if not rest:
            return y
        if depth == 0 or len(rest) > MOST_UNLIKE:
            return None
        found = {self._cause_of_operand(ours, theirs, pair, depth - 1) for pair in rest}
        return found.pop() if len(found) == 1 else None

    def _cause_of_operand(
        self, ours: Moment, theirs: Moment, pair: tuple[HloInstruction, HloInstruction], depth: int
    ) -> HloInstruction | None:
        """What was changed where operands of counterparts hold something else."""
        (x, n), (y, m) = ours, theirs
        mine, others = self.ours.maker(pair[0], n), self.theirs.maker(pair[1], m)
        (i, _), (j, _) = mine[-1], others[-1]
        if self._are_same(mine[-1], others[-1]):
            return self._changed_move(mine, others)
        if i.opcode == j.opcode == "constant" and _is_rewritten(y.opcode, i.literal, j.literal):
            return y
        if x.opcode != y.opcode and j.opcode != "constant":
            return None
        return self._cause(mine[-1], others[-1], depth) if self._is_in_place(mine[-1], others[-1]) else None

    def _is_in_place(self, ours: Moment, theirs: Moment) -> bool:
        """Whether B has a value in the place of one of A's; else the reader may have taken the wrong one."""
        mine, other = self.ours.print_of(*ours), self.theirs.print_of(*theirs)
        if mine is None or other is None or not self.index.same(other) or not self.values_of_b.same(mine):
            return True
        opcode = theirs[0].opcode
        return _count(self.theirs, theirs, opcode, other) > _count(self.ours, ours, opcode, other)

    def _changed_move(self, mine: list[Moment], others: list[Moment]) -> HloInstruction | None:
        """The first of two chains of moves from one value that moves to other places."""
        if [i.opcode for i, _ in mine] != [j.opcode for j, _ in others]:
            return None
        chain = zip(reversed(mine), reversed(others), strict=True)
        first = next((j for ours, (j, m) in chain if self._are_same(ours, (j, m)) is False), None)
        return first if first is not None and first.opcode in MOVES else None

    def _unlike(self, ours: Moment, theirs: Moment) -> Operands | None:
        """The operands that do not hold the same, as far as is known; None where one has more of them."""
        (x, n), (y, m) = ours, theirs
        mine, others = list(x.operands), list(y.operands)
        if len(mine) != len(others):
            return None
        pairs = [(i, j) for i, j in zip(mine, others, strict=True) if not self._are_same((i, n), (j, m))]
        mine, others = [i for i, _ in pairs], [j for _, j in pairs]
        rest = []
        for j in others:
            # Operands may change places.
            same = next((i for i in mine if self._are_same((i, n), (j, m))), None)
            if same is None:
                rest.append(j)
            else:
                mine.remove(same)
        return list(zip(mine, rest, strict=True))

    def _are_same(self, ours: Moment, theirs: Moment) -> bool | None:
        """Whether two instructions hold the same in those runs of their computations; None if not known."""
        key = ours, theirs
        if key not in self.known:
            self.b.deadline.check()
            self.known[key] = self._compared(self.ours.origin(*ours), self.theirs.origin(*theirs))
        return self.known[key]

    def _compared(self, ours: Moment, theirs: Moment) -> bool | None:
        mine, other = self.ours.print_of(*ours), self.theirs.print_of(*theirs)
        if mine is None or other is None:
            return None
        x, y = self.ours.only_value(ours[0]), self.theirs.only_value(theirs[0])
        limit = SAME
        if theirs[0].opcode == "constant" != ours[0].opcode:
            # It was folded in its own type.
            limit = max(CLOSE, 4 * epsilon(np.asarray(y).dtype))
        if not _agree(mine, other, limit):
            return False
        # Of what runs many times there is only the last value.
        return x is None or y is None or x.shape != y.shape or _are_equal(x, y, limit) is not False


def _agree(x: Any, y: Any, limit: float) -> bool:
    """Whether two fingerprints are of the same elements, in whatever order."""
    return bool(alike(x[None], y, limit)[0])


def _count(flow: Flow, beside: Moment, opcode: str, row: Any) -> int:
    """How many instructions of an opcode, with the operands of the one they are beside, have a value."""
    one, at = beside
    operands = list(one.operands)
    others = (i for i in one.computation.instructions if i.opcode == opcode and list(i.operands) == operands)
    prints = (flow.print_of(i, at) for i in others)
    return sum(made is not None and _agree(made, row, SAME) for made in prints)


def _are_equal(ours: Any, theirs: Any, limit: float) -> bool | None:
    """Whether two arrays agree element by element; None where one is not known."""
    if ours is None or theirs is None:
        return None
    mine, other = as_numbers(np.asarray(ours)), as_numbers(np.asarray(theirs))
    if mine.shape != other.shape:
        return False
    scale = np.abs(mine).max(initial=0, where=np.isfinite(mine))
    return bool(np.allclose(mine, other, rtol=limit, atol=limit * scale, equal_nan=True))


def _are_one_constant(x: HloInstruction, y: HloInstruction) -> bool:
    """Whether two instructions are a constant of one name."""
    return x.opcode == y.opcode == "constant" and name_of(x) == name_of(y)


def _is_rewritten(opcode: str, x: Any, y: Any) -> bool:
    """Whether a pass may write one constant for the other and change the opcode that reads it."""
    ours, theirs = np.asarray(x).astype(np.complex128), np.asarray(y).astype(np.complex128)
    if ours.shape != theirs.shape:
        return False
    with np.errstate(all="ignore"):
        if opcode in ("add", "subtract"):
            return np.allclose(ours, -theirs, rtol=1e-6, atol=0)
        return opcode in ("multiply", "divide") and np.allclose(ours * theirs, 1, rtol=1e-6, atol=0)
