"""Sums by source, op_name, loop, opcode and computation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun.cli.common import scaled
from hlorun.cli.screen import middles
from hlorun.report.profile import times_by
from hlorun.report.rollup import BY
from test_cli import hlorun as command

TEXT = """HloModule m

fused {
  a = f32[4,4] parameter(0)
  d = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="net/dot" source_file="net.py" source_line=3}
  ROOT s = f32[4,4] add(d, a), metadata={op_name="net/add" source_file="net.py" source_line=4}
}

body {
  t = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4,4] get-tuple-element(t), index=1
  two = s32[] constant(2)
  j = s32[] add(two, i)
  f = f32[4,4] fusion(x), kind=kOutput, calls=fused, metadata={op_name="net/add" source_file="net.py" source_line=4}
  ROOT r = (s32[], f32[4,4]) tuple(j, f)
}

condition {
  t = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(LIMIT)
  ROOT c = pred[] compare(i, n), direction=LE
}

ENTRY e {
  p = f32[4,4] parameter(0)
  zero = s32[] constant(START)
  t = (s32[], f32[4,4]) tuple(zero, p)
  loop = (s32[], f32[4,4]) while(t), condition=condition, body=body
  y = f32[4,4] get-tuple-element(loop), index=1
  ROOT e1 = f32[4,4] exponential(y), metadata={op_name="net/exp" source_file="net.py" source_line=9}
}
"""


def made(start: int = 0, limit: int = 9) -> hlorun.HloModule:
    return hlorun.parse(TEXT.replace("START", str(start)).replace("LIMIT", str(limit)))


@pytest.mark.parametrize(
    ("start", "limit", "trips"),
    [(0, 9, 5), (0, 10, 6), (1, 10, 5), (10, 9, 0), (9, 9, 1), (-(2**31), 2**31 - 1, 2**31)],
)
def test_trips_of_counted_loops(start: int, limit: int, trips: int) -> None:
    module = made(start, limit)
    assert module["loop"].trip_count == trips
    assert module["body"].runs == trips and module["fused"].runs == trips
    assert module["f"].runs == trips and module["d"].runs is None and module["loop"].runs is None


def groups(by: str) -> dict[str, hlorun.CostGroup]:
    return {group.key: group for group in hlorun.cost(made(), by=by).groups}


def test_operations_count_where_they_are() -> None:
    by_source = groups("source")
    assert by_source["net.py:3"].flops == 5 * 2 * 64 and by_source["net.py:3"].bytes_accessed == 0
    assert by_source["net.py:4"].flops == 5 * 16
    assert by_source["net.py:4"].bytes_accessed == 5 * 2 * 64
    assert by_source["net.py:9"].transcendentals == 16
    assert groups("opcode")["dot"].flops == 640 and groups("opcode")["fusion"].flops == 0
    assert groups("computation")["fused"].flops == 720
    assert groups("instruction")["f"].flops == 720 and "d" not in groups("instruction")
    by_loop = groups("loop")
    assert set(by_loop) == {"loop", "no loop"} and by_loop["loop"].flops > 720


@pytest.mark.parametrize("number", ["001", "003", "004"])
@pytest.mark.parametrize("by", BY)
def test_groups_are_the_whole(number: str, by: str, modules: dict[str, hlorun.HloModule]) -> None:
    cost = hlorun.cost(modules[number], by=by)
    for key, name in (("flops", "flops"), ("bytes_accessed", "bytes accessed")):
        assert sum(getattr(group, key) for group in cost.groups) == pytest.approx(cost.run[name])


def test_the_loops_of_loops() -> None:
    text = TEXT.replace(
        "f = f32[4,4] fusion(x), kind=kOutput, calls=fused", "f = f32[4,4] call(x), to_apply=outer"
    )
    inner = """outer {
  x = f32[4,4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4,4]) tuple(zero, x)
  inner = (s32[], f32[4,4]) while(t), condition=condition, body=turn
  ROOT y = f32[4,4] get-tuple-element(inner), index=1
}

turn {
  t = (s32[], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4,4] get-tuple-element(t), index=1
  two = s32[] constant(2)
  j = s32[] add(two, i)
  f2 = f32[4,4] fusion(x), kind=kOutput, calls=fused
  ROOT r = (s32[], f32[4,4]) tuple(j, f2)
}

"""
    text = text.replace("body {", inner + "body {").replace("START", "0").replace("LIMIT", "9")
    module = hlorun.parse(text)
    found = {group.key: group.flops for group in hlorun.cost(module, by="loop").groups}
    assert found["loop / inner"] == 25 * (2 * 64 + 16 + 1)
    assert module["f2"].runs == 25


def test_times_by_source() -> None:
    module = made()
    events = hlorun.compile(module).profile(np.ones((4, 4), np.float32))[1]
    for by in BY:
        rows = times_by(module, events, by)
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert rows == sorted(rows, key=lambda row: -row["seconds"])
    assert "loop" in {row["key"] for row in times_by(module, events, "loop")}


def report(*words: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command(*words, "--json").stdout)
    return found


def test_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT.replace("START", "0").replace("LIMIT", "9"))
    assert {row["key"] for row in report("cost", path, "--by", "loop")["groups"]} == {"loop", "no loop"}
    assert "net.py:3" in command("cost", path, "--by", "source").stdout
    traced = {row["key"]: row for row in report("trace", path, "--by", "source")["groups"]}
    assert traced["net.py:9"]["values"] == 1 and traced["net.py:9"]["times"] == 1
    assert "net.py:9" in command("trace", path, "--by", "source").stdout
    profiled = report("run", path, "--by", "source", "--profile", tmp_path / "trace.json")
    assert "net.py:9" in {row["key"] for row in profiled["groups"]} and profiled["profile"]
    assert "net.py:9" in command("run", path, "--by", "source").stdout
    live = report("memory", dump_path("003"), "--by", "opcode")
    assert live["groups"][0]["bytes"] <= live["peak"]["bytes"]
    assert {row["key"] for row in live["groups"]} > {"parameter"}
    assert "live at the peak by opcode" in command("memory", dump_path("003"), "--by", "opcode").stdout
    assert "module" in command("memory", dump_path("000"), "--by", "loop", status=1).stderr
    for words in (["cost"], ["trace"], ["run"], ["memory"]):
        assert "by is one of" in command(*words, path, "--by", "colour", status=2).stderr


def test_long_names_keep_what_tells_them_apart() -> None:
    start = "jit(train_step)/jit(main)/transformer/layers/"
    end = "/attention/query/dot_general"
    names = [f"{start}block_{number:02}_of_twelve{end}" for number in range(12)]
    cut = middles(names, 50)
    assert len(set(cut)) == 12 and all(len(name) == 50 for name in cut)
    assert all(name.startswith("jit(train") and name.endswith("dot_general") for name in cut)
    assert middles(["short", "short"], 50) == ["short", "short"]
    (alone,) = middles(
        [f"{start}dot_general[ dimension_numbers=(((1,), (0,)), ((), ())) precision=None ]"], 60
    )
    assert alone == f"{start}dot_general[…]"


@pytest.mark.parametrize(
    ("number", "text"),
    [(3.2e15, "3.2 P"), (7e18, "7 E"), (999.96e12, "1 P"), (4.95e11, "495 G"), (12, "12 ")],
)
def test_units(number: float, text: str) -> None:
    assert scaled(number) == text
