"""`hlorun extract`: parts that run by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun._extract import extract
from hlorun._inputs import random_inputs
from test_cli import hlorun as command


def leaves(value: Any) -> list[Any]:
    """The arrays of a value, in order."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    ("number", "name"), [("001", "cublas-gemm.7"), ("001", "fusion.3"), ("003", "%fusion.12")]
)
def test_an_instruction_has_the_value_it_has_in_the_whole(
    modules: dict[str, hlorun.HloModule], number: str, name: str
) -> None:
    module = modules[number]
    part = hlorun.parse(extract(module, name))
    part.verify()
    whole, entry = module.entry_computation, part.entry_computation
    assert whole is not None and entry is not None
    arguments = dict(zip([p.name for p in whole.parameters], random_inputs(module), strict=True))
    values: dict[str, Any] = {}
    hlorun.compile(module)(*arguments.values(), observer=lambda i, v: values.update({i.name: v}))
    got = hlorun.compile(part)(*[arguments[p.name] for p in entry.parameters])
    expected = values.get(name.removeprefix("%"))
    if expected is not None:
        for x, y in zip(leaves(got), leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
    assert entry.root is not None and entry.root.name == name.removeprefix("%")


@pytest.mark.parametrize("number", ["001", "003"])
def test_every_computation_stands_alone(modules: dict[str, hlorun.HloModule], number: str) -> None:
    for computation in modules[number].computations:
        hlorun.parse(extract(modules[number], computation.name)).verify()


def test_operands_beyond_the_depth_become_parameters(modules: dict[str, hlorun.HloModule]) -> None:
    entry = hlorun.parse(extract(modules["001"], "reduce.47", depth=1)).entry_computation
    assert entry is not None
    assert [p.name for p in entry.parameters] == ["cublas-gemm.7", "iota.34"]


def test_a_loop_body_of_the_large_dump(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["004"]
    loop = next(i for c in module.computations for i in c.instructions if i.opcode == "while")
    part = hlorun.parse(extract(module, loop.name, depth=1))
    part.verify()
    assert part.entry_computation is not None and part.entry_computation.root is not None
    assert part.entry_computation.root.opcode == "while"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "part.txt"
    command("extract", dump_path("001"), "fusion.1", "-o", out)
    assert "fusion.1" in command("run", out).stdout
    assert "did you mean" in command("extract", dump_path("001"), "fusion.33", status=1).stderr
