"""Random legal modules, and legal changes of modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hlorun
from hlorun.cli import app


@pytest.mark.parametrize("seed", range(20))
def test_random_modules_are_legal_and_the_same_again(seed: int) -> None:
    module = hlorun.smith(seed, size=25)
    module.verify()
    assert module == hlorun.smith(seed, size=25)
    assert module.instruction_count >= 25


def test_random_modules_run_and_differ() -> None:
    modules = [hlorun.smith(seed) for seed in range(30)]
    assert len({str(module) for module in modules}) == 30
    for module in modules:
        hlorun.run(module, *hlorun.make_inputs(module))


def test_changes_are_legal_and_are_changes(modules: dict[str, hlorun.HloModule]) -> None:
    for seed in range(10):
        changed = hlorun.mutate(modules["001"], seed)
        changed.verify()
        assert changed != modules["001"] and changed == hlorun.mutate(modules["001"], seed)


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(ValueError, match="from 1 to 1,000"):
        hlorun.smith(size=0)
    with pytest.raises(hlorun.HloParseError):
        hlorun.mutate("")


def test_commands(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["smith", "--seed", "3", "--size", "5"])
    assert made.exit_code == 0 and hlorun.parse(made.output) == hlorun.smith(3, 5)
    path = tmp_path / "m.hlo"
    assert CliRunner().invoke(app, ["smith", "-o", str(path)]).exit_code == 0
    changed = CliRunner().invoke(app, ["mutate", str(path), "--seed", "1"])
    assert changed.exit_code == 0 and hlorun.parse(changed.output) != hlorun.load(path)
