"""What would make a module need less memory: peaks worked out by hand, and the dumps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hlorun
from conftest import dump_path
from hlorun.report.schedules import depth_first, greedy
from hlorun.report.what_if import Text, operands_span
from test_cli import hlorun as command

N = 4096
"""Bytes of a value of 1024 elements."""


def test_a_donated_parameter_saves_the_result() -> None:
    module = hlorun.parse(
        "HloModule m, is_scheduled=true\nENTRY e { p = f32[1024] parameter(0)\n q = f32[1024] parameter(1)\n"
        " a = f32[1024] add(p, q)\n b = f32[1024] sine(q)\n ROOT t = (f32[1024], f32[1024]) tuple(a, b) }"
    )
    found = hlorun.memory_what_if(module)
    assert found.peak == 4 * N + 16 and found.refused == 0
    both, one, other = (change for change in found.changes if change.kind == "donate")
    assert both.saves == 2 * N and one.saves == other.saves == N
    assert [place.name for place in one.places] == ["p"] and [place.name for place in other.places] == ["q"]


def test_what_is_donated_already_is_not_tried() -> None:
    header = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
    module = hlorun.parse(header + "ENTRY e { p = f32[8] parameter(0)\n ROOT a = f32[8] sine(p) }")
    assert not [c for c in hlorun.memory_what_if(module).changes if c.kind == "donate"]


# A broadcast is live across a product of large temporaries, though it costs nothing to make again.
AGAIN = """HloModule m, is_scheduled=true
ENTRY e { s = f32[] parameter(0)
 x = f32[8] parameter(1)
 w = f32[1024] broadcast(s), dimensions={}
 y = f32[8] slice(w), slice={[0:8]}
 c = f32[2048] broadcast(s), dimensions={}
 d = f32[4096] broadcast(s), dimensions={}
 f = f32[2048] slice(d), slice={[0:2048]}
 g = f32[2048] add(c, f)
 h = f32[1024] slice(g), slice={[0:1024]}
 i = f32[1024] add(h, w)
 j = f32[8] slice(i), slice={[0:8]}
 k = f32[8] add(j, y)
 ROOT r = f32[8] add(k, x) }
"""


def test_a_value_that_waits_through_the_peak_is_computed_again() -> None:
    found = hlorun.memory_what_if(hlorun.parse(AGAIN))
    (change,) = (change for change in found.changes if change.kind == "rematerialize")
    assert [place.name for place in change.places] == ["w", "i"] and change.saves >= N
    assert change.peak == found.peak - change.saves
    assert found.refused == 0


def test_another_schedule_is_planned_as_it_would_run() -> None:
    # Both halves are made before either is summed up.
    module = hlorun.parse(
        "HloModule m, is_scheduled=true\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { p = f32[] parameter(0)\n a = f32[1024] broadcast(p), dimensions={}\n"
        " b = f32[1024] broadcast(p), dimensions={}\n x = f32[] reduce(a, p), dimensions={0}, to_apply=add\n"
        " y = f32[] reduce(b, p), dimensions={0}, to_apply=add\n ROOT z = f32[] add(x, y) }"
    )
    found = [c for c in hlorun.memory_what_if(module).changes if c.kind == "schedule"]
    assert found and all(N - 128 <= change.saves <= N for change in found)


def test_schedules_are_legal_and_keep_collectives_in_order(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["004"]
    for computation in module.computations:
        if computation.is_inner:
            continue
        collectives = [i for i in computation.instructions if i.collective is not None]
        for schedule in (depth_first, greedy):
            order = schedule(computation)
            place = {i: n for n, i in enumerate(order)}
            assert len(place) == len(order) == len(computation.instructions)
            assert all(place[o] < place[i] for i in order for o in i.operands)
            assert [i for i in order if i.collective is not None] == collectives


def test_changed_texts_compute_the_same() -> None:
    """A text that is put together again from its lines is the module."""
    module = hlorun.load(dump_path("001"))
    text = Text(module)
    same = text.with_lines({c: [i.text for i in c.instructions] for c in module.computations})
    assert hlorun.parse(same.encode()).fingerprint() == module.fingerprint()


def test_operands_end_where_their_parentheses_do() -> None:
    line = 'x = (f32[2], (s32[])) custom-call((f32[2], s32[]) a, b), custom_call_target="f(x"'
    start, end = operands_span(line, "custom-call")
    assert line[start:end] == "(f32[2], s32[]) a, b"


def test_the_command_ranks_changes(tmp_path: Path) -> None:
    dump = tmp_path / "m.txt"
    dump.write_text(AGAIN)
    text = command("memory", dump, "--what-if").stdout
    assert "compute w again for i" in text and text.startswith("peak ")
    data = json.loads(command("memory", dump, "--what-if", "--json").stdout)
    savings = [change["saves"] for change in data["changes"]]
    assert savings == sorted(savings, reverse=True) and data["refused"] == 0


def test_the_dumps_can_be_changed(modules: dict[str, hlorun.HloModule]) -> None:
    for module in modules.values():
        found = hlorun.memory_what_if(module)
        assert found.refused == 0 and found.peak == module.memory_analysis().peak_memory_in_bytes
        assert all(change.peak + change.saves == found.peak for change in found.changes)


def test_the_last_reader_of_a_large_value_comes_before_a_small_one() -> None:
    module = hlorun.parse(
        "HloModule m\nENTRY e { p = f32[1000] parameter(0)\n z = f32[] constant(0)\n j = f32[1000] sine(p)\n"
        " k = f32[200] slice(p), slice={[0:200]}\n a = f32[10] slice(j), slice={[0:10]}\n"
        " b = f32[500] slice(j), slice={[0:500]}\n"
        " ROOT t = (f32[10], f32[500], f32[200]) tuple(a, b, k) }"
    )
    entry = module.entry_computation
    assert entry is not None
    order = [i.name for i in greedy(entry)]
    assert order.index("a") < order.index("b") < order.index("t")
    assert sorted(order) == sorted(i.name for i in entry.instructions)
    # Once `a` has read `j`, `b` frees it, which is more than `k` adds.
    assert order.index("j") > order.index("k") or order.index("b") < order.index("k")


def test_effects_inside_branches_keep_their_order() -> None:
    text = """HloModule m
yes { t = token[] parameter(0)
 c = f32[] constant(1)
 ROOT o = token[] outfeed(c, t) }
no { ROOT t = token[] parameter(0) }
ENTRY e { q = pred[] parameter(0)
 x = f32[1000] parameter(1)
 s = f32[1000] sine(x)
 u = token[] after-all()
 w = token[] conditional(q, u, u), true_computation=yes, false_computation=no
 v = token[] after-all()
 f = token[] outfeed(s, v)
 ROOT r = token[] after-all(w, f) }
"""
    entry = hlorun.parse(text).entry_computation
    assert entry is not None
    for schedule in (depth_first, greedy):
        order = [i.name for i in schedule(entry)]
        assert order.index("w") < order.index("f")


def test_words_that_do_not_go_with_what_if(tmp_path: Path) -> None:
    dump = str(dump_path("001"))
    refused = command("memory", dump, "--what-if", "--html", str(tmp_path / "x.html"), status=2)
    assert "it takes a module and --json, not --html" in refused.stderr
    with pytest.raises(hlorun.HloArgumentError, match="most=-1"):
        hlorun.memory_what_if(hlorun.load(dump), most=-1)
