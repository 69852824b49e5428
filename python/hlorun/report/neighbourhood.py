"""Which instructions of two computations belong together, by what they do and what is around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction, HloModule

RADIUS = 3
"""Steps to operands and users that a neighbourhood goes."""


class _Graph:
    """The instructions of a computation as numbers."""

    def __init__(self, instructions: Sequence[HloInstruction]) -> None:
        at = {instruction: number for number, instruction in enumerate(instructions)}
        self.operands = [[at[o] for o in i.operands if o in at] for i in instructions]

    def edges(self) -> None:
        """Make the tables of operands and users."""
        flat = [(n, slot, o) for n, ops in enumerate(self.operands) for slot, o in enumerate(ops)]
        self.user, self.slot, self.operand = np.array(flat, np.int64).reshape(-1, 3).T
        self.users: list[list[tuple[int, int]]] = [[] for _ in self.operands]
        for number, slot, operand in flat:
            self.users[operand].append((slot, number))

    def wider(self, prints: Any) -> Any:
        """Prints of neighbourhoods one step wider; users count as a sum, as their order says nothing."""
        found = _mixed(prints)
        slots = (2 * self.slot + 3).astype(np.uint64)
        np.add.at(found, self.user, _mixed(prints[self.operand] * slots))
        np.add.at(found, self.operand, _mixed(prints[self.user] * (slots + np.uint64(2**32))))
        return found


def _mixed(numbers: Any) -> Any:
    """Numbers without any likeness to those given, the same for the same."""
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


class _Matching:
    """Partners found so far."""

    def __init__(self, left: _Graph, right: _Graph, plain: tuple[Any, Any]) -> None:
        self.left, self.right, self.plain = left, right, plain
        self.there = np.full(len(plain[0]), -1)
        self.back = np.full(len(plain[1]), -1)

    def grow(self, open_: list[tuple[int, int]]) -> None:
        """Take pairs for partners, then what stands at the same place next to them."""
        while open_:
            x, y = open_.pop()
            if self.there[x] >= 0 or self.back[y] >= 0 or self.plain[0][x] != self.plain[1][y]:
                continue
            self.there[x], self.back[y] = y, x
            open_ += self.around(x, y)

    def around(self, x: int, y: int) -> list[tuple[int, int]]:
        """What stands next to two partners on both sides: operands, and users that are the only ones so."""
        operands = self.left.operands[x], self.right.operands[y]
        found = list(zip(*operands, strict=True)) if len(operands[0]) == len(operands[1]) else []
        kinds: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, users in enumerate((self.left.users[x], self.right.users[y])):
            for slot, user in users:
                kinds[slot, self.plain[side][user]][side].append(user)
        return found + [(a[0], b[0]) for a, b in kinds.values() if len(a) == len(b) == 1]

    def by(self, prints: tuple[Any, Any], is_last: bool) -> None:
        """Match what has the same print, as many on one side as on the other, at last as many as can be."""
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for side, partners in enumerate((self.there, self.back)):
            left = np.flatnonzero(partners < 0)
            for number, made in zip(left.tolist(), prints[side][left].tolist(), strict=True):
                groups.setdefault(made, ([], []))[side].append(number)
        for mine, theirs in groups.values():
            if is_last:
                self.grow(list(zip(mine, theirs, strict=False))[::-1])
            elif len(mine) == len(theirs):
                self.there[mine], self.back[theirs] = theirs, mine

    def spread(self) -> None:
        """Go on from partners to what is next to them."""
        alone = np.flatnonzero(self.there < 0)
        near = {x for a in alone.tolist() for x in self.left.operands[a]}
        near |= {user for a in alone.tolist() for _, user in self.left.users[a]}
        for x in sorted(near):
            if self.there[x] >= 0:
                self.grow(self.around(x, int(self.there[x])))

    def rewired(self) -> set[int]:
        """Partners that read other things, where what they read is matched on both sides."""
        found = set()
        for x, y in enumerate(self.there.tolist()):
            mine = self.left.operands[x]
            theirs = self.right.operands[y] if y >= 0 else []
            if y < 0 or len(mine) != len(theirs):
                continue
            for p, q in zip(mine, theirs, strict=True):
                if self.there[p] != q and self.there[p] >= 0 and self.back[q] >= 0:
                    found.add(x)
        return found


def match(
    left: Sequence[HloInstruction], right: Sequence[HloInstruction], a: list[str], b: list[str]
) -> tuple[list[HloInstruction | None], set[HloInstruction]]:
    """The partner of each instruction of the first computation in the second, and who reads other things.

    Those with the same neighbourhood first, the widest to begin with, then those next to partners, at last
    those that do the same. Names do not count, nor does the order where neighbourhoods tell. What reads an
    instruction that came or went is not said to read other things.

    Args:
        left: The instructions of one computation.
        right: Those of another.
        a: What each of `left` does, whatever its operands: `HloInstruction.signature`.
        b: The same of `right`.
    """
    graphs = _Graph(left), _Graph(right)
    if a == b and graphs[0].operands == graphs[1].operands:
        return list(right), set()
    for graph in graphs:
        graph.edges()
    # As `hash` gives them; all arithmetic is modulo 2**64.
    plain = tuple(np.array([hash(text) for text in texts], np.int64).view(np.uint64) for texts in (a, b))
    prints = [plain]
    for _ in range(RADIUS):
        prints.append(tuple(graph.wider(made) for graph, made in zip(graphs, prints[-1], strict=True)))
    matching = _Matching(*graphs, (plain[0], plain[1]))
    for wide in reversed(prints):
        matching.by((wide[0], wide[1]), is_last=False)
        matching.spread()
    matching.by((plain[0], plain[1]), is_last=True)
    found = [None if y < 0 else right[y] for y in matching.there.tolist()]
    return found, {left[x] for x in matching.rewired()}


def patterns(a: HloModule, b: HloModule, differences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Changes that several computations have in common, the most frequent first.

    Each with its side, `"-"` for what only A has, the text of the first one, the names of the computations,
    and the opcodes that call them.
    """
    callers: dict[str, set[str]] = defaultdict(set)
    for module in (a, b):
        for i in module.instructions:
            for called in i.called_computations:
                callers[called.name].add(i.opcode)
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for item in differences:
        names = {"-": item["name"], "+": item.get("other", item["name"])}
        for change in item.get("changes", ()):
            side = change["side"]
            computation = (a if side == "-" else b)[names[side]]
            signature = computation[change["name"]].signature()
            groups[side, signature].append((item["name"], change["text"]))
    found = []
    for (side, _), places in groups.items():
        where = list(dict.fromkeys(name for name, _ in places))
        if len(where) > 1:
            opcodes = sorted({opcode for name in where for opcode in callers[name]})
            found.append({"side": side, "text": places[0][1], "computations": where, "callers": opcodes})
    return sorted(found, key=lambda item: -len(item["computations"]))
