"""Make the goldens again: `python tests/python/ops/bless.py [FAMILY…]`. Needs jaxlib.

Every case runs on XLA:CPU. One it refuses gets its golden from the case's NumPy reference, marked so, with the
reason; one with neither is an error. Prints per family: cases, refused, bytes; and, with `--check`, where XLA:CPU and
the reference disagree by more than the case's tolerance.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cases
import goldens
import numpy as np
import oracle


def from_reference(case: cases.Case) -> list[cases.Array]:
    """The reference's results, as they would come from XLA."""
    assert case.reference is not None
    with np.errstate(all="ignore"):
        return cases.flatten(case.reference(*case.inputs))


def bless(family: str, xla: oracle.Oracle, check: bool) -> int:
    """Write one family's goldens. Returns how many cases have no result at all."""
    found: dict[str, goldens.Golden] = {}
    refused: Counter[str] = Counter()
    lost = 0
    for case in cases.family(family):
        if check and (case.prefer_reference or case.text != (case.oracle_text or case.text)):
            try:
                xla.parse(case.text)
            except oracle.Refused as error:
                print(f"  {family}/{case.name}: jaxlib does not read the text: {error}")
        reason = "not carried by XLA:CPU's front door" if case.prefer_reference else None
        outputs = None
        if not case.prefer_reference:
            try:
                outputs = xla.run(case.oracle_text or case.text, case.inputs)
            except oracle.Refused as error:
                reason = str(error)
                refused[f"{case.opcode}: {reason[:120]}"] += 1
                if "--names" in sys.argv:
                    print(f"  refused {family}/{case.name}: {reason}")
        source = "xla"
        if outputs is None:
            if case.reference is None:
                print(f"  {family}/{case.name}: refused and no reference: {reason}")
                lost += 1
                continue
            outputs, source = from_reference(case), "reference"
        elif check and case.reference is not None:
            for got, want in zip(from_reference(case), outputs, strict=True):
                wrong = cases.difference(got, want, case.tolerance)
                if wrong:
                    print(f"  {family}/{case.name}: reference disagrees with XLA:CPU: {wrong}")
        found[case.name] = goldens.Golden(case.digest(), source, outputs, reason)
    size = goldens.write(family, found)
    print(f"{family}: {len(found)} cases, {sum(refused.values())} refused by XLA:CPU, {size} bytes")
    for why, count in sorted(refused.items()):
        print(f"  refused {count}: {why}")
    return lost


def main() -> int:
    """Bless the families named on the command line, or all."""
    words = [w for w in sys.argv[1:] if not w.startswith("-")]
    xla = oracle.Oracle()
    lost = sum(bless(name, xla, "--check" in sys.argv) for name in words or cases.family_names())
    xla.close()
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
