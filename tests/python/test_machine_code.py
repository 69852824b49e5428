"""Machine code of loops: what the environment says, and what ends it."""

import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import hlorun
from streams import Stream

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

MOVES = """HloModule moves
body {
  p = (s32[], f32[SHAPE], f32[OUT]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[SHAPE] get-tuple-element(p), index=1
  y = f32[OUT] get-tuple-element(p), index=2
  one = s32[] constant(1)
  v0 = f32[WINDOW] dynamic-slice(x, STARTS), dynamic_slice_sizes={WINDOW}
LINES
  z = f32[OUT] add(y, LAST)
  u = f32[WINDOW] negate(v0)
  changed = f32[SHAPE] dynamic-update-slice(x, u, STARTS)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[SHAPE], f32[OUT]) tuple(j, changed, z)
}
condition {
  p = (s32[], f32[SHAPE], f32[OUT]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2000)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[SHAPE] parameter(0)
  y = f32[OUT] parameter(1)
  s = s32[] constant(-1)
  t = (s32[], f32[SHAPE], f32[OUT]) tuple(s, x, y)
  ROOT w = (s32[], f32[SHAPE], f32[OUT]) while(t), condition=condition, body=body
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


ARRAYS = """
import sys, numpy as np, hlorun, random_array_loops
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    made = random_array_loops.made(seed, trips=9)
    module, inputs = hlorun.parse(made.text), made.inputs(seed)
    wanted = hlorun.compile(module, disable=["machine-code"])(*inputs)
    for k, (a, b) in enumerate(zip(hlorun.compile(module)(*inputs), wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind in "iub":
            same = (a == b).all()
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            numbers = ~np.isnan(b)
            same = np.array_equal(a, b, equal_nan=True) and (np.signbit(a) == np.signbit(b))[numbers].all()
        if not same:
            print(f"seed {seed}, result {k}: {a} instead of {b}")
"""


@pytest.mark.parametrize("part", range(4))
def test_loops_over_arrays_are_the_same_as_interpreted(part: int) -> None:
    """Blocks of elements, single ones behind them, and what puts one together of the other."""
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS, str(part * 100), str(part * 100 + 100)],
        env={**os.environ, "HLORUN_JIT": "always"},
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stdout


def dims(sizes: list[int]) -> str:
    return ",".join(map(str, sizes))


def moves(seed: int) -> tuple[str, list[int], list[int]]:
    """A loop that brings windows at computed places into another form; shapes of its two arrays."""
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 4, 5, 8, 24]) for _ in range(rng.randint(1, 3))]
    window = [rng.randint(1, size) for size in shape]
    own = list(window)
    lines: list[str] = []
    for k in range(rng.randint(1, 3)):
        what = rng.choice(["broadcast", "broadcast", "transpose", "reverse"])
        if what == "broadcast":
            kept = sorted(rng.sample(range(len(own) + 1), len(own)))
            wide = [rng.choice([2, 3, 7, 30])] * (len(own) + 1)
            for to, size in zip(kept, own, strict=True):
                wide[to] = size
            if math.prod(wide) > 2000:
                continue
            own, attribute = wide, f"dimensions={{{dims(kept)}}}"
        elif what == "transpose":
            order = rng.sample(range(len(own)), len(own))
            own, attribute = [own[at] for at in order], f"dimensions={{{dims(order)}}}"
        else:
            attribute = f"dimensions={{{rng.randrange(len(own))}}}"
        before = lines[-1].split()[0] if lines else "v0"
        lines.append(f"  v{k + 1} = f32[{dims(own)}] {what}({before}), {attribute}")
    text = MOVES.replace("SHAPE", dims(shape)).replace("OUT", dims(own)).replace("WINDOW", dims(window))
    text = text.replace("STARTS", ", ".join(rng.choice(["i", "one"]) for _ in shape))
    last = lines[-1].split()[0] if lines else "v0"
    return text.replace("LINES", "\n".join(lines)).replace("LAST", last), shape, own


@pytest.mark.parametrize("part", range(4))
def test_what_calls_read_in_the_scratch_is_stored_before(part: int) -> None:
    for seed in range(part * 50, part * 50 + 50):
        text, *shapes = moves(seed)
        inputs = [Stream("moves", seed, k).normal(shape) for k, shape in enumerate(shapes)]
        module = hlorun.parse(text)
        wanted = hlorun.compile(module, disable=["scalar-bytecode"])(*inputs)
        for got, want in zip(hlorun.compile(module)(*inputs), wanted, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
