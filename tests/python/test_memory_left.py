"""What memory is left, and runs that need more."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hlorun import _memory_left
from hlorun.cli import app


def _files(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_least_of_machine_and_groups_counts(tmp_path: Path) -> None:
    root = _files(
        tmp_path,
        proc__meminfo="MemTotal: 900 kB\nMemAvailable: 800 kB\n",
        proc__self__cgroup="0::/a/b\n",
        sys__fs__cgroup__a__memory_dot_max="500000\n",
        sys__fs__cgroup__a__memory_dot_current="300000\n",
        sys__fs__cgroup__a__memory_dot_stat="anon 1\ninactive_file 1000\n",
        sys__fs__cgroup__a__b__memory_dot_max="max\n",
        sys__fs__cgroup__a__b__memory_dot_current="300000\n",
    )
    assert _memory_left.memory_left(root) == 201_000


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    folder = "sys__fs__cgroup__memory__a__memory_dot_"
    files = {f"{folder}limit_in_bytes": "1000", f"{folder}usage_in_bytes": "400"}
    files["proc__self__cgroup"] = "3:cpu:/\n7:memory,hugetlb:/a\n"
    assert _memory_left.memory_left(_files(tmp_path, **files)) == 600


def test_a_kernel_that_says_nothing(tmp_path: Path) -> None:
    assert _memory_left.memory_left(tmp_path) is None


@pytest.mark.parametrize("command", ["run", "trace"])
def test_a_run_that_needs_more_is_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e { p = f32[250] parameter(0)\n ROOT n = f32[250] negate(p) }\n")
    monkeypatch.setattr(_memory_left, "memory_left", lambda: 1500)
    refused = CliRunner().invoke(app, [command, str(path)])
    assert refused.exit_code == 1
    for part in ("needs 2 kB", "1.5 kB are left", "1 kB of arguments", "p f32[250]", "--force"):
        assert part in refused.output, refused.output
    assert CliRunner().invoke(app, [command, str(path), "--force"]).exit_code == 0


def test_plenty_is_left_here() -> None:
    left = _memory_left.memory_left()
    assert left is None or left > 0
