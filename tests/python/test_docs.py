"""Pages that are written from the code say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["cli", "batch"])
def test_the_page_is_up_to_date(page: str) -> None:
    spec = importlib.util.spec_from_file_location(f"generate_{page}", DOCS / f"generate_{page}.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (DOCS / f"{page}.md").read_text(encoding="utf-8") == generator.document()
