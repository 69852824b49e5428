"""What tests share: the dumps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hlorun

# Every plan that a test makes is proved; `shadow` runs every step on what it declares, too.
os.environ.setdefault("HLORUN_CHECK", "1")

DUMPS = Path(__file__).parents[1] / "data" / "dumps"


def dump_path(number: str) -> Path:
    """The file of a dump by its number, "001"."""
    (path,) = DUMPS.glob(f"{number}_*")
    return path


@pytest.fixture(scope="session")
def modules() -> dict[str, hlorun.HloModule]:
    """The three dumps that are modules."""
    return {number: hlorun.load(dump_path(number)) for number in ("001", "003", "004")}


@pytest.fixture(scope="session")
def texts(modules: dict[str, hlorun.HloModule]) -> dict[str, str]:
    """Their texts."""
    return {number: module.source.decode() for number, module in modules.items()}
