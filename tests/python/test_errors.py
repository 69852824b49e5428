"""Malformed texts and wrong arguments: a typed error with its place, never a crash."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import hlorun

Texts = dict[str, str]


def _after(text: str, mark: str, count: int = 0) -> str:
    """The text cut off `count` characters after a mark."""
    return text[: text.index(mark) + len(mark) + count]


def _swap(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


ADD = "  add.3 = f32[] add(param_0_0, param_0_1)"

PARSE: list[tuple[str, Callable[[Texts], str | bytes], str]] = [
    ("empty", lambda t: "", "empty|no module|HloModule|computation"),
    ("blank", lambda t: "\n \t\n", "empty|no module|HloModule|computation"),
    ("cut in the header", lambda t: t["001"][:9], "name"),
    ("cut before the first brace", lambda t: _after(t["001"], "horizontally_fused_computation"), "."),
    ("cut in a shape", lambda t: _after(t["001"], "param_0_0 = f32["), "."),
    ("cut in an opcode", lambda t: _after(t["001"], "add.3 = f32[] ad"), "."),
    ("cut in the operands", lambda t: _after(t["001"], "add(param_0_0,"), "."),
    ("cut in an attribute's name", lambda t: _after(t["001"], "add(param_0_0, param_0_1), met"), "."),
    ("cut in a string", lambda t: _after(t["001"], 'metadata={op_type="Assign'), "."),
    ("cut in the metadata", lambda t: _after(t["001"], 'metadata={op_type="AssignAddVariableOp"'), "."),
    ("cut in a backend_config", lambda t: _after(t["001"], 'backend_config="{\\"alpha_real'), "."),
    ("cut before the last brace", lambda t: t["001"].rstrip().removesuffix("}"), "}|end"),
    ("cut in the middle of 003", lambda t: t["003"][: len(t["003"]) // 2], "."),
    ("cut in the middle of 004", lambda t: t["004"][: len(t["004"]) // 2], "."),
    ("an undefined operand", lambda t: _swap(t["001"], "add(param_0_0, ", "add(param_9_9, "), "param_9_9"),
    ("an undefined computation", lambda t: _swap(t["001"], "calls=fused_computation.3", "calls=nowhere"), "nowhere"),
    ("a duplicate name", lambda t: _swap(t["001"], "param_0_1 = f32[]", "param_0_0 = f32[]"), "param_0_0"),
    ("an unknown element type", lambda t: _swap(t["001"], "add.3 = f32[]", "add.3 = f99[]"), "f99"),
    ("a negative dimension", lambda t: _swap(t["001"], "reshape.1 = f32[1]", "reshape.1 = f32[-1]"), "."),
    ("a dimension beyond 64 bits", lambda t: _swap(t["001"], "reshape.1 = f32[1]", f"reshape.1 = f32[{10**30}]"), "."),
    ("two opening brackets", lambda t: _swap(t["001"], "add.3 = f32[]", "add.3 = f32[[]"), "."),
    ("a missing equals sign", lambda t: _swap(t["001"], "add.3 = f32[]", "add.3 f32[]"), "="),
    ("a literal that is no number", lambda t: _swap(t["001"], "constant(32)", "constant(many)"), "many"),
    ("a literal of too many elements", lambda t: _swap(t["001"], "constant(32)", "constant({32, 32})"), "."),
    ("two roots", lambda t: _swap(t["001"], "  add.4 = ", "  ROOT add.4 = "), "ROOT|root"),
    ("binary bytes", lambda t: bytes(range(256)) * 100, "."),
    ("zeros in the text", lambda t: t["001"].encode().replace(b"add(", b"a\0d(", 1), "."),
    ("ten million open braces", lambda t: "{" * 10_000_000, "."),
    ("ten million open parentheses", lambda t: "HloModule m\nENTRY e {\n a = " + "(" * 10_000_000, "."),
    ("ten million open braces in a literal", lambda t: "HloModule m\nENTRY e {\n a = f32[1] constant(" + "{" * 10**7, "."),
    ("ten million open braces in an attribute", lambda t: "HloModule m\nENTRY e {\n a = f32[1] parameter(0), metadata=" + "{" * 10**7, "."),
]  # fmt: skip


@pytest.mark.parametrize(("make", "names"), [case[1:] for case in PARSE], ids=[case[0] for case in PARSE])
def test_malformed_texts(texts: Texts, make: Callable[[Texts], str | bytes], names: str) -> None:
    text = make(texts)
    with pytest.raises(hlorun.HloParseError, match=names) as caught:
        hlorun.parse(text, filename="bad.txt")
    error = caught.value
    lines = text.count("\n") + 1 if isinstance(text, str) else text.count(b"\n") + 1
    assert isinstance(error, ValueError)
    assert error.filename == "bad.txt"
    assert 1 <= error.lineno <= lines
    assert error.offset >= 1
    assert len(error.text) <= 260
    assert error.message
    assert f"bad.txt:{error.lineno}:{error.offset}" in str(error)


def test_nesting_of_any_depth_costs_no_stack() -> None:
    depth = 10**6
    text = f"HloModule m\nENTRY e {{\n ROOT a = {'(' * depth}f32[]{')' * depth} parameter(0)\n}}"
    module = hlorun.parse(text)
    assert module["a"].shape.is_tuple
    assert str(module["a"].shape)[:5] == "((((("
    with pytest.raises(hlorun.HloError):
        hlorun.compile(module)(1.0)


VERIFY: list[tuple[str, Callable[[Texts], str], str]] = [
    ("a wrong shape", lambda t: _swap(t["001"], "add.3 = f32[]", "add.3 = f32[7]"), "add.3"),
    ("a wrong element type", lambda t: _swap(t["001"], "add.3 = f32[]", "add.3 = s32[]"), "add.3"),
    ("an unknown opcode", lambda t: _swap(t["001"], "f32[] add(param_0_0", "f32[] addd(param_0_0"), "addd"),
    ("a cycle", lambda t: _swap(t["001"], "add(param_0_0, param_0_1)", "add(reshape.1, param_0_1)"), "cycle|itself|before"),
    ("one operand too few", lambda t: _swap(t["001"], "add(param_0_0, param_0_1)", "add(param_0_0)"), "add.3"),
    ("a tuple index out of range", lambda t: _swap(t["001"], "get-tuple-element(reduce.47), index=1", "get-tuple-element(reduce.47), index=5"), "get-tuple-element.48"),
    ("a dimension out of range", lambda t: _swap(t["001"], "broadcast(arg2.3), dimensions={1}", "broadcast(arg2.3), dimensions={4}"), "broadcast.15"),
    ("a slice beyond the end", lambda t: _swap(t["001"], "slice={[1:2]}", "slice={[1:9]}"), "slice.1"),
    ("a callee of another signature", lambda t: _swap(t["001"], "to_apply=minmax_func.35", "to_apply=max_float_.106"), "reduce.47"),
    ("a computation that calls itself", lambda t: RECURSIVE, "cycle|itself|recurs"),
]  # fmt: skip

RECURSIVE = """HloModule m

f {
  x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply=f
}

ENTRY e {
  a = f32[] parameter(0)
  ROOT b = f32[] call(a), to_apply=f
}
"""


@pytest.mark.parametrize(("make", "names"), [case[1:] for case in VERIFY], ids=[case[0] for case in VERIFY])
def test_illegal_modules(texts: Texts, make: Callable[[Texts], str], names: str) -> None:
    text = make(texts)
    with pytest.raises(hlorun.HloError, match=names) as caught:
        hlorun.parse(text, filename="bad.txt").verify()
    error = caught.value
    if isinstance(error, hlorun.HloVerifyError):
        assert error.errors
        assert all(finding.message for finding in error.errors)
        assert error.errors[0].lineno >= 1
    else:
        assert isinstance(error, hlorun.HloParseError)
        assert error.lineno >= 1
    with pytest.raises(hlorun.HloError):
        hlorun.compile(hlorun.parse(text))


def test_all_broken_rules_are_reported_at_once(texts: Texts) -> None:
    text = _swap(texts["001"], "add.3 = f32[]", "add.3 = f32[7]")
    text = _swap(text, "slice={[1:2]}", "slice={[1:9]}")
    with pytest.raises(hlorun.HloVerifyError) as caught:
        hlorun.parse(text).verify()
    instructions = {finding.instruction for finding in caught.value.errors}
    assert {"add.3", "slice.1"} <= instructions


def test_errors_pickle() -> None:
    with pytest.raises(hlorun.HloParseError) as caught:
        hlorun.parse("HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] add(a, zz)\n}")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is hlorun.HloParseError
    assert str(again) == str(caught.value)
    assert (again.lineno, again.offset) == (5, 26)


def test_a_did_you_mean_is_given() -> None:
    with pytest.raises(hlorun.HloParseError, match="weights"):
        hlorun.parse(
            "HloModule m\n\nENTRY e {\n  weights = f32[2] parameter(0)\n  ROOT b = f32[2] abs(weight)\n}"
        )


ADDER = """HloModule m

ENTRY e {
  x = f32[2,3] parameter(0)
  n = s32[] parameter(1)
  y = f32[] parameter(2)
  ROOT t = (f32[2,3], s32[], f32[]) tuple(x, n, y)
}
"""
X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((X, 1), "3"),
        ((X, 1, 1.0, 2), "3.*4|4.*3"),
        ((X.astype(np.float64), 1, 1.0), r"0 \(x\).*f32\[2,3\].*float64"),
        ((X.T, 1, 1.0), r"0 \(x\).*f32\[2,3\].*\[3,2\]"),
        ((X[None], 1, 1.0), r"0 \(x\).*\[1,2,3\]"),
        ((1.0, 1, 1.0), r"0 \(x\).*float"),
        (([[0.0] * 3] * 2, 1, 1.0), r"0 \(x\).*list"),
        (("text", 1, 1.0), r"0 \(x\).*str"),
        ((None, 1, 1.0), r"0 \(x\).*None"),
        ((X, 2**31, 1.0), r"1 \(n\).*s32\[\].*2147483648"),
        ((X, 1.5, 1.0), r"1 \(n\).*s32\[\].*float 1.5"),
        ((X, True, 1.0), r"1 \(n\).*bool"),
        ((X, np.int64(1), 1.0), r"1 \(n\).*int64"),
        ((X, 1, 1j), r"2 \(y\).*complex"),
        ((X, 1, 1e300), r"2 \(y\).*1e\+300"),
        ((X, 1, object()), r"2 \(y\).*object"),
        ((X.astype(">f4"), 1, 1.0), r"0 \(x\).*>f4"),
    ],
)
def test_wrong_arguments(arguments: tuple[object, ...], says: str) -> None:
    executable = hlorun.compile(hlorun.parse(ADDER))
    with pytest.raises(hlorun.HloArgumentError, match=says) as caught:
        executable(*arguments)
    assert isinstance(caught.value, TypeError)


def test_wrong_names() -> None:
    executable = hlorun.compile(hlorun.parse(ADDER))
    with pytest.raises(hlorun.HloArgumentError, match="y"):
        executable.run({"x": X, "n": 1})
    with pytest.raises(hlorun.HloArgumentError, match="z"):
        executable.run({"x": X, "n": 1, "y": 1.0, "z": 2})
