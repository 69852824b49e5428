"""Runs end when their time is up or a signal comes, wherever they are."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from processors import runnable
from test_cli import hlorun as command
from test_replicas import module
from test_run import ENDLESS

SOON = 20.0
"""Seconds until which a run has to end, also on a machine with better things to do."""

LESS = (
    "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT }"
)
SUM = "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
MIXED = (
    "mixed { a = f32[] parameter(0)\n b = f32[] parameter(1)\n h = f32[] constant(0.5)\n"
    " c = f32[] multiply(a, h)\n ROOT d = f32[] add(c, b) }"
)


def chain(links: int) -> str:
    """Sorts in a straight line, each too short to be ended alone."""
    lines = ["x0 = f32[1000000] parameter(0)"]
    for k in range(links):
        lines.append(f"y{k} = f32[1000000] sort(x{k}), dimensions={{0}}, to_apply=less")
        lines.append(f"x{k + 1} = f32[1000000] reverse(y{k}), dimensions={{0}}")
    return "\n".join(lines).replace(f"x{links} =", f"ROOT x{links} =")


LONG = {
    "straight line": (LESS, chain(200), (1_000_000,)),
    "sort": (
        LESS,
        "p = f32[60000000] parameter(0)\nROOT r = f32[60000000] sort(p), dimensions={0}, to_apply=less",
        (60_000_000,),
    ),
    "product": (
        "",
        "p = f32[7000,7000] parameter(0)\n"
        "ROOT r = f32[7000,7000] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        (7000, 7000),
    ),
    "convolution": (
        "",
        "p = f32[64,112,112,64] parameter(0)\nc = f32[] constant(1)\n"
        "k = f32[5,5,64,256] broadcast(c), dimensions={}\n"
        "ROOT r = f32[64,112,112,256] convolution(p, k), window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f",
        (64, 112, 112, 64),
    ),
    # Nothing of it is stored, so that memory does not limit it.
    "sum": (
        SUM,
        "p = f32[1] parameter(0)\ni = f32[1000000000000] iota(), iota_dimension=0\n"
        "z = f32[] constant(0)\nROOT r = f32[] reduce(i, z), dimensions={0}, to_apply=sum",
        (1,),
    ),
    "sums of columns": (
        SUM,
        "p = f32[4] parameter(0)\nb = f32[1000000000000,4] broadcast(p), dimensions={1}\n"
        "z = f32[] constant(0)\nROOT r = f32[4] reduce(b, z), dimensions={0}, to_apply=sum",
        (4,),
    ),
    # No window of such a reducer follows from its neighbour.
    "window": (
        MIXED,
        "p = f32[3000,3000] parameter(0)\ni = f32[] constant(0)\n"
        "ROOT r = f32[2960,2960] reduce-window(p, i), window={size=41x41 stride=1x1}, to_apply=mixed",
        (3000, 3000),
    ),
}


def parse(name: str) -> tuple[hlorun.HloModule, Any]:
    """A module of a few seconds at least, and its argument."""
    called, body, dims = LONG[name]
    value = np.full(dims, 0.5, np.float32)
    if name in ("sort", "straight line"):
        value = np.sin(np.arange(dims[0], dtype=np.float32))
    return hlorun.parse(f"HloModule long\n{called}\nENTRY e {{\n{body}\n}}"), value


def took(run: Callable[[], Any], error: type[BaseException]) -> float:
    start = time.monotonic()
    with pytest.raises(error):
        run()
    return time.monotonic() - start


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_a_long_step_ends_in_time(name: str, threads: int) -> None:
    """Also within one step, and on one thread."""
    is_portable = os.environ.get("HLORUN_ISA", runnable("HLORUN_ISA")[-1]) == "portable"
    if is_portable and name == "product" and threads == 1:
        pytest.skip("such a product is one call of a library")
    made, value = parse(name)
    executable = hlorun.compile(made, threads=threads)
    assert took(lambda: executable(value, timeout=0.05), hlorun.HloTimeoutError) < SOON


def test_what_was_ended_runs_again() -> None:
    text = f"HloModule m\n{LESS}\nENTRY e {{\n{chain(20)}\n}}"
    executable = hlorun.compile(hlorun.parse(text))
    value = np.arange(1_000_000, dtype=np.float32)
    took(lambda: executable(value, timeout=0.02), hlorun.HloTimeoutError)
    assert np.array_equal(executable(value, timeout=600), value[::-1])


def test_the_error_says_how_long_it_had() -> None:
    executable = hlorun.compile(hlorun.parse(ENDLESS))
    with pytest.raises(hlorun.HloTimeoutError, match=r"timeout of 0\.1 s") as caught:
        executable.run({"start": 1}, timeout=0.1)
    assert caught.value.timeout == 0.1
    assert isinstance(caught.value, (hlorun.HloExecutionError, TimeoutError))
    with pytest.raises(hlorun.HloTimeoutError):
        hlorun.run(hlorun.parse(ENDLESS), 1, timeout=0)


def test_a_profile_and_a_single_step_end_in_time() -> None:
    endless = hlorun.compile(hlorun.parse(ENDLESS))
    with pytest.raises(hlorun.HloTimeoutError):
        endless.profile(1, timeout=0.05)
    single = hlorun.compile(module("p = s32[1] parameter(0)\n  ROOT n = s32[1] negate(p)"))
    with pytest.raises(hlorun.HloTimeoutError):
        single(np.ones(1, np.int32), timeout=0)


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_a_timeout_is_a_time(timeout: float) -> None:
    executable = hlorun.compile(module("ROOT p = s32[1] parameter(0)"))
    with pytest.raises(ValueError, match="at least 0"):
        executable(np.ones(1, np.int32), timeout=timeout)
    assert executable(np.ones(1, np.int32), timeout=float("inf")) == 1


FOREVER = """HloModule forever
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
always { s = f32[10] parameter(0)
  ROOT t = pred[] constant(true) }
turn { s = f32[10] parameter(0)
  ROOT r = f32[10] all-reduce(s), replica_groups={}, to_apply=add }
ENTRY e { p = f32[10] parameter(0)
  ROOT w = f32[10] while(p), condition=always, body=turn }
"""


@pytest.mark.parametrize("text", [FOREVER, f"HloModule m\n{LESS}\nENTRY e {{\n{chain(200)}\n}}"])
def test_all_devices_end(text: str) -> None:
    """Those that meet in a loop, and those that go side by side."""
    executable = hlorun.compile(hlorun.parse(text), replicas=3)
    count = 10 if "while" in text else 1_000_000
    lists = [[np.arange(count, dtype=np.float32)]] * 3
    assert took(lambda: executable.run_replicas(lists, timeout=0.1), hlorun.HloTimeoutError) < SOON


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_signal_ends_straight_lines(replicas: int) -> None:
    made, value = parse("straight line")
    executable = hlorun.compile(made, replicas=replicas)
    # A shell that starts this in the background lets it ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    try:
        timer.start()
        assert took(lambda: executable.run_replicas([[value]] * replicas), KeyboardInterrupt) < SOON
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "endless.txt"
    path.write_text(ENDLESS)
    assert "timeout of 0.2 s" in command("run", path, "--timeout", "0.2", status=1).stderr
