"""pytest-benchmark of reading, printing and walking a module from Python.

pytest benches/python/bench_parse.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hlorun

DUMP = next((Path(__file__).resolve().parents[2] / "tests" / "data" / "dumps").glob("004_*"))
Benchmark = Any


@pytest.fixture(scope="module")
def module() -> hlorun.HloModule:
    return hlorun.load(DUMP)


def test_parse_str(benchmark: Benchmark, module: hlorun.HloModule) -> None:
    benchmark(hlorun.parse, module.source.decode())


def test_parse_bytes(benchmark: Benchmark, module: hlorun.HloModule) -> None:
    benchmark(hlorun.parse, module.source)


def test_load(benchmark: Benchmark, module: hlorun.HloModule, tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_bytes(module.source)
    benchmark(hlorun.load, path)


def test_load_packed(benchmark: Benchmark) -> None:
    benchmark(hlorun.load, DUMP)


@pytest.mark.parametrize("preset", ["default", "short_parsable", "canonical", "fingerprint"])
def test_print(benchmark: Benchmark, module: hlorun.HloModule, preset: str) -> None:
    benchmark(module.to_string, preset)


def test_verify(benchmark: Benchmark, module: hlorun.HloModule) -> None:
    benchmark(module.verify)


def test_to_arrow(benchmark: Benchmark, module: hlorun.HloModule) -> None:
    benchmark(module.to_arrow)


@pytest.mark.parametrize("name", ["name", "opcode", "shape", "operands", "users", "computation"])
def test_attribute(benchmark: Benchmark, module: hlorun.HloModule, name: str) -> None:
    root = module.entry_computation.root
    instruction = root.operands[0]

    def hundred() -> None:
        for _ in range(100):
            getattr(instruction, name)

    benchmark(hundred)


def test_walk(benchmark: Benchmark, module: hlorun.HloModule) -> None:
    def walk() -> int:
        return sum(
            len(instruction.operands)
            for computation in module.computations
            for instruction in computation.instructions
            if instruction.opcode != "parameter"
        )

    assert benchmark(walk) > 1000
