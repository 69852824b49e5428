"""hlorun and jaxlib agree on which damaged texts are wrong, but for differences that are meant."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mutate_vs_jaxlib as mutate

# Why hlorun accepts or refuses otherwise than jaxlib, by the number of the text.
HEADER = (
    "entry_computation_layout contradicts the entry computation: XLA's own verifier refuses that, but jaxlib's way to "
    "the compiler leaves the header behind"
)
ORDER = "a layout of the header that orders other dimensions than the array has: jaxlib does not look at it"
NAME = "a name of digits alone: tools that number their instructions write it, and it is not ambiguous"
ROW = "a row of the stack-frame tables with a negative number: nothing could refer to it"
MEANT: dict[int, str] = {
    **dict.fromkeys((70, 76, 105, 114, 252, 263), HEADER),
    **dict.fromkeys((0, 92, 278, 279), ORDER),
    **dict.fromkeys((129, 136), NAME),
    **dict.fromkeys((102, 134), ROW),
    85: "an FFT of another length than its operand has, which computes nothing that is defined",
    137: "jaxlib crashes on a backend config that is no MLIR attribute; HLO gives such text no meaning",
}


def test_verdicts_agree() -> None:
    found = {int(name.partition(":")[0]): (theirs, mine) for name, _, theirs, mine in mutate.disagreements()}
    assert sorted(found) == sorted(MEANT), {n: found.get(n) for n in set(found) ^ set(MEANT)}


def test_there_are_enough_of_both_kinds() -> None:
    verdicts = [theirs == "accepted" for _, _, theirs in mutate.stored()]
    assert len(verdicts) == mutate.COUNT
    assert 40 < sum(verdicts) < mutate.COUNT - 40
