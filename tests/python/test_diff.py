"""`hlorun diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import dump_path
from hlorun import compile, diff, load, parse
from test_cli import hlorun
from test_partitions import PARTITIONS

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


CALLS = """HloModule m
f { a = f32[3] parameter(0)
  ROOT b = f32[3] negate(a) }
g { a = f32[3] parameter(0)
  ROOT b = f32[3] cosine(a) }
ENTRY e { p = f32[3] parameter(0)
  c = f32[3] constant({0, nan, 3})
  k = f32[3] custom-call(p), custom_call_target="t", backend_config="one"
  s = f32[3] add(c, k), control-predecessors={p}
  x = f32[3] call(s), to_apply=f
  ROOT y = f32[3] call(x), to_apply=g }
"""


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("{0, nan, 3}", "{0, nan, 4}", "c"),
        ("{0, nan, 3}", "{-0, nan, 3}", "c"),
        ("{0, nan, 3}", "{0, -nan, 3}", "c"),
        ("{0, nan, 3}", "{0, nan(0x400001), 3}", "c"),
        ('"one"', '"two"', "k"),
        ('"t"', '"u"', "k"),
        ("predecessors={p}", "predecessors={c}", "s"),
        ("cosine", "sine", "b"),
        ("to_apply=g", "to_apply=f", "y"),
    ],
)
def test_what_is_called_the_same_is_the_same(tmp_path: Path, old: str, new: str, name: str) -> None:
    a = write(tmp_path / "a.txt", CALLS)
    b = write(tmp_path / "b.txt", CALLS.replace(old, new))
    assert load(a).fingerprint() != load(b).fingerprint()
    found = json.loads(hlorun("diff", a, b, "--json", status=1).stdout)
    changes = [change["name"] for part in found["differences"] for change in part.get("changes", [])]
    assert not found["identical"] and changes == [name, name]


def test_lines_are_hlo() -> None:
    text = (
        "HloModule m\nadd { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"
        "ENTRY e {\n  a = f32[8] parameter(0)\n  c = f32[8] negate(a)\n  ROOT b = f32[8] all-reduce(a), channel_id=1, "
        'replica_groups={{0,1}}, to_apply=add, control-predecessors={c}, metadata={op_name="x"}\n}\n'
    )
    other = text.replace("channel_id=1", "channel_id=2")
    (found,) = diff(parse(text), parse(other)).differences
    assert [change["text"] for change in found["changes"]] == [
        f"b = f32[8] all-reduce(a), channel_id={n}, replica_groups={{{{0,1}}}}, to_apply=add, control-predecessors={{c}}"
        for n in (1, 2)
    ]


def _fusions(count: int, lost: set[int], first: str = "") -> str:
    """A chain of fusions, some without their product, behind something that moves all of them."""
    text = "HloModule m\n"
    for k in range(count):
        product = "" if k in lost else "  m = f32[8] multiply(a, b)\n"
        text += f"f{k} {{\n  a = f32[8] parameter(0)\n  b = f32[8] parameter(1)\n{product}"
        text += f"  ROOT c = f32[8] add({'a' if k in lost else 'm'}, b)\n}}\n"
    text += f"ENTRY e {{\n  x = f32[8] parameter(0)\n{first}  x0 = f32[8] negate(x)\n"
    for k in range(count):
        text += f"  x{k + 1} = f32[8] fusion(x{k}, x), kind=kLoop, calls=f{k}\n"
    return text + f"  ROOT r = f32[8] negate(x{count})\n}}\n"


def test_repeated_changes_are_one_pattern(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", _fusions(60, set()))
    b = write(tmp_path / "b.txt", _fusions(60, set(range(5, 53))))
    (pattern,) = diff(load(a), load(b)).patterns
    assert pattern["side"] == "-" and pattern["callers"] == ["fusion"] and len(pattern["computations"]) == 48
    assert "multiply(a, b)" in pattern["text"]
    text = hlorun("diff", a, b, status=1).stdout
    assert "48 fusions" in text and "lost m = f32[8] multiply(a, b)" in text


def test_what_is_put_in_moves_nothing_else(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", _fusions(60, set()))
    # The last fusion reads another operand, and an instruction that comes first moves all the others.
    text = _fusions(60, set(), "  n = f32[8] tanh(x)\n").replace("fusion(x59, x)", "fusion(x59, x58)")
    (found,) = diff(load(a), load(write(tmp_path / "b.txt", text))).differences
    assert [(c["side"], c["name"]) for c in found["changes"]] == [("+", "n"), ("-", "x60"), ("+", "x60")]


def test_elided_constants_are_said_to_be(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", CALLS.replace("{0, nan, 3}", "{...}"))
    assert "but for the values of 1 constant" in hlorun("diff", a, a).stdout


def test_modules_of_partitions_run_on_them(tmp_path: Path) -> None:
    a = write(tmp_path / "a.txt", PARTITIONS)
    b = write(tmp_path / "b.txt", PARTITIONS.replace("add(x, f)", "subtract(x, f)"))
    found = json.loads(hlorun("diff", "--run", a, b, "--json", "--inputs", "zeros", status=1).stdout)
    assert [gap["output"] for gap in found["output_differences"]] == [0, 1, 2, 3]
    one = json.loads(hlorun("diff", "--run", a, b, "--json", "--inputs", "zeros", "--partitions", "1").stdout)
    assert one["equal"]
    c = write(tmp_path / "c.txt", PARTITIONS.replace("num_partitions=4", "num_partitions=2"))
    assert "--partitions" in hlorun("diff", "--run", a, c, status=1).stderr


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


def test_folders_are_compared_module_by_module(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    stage = "cpu_after_optimizations.txt"
    files = {
        (a, f"module_0001.jit_f.{stage}"): A,
        (b, f"module_0007.jit_f.{stage}"): A.replace("HloModule a", "HloModule b"),
        (a, f"module_0002.jit_g.{stage}"): A,
        (b, f"module_0003.jit_g.{stage}"): A.replace("tanh", "sine"),
        (a, "mine.hlo"): A,
        (b, "mine.hlo"): "nonsense",
        (a, "left.hlo"): A,
        (b, "right.hlo"): A,
    }
    for (folder, name), text in files.items():
        folder.mkdir(exist_ok=True)
        write(folder / name, text)
    shown = " ".join(hlorun("diff", a, b, status=1).stdout.split())
    assert "the same 1 module" in shown and "only in A left.hlo" in shown and "only in B right.hlo" in shown
    assert "different jit_g cpu_after_optimizations, 3 instructions: hlorun diff" in shown
    assert "not compared mine.hlo: " in shown
    found = json.loads(hlorun("diff", a, b, "--json", status=1).stdout)
    assert [(pair["name"].split()[0], pair["identical"]) for pair in found["modules"]] == [
        ("jit_f", True),
        ("jit_g", False),
        ("mine.hlo", False),
    ]
    assert (found["only_in_a"], found["only_in_b"]) == (["left.hlo"], ["right.hlo"])
    assert "the same" in hlorun("diff", a, a).stdout
    (tmp_path / "none").mkdir()
    assert "no HLO in this folder" in hlorun("diff", a, tmp_path / "none", status=1).stderr


def test_a_folder_of_one_module_is_compared_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    write(tmp_path / "one" / "a.hlo", A)
    file = write(tmp_path / "b.hlo", A)
    assert "same" in hlorun("diff", tmp_path / "one", file).stdout
