"""What the README says is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_the_first_commands_install_run_and_test() -> None:
    run, test, *_ = blocks("sh")
    assert re.fullmatch(r"pip install '\.\[cli\]' && hlorun run (\S+)\n", run)
    assert (ROOT / run.split()[-1]).is_file()
    assert test.startswith("pip install '.[test]' && ")


@pytest.mark.parametrize("fails", [(), ("pytest",), ("cargo",), ("pytest", "cargo"), ("pip",)])
@pytest.mark.parametrize("shell", [["sh"], ["bash", "-e", "-o", "pipefail"]], ids=["pasted", "CI"])
def test_the_second_command_runs_both_suites(
    tmp_path: Path, shell: list[str], fails: tuple[str, ...]
) -> None:
    """Whichever fails, the other runs, and the exit status tells."""
    for name in ("pip", "pytest", "cargo"):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\necho {name}\nexit {int(name in fails)}\n")
        tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*shell, "-c", blocks("sh")[1]], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == (["pip"] if "pip" in fails else ["pip", "pytest", "cargo"]), done.stderr
    assert (done.returncode == 0) is (not fails)


@pytest.mark.parametrize("code", blocks("python"))
def test_examples_run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_and_paths_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
    for path in re.findall(r"`((?:rust|python|tests|benches|fuzz|\.ci)/[\w./-]*\w)`", text):
        assert (ROOT / path).exists(), path


def test_commands_of_the_table_exist() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "hlorun", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in re.findall(r"^\| `hlorun (\w+)", README, re.M):
        assert re.search(rf"\b{command}\b", help_text), command
