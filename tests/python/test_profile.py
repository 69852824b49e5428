"""Times of steps: `Executable.profile` and `hlorun run --profile`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import hlorun
from conftest import dump_path
from test_cli import hlorun as command
from test_observer import LOOP


def test_steps_lie_inside_their_loop() -> None:
    module = hlorun.parse(LOOP)
    value, events = hlorun.compile(module).profile(np.ones(2, np.float32))
    assert value.tolist() == [8, 8]
    (loop,) = [event for event in events if event[1] == "while"]
    assert loop[0] == module["loop"]
    inside = [event for event in events if event[0].computation != module.entry_computation]
    assert len(inside) >= 7
    for _, _, device, start, duration in inside:
        assert device == 0 and loop[3] <= start and start + duration <= loop[3] + loop[4]


def test_a_chrome_trace(tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    report = json.loads(command("run", dump_path("001"), "--profile", out, "--json").stdout)
    events = json.loads(out.read_text())["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    assert {"name", "ts", "dur", "pid", "tid", "cat"} <= set(steps[0])
    assert any(event["name"] == "cublas-gemm.3" and event["cat"] == "matrix product" for event in steps)
    assert report["slowest_steps"][0]["seconds"] >= report["slowest_steps"][-1]["seconds"]
    command("run", dump_path("001"), "--profile", out, "--replicas", "2", status=1)
