"""Hold protos against jaxlib's: `python tests/python/tools/proto_agreement.py [COUNT] [SEED]`.

Of each stored program: hlorun reads jaxlib's proto and prints jaxlib's text, and jaxlib reads hlorun's proto and
prints what it prints of its own. Two things are left out, as no proto has them or jaxlib itself makes them anew: the
header's allow_spmd_sharding_propagation and, of protos that jaxlib reads, the numbers of stack frames and the order
of computations. Prints both readers' times. Exit 1 when anything differs. Needs jaxlib.
"""

from __future__ import annotations

import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "programs"))

import store
from jaxlib import _hlo

import hlorun

PROPAGATION = re.compile(r", allow_spmd_sharding_propagation_to_(parameters|output)=\{[a-z,]*\}")


def options(*, metadata: bool) -> Any:
    """jaxlib's print options with every value of constants."""
    made = _hlo.HloPrintOptions()
    made.print_large_constants = True
    made.print_metadata = metadata
    return made


def blocks(text: str) -> list[str]:
    """Header and computations, in any order."""
    return sorted(text.split("\n\n"))


def seconds(read: Callable[[], object]) -> float:
    """The best of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    """Exit status."""
    count, seed = (int(word) for word in [*sys.argv[1:], "400", "0"][:2])
    texts = [
        (f"{suite}/{program.name}/{form}", program.texts[form])
        for suite in store.suites()
        for program in store.read(suite)
        for form in ("lowered", "compiled")
        if form in program.texts
    ]
    random.Random(seed).shuffle(texts)
    wrong = 0
    faster = []
    for name, text in texts[:count]:
        theirs = _hlo.hlo_module_from_text(text)
        proto = theirs.as_serialized_hlo_module_proto()
        reads = hlorun.parse(proto).to_string() == PROPAGATION.sub(
            "", theirs.to_string(options(metadata=True))
        )
        again, back = (
            _hlo.HloModule.from_serialized_hlo_module_proto(one).to_string(options(metadata=False))
            for one in (proto, hlorun.parse(text).to_proto())
        )
        if not reads or blocks(again) != blocks(back):
            wrong += 1
            print(f"{name}: {'jaxlib prints hlorun' if reads else 'hlorun prints jaxlib'}'s proto otherwise")
        slow = seconds(lambda p=proto: _hlo.HloModule.from_serialized_hlo_module_proto(p))
        faster.append(slow / seconds(lambda p=proto: hlorun.parse(p)))
    print(
        f"{len(texts[:count])} modules, {wrong} differ; hlorun reads a proto {statistics.median(faster):.1f}"
    )
    print(f"times as fast as jaxlib in the median, {min(faster):.1f} to {max(faster):.1f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
