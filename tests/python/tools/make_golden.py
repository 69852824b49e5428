"""Make tests/data/golden from XLA:CPU.

    python tests/python/tools/make_golden.py ORACLE DUMP...

ORACLE is a folder with `plain_hlo.plain_hlo(text, replicas)`, which rewrites GPU library calls into
plain HLO, and `xla_cpu.compile_hlo` / `xla_cpu.run`, which run that on XLA:CPU. Needs jax.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, sys.argv[1])

import jaxlib
import plain_hlo
import xla_cpu

import golden
import hlorun
from hlorun._inputs import random_inputs

for name in sys.argv[2:]:
    module = hlorun.load(name)
    executable, _ = xla_cpu.compile_hlo(plain_hlo.plain_hlo(module.source.decode(), replicas=1), 1)
    results = {seed: xla_cpu.run(executable, random_inputs(module, seed)) for seed in (0, 1, 7)}
    golden.save(Path(name).name[:3], f"XLA:CPU, jaxlib {jaxlib.__version__}", results)
