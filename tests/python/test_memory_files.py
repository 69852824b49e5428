"""Assignments in several files: what stands beside them is found, and what is missing is said."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from conftest import DUMPS
from hlorun.cli import app
from hlorun.report.memory import memory_report

JAXLIBS = ("0.4.13", "0.4.30", "0.5.3", "0.10.2")


pytestmark = pytest.mark.skipif(shutil.which("zstd") is None, reason="the dumps are packed with zstd")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stored bundles as the folders that XLA wrote."""
    made = {}
    for jaxlib in JAXLIBS:
        folder = tmp_path_factory.mktemp(jaxlib)
        for name, content in _bundle(DUMPS.parent / "assignments" / f"jaxlib-{jaxlib}.bundle.zst"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        made[jaxlib] = folder
    return made


def _bundle(path: Path) -> Iterator[tuple[str, bytes]]:
    data = subprocess.run(["zstd", "-dc", str(path)], check=True, capture_output=True).stdout
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        _, name, size = data[at:end].decode().split(" ")
        start = end + 1
        yield name, data[start : start + int(size)]
        at = start + int(size) + 1


def assignments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*-buffer-assignment.txt"))


@pytest.mark.parametrize("jaxlib", JAXLIBS)
def test_every_file_leads_to_the_whole_dump(folders: dict[str, Path], jaxlib: str) -> None:
    for path in assignments(folders[jaxlib])[:40]:
        stem = str(path).removesuffix("-buffer-assignment.txt")
        whole = hlorun.load_buffer_assignment(path)
        assert whole.allocations
        assert whole.live_range is not None
        assert whole.module_file == stem + ".txt"
        for file in whole.files:
            assert str(hlorun.load_buffer_assignment(file)) == str(whole)
        report = memory_report(whole)
        assert report["unknown"] == ""
        assert report["usage"] is None or report["usage"]["agrees"]
        assert (report["usage"] is None) == (jaxlib in ("0.4.13", "0.4.30"))
        if report["usage"]:
            assert [s["allocations"] for s in report["usage"]["spaces"]] == [len(whole.allocations)]


@pytest.mark.parametrize("jaxlib", JAXLIBS)
def test_the_schedule_tells_the_live_ranges_that_are_not_there(
    folders: dict[str, Path], jaxlib: str, tmp_path: Path
) -> None:
    for path in assignments(folders[jaxlib])[:40]:
        whole = hlorun.load_buffer_assignment(path)
        text = path.read_text().partition("HloLiveRange (max")[0].rstrip("\n") + "\n"
        bare = hlorun.parse_buffer_assignment(text)
        assert bare.live_range is None
        module = hlorun.load(whole.module_file or "")
        told, wanted = memory_report(bare, module), memory_report(whole, module)
        if not module.is_scheduled:
            assert told["unknown"]
            continue
        assert told["unknown"] == ""
        assert told["live_ranges_from"] == "the schedule of the module"
        assert told["peak"]["bytes"] == wanted["peak"]["bytes"], path
        assert told["curve"] == wanted["curve"], path


def test_without_live_ranges_and_schedule_the_peak_is_not_known(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    path = max(assignments(folders["0.10.2"]), key=lambda p: p.stat().st_size)
    alone = tmp_path / path.name
    alone.write_bytes(path.read_bytes())
    report = memory_report(hlorun.load_buffer_assignment(alone))
    assert report["peak"]["bytes"] is None and report["peak"]["moment"] is None
    assert report["waste"]["fragmentation_bytes"] is None
    assert not any(value["at_peak"] for value in report["values"])
    assert hlorun.load_buffer_assignment(alone).memory_analysis().peak_memory_in_bytes is None
    shown = CliRunner().invoke(app, ["memory", str(alone)])
    assert shown.exit_code == 0
    assert "not known" in shown.output and "moment" not in shown.output.replace("moments", "")
    # A module of other values, or one without a schedule, says nothing.
    other = hlorun.parse("HloModule m, is_scheduled=true\nENTRY e { ROOT a = f32[] parameter(0) }")
    assert memory_report(hlorun.load_buffer_assignment(alone), other)["unknown"]


@pytest.mark.parametrize(
    "ending", ["-live-range.txt", "-memory-usage-report.txt", "-buffer-assignment-values.txt"]
)
def test_a_file_without_allocations_is_refused(folders: dict[str, Path], tmp_path: Path, ending: str) -> None:
    path = next(folders["0.10.2"].rglob("*" + ending))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    shown = CliRunner().invoke(app, ["memory", str(tmp_path / path.name)])
    assert shown.exit_code == 1
    assert "no allocations" in shown.output and "-buffer-assignment.txt" in shown.output
    with pytest.raises(hlorun.HloArgumentError, match="no allocations"):
        memory_report(hlorun.load_buffer_assignment(tmp_path / path.name))


def test_a_usage_report_of_other_bytes_is_seen(folders: dict[str, Path], tmp_path: Path) -> None:
    path = assignments(folders["0.10.2"])[0]
    stem = path.name.removesuffix("-buffer-assignment.txt")
    for sibling in path.parent.glob(stem + "*"):
        (tmp_path / sibling.name).write_bytes(sibling.read_bytes())
    report = tmp_path / (stem + "-memory-usage-report.txt")
    total = hlorun.load_buffer_assignment(tmp_path / path.name).total_bytes
    report.write_text(report.read_text().replace(f"Total bytes: {total}", f"Total bytes: {total + 8}"))
    shown = CliRunner().invoke(app, ["memory", str(tmp_path / path.name)])
    assert shown.exit_code == 1
    assert f"add up to {total:,} B" in " ".join(shown.output.split())


def test_a_usage_report_as_a_proto_names_its_text(tmp_path: Path) -> None:
    report = tmp_path / "module_0001.jit_f.cpu_after_optimizations-memory-usage-report.pb"
    report.write_bytes(b"\x0a\x02\x08\x08")
    result = CliRunner().invoke(app, ["memory", str(report)])
    assert result.exit_code == 1 and "memory-usage-report.txt" in result.stderr.replace("\n", "")
