"""Malformed texts and wrong arguments: a typed error with its place, never a crash."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

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


def _doubling_calls(levels: int) -> str:
    """Each computation calls the one before twice: 2^levels bodies once they stand in place."""
    parts = ["HloModule m", "f0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}"]
    for i in range(1, levels):
        call = f"call({{}}), to_apply=f{i - 1}"
        once, twice = call.format("x"), call.format("y")
        parts.append(f"f{i} {{\n  x = f32[] parameter(0)\n  y = f32[] {once}\n  ROOT z = f32[] {twice}\n}}")
    parts.append(
        f"ENTRY e {{\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=f{levels - 1}\n}}"
    )
    return "\n".join(parts)


def _nested_loops(levels: int) -> str:
    """A loop whose body is a loop, and so on."""
    parts = [
        "HloModule m",
        "c {\n  i = s32[] parameter(0)\n  one = s32[] constant(1)\n  ROOT less = pred[] compare(i, one), direction=LT\n}",
        "f0 {\n  i = s32[] parameter(0)\n  one = s32[] constant(1)\n  ROOT next = s32[] add(i, one)\n}",
    ]
    for i in range(1, levels + 1):
        head = "ENTRY e" if i == levels else f"f{i}"
        parts.append(
            f"{head} {{\n  i = s32[] parameter(0)\n  ROOT w = s32[] while(i), condition=c, body=f{i - 1}\n}}"
        )
    return "\n".join(parts)


GEMM = """HloModule m

ENTRY e {
  a = f32[4,8] parameter(0)
  b = f32[8,6] parameter(1)
  ROOT product = f32[4,6] custom-call(a, b), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
}
"""

CUDNN = """HloModule m

ENTRY e {
  a = f32[1,3,9,9] parameter(0)
  b = f32[8,3,3,3] parameter(1)
  ROOT conv = (f32[1,8,7,7], u8[0]) custom-call(a, b), custom_call_target="__cudnn$convForward", window={size=3x3}, dim_labels=bf01_oi01->bf01
}
"""

COMPILE: list[tuple[str, str, str]] = [
    ("calls that double on every level", _doubling_calls(60), "calls expand to more than"),
    ("loops in loops in loops", _nested_loops(5000), "control flow nests deeper"),
]

CALLS: list[tuple[str, str, str]] = [
    ("a product over a dimension that is not there", GEMM.replace('["1"]', '["9"]'), "product"),
    ("a product over a negative dimension", GEMM.replace('["0"]', '["-1"]'), "product"),
    ("a product of sizes that do not fit", GEMM.replace("f32[8,6]", "f32[7,6]"), "product"),
    ("a product over one dimension twice", GEMM.replace('["1"]', '["1","1"]'), "product"),
    ("a product of another size", GEMM.replace("f32[4,6]", "f32[5,6]"), "product"),
    ("a window of cuDNN that makes more", CUDNN.replace("size=3x3", "size=3x3 pad=1_1x0_0"), "conv"),
    ("a window of cuDNN that overflows", CUDNN.replace("size=3x3", f"size=3x3 pad={2**63 - 1}_0x0_0"), "conv"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
def test_calls_of_libraries_are_verified(text: str, names: str) -> None:
    module = hlorun.parse(text)
    with pytest.raises(hlorun.HloVerifyError, match=names):
        module.verify()
    with pytest.raises(hlorun.HloVerifyError, match=names):
        hlorun.compile(module)


@pytest.mark.parametrize(("text", "names"), [case[1:] for case in COMPILE], ids=[case[0] for case in COMPILE])
def test_what_only_the_plan_can_refuse(text: str, names: str) -> None:
    with pytest.raises(hlorun.HloUnsupportedError, match=names):
        hlorun.compile(hlorun.parse(text))


def test_what_they_were_made_from_compiles() -> None:
    for text in (_doubling_calls(4), _nested_loops(40), GEMM, CUDNN):
        hlorun.compile(hlorun.parse(text))


def test_mlir_is_told_apart() -> None:
    for text in ("module @jit_f attributes {} {\n}", "#loc = loc(unknown)\nmodule {\n}"):
        with pytest.raises(hlorun.HloParseError, match="MLIR"):
            hlorun.parse(text)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"BufferAssignment:\nallocation 0: size 4:\n", "buffer assignment"),
        ("HloModule m\n".encode("utf-16"), "UTF-16"),
        (b"\n\x05jit_f\x12\x04main\x1a", "binary"),
    ],
)
def test_other_files_are_told_apart(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(data)
    with pytest.raises(hlorun.HloParseError, match=what):
        hlorun.load(path)


@pytest.mark.parametrize(
    ("target", "operands"),
    [
        ("lapack_strsm_ffi", "a, b"),
        ("lapack_sormqr_ffi", "a, t, b"),
        ("__cublas$triangularSolve", "a, b"),
        ("__cusolver$cholesky", "a"),
        ("__cublas$gemm", "a, b"),
    ],
)
def test_options_the_text_leaves_out_are_not_guessed(target: str, operands: str) -> None:
    module = hlorun.parse(f"""HloModule m
ENTRY e {{
  a = f32[2,2] parameter(0)
  b = f32[2,2] parameter(1)
  t = f32[2] parameter(2)
  ROOT r = f32[2,2] custom-call({operands}), custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI
}}""")
    with pytest.raises(hlorun.HloUnsupportedError, match="backend_config"):
        hlorun.compile(module)


def test_dimensions_without_a_bound_are_named() -> None:
    module = hlorun.parse("HloModule m\nENTRY e { ROOT x = f32[?] parameter(0) }")
    with pytest.raises(hlorun.HloUnsupportedError, match="without a bound"):
        hlorun.compile(module)


def test_what_a_text_leaves_out_is_printed_as_xla_prints_it() -> None:
    text = """HloModule named:

ENTRY e {
  a = f32[4,3]{0,1} parameter(0)
  b = f32[4,3]{0,1} broadcast(f32[] constant(1))
  ROOT c = f32[4,3]{0,1} add(a, b)
}
"""
    printed = str(hlorun.parse(text))
    head = "HloModule named, entry_computation_layout={(f32[4,3]{0,1})->f32[4,3]{0,1}}"
    assert printed.splitlines()[0] == head
    assert "broadcast(%constant.anon), dimensions={}" in printed
    # XLA takes another way to the layouts where the header asks for a configuration.
    printed = str(hlorun.parse(text.replace("named:", "named, replica_count=2")))
    assert "entry_computation_layout={(f32[4,3]{1,0})->f32[4,3]{1,0}}" in printed.splitlines()[0]


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
