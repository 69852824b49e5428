"""What would make a module need less memory: each change is made, and the memory planned again.

Plans are XLA's buffer assignment in the order of the text. Nothing is estimated: a saving is the peak of the
module less the peak of the changed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hlorun._hlorun import HloComputation, HloInstruction, HloModule, Shape, parse
from hlorun.errors import HloArgumentError, HloError
from hlorun.report.memory import memory_report
from hlorun.report.result import Place, Result
from hlorun.report.schedules import SCHEDULES
from hlorun.report.units import bytes_text, plural

_NEVER_TWICE = {
    "parameter", "constant", "rng-bit-generator", "custom-call", "while", "conditional", "call", "after-all",
    "partition-id", "replica-id", "tuple", "get-tuple-element", "bitcast", "domain", "opt-barrier",
}  # fmt: skip
"""Opcodes that are not computed again: they may cost a lot, or have no memory of their own."""
_MOST_GAPS = 3
"""Places between uses of a value at which it is tried to be computed again."""


@dataclass(frozen=True)
class MemoryChange(Result):
    """A change, and the peak that the module has with it.

    Attributes:
        kind: "donate", "rematerialize" or "schedule".
        text: What is changed.
        places: The instructions that it is about; of a schedule none.
        peak: Bytes needed at the peak with the change.
        saves: Bytes less than without; never negative.

    Examples:
        >>> text = "ENTRY e { p = f32[256] parameter(0) a = f32[256] negate(p) ROOT b = f32[256] sine(a) }"
        >>> change = hlorun.memory_what_if(hlorun.parse(text)).changes[0]
        >>> change.kind, change.saves
        ('donate', 1024)
    """

    kind: str
    text: str
    places: tuple[Place, ...]
    peak: int
    saves: int


@dataclass(frozen=True)
class WhatIf(Result):
    """What would help a module to need less memory.

    Attributes:
        module: The module's name.
        peak: Bytes it needs at the peak, by XLA's buffer assignment in the order of the text.
        changes: A `MemoryChange` for each that saves something alone, those that save most first.
        tried: How many changes were tried.
        refused: How many of them could not be planned; what they would save is unknown.
        left_out: Values live at the peak that were not tried because there were too many.

    Examples:
        >>> text = "ENTRY e { p = f32[256] parameter(0) a = f32[256] negate(p) ROOT b = f32[256] sine(a) }"
        >>> found = hlorun.memory_what_if(hlorun.parse(text))
        >>> found.peak, found.tried, found.refused
        (2048, 3, 0)
    """

    module: str
    peak: int
    changes: tuple[MemoryChange, ...] = field(repr=False)
    tried: int
    refused: int
    left_out: int

    def __str__(self) -> str:
        """As a person reads it."""
        head = f"peak {bytes_text(self.peak)}, {plural(self.tried, 'change')} tried"
        head += f", {self.refused:,} of them could not be planned" if self.refused else ""
        head += f", {plural(self.left_out, 'further value')} at the peak not tried" if self.left_out else ""
        return "\n".join([head, *(f"{bytes_text(c.saves)} less: {c.text}" for c in self.changes)])


class Text:
    """The text of a module by instructions, to be put together in another way."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.source = module.source.decode("utf-8", "surrogateescape")
        self.spans: dict[HloComputation, list[tuple[int, int]]] = {}
        at = 0
        for computation in module.computations:
            spans = self.spans[computation] = []
            for instruction in computation.instructions:
                start = self.source.find(instruction.text, at)
                if start < 0:
                    raise HloArgumentError(f"the text has no line of its own for {instruction.name}")
                at = start + len(instruction.text)
                spans.append((start, at))

    def with_lines(self, lines: dict[HloComputation, list[str]]) -> str:
        """The text with other lines in some computations."""
        pieces, at = [], 0
        for computation, spans in sorted(self.spans.items(), key=lambda item: item[1]):
            if computation in lines and spans:
                pieces += [self.source[at : spans[0][0]], "\n".join(lines[computation])]
                at = spans[-1][1]
        return "".join([*pieces, self.source[at:]])

    def with_donations(self, donations: list[tuple[str, int]]) -> str:
        """The text whose header gives parameters, by number, to outputs, by index."""
        given = ", ".join(f"{{{output}}}: ({number}, {{}}, may-alias)" for output, number in donations)
        header = re.search(r"^\s*HloModule [^\n]*", self.source, re.MULTILINE)
        if header is None:
            return f"HloModule what_if, input_output_alias={{ {given} }}\n{self.source}"
        line, key = header[0], "input_output_alias={"
        if key in line:
            line = line.replace(key, f"{key} {given}, ", 1)
        else:
            line = f"{line.rstrip()}, {key} {given} }}"
        return self.source[: header.start()] + line + self.source[header.end() :]


def _peak(module: HloModule) -> int:
    peak = module.memory_analysis().peak_memory_in_bytes
    # XLA's rules always say when temporaries are live.
    assert peak is not None
    return peak


def _planned(text: str) -> int | None:
    """The peak of a changed text; None where the change is not legal."""
    try:
        return _peak(parse(text.encode("utf-8", "surrogateescape")))
    except HloError:
        return None


def _outputs(root: HloInstruction) -> list[tuple[str, Shape]]:
    if root.shape.is_tuple:
        return [(str(n), shape) for n, shape in enumerate(root.shape.tuple_shapes) if shape.is_array]
    return [("", root.shape)] if root.shape.is_array else []


def _donations(text: Text) -> Iterator[tuple[list[tuple[str, int]], HloInstruction]]:
    """Parameters that could give their memory to results of the same shape: each to the first left."""
    module = text.module
    entry = module.entry_computation
    if entry is None or entry.root is None:
        return
    taken = {".".join(map(str, output)) for output, *_ in module.input_output_alias}
    given = {number for _, number, *_ in module.input_output_alias}
    left = [(index, str(shape)) for index, shape in _outputs(entry.root) if index not in taken]
    for number, parameter in enumerate(entry.parameters):
        found = next((item for item in left if item[1] == str(parameter.shape)), None)
        if number not in given and found is not None:
            left.remove(found)
            yield [(found[0], number)], parameter


def operands_span(text: str, opcode: str) -> tuple[int, int]:
    """Where the operands of an instruction stand in its text."""
    start = re.search(rf"\s{re.escape(opcode)}\(", text)
    if start is None:
        raise HloArgumentError(f"no operands of {opcode} in {text[:80]}")
    depth, at, quoted = 1, start.end(), False
    while depth and at < len(text):
        if text[at] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return start.end(), at - 1


def _renamed(user: HloInstruction, line: str, old: str, new: str) -> str:
    start, end = operands_span(line, user.opcode)
    pattern = rf"(?<![\w.\-%])(%?){re.escape(old)}(?![\w.\-])"
    operands = re.sub(pattern, lambda m: m[1] + new, line[start:end])
    return line[:start] + operands + line[end:]


def _computed_again(text: Text, value: HloInstruction) -> Iterator[tuple[HloInstruction, str]]:
    """For the longest gaps between uses: the first user after it, and the text where it reads a new copy."""
    computation = value.computation
    place = {i: n for n, i in enumerate(computation.instructions)}
    users = sorted((user for user in value.users if user in place), key=place.__getitem__)
    pauses = sorted(range(1, len(users)), key=lambda n: place[users[n]] - place[users[n - 1]], reverse=True)[
        :_MOST_GAPS
    ]
    name = f"{value.name}.again"
    while name in text.module:
        name += "_"
    clone = re.sub(rf"^(ROOT\s+)?(%?){re.escape(value.name)}(?=\s*=)", lambda m: m[2] + name, value.text)
    for pause in pauses:
        late = set(users[pause:])
        lines = [
            _renamed(i, i.text, value.name, name) if i in late else i.text for i in computation.instructions
        ]
        lines.insert(place[users[pause]], clone)
        yield users[pause], text.with_lines({computation: lines})


def memory_what_if(module: HloModule, *, most: int = 20) -> WhatIf:
    """Find out what donating parameters, computing values again or another schedule would save.

    Each change is made to the text alone, and its memory planned again by XLA's rules; what saves nothing is
    not listed. Values with effects, loops and calls are not computed again. Splitting a value is not tried.

    Args:
        module: The module.
        most: How many values live at the peak are tried to be computed again, the largest first.

    Returns:
        A `WhatIf`.

    Raises:
        HloArgumentError: The text of an instruction is not in the module's source, or `most` is negative.
        HloError: The memory of the module cannot be planned.

    Examples:
        >>> text = "ENTRY e { p = f32[256] parameter(0) a = f32[256] negate(p) ROOT b = f32[256] sine(a) }"
        >>> print(hlorun.memory_what_if(hlorun.parse(text)))
        peak 2.048 kB, 3 changes tried
        1.024 kB less: donate parameter 0, p
    """
    text, peak = Text(module), _peak(module)
    found: list[MemoryChange] = []
    tried = refused = 0

    def attempt(kind: str, about: str, places: list[HloInstruction], changed: str) -> None:
        nonlocal tried, refused
        tried += 1
        after = _planned(changed)
        refused += after is None
        if after is not None and after < peak:
            where = tuple(Place.of(i) for i in places)
            found.append(MemoryChange(kind, about, where, after, peak - after))

    donations = list(_donations(text))
    for donation, parameter in donations:
        about = f"donate parameter {donation[0][1]}, {parameter.name}"
        attempt("donate", about, [parameter], text.with_donations(donation))
    if len(donations) > 1:
        together = [pair for donation, _ in donations for pair in donation]
        about = f"donate all {len(together)} parameters that fit results"
        attempt("donate", about, [p for _, p in donations], text.with_donations(together))
    if most < 0:
        raise HloArgumentError(f"most={most}; it must be at least 0")
    values, left_out = _at_peak(module, most)
    for value in values:
        best: list[MemoryChange] = []
        for user, changed in _computed_again(text, value):
            before = len(found)
            attempt("rematerialize", f"compute {value.name} again for {user.name}", [value, user], changed)
            best += found[before:]
            del found[before:]
        # Of several pauses of one value the best counts.
        found += sorted(best, key=lambda change: change.peak)[:1]
    for name, schedule in SCHEDULES.items():
        lines = {
            computation: [i.text for i in schedule(computation)]
            for computation in module.computations
            if not computation.is_inner
        }
        attempt("schedule", f"run the instructions {name}", [], text.with_lines(lines))
    found.sort(key=lambda change: -change.saves)
    return WhatIf(module.name, peak, tuple(found), tried, refused, left_out)


def _at_peak(module: HloModule, most: int) -> tuple[list[HloInstruction], int]:
    """Values live at the peak that can be computed again, the largest first, and how many more there are."""
    report = memory_report(module.buffer_assignment(), module)
    rows = sorted((v for v in report["values"] if v["at_peak"]), key=lambda v: -v["size"])
    names = dict.fromkeys(row["name"] for row in rows if row["kind"] == "temporary" and row["name"] in module)
    all_values = [i for name in names for i in [module[name]] if isinstance(i, HloInstruction)]
    able = [
        i
        for i in all_values
        if i.opcode not in _NEVER_TWICE and not i.has_side_effect and len(i.users) > 1
        and not i.opcode.endswith(("-start", "-done"))
    ]  # fmt: skip
    return able[:most], len(able[most:])
