"""Times of steps: `Executable.profile` and `hlorun run --profile`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import hlorun
from conftest import dump_path
from hlorun.report.flame import flame_svg, frames, path_of
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


NAMED = """HloModule m
ENTRY e { p = f32[4] parameter(0)
 a = f32[4] negate(p), metadata={op_name="jit(f)/layer/neg[ x=a/b ]"}
 b = f32[4] tanh(a), metadata={op_name="jit(f)/layer/<tanh>&"}
 ROOT c = f32[4] exponential(b) }
"""


def test_names_in_brackets_are_one() -> None:
    assert path_of("jit(a/b)/while/body/dot[ dims=(1/2) ]") == ["jit(a/b)", "while", "body", "dot"]
    assert path_of("") == [] and path_of("a//b)") == ["a", "b)"]


def test_a_flame_is_as_wide_as_its_time() -> None:
    a, b, c = hlorun.parse(NAMED).instructions[1:]
    events = [
        (a, "loop", 0, 0.0, 2.0),
        (b, "loop", 0, 2.0, 1.0),
        (c, "loop", 0, 3.0, 1.0),
        (c, "while", 0, 0.0, 9.0),
    ]
    whole = frames("m", events)
    assert whole.seconds == 4 and set(whole.frames) == {"jit(f)", "no op_name"}
    layer = whole.frames["jit(f)"].frames["layer"]
    assert layer.seconds == 3 and layer.frames["neg"].frames["a"].seconds == 2
    svg = flame_svg("m", events)
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    name = "{http://www.w3.org/2000/svg}"
    boxes = {
        str(group.findtext(f"{name}title")): float(str(box.get("width")))
        for group in ElementTree.fromstring(svg).iter(f"{name}g")
        if (box := group.find(f"{name}rect")) is not None
    }
    assert boxes["m: 4 s, 100.0 %"] - boxes["layer: 3 s, 75.0 %"] > 200
    assert abs(boxes["neg: 2 s, 50.0 %"] - boxes["m: 4 s, 100.0 %"] / 2) < 1
    assert "<tanh>&: 1 s, 25.0 %" in boxes


def test_a_flame_of_odd_names_is_xml() -> None:
    deep = "/".join(["a"] * 3000)
    text = f'ENTRY e {{ p = f32[2] parameter(0) ROOT a = f32[2] add(p, p), metadata={{op_name="{deep}/\\001"}} }}'
    (instruction,) = hlorun.parse(text).find(opcode="add")
    ElementTree.fromstring(flame_svg("\001", [(instruction, "fused loop", 0, 0.0, 1.0)]))


def test_a_flame_of_nothing_is_a_picture() -> None:
    ElementTree.fromstring(flame_svg("m", []))


def test_the_command_draws_a_flame(tmp_path: Path) -> None:
    out = tmp_path / "flame.svg"
    report = json.loads(command("run", dump_path("003"), "--replicas", "1", "--flame", out, "--json").stdout)
    assert report["flame"] == str(out) and report["profile"] is None
    assert report["slowest_steps"][0]["name"] in out.read_text()
    command("run", dump_path("003"), "--replicas", "1", "--flame", tmp_path / "no" / "flame.svg", status=1)
