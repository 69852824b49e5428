"""`hlorun diff`."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import dump_path
from hlorun import compile, load
from test_cli import hlorun

A = """HloModule a
ENTRY e { p = f32[3] parameter(0)
  t = f32[3] tanh(p)
  ROOT r = f32[3] add(t, p) }
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_names_do_not_count(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", A)
    b = write(tmp_path / "b.txt", A.replace("t =", "u =").replace("(t, p)", "(u, p)"))
    assert "same" in hlorun("diff", a, b).stdout
    assert json.loads(hlorun("diff", dump_path("001"), dump_path("001"), "--json").stdout)["identical"]


def test_what_changed_is_listed(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", A)
    b = write(tmp_path / "b.txt", A.replace("tanh", "sine"))
    found = json.loads(hlorun("diff", a, b, "--json", status=1).stdout)
    assert found["opcodes"] == {"sine": [0, 1], "tanh": [1, 0]}
    (computation,) = found["differences"]
    assert [(c["side"], c["name"]) for c in computation["changes"]] == [("-", "t"), ("+", "t")]
    swapped = write(tmp_path / "c.txt", A.replace("(t, p)", "(p, t)"))
    text = hlorun("diff", a, swapped, status=1).stdout
    assert "- r = f32[3] add(t, p)" in text and "+ r = f32[3] add(p, t)" in text


def test_runs_diverge_at_an_instruction(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", A)
    b = write(tmp_path / "b.txt", A.replace("tanh", "negate"))
    found = json.loads(hlorun("diff", "--run", a, b, "--json", status=1).stdout)
    assert found["first_difference"]["name"] == "t" and found["different"] == 2
    assert found["output_differences"][0]["elements"] == 3
    assert "diverges at" in hlorun("diff", "--run", a, b, status=1).stdout
    assert json.loads(hlorun("diff", "--run", a, a, "--json").stdout)["equal"]


def test_assignments_are_compared(tmp_path: Path) -> None:
    dump = dump_path("002")
    assert json.loads(hlorun("diff", str(dump), str(dump), "--json").stdout)["equal"]
    other = tmp_path / "own.txt"
    own = compile(load(dump_path("001")))
    other.write_text(str(own.buffer_assignment()))
    found = json.loads(hlorun("diff", str(dump), str(other), "--json", status=1).stdout)
    assert not found["equal"] and found["only_in_a"]
    assert "only in A" in hlorun("diff", str(dump), str(other), status=1).stdout
