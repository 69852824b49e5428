#!/usr/bin/env python3
"""Time programs of JAX and its ecosystem on hlorun against XLA:CPU, in turn in one process, both on all cores.

  python benches/python/vs_xla_models.py [--only PATTERN] [--seed 0] [--form {before,after}] [--seconds 0.6]
                                         [--json OUT] [--list]

The programs (`programs`) are nets, transformers, loops over small arrays, linear algebra, gathers and sorts, random
numbers, Fourier transforms, narrow reductions, loops over grids and sequences, images and classic algorithms. The seed decides their sizes and inputs: a new seed is a new
benchmark. `before` runs the HLO that JAX hands to XLA, `after` the HLO that XLA compiled. Results are compared before
they are timed; a program whose library is not installed is skipped with a note. Printed: medians and ratios (below 1
hlorun is faster), geometric means and worst by class, the worst ten. Needs jax.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

from engines import Timed, add_options, run

from programs import PROGRAMS, Draw


def main() -> None:
    """Runs the programs and prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_options(parser)
    options = parser.parse_args()
    cases = []
    for program in PROGRAMS:
        if program.missing():
            print(f"{program.name}: skipped, {program.needs} is not installed")
            continue
        draw = Draw(options.seed, program.name)
        cases.append(
            Timed(program.name, program.group, functools.partial(program.make, draw), program.tolerance)
        )
    run(cases, options)


if __name__ == "__main__":
    main()
