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
from hlorun.find import bisection, nan
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
FAULTS = {
    "swapped operands": ("subtract(t, m)", "subtract(m, t)"),
    "another constant": ("constant(0.5)", "constant(0.500123)"),
    "another opcode": ("tanh(h)", "sine(h)"),
    "another initial value": ("zero = f32[] constant(0)", "zero = f32[] constant(0.001)"),
    "a dropped term": ("o = f32[8,16] multiply(d, s)", "o = f32[8,16] multiply(t, s)"),
    "a shifted slice": ("t = f32[8,16] tanh(h)",
        "ta = f32[8,16] tanh(h)\n  tb = f32[8,15] slice(ta), slice={[0:8], [1:16]}\n"
        "  tc = f32[8,1] slice(ta), slice={[0:8], [0:1]}\n"
        "  t = f32[8,16] concatenate(tb, tc), dimensions={1}"),
    "half precision": ("h = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "hd = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  hc = f32[8,16] cosine(hd)\n  h = f32[8,16] multiply(hd, hc)"),
}  # fmt: skip

SUSPECTS = {
    "swapped operands": "d", "another constant": "scale", "another opcode": "td", "another initial value": "zero",
    "a dropped term": "o", "a shifted slice": ("t", "tb", "tc", "d"), "half precision": ("hc", "h"),
}  # fmt: skip


def _inputs() -> list[np.ndarray]:
    stream = Stream("find")
    return [stream.normal(dims) for dims in ((8, 16), (16, 16))]


@pytest.mark.parametrize("what", REWRITES)
def test_what_means_the_same_is_rounding(what: str) -> None:
    found = hlorun.compare(hlorun.parse(NET), hlorun.parse(NET.replace(*REWRITES[what])), *_inputs())
    assert found.verdict in ("rounding", "equal") and found.is_certain, str(found)


@pytest.mark.parametrize("what", FAULTS)
def test_what_means_something_else_is_different_and_named(what: str) -> None:
    right, wrong = hlorun.parse(NET), hlorun.parse(NET.replace(*FAULTS[what]))
    found = hlorun.compare(right, wrong, *_inputs())
    assert found.verdict == "different" and found.is_certain, str(found)
    assert found.suspect is not None
    bisection = hlorun.bisect(wrong, *_inputs(), against=right)
    assert bisection.culprit == found.suspect.name
    assert found.suspect.name in SUSPECTS[what]
    if bisection.module is not None and bisection.inputs:
        hlorun.run(bisection.module, *bisection.inputs)


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


def test_in_a_loop_the_suspect_is_the_first_in_time() -> None:
    loop = LOOP.replace("log(low)", "cosine(low)")
    wrong = loop.replace(
        "root = f32[4] cosine(low)", "c = f32[4] cosine(low)\n  root = f32[4] add(c, threes)"
    )
    x = Stream("suspect").normal((4,))
    found = hlorun.compare(hlorun.parse(loop), hlorun.parse(wrong), x)
    # From the second trip on `low` is wrong as well, and it stands before.
    assert found.verdict == "different" and found.suspect is not None and found.suspect.name == "root"


NAMESAKES = """HloModule m
cond { p = (s32[], f32[8]) parameter(0) t = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3) ROOT q = pred[] compare(t, n), direction=LT }
body { p = (s32[], f32[8]) parameter(0) t = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1 one = s32[] constant(1) u = s32[] add(t, one)
  low = f32[4] slice(x), slice={[0:4]} s = f32[4] sine(low)
  z = f32[] constant(0) y = f32[8] pad(s, z), padding=2_2 w = f32[8] add(y, x)
  ROOT r = (s32[], f32[8]) tuple(u, w) }
ENTRY e { a = f32[3,3] parameter(0) i = s32[] parameter(1)
  b = f32[3,3] transpose(a), dimensions={1,0} c = f32[3,3] dot(a, b),
    lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[9] reshape(c) g = f32[8] slice(f), slice={[0:8]} h = f32[1] slice(f), slice={[0:1]}
  start = (s32[], f32[8]) tuple(i, g) loop = (s32[], f32[8]) while(start), condition=cond, body=body
  k = f32[8] get-tuple-element(loop), index=1
  ROOT out = (f32[8], f32[3,3], f32[1]) tuple(k, c, h) }
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        # The same elements in other places, which a fingerprint does not see.
        ("transpose(a), dimensions={1,0}", "transpose(a), dimensions={0,1}", "b"),
        # What A holds elsewhere, too.
        ("h = f32[1] slice(f), slice={[0:1]}", "h = f32[1] slice(f), slice={[4:5]}", "h"),
        ("low = f32[4] slice(x), slice={[0:4]}", "low = f32[4] slice(x), slice={[4:8]}", "low"),
        ("z = f32[] constant(0)", "z = f32[] constant(0.25)", "z"),
        ("n = s32[] constant(3)", "n = s32[] constant(2)", "n"),
    ],
)
def test_what_was_changed_in_place_is_named(old: str, new: str, named: str) -> None:
    right, wrong = hlorun.parse(NAMESAKES), hlorun.parse(NAMESAKES.replace(old, new))
    x = Stream("namesakes").normal((3, 3))
    found = hlorun.compare(right, wrong, x, np.int32(0))
    assert found.verdict == "different" and found.suspect is not None and found.suspect.name == named


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("low = f32[4] slice(x), slice={[0:4]}", "low = f32[4] slice(x), slice={[4:8]}", "low"),
        ("z = f32[] constant(0)", "z = f32[] constant(0.25)", "z"),
        ("w = f32[8] add(y, x)", "w = f32[8] subtract(x, y)", "w"),
        ("direction=LT", "direction=GE", "q"),
    ],
)
def test_what_was_changed_is_named_where_all_names_are_others(old: str, new: str, named: str) -> None:
    right, wrong = hlorun.parse(NAMESAKES), str(hlorun.parse(NAMESAKES.replace(old, new)))
    other = hlorun.parse(re.sub(r"%([\w.]+)", r"%\1.other", wrong))
    x = Stream("namesakes").normal((3, 3))
    found = hlorun.compare(right, other, x, np.int32(0))
    assert found.verdict == "different" and found.suspect is not None
    assert found.suspect.name == f"{named}.other"


REWRITTEN = """ENTRY e {{ x = f32[8] parameter(0)
  c{0} = f32[] constant({1}) b{0} = f32[8] broadcast(c{0}), dimensions={{}}
  a{0} = f32[8] {2}(x, b{0}) k{0} = f32[] constant(-3) m{0} = f32[8] broadcast(k{0}), dimensions={{}}
  ROOT r{0} = f32[8] {3}(a{0}, m{0}) }}"""


@pytest.mark.parametrize(
    ("numbers", "opcode", "last", "named"),
    [
        # A pass may add the negative of what was subtracted: the number is wrong, or the opcode.
        ("-2.5", "add", "maximum", "c.b"),
        ("-2", "subtract", "maximum", "a.b"),
        ("2", "subtract", "minimum", "r.b"),
    ],
)
def test_counterparts_may_be_rewritten(numbers: str, opcode: str, last: str, named: str) -> None:
    right = hlorun.parse(REWRITTEN.format(".a", "2", "subtract", "maximum"))
    wrong = hlorun.parse(REWRITTEN.format(".b", numbers, opcode, last))
    found = hlorun.compare(right, wrong, Stream("rewritten").normal((8,)) * 4)
    assert found.suspect is not None and found.suspect.name == named


READERS = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT sum = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0) y = f32[8] exponential(x) s = f32[8] sine(y) c = f32[8] cosine(y)
  m = f32[8] subtract(x, s) h = f32[8] multiply(m, s) i = f32[8] add(h, c) w = f32[8] call(i), to_apply=f
  k = s4[] constant(3) k8 = f8e4m3fn[] constant(1.5) kb = f32[] convert(k8) kf = f32[] convert(k)
  kk = f32[] add(kf, kb) b = f32[8] broadcast(kk), dimensions={} r = f32[8] multiply(w, b)
  tiny = f32[] constant(1e-9)
  v = f32[8] broadcast(tiny), dimensions={} n = f32[8] multiply(v, x) ROOT t = (f32[8], f32[8]) tuple(r, n) }
f { p = f32[8] parameter(0) g = f32[8] negate(p) ROOT o = f32[8] logistic(g) }
"""


@pytest.mark.parametrize("ending", ["", ".other"])
@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        # `c` is right; `m` takes it for `s`.
        ("subtract(x, s)", "subtract(x, c)", "m"),
        # Not the call.
        ("o = f32[8] logistic(g)", "o = f32[8] tanh(g)", "o"),
        # Types whose steps are coarse, or that have none.
        ("k = s4[] constant(3)", "k = s4[] constant(2)", "k"),
        ("k8 = f8e4m3fn[] constant(1.5)", "k8 = f8e4m3fn[] constant(2.5)", "k8"),
        ("tiny = f32[] constant(1e-9)", "tiny = f32[] constant(3e-9)", "tiny"),
    ],
)
def test_no_other_instruction_is_proved(old: str, new: str, named: str, ending: str) -> None:
    assert old in READERS
    right, wrong = hlorun.parse(READERS), str(hlorun.parse(READERS.replace(old, new)))
    other = hlorun.parse(re.sub(r"%([\w.]+)", rf"%\1{ending}", wrong))
    found = hlorun.compare(right, other, Stream("readers").normal((8,)))
    assert found.verdict == "different" and found.suspect is not None
    assert found.suspect.name == f"{named}{ending}"


def test_a_constant_that_a_pass_folded_is_not_named() -> None:
    text = "ENTRY e {{ x = f32[4] parameter(0) {} m = f32[4] {}(x, c) ROOT r = f32[4] cosine(m) }}"
    right = hlorun.parse(text.format("i = f32[4] iota(), iota_dimension=0 c = f32[4] sine(i)", "add"))
    folded = ", ".join(str(np.sin(np.float32(k))) for k in range(4))
    wrong = hlorun.parse(text.format(f"c = f32[4] constant({{{folded}}})", "subtract"))
    found = hlorun.compare(right, wrong, Stream("folded").normal((4,)))
    assert found.suspect is not None and found.suspect.name == "m"


def test_the_part_of_a_constant_has_no_operands(tmp_path: Path) -> None:
    text = "ENTRY e { x = f32[4] parameter(0) c = f32[4] constant({1, 2, 3, %s}) ROOT m = f32[4] add(x, c) }"
    for name, last in (("right.hlo", "4"), ("wrong.hlo", "5")):
        (tmp_path / name).write_text(text % last)
    command = ["bisect", "wrong.hlo", "--against", "right.hlo", "--out", "part.hlo"]
    run = [sys.executable, "-m", "hlorun", *command]
    said = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "part.hlo holds the instruction: hlorun run part.hlo" in said.stdout + said.stderr


def test_the_move_that_changed_is_named_in_a_chain_of_them() -> None:
    text = """ENTRY e {{ x = f32[8] parameter(0) h{0} = f32[2,2,2] reshape(x) t{0} = f32[2,2,2] transpose(h{0}),
      dimensions={{{1}}} f{0} = f32[8] reshape(t{0}) i{0} = f32[8] iota(), iota_dimension=0
      ROOT m{0} = f32[8] multiply(f{0}, i{0}) }}"""
    right, wrong = hlorun.parse(text.format("", "2,1,0")), hlorun.parse(text.format(".b", "0,2,1"))
    found = hlorun.compare(right, wrong, Stream("moves").normal((8,)))
    assert found.suspect is not None and found.suspect.name == "t.b"


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


def test_passes_of_hlorun_are_bisected() -> None:
    module = hlorun.parse(NET)
    assert hlorun.bisect(module, *_inputs()).culprit is None
    optional = len(hlorun.compile(module).passes) - len(hlorun.compile(module, pass_limit=0).passes)
    found = hlorun.bisect(module, *_inputs(), is_bad=lambda result: True)
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
    found = hlorun.bisect(right, *_inputs(), is_bad=lambda result: True)
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


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hlorun", *words], capture_output=True, text=True, check=False
    )


def test_commands_say_what_the_library_does(tmp_path: Path) -> None:
    right, wrong, loop = (tmp_path / name for name in ("right.hlo", "wrong.hlo", "loop.hlo"))
    right.write_text(NET)
    wrong.write_text(NET.replace("subtract(t, m)", "subtract(m, t)"))
    loop.write_text(LOOP)
    found = _command("nan", str(loop))
    assert found.returncode == 1 and "NaN made by root (log in body), jit(f)/log, model.py:58" in found.stdout
    found = _command("compare", str(right), str(wrong), "--json")
    assert found.returncode == 1 and json.loads(found.stdout)["verdict"] == "different"
    assert _command("compare", str(right), str(right)).returncode == 0
    part = tmp_path / "part.hlo"
    found = _command("bisect", str(wrong), "--against", str(right), "--out", str(part))
    assert found.returncode == 1 and found.stdout.startswith("d, number"), found.stderr
    assert [i.opcode for i in hlorun.load(part).instructions][-1] == "subtract"
    again = _command("run", str(part), "--inputs", str(part.with_suffix(".npz")))
    assert again.returncode == 0, again.stderr
    assert _command("bisect", str(wrong), "--passes").stdout.startswith("nothing differs")
    found = _command("bisect", str(wrong), "--passes", "--against", str(right))
    assert found.returncode == 2 and "without --against" in found.stderr
    small = tmp_path / "small.hlo"
    found = _command("reduce", str(wrong), "--check", "grep -q tanh", "-j", "2", "--out", str(small))
    assert found.returncode == 0 and "tanh" in small.read_text(), found.stderr
    assert hlorun.load(small).instruction_count <= 3
    found = _command("reduce", str(wrong), "--check", "false")
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


def test_many_devices_against_one() -> None:
    found = hlorun.compare_devices(hlorun.parse(WHOLE), hlorun.parse(PARTS))
    assert found.verdict == "equal" and found.outputs == ("tiles", "tiles") and found.suspect is None
    assert found.devices == 4 and found.matched == 4


@pytest.mark.parametrize(
    ("right", "wrong", "suspect", "reason"),
    [
        ("tanh(%g)", "tanh(%d)", "t", "partial sums were not reduced"),
        ("{{0,2},{1,3}}", "{{0,1},{2,3}}", "g", "still partial sums"),
        ("reduce(%t, %z)", "reduce(%g, %z)", "r", "match none of one device"),
    ],
)
def test_the_first_wrong_value_of_many_devices_is_named(
    right: str, wrong: str, suspect: str, reason: str
) -> None:
    found = hlorun.compare_devices(hlorun.parse(WHOLE), hlorun.parse(PARTS.replace(right, wrong)))
    assert found.verdict == "different" and found.suspect is not None
    assert found.suspect.name == suspect and reason in found.reason


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
