"""Instructions of one name that make of the same values another one in two runs.

Where both modules call an instruction the same, its opcode is the same and its operands hold the same,
another result proves that the instruction itself was changed, or a constant that it reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hlorun._hlorun import HloComputation, HloInstruction
from hlorun._statistics import as_numbers
from hlorun.find.sides import Side, fingerprint, name_of

SAME = 1e-9
"""Relative difference up to which operands in f64 are the same."""

OTHER = 2e-5
"""Relative difference from which results are others; constants folded in f32 make less."""


def changed(a: Side, b: Side) -> Iterator[HloInstruction]:
    """Instructions of B that were changed since A, in the order of the run; constants where those were."""
    if not a.is_exact or not b.is_exact:
        return
    ours, theirs = _Held(a), _Held(b)
    named = {name_of(i): i for i in a.module.instructions}
    for y in b.kept.values:
        b.deadline.check()
        x = named.get(name_of(y))
        if x is None or x.opcode != y.opcode:
            continue
        at = _first_other(a.prints_of(x), b.prints_of(y))
        if at is None and not _are_elsewhere(ours, theirs, x, y):
            continue
        found = _cause(ours, theirs, x, y, at or 0)
        if found is not None:
            yield found


def _first_other(ours: list[Any], theirs: list[Any]) -> int | None:
    """The first execution whose result is another."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((n for n, (row, other) in pairs if not _agree(row, other, OTHER)), None)


def _agree(x: Any, y: Any, limit: float) -> bool:
    """Whether two fingerprints are of the same elements, in whatever order."""
    is_near = abs(x[0] - y[0]) <= limit * max(abs(x[0]), abs(y[0]))
    return bool(is_near and (np.abs(x[1:] - y[1:]) <= limit * (1 + np.abs(x[1:]))).all())


def _are_elsewhere(a: _Held, b: _Held, x: HloInstruction, y: HloInstruction) -> bool:
    """Whether two results of one execution each have their elements in other places."""
    return _are_equal(a.only_value(x), b.only_value(y), OTHER) is False


def _are_equal(ours: Any, theirs: Any, limit: float) -> bool | None:
    """Whether two arrays agree element by element; None where one is not known."""
    if ours is None or theirs is None:
        return None
    mine, other = as_numbers(np.asarray(ours)), as_numbers(np.asarray(theirs))
    if mine.shape != other.shape:
        return False
    scale = np.abs(mine).max(initial=0, where=np.isfinite(mine))
    return bool(np.allclose(mine, other, rtol=limit, atol=limit * scale, equal_nan=True))


def _cause(
    ours: _Held, theirs: _Held, x: HloInstruction, y: HloInstruction, at: int
) -> HloInstruction | None:
    """What was changed: `y`, or a constant it reads; None where its operands do not hold the same."""
    mine, others = list(x.operands), list(y.operands)
    if not others or len(mine) != len(others):
        return None
    culprit = y
    left = list(mine)
    for here, there in zip(mine, others, strict=True):
        is_constant = here.opcode == there.opcode == "constant" and name_of(here) == name_of(there)
        if is_constant and not _hold_same(ours, theirs, (here, there), at):
            culprit = there
            left.remove(here)
            continue
        # Operands that changed places hold the same, too.
        same = next((i for i in left if _hold_same(ours, theirs, (i, there), at)), None)
        if same is None:
            return None
        left.remove(same)
    return culprit


def _hold_same(ours: _Held, theirs: _Held, pair: tuple[HloInstruction, HloInstruction], at: int) -> bool:
    """Whether two operands hold the same when the instruction that reads them runs for the time `at`."""
    (mine, n), (other, m) = ours.origin(pair[0], at), theirs.origin(pair[1], at)
    prints = ours.print_of(mine, n), theirs.print_of(other, m)
    if prints[0] is None or prints[1] is None or not _agree(*prints, SAME):
        return False
    # Of what runs many times there is only the last value.
    values = ours.only_value(mine), theirs.only_value(other)
    return _are_equal(*values, SAME) is not False


class _Held:
    """What instructions hold in a run, those that an observer is not shown included."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.order = {i: number for number, i in enumerate(side.kept.values)}
        self.callers: dict[HloComputation, list[HloInstruction]] = defaultdict(list)
        for i in side.module.instructions:
            for called in i.called_computations:
                self.callers[called].append(i)

    def origin(self, i: HloInstruction, at: int) -> tuple[HloInstruction, int]:
        """What `i` has its value from in run `at` of its computation, and in which run of its own."""
        while not self.side.prints_of(i) and (source := self._source(i, at)) is not None:
            i, at = source
        return i, at

    def print_of(self, i: HloInstruction, at: int) -> Any:
        """The fingerprint of what it computes in run `at` of its computation; None if not known."""
        if i.opcode == "constant":
            return None if i.literal is None else fingerprint(i.literal)
        prints = self.side.prints_of(i)
        return prints[at] if at < len(prints) else None

    def only_value(self, i: HloInstruction) -> Any:
        """What it computes, where it runs once."""
        is_known = i.opcode == "constant" or len(self.side.prints_of(i)) == 1
        return self.side.exact_of(i) if is_known else None

    def _source(self, i: HloInstruction, at: int) -> tuple[HloInstruction, int] | None:
        """What gives `i` its value in run `at` of its computation, and in which run of its own."""
        if i.opcode in ("bitcast", "copy", "optimization-barrier"):
            return i.operands[0], at
        if i.opcode == "parameter":
            caller, number = self._caller(i.computation, at), i.parameter_number or 0
            is_call = caller is not None and caller.opcode in ("call", "fusion")
            return (caller.operands[number], at) if caller is not None and is_call else None
        if i.opcode != "get-tuple-element":
            return None
        whole = i.operands[0]
        if whole.opcode == "parameter":
            return self._state(whole, i.tuple_index or 0, at)
        return (whole.operands[i.tuple_index or 0], at) if whole.opcode == "tuple" else None

    def _caller(self, called: HloComputation, at: int) -> HloInstruction | None:
        """What runs a computation for the time `at`; of several callers only the first is known."""
        callers = self.callers[called]
        if len(callers) == 1:
            return callers[0]
        ran = [i for i in callers if i in self.order] if at == 0 else []
        return min(ran, key=lambda i: self.order[i], default=None)

    def _state(self, state: HloInstruction, index: int, at: int) -> tuple[HloInstruction, int] | None:
        """What gives an element of a loop's state its value."""
        loop = self._caller(state.computation, at)
        if loop is None or loop.opcode != "while":
            return None
        # A loop of the entry begins once.
        is_first = at == 0
        if not is_first and loop.computation != self.side.module.entry_computation:
            return None
        whole = loop.operands[0] if is_first else loop.attributes["body"].root
        if whole is None or whole.opcode != "tuple":
            return None
        return whole.operands[index], 0 if is_first else at - 1
