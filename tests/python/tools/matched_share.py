"""Measure the share of an optimized module's values that `compare` finds again in its source.

`python tests/python/tools/matched_share.py [COUNT [SEED]]` compares stored programs as they were lowered with what
XLA:CPU made of them. Values are the outputs of fusions that ran, with more than one element. A match holds where
it also holds on inputs it was not made on.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))

import numpy as np
import store

import hlorun
from hlorun.find.deadline import Deadline
from hlorun.find.matching import CLOSE, NEAR, pairs_of
from hlorun.find.sides import Side, alike, others_of

SECONDS = 60.0
"""The longest that one run of a program may take."""


def measure(program: store.Stored, seed: int, total: Counter[str]) -> None:
    """Add one program's counts."""
    lowered, compiled = (hlorun.parse(program.texts[form]) for form in ("lowered", "compiled"))
    a, b = (Side(module, list(program.inputs), Deadline(SECONDS)) for module in (lowered, compiled))
    pairs = {pair.b: pair for pair in pairs_of(a, b, False)}
    again = others_of(list(program.inputs), seed)
    c, d = (Side(module, again, Deadline(SECONDS)) for module in (lowered, compiled))
    close = CLOSE if c.is_exact and d.is_exact else NEAR
    for fusion in compiled.find(opcode="fusion"):
        if not fusion.shape.is_array or fusion.shape.size < 2:
            continue
        total["all"] += 1
        if fusion not in b.kept.values:
            total["never ran"] += 1
            continue
        pair = pairs.get(fusion)
        total["none" if pair is None else pair.by] += 1
        if pair is None or not pair.is_same:
            continue
        ours, theirs = c.prints_of(pair.a), d.prints_of(fusion)
        if not theirs or (not ours and pair.a.opcode != "constant"):
            continue
        total["held again"] += 1
        holds = pair.a.opcode == "constant" or alike(np.array(ours), theirs[-1], 4 * close).any()
        total["held"] += int(holds)
        if not holds:
            print(f"{program.name}: {fusion.name} and {pair.a.name} differ on other inputs")


def main() -> None:
    """Print the counts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    programs = [p for s in store.suites() for p in store.read(s) if {"lowered", "compiled"} <= p.texts.keys()]
    random.Random(seed).shuffle(programs)
    total = Counter[str]()
    for program in programs[:count]:
        try:
            measure(program, seed + 1, total)
        except hlorun.HloError as error:
            print(f"{program.name}: {error}")
    ran = total["all"] - total["never ran"]
    same = ran - total["none"] - total["factor"] - total["reciprocal"]
    print(f"{ran} fusions ran, {total['never ran']} did not; same value {same / ran:.1%}", end=", ")
    print(f"with factors and reciprocals {1 - total['none'] / ran:.1%}")
    print(f"{total['held']} of {total['held again']} matches hold on other inputs; {dict(total)}")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
