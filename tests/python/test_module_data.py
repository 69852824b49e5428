"""Modules as data: equality, pickling, records, notebooks, several modules in a text."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import hlorun

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }

FileNames
1 "f.py"

FunctionNames
1 "g"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

ENTRY %main (p: f32[2,3], q: f32[3]) -> (f32[2,3], f32[3]) {
  %p = f32[2,3]{1,0} parameter(0)
  %q = f32[3]{0} parameter(1)
  %z = f32[] constant(0)
  %r = f32[3]{0} reduce(%p, %z), dimensions={0}, to_apply=%add, metadata={op_name="<sum>" stack_frame_id=1}
  ROOT %o = (f32[2,3]{1,0}, f32[3]{0}) tuple(%p, %r)
}
"""


@pytest.fixture
def module() -> hlorun.HloModule:
    return hlorun.parse(TEXT)


def test_modules_of_equal_text_are_equal(module: hlorun.HloModule) -> None:
    again = hlorun.parse(TEXT)
    assert module == again and hash(module) == hash(again)
    assert len({module, again}) == 1
    for change in (
        ("f32[] constant(0)", "f32[] constant(1)"),
        ("<sum>", "sum"),
        ("add(%x, %y)", "add(%y, %x)"),
    ):
        assert module != hlorun.parse(TEXT.replace(*change))
    assert module != TEXT


def test_everything_of_a_module_pickles(module: hlorun.HloModule) -> None:
    r = module["r"]
    assert isinstance(r, hlorun.HloInstruction)
    assert pickle.loads(pickle.dumps(module)) == module
    again = pickle.loads(pickle.dumps(r))
    assert str(again) == str(r) and again.metadata == r.metadata
    assert again.computation.name == "main" and again.operands[0].name == "p"
    assert pickle.loads(pickle.dumps(r.metadata)).op_name == "<sum>"
    entry = pickle.loads(pickle.dumps(module.entry_computation))
    assert entry.name == "main" and entry.is_entry and len(entry) == 5
    for shape in (r.shape, module["o"].shape, r.shape.layout):
        assert pickle.loads(pickle.dumps(shape)) == shape
    assert pickle.loads(pickle.dumps(module.input_output_alias)) == module.input_output_alias


def test_instructions_of_one_module_pickle_into_one_list(module: hlorun.HloModule) -> None:
    again = pickle.loads(pickle.dumps(module.instructions))
    assert [str(i) for i in again] == [str(i) for i in module.instructions]
    assert len(pickle.dumps(module.instructions)) < 2 * len(TEXT) + 60 * module.instruction_count
    assert all(operand in again for instruction in again for operand in instruction.operands)


@pytest.mark.parametrize(
    "text", ["f32[2,3]{1,0}", "pred[]", "(s32[], (bf16[4]{0}, token[]))", "f32[<=8]{0}", "u4[8]{0:E(4)}"]
)
def test_shapes_are_read_from_text(text: str) -> None:
    shape = hlorun.Shape(text)
    assert str(shape) == text and shape == hlorun.Shape(text) and hash(shape) == hash(hlorun.Shape(text))


@pytest.mark.parametrize("text", ["", "f32", "f32[2", "f32[2]{1,0}", "f32[2]{0} parameter(0)", "q7[2]"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(hlorun.HloParseError):
        hlorun.Shape(text)


@pytest.mark.parametrize("text", ["{1,0}", "{}", "{1,0:T(8,128)}", "{0,1:S(5)}", "{0:E(4)}"])
def test_layouts_are_read_from_text(text: str) -> None:
    layout = hlorun.Layout(text)
    assert str(layout) == text and layout == hlorun.Layout(text)


@pytest.mark.parametrize("text", ["", "{", "1,0", "{2,0}", "{0} x"])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises((hlorun.HloParseError, ValueError)):
        hlorun.Layout(text)


def test_records_have_names(module: hlorun.HloModule) -> None:
    (alias,) = module.input_output_alias
    assert (alias.output_index, alias.parameter_number, alias.kind) == ((0,), 0, "may-alias")
    assert tuple(alias) == ((0,), 0, (), "may-alias")
    (donor,) = module.buffer_donor
    assert donor.parameter_number == 1 and donor.parameter_index == ()
    frame = module["r"].metadata.stack_frames[0]
    assert (frame.file, frame.function, frame.line, frame.column) == ("f.py", "g", 3, 1)
    (warning,) = hlorun.parse(
        "HloModule m\nENTRY e { ROOT p = f32[] parameter(0), new_attribute=7 }"
    ).warnings
    assert "new_attribute" in warning.text or "new_attribute" in warning.message


def test_notebooks_get_tables_and_completions(module: hlorun.HloModule) -> None:
    entry = module.entry_computation
    assert entry is not None
    assert "<table>" in module._repr_html_() and "main" in module._repr_html_()
    page = entry._repr_html_()
    assert "&lt;sum&gt;" in page and "<sum>" not in page and page.count("<tr>") == 1 + len(entry)
    assert set(module._ipython_key_completions_()) >= {"add", "main", "x", "o"}
    assert entry._ipython_key_completions_() == ["p", "q", "z", "r", "o"]


def test_several_modules_of_a_text() -> None:
    one = "HloModule {}\nENTRY e {{ ROOT p = f32[{}] parameter(0) }}\n"
    for divider in ("\n", "// -----\n"):
        text = divider.join(one.format(name, size) for name, size in (("a", 1), ("b", 2), ("c", 3)))
        modules = hlorun.parse_modules(text)
        assert [m.name for m in modules] == ["a", "b", "c"]
        assert [pickle.loads(pickle.dumps(m)) == m for m in modules] == [True] * 3
        assert hlorun.run(modules[1], np.ones(2, np.float32)).tolist() == [1, 1]
    with pytest.raises(hlorun.HloParseError, match="parse_modules"):
        hlorun.parse(text)
    assert [m.name for m in hlorun.parse_modules(one.format("a", 1))] == ["a"]


def test_files_of_several_modules(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text("HloModule a\nENTRY e { ROOT p = f32[] parameter(0) }\n" * 2)
    assert len(hlorun.load_modules(path)) == 2


def test_modules_are_equal_whatever_numbers_their_stack_frames_have() -> None:
    module = hlorun.load(Path(__file__).parents[1] / "hlo" / "print" / "stack_frames.hlo")
    again = hlorun.parse(module.to_string())
    assert again == module and hlorun.parse(again.to_string()) == again
    other = hlorun.parse(module.to_string().replace("line=3", "line=30"))
    assert other != module


@pytest.mark.parametrize("preset", ["default", "short_parsable"])
def test_names_of_digits_read_back(preset: str) -> None:
    module = hlorun.parse(
        "HloModule m\n%1 { ROOT %0 = f32[2] parameter(0) }\n"
        "ENTRY %2 { %0 = f32[2] parameter(0)\n %7 = f32[2] call(%0), to_apply=%1\n"
        " ROOT %8 = f32[2] negate(%7), control-predecessors={%0} }"
    )
    text = module.to_string(preset)
    assert hlorun.parse(text).to_string(preset) == text
    assert hlorun.parse(module.to_string()) == module
