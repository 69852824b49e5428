"""Modules and commands for the tests of the tools that find faults."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from streams import Stream

LOOP = """HloModule loop

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  three = f32[] constant(3)
  threes = f32[4] broadcast(three), dimensions={}
  low = f32[4] subtract(x, threes)
  root = f32[4] log(low), metadata={op_name="jit(f)/log" source_file="model.py" source_line=58}
  ROOT r = (s32[], f32[4]) tuple(next, root)
}

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(3)
  ROOT r = pred[] compare(i, limit), direction=LT
}

ENTRY e {
  p = f32[4] parameter(0)
  zero = s32[] constant(0)
  state = (s32[], f32[4]) tuple(zero, p)
  w = (s32[], f32[4]) while(state), condition=condition, body=body
  ROOT u = f32[4] get-tuple-element(w), index=1
}
"""

NET = """HloModule net

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  h = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,16] tanh(h)
  zero = f32[] constant(0)
  n = f32[8] reduce(t, zero), dimensions={1}, to_apply=add
  m = f32[8,16] broadcast(n), dimensions={0}
  d = f32[8,16] subtract(t, m)
  scale = f32[] constant(0.5)
  s = f32[8,16] broadcast(scale), dimensions={}
  o = f32[8,16] multiply(d, s)
  ROOT r = (f32[8,16], f32[8]) tuple(o, n)
}
"""

WHOLE = """HloModule whole
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
ENTRY %main {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[16,4]{1,0} parameter(1)
  %d = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="dot"}
  %t = f32[8,4]{1,0} tanh(%d), metadata={op_name="tanh"}
  %z = f32[] constant(0)
  %r = f32[8]{0} reduce(%t, %z), dimensions={1}, to_apply=%add, metadata={op_name="sum"}
  ROOT %o = (f32[8,4]{1,0}, f32[8]{0}) tuple(%t, %r)
}
"""

PARTS = """HloModule parts, num_partitions=4
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
ENTRY %main {
  %a = f32[4,8]{1,0} parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}
  %b = f32[8,4]{1,0} parameter(1), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  %d = f32[4,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="dot"}
  %g = f32[4,4]{1,0} all-reduce(%d), replica_groups={{0,2},{1,3}}, channel_id=1, use_global_device_ids=true, to_apply=%add, metadata={op_name="dot"}
  %t = f32[4,4]{1,0} tanh(%g), metadata={op_name="tanh"}
  %z = f32[] constant(0)
  %r = f32[4]{0} reduce(%t, %z), dimensions={1}, to_apply=%add, metadata={op_name="sum"}
  ROOT %o = (f32[4,4]{1,0}, f32[4]{0}) tuple(%t, %r)
}
"""


def inputs() -> list[np.ndarray]:
    """What `NET` takes."""
    stream = Stream("find")
    return [stream.normal(dims) for dims in ((8, 16), (16, 16))]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run hlorun in a shell of its own."""
    return subprocess.run(
        [sys.executable, "-m", "hlorun", *words], capture_output=True, text=True, check=False
    )
