"""The dumps give what XLA:CPU gives, and come back from their own print."""

from __future__ import annotations

import time

import numpy as np
import pytest

import golden
import hlorun
from hlorun._inputs import random_inputs


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("number", ["001", "003", "004"])
def test_golden_results(modules: dict[str, hlorun.HloModule], number: str, seed: int) -> None:
    module = modules[number]
    want = golden.load(number)["seeds"][str(seed)]
    got = hlorun.compile(module)(*random_inputs(module, seed))
    assert len(got) == len(want)
    errors = [golden.worst_error(np.asarray(x), entry) for x, entry in zip(got, want, strict=True)]
    assert max(errors) <= 1, [(k, e) for k, e in enumerate(errors) if e > 1]


def test_golden_results_tell_right_from_wrong() -> None:
    array = np.linspace(-1, 1, 1000, dtype=np.float32)
    entry = golden.digest(array)
    assert golden.worst_error(array, entry) < 1e-3
    assert golden.worst_error(array * np.float32(1.01), entry) > 1
    assert golden.worst_error(np.where(array > 0.99, np.nan, array).astype(np.float32), entry) > 1
    counts = np.arange(10)
    assert golden.worst_error(counts, golden.digest(counts)) == 0
    assert golden.worst_error(counts[::-1], golden.digest(counts)) > 1


@pytest.mark.parametrize("number", ["001", "003", "004"])
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_dumps_round_trip(modules: dict[str, hlorun.HloModule], number: str, long: bool) -> None:
    module = modules[number]
    text = module.to_string(print_operand_shape=long)
    again = hlorun.parse(text)
    assert again.to_string(print_operand_shape=long) == text
    assert again.instruction_count == module.instruction_count
    assert again.fingerprint() == module.fingerprint()
    for computation in module.computations:
        same = again[computation.name]
        assert [i.name for i in same.parameters] == [i.name for i in computation.parameters]
        assert {i.name for i in same} == {i.name for i in computation}
        for instruction in computation:
            twin = same[instruction.name]
            assert twin.opcode == instruction.opcode
            assert str(twin.shape) == str(instruction.shape)
            assert [o.name for o in twin.operands] == [o.name for o in instruction.operands]
            assert twin.metadata == instruction.metadata
            assert twin.backend_config == instruction.backend_config
            assert str(twin.attributes) == str(instruction.attributes)


def test_dumps_verify(modules: dict[str, hlorun.HloModule]) -> None:
    for module in modules.values():
        module.verify()


def test_the_largest_dump_parses_in_milliseconds(texts: dict[str, str]) -> None:
    source = texts["004"].encode()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        hlorun.parse(source)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05
