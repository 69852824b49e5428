"""What the package says of itself, and what it brings along."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import hlorun

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
LICENCES = (ROOT / "THIRD_PARTY_LICENSES.md").read_text(encoding="utf-8")

# Stands for an environment without these packages.
WITHOUT = """
import importlib.util, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None
sys.meta_path.insert(0, Hidden())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {hidden!r} else found(name, package)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_version_stands_once() -> None:
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"', cargo, re.M)
    assert hlorun.__version__ == version
    assert 'dynamic = ["version"]' in PYPROJECT
    for manifest in ROOT.glob("rust/*/Cargo.toml"):
        assert "version.workspace = true" in manifest.read_text(encoding="utf-8"), manifest


def test_this_python_is_one_of_the_classifiers() -> None:
    """Whoever runs the tests on another one may add it."""
    listed = re.findall(r"Python :: (3\.\d+)", PYPROJECT)
    assert listed, "no version of Python is listed"
    here = f"3.{sys.version_info.minor}"
    if here not in listed:
        pytest.skip(f"{here} is not listed: {', '.join(listed)}")
    assert importlib.metadata.metadata("hlorun")["Name"] == "hlorun"


def test_embedding_needs_three_packages() -> None:
    (needs,) = re.findall(r"^dependencies = \[(.*?)^\]", PYPROJECT, re.M | re.S)
    assert re.findall(r'"([\w-]+)', needs) == ["numpy", "ml_dtypes", "scipy-openblas32"]


def test_the_package_runs_without_the_command_line() -> None:
    done = python(
        WITHOUT.format(hidden={"typer", "rich", "click"}) + "import sys, numpy, hlorun\n"
        "text = 'HloModule m\\nENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }'\n"
        "module = hlorun.parse(text)\n"
        "assert hlorun.compile(module)(numpy.ones(2, numpy.float32)).tolist() == [2, 2]\n"
        "for name in hlorun.__all__: getattr(hlorun, name)\n"
        "from hlorun.tables.progress import bar\n"
        "with bar(3) as shown: shown.advance(3)\n"
        "try:\n    with bar(3, show=True): pass\n"
        "except ModuleNotFoundError as error: assert 'hlorun[cli]' in str(error)\n"
        "else: sys.exit('a bar was shown')\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("hidden", [{"typer"}, {"rich"}, {"typer", "rich"}], ids=sorted)
def test_the_command_says_what_it_is_missing(hidden: set[str]) -> None:
    done = python(WITHOUT.format(hidden=hidden) + "from hlorun.__main__ import main\nmain()\n")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("pip install 'hlorun[cli]'")
    assert all(name in done.stderr for name in hidden)


def test_importing_loads_nothing_large() -> None:
    # What the interpreter itself loads, for a package that is installed in place, is not of hlorun.
    done = python(
        "import sys\nbefore = {*sys.modules}\nimport hlorun\n"
        "print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
    )
    large = {"numpy", "ml_dtypes", "scipy_openblas32", "typer", "rich", "pyarrow", "ray", "jax"}
    large |= {"pathlib", "dataclasses", "inspect", "tempfile", "json", "concurrent"}
    assert not large & set(done.stdout.split()), done.stderr


def test_every_crate_of_the_wheel_has_its_licence() -> None:
    """`python tools/licences.py` writes the page."""
    listed = set(re.findall(r"^\| ([\w-]+) \| (\d[\w.+-]*) \|", LICENCES, re.M))
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r'^name = "(.+)"\nversion = "(.+)"', lock, re.M))
    assert listed <= locked, f"no longer used: {sorted(listed - locked)}"
    command = "tree --locked --package hlorun-python --edges normal,no-proc-macro --prefix none --format {p}"
    tree = subprocess.run(
        ["cargo", *command.split()], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    linked = {
        (name, version[1:])
        for name, version, *path in (line.split() for line in tree.splitlines() if line)
        if not path or not path[0].startswith("(/")
    }
    assert len(linked) > 40 and linked <= listed, f"without a licence: {sorted(linked - listed)}"
    for licence in ("MIT", "BSD-2-Clause", "ISC", "Zlib", "Apache-2.0 WITH LLVM-exception"):
        assert f"## {licence}: " in LICENCES
    assert "## Notice of parquet\n" in LICENCES


def test_wheels_are_built_by_one_command(tmp_path: Path) -> None:
    """Which commands it gives; building takes too long for a test."""
    tools = tmp_path / "bin"
    tools.mkdir()
    log = tmp_path / "log"
    for name in ("rustup", "maturin", "python3", "ls"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho {name} "$@" >>{log}\n')
        tool.chmod(0o755)
    folder = tmp_path / "clone"
    (folder / "tools").mkdir(parents=True)
    for name in ("wheels.sh", "targets.txt"):
        (folder / "tools" / name).write_bytes((ROOT / "tools" / name).read_bytes())
    programs = folder / "target" / "wheels-venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(tools / "python3")
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    script = ["bash", str(folder / "tools" / "wheels.sh")]
    subprocess.run(script, env=environment, check=True, capture_output=True)
    printed = log.read_text()
    for target in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"):
        assert f"rustup target add {target}\n" in printed
        build = f"maturin build --release --locked --target {target} --out dist --zig --compatibility manylinux2014"
        assert build in printed
    assert "darwin" not in printed and printed.count("maturin sdist --out dist") == 1
    log.unlink()
    subprocess.run([*script, "aarch64-apple-darwin"], env=environment, check=True, capture_output=True)
    assert "maturin build --release --locked --target aarch64-apple-darwin --out dist\n" in log.read_text()
    assert subprocess.run([*script, "sparc"], env=environment, capture_output=True).returncode == 2


def test_the_workflow_builds_and_tries_every_target() -> None:
    targets = (ROOT / "tools" / "targets.txt").read_text(encoding="utf-8").split()
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    build, tried = workflow.split("\n  try:\n")
    for part in (build, tried):
        assert re.findall(r"- \{os: [\w.-]+, target: ([\w-]+)\}", part) == targets


def test_the_source_distribution_has_no_tests(tmp_path: Path) -> None:
    maturin = Path(sys.executable).parent / "maturin"
    if not maturin.exists():
        pytest.skip("maturin is not installed: pip install --group dev")
    command = [str(maturin), "sdist", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    folders = {name.partition("/")[0] for name in names}
    assert {"rust", "python", "Cargo.lock", "LICENSE", "THIRD_PARTY_LICENSES.md"} <= folders
    assert not {"tests", "fuzz", "docs", ".ci"} & folders
    assert made.stat().st_size < 3_000_000


def test_the_smoke_test_passes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "smoke.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "works on" in done.stdout, done.stderr
