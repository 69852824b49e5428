"""Plant faults in modules and print what `bisect` says of each: `python tests/python/tools/planted_faults.py [SEED]`.

A fault is one exchange in the text of a dump, or in a stored program as XLA:CPU compiled it, which is then held
against the program as it was lowered. Two of a kind are no faults: sums in another order. Prints a Markdown table.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))

import numpy as np
import store

import hlorun

KINDS = {
    "another opcode": r" (subtract|divide|multiply|maximum|add)\(",
    "operands swapped": r" (?:subtract|divide|select)\((%[\w.-]+, )(%[\w.-]+)\)",
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


def subjects() -> Iterator[tuple[str, str, str, list[np.ndarray]]]:
    """Name, text of the right module, text to plant in, inputs."""
    for number in ("001", "003"):
        (path,) = (Path(__file__).resolve().parents[2] / "data" / "dumps").glob(f"{number}_*")
        module = hlorun.load(path)
        yield f"dump {number}", str(module), str(module), hlorun.make_inputs(module)
    for suite in store.suites():
        for program in store.read(suite):
            if {"lowered", "compiled"} <= program.texts.keys():
                yield (
                    f"{suite}/{program.name}",
                    program.texts["lowered"],
                    program.texts["compiled"],
                    program.inputs,
                )


def main() -> None:
    """Twenty rows."""
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    found = list(subjects())
    chosen = found[:2] * 3 + rng.sample(found[2:], len(found) - 2)
    print("| module | planted | verdict | suspect | part |\n|---|---|---|---|---|")
    rows = 0
    for number, (name, right, text, inputs) in enumerate(chosen):
        if rows == 20:
            return
        planted = plant(text, list(KINDS)[number % len(KINDS)], rng)
        if planted is None:
            continue
        a, b = hlorun.parse(right), hlorun.parse(planted[0])
        verdict = hlorun.compare(a, b, *inputs)
        if verdict.verdict == "equal":
            continue
        rows += 1
        kind, where = list(KINDS)[number % len(KINDS)], planted[1]
        suspect = verdict.suspect.name if verdict.suspect else "none"
        part = ""
        if verdict.verdict == "different" and verdict.suspect is not None:
            part = f"{hlorun.extract(b, verdict.suspect.name, depth=1).instruction_count} instructions"
        same = " (the one)" if suspect == where else ""
        print(f"| {name} | {kind} at {where} | {verdict.verdict} | {suspect}{same} | {part} |", flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
