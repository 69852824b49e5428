"""Dump folders: what is in them, by module, stage and pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from hlorun._batch import find_files
from hlorun.cli import app
from hlorun.cli.common import each_file

TEXT = "HloModule jit_f.1\nENTRY e {{\n  p = f32[3] parameter(0)\n  {0}ROOT n = f32[3] negate({1})\n}}\n"
SMALL = TEXT.format("", "p")
LARGE = TEXT.format("a = f32[3] add(p, p)\n  ", "a")
ASSIGNMENT = "BufferAssignment:\nallocation 0: size 12, parameter 0, shape |f32[3]| at ShapeIndex {}:\n value: <0 p @0> (size=12,offset=0): f32[3]{0}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stem = "module_0007.jit_f.1"
    files = {
        f"{stem}.before_optimizations.txt": LARGE,
        f"{stem}.0000.simplification.after_pipeline-start.before_algsimp.txt": LARGE,
        f"{stem}.0002.simplification.after_algsimp.before_pipeline-end.txt": SMALL,
        f"{stem}.sm_8.0_gpu_after_optimizations.txt": SMALL,
        f"{stem}.sm_8.0_gpu_after_optimizations-buffer-assignment.txt": ASSIGNMENT,
        f"{stem}.sm_8.0_gpu_after_optimizations-memory-usage-report.txt": "",
        f"{stem}.sm_8.0_gpu_after_optimizations-memory-usage-report.pb": "",
        f"{stem}.debug_options": "",
        f"{stem}.ptx": "",
        f"{stem}.kernel.ir-no-opt.ll": "",
        f"{stem}/thunk_sequence.txt": "",
        "module_0009.jit_g.before_optimizations.txt": SMALL,
        "module_0011.nothing": "",
        "notes.md": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    module = hlorun.parse(SMALL)
    (tmp_path / f"{stem}.before_optimizations.hlo.pb").write_bytes(module.to_proto())
    (tmp_path / f"{stem}.snapshot.-12.pb").write_bytes(b"")
    return tmp_path


def test_every_file_is_in_the_result_once(folder: Path) -> None:
    scanned = hlorun.scan(folder)
    seen = [*scanned.unknown]
    for module in scanned:
        seen += module.snapshots
        for stage in module.stages:
            seen += [*filter(None, (stage.text, stage.proto)), *stage.memory.values()]
        seen += [path for paths in module.others.values() for path in paths]
    assert sorted(seen) == sorted(path for path in folder.rglob("*") if path.is_file())
    assert sorted(path.name for path in scanned.unknown) == ["module_0011.nothing", "notes.md"]


def test_stages_and_passes_are_in_order(folder: Path) -> None:
    f, g = hlorun.scan(folder)
    assert (f.number, f.name, f.platform) == (7, "jit_f.1", "gpu")
    assert [(s.pass_number, s.after) for s in f.stages] == [
        (None, ""),
        (0, "pipeline-start"),
        (2, "algsimp"),
        (None, ""),
    ]
    assert f.stages[1].pipeline == "simplification" and f.stages[1].before == "algsimp"
    assert f.stages[0].text is not None and f.stages[0].proto is not None
    assert set(f.stages[-1].memory) == {"buffer assignment", "usage report"}
    assert set(f.others) == {"GPU assembly", "LLVM IR", "memory-usage-report (pb)", "options", "thunks"}
    assert f.missing == ["passes 1"]
    assert g.missing == ["the module after optimizations"]
    assert f.stages[2].load().instruction_count == 2


def test_a_folder_is_shown_and_what_does_not_open_is_said(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["show", str(folder)])
    text = " ".join(shown.output.split())
    assert shown.exit_code == 1
    assert "snapshot.-12.pb" in text and "2 modules in 5 stages" in text
    next(folder.glob("*.snapshot.*")).unlink()
    (folder / "module_0007.jit_f.1.sm_8.0_gpu_after_optimizations-memory-usage-report.txt").unlink()
    shown = CliRunner().invoke(app, ["show", str(folder)])
    assert shown.exit_code == 0, shown.output
    with pytest.raises(NotADirectoryError):
        hlorun.scan(folder / "notes.md")
    with pytest.raises(FileNotFoundError):
        hlorun.scan(folder / "absent")


def test_a_folder_without_modules_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no dump")
    shown = CliRunner().invoke(app, ["show", str(tmp_path)])
    assert shown.exit_code == 1
    assert "has 1 file, none with a name that XLA gives to a module" in shown.stderr


def test_passes_show_what_changed(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["passes", str(folder), "7"])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "0002 algsimp simplification 2 (-1)" in text
    assert "0000" not in text
    assert "0000 pipeline-start" in " ".join(
        CliRunner().invoke(app, ["passes", str(folder), "7", "--all"]).output.split()
    )
    assert CliRunner().invoke(app, ["passes", str(folder), "absent"]).exit_code == 1


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("m.txt", True),
        ("m.hlo.gz", True),
        ("m.hlo.pb", True),
        ("m.pb.zst", True),
        ("m.pbtxt", True),
        ("m.hlo.pbtxt", True),
        ("m.json", False),
        ("m.debug_options", False),
        ("m.config.pbtxt", False),
        ("m-memory-usage-report.pb", False),
        ("m-buffer-assignment.txt.gz", False),
        ("host.xplane.pb", False),
        ("topology.pb", False),
        ("compile_options.pb", False),
        ("thunk_sequence.txt", False),
    ],
)
def test_the_same_files_of_a_folder_are_read_everywhere(tmp_path: Path, name: str, is_read: bool) -> None:
    (tmp_path / name).write_text("")
    assert [path.name for path in find_files(tmp_path)] == [name] * is_read
    if is_read:
        assert list(each_file([tmp_path])) == [tmp_path / name]
    else:
        with pytest.raises(FileNotFoundError, match="no HLO"):
            list(each_file([tmp_path]))
