"""`hlorun graph`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import browser_page, dump_path
from hlorun.report.graph import COLOURS, family
from hlorun.report.graph_page import to_html
from test_cli import hlorun as command

GATHER = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  s = (f32[4], f32[8]) all-gather-start(p), dimensions={0}, replica_groups={{0,1}}
  ROOT d = f32[8] all-gather-done(s)
}
"""


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    return found


def test_the_page_holds_every_instruction_and_needs_no_network(tmp_path: Path) -> None:
    out = tmp_path / "g.html"
    command("graph", dump_path("001"), "--html", out)
    page = out.read_text()
    assert not re.search(r"(src|href)=|https?://", page)
    assert not re.search(r"@[A-Z]+@", page)
    data = data_of(page)
    module = hlorun.load(dump_path("001"))
    assert len(data["name"]) == sum(c["c"] for c in data["comps"]) == module.instruction_count == 133
    entry = module.entry_computation
    assert entry is not None and data["comps"][0]["name"] == entry.name
    assert sum(data["overlays"]["flops"].values()) >= hlorun.cost(module).run["flops"]
    assert {"flops", "bytes", "size", "peak"} == set(data["overlays"])


def test_names_cannot_end_the_script(tmp_path: Path) -> None:
    dump, out = tmp_path / "m.txt", tmp_path / "g.html"
    dump.write_text(
        'HloModule m\nENTRY e { p = f32[] parameter(0), metadata={op_name="</script><!--<script>@CODE@"}\n'
        " ROOT r = f32[] negate(p) }"
    )
    command("graph", dump, "--html", out)
    assert out.read_text().count("</script>") == 2
    assert "<!--<script>" not in out.read_text()
    assert "</script><!--<script>@CODE@" in data_of(out.read_text())["strings"]


def test_graphviz() -> None:
    text = command("graph", dump_path("001"), "--dot", "-").stdout
    assert text.startswith("digraph") and text.count("subgraph") == 12
    assert text.count("{") == text.count("}")


def test_what_ends_a_collective_is_one() -> None:
    kinds = [family(i) for i in hlorun.parse(GATHER).instructions]
    assert kinds == ["input", "collective", "collective"]
    assert set(kinds) <= set(COLOURS)


def test_times_of_a_profile_are_shown(tmp_path: Path) -> None:
    profile, out = tmp_path / "p.json", tmp_path / "g.html"
    command("run", dump_path("001"), "--profile", profile)
    command("graph", dump_path("001"), "--html", out, "--profile", profile)
    data = data_of(out.read_text())
    times = {data["name"][int(n)]: seconds for n, seconds in data["overlays"]["time"].items()}
    assert times["cublas-gemm.3"] > 0
    command("graph", dump_path("003"), "--html", out, "--profile", out, status=1)
    with pytest.raises(hlorun.HloArgumentError, match="another module"):
        hlorun.graph(hlorun.load(dump_path("003")), {"nobody": 1.0}).html()


def test_a_browser_walks_the_graph(tmp_path: Path) -> None:
    file = tmp_path / "g.html"
    file.write_text(to_html(hlorun.load(dump_path("004"))), encoding="utf-8")
    assert file.stat().st_size < 3e6
    with browser_page(file, viewport={"width": 1300, "height": 900}) as (page, problems):

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = page.evaluate(
                "Object.fromEntries(V.scene().items.filter((i) => i.id !== undefined)"
                ".map((i) => [D.name[i.id], V.where(i)]))"
            )
            return found

        before = shown()
        assert 10 < len(before) < 400 and not any(name.startswith("parameter") for name in before)
        assert "while.32" not in before
        # No two boxes of one group lie on each other.
        assert page.evaluate(
            "V.scene().items.every((a) => a.parent.kids.every((b) => a === b || a.x + a.w <= b.x + 0.01 ||"
            " b.x + b.w <= a.x + 0.01 || a.y + a.h <= b.y + 0.01 || b.y + b.h <= a.y + 0.01))"
        )
        # What is found opens all that is around it.
        page.fill("#find", "opcode:gemm source:rnn.py")
        assert page.inner_text("#list h2") == "18 found"
        page.press("#find", "Enter")
        name = page.inner_text("#info h2")
        assert name in shown() and "while.32" in shown() and "rnn.py:58" in page.inner_text("#info")
        # The wheel zooms where the pointer is.
        box = shown()[name]
        canvas = page.locator("#map").bounding_box()
        assert canvas is not None
        page.mouse.move(canvas["x"] + box["x"] + 5, canvas["y"] + box["y"] + 5)
        page.mouse.wheel(0, -300)
        page.wait_for_function(
            "(w) => V.where(V.scene().items.find((i) => i.id === now.at)).w > w", arg=box["w"]
        )
        assert abs(shown()[name]["x"] - box["x"]) < 5
        # Neighbours, and the address that leads to them.
        page.click("#near")
        assert "within 2 steps" in page.inner_text("#note") and name in shown() and len(shown()) < 60
        address = page.url
        page.select_option("#colour", "peak")
        page.go_back()
        page.go_back()
        page.wait_for_function("document.getElementById('note').textContent === ''")
        page.goto(address)
        page.reload()
        assert "within 2 steps" in page.inner_text("#note")
        # A way between two, through the loop that one of them is in.
        page.evaluate("way(now.at, M.byName.get('all-reduce.12638'))")
        assert "way" in page.inner_text("#note") and {"all-reduce.12638", name} <= set(shown())
        # A loop opens and shuts in place.
        page.click("#whole")
        page.evaluate("choose(M.byName.get('while.32'))")
        shut = page.inner_text("#open")
        held = name in shown()
        page.click("#open")
        assert page.inner_text("#open") != shut and (name in shown()) != held
        page.click("#theme")
        assert not problems


CALLS = """HloModule m
shared { a = f32[4] parameter(0)
 n = f32[4] negate(a)
 ROOT t = (f32[4], f32[4]) tuple(n, a) }
left { x = f32[4] parameter(0)
 ROOT l = f32[4] sine(x) }
right { x = f32[4] parameter(0)
 ROOT r = f32[4] cosine(x) }
body { s = (s32[], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 v = f32[4] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 w = f32[4] tanh(v)
 ROOT o = (s32[], f32[4]) tuple(j, w) }
cond { s = (s32[], f32[4]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 k = s32[] constant(3)
 ROOT c = pred[] compare(i, k), direction=LT }
ENTRY e { p = f32[4] parameter(0)
 q = f32[4] exponential(p)
 first = (f32[4], f32[4]) call(q), to_apply=shared
 f0 = f32[4] get-tuple-element(first), index=0
 second = (f32[4], f32[4]) call(f0), to_apply=shared
 s1 = f32[4] get-tuple-element(second), index=1
 zero = s32[] constant(0)
 init = (s32[], f32[4]) tuple(zero, s1)
 loop = (s32[], f32[4]) while(init), condition=cond, body=body
 y = f32[4] get-tuple-element(loop), index=1
 sum = f32[] constant(0)
 which = s32[] get-tuple-element(loop), index=0
 u = f32[4] sqrt(q)
 branch = f32[4] conditional(which, y, u), branch_computations={left, right}
 ROOT z = f32[4] abs(branch) }
"""


def test_in_a_browser_edges_lead_through_plumbing_calls_and_loops(tmp_path: Path) -> None:
    file = tmp_path / "g.html"
    file.write_text(to_html(hlorun.parse(CALLS)), encoding="utf-8")
    with browser_page(file) as (page, problems):

        def edges() -> set[tuple[str, str]]:
            found = page.evaluate(
                "V.scene().edges.map((e) => [e.a, e.b].map((i) => i.id === undefined ? i.label : D.name[i.id]))"
            )
            return {(a, b) for a, b in found}

        shut = {
            ("q", "first"),
            ("first", "second"),
            ("second", "loop"),
            ("loop", "branch"),
            ("q", "u"),
            ("u", "branch"),
        }
        assert edges() == {*shut, ("branch", "z")}
        for name in ("second", "loop", "branch"):
            page.evaluate(f"toggle(V.scene().items.find((i) => D.name[i.id] === '{name}'))")
        # The second call of a computation that the first is given, too, opens where it is; `which` decides a branch.
        inner = {("first", "n"), ("second", "w"), ("loop", "l"), ("u", "r")}
        assert inner <= edges(), edges()
        names = page.evaluate("V.scene().items.filter((i) => i.id !== undefined).map((i) => D.name[i.id])")
        assert names.count("n") == 1 and {"w", "j", "l", "r"} <= set(names) and "c" not in names
        near = page.evaluate("M.near(M.byName.get('w'), 1).map((i) => D.name[i])")
        assert set(near) == {"w", "second", "loop"}
        way = page.evaluate("M.between(M.byName.get('z'), M.byName.get('n')).ids.map((i) => D.name[i])")
        assert {"n", "first", "second", "w", "loop", "l", "branch", "z"} <= set(way) and "u" not in way
        page.check("#plumbing")
        assert ("p", "q") in edges() and ("init", "loop") not in edges() and ("y", "branch") not in edges()
        assert not problems


def test_a_browser_holds_a_large_module(tmp_path: Path) -> None:
    lines = ["HloModule large", "ENTRY e {", "  v0 = f32[8] parameter(0)"]
    for n in range(1, 20_001):
        lines.append(f"  v{n} = f32[8] add(v{n - 1}, v{max(0, n - 1 - n * 7 % 50)})")
    lines[-1] = "  ROOT" + lines[-1][1:]
    file = tmp_path / "g.html"
    file.write_text(to_html(hlorun.parse("\n".join([*lines, "}"]))), encoding="utf-8")
    with browser_page(file) as (page, problems):
        assert page.evaluate("V.scene().items.length") < 100
        page.fill("#find", "name:v19999")
        page.press("#find", "Enter")
        page.wait_for_function("now.at === M.byName.get('v19999')")
        assert page.evaluate("V.scene().items.some((i) => i.id === now.at)")
        assert page.evaluate("V.scene().items.length") < 2000
        assert not problems


ROOTS = """HloModule m
f { x = f32[2] parameter(0)
 ROOT s = f32[2] sine(x) }
ENTRY e { p = f32[2] parameter(0)
 q = f32[2] parameter(1)
 l = f32[2] log(p)
 n = f32[2] negate(l)
 k = f32[2] call(n), to_apply=f
 d = f32[2] subtract(k, q)
 ROOT r = f32[2] multiply(d, q) }
"""
OTHER = """HloModule m
f { x = f32[2] parameter(0)
 ROOT s = f32[2] sine(x) }
ENTRY e { p = f32[2] parameter(0)
 q = f32[2] parameter(1)
 l = f32[2] log(p)
 k = f32[2] call(l), to_apply=f
 t = f32[2] tanh(k)
 d = f32[2] subtract(q, t)
 ROOT r = f32[2] multiply(d, q) }
"""


def marks_of(page: str, kind: str) -> dict[str, tuple[str, str]]:
    data = data_of(page)
    return {data["name"][int(n)]: (word, note) for n, (word, note) in data["marks"][kind]["of"].items()}


def test_what_makes_nan_and_what_carries_it_on_is_marked() -> None:
    module = hlorun.parse(ROOTS)
    report = hlorun.find_nan(module, np.array([-1, 1], np.float32), np.array([1, np.nan], np.float32))
    assert [place.name for place in report.carriers] == ["d", "n", "r", "s"] and report.spread == 4
    marks = marks_of(hlorun.graph(module, nan=report).html(), "nan")
    assert {name: word for name, (word, _) in marks.items()} == {
        "l": "makes", "n": "carries", "s": "carries", "d": "carries", "r": "carries", "q": "given",
    }  # fmt: skip
    assert "NaN made by l" in marks["l"][1]
    with pytest.raises(hlorun.HloArgumentError, match="another module"):
        hlorun.graph(hlorun.parse(CALLS), nan=report).html()


def test_what_is_not_in_another_module_is_marked() -> None:
    module = hlorun.parse(ROOTS)
    difference = hlorun.diff(hlorun.parse(OTHER), module)
    page = hlorun.graph(module, diff=difference).html()
    marks = marks_of(page, "diff")
    assert marks == {"n": ("added", ""), "d": ("changed", "was d = f32[2] subtract(q, t)")}
    assert data_of(page)["marks"]["diff"]["others"] == [["e", "t = f32[2] tanh(k)"]]
    assert "l" not in marks and "s" not in marks
    with pytest.raises(hlorun.HloArgumentError, match=r"is not hlorun\.diff"):
        hlorun.graph(hlorun.parse(OTHER), diff=difference).html()
    # Equal modules say that there is nothing.
    same = data_of(hlorun.graph(module, diff=hlorun.diff(module, module)).html())
    assert same["overlays"]["diff"] == {} and same["first"] == "diff"


def test_the_command_marks_nan_and_differences(tmp_path: Path) -> None:
    dump, other, out, given = (tmp_path / name for name in ("m.txt", "o.txt", "g.html", "in.npz"))
    dump.write_text(ROOTS)
    other.write_text(OTHER)
    np.savez(given, p=np.array([-1, 1], np.float32), q=np.ones(2, np.float32))
    command("graph", dump, "--html", out, "--nan", "--inputs", given, "--diff", other)
    assert marks_of(out.read_text(), "nan")["l"][0] == "makes"
    assert marks_of(out.read_text(), "diff")["n"][0] == "added"
    command("graph", dump, "--dot", "-", "--nan", status=1)


def test_a_browser_shows_marks(tmp_path: Path) -> None:
    module = hlorun.parse(ROOTS)
    report = hlorun.find_nan(module, np.array([-1, 1], np.float32), np.array([1, np.nan], np.float32))
    difference = hlorun.diff(hlorun.parse(OTHER), module)
    file = tmp_path / "g.html"
    file.write_text(to_html(module, nan=report, diff=difference), encoding="utf-8")
    with browser_page(file) as (page, problems):
        assert page.eval_on_selector("#colour", "(e) => e.value") == "nan"
        assert page.inner_text("#list h2") == "NaN and Inf: 6 instructions"
        assert page.locator("#list div b").first.inner_text() == "l"
        assert page.locator("#key .k").all_inner_texts() == ["makes", "carries", "given"]
        page.evaluate("choose(M.byName.get('l'))")
        # A shut call shows that something is marked inside.
        value = "V.scene().items.find((i) => D.name[i.id] === 'k').value"
        page.wait_for_function(f"{value} === 1")
        assert "NaN and Inf: makes" in page.inner_text("#info") and "NaN made by l" in page.inner_text(
            "#info"
        )
        page.select_option("#colour", "diff")
        assert "difference: 2 instructions" in page.inner_text("#list")
        assert "1 only in the other module" in page.inner_text("#list")
        assert "tanh(k)" in page.inner_text("#list")
        page.reload()
        assert page.eval_on_selector("#colour", "(e) => e.value") == "diff"
        page.select_option("#colour", "kind")
        page.reload()
        assert page.eval_on_selector("#colour", "(e) => e.value") == "kind"
        page.click("#theme")
        assert not problems
