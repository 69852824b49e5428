"""Whether an installed wheel works: `python tools/smoke.py`, away from the sources or in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import hlorun

DUMP = Path(__file__).parents[1] / "tests" / "data" / "dumps" / "001_ff6c88b06f55b1d5.txt.zst"
MODULE = """HloModule smoke
cond { s = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT more = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1 one = s32[] constant(1) next = s32[] add(i, one)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[64,64]) tuple(next, y) }
ENTRY main { x = f32[64,64] parameter(0) zero = s32[] constant(0)
  start = (s32[], f32[64,64]) tuple(zero, x)
  end = (s32[], f32[64,64]) while(start), condition=cond, body=body
  ROOT y = f32[64,64] get-tuple-element(end), index=1 }
"""


def main() -> None:
    """Run products in a loop, a random module for each of some seeds, and a dump by the command line."""
    x = np.eye(64, dtype=np.float32)[::-1].copy()
    executable = hlorun.compile(hlorun.parse(MODULE), check=True)
    np.testing.assert_array_equal(executable(x), np.eye(64, dtype=np.float32))
    ran = 0
    for seed in range(20):
        module = hlorun.smith(seed)
        try:
            hlorun.compile(module, check=True)(*hlorun.make_inputs(module))
        except hlorun.HloUnsupportedError:
            # Legal, and not for running, is what a random module may be.
            continue
        ran += 1
    if ran < 10:
        raise SystemExit(f"only {ran} of 20 random modules run")
    subprocess.run([sys.executable, "-m", "hlorun", "run", str(DUMP)], check=True)
    print(f"hlorun {hlorun.__version__} works on {sys.version}")


if __name__ == "__main__":
    main()
