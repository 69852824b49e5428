"""The tools that find what is wrong: NaN origins, comparison, bisection, reduction."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from find_modules import LOOP, NET, PARTS, WHOLE, command, inputs
from hlorun.find import bisection, nan
from streams import Stream


def test_a_nan_is_found_where_it_is_made_with_trip_and_operands() -> None:
    report = hlorun.find_nan(hlorun.parse(LOOP), np.arange(1, 5, dtype=np.float32) * 30)
    (origin,) = report.origins
    assert (origin.kind, origin.place.name, origin.time, origin.count) == ("NaN", "root", 3, 4)
    assert origin.place.source == "model.py:58"
    name, value = origin.operands[0]
    assert name == "low" and float(value) < 0
    assert report.outputs == (0,) and report
    assert json.dumps(report.to_dict()) and "<table>" in report._repr_html_()


def test_nan_that_only_passes_through_has_no_origin() -> None:
    module = hlorun.parse(NET)
    x = np.ones((8, 16), np.float32)
    x[3, 2] = np.nan
    report = hlorun.find_nan(module, x, np.ones((16, 16), np.float32))
    assert report.origins == () and report.inputs == ("x",) and report.outputs == (0, 1)
    assert report.spread >= 4
    clean = hlorun.find_nan(module)
    assert not clean and str(clean) == "no NaN and no Inf"


def test_nan_of_a_scalar_that_is_no_elementwise_result_passes_through() -> None:
    text = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[3] parameter(0)
  z = f32[] constant(0)
  ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply=add
}
"""
    report = hlorun.find_nan(hlorun.parse(text), np.array([1, np.nan, 2], np.float32))
    assert report.origins == () and [place.name for place in report.carriers] == ["s"]


def test_an_overflow_is_an_origin_of_inf_and_inf_minus_inf_of_nan() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  a = f32[3] exponential(x)
  b = f32[3] negate(a)
  ROOT c = f32[3] add(a, b)
}
"""
    report = hlorun.find_nan(hlorun.parse(text), np.array([1, 1000, 2], np.float32))
    assert [(o.kind, o.place.name, o.index) for o in report.origins] == [
        ("Inf", "a", (1,)),
        ("NaN", "c", (1,)),
    ]


def test_the_same_module_is_equal() -> None:
    module = hlorun.parse(NET)
    found = hlorun.compare(module, module)
    assert found.verdict == "equal" and found.is_certain and found.first is None


REWRITES = {
    "a product for a quotient": ("o = f32[8,16] multiply(d, s)", "two = f32[] constant(2)\n"
        "  twos = f32[8,16] broadcast(two), dimensions={}\n  o = f32[8,16] divide(d, twos)"),
    "another order of the sum": ("n = f32[8] reduce(t, zero), dimensions={1}, to_apply=add",
        "rev = f32[8,16] reverse(t), dimensions={1}\n  n = f32[8] reduce(rev, zero), dimensions={1}, to_apply=add"),
    "transposed operands": ("h = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ht = f32[16,8] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
        "  h = f32[8,16] transpose(ht), dimensions={1,0}"),
    "tanh by exponentials": ("t = f32[8,16] tanh(h)",
        "h2 = f32[8,16] add(h, h)\n  em = f32[8,16] exponential-minus-one(h2)\n"
        "  two = f32[] constant(2)\n  twos = f32[8,16] broadcast(two), dimensions={}\n"
        "  ep = f32[8,16] add(em, twos)\n  t = f32[8,16] divide(em, ep)"),
}  # fmt: skip


@pytest.mark.parametrize("what", REWRITES)
def test_what_means_the_same_is_rounding(what: str) -> None:
    found = hlorun.compare(hlorun.parse(NET), hlorun.parse(NET.replace(*REWRITES[what])), *inputs())
    assert found.verdict in ("rounding", "equal") and found.is_certain, str(found)


SOURCE = """HloModule source
ENTRY e {
  x = f32[8,16] parameter(0)
  e = f32[8,16] exponential(x)
  s = f32[8,16] sine(x)
  p = f32[8,16] multiply(e, s)
  h = f16[8,16] convert(p)
  ROOT r = (f32[8,16], f32[8,16], f16[8,16]) tuple(e, p, h)
}
"""

OPTIMIZED = """HloModule optimized
f {
  a = f32[16,8] parameter(0)
  b = f32[16,8] parameter(1)
  m = f32[16,8] multiply(a, b)
  ROOT c = f16[16,8] convert(m)
}
ENTRY main {
  q = f32[8,16] parameter(0)
  t = f32[16,8] transpose(q), dimensions={1,0}
  u = f32[16,8] exponential(t)
  v = f32[16,8] sine(t)
  n = f32[16,8] negate(t)
  w = f32[16,8] exponential(n)
  k = f32[16,8] negate(v)
  fused = f16[16,8] fusion(u, v), kind=kLoop, calls=f
  d = f32[16,8] divide(k, w)
  y = f32[16,8] negate(d)
  o = f32[8,16] transpose(u), dimensions={1,0}
  z = f32[8,16] transpose(y), dimensions={1,0}
  g = f16[8,16] transpose(fused), dimensions={1,0}
  ROOT r = (f32[8,16], f32[8,16], f16[8,16]) tuple(o, z, g)
}
"""


def test_values_are_matched_across_layouts_types_and_fusion() -> None:
    x = Stream("matching").normal((8, 16))
    found = hlorun.compare(hlorun.parse(SOURCE), hlorun.parse(OPTIMIZED), x)
    assert found.verdict in ("equal", "rounding") and found.unmatched == 0
    by = {match.b.name: (match.a.name, match.by) for match in found.matches}
    assert by["u"] == ("e", "value") and by["v"] == ("s", "value") and by["fused"][0] in ("p", "h")
    assert by["y"] == ("p", "value") and by["k"] == ("s", "factor") and by["w"] == ("e", "reciprocal")
    assert all(match.gap.verdict != "different" for match in found.matches)


def test_what_is_the_same_by_chance_is_no_match() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4,4] parameter(0)
  t = f32[4,4] transpose(x), dimensions={1,0}
  s = f32[4,4] add(x, t)
  ROOT r = f32[4,4] %s(x, s)
}
"""
    # Of a symmetric matrix the sum with its transpose is twice itself; of others it is not.
    a, b = hlorun.parse(text % "multiply"), hlorun.parse(text % "divide")
    x = np.ones((4, 4), np.float32) + np.diag(np.arange(4, dtype=np.float32))
    names = {m.b.name for m in hlorun.compare(a, b, x).matches if m.a.name != m.b.name and m.by == "value"}
    assert "s" not in names


def test_the_part_of_a_constant_has_no_operands(tmp_path: Path) -> None:
    text = "ENTRY e { x = f32[4] parameter(0) c = f32[4] constant({1, 2, 3, %s}) ROOT m = f32[4] add(x, c) }"
    for name, last in (("right.hlo", "4"), ("wrong.hlo", "5")):
        (tmp_path / name).write_text(text % last)
    command = ["bisect", "wrong.hlo", "--against", "right.hlo", "--out", "part.hlo"]
    run = [sys.executable, "-m", "hlorun", *command]
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "part.hlo holds the instruction: hlorun run part.hlo" in said.stdout + said.stderr


def test_the_share_of_matched_values_is_measured() -> None:
    tool = Path(__file__).parent / "tools" / "matched_share.py"
    said = subprocess.run([sys.executable, tool, "2", "7"], capture_output=True, text=True, check=True).stdout
    share = re.search(r"^(\d+) fusions ran, .* same value ([0-9.]+)%", said, re.M)
    assert share is not None and int(share[1]) > 0 and float(share[2]) >= 50


def test_gaps_count_ulps_and_treat_nan_as_far() -> None:
    text = "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] %s\n}\n"
    one = hlorun.parse(text % "copy(x)")
    far = hlorun.parse(text % "log(x)")
    values = np.array([-1, 1, 2], np.float32)
    (gap,) = hlorun.compare(one, far, values).outputs
    assert gap.verdict == "different" and gap.absolute == np.inf and gap.index == (0,)
    from hlorun.find.gap import gap as between

    step = np.nextafter(np.float32(1), np.float32(2))
    assert between(np.array([1, 5], np.float32), np.array([step, 5], np.float32)).ulps == 1
    assert between(np.array([0.0], np.float32), np.array([-0.0], np.float32)).verdict == "equal"
    assert between(np.array([True]), np.array([False])).verdict == "different"


@pytest.mark.parametrize(
    ("dtype", "x", "y", "distance"),
    [
        ("s32", -(2**31), 0, 2.0**31),
        ("s32", 2**30, -(2**30), 2.0**31),
        ("s8", -128, 0, 128),
        ("u8", 1, 3, 2),
        ("s64", 2**62 + 1, 2**62, 1),
    ],
)
def test_distances_of_integers_do_not_wrap(dtype: str, x: int, y: int, distance: float) -> None:
    text = "ENTRY e {{ p = {0}[1] parameter(0) c = {0}[1] constant({{{1}}}) ROOT r = {0}[1] add(p, c) }}"
    a, b = (hlorun.parse(text.format(dtype, value)) for value in (x, y))
    found = hlorun.compare(a, b, np.zeros(1, hlorun.make_inputs(a)[0].dtype))
    assert found.verdict == "different" and found.outputs[0].absolute == distance


def test_a_folder_of_passes_is_bisected(tmp_path: Path) -> None:
    steps = ["algsimp", "reshape-mover", "cse", "fusion", "layout", "dce"]
    names = [f"module_0001.jit_f.{k:04}.pipeline.after_{step}" for k, step in enumerate(steps)]
    for number, name in enumerate(names):
        text = NET.replace(*REWRITES["another order of the sum"]) if number > 1 else NET
        text = text.replace("subtract(t, m)", "subtract(m, t)") if number > 3 else text
        (tmp_path / f"{name}.txt").write_text(text)
    found = hlorun.bisect(tmp_path)
    assert found.culprit == "pipeline/layout" and found.kind == "stages", str(found)
    assert found.comparison is not None and found.comparison.first is not None
    assert found.comparison.first.b.name == "d"


def test_one_of_several_dumped_modules_is_bisected(tmp_path: Path) -> None:
    for number, name in ((1, "jit_f"), (2, "jit_g")):
        for k, step in enumerate(["algsimp", "cse", "dce"]):
            text = NET.replace("subtract(t, m)", "subtract(m, t)") if (name, k) == ("jit_g", 2) else NET
            file = tmp_path / f"module_{number:04}.{name}.{k:04}.pipeline.after_{step}.txt"
            file.write_text(text.replace("HloModule net", f"HloModule {name}"))
    with pytest.raises(hlorun.HloArgumentError, match="one module, found 1 jit_f, 2 jit_g"):
        hlorun.bisect(tmp_path)
    (dumped,) = hlorun.scan(tmp_path).named("jit_g")
    assert hlorun.bisect(dumped).culprit == "pipeline/dce"
    shown = command("bisect", str(tmp_path), "--module", "2")
    assert shown.returncode == 1 and "pipeline/dce" in shown.stdout, shown.stderr
    shown = command("bisect", str(tmp_path), "--module", "jit_f")
    assert shown.returncode == 0, shown.stderr
    shown = command("bisect", str(tmp_path), "--module", "jit_h")
    assert shown.returncode == 1 and "no module called jit_h; it has 1 jit_f, 2 jit_g" in shown.stderr


def test_passes_of_hlorun_are_bisected() -> None:
    module = hlorun.parse(NET)
    assert hlorun.bisect(module, *inputs()).culprit is None
    optional = len(hlorun.compile(module).passes) - len(hlorun.compile(module, pass_limit=0).passes)
    found = hlorun.bisect(module, *inputs(), is_bad=lambda result: True)
    assert found.number == 1 and found.runs <= 2 + optional


def test_the_pass_at_fault_comes_with_the_instruction_and_its_operands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, wrong = hlorun.parse(NET), hlorun.parse(NET.replace("subtract(t, m)", "subtract(m, t)"))
    last = hlorun.compile(right, pass_limit=1).passes[-1].name
    stages = bisection._around(right, 1, last)
    assert stages is not None and hlorun.compare(*stages).verdict in ("equal", "rounding")
    # A pass that swaps operands: there is none, so its modules are put in the place of those of another.
    monkeypatch.setattr(bisection, "_around", lambda *_: (right, wrong))
    found = hlorun.bisect(right, *inputs(), is_bad=lambda result: True)
    assert found.kind == "passes" and found.number == 1 and found.comparison is not None
    assert found.module is not None and found.comparison.suspect is not None
    assert found.comparison.suspect.name == "d" and len(found.inputs) == 2
    entry = found.module.entry_computation
    assert entry is not None
    given = {p.name: value for p, value in zip(entry.parameters, found.inputs, strict=True)}
    np.testing.assert_array_equal(hlorun.run(found.module, *found.inputs), given["m"] - given["t"])


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_module_reduces_to_what_the_predicate_needs(
    modules: dict[str, hlorun.HloModule], jobs: int
) -> None:
    def shows(module: hlorun.HloModule) -> bool:
        return any(i.opcode == "exponential" and i.users for i in module.instructions)

    found = hlorun.reduce(modules["004"], shows, jobs=jobs)
    assert found.before > 8000 and found.after < 10
    found.module.verify()
    assert shows(found.module)
    with pytest.raises(ValueError, match="nothing to reduce"):
        hlorun.reduce(modules["004"], lambda module: False)
    with pytest.raises(ValueError, match="at least one"):
        hlorun.reduce(modules["004"], shows, jobs=0)


def test_a_numeric_fault_reduces(tmp_path: Path) -> None:
    module = hlorun.parse(LOOP)
    out = tmp_path / "small.hlo"

    def makes_nan(candidate: hlorun.HloModule) -> bool:
        inputs = hlorun.make_inputs(candidate)
        return any(o.kind == "NaN" for o in hlorun.find_nan(candidate, *inputs, timeout=1).origins)

    found = hlorun.reduce(module, makes_nan, out=out)
    assert found.after <= 5 and len(found.module.find(opcode="log")) == 1, str(found.module)
    assert hlorun.load(out).fingerprint() == found.module.fingerprint()


def test_summaries_costs_graphs_traces_and_differences(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["003"]
    assert hlorun.summary(module).instructions == module.instruction_count
    cost = hlorun.cost(module, by="source")
    assert cost.groups and sum(group.flops for group in cost.groups) == pytest.approx(cost.run["flops"])
    with pytest.raises(hlorun.HloArgumentError, match="by is one of source, op_name"):
        hlorun.cost(module, by="colour")
    assert "<html" in hlorun.graph(module).html() and "digraph" in hlorun.graph(module).dot()
    traced = hlorun.trace(module)
    assert traced.values and traced.first_nan is None
    assert not hlorun.diff(module, module)
    changed = hlorun.diff(hlorun.parse(NET), hlorun.parse(NET.replace("tanh", "sine")))
    assert changed and changed.opcodes == {"sine": [0, 1], "tanh": [1, 0]}
    for result in (hlorun.summary(module), cost, traced, changed):
        json.dumps(result.to_dict())
        assert result._repr_html_().startswith("<table>")


def test_commands_say_what_the_library_does(tmp_path: Path) -> None:
    right, wrong, loop = (tmp_path / name for name in ("right.hlo", "wrong.hlo", "loop.hlo"))
    right.write_text(NET)
    wrong.write_text(NET.replace("subtract(t, m)", "subtract(m, t)"))
    loop.write_text(LOOP)
    found = command("nan", str(loop))
    assert found.returncode == 1 and "NaN made by root (log in body), jit(f)/log, model.py:58" in found.stdout
    found = command("compare", str(right), str(wrong), "--json")
    assert found.returncode == 1 and json.loads(found.stdout)["verdict"] == "different"
    assert command("compare", str(right), str(right)).returncode == 0
    part = tmp_path / "part.hlo"
    found = command("bisect", str(wrong), "--against", str(right), "--out", str(part))
    assert found.returncode == 1 and found.stdout.startswith("d, number"), found.stderr
    assert [i.opcode for i in hlorun.load(part).instructions][-1] == "subtract"
    again = command("run", str(part), "--inputs", str(part.with_suffix(".npz")))
    assert again.returncode == 0, again.stderr
    assert command("bisect", str(wrong), "--passes").stdout.startswith("nothing differs")
    found = command("bisect", str(wrong), "--passes", "--against", str(right))
    assert found.returncode == 2 and "without --against" in found.stderr
    small = tmp_path / "small.hlo"
    found = command("reduce", str(wrong), "--check", "grep -q tanh", "-j", "2", "--out", str(small))
    assert found.returncode == 0 and "tanh" in small.read_text(), found.stderr
    assert hlorun.load(small).instruction_count <= 3
    found = command("reduce", str(wrong), "--check", "false")
    assert found.returncode == 1 and "nothing to reduce" in found.stderr


def test_the_device_that_makes_nan_is_named() -> None:
    text = PARTS.replace(
        "  %t = f32[4,4]{1,0} tanh(%g)",
        """  %i = u32[] partition-id()
  %three = u32[] constant(2)
  %is = pred[] compare(%i, %three), direction=EQ
  %low = f32[] constant(-1)
  %high = f32[] constant(1)
  %x = f32[] select(%is, %low, %high)
  %l = f32[] log(%x)
  %ls = f32[4,4]{1,0} broadcast(%l), dimensions={}
  %h = f32[4,4]{1,0} add(%g, %ls)
  %t = f32[4,4]{1,0} tanh(%h)""",
    )
    report = hlorun.find_nan(hlorun.parse(text))
    (origin,) = report.origins
    assert origin.device == 2 and origin.place.name == "l" and "on device 2" in str(origin)
    assert report.outputs == (0, 1) and report.is_complete


def test_an_interrupted_search_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "HloModule m\nENTRY e { p = f32[2] parameter(0)\n l = f32[2] log(p)\n ROOT n = f32[2] negate(l) }\n"
    )
    module = hlorun.parse(text)
    plain = nan._Search.__call__

    def interrupted(self: nan._Search, instruction: hlorun.HloInstruction, value: Any) -> None:
        plain(self, instruction, value)
        if instruction.name == "l":
            raise KeyboardInterrupt

    monkeypatch.setattr(nan._Search, "__call__", interrupted)
    x = np.array([1, -1], np.float32)
    with pytest.raises(KeyboardInterrupt):
        hlorun.find_nan(module, x)
    report = hlorun.find_nan(module, x, until_interrupted=True)
    assert [o.place.name for o in report.origins] == ["l"] and not report.is_complete
    assert str(report).endswith("ended before the run was done: there may be more")


def test_many_devices_against_one() -> None:
    found = hlorun.compare_devices(hlorun.parse(WHOLE), hlorun.parse(PARTS))
    assert found.verdict == "equal" and found.outputs == ("tiles", "tiles") and found.suspect is None
    assert found.devices == 4 and found.matched == 4


def test_many_devices_need_shardings_that_fit() -> None:
    whole = hlorun.parse(WHOLE)
    for right, wrong, message in (
        (", sharding={devices=[2,2]<=[2,2]T(1,0)}", "", "has no sharding"),
        ("devices=[2,2]<=[2,2]T(1,0)", "devices=[4,1]<=[4]", "is not f32"),
        ("devices=[2,2]<=[2,2]T(1,0)", "manual", "does not say where"),
    ):
        with pytest.raises(hlorun.HloArgumentError, match=message):
            hlorun.compare_devices(whole, hlorun.parse(PARTS.replace(right, wrong)))
    with pytest.raises(hlorun.HloArgumentError, match="before partitioning"):
        hlorun.compare_devices(hlorun.parse(PARTS), hlorun.parse(PARTS))


def test_saved_operands_may_be_called_anything(tmp_path: Path) -> None:
    paths = []
    for number, opcode in enumerate(("sine", "cosine")):
        paths.append(tmp_path / f"{number}.hlo")
        paths[-1].write_text(f"ENTRY e {{ file = f32[4] parameter(0) ROOT r = f32[4] {opcode}(file) }}")
    out = tmp_path / "part.hlo"
    words = ["bisect", str(paths[1]), "--against", str(paths[0]), "--out", str(out)]
    subprocess.run([sys.executable, "-m", "hlorun", *words], check=False, capture_output=True)
    with np.load(out.with_suffix(".npz")) as saved:
        assert list(saved) == [p.name for p in hlorun.load(out).find(opcode="parameter")]


SIZED = """ENTRY e {
  p = f32[6] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=6] set-dimension-size(p, n), dimensions={0}
  l = f32[<=6] log(d)
  ROOT r = s32[] get-dimension-size(l), dimensions={0}
}
"""


@pytest.mark.parametrize(("size", "places"), [(3, ()), (4, ("l",))])
def test_what_is_behind_the_elements_of_an_array_is_not_found(size: int, places: tuple[str, ...]) -> None:
    x = np.array([1, 2, 3, -1, -1, -1], np.float32)
    report = hlorun.find_nan(hlorun.parse(SIZED), x, np.int32(size))
    assert tuple(origin.place.name for origin in report.origins) == places
