"""Which instructions of two modules compute the same value.

Values are held against each other by fingerprints that say nothing of the order of the elements, of their
type or of how often each was broadcast: layouts, transpositions and fusion change nothing. They are those of
runs in f64, where rounding does not blur them, on two inputs, and of every execution of a loop's body.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlorun._hlorun import HloInstruction
from hlorun.find.sides import Side, alike, fingerprint, name_of

CLOSE = 2e-5
"""Relative difference of fingerprints in f64, which constants folded in f32 make."""

NEAR = 2e-3
"""Relative difference of fingerprints that counts as equal where there is no run in f64."""

SAMPLES = 16
"""Executions of an instruction that have to be found again."""

SHORT = 3
"""Least number of elements of a value that is matched by factor: of shorter ones any two are multiples."""

PART = 0.75
"""Share of the sampled executions that must match; a pass may peel the first and last trips of a loop."""


NAMED = ("name", "origin")
"""Ways of matching that stand for one instruction, whatever its value."""

VALUE = ("value", "factor", "reciprocal")
"""Ways of matching that look at nothing but values."""


@dataclass(frozen=True)
class Pair:
    """An instruction of A, one of B, and how they were matched."""

    a: HloInstruction
    b: HloInstruction
    by: str

    @property
    def is_same(self) -> bool:
        """Whether both hold the same elements as far as the match knows."""
        return self.by in ("name", "op_name", "origin", "value")


class Index:
    """Fingerprints of a side, to be searched."""

    def __init__(self, side: Side, close: float, is_twice: bool) -> None:
        self.close = close
        self.is_twice = is_twice
        self.owners: list[HloInstruction] = []
        rows: list[Any] = []
        owner: list[int] = []

        def add(instruction: HloInstruction, prints: list[Any]) -> None:
            side.deadline.check()
            self.owners.append(instruction)
            # The trips of a loop often have equal values.
            distinct = {row.tobytes(): row for row in prints}
            rows.extend(distinct.values())
            owner.extend([len(self.owners) - 1] * len(distinct))

        for instruction in side.kept.values:
            add(instruction, _prints(side, instruction, is_twice))
        for constant in side.module.find(opcode="constant"):
            literal = constant.literal
            if literal is not None and (made := fingerprint(literal)) is not None:
                add(constant, [made])
        table = np.array(rows).reshape(len(rows), -1) if rows else np.zeros((0, 10))
        self.found: dict[tuple[str, bytes], set[int]] = {}
        self.by: dict[int, tuple[Any, Any, Any]] = {}
        for key in (0, 2):
            order = np.argsort(table[:, key], kind="stable")
            self.by[key] = table[order], np.array(owner, np.int64)[order], table[order, key]

    def _near(self, row: Any, key: int) -> tuple[Any, Any]:
        table, owner, keys = self.by[key]
        reach = self.close * (abs(row[key]) + (1e-30 if key == 0 else 0))
        low, high = np.searchsorted(keys, [row[key] - reach, row[key] + reach * (1 + 1e-9)], side="left")
        high = max(high, int(np.searchsorted(keys, row[key] + reach, side="right")))
        return table[low:high], owner[low:high]

    def _once(self, how: str, row: Any, find: Callable[[Any], set[int]]) -> set[int]:
        key = how, row.tobytes()
        if key not in self.found:
            self.found[key] = find(row)
        return self.found[key]

    def same(self, row: Any) -> set[int]:
        """Owners of this fingerprint."""
        return self._once("same", row, self._same)

    def scaled(self, row: Any) -> set[int]:
        """Owners of this fingerprint times a number."""
        return self._once("scaled", row, self._scaled)

    def _same(self, row: Any) -> set[int]:
        table, owner = self._near(row, 0)
        return set(owner[alike(table, row, self.close)].tolist())

    def _scaled(self, row: Any) -> set[int]:
        if row[0] == 0 or _is_uniform(row) or (row[7:] != 0).any():
            return set()
        table, owner = self._near(row, 2)
        turned = np.array([-row[1], row[2], -row[4], -row[3], -row[5], row[6]])
        limit = self.close * (1 + np.abs(row[1:7]))
        good = (np.abs(table[:, 1:7] - row[1:7]) <= limit).all(axis=1)
        good |= (np.abs(table[:, 1:7] - turned) <= self.close * (1 + np.abs(turned))).all(axis=1)
        good &= (table[:, 0] > 0) & (table[:, 7:] == 0).all(axis=1)
        return set(owner[good].tolist())


def _is_uniform(row: Any) -> bool:
    """Whether all elements are one number."""
    return abs(float(row[4] - row[3])) < 1e-9


def _prints(side: Side, instruction: HloInstruction, is_twice: bool) -> list[Any]:
    """The fingerprints of its executions, of the run on other inputs too if that is wanted."""
    found = list(side.prints_of(instruction))
    if is_twice and side.again is not None:
        found += side.again.get(name_of(instruction), [])
    return found


def _sample(rows: list[Any]) -> list[Any]:
    """Some of the executions, the last ones among them."""
    if len(rows) <= SAMPLES:
        return rows
    return [rows[(k * (len(rows) - 1)) // (SAMPLES - 1)] for k in range(SAMPLES)]


class _Alike:
    """Instructions of A that hold the same, to be asked which of them looks most like one of B."""

    def __init__(self, owners: list[HloInstruction]) -> None:
        self.only = owners[0] if len(owners) == 1 else None
        self.traits: dict[tuple[Any, ...], HloInstruction] = {}
        for x in owners if self.only is None else ():
            for trait in _traits(x, x.opcode):
                self.traits.setdefault(trait, x)

    def nearest(self, y: HloInstruction) -> HloInstruction | None:
        """The one that has most in common with `y`; None where there is none at all."""
        if self.only is not None:
            return self.only
        root = y.called_computations[0].root if y.opcode == "fusion" else y
        opcode = root.opcode if root is not None else y.opcode
        return next((self.traits[t] for t in _traits(y, opcode) if t in self.traits), None)


def _traits(instruction: HloInstruction, opcode: str) -> Iterator[tuple[Any, ...]]:
    """What two instructions may have in common, what says most first."""
    op_name = instruction.metadata.op_name or None
    dims = instruction.shape.dims if instruction.shape.is_array else None
    yield from itertools.product((instruction.name, None), (op_name, None), (dims, None), (opcode, None))


def _how(x: HloInstruction, y: HloInstruction) -> str:
    """By what a reader would say that two instructions of the same value are one."""
    if name_of(x) == name_of(y) and _is_same(x, y):
        return "name"
    return "op_name" if x.metadata.op_name == y.metadata.op_name != "" else "value"


def index_of(a: Side, b: Side) -> Index:
    """The values of A, as precisely as B's are known."""
    return Index(a, CLOSE if a.is_exact and b.is_exact else NEAR, a.again is not None and b.again is not None)


class _Matcher:
    """Finds the partners in A of values of B."""

    def __init__(self, a: Side, b: Side, index: Index | None) -> None:
        self.b = b
        self.is_twice = a.again is not None and b.again is not None
        self.index = index or index_of(a, b)
        self.alike: dict[tuple[int, ...], _Alike] = {}

    def of(self, y: HloInstruction) -> Pair | None:
        """The best partner by value."""
        self.b.deadline.check()
        rows = _sample(_prints(self.b, y, self.is_twice))
        if not rows or y not in self.b.kept.values:
            return None
        value = np.asarray(self.b.value_of(y))
        for by in ("value", "factor"):
            find = self.index.same if by == "value" else self.index.scaled
            if by == "factor" and (value.size < SHORT or value.dtype.kind in "biu"):
                continue
            if found := self._best(y, [find(row) for row in rows]):
                return Pair(found, y, _how(found, y) if by == "value" else by)
        if value.dtype.kind not in "fV":
            return None
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            turned = fingerprint(1 / value.astype(np.float64))
        if turned is None or turned[7:].any() or _is_uniform(turned):
            return None
        found = self._best(y, [self.index.same(turned)])
        return Pair(found, y, "reciprocal") if found else None

    def _best(self, y: HloInstruction, hits: list[set[int]]) -> HloInstruction | None:
        # The index keeps the sets, and many values may be the same.
        key = tuple(map(id, hits))
        if key not in self.alike:
            tally = Counter(itertools.chain.from_iterable(hits))
            most = max(tally.values(), default=0)
            best = [k for k, n in tally.items() if n == most >= PART * len(hits)]
            self.alike[key] = _Alike([self.index.owners[k] for k in best])
        return self.alike[key].nearest(y)


def _is_same(a: HloInstruction, b: HloInstruction) -> bool:
    """Whether two instructions of one name are likely one; a pass, or a fault, may change an opcode."""
    if a.opcode == b.opcode or a.metadata.op_name == b.metadata.op_name != "":
        return True
    return [o.name for o in a.operands] == [o.name for o in b.operands] != []


def _origin(instruction: HloInstruction) -> str | None:
    """Which instruction before all passes held the same, as XLA notes it; None without a note."""
    found = _ORIGIN.fullmatch(instruction.attributes.get("origin", ""))
    return found[1] if found else None


_ORIGIN = re.compile(r'\{+"([^"]+)"\}+')
"""The origin of one array."""


def _by_name(
    ours: dict[HloInstruction, Any], theirs: dict[HloInstruction, Any], pairs: list[Pair]
) -> list[Pair]:
    """Partners by origin, by name, or the only ones of an opcode and op_name, whose values are apart."""
    named = {name_of(x): x for x in ours}
    noted: dict[str | None, HloInstruction] = {_origin(x) or x.name: x for x in ours}
    alike: dict[Any, list[HloInstruction]] = defaultdict(list)
    for x in ours:
        if x.metadata.op_name:
            alike[x.opcode, x.metadata.op_name, x.shape.dims].append(x)
    claimed = {pair.a for pair in pairs}
    found = []
    for y, value in theirs.items():
        other, by = noted.get(_origin(y)), "origin"
        if other is None or ours[other].shape != value.shape:
            other, by = named.get(name_of(y)), "name"
        is_likely = other is not None and (by == "origin" or _is_same(other, y))
        if other is None or not is_likely or ours[other].shape != value.shape:
            same = alike.get((y.opcode, y.metadata.op_name, y.shape.dims), [])
            other, by = (same[0], "op_name") if len(same) == 1 else (None, "")
        if other is not None and other not in claimed:
            claimed.add(other)
            found.append(Pair(other, y, by))
    return found


def factor_of(a: Any, b: Any) -> float:
    """By what `a` is multiplied in `b`, whatever the order of the elements."""
    x, y = fingerprint(a), fingerprint(b)
    if x is None or y is None or x[0] == 0:
        return 1.0
    turned = np.array([-x[1], -x[4], -x[3], -x[5]])
    here = y[[1, 3, 4, 5]]
    is_turned = np.abs(turned - here).sum() < np.abs(x[[1, 3, 4, 5]] - here).sum()
    return float(y[0] / x[0]) * (-1 if is_turned else 1)


def pairs_of(a: Side, b: Side, is_different: bool = False, index: Index | None = None) -> list[Pair]:
    """Instructions of both modules that compute the same value, in the order of B's run.

    Where the programs differ, also those that should, as their names or op_names say.
    """
    ours = a.arrays()
    theirs = {y: value for y, value in b.arrays().items() if y.opcode != "parameter"}
    matcher = _Matcher(a, b, index)
    found = {y: pair for y in theirs if (pair := matcher.of(y)) is not None}
    same = [pair for pair in found.values() if pair.is_same]
    rest = {y: value for y, value in theirs.items() if y not in found or not found[y].is_same}
    if is_different:
        found |= {pair.b: pair for pair in _by_name(ours, rest, same)}
    return [found[y] for y in theirs if y in found]
