"""Modules that ought to be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from hlorun.cli import app

TEXT = """HloModule step, is_scheduled=true

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

ENTRY main {
  p = f32[8] parameter(0)
  a = f32[8] all-reduce(p), channel_id=1, replica_groups={{0,1}}, to_apply=add
  b = f32[8] all-reduce(a), channel_id=2, replica_groups={{0,1}}, to_apply=add
  ROOT r = f32[8] tanh(b)
}
"""
RENAMED = TEXT.replace("tanh(b)", 'tanh(b), metadata={op_name="x"}')
OTHERS = {
    "collectives": (TEXT.replace("channel_id=2", "channel_id=3"), "b"),
    "interface": (
        TEXT.replace("ROOT r", "r").replace("tanh(b)", "tanh(b)\n  ROOT t = (f32[8]) tuple(r)"),
        "r",
    ),
    "values": (TEXT.replace("tanh(b)", "sine(b)"), "r"),
}
"""Another text for each effect, and the instruction that differs in both."""
SECOND = "  b = f32[8] all-reduce(a), channel_id=2, replica_groups={{0,1}}, to_apply=add\n"


def test_ranks_that_are_the_same_are_one_group() -> None:
    found = hlorun.diff_ranks({"0": hlorun.parse(TEXT), "1": hlorun.parse(RENAMED)})
    assert not found and found.groups[0].names == ("0", "1")
    assert found.groups[0].effect == "" and found.elided_constants == 0


@pytest.mark.parametrize("effect", OTHERS)
def test_what_is_other_is_named_and_whether_it_matters(effect: str) -> None:
    text, at = OTHERS[effect]
    ranks = {"0": hlorun.parse(TEXT), "1": hlorun.parse(text), "2": hlorun.parse(RENAMED)}
    same, other = hlorun.diff_ranks(ranks).groups
    assert same.names == ("0", "2") and other.names == ("1",) and other.effect == effect
    assert other.at is not None and other.at.name == at
    assert other.instead_of is not None and other.instead_of.name == at


def test_a_collective_that_is_not_there_is_told() -> None:
    fewer = TEXT.replace(SECOND, "").replace("tanh(b)", "tanh(a)")
    ranks = {"0": hlorun.parse(TEXT), "1": hlorun.parse(TEXT), "2": hlorun.parse(fewer)}
    other = hlorun.diff_ranks(ranks).groups[1]
    assert other.effect == "collectives" and other.at is None
    assert other.instead_of is not None and other.instead_of.name == "b"


def test_another_order_of_what_depends_on_nothing_is_only_that() -> None:
    lines = "  c = f32[8] sine(p)\n  d = f32[8] cosine(p)\n"
    text = TEXT.replace("  a = f32", lines + "  a = f32").replace("tanh(b)", "add(c, d)")
    swapped = "".join(lines.splitlines(keepends=True)[::-1])
    ranks = {"0": hlorun.parse(text), "1": hlorun.parse(text.replace(lines, swapped))}
    assert [group.effect for group in hlorun.diff_ranks(ranks).groups] == ["", "order"]


def test_one_module_has_nothing_to_differ_from() -> None:
    with pytest.raises(hlorun.HloArgumentError, match="two modules or more, got 1"):
        hlorun.diff_ranks({"0": hlorun.parse(TEXT)})


def test_the_shell_groups_files(tmp_path: Path) -> None:
    texts = {"0": TEXT, "1": RENAMED, "2": OTHERS["collectives"][0]}
    paths = []
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.hlo")
        paths[-1].write_text(text)
    words = ["diff", *map(str, paths)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "its collectives differ" in done.output
    assert "has b = f32[8] all-reduce(a), channel_id=3" in done.output
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert [len(group["names"]) for group in found["groups"]] == [2, 1]
    done = CliRunner().invoke(app, ["diff", *map(str, paths[:2] + paths[:1])])
    assert done.exit_code == 2 and "is given twice" in done.output
    same = tmp_path / "3.hlo"
    same.write_text(TEXT)
    done = CliRunner().invoke(app, ["diff", *map(str, [*paths[:2], same])])
    assert done.exit_code == 0 and "3 files" in done.output
