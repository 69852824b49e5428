"""The suspect of a comparison: what was changed, and where values begin to differ."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hlorun
from find_modules import LOOP, NET, PARTS, WHOLE, inputs
from streams import Stream

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
    "swapped operands": ("d",), "another constant": ("scale",), "another opcode": ("t",), "another initial value": ("zero",),
    "a dropped term": ("o",), "a shifted slice": ("t", "tb", "tc", "d"), "half precision": ("hc", "h"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_what_means_something_else_is_different_and_named(what: str) -> None:
    right, wrong = hlorun.parse(NET), hlorun.parse(NET.replace(*FAULTS[what]))
    found = hlorun.compare(right, wrong, *inputs())
    assert found.verdict == "different" and found.is_certain, str(found)
    assert found.suspect is not None
    bisection = hlorun.bisect(wrong, *inputs(), against=right)
    assert bisection.culprit == found.suspect.name
    assert found.suspect.name in SUSPECTS[what]
    if bisection.module is not None and bisection.inputs:
        hlorun.run(bisection.module, *bisection.inputs)


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


@pytest.mark.parametrize(
    ("opcode", "other", "named"),
    [
        # A rewriting, and a fault after it.
        ("add", "-4", "k"),
        ("subtract", "-3", "c"),
    ],
)
def test_namesakes_may_be_rewritten(opcode: str, other: str, named: str) -> None:
    right = hlorun.parse(REWRITTEN.format("", "2", "subtract", "maximum"))
    wrong = REWRITTEN.format("", "-2", opcode, "maximum").replace("constant(-3)", f"constant({other})")
    x = Stream("rewritten").normal((8,)) * 4
    found = hlorun.compare(right, hlorun.parse(wrong), x)
    assert found.suspect is not None and found.suspect.name == named


def test_what_has_no_operands_is_not_proved_by_another_opcode() -> None:
    text = """ENTRY e {{ x{0} = u32[8] parameter(0) {1}
      ROOT m{0} = u32[8] multiply(x{0}, i{0}) }}"""
    right = hlorun.parse(text.format("", "n = u32[] replica-id() i = u32[8] broadcast(n), dimensions={}"))
    wrong = hlorun.parse(text.format(".b", "i.b = u32[8] iota(), iota_dimension=0"))
    found = hlorun.compare(right, wrong, np.arange(3, 11, dtype=np.uint32))
    assert found.suspect is not None and found.suspect.name == "m.b"


@pytest.mark.parametrize("ending", ["", ".other"])
@pytest.mark.parametrize(("old", "new"), [("tuple(u, w)", "tuple(u, y)"), ("tuple(i, g)", "tuple(i, k0)")])
def test_the_tuple_of_a_loop_is_no_suspect(old: str, new: str, ending: str) -> None:
    text = NAMESAKES.replace("start =", "k0 = f32[8] slice(f), slice={[1:9]} start =")
    right, wrong = hlorun.parse(text), str(hlorun.parse(text.replace(old, new)))
    other = hlorun.parse(re.sub(r"%([\w.]+)", rf"%\1{ending}", wrong))
    found = hlorun.compare(right, other, Stream("namesakes").normal((3, 3)), np.int32(0))
    assert found.verdict == "different"
    assert found.suspect is None or found.suspect.opcode != "tuple"


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


def test_the_move_that_changed_is_named_in_a_chain_of_them() -> None:
    text = """ENTRY e {{ x = f32[8] parameter(0) h{0} = f32[2,2,2] reshape(x) t{0} = f32[2,2,2] transpose(h{0}),
      dimensions={{{1}}} f{0} = f32[8] reshape(t{0}) i{0} = f32[8] iota(), iota_dimension=0
      ROOT m{0} = f32[8] multiply(f{0}, i{0}) }}"""
    right, wrong = hlorun.parse(text.format("", "2,1,0")), hlorun.parse(text.format(".b", "0,2,1"))
    found = hlorun.compare(right, wrong, Stream("moves").normal((8,)))
    assert found.suspect is not None and found.suspect.name == "t.b"


def test_values_are_followed_through_barriers() -> None:
    text = """ENTRY e {{ x{0} = f32[8] parameter(0) k{0} = f32[] constant({1}) t{0} = (f32[], f32[8]) tuple(k{0}, x{0})
      o{0} = (f32[], f32[8]) opt-barrier(t{0}) c{0} = f32[] get-tuple-element(o{0}), index=0
      b{0} = f32[8] broadcast(c{0}), dimensions={{}} ROOT m{0} = f32[8] multiply(x{0}, b{0}) }}"""
    right, wrong = hlorun.parse(text.format("", "2")), hlorun.parse(text.format(".b", "3"))
    found = hlorun.compare(right, wrong, Stream("barriers").normal((8,)))
    assert found.suspect is not None and found.suspect.name == "k.b"


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
