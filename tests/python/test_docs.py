"""Pages that are written from the code say what the code says, and what they show runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hlorun

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
BLOCK = re.compile(r"(<!-- not run: .+ -->\n)?^```(sh|python)\n(.*?)^```$", re.M | re.S)

# Packages that the blocks of a page need, and tests do not.
NEEDS = {"jax.md": "jax"}

# Runs blocks in their order; those of Python share their names, as a reader's session does.
DRIVER = """
import json, subprocess, sys
names = {"__name__": "__main__"}
for language, code in json.load(open(sys.argv[1])):
    print(f"+ {code}", flush=True)
    if language == "sh":
        subprocess.run(["bash", "-e", "-c", code], check=True)
    else:
        exec(compile(code, "<example>", "exec"), names)
"""


@pytest.mark.parametrize("page", ["cli", "batch"])
def test_the_page_is_up_to_date(page: str) -> None:
    spec = importlib.util.spec_from_file_location(f"generate_{page}", DOCS / f"generate_{page}.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (DOCS / f"{page}.md").read_text(encoding="utf-8") == generator.document()


def examples(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(language, code) for excuse, language, code in BLOCK.findall(text) if not excuse]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)])
def test_examples_run(page: str, tmp_path: Path) -> None:
    import json

    if page in NEEDS:
        pytest.importorskip(NEEDS[page])

    # A folder with dumps beside the repository's, and a pip that has nothing to do.
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "target").mkdir()
    (tmp_path / "dumps").mkdir()
    for number in ("001", "003"):
        (dump,) = (ROOT / "tests" / "data" / "dumps").glob(f"{number}_*")
        (tmp_path / "dumps" / dump.name).symlink_to(dump)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pip").write_text("#!/bin/sh\n")
    (tools / "pip").chmod(0o755)
    (tmp_path / "blocks.json").write_text(json.dumps(examples(page)), encoding="utf-8")
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, "blocks.json"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_kind_that_is_known(page: str) -> None:
    """What runs is `sh` or `python`; what only shows is `text`, or nothing."""
    opened = (DOCS / page).read_text(encoding="utf-8").split("\n```")[1::2]
    kinds = {block.partition("\n")[0] for block in opened}
    assert kinds <= {"sh", "python", "text", "sql", ""}


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    notebooks = [path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.rglob("*.ipynb")]
    assert sorted(re.findall(r": ([\w/-]+\.md)$", navigation, re.M)) == sorted(PAGES + notebooks)


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^::: hlorun\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted({*hlorun.__all__} - {"__version__"})
