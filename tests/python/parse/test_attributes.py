"""Every opcode takes the attributes that jaxlib's parser takes, and those of other years."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hlorun

sys.path.insert(0, str(Path(__file__).parent))

import attributes_vs_jaxlib as attributes

STORED = json.loads(attributes.STORE.read_text())
NAMES = sorted(
    {name for row in STORED["opcodes"].values() for name in row} - {"convolution_kind", "sparsity_config"}
)


def refused(opcode: str, name: str) -> bool:
    """Whether hlorun says that the opcode has no such attribute."""
    operands = {"parameter": "1", "constant": "{1,2,3,4}"}.get(opcode, "x")
    text = f"HloModule m\n\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] {opcode}({operands}), {name}=@\n}}\n"
    try:
        hlorun.parse(text, strict=True)
    except hlorun.HloParseError as error:
        return f"{opcode} has no attribute '{name}'" in str(error)
    return False


@pytest.mark.parametrize("opcode", STORED["opcodes"])
def test_attributes_are_those_of_jaxlib(opcode: str) -> None:
    allowed = set(STORED["opcodes"][opcode]) | set(STORED["common"])
    for name in NAMES:
        if name in allowed:
            assert not refused(opcode, name), name


@pytest.mark.parametrize(
    "opcode", ["add", "negate", "copy", "constant", "select", "slice", "pad", "iota", "while", "compare"]
)
def test_others_are_refused_when_strict_and_kept_otherwise(opcode: str) -> None:
    allowed = set(STORED["opcodes"][opcode]) | set(STORED["common"])
    for name in NAMES:
        assert refused(opcode, name) == (name not in allowed), name


def test_a_foreign_attribute_is_a_warning() -> None:
    text = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] negate(x), dimensions={0}\n}\n"
    module = hlorun.parse(text)
    assert [message for message, _ in module.warnings] == ["negate has no attribute 'dimensions'"]


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("api_version=api_version_typed_ffi", "api_version=API_VERSION_TYPED_FFI"),
        ("schedule=schedule_latest", "schedule=SCHEDULE_LATEST"),
        ("operand_precision={HIGHEST,Default}", "operand_precision={highest,default}"),
    ],
)
def test_words_in_capitals_are_printed_as_xla_does(written: str, printed: str) -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n"
        f'  ROOT r = f32[4] custom-call(x), custom_call_target="t", {written}\n}}\n'
    )
    assert f", {printed}" in hlorun.parse(text, strict=True).to_string()
