"""The notebooks of the documentation run, and the site shows them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
NEEDS = ("nbclient", "ipykernel", "mlxtend")


def contents(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["lstm", "mnist", "training"]


def test_notebooks_run() -> None:
    """Each in a kernel of its own; their cells assert what they claim."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing and not os.environ.get("HLORUN_REQUIRE_NOTEBOOKS"):
        pytest.skip(f"without {', '.join(missing)}: pip install --group notebooks")
    done = subprocess.run(
        [sys.executable, str(DOCS / "run_notebooks.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split() == [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept_and_small(path: Path) -> None:
    cells = [cell for cell in contents(path)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs and all(output["output_type"] != "error" for output in outputs)
    assert path.stat().st_size < 120_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_site_shows_what_the_cells_gave(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("show_notebooks", DOCS / "show_notebooks.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = hook.page(contents(path), path.name)
    assert page.startswith("# ") and f"]({path.name})" in page
    for cell in contents(path)["cells"]:
        assert "".join(cell["source"]) in page
        for output in cell.get("outputs", []):
            assert "".join(output.get("text", output.get("data", {}).get("image/png", ""))).strip() in page
