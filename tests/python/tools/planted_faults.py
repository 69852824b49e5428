"""Plant twenty faults and print what is said of each: `python tests/python/tools/planted_faults.py [--write]`.

A fault is one exchange in the text of a dump, or in a stored program as XLA:CPU compiled it, which is then held
against the program as it was lowered. Some are no faults: what XLA:CPU made with other roundings. Each fault
is reduced as a compiler's would be: the module becomes smaller while the pass that makes the exchange still
changes what it means. `--write` puts the table into docs/find.md; words choose parts of it: `special`, `lstm`
(dump 004), `programs`. `share COUNT SEED` prints how often the suspect of `compare` is the one at fault.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import store

import hlorun
from find_modules import PARTS, WHOLE
from hlorun._statistics import leaves

BEGIN, END = "<!-- planted_faults.py -->", "<!-- end -->"
HEAD = ("module", "planted", "verdict", "named", "instructions of the part", "reduced")
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
    match kind:
        case "another opcode":
            new = OTHER[found[1]]
        case "operands swapped":
            first, second = found[1].removesuffix(", "), found[2]
            return None if first == second else found[0].replace(f"{first}, {second}", f"{second}, {first}")
        case "another comparison":
            new = TURNED[found[1]]
        case "another constant":
            new = str(float(found[1]) * 1.5 + 0.25)
        case _:
            low, high = int(found[1]), int(found[2])
            return found[0].replace(f"[{low}:{high}", f"[{low - 1}:{high - 1}") if low > 0 else None
    start, end = found.start(1) - found.start(), found.end(1) - found.start()
    return found[0][:start] + new + found[0][end:]


@dataclass(frozen=True)
class Fault:
    """A pass with a bug: it makes an exchange in one instruction."""

    kind: str
    where: str
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{' in a ' * bool(self.inside)}{self.inside} at `{self.where}`"

    def of(self, module: hlorun.HloModule) -> hlorun.HloModule | None:
        """What the pass makes of a module; None where it changes nothing, or nothing legal comes out."""
        text = str(module)
        line = re.search(rf"^ *(?:ROOT )?%?{re.escape(self.where)} = .*$", text, re.M)
        found = line and re.compile(KINDS[self.kind]).search(text, line.start(), line.end())
        new = changed(self.kind, found) if found else None
        if found is None or new is None:
            return None
        made = hlorun.parse(text[: found.start()] + new + text[found.end() :])
        try:
            made.verify()
        except hlorun.HloError:
            return None
        return made


def plant(module: hlorun.HloModule, kind: str, rng: random.Random, inside: str = "") -> Fault | None:
    """A fault that changes a module; None where there is no place for one.

    `inside` is the opcode that a computation is called by, for a fault in one of those.
    """
    open_ = [called for i in module.find(opcode=inside) for called in i.called_computations] if inside else []
    places = set() if inside else set(module.computations)
    while open_:
        computation = open_.pop()
        places.add(computation)
        open_ += [c for i in computation.instructions for c in i.called_computations if c not in places]
    names = [i.name for i in module.instructions if i.computation in places]
    rng.shuffle(names)
    return next(
        (fault for name in names if (fault := Fault(kind, name, inside)).of(module) is not None), None
    )


@dataclass(frozen=True)
class Subject:
    """A right module, the text a fault goes into, and inputs."""

    name: str
    right: hlorun.HloModule
    module: hlorun.HloModule
    inputs: list[Any]

    def inputs_for(self, candidate: hlorun.HloModule) -> list[Any]:
        """The inputs that a smaller module still takes, and random ones for the rest."""
        known = {
            p.name: (str(p.shape), value)
            for p, value in zip(self.module.entry_computation.parameters, self.inputs, strict=True)
        }
        shapes = {p.name: str(p.shape) for p in candidate.entry_computation.parameters}
        given = {name: value for name, (shape, value) in known.items() if shapes.get(name) == shape}
        return hlorun.make_inputs(candidate, given=given)


def programs() -> Iterator[Subject]:
    """Stored programs, before and after XLA:CPU."""
    for suite in store.suites():
        for p in store.read(suite):
            if {"lowered", "compiled"} <= p.texts.keys():
                right, module = (hlorun.parse(p.texts[stage]) for stage in ("lowered", "compiled"))
                yield Subject(f"{suite}/{p.name}", right, module, p.inputs)


def dump_file(number: str) -> Path:
    """The file of a dump."""
    (path,) = (HERE.parents[2] / "data" / "dumps").glob(f"{number}_*")
    return path


def dump(number: str) -> Subject:
    """A dump, to be held against itself."""
    module = hlorun.load(dump_file(number))
    return Subject(f"dump {number}", module, module, hlorun.make_inputs(module))


def judged(subject: Subject, fault: Fault, size: str = "") -> str | None:
    """A row, or None where the fault changes nothing; `size` is what it was reduced to, if that is known."""
    wrong = fault.of(subject.module)
    assert wrong is not None
    found = hlorun.bisect(wrong, *subject.inputs, against=subject.right)
    assert found.comparison is not None
    verdict = found.comparison.verdict
    if verdict == "equal":
        return None
    if verdict == "rounding":
        return row(subject.name, str(fault), "rounding")
    said = found.culprit or "none"
    how = "the one" if said == fault.where else _lies(wrong, fault.where, said)
    part = f"{found.module.instruction_count}" if found.module is not None else ""
    part += ", with inputs" * bool(found.inputs)
    return row(
        subject.name, str(fault), "different", f"`{said}`: {how}", part, size or reduced(subject, fault)
    )


def reduced(subject: Subject, fault: Fault) -> str:
    """Instructions before and after, of the module of which the faulty pass makes something else."""

    def differs(candidate: hlorun.HloModule) -> bool:
        if candidate is subject.module:
            return True
        wrong = fault.of(candidate) if fault.where in candidate else None
        if wrong is None:
            return False
        return (
            hlorun.compare(candidate, wrong, *subject.inputs_for(candidate), timeout=20).verdict
            == "different"
        )

    return sizes(hlorun.reduce(subject.module, differs))


def sizes(found: hlorun.Reduction) -> str:
    """Instructions before and after, in a cell."""
    return f"{found.before:,} → {found.after:,}"


def row(*cells: str) -> str:
    """A line of the table."""
    return f"| {' | '.join([*cells, *[''] * (len(HEAD) - len(cells))])} |"


def unharmed(subject: Subject) -> str | None:
    """A row for a program as XLA:CPU compiled it; None where every bit is the same."""
    verdict = hlorun.compare(subject.right, subject.module, *subject.inputs).verdict
    return None if verdict == "equal" else row(subject.name, "nothing: other roundings", verdict)


def _lies(module: hlorun.HloModule, where: str, said: str) -> str:
    """Where the instruction that was named is, as seen from the one at fault."""
    if said not in module:
        return "none"
    right, other = module[where], module[said]
    if right.computation in other.called_computations:
        return "what calls it"
    if right.computation == other.computation:
        return "in its computation"
    return "elsewhere"


def dropped() -> str:
    """An all-reduce that is not there."""

    def without(module: hlorun.HloModule) -> hlorun.HloModule:
        return hlorun.parse(re.sub(r"= (\S+) all-reduce\((%[\w.-]+)\).*", r"= \1 copy(\2)", str(module)))

    def differs(candidate: hlorun.HloModule) -> bool:
        if not candidate.find(opcode="all-reduce"):
            return False
        inputs = [hlorun.make_inputs(candidate, device) for device in range(4)]
        right, wrong = (
            hlorun.compile(module).run_replicas(inputs, timeout=20)
            for module in (candidate, without(candidate))
        )
        flat = [
            [np.asarray(leaf) for result in results for leaf in leaves(result)] for results in (right, wrong)
        ]
        return any(not np.allclose(x, y, rtol=1e-3, atol=0) for x, y in zip(*flat, strict=True))

    module = hlorun.parse(PARTS)
    devices = hlorun.compare_devices(hlorun.parse(WHOLE), without(module))
    name = devices.suspect.name if devices.suspect is not None else "none"
    said = f"`{name}`: {devices.reason}"
    small = hlorun.reduce(module, differs)
    return row("4 partitions", "an all-reduce dropped at `g`", devices.verdict, said, "", sizes(small))


def overflowing() -> str:
    """A product that f16 cannot hold."""

    def overflows(candidate: hlorun.HloModule) -> bool:
        narrow = any(i.shape.is_array and i.shape.element_type == "f16" for i in candidate.instructions)
        return narrow and any(o.kind == "Inf" for o in hlorun.find_nan(candidate, timeout=5).origins)

    module = hlorun.parse(OVERFLOW)
    origin = hlorun.find_nan(module).origins[0]
    small = sizes(hlorun.reduce(module, overflows))
    return row(
        "f16", "a product that overflows at `s`", origin.kind, f"`{origin.place.name}`: the one", "", small
    )


def special() -> Iterator[str]:
    """Faults that other commands find."""
    yield dropped()
    yield overflowing()


def lstm() -> Iterator[str]:
    """A swapped operand in one of the 326 fusions of dump 004.

    A run of it takes a while, so only the computation runs in which `diff` finds a change.
    """
    whole = hlorun.load(dump_file("004"))
    fault = plant(whole, "operands swapped", random.Random(4), "fusion")
    assert fault is not None

    def changed_part(module: hlorun.HloModule) -> tuple[hlorun.HloModule, hlorun.HloModule] | None:
        wrong = fault.of(module) if fault.where in module else None
        if wrong is None:
            return None
        (found,) = hlorun.diff(module, wrong).differences
        return hlorun.extract(module, found["name"]), hlorun.extract(wrong, found["other"])

    def differs(candidate: hlorun.HloModule) -> bool:
        parts = changed_part(candidate)
        return parts is not None and hlorun.compare(*parts, timeout=20).verdict == "different"

    parts = changed_part(whole)
    assert parts is not None
    subject = Subject("dump 004", parts[0], parts[0], hlorun.make_inputs(parts[0]))
    yield judged(subject, fault, sizes(hlorun.reduce(whole, differs))) or ""


def planted() -> Iterator[str]:
    """Faults in dumps and programs, and programs without any."""
    rng = random.Random(0)
    found = list(programs())
    rng.shuffle(found)
    count = 3
    for subject in [dump("001")] * 2 + [dump("003")] * 2 + found:
        kind = list(KINDS)[count % len(KINDS)]
        if count == ROWS - 2:
            break
        is_moved = kind == "a slice moved" and not subject.name.startswith("dump")
        fault = plant(subject.module, kind, rng, "while" if is_moved else "")
        if fault is None:
            continue
        try:
            made = judged(subject, fault)
        except hlorun.HloError:
            continue
        if made is not None:
            count += 1
            yield made
    yield from itertools.islice((made for subject in found if (made := unharmed(subject)) is not None), 2)


def share(count: int, seed: int) -> None:
    """Print how often the suspect is the one, of a fault in each of so many programs."""
    rng = random.Random(seed)
    found = list(programs())
    rng.shuffle(found)
    total: Counter[str] = Counter()
    for subject in found:
        if total.total() == count:
            break
        kind = list(KINDS)[total.total() % len(KINDS)]
        fault = plant(subject.module, kind, rng, "while" if kind == "a slice moved" else "")
        wrong = fault.of(subject.module) if fault is not None else None
        if fault is None or wrong is None:
            continue
        try:
            comparison = hlorun.compare(subject.right, wrong, *subject.inputs, timeout=60)
        except hlorun.HloError:
            continue
        if comparison.verdict != "different":
            continue
        said = comparison.suspect.name if comparison.suspect is not None else "none"
        how = "the one" if said == fault.where else _lies(wrong, fault.where, said)
        total[how] += 1
        print(f"{subject.name}: {fault}: {said}, {how}", flush=True)
    print(dict(total))


PARTS_OF_TABLE = {"special": special, "lstm": lstm, "programs": planted}


def main() -> None:
    """Print the table, or write it."""
    if sys.argv[1:2] == ["share"]:
        np.seterr(all="ignore")
        share(int(sys.argv[2]), int(sys.argv[3]))
        return
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    np.seterr(all="ignore")
    wanted = [word for word in sys.argv[1:] if word != "--write"] or list(PARTS_OF_TABLE)
    for line in itertools.chain.from_iterable(PARTS_OF_TABLE[word]() for word in wanted):
        lines.append(line)
        print(line, flush=True)
    if "--write" in sys.argv:
        page = HERE.parents[3] / "docs" / "find.md"
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


if __name__ == "__main__":
    main()
