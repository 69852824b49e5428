"""Other orders in which a computation's instructions can run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from hlorun._hlorun import HloComputation, HloInstruction


def _needs(computation: HloComputation) -> dict[HloInstruction, list[HloInstruction]]:
    """What each instruction waits for: operands, control predecessors, and the effect before its own.

    Collectives and whatever else other devices or the host see keep their order.
    """
    needs: dict[HloInstruction, list[HloInstruction]] = {}
    before: HloInstruction | None = None
    for i in computation.instructions:
        needs[i] = list(i.operands)
        if "control-predecessors" in i.text:
            needs[i] += i.attributes.get("control-predecessors", ())
        has_effect = i.collective is not None or i.opcode.endswith("-done")
        if has_effect or i.opcode in ("infeed", "outfeed", "send", "recv", "custom-call", "while", "call"):
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
    """Of what can run always what leaves the fewest bytes live."""
    needs = _needs(computation)
    waits = {i: len(set(before)) for i, before in needs.items()}
    users: dict[HloInstruction, list[HloInstruction]] = {i: [] for i in needs}
    readers: dict[HloInstruction, int] = dict.fromkeys(needs, 0)
    for i, before in needs.items():
        for j in set(before):
            users[j].append(i)
        for j in set(i.operands):
            readers[j] += 1
    place = {i: n for n, i in enumerate(needs)}

    def grows(i: HloInstruction) -> int:
        freed = sum(
            j.shape.nbytes or 0 for j in set(i.operands) if readers[j] == 1 and j.opcode != "parameter"
        )
        return (i.shape.nbytes or 0) - freed

    ready = [(grows(i), place[i], i) for i in needs if not waits[i]]
    ready.sort(key=lambda item: item[:2])
    order: list[HloInstruction] = []
    while ready:
        bytes_, at, i = heappop(ready)
        # What was read since may make another the better one.
        if (now := grows(i)) != bytes_:
            heappush(ready, (now, at, i))
            continue
        order.append(i)
        for j in set(i.operands):
            readers[j] -= 1
        for user in users[i]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, (grows(user), place[user], user))
    return order


SCHEDULES: dict[str, Callable[[HloComputation], list[HloInstruction]]] = {
    "each right before the first that needs it": depth_first,
    "so that each step leaves the fewest bytes live": greedy,
}
"""Orders by what they do."""
