"""Two modules, or two runs, side by side."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlorun._hlorun import HloComputation, HloInstruction, HloModule
from hlorun._statistics import as_numbers, leaves
from hlorun.report.neighbourhood import match, patterns
from hlorun.report.result import Place, Result

MAX_KEPT = 2 << 30
"""Bytes of intermediates of the first run that are kept to compare the second with."""


_PARTS = (HloComputation, HloInstruction)

Pair = tuple[HloComputation | None, HloComputation | None]


class _Side:
    """One of two modules: what its instructions do, without names.

    Computations count by their partners in the other module once those are known, so that a change in
    a called computation is no change of its callers.
    """

    def __init__(self) -> None:
        self.partners: dict[HloComputation, int] = {}
        self.plain: dict[HloComputation, list[str]] = {}

    def plain_signatures(self, computation: HloComputation) -> list[str]:
        """What each instruction does, whatever its operands, which shift when something is put in."""
        if computation not in self.plain:
            self.plain[computation] = [instruction.signature() for instruction in computation.instructions]
        return self.plain[computation]


def _pairs(a: HloModule, b: HloModule, sides: tuple[_Side, _Side]) -> list[Pair]:
    """Computations that belong together: by name, then by what they hold."""
    by_name = {computation.name: computation for computation in b.computations}
    pairs: list[Pair] = []
    left = []
    taken = set()
    for computation in a.computations:
        other = b.entry_computation if computation.is_entry else by_name.get(computation.name)
        if other is not None and other not in taken and other.is_entry == computation.is_entry:
            pairs.append((computation, other))
            taken.add(other)
        else:
            left.append(computation)
    rest: dict[tuple[str, ...], list[HloComputation]] = defaultdict(list)
    for computation in b.computations:
        if computation not in taken:
            rest[tuple(sides[1].plain_signatures(computation))].append(computation)
    for computation in left:
        same = rest.get(tuple(sides[0].plain_signatures(computation)))
        pairs.append((computation, same.pop(0) if same else None))
    pairs += [(None, computation) for same in rest.values() for computation in same]
    for number, pair in enumerate(pairs):
        for side, paired in zip(sides, pair, strict=True):
            if paired is not None:
                side.partners[paired] = number
    return pairs


def _line(instruction: HloInstruction, is_root: bool = False) -> str:
    """An instruction as HLO has it, without metadata."""
    text = "ROOT " * is_root + " ".join(str(instruction).split())
    if instruction.literal is not None:
        text = text.replace("constant()", f"constant({' '.join(str(instruction.literal).split())[:80]})", 1)
    # The signature has all attributes as written but those that name other parts of the module.
    signature = instruction.signature()
    text += signature[signature.index(")", signature.index(f" {instruction.opcode}(")) + 1 :]
    for key, value in instruction.attributes.items():
        if isinstance(value, _PARTS):
            text += f", {key}={value.name}"
        elif isinstance(value, (tuple, list)) and value and isinstance(value[0], _PARTS):
            text += f", {key}={{{', '.join(part.name for part in value)}}}"
    return text


def _controls(instruction: HloInstruction) -> list[HloInstruction]:
    """What has to run before though nothing of it is read."""
    if "control-predecessors" not in instruction.text:
        return []
    return list(instruction.attributes.get("control-predecessors", ()))


def _changes(a: HloComputation, b: HloComputation, sides: tuple[_Side, _Side]) -> list[dict[str, Any]]:
    """Instructions that are only in one of two computations, or whose operands are others."""
    left, right = a.instructions, b.instructions
    found, rewired = match(left, right, sides[0].plain_signatures(a), sides[1].plain_signatures(b))
    partner = {x: y for x, y in zip(left, found, strict=True) if y is not None}
    taken = set(partner.values())

    def is_changed(x: HloInstruction, y: HloInstruction) -> bool:
        if x in rewired or x.is_root != y.is_root:
            return True
        if [sides[0].partners.get(c) for c in x.called_computations] != [
            sides[1].partners.get(c) for c in y.called_computations
        ]:
            return True
        return [partner.get(p) for p in _controls(x)] != _controls(y)

    changes: list[tuple[int, int, dict[str, Any]]] = []
    place = {y: at for at, y in enumerate(found) if y is not None}
    for at, (x, y) in enumerate(zip(left, found, strict=True)):
        if y is None or is_changed(x, y):
            is_other = y is not None and x.is_root != y.is_root
            pair = None if y is None else y.name
            text = _line(x, is_other and x.is_root)
            changes.append((at, 0, {"side": "-", "text": text, "name": x.name, "partner": pair}))
            if y is not None:
                text = _line(y, is_other and y.is_root)
                changes.append((at, 1, {"side": "+", "text": text, "name": y.name, "partner": x.name}))
    at, new = len(left), []
    for y in reversed(right):
        at = place.get(y, at)
        if y not in taken:
            new.append((at, -1, {"side": "+", "text": _line(y), "name": y.name, "partner": None}))
    return [change for _, _, change in sorted(changes + new[::-1], key=lambda change: change[:2])]


def elided(module: HloModule) -> int:
    """Constants whose values the text leaves out."""
    return sum(
        i.opcode == "constant" and i.literal is None for c in module.computations for i in c.instructions
    )


def compare_modules(a: HloModule, b: HloModule) -> dict[str, Any]:
    """How two modules differ: nothing, names only, or which opcodes, values and instructions.

    `identical` is true when both compute the same in the same way, whatever their names and metadata;
    values that a text leaves out are nobody's to compare, and `elided_constants` counts them.
    """

    def opcodes(module: HloModule) -> Counter[str]:
        return Counter(i.opcode for c in module.computations for i in c.instructions)

    def interface(module: HloModule) -> tuple[list[str], str]:
        entry = module.entry_computation
        if entry is None:
            return [], ""
        return [str(p.shape) for p in entry.parameters], "" if entry.root is None else str(entry.root.shape)

    identical = a.fingerprint() == b.fingerprint()
    counts = opcodes(a), opcodes(b)
    computations: list[dict[str, Any]] = []
    if not identical:
        sides = _Side(), _Side()
        for left, right in _pairs(a, b, sides):
            if left is None or right is None:
                only = left or right
                assert only is not None
                computations.append(
                    {"name": only.name, "only_in": "A" if left else "B", "instructions": len(only)}
                )
            elif changes := _changes(left, right, sides):
                computations.append({"name": left.name, "other": right.name, "changes": changes})
    (parameters_a, output_a), (parameters_b, output_b) = interface(a), interface(b)
    return {
        "identical": identical,
        "elided_constants": [elided(a), elided(b)],
        "instructions": [a.instruction_count, b.instruction_count],
        "computations": [len(a.computations), len(b.computations)],
        "opcodes": {
            opcode: [counts[0][opcode], counts[1][opcode]]
            for opcode in sorted(counts[0] | counts[1])
            if counts[0][opcode] != counts[1][opcode]
        },
        "parameters": [
            {"number": n, "A": x, "B": y}
            for n, (x, y) in enumerate(_longest(parameters_a, parameters_b))
            if x != y
        ],
        "header": {
            key: [a.attributes.get(key), b.attributes.get(key)]
            for key in sorted(a.attributes | b.attributes)
            if not identical and a.attributes.get(key) != b.attributes.get(key)
        },
        "output": None if output_a == output_b else {"A": output_a, "B": output_b},
        "differences": computations,
        "patterns": patterns(a, b, computations),
    }


def _longest(a: list[str], b: list[str]) -> list[tuple[str | None, str | None]]:
    count = max(len(a), len(b))
    return [(a[n] if n < len(a) else None, b[n] if n < len(b) else None) for n in range(count)]


def distance(a: Any, b: Any, rtol: float, atol: float) -> dict[str, Any] | None:
    """How far two arrays are apart; None when `b` is close to `a`: |a - b| <= atol + rtol |a|."""
    if a is None or b is None:
        return None if a is b else {"what": "one holds nothing"}
    if a.shape != b.shape or a.dtype != b.dtype:
        return {"what": f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"}
    x, y = as_numbers(a), as_numbers(b)
    if x.dtype.kind in "biu":
        differ = x != y
        if not differ.any():
            return None
        gap = np.abs(x.astype(np.float64) - y.astype(np.float64))
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(x - y)
            close = (gap <= atol + rtol * np.abs(x)) | (x == y) | (np.isnan(x) & np.isnan(y))
        if close.all():
            return None
        differ = ~close
        gap = np.where(differ, gap, 0)
    at = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
    return {
        "what": "values",
        "elements": int(differ.sum()),
        "of": int(x.size),
        "greatest": float(gap.reshape(-1)[at]),
        "index": [int(i) for i in np.unravel_index(at, x.shape)],
        "A": str(x.reshape(-1)[at]),
        "B": str(y.reshape(-1)[at]),
    }


class _Kept:
    """Intermediates of the first run, by device, computation, name and how often they have been seen."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, str, str, int], list[Any]] = {}
        self.seen: Counter[tuple[int, str, str]] = Counter()
        self.bytes = 0
        self.dropped = 0

    def __call__(self, instruction: HloInstruction, value: Any, device: int) -> None:
        name = device, instruction.computation.name, instruction.name
        self.seen[name] += 1
        arrays = leaves(value)
        size = sum(array.nbytes for array in arrays if array is not None)
        if self.bytes + size > MAX_KEPT:
            self.dropped += 1
            return
        self.bytes += size
        key = (*name, self.seen[name])
        self.values[key] = arrays


class _Compare:
    """Compares the second run with the first."""

    def __init__(self, kept: _Kept, rtol: float, atol: float) -> None:
        self.kept, self.rtol, self.atol = kept, rtol, atol
        self.seen: Counter[tuple[int, str, str]] = Counter()
        self.compared = 0
        self.found: list[dict[str, Any]] = []

    def __call__(self, instruction: HloInstruction, value: Any, device: int) -> None:
        name = device, instruction.computation.name, instruction.name
        self.seen[name] += 1
        # Each value is looked at once; what is left then has no partner.
        ours = self.kept.values.pop((*name, self.seen[name]), None)
        theirs = leaves(value)
        if ours is None or len(ours) != len(theirs):
            return
        self.compared += 1
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            gap = distance(a, b, self.rtol, self.atol)
            if gap is not None:
                self.found.append(
                    {**Place.of(instruction).to_dict(), "time": self.seen[name], "part": index, **gap}
                )
                return


Observer = Callable[[HloInstruction, Any, int], None]
Run = Callable[[Observer], list[Any]]
"""Runs a module, shows an observer every value, and returns the results of all devices."""


def compare_runs(a: Run, b: Run, *, rtol: float, atol: float) -> dict[str, Any]:
    """Run two modules on the same inputs and compare outputs, and intermediates of the same name."""
    kept = _Kept()
    first = [leaf for result in a(kept) for leaf in leaves(result)]
    compare = _Compare(kept, rtol, atol)
    second = [leaf for result in b(compare) for leaf in leaves(result)]
    outputs = []
    for number in range(max(len(first), len(second))):
        if number >= min(len(first), len(second)):
            outputs.append({"output": number, "what": "only one module has it"})
            continue
        gap = distance(first[number], second[number], rtol, atol)
        if gap is not None:
            outputs.append({"output": number, **gap})
    return {
        "equal": not outputs,
        "outputs": len(first),
        "output_differences": outputs,
        "compared": compare.compared,
        "not_kept": kept.dropped,
        "first_difference": compare.found[0] if compare.found else None,
        "differences": compare.found[:100],
        "different": len(compare.found),
    }


@dataclass(frozen=True)
class Diff(Result):
    """How two modules differ, as `hlorun diff` prints it; false when they do not. Pairs are of A and B.

    Attributes:
        identical: Whether both compute the same in the same way, whatever their names and metadata.
        elided_constants: How many constants have values that the texts leave out.
        instructions: How many there are.
        computations: How many there are.
        opcodes: Counts of the opcodes whose counts differ.
        parameters: Parameters whose shapes differ: "number", "A" and "B".
        header: Attributes of the header that differ.
        output: The results' shapes, "A" and "B", where they differ; None otherwise.
        differences: For each computation that differs its "name", its "other" name in B, and its "changes":
            lines of HLO, each with its "side", "-" of A and "+" of B, the instruction's "name", and as
            "partner" the name of the same instruction with other operands on the other side, or None; or
            "only_in" instead, where one side has the whole computation.
        patterns: The changes that several computations have in common.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> difference = hlorun.diff(module, other)
        >>> [change["text"] for change in difference.differences[0]["changes"]]
        ['a = f32[2] add(p, p)', 'a = f32[2] subtract(p, p)']
    """

    identical: bool
    elided_constants: list[int]
    instructions: list[int]
    computations: list[int]
    opcodes: dict[str, list[int]]
    parameters: list[dict[str, Any]]
    header: dict[str, list[str | None]]
    output: dict[str, str] | None
    differences: list[dict[str, Any]]
    patterns: list[dict[str, Any]]

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return not self.identical


def diff(a: HloModule, b: HloModule) -> Diff:
    """Compare the graphs of two modules; names and metadata do not count.

    Args:
        a: A module.
        b: Another.

    Returns:
        A `Diff`, which is false when nothing differs.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> other = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] subtract(p, p) }")
        >>> bool(hlorun.diff(module, module)), bool(hlorun.diff(module, other))
        (False, True)
    """
    return Diff(**compare_modules(a, b))
