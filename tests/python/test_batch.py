"""Many files at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from conftest import DUMPS
from hlorun.cli import app

GOOD = "HloModule good\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for k in range(20):
        (tmp_path / "sub" / f"{k:02}.hlo").write_text(GOOD.replace("good", f"good{k}"))
    (tmp_path / "bad.txt").write_text("HloModule bad\n\nENTRY e {\n  x = f32[\n")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    (tmp_path / "notes.md").write_text("no dump")
    return tmp_path


def test_each_file_has_its_record(folder: Path) -> None:
    records = list(hlorun.batch(folder, workers=3))
    assert [r.path.name for r in records] == ["bad.txt", "binary.txt", *(f"{k:02}.hlo" for k in range(20))]
    assert [r.module.name for r in records if r.module is not None] == [f"good{k}" for k in range(20)]
    errors = [r.error for r in records if r.error is not None]
    assert len(errors) == 2
    assert all(isinstance(e, hlorun.HloParseError) for e in errors)
    assert errors[0].filename == str(folder / "bad.txt")  # type: ignore[attr-defined]


def test_a_function_gives_values(folder: Path) -> None:
    def length(module: hlorun.HloModule) -> int:
        if module.name == "good3":
            raise ZeroDivisionError(module.name)
        return module.instruction_count

    records = list(hlorun.batch(folder / "sub", fn=length))
    assert [r.value for r in records] == [1, 1, 1, None, *[1] * 16]
    assert isinstance(records[3].error, ZeroDivisionError)
    assert all(r.module is None for r in records)


def test_paths_of_every_kind(folder: Path) -> None:
    good = folder / "sub" / "00.hlo"
    records = list(hlorun.batch([str(good), good, folder / "absent.hlo", folder / "sub"]))
    assert len(records) == 21
    assert isinstance(records[1].error, FileNotFoundError)
    (record,) = hlorun.batch(good)
    assert record.module is not None


def test_records_come_while_later_files_wait(folder: Path) -> None:
    seen: list[str] = []

    def note(module: hlorun.HloModule) -> str:
        seen.append(module.name)
        return module.name

    records = hlorun.batch(folder / "sub", fn=note, workers=1)
    assert next(records).value == "good0"
    assert len(seen) <= 5
    records.close()  # type: ignore[attr-defined]


def test_workers_are_at_least_one(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(hlorun.batch(folder, workers=0))


@pytest.mark.parametrize("out", [[], ["--out", "tables"]])
def test_files_on_memory_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xla").mkdir()
    stem = "module_0001.jit_f.cpu_after_optimizations"
    (tmp_path / "xla" / f"{stem}.txt").write_text(GOOD)
    assignment = tmp_path / "xla" / f"{stem}-buffer-assignment.txt"
    for file in (assignment, assignment.with_name(f"{stem}-live-range.txt")):
        file.write_text("BufferAssignment:\n")
    done = CliRunner().invoke(app, ["batch", "xla", *out])
    assert done.exit_code == 0, done.output
    assert "1 file, 0 failed, 2 files on memory or thunks left out" in " ".join(done.output.split())
    (record,) = hlorun.batch(assignment)
    assert record.error is not None
    (tmp_path / "xla" / f"{stem}.txt").unlink()
    done = CliRunner().invoke(app, ["batch", "xla"])
    assert done.exit_code == 1 and "no HLO in xla, 2 files on memory" in done.output


def test_the_dumps() -> None:
    records = list(hlorun.batch(DUMPS, fn=lambda module: module.instruction_count))
    assert [r.value for r in records] == [None, 133, None, 157, 8217]


@pytest.mark.parametrize("options", [[], ["--json"], ["--out", "tables"], ["--out", "table.csv"]])
def test_nothing_found_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, ["batch", "empty", *options])
    assert done.exit_code == 1 and "no HLO in empty" in done.output
