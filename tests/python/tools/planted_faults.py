"""Plant twenty faults and print what is said of each: `python tests/python/tools/planted_faults.py [--write]`.

A fault is one exchange in the text of a dump, or in a stored program as XLA:CPU compiled it, which is then held
against the program as it was lowered. Some are no faults: what XLA:CPU made with other roundings. `--write` puts
the table into docs/find.md.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import store

import hlorun
from test_find import PARTS, WHOLE

BEGIN, END = "<!-- planted_faults.py -->", "<!-- end -->"
ROWS = 20
HERE = Path(__file__).resolve()

KINDS = {
    "another opcode": r" (subtract|divide|multiply|maximum|add)\(",
    "operands swapped": r" (?:subtract|divide|select)\((%?[\w.-]+, )(%?[\w.-]+)\)",
    "another comparison": r"direction=(LT|GT|EQ|NE|LE|GE)",
    "another constant": r" f32\[\] constant\((-?[0-9][0-9.e+-]*)\)",
    "a slice moved": r"slice=\{\[(\d+):(\d+)\]",
}
OTHER = {
    "subtract": "add",
    "divide": "multiply",
    "multiply": "divide",
    "maximum": "minimum",
    "add": "subtract",
}
TURNED = {"LT": "GT", "GT": "LT", "EQ": "NE", "NE": "EQ", "LE": "GE", "GE": "LE"}

OVERFLOW = """HloModule overflow
ENTRY e {
  x = f32[64] parameter(0)
  c = f32[] constant(3000)
  cs = f32[64] broadcast(c), dimensions={}
  y = f32[64] multiply(x, cs)
  h = f16[64] convert(y)
  s = f16[64] multiply(h, h)
  b = f32[64] convert(s)
  ROOT r = f32[64] tanh(b)
}
"""


def changed(kind: str, found: re.Match[str]) -> str | None:
    """What stands in place of a match."""
    whole = found.group()
    match kind:
        case "another opcode":
            return whole.replace(found[1], OTHER[found[1]])
        case "operands swapped":
            first, second = found[1].removesuffix(", "), found[2]
            return None if first == second else whole.replace(f"{first}, {second}", f"{second}, {first}")
        case "another comparison":
            return whole.replace(found[1], TURNED[found[1]])
        case "another constant":
            return whole.replace(found[1], str(float(found[1]) * 1.5 + 0.25))
        case _:
            low, high = int(found[1]), int(found[2])
            return whole.replace(f"[{low}:{high}", f"[{low - 1}:{high - 1}") if low > 0 else None


def plant(text: str, kind: str, rng: random.Random) -> tuple[str, str] | None:
    """The text with a fault, and the name of the instruction; None where there is no place for it."""
    places = list(re.finditer(KINDS[kind], text))
    rng.shuffle(places)
    for found in places:
        new = changed(kind, found)
        if new is None:
            continue
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        name = re.match(r"\s*(?:ROOT )?%?([\w.-]+) =", line)
        made = text[: found.start()] + new + text[found.end() :]
        try:
            hlorun.parse(made).verify()
        except hlorun.HloError:
            continue
        if name:
            return made, name[1]
    return None


@dataclass(frozen=True)
class Subject:
    """A right module, the text a fault goes into, and inputs."""

    name: str
    right: str
    text: str
    inputs: list[Any]


def programs() -> Iterator[Subject]:
    """Stored programs, before and after XLA:CPU."""
    for suite in store.suites():
        for p in store.read(suite):
            if {"lowered", "compiled"} <= p.texts.keys():
                yield Subject(f"{suite}/{p.name}", p.texts["lowered"], p.texts["compiled"], p.inputs)


def dump(number: str) -> Subject:
    """A dump, to be held against itself."""
    (path,) = (HERE.parents[2] / "data" / "dumps").glob(f"{number}_*")
    module = hlorun.load(path)
    return Subject(f"dump {number}", str(module), str(module), hlorun.make_inputs(module))


def judged(subject: Subject, kind: str, where: str, text: str) -> str | None:
    """A row, or None where the fault changes nothing."""
    found = hlorun.bisect(hlorun.parse(text), *subject.inputs, against=hlorun.parse(subject.right))
    assert found.comparison is not None
    verdict = found.comparison.verdict
    if verdict == "equal":
        return None
    if verdict == "rounding":
        return f"| {subject.name} | {kind} | rounding | | |"
    wrong = hlorun.parse(text)
    said = found.culprit or "none"
    how = "the one" if said == where else _lies(wrong, where, said)
    size = f"{found.module.instruction_count}" if found.module is not None else ""
    saved = ", with inputs" if found.inputs else ""
    return f"| {subject.name} | {kind} at `{where}` | different | `{said}`: {how} | {size}{saved} |"


def _lies(module: hlorun.HloModule, where: str, said: str) -> str:
    """Where the instruction that was named is, as seen from the one at fault."""
    if said not in module:
        return "not found"
    right, other = module[where], module[said]
    if right.computation in other.called_computations:
        return "what calls it"
    if right.computation == other.computation:
        return "in its computation"
    return "elsewhere"


def special() -> Iterator[str]:
    """Rows of faults that other commands find: a dropped all-reduce, and an overflow in f16."""
    dropped = PARTS.replace("tanh(%g)", "tanh(%d)")
    devices = hlorun.compare_devices(hlorun.parse(WHOLE), hlorun.parse(dropped))
    name = devices.suspect.name if devices.suspect is not None else "none"
    yield f"| 4 partitions | an all-reduce dropped before `t` | {devices.verdict} | `{name}`: {devices.reason} | |"
    module = hlorun.parse(OVERFLOW)

    def overflows(candidate: hlorun.HloModule) -> bool:
        return any(
            i.shape.is_array and i.shape.element_type == "f16" for i in candidate.instructions
        ) and any(o.kind == "Inf" for o in hlorun.find_nan(candidate, timeout=5).origins)

    origin = hlorun.find_nan(module).origins[0]
    small = hlorun.reduce(module, overflows)
    yield f"| f16 | a product that overflows at `s` | {origin.kind} | `{origin.place.name}`: the one | {small.after} |"


def rows(rng: random.Random) -> Iterator[str]:
    """All rows, each fault with other numbers of the random stream."""
    yield from special()
    found = list(programs())
    rng.shuffle(found)
    planted = 2
    for subject in [dump("001")] * 2 + [dump("003")] * 2 + found:
        kind = list(KINDS)[planted % len(KINDS)]
        if planted == ROWS - 2:
            break
        made = plant(subject.text, kind, rng)
        if made is None or made[0] == subject.right:
            continue
        try:
            row = judged(subject, kind, made[1], made[0])
        except hlorun.HloError:
            continue
        if row is not None:
            planted += 1
            yield row
    plain = 0
    for subject in found:
        if plain < 2 and (row := judged(subject, "nothing: other roundings", "", subject.text)) is not None:
            plain += 1
            yield row


def main() -> None:
    """Print the table, or write it."""
    lines = ["| module | planted | verdict | named | instructions of the part |", "|---|---|---|---|---|"]
    for row in rows(random.Random(0)):
        lines.append(row)
        print(row, flush=True)
    if "--write" in sys.argv:
        page = HERE.parents[3] / "docs" / "find.md"
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
