"""What was changed from one module to another, as the values of two runs prove.

An instruction of B and its counterpart in A are compared. If their operands have the same values and their
results differ, the instruction was changed, or a constant that it reads. If an operand differs, the
instructions that compute it are compared in turn.

`by_name` takes for counterparts what has the same opcode and name. `behind` takes any name, and the same or
a related opcode; of several operands at least one has the same value. The stronger proof asks that B
nowhere has the value of the counterpart (`is_lost`), the weaker one does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction
from hlorun._statistics import as_numbers
from hlorun.find.flow import CONTROL, MOVES, Flow, Moment
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

KIN: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("subtract", "add"): np.negative,
    ("divide", "multiply"): np.reciprocal,
}
"""Opcodes of which a pass writes the second for the first, and what it makes of a constant."""

_WHOLES = (*CONTROL, "tuple", "get-tuple-element", "parameter")
"""What computes nothing itself."""

OperandPair = tuple[HloInstruction, HloInstruction]
"""An instruction of A and one of B."""


class Changes:
    """Two runs side by side: A, which is right, and B.

    What belongs to one of them has its letter: `in_a` is an instruction of A, `a_print` a fingerprint.

    Args:
        a: The run that is right.
        b: The run that is wrong.
        a_values: The values of A.
    """

    def __init__(self, a: Side, b: Side, a_values: Index) -> None:
        self.a, self.b, self.a_values = a, b, a_values
        self.a_flow, self.b_flow = Flow(a), Flow(b)
        self.are_exact = a.is_exact and b.is_exact
        self.known: dict[tuple[Moment, Moment], bool | None] = {}
        self.lost: dict[HloInstruction, list[int]] = {}

    def by_name(self) -> Iterator[HloInstruction]:
        """Instructions of B that differ from their namesakes, in the order of the run."""
        if not self.are_exact:
            return
        named = {name_of(in_a): in_a for in_a in self.a.module.instructions}
        for in_b in self.b.kept.values:
            self.b.deadline.check()
            in_a = named.get(name_of(in_b))
            if in_a is None or in_a.opcode != in_b.opcode or in_b.opcode in _WHOLES:
                continue
            prints = zip(self.a.prints_of(in_a), self.b.prints_of(in_b), strict=False)
            at = next((n for n, (a, b) in enumerate(prints) if not _agree(a, b, CLOSE)), None)
            # Or each runs once, and the elements are in other places.
            values = self.a_flow.only_value(in_a), self.b_flow.only_value(in_b)
            if at is None and _are_equal(*values, CLOSE) is not False:
                continue
            rest = self._unlike((in_a, at or 0), (in_b, at or 0)) if in_b.operands else None
            if rest is None or not all(_are_one_constant(*pair) for pair in rest):
                continue
            if not any(self._is_rewriting(*pair, named) for pair in rest):
                yield rest[-1][1] if rest else in_b

    def _is_rewriting(
        self, in_a: HloInstruction, in_b: HloInstruction, named: dict[str, HloInstruction]
    ) -> bool:
        """Whether a pass may have made a constant of its namesake, with the opcode of what reads it."""
        open_ = list(in_b.users)
        while open_:
            self.b.deadline.check()
            reader = open_.pop()
            if reader.opcode in MOVES:
                open_ += reader.users
                continue
            namesake = named.get(name_of(reader))
            is_other = namesake is not None and namesake.opcode != reader.opcode
            if is_other and _is_rewritten(reader.opcode, in_a.literal, in_b.literal):
                return True
        return False

    def behind(self, in_b: HloInstruction, is_lost: bool) -> HloInstruction | None:
        """What was changed where B computes `in_b`, whose value A lacks; None if nothing is proved.

        Args:
            in_b: An instruction of B.
            is_lost: Whether B must lack what a counterpart computes.
        """
        if not self.are_exact:
            return None
        b_at = next((n for n, row in enumerate(self.b.prints_of(in_b)) if not self.a_values.same(row)), 0)
        causes: dict[tuple[bool, int], set[HloInstruction]] = {}
        related = [in_b.opcode, *(opcode for opcode, other in KIN if other == in_b.opcode)]
        for in_a in (in_a for opcode in related for in_a in self.a_by_opcode[opcode]):
            self.b.deadline.check()
            lost = self._lost(in_a)
            if is_lost and not lost:
                continue
            for a_at in dict.fromkeys([b_at, *lost[:RUNS]]):
                rest = self._unlike((in_a, a_at), (in_b, b_at))
                if rest is None or len(rest) == len(in_a.operands) > 1:
                    continue
                found = self._cause((in_a, a_at), (in_b, b_at), DEPTH)
                # Constants differ between any two counterparts that are none.
                if found is not None and (is_lost or found.opcode != "constant"):
                    causes.setdefault((a_at != b_at, len(rest)), set()).add(found)
        # Trips of the same number, and counterparts with more operands in common, say more.
        best = causes[min(causes)] if causes else set()
        return best.pop() if len(best) == 1 else None

    @cached_property
    def a_by_opcode(self) -> dict[str, list[HloInstruction]]:
        """The instructions of A that ran."""
        found = defaultdict(list)
        for in_a in self.a.kept.values:
            found[in_a.opcode].append(in_a)
        return found

    @cached_property
    def b_values(self) -> Index:
        """The values of B, to find those of A that it lacks."""
        return index_of(self.b, self.a)

    def _lost(self, in_a: HloInstruction) -> list[int]:
        """The runs in which B lacks what an instruction of A computes."""
        if in_a not in self.lost:
            rows = self.a.prints_of(in_a)
            self.lost[in_a] = [n for n, row in enumerate(rows) if not self.b_values.same(row)]
        return self.lost[in_a]

    def _cause(self, a: Moment, b: Moment, depth: int) -> HloInstruction | None:
        """What was changed: the instruction of B, or what its operands come from; None if not proved."""
        (in_a, _), (in_b, _) = a, b
        if in_b.opcode in _WHOLES or self._are_same(a, b) is not False:
            return None
        if in_b.opcode == "constant":
            # What a pass folded is a constant in the place of something else.
            is_folded = in_a.opcode != "constant"
            return in_b if not is_folded or in_a.shape.dims == in_b.shape.dims != () else None
        rest = self._unlike(a, b)
        if rest is None or (not in_b.operands and in_a.opcode != in_b.opcode):
            return None
        if not rest:
            return in_b
        if depth == 0 or len(rest) > MOST_UNLIKE:
            return None
        found = {self._cause_of_operand(a, b, pair, depth - 1) for pair in rest}
        return found.pop() if len(found) == 1 else None

    def _cause_of_operand(
        self, a: Moment, b: Moment, operands: OperandPair, depth: int
    ) -> HloInstruction | None:
        """What was changed where operands of counterparts hold something else."""
        (in_a, a_at), (in_b, b_at) = a, b
        a_chain, b_chain = self.a_flow.maker(operands[0], a_at), self.b_flow.maker(operands[1], b_at)
        a_maker, b_maker = a_chain[-1], b_chain[-1]
        if self._are_same(a_maker, b_maker):
            return self._changed_move(a_chain, b_chain)
        (made_a, _), (made_b, _) = a_maker, b_maker
        is_constant = made_a.opcode == made_b.opcode == "constant"
        if is_constant and _is_rewritten(in_b.opcode, made_a.literal, made_b.literal):
            return in_b
        if in_a.opcode != in_b.opcode and made_b.opcode != "constant":
            return None
        return self._cause(a_maker, b_maker, depth) if self._is_in_place(a_maker, b_maker) else None

    def _is_in_place(self, a: Moment, b: Moment) -> bool:
        """Whether B has a value in the place of one of A's; else the reader may have taken the wrong one."""
        a_print, b_print = self.a_flow.print_of(*a), self.b_flow.print_of(*b)
        if a_print is None or b_print is None:
            return True
        if not self.a_values.same(b_print) or not self.b_values.same(a_print):
            return True
        opcode = b[0].opcode
        return _count(self.b_flow, b, opcode, b_print) > _count(self.a_flow, a, opcode, b_print)

    def _changed_move(self, a_chain: list[Moment], b_chain: list[Moment]) -> HloInstruction | None:
        """The first of two chains of moves from one value that moves to other places."""
        if [i.opcode for i, _ in a_chain] != [i.opcode for i, _ in b_chain]:
            return None
        chains = zip(reversed(a_chain), reversed(b_chain), strict=True)
        first = next((b[0] for a, b in chains if self._are_same(a, b) is False), None)
        return first if first is not None and first.opcode in MOVES else None

    def _unlike(self, a: Moment, b: Moment) -> list[OperandPair] | None:
        """The operands that do not hold the same, as far as is known; None where one has more of them."""
        (in_a, a_at), (in_b, b_at) = a, b

        def are_same(pair: OperandPair) -> bool | None:
            return self._are_same((pair[0], a_at), (pair[1], b_at))

        if len(in_a.operands) != len(in_b.operands):
            return None
        pairs = [pair for pair in zip(in_a.operands, in_b.operands, strict=True) if not are_same(pair)]
        a_rest = [pair[0] for pair in pairs]
        b_rest: list[HloInstruction] = []
        for _, b_operand in pairs:
            # Operands may change places.
            same = next((operand for operand in a_rest if are_same((operand, b_operand))), None)
            if same is None:
                b_rest.append(b_operand)
            else:
                a_rest.remove(same)
        return list(zip(a_rest, b_rest, strict=True))

    def _are_same(self, a: Moment, b: Moment) -> bool | None:
        """Whether two instructions hold the same in those runs of their computations; None if not known."""
        if (a, b) not in self.known:
            self.b.deadline.check()
            self.known[a, b] = self._compared(self.a_flow.origin(*a), self.b_flow.origin(*b))
        return self.known[a, b]

    def _compared(self, a: Moment, b: Moment) -> bool | None:
        a_print, b_print = self.a_flow.print_of(*a), self.b_flow.print_of(*b)
        if a_print is None or b_print is None:
            return None
        a_value, b_value = self.a_flow.only_value(a[0]), self.b_flow.only_value(b[0])
        limit = SAME
        if b[0].opcode == "constant" != a[0].opcode:
            # It was folded in its own type.
            limit = max(CLOSE, 4 * epsilon(np.asarray(b_value).dtype))
        if not _agree(a_print, b_print, limit):
            return False
        # Of what runs many times there is only the last value.
        if a_value is None or b_value is None or a_value.shape != b_value.shape:
            return True
        return _are_equal(a_value, b_value, limit) is not False


def _agree(a: Any, b: Any, limit: float) -> bool:
    """Whether two fingerprints are of the same elements, in whatever order."""
    return bool(alike(a[None], b, limit)[0])


def _count(flow: Flow, beside: Moment, opcode: str, row: Any) -> int:
    """How many instructions of an opcode, with the operands of the one they are beside, have a value."""
    one, at = beside
    operands = list(one.operands)
    others = (i for i in one.computation.instructions if i.opcode == opcode and list(i.operands) == operands)
    prints = (flow.print_of(i, at) for i in others)
    return sum(made is not None and _agree(made, row, SAME) for made in prints)


def _are_equal(a: Any, b: Any, limit: float) -> bool | None:
    """Whether two arrays agree element by element; None where one is not known."""
    if a is None or b is None:
        return None
    a, b = as_numbers(np.asarray(a)), as_numbers(np.asarray(b))
    if a.shape != b.shape:
        return False
    scale = np.abs(a).max(initial=0, where=np.isfinite(a))
    return bool(np.allclose(a, b, rtol=limit, atol=limit * scale, equal_nan=True))


def _are_one_constant(in_a: HloInstruction, in_b: HloInstruction) -> bool:
    """Whether two instructions are a constant of one name."""
    return in_a.opcode == in_b.opcode == "constant" and name_of(in_a) == name_of(in_b)


def _is_rewritten(opcode: str, a: Any, b: Any) -> bool:
    """Whether a pass may write one constant for the other and change the opcode that reads it."""
    a, b = np.asarray(a).astype(np.complex128), np.asarray(b).astype(np.complex128)
    if a.shape != b.shape:
        return False
    rewritten = next((rewritten for opcodes, rewritten in KIN.items() if opcode in opcodes), None)
    with np.errstate(all="ignore"):
        return rewritten is not None and np.allclose(b, rewritten(a), rtol=1e-6, atol=0)
