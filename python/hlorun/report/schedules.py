"""Other orders in which a computation's instructions can run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from hlorun._hlorun import HloComputation, HloInstruction


def _needs(computation: HloComputation) -> dict[HloInstruction, list[HloInstruction]]:
    """What each instruction waits for: operands, control predecessors, and the effect before its own.

    Collectives and whatever else other devices or the host see keep their order, and so do ends of what runs
    aside.
    """
    needs: dict[HloInstruction, list[HloInstruction]] = {}
    before: HloInstruction | None = None
    for i in computation.instructions:
        needs[i] = list(i.operands)
        if "control-predecessors" in i.text:
            needs[i] += i.attributes.get("control-predecessors", ())
        if i.has_side_effect or i.opcode.endswith("-done"):
            needs[i] += [before] if before is not None else []
            before = i
    return needs


def depth_first(computation: HloComputation) -> list[HloInstruction]:
    """Each instruction right before the first that needs it."""
    needs = _needs(computation)
    order: dict[HloInstruction, None] = {}
    root = computation.root
    starts = [i for i in computation.instructions if i.opcode == "parameter"]
    starts += [root] if root is not None else []
    for start in [*starts, *computation.instructions]:
        stack = [(start, False)]
        while stack:
            i, is_ready = stack.pop()
            if i in order:
                continue
            if is_ready:
                order[i] = None
                continue
            stack.append((i, True))
            stack += [(j, False) for j in reversed(needs[i]) if j not in order]
    return list(order)


def greedy(computation: HloComputation) -> list[HloInstruction]:
    """Greedy list scheduling: next comes the ready instruction that adds the fewest bytes."""
    needs = _needs(computation)
    waits = {i: len(set(before)) for i, before in needs.items()}
    users: dict[HloInstruction, list[HloInstruction]] = {i: [] for i in needs}
    readers: dict[HloInstruction, int] = dict.fromkeys(needs, 0)
    read_by: dict[HloInstruction, list[HloInstruction]] = {i: [] for i in needs}
    for i, before in needs.items():
        for j in set(before):
            users[j].append(i)
        for j in set(i.operands):
            readers[j] += 1
            read_by[j].append(i)
    place = {i: n for n, i in enumerate(needs)}

    def grows(i: HloInstruction) -> int:
        freed = sum(
            j.shape.nbytes or 0 for j in set(i.operands) if readers[j] == 1 and j.opcode != "parameter"
        )
        return (i.shape.nbytes or 0) - freed

    ready = [(grows(i), place[i], i) for i in needs if not waits[i]]
    ready.sort(key=lambda item: item[:2])
    order: dict[HloInstruction, None] = {}
    while ready:
        bytes_, _, i = heappop(ready)
        # An instruction whose bytes changed was added again then.
        if i in order or grows(i) != bytes_:
            continue
        order[i] = None
        for j in set(i.operands):
            readers[j] -= 1
            # The last reader of an operand frees it.
            if readers[j] == 1:
                last = next(reader for reader in read_by[j] if reader not in order)
                if not waits[last]:
                    heappush(ready, (grows(last), place[last], last))
        for user in users[i]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, (grows(user), place[user], user))
    return list(order)


SCHEDULES: dict[str, Callable[[HloComputation], list[HloInstruction]]] = {
    "each right before the first that needs it": depth_first,
    "greedily by the bytes each adds": greedy,
}
"""Orders by what they do."""
