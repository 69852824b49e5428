"""Machine code of loops: what the environment says, and what ends it."""

import os
import subprocess
import sys

import pytest

import hlorun

COUNT = """HloModule count
condition {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(LIMIT)
  ROOT c = pred[] compare(i, n), direction=NE
}
body {
  p = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = s32[] get-tuple-element(p), index=1
  step = s32[] constant(STEP)
  next = s32[] add(i, step)
  k = s32[] constant(1664525)
  x = s32[] multiply(s, k)
  y = s32[] add(x, i)
  ROOT t = (s32[], s32[]) tuple(next, y)
}
ENTRY main {
  start = s32[] parameter(0)
  t = (s32[], s32[]) tuple(start, start)
  w = (s32[], s32[]) while(t), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}
"""

RUN = """
import sys, numpy as np, hlorun
if "deny" in sys.argv:
    import ctypes
    # From here on no memory may become executable.
    if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
        print("skip")
        raise SystemExit
print(int(hlorun.compile(hlorun.parse(sys.stdin.read()))(np.int32(0))))
"""


def counted(limit: int, step: int = 1) -> str:
    """A loop that counts to a limit."""
    return COUNT.replace("LIMIT", str(limit)).replace("STEP", str(step))


def run(*arguments: str, jit: str | None = None) -> str:
    """What another process computes."""
    environment = {k: v for k, v in os.environ.items() if k != "HLORUN_JIT"}
    if jit is not None:
        environment["HLORUN_JIT"] = jit
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        input=counted(500_000),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_environment_decides_and_results_agree() -> None:
    assert len({run(), run(jit="0"), run(jit="always")}) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a call of Linux")
def test_without_memory_for_code_loops_are_interpreted() -> None:
    denied = run("deny", jit="always")
    if denied == "skip":
        pytest.skip("the system cannot deny it")
    assert denied == run(jit="0")


def test_a_time_limit_ends_machine_code() -> None:
    endless = hlorun.compile(hlorun.parse(counted(1, step=2)))
    with pytest.raises(hlorun.HloTimeoutError):
        endless.run({"start": 0}, timeout=0.5)


def test_it_can_be_switched_off() -> None:
    module = hlorun.parse(counted(100_000))
    fast, slow = hlorun.compile(module), hlorun.compile(module, disable=["machine-code"])
    assert fast(0) == slow(0)
