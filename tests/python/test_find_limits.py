"""What the tools that look for faults promise besides answers: time, memory, messages, files left alone."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import hlorun
from find_modules import LOOP, NET, PARTS, WHOLE, command, inputs
from hlorun.find import matching, suspect
from hlorun.find import sides as sides_module
from hlorun.find.comparison import outputs_of
from hlorun.find.deadline import Deadline
from hlorun.find.flow import Flow
from hlorun.find.sides import Side, fingerprint
from streams import Stream


def test_the_time_of_a_search_bounds_the_matching_too() -> None:
    module, parts = hlorun.parse(NET), hlorun.parse(PARTS)
    for search in (
        lambda: hlorun.compare(module, module, timeout=0),
        lambda: hlorun.bisect(module, timeout=0),
        lambda: hlorun.bisect(module, against=module, timeout=0),
        lambda: hlorun.find_nan(module, timeout=0),
        lambda: hlorun.compare_devices(hlorun.parse(WHOLE), parts, timeout=0),
    ):
        with pytest.raises(hlorun.HloTimeoutError, match="0 seconds") as caught:
            search()
        assert caught.value.timeout == 0
    assert not hlorun.find_nan(module, timeout=0, until_interrupted=True).is_complete
    with pytest.raises(ValueError, match="at least 0"):
        hlorun.compare(module, module, timeout=-1)
    sides = [Side(module, inputs(), Deadline(None)) for _ in range(2)]
    for side in sides:
        side.deadline = Deadline(0)
    with pytest.raises(hlorun.HloTimeoutError):
        matching.pairs_of(sides[0], sides[1])
    with pytest.raises(hlorun.HloTimeoutError):
        outputs_of(sides[0], sides[1])


def test_ancestors_of_many_results_take_little_memory() -> None:
    count = 2000
    lines = [f"i{k} = f32[] sine({f'i{k - 1}' if k else 'p'})" for k in range(count)]
    shape, names = ", ".join(["f32[]"] * count), ", ".join(f"i{k}" for k in range(count))
    text = "\n".join(
        ["ENTRY e {", "p = f32[] parameter(0)", *lines, f"ROOT r = ({shape}) tuple({names})", "}"]
    )
    module = hlorun.parse(text)
    side = Side.__new__(Side)
    side.module, side.deadline = module, Deadline(None)
    flow = Flow(side)
    results = [module[f"i{k}"] for k in range(500, count)]
    tracemalloc.start()
    try:
        found = suspect._ancestors_of_all(flow, results)
        # A set for each result would take 100 MB.
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert found == {module["p"], *(module[f"i{k}"] for k in range(501))}


def test_ancestors_go_round_loops() -> None:
    module = hlorun.parse(LOOP)
    side = Side.__new__(Side)
    side.module, side.deadline = module, Deadline(None)
    flow = Flow(side)

    def alone(result: hlorun.HloInstruction) -> set[hlorun.HloInstruction]:
        seen, open_ = {result}, [result]
        while open_:
            new = [i for i in flow.before(open_.pop()) if i not in seen]
            seen.update(new)
            open_ += new
        return seen

    for results in itertools.combinations([i for i in module.instructions if i.shape.is_array], 2):
        assert suspect._ancestors_of_all(flow, list(results)) == alone(results[0]) & alone(results[1])


def test_fingerprints_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Stream("fingerprints").normal(1000, np.float64)
    odd = values.copy()
    odd[[3, 500, 999]] = np.nan, np.inf, -np.inf
    for array in (values, odd, values.astype(np.float32), values + 1j * values[::-1], values[:0], values > 0):
        whole = fingerprint(array)
        with monkeypatch.context() as patch:
            patch.setattr(sides_module, "BLOCK", 7)
            blocks, turned = fingerprint(array), fingerprint(array[::-1].reshape(-1, 1))
        if array.size == 0:
            assert whole is blocks is turned is None
            continue
        np.testing.assert_allclose(blocks, whole, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(turned, whole, rtol=1e-9, atol=1e-12)


def test_intermediates_are_matched_by_the_origin_that_xla_notes() -> None:
    text = "ENTRY e {{ p = f32[8] parameter(0)\n {} = f32[8] {}(p){}\n ROOT r = f32[8] negate({}) }}"
    before = hlorun.parse(text.format("sine.1", "sine", "", "sine.1"))
    after = hlorun.parse(text.format("fused", "cosine", ', origin={{"sine.1"}}', "fused"))
    found = hlorun.compare(before, after)
    assert [(m.a.name, m.b.name, m.by) for m in found.matches][:1] == [("sine.1", "fused", "origin")]


def test_modules_with_other_parameters_are_told_apart_in_a_sentence(tmp_path: Path) -> None:
    one = hlorun.parse("ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }")
    two = hlorun.parse(
        "ENTRY e { x = f32[4] parameter(0) y = f32[5] parameter(1) ROOT n = f32[4] negate(x) }"
    )
    wide = hlorun.parse("ENTRY e { z = f32[9] parameter(0) ROOT n = f32[9] negate(z) }")
    with pytest.raises(
        hlorun.HloArgumentError, match=r"A has 1 parameter and B 2; only B has .* 1, y f32\[5\]"
    ):
        hlorun.compare(one, two)
    with pytest.raises(hlorun.HloArgumentError, match=r"parameter 0 is x f32\[4\] in A and z f32\[9\] in B"):
        hlorun.bisect(wide, against=one)
    laid_out = hlorun.parse("ENTRY e { x = f32[4]{0:T(4)} parameter(0) ROOT n = f32[4] negate(x) }")
    assert hlorun.compare(one, laid_out).verdict == "equal"
    for name, module in (("one", one), ("wide", wide)):
        (tmp_path / f"{name}.hlo").write_text(str(module))
    found = command("diff", "--run", *(str(tmp_path / f"{name}.hlo") for name in ("one", "wide")))
    assert found.returncode == 1 and "parameter 0 is x f32[4] in A and z f32[9] in B" in found.stderr


def test_files_of_another_kind_are_not_overwritten(tmp_path: Path) -> None:
    right, wrong, notes = (tmp_path / name for name in ("right.hlo", "wrong.hlo", "notes.txt"))
    right.write_text(NET)
    wrong.write_text(NET.replace("subtract(t, m)", "subtract(m, t)"))
    notes.write_text("mine")
    search = ["bisect", str(wrong), "--against", str(right), "--out"]
    for words in ([*search, str(notes)], ["reduce", str(right), "--check", "true", "--out", str(notes)]):
        found = command(*words)
        assert found.returncode == 1 and "left as it is" in found.stderr, found.stderr
        assert notes.read_text() == "mine"
    found = command(*search, str(tmp_path / "part.npz"))
    assert found.returncode == 2 and not (tmp_path / "part.npz").exists()
    operands = tmp_path / "part.npz"
    operands.write_text("mine")
    found = command(*search, str(tmp_path / "part.hlo"))
    assert found.returncode == 1 and "part.npz" in found.stderr and operands.read_text() == "mine"


def test_wrong_usage_ends_with_status_2(tmp_path: Path) -> None:
    path = tmp_path / "net.hlo"
    path.write_text(NET)
    for words in (
        ["trace", str(path), "--by", "colour"],
        ["nan", str(path), "--inputs", "noise"],
        ["compare", str(path), str(path), "--timeout", "-1"],
        ["reduce", str(path), "--check", "no-such-program-at-all"],
        ["reduce", str(path), "--check", "'"],
        ["diff", str(path), str(path), str(path)],
        ["bisect", str(tmp_path), "--against", str(path)],
    ):
        assert command(*words).returncode == 2, words
    found = command("nan", str(path), "--timeout", "0")
    assert found.returncode == 1 and "there may be more" in found.stdout


def test_operands_inside_a_loop_are_saved() -> None:
    wrong = hlorun.parse(LOOP.replace("log(low)", "sine(low)"))
    found = hlorun.bisect(wrong, against=hlorun.parse(LOOP))
    assert found.culprit == "root" and found.module is not None and len(found.inputs) == 1


def test_two_modules_of_several_devices_are_compared_and_bisected() -> None:
    right, wrong = hlorun.parse(PARTS), hlorun.parse(PARTS.replace("tanh(%g)", "sine(%g)"))
    assert hlorun.compare(right, right).verdict == "equal"
    found = hlorun.compare(right, wrong)
    assert found.verdict == "different" and found.suspect is not None and found.suspect.name == "t"
    assert found.outputs[0].index and len(found.outputs[0].index) == 3
    groups = hlorun.parse(PARTS.replace("{{0,2},{1,3}}", "{{0,1},{2,3}}"))
    assert hlorun.compare(right, groups).verdict == "different"
    part = hlorun.bisect(wrong, against=right)
    assert part.culprit == "t" and part.module is not None and len(part.inputs) == 1
    assert hlorun.bisect(right).culprit is None


def test_wide_instructions_after_a_fault_are_held_against_each_other_once() -> None:
    def text(first: str) -> str:
        width, depth = 24, 40
        lines = ["HloModule m", "ENTRY e {", "x = f32[4] parameter(0)", f"s0 = f32[4] {first}(x)"]
        lines += [f"a{k} = f32[4] cosine({'s0' if k == 0 else f'a{k - 1}'})" for k in range(width)]
        before = [f"a{k}" for k in range(width)]
        for level in range(depth):
            joined = f"f32[{4 * width}] concatenate({', '.join(before)}), dimensions={{0}}"
            lines += [
                f"j{level} = {joined}",
                f"p{level} = f32[4] slice(j{level}), slice={{[{level}:{level + 4}]}}",
            ]
            before = [*before[1:], f"p{level}"]
        return "\n".join([*lines, f"ROOT r = f32[4] sine(p{depth - 1})", "}"])

    x = Stream("wide").normal((4,))
    found = hlorun.compare(hlorun.parse(text("sine")), hlorun.parse(text("tanh")), x, timeout=60)
    assert found.suspect is not None and found.suspect.name == "s0"
