"""`hlorun extract`: parts that run by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun._inputs import random_inputs
from test_cli import hlorun as command


def leaves(value: Any) -> list[Any]:
    """The arrays of a value, in order."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    ("number", "name"), [("001", "cublas-gemm.7"), ("001", "fusion.3"), ("003", "%fusion.12")]
)
def test_an_instruction_has_the_value_it_has_in_the_whole(
    modules: dict[str, hlorun.HloModule], number: str, name: str
) -> None:
    module = modules[number]
    part = hlorun.extract(module, name)
    part.verify()
    whole, entry = module.entry_computation, part.entry_computation
    assert whole is not None and entry is not None
    arguments = dict(zip([p.name for p in whole.parameters], random_inputs(module), strict=True))
    values: dict[str, Any] = {}
    hlorun.compile(module)(*arguments.values(), observer=lambda i, v: values.update({i.name: v}))
    got = hlorun.compile(part)(*[arguments[p.name] for p in entry.parameters])
    expected = values.get(name.removeprefix("%"))
    if expected is not None:
        for x, y in zip(leaves(got), leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
    assert entry.root is not None and entry.root.name == name.removeprefix("%")


@pytest.mark.parametrize("number", ["001", "003"])
def test_every_computation_stands_alone(modules: dict[str, hlorun.HloModule], number: str) -> None:
    for computation in modules[number].computations:
        hlorun.extract(modules[number], computation.name).verify()


def test_operands_beyond_the_depth_become_parameters(modules: dict[str, hlorun.HloModule]) -> None:
    entry = hlorun.extract(modules["001"], "reduce.47", depth=1).entry_computation
    assert entry is not None
    assert [p.name for p in entry.parameters] == ["cublas-gemm.7", "iota.34"]


def test_a_loop_body_of_the_large_dump(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["004"]
    loop = next(i for c in module.computations for i in c.instructions if i.opcode == "while")
    part = hlorun.extract(module, loop.name, depth=1)
    part.verify()
    assert part.entry_computation is not None and part.entry_computation.root is not None
    assert part.entry_computation.root.opcode == "while"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "part.txt"
    command("extract", dump_path("001"), "fusion.1", "-o", out)
    assert "fusion.1" in command("run", out).stdout
    assert "did you mean" in command("extract", dump_path("001"), "fusion.33", status=1).stderr


HEADER = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={(f32[2,3]{0,1}, f32[4]{0})->(f32[4]{0}, f32[2,3]{1,0})}, num_partitions=2, frontend_attributes={a="b"}

FileNames
1 "unused.py"
2 "model.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=1}
2 {file_name_id=2 function_name_id=1 line=7 end_line=7 column=1 end_column=1}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

ENTRY %e (x: f32[2,3], y: f32[4]) -> (f32[4], f32[2,3]) {
  %x = f32[2,3]{0,1} parameter(0)
  %y = f32[4]{0} parameter(1)
  %s = f32[4]{0} negate(%y), metadata={op_name="s" stack_frame_id=1}
  %n = f32[2,3]{0,1} cosine(%x), control-predecessors={%s}, metadata={op_name="n" stack_frame_id=2}
  %c = f32[2,3]{1,0} copy(%n), control-predecessors={%n}
  ROOT %t = (f32[4]{0}, f32[2,3]{1,0}) tuple(%s, %c)
}
"""


def test_the_header_and_the_stack_frames_are_kept() -> None:
    """What it says of other parameters and results is not."""
    module = hlorun.parse(HEADER)
    assert hlorun.extract(module, "e").to_string() == module.to_string()
    part = hlorun.extract(module, "c")
    part.verify()
    assert part.name == "m.c" and part.is_scheduled and part.num_partitions == 2
    assert "input_output_alias" not in part.attributes
    assert part.attributes["entry_computation_layout"] == "{(f32[2,3]{0,1})->f32[2,3]{1,0}}"
    assert part.attributes["frontend_attributes"] == '{a="b"}'
    copy, cosine = part["c"], part["n"]
    assert cosine.metadata.stack_frames == (("model.py", "f", 7, 1),)
    assert copy.attributes["control-predecessors"] == (cosine,)
    assert "control-predecessors" not in cosine.attributes
    assert "unused.py" not in str(part)


def test_operands_may_follow_their_users() -> None:
    text = "HloModule m\nENTRY e {\n  ROOT r = f32[] negate(c)\n  c = f32[] cosine(p)\n  p = f32[] parameter(0)\n}"
    part = hlorun.extract(hlorun.parse(text), "r", depth=1)
    assert hlorun.run(part, np.float32(2)) == -2
    assert hlorun.run(hlorun.extract(hlorun.parse(text), "e"), np.float32(0)) == -1


def test_an_unknown_name_brings_a_close_one() -> None:
    module = hlorun.parse("ENTRY main { value = f32[2] parameter(0) ROOT out = f32[2] negate(value) }")
    for ask in (lambda name: module[name], lambda name: hlorun.extract(module, name)):
        with pytest.raises(KeyError, match="called valeu; did you mean value"):
            ask("valeu")
        with pytest.raises(KeyError, match="called nothing_near'"):
            ask("nothing_near")


def test_a_negative_count_is_an_error_of_its_value() -> None:
    module = hlorun.parse("ENTRY main { ROOT value = f32[2] parameter(0) }")
    with pytest.raises(ValueError, match="depth must be at least 0, not -1"):
        hlorun.extract(module, "value", depth=-1)
    with pytest.raises(ValueError, match="pass_limit must be at least 0, not -2"):
        hlorun.compile(module, pass_limit=-2)
