"""What tests share: the dumps."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hlorun

# Every plan that a test makes is proved; `shadow` runs every step on what it declares, too.
os.environ.setdefault("HLORUN_CHECK", "1")

DUMPS = Path(__file__).parents[1] / "data" / "dumps"


def dump_path(number: str) -> Path:
    """The file of a dump by its number, "001"."""
    (path,) = DUMPS.glob(f"{number}_*")
    return path


@contextmanager
def browser_page(file: Path, **context: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page of a headless Chromium without a network, and all that went wrong or was asked of one."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    is_there = chromium is not None and importlib.util.find_spec("playwright") is not None
    if not is_there and os.environ.get("HLORUN_REQUIRE_BROWSER") != "1":
        pytest.skip("NO BROWSER: apt-get install chromium and pip install playwright to test pages")
    from playwright import sync_api

    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(offline=True, **context).new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.on(
            "request",
            lambda request: None if request.url.startswith("file:") else problems.append(request.url),
        )
        page.goto(file.as_uri())
        yield page, problems
        browser.close()


@pytest.fixture(scope="session")
def modules() -> dict[str, hlorun.HloModule]:
    """The three dumps that are modules."""
    return {number: hlorun.load(dump_path(number)) for number in ("001", "003", "004")}


@pytest.fixture(scope="session")
def texts(modules: dict[str, hlorun.HloModule]) -> dict[str, str]:
    """Their texts."""
    return {number: module.source.decode() for number, module in modules.items()}
