"""Where values of a run come from, through calls, loops and tuples."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

from hlorun._hlorun import HloComputation, HloInstruction
from hlorun.find.sides import Side, fingerprint

MOVES = ("bitcast", "broadcast", "copy", "opt-barrier", "reshape", "transpose")
"""Opcodes whose result has the elements of the operand, in other places or more often."""

CALLS = ("call", "fusion")
"""Opcodes that run one computation on their operands."""

CONTROL = (*CALLS, "while", "conditional", "async-start", "async-done")
"""Opcodes whose value is made by instructions of other computations."""

Moment = tuple[HloInstruction, int]
"""An instruction, and a run of its computation."""


class Flow:
    """Which instructions the values of a run come from.

    `before` says it for a whole run. The others follow one value: an instruction and the run of its
    computation in which it has the value, counted from 0.
    """

    def __init__(self, side: Side) -> None:
        self.side = side
        self.callers: dict[HloComputation, list[HloInstruction]] = defaultdict(list)
        self.known: dict[HloInstruction, list[HloInstruction]] = {}
        self.parts: dict[HloInstruction, list[HloInstruction]] = {}
        self.made: dict[HloInstruction, Any] = {}
        for i in side.module.instructions:
            for called in i.called_computations:
                self.callers[called].append(i)

    def before(self, i: HloInstruction) -> list[HloInstruction]:
        """The arrays its value is computed from."""
        if i not in self.known:
            self.side.deadline.check()
            self.known[i] = self._before(i)
        return self.known[i]

    def _before(self, i: HloInstruction) -> list[HloInstruction]:
        if i.opcode == "get-tuple-element":
            return self._element(i.operands[0], i.tuple_index or 0)
        if i.opcode == "parameter":
            return self._arguments(i)
        found = list(i.operands) if i.opcode not in ("while", *CALLS) else []
        found += [called.root for called in i.called_computations if called.root is not None]
        return found

    def _arguments(self, parameter: HloInstruction) -> list[HloInstruction]:
        """What callers give for a parameter."""
        found = []
        for caller in self.callers[parameter.computation]:
            number = parameter.parameter_number or 0
            if caller.opcode in CALLS and number < len(caller.operands):
                found.append(caller.operands[number])
            elif caller.opcode == "while":
                found += [caller.operands[0]]
                found += [root] if (root := caller.attributes["body"].root) is not None else []
            elif caller.opcode == "conditional":
                found += caller.operands[1:]
            else:
                found += caller.operands
        return found

    def _element(self, whole: HloInstruction, index: int) -> list[HloInstruction]:
        """What computes one element of a tuple."""
        found: list[HloInstruction] = []
        open_, seen = [whole], {whole}
        while open_:
            i = open_.pop()
            if i.opcode == "tuple":
                if i not in self.parts:
                    # The list of operands is made anew at each look.
                    self.parts[i] = list(i.operands)
                found += self.parts[i][index : index + 1]
                continue
            if i.opcode == "while":
                nearer = [root] if (root := i.attributes["body"].root) is not None else []
                nearer.append(i.operands[0])
            elif i.opcode == "parameter":
                nearer = self._arguments(i)
            elif i.opcode in ("conditional", *CALLS):
                nearer = [called.root for called in i.called_computations if called.root is not None]
            elif i.opcode in ("copy", "opt-barrier"):
                nearer = list(i.operands)
            else:
                found.append(i)
                continue
            open_ += [other for other in nearer if other not in seen]
            seen.update(nearer)
        return found

    def origin(self, i: HloInstruction, at: int) -> Moment:
        """The nearest instruction whose value is known that `i` has its value in run `at` from."""
        while not self.side.prints_of(i) and (source := self._source(i, at)) is not None:
            i, at = source
        return i, at

    def maker(self, i: HloInstruction, at: int) -> list[Moment]:
        """What moves, calls and hands on the value of `i` in run `at`, and at the end what computes it."""
        found = [(i, at)]
        while (source := self._source(*found[-1]) or self._inside(*found[-1])) is not None:
            self.side.deadline.check()
            found.append(source)
        return found

    def print_of(self, i: HloInstruction, at: int) -> Any:
        """The fingerprint of what it computes in run `at` of its computation; None if not known."""
        if prints := self.side.prints_of(i):
            return prints[at] if at < len(prints) else None
        if i not in self.made:
            value = self.only_value(i)
            self.made[i] = None if value is None else fingerprint(value)
        return self.made[i]

    def only_value(self, i: HloInstruction) -> Any:
        """What it computes, where it runs once."""
        if i.opcode == "get-tuple-element" and self._runs_once(i.computation):
            return self.side.element_of(i)
        is_only = i.opcode == "constant" or len(self.side.prints_of(i)) == 1
        return self.side.exact_of(i) if is_only else None

    def _inside(self, i: HloInstruction, at: int) -> Moment | None:
        """The root of what is called."""
        if i.opcode not in CALLS or len(self.callers[i.called_computations[0]]) != 1:
            return None
        root = i.called_computations[0].root
        return (root, at) if root is not None else None

    def _source(self, i: HloInstruction, at: int) -> Moment | None:
        """What `i` has its elements from."""
        if i.opcode in MOVES and i.operands:
            return i.operands[0], at
        if i.opcode == "parameter":
            return self._argument(i, at)
        if i.opcode != "get-tuple-element":
            return None
        whole: Moment | None = (i.operands[0], at)
        while whole is not None and whole[0].opcode != "tuple":
            if whole[0].opcode == "parameter":
                whole = self._argument(*whole) or self._state(*whole)
            elif whole[0].opcode in ("copy", "opt-barrier"):
                whole = whole[0].operands[0], whole[1]
            else:
                whole = self._inside(*whole)
        return (whole[0].operands[i.tuple_index or 0], whole[1]) if whole is not None else None

    def _argument(self, parameter: HloInstruction, at: int) -> Moment | None:
        """What a call gives for a parameter."""
        caller = self._caller(parameter.computation, at)
        if caller is None or caller.opcode not in CALLS:
            return None
        return caller.operands[parameter.parameter_number or 0], at

    def _caller(self, called: HloComputation, at: int) -> HloInstruction | None:
        """What runs a computation for the time `at`; of several callers only the first is known."""
        callers = self.callers[called]
        if len(callers) == 1:
            return callers[0]
        ran = [i for i in callers if i in self.order] if at == 0 else []
        return min(ran, key=lambda i: self.order[i], default=None)

    @cached_property
    def order(self) -> dict[HloInstruction, int]:
        """When each instruction was first seen to run."""
        return {i: number for number, i in enumerate(self.side.kept.values)}

    def _state(self, state: HloInstruction, at: int) -> Moment | None:
        """What gives the state of a loop its value."""
        loop = self._caller(state.computation, at)
        if loop is None or loop.opcode != "while":
            return None
        if at == 0:
            return loop.operands[0], 0
        root = loop.attributes["body"].root
        return (root, at - 1) if root is not None and self._runs_once(loop.computation) else None

    def _runs_once(self, computation: HloComputation) -> bool:
        """Whether the entry is this computation, or calls it once."""
        callers = self.callers[computation]
        while len(callers) == 1 and callers[0].opcode in CALLS:
            computation = callers[0].computation
            callers = self.callers[computation]
        return computation == self.side.module.entry_computation
