"""Where two programs begin to differ, as far as values tell.

An instruction that provably was changed, because its counterpart makes something else of the same values,
comes first. Without one the suspect is the first instruction in time, trip by trip, whose value is not
right, among those that every wrong result depends on. A value of B is right if A has it somewhere, or if a
right value is computed from it.
"""

from __future__ import annotations

from hlorun._hlorun import HloInstruction
from hlorun.find.changes import Changes
from hlorun.find.flow import CONTROL, MOVES, Flow
from hlorun.find.matching import Index
from hlorun.find.sides import Side, name_of

AT_ONCE = 1024
"""Results whose ancestors are looked for together."""

FIRST = 32
"""Instructions with new values that are held against their counterparts."""

NEVER = 1 << 62
"""A moment after all others, for values whose moment is not known."""


def _ancestors_of_all(flow: Flow, results: list[HloInstruction]) -> set[HloInstruction]:
    """What every one of the results is computed from, themselves among it."""
    order = _order(flow, results)
    common = set(order)
    for first in range(0, len(results), AT_ONCE):
        some = results[first : first + AT_ONCE]
        reached = dict.fromkeys(order, 0)
        for number, result in enumerate(some):
            reached[result] |= 1 << number
        while _spread(flow, order, reached):
            pass
        common = {i for i in common if reached[i] == (1 << len(some)) - 1}
    return common


def _order(flow: Flow, results: list[HloInstruction]) -> list[HloInstruction]:
    """All that the results are computed from, what is computed from it first, but for loops."""
    done: list[HloInstruction] = []
    seen: set[HloInstruction] = set()
    for result in results:
        open_ = [] if result in seen else [(result, iter(flow.before(result)))]
        seen.add(result)
        while open_:
            i, rest = open_[-1]
            other = next((other for other in rest if other not in seen), None)
            if other is None:
                done.append(i)
                open_.pop()
            else:
                seen.add(other)
                open_.append((other, iter(flow.before(other))))
    return done[::-1]


def _spread(flow: Flow, order: list[HloInstruction], reached: dict[HloInstruction, int]) -> bool:
    """Hand on which results are reached, once through all instructions; whether anything changed."""
    changed = False
    for i in order:
        flow.side.deadline.check()
        mine = reached[i]
        for other in flow.before(i):
            if reached[other] | mine != reached[other]:
                reached[other] |= mine
                changed = True
    return changed


def _first_missing(b: Side, index: Index, i: HloInstruction) -> int | None:
    """When it first computed what A never does; None where A has all of it."""
    b.deadline.check()
    rows, times = b.prints_of(i), b.times.get(name_of(i), [NEVER])
    for number, row in enumerate(rows):
        if not index.same(row):
            return times[number] if number < len(times) else NEVER
    again = b.again.get(name_of(i), []) if b.again is not None and index.is_twice else []
    return times[0] if any(not index.same(row) for row in again) else None


def _results(b: Side, wrong: list[int]) -> list[HloInstruction]:
    """The instructions that compute the outputs of those numbers."""
    entry = b.module.entry_computation
    root = entry.root if entry is not None else None
    if root is None:
        return []
    if root.opcode != "tuple" or any(not o.shape.is_array for o in root.operands):
        return [root]
    operands = list(root.operands)
    found = [operands[number] for number in wrong if number < len(operands)]
    inner = [i.called_computations[0].root for i in found if i.opcode in ("call", "fusion")]
    return found + [i for i in inner if i is not None]


def suspect_of(
    a: Side,
    b: Side,
    index: Index,
    bad: set[HloInstruction],
    derived: set[HloInstruction],
    wrong_outputs: list[int],
) -> HloInstruction | None:
    """The instruction of B from which on it is wrong.

    Args:
        a: The run that is right.
        b: The run that is wrong.
        index: The values of the one that is right.
        bad: Instructions of B whose partner by name has another value.
        derived: Those whose value follows from one of A, as its reciprocal.
        wrong_outputs: Numbers of the results that differ.
    """
    changes = Changes(a, b, index)
    flow, results = changes.b_flow, _results(b, wrong_outputs)
    common = _ancestors_of_all(flow, results)
    # How often a loop runs decides on what it computes.
    decides = dict.fromkeys(loop.attributes["condition"] for loop in b.module.find(opcode="while"))
    proved = next((i for i in changes.by_name() if i in common or i.computation in decides), None)
    if proved is not None:
        return proved
    bad = bad | {i for i in results if i in b.kept.values}
    seen = list(dict.fromkeys(b.kept.values))
    missing = {i: _first_missing(b, index, i) for i in seen}
    right = {i for i in seen if missing[i] is None and i not in bad and b.prints_of(i)}
    open_ = list(right)
    while open_:
        i = open_.pop()
        for other in flow.before(i) if not _is_lossy(i) else ():
            if other not in right and other not in bad:
                right.add(other)
                open_.append(other)
    left = [i for i in seen if i not in right and i not in derived and i.opcode not in CONTROL]
    responsible = [i for i in left if i in common] or left

    def rank(i: HloInstruction) -> tuple[bool, int]:
        when = missing[i]
        return i.opcode in _COPIES, b.times.get(name_of(i), [NEVER])[0] if when is None else when

    first = sorted(responsible, key=rank)[:FIRST]
    # Loops that end too early have no values that are new.
    conditions = [flow.maker(c.root, 0)[-1][0] for c in decides if c.root is not None]
    found = _changed(changes, first, is_new=True) if first else _changed(changes, conditions, is_new=False)
    return found if found is not None or not first else first[0]


def _changed(changes: Changes, found: list[HloInstruction], *, is_new: bool) -> HloInstruction | None:
    """What provably was changed behind instructions; `is_new` is whether A lacks what they compute."""
    for is_lost in (True, False):
        for i in found:
            cause = changes.behind(i, is_lost)
            is_proof = is_lost or (is_new and i == found[0]) or (cause == i and i.opcode in _PLAIN)
            if cause is not None and is_proof:
                return cause
    return None


def _is_lossy(instruction: HloInstruction) -> bool:
    """Whether a right result says little of the operands."""
    if instruction.opcode in ("and", "or"):
        return instruction.shape.element_type == "pred"
    return instruction.opcode in _LOSSY


_PLAIN = (
    *("add", "and", "atan2", "compare", "divide", "maximum", "minimum", "multiply", "or", "power"),
    *("remainder", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical"),
    *("subtract", "xor"),
)
"""Opcodes that compute one thing of their operands, but for the direction of a comparison."""

_COPIES = (*MOVES, "convert", "iota")
"""Opcodes that are seldom wrong themselves; a conversion also rounds, so it is no move."""

_LOSSY = (
    *("ceil", "clamp", "compare", "dynamic-slice", "floor", "gather", "is-finite", "maximum", "minimum"),
    *("round-nearest-afz", "round-nearest-even", "select", "sign", "slice"),
)
