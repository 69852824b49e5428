"""What was changed from one module to another, as the values of two runs prove.

An instruction that makes something else of the same values than its counterpart was changed, or a constant
that it reads. Counterparts have one name; or one opcode or op_name and an operand in common, and the value of
the one is new where that of the other is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction
from hlorun._statistics import as_numbers
from hlorun.find.flow import MOVES, Flow, Moment
from hlorun.find.gap import epsilon
from hlorun.find.matching import CLOSE, Index, index_of
from hlorun.find.sides import Side, alike, name_of

SAME = 1e-9
"""Relative difference up to which operands in f64 are the same."""

DEPTH = 8
"""Instructions between one whose value is new and the one that was changed."""

RUNS = 16
"""Runs of a computation of A in which a counterpart is looked for."""

KIN = (("subtract", "add"), ("divide", "multiply"))
"""Opcodes that passes write another for, with constants negated or turned."""

Operands = list[tuple[HloInstruction, HloInstruction]]


class Changes:
    """Two runs, of which the first is right, side by side."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        self.ours, self.theirs = Flow(a), Flow(b)

    def by_name(self) -> Iterator[HloInstruction]:
        """Instructions of B that differ from their namesakes, in the order of the run."""
        if not self.a.is_exact or not self.b.is_exact:
            return
        named = {name_of(i): i for i in self.a.module.instructions}
        for y in self.b.kept.values:
            self.b.deadline.check()
            x = named.get(name_of(y))
            if x is None or x.opcode != y.opcode:
                continue
            rows = zip(self.a.prints_of(x), self.b.prints_of(y), strict=False)
            at = next((n for n, (row, other) in enumerate(rows) if not _agree(row, other, CLOSE)), None)
            # Or each runs once, and the elements are in other places.
            values = self.ours.only_value(x), self.theirs.only_value(y)
            if at is None and _are_equal(*values, CLOSE) is not False:
                continue
            found = self._cause((x, at or 0), (y, at or 0), 1)
            if found is not None:
                yield found

    def behind(self, y: HloInstruction, index: Index, is_lost: bool) -> HloInstruction | None:
        """What was changed where B computes `y`, which `index` of A lacks; None if that is unknown.

        `is_lost` is whether B must lack the values of counterparts; else any of A is one but for a constant.
        """
        at = next((n for n, row in enumerate(self.b.prints_of(y)) if not index.same(row)), 0)
        causes: dict[tuple[bool, int], set[HloInstruction]] = {}
        for x in self.a.kept.values:
            if x.opcode != y.opcode and (x.opcode, y.opcode) not in KIN:
                continue
            lost = [n for n, row in enumerate(self.a.prints_of(x)) if not self.values_of_b.same(row)]
            if is_lost and not lost:
                continue
            for n in dict.fromkeys([at, *lost[:RUNS]]):
                self.b.deadline.check()
                rest = self._unlike((x, n), (y, at))
                if rest is None or len(rest) == len(x.operands) > 1 or self._hold_same((x, n), (y, at)):
                    continue
                found = self._cause((x, n), (y, at), DEPTH)
                if found is not None and (is_lost or found.opcode != "constant"):
                    causes.setdefault((n != at, len(rest)), set()).add(found)
        best = causes[min(causes)] if causes else set()
        return best.pop() if len(best) == 1 else None

    @cached_property
    def values_of_b(self) -> Index:
        """The values of B, to find those of A that it lacks."""
        return index_of(self.b, self.a)

    def _cause(self, ours: Moment, theirs: Moment, depth: int) -> HloInstruction | None:
        """What was changed: an instruction of B, or one thing that its operands come from, if it is known."""
        (x, n), (y, m) = ours, theirs
        if y.opcode == "constant":
            # What a pass folded is a constant in the place of something else.
            is_it = x.opcode == "constant" or x.shape.dims == y.shape.dims != ()
            return y if is_it and not _is_rounded(x, y) else None
        rest = self._unlike(ours, theirs)
        if rest is None or y.opcode == "parameter":
            return None
        if not rest:
            return y
        if depth == 0:
            return None
        found = {
            self._cause_of_operand(ours, theirs, self.ours.maker(i, n), self.theirs.maker(j, m), depth - 1)
            for i, j in rest
        }
        return found.pop() if len(found) == 1 else None

    def _cause_of_operand(
        self, ours: Moment, theirs: Moment, mine: list[Moment], others: list[Moment], depth: int
    ) -> HloInstruction | None:
        """What was changed where operands of counterparts, followed to their makers, hold something else."""
        i, j = mine[-1], others[-1]
        if self._hold_same(i, j):
            moves = [move for move, _ in others if move.opcode in MOVES]
            return moves[-1] if moves and self._are_known(mine[0], others[0]) else None
        if i[0].opcode == j[0].opcode == "constant" and _is_turned(i[0].literal, j[0].literal):
            # A pass may subtract what was added, negated, or multiply by what was divided by, turned.
            return theirs[0]
        is_followed = ours[0].opcode == theirs[0].opcode or j[0].opcode == "constant"
        return self._cause(i, j, depth) if is_followed else None

    def _unlike(self, ours: Moment, theirs: Moment) -> Operands | None:
        """The operands that hold something else; None where there are more of the one."""
        (x, n), (y, m) = ours, theirs
        mine, others = list(x.operands), list(y.operands)
        if len(mine) != len(others):
            return None
        rest = []
        for there in others:
            # Operands may change places.
            same = next((i for i in mine if self._hold_same((i, n), (there, m))), None)
            if same is None:
                rest.append(there)
            else:
                mine.remove(same)
        return list(zip(mine, rest, strict=True))

    def _hold_same(self, ours: Moment, theirs: Moment) -> bool:
        """Whether two instructions hold the same in those runs of their computations."""
        (mine, n), (other, m) = self.ours.origin(*ours), self.theirs.origin(*theirs)
        x_print, y_print = self.ours.print_of(mine, n), self.theirs.print_of(other, m)
        if x_print is None or y_print is None or not _agree(x_print, y_print, SAME):
            return False
        # Of what runs many times there is only the last value.
        x, y = self.ours.only_value(mine), self.theirs.only_value(other)
        return x is None or y is None or x.shape != y.shape or _are_equal(x, y, SAME) is not False

    def _are_known(self, ours: Moment, theirs: Moment) -> bool:
        """Whether the values of both are known."""
        x_print = self.ours.print_of(*self.ours.origin(*ours))
        y_print = self.theirs.print_of(*self.theirs.origin(*theirs))
        return x_print is not None and y_print is not None


def _agree(x: Any, y: Any, limit: float) -> bool:
    """Whether two fingerprints are of the same elements, in whatever order."""
    return bool(alike(x[None], y, limit)[0])


def _are_equal(ours: Any, theirs: Any, limit: float) -> bool | None:
    """Whether two arrays agree element by element; None where one is not known."""
    if ours is None or theirs is None:
        return None
    mine, other = as_numbers(np.asarray(ours)), as_numbers(np.asarray(theirs))
    if mine.shape != other.shape:
        return False
    scale = np.abs(mine).max(initial=0, where=np.isfinite(mine))
    return bool(np.allclose(mine, other, rtol=limit, atol=limit * scale, equal_nan=True))


def _is_turned(x: Any, y: Any) -> bool:
    """Whether one constant is the negative or the reciprocal of the other."""
    ours, theirs = np.asarray(x).astype(np.complex128), np.asarray(y).astype(np.complex128)
    if ours.shape != theirs.shape:
        return False
    return np.allclose(ours, -theirs) or np.allclose(ours * theirs, 1)


def _is_rounded(x: HloInstruction, y: HloInstruction) -> bool:
    """Whether two constants are as near as rounding in their type takes them."""
    if x.opcode != "constant" or x.literal is None or y.literal is None:
        return False
    step = 4 * epsilon(np.asarray(y.literal).dtype)
    ours, theirs = as_numbers(np.asarray(x.literal)), as_numbers(np.asarray(y.literal))
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=step, atol=0)
