#!/usr/bin/env python3
"""Time single operations on hlorun against XLA:CPU, in turn in one process, both on all cores.

  python benches/python/vs_xla_ops.py [--only PATTERN] [--seed 0] [--cases 3] [--form {before,after}]
                                      [--seconds 0.2] [--json OUT] [--list]

Every operation (`operations`) runs at a few sizes from 10 to 10^7 elements. The seed decides sizes, element types, ranks,
the shares of the dimensions and whether they come reversed in memory: a new seed is a new benchmark. A name holds the
operation, the type and the elements. Results are compared before they are timed. Printed: medians and ratios (below 1
hlorun is faster), geometric means and worst by class, the worst ten. Needs jax.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import numpy as np
from engines import Timed, add_options, run
from operations import OPERATIONS, Operation, Setting
from operations.registry import TOLERANCES


def drawn(operation: Operation, seed: int, cases: int) -> Iterator[Timed]:
    """The operation's cases, their sizes from stripes of equal width on a logarithmic scale."""
    rng = np.random.default_rng([seed, *operation.name.encode()])
    names = [operation.dtypes[i] for i in rng.permutation(len(operation.dtypes))]
    span = np.log10(operation.most) - 1
    for i in range(cases):
        elements = int(10 ** (1 + span * (i + rng.uniform()) / cases))
        dtype = names[i % len(names)]
        stream = np.random.default_rng(rng.integers(0, 2**63))
        yield Timed(
            f"{operation.name} {dtype} {elements}",
            operation.group,
            functools.partial(lambda s, make: make(s), Setting(stream, elements, dtype), operation.make),
            max(operation.tolerance, TOLERANCES.get(dtype, 0.0)),
        )


def main() -> None:
    """Runs the operations and prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(parser, seconds=0.2)
    parser.add_argument("--cases", type=int, default=3, help="sizes of each operation")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    run([case for o in OPERATIONS for case in drawn(o, options.seed, options.cases)], options)


if __name__ == "__main__":
    main()
