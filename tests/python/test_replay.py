"""Running modules inside buffer assignments."""

from __future__ import annotations

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun._inputs import random_inputs


def _same(got: object, want: object) -> bool:
    if isinstance(want, tuple):
        return isinstance(got, tuple) and all(map(_same, got, want))
    return np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_001_inside_002_gives_the_bits_of_the_plan(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["001"]
    assignment = hlorun.load_buffer_assignment(dump_path("002"))
    inside = hlorun.compile(module, buffer_assignment=assignment)
    plain = hlorun.compile(module)
    for seed in range(3):
        inputs = random_inputs(module, seed)
        assert _same(inside(*inputs), plain(*inputs))
    assert str(inside.buffer_assignment()) == str(assignment)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (
            "<42 fusion.1 @0> (size=128,offset=128)",
            "<42 fusion.1 @0> (size=128,offset=16384)",
            ("fusion.1", "cublas-gemm.7", "overwr"),
        ),
        (
            "<33 reduce.110 @0> (size=128,offset=0)",
            "<33 reduce.110 @0> (size=128,offset=16384)",
            ("reduce.110", "cublas-gemm.7", "while it reads it"),
        ),
        (
            "    5:cublas-gemm.3\n    6:fusion.3\n",
            "    5:fusion.3\n    6:cublas-gemm.3\n",
            ("fusion.3", "cublas-gemm.3", "before it is computed"),
        ),
    ],
)
def test_a_wrong_assignment_names_writer_and_reader(
    modules: dict[str, hlorun.HloModule], old: str, new: str, names: tuple[str, ...]
) -> None:
    module = modules["001"]
    text = str(hlorun.load_buffer_assignment(dump_path("002")))
    assert old in text
    wrong = hlorun.parse_buffer_assignment(text.replace(old, new, 1))
    executable = hlorun.compile(module, buffer_assignment=wrong)
    with pytest.raises(hlorun.HloExecutionError) as caught:
        executable(*random_inputs(module, 0))
    assert all(name in str(caught.value) for name in names), str(caught.value)


def test_an_assignment_without_memory_for_a_value_is_refused(modules: dict[str, hlorun.HloModule]) -> None:
    assignment = hlorun.load_buffer_assignment(dump_path("002"))
    with pytest.raises(hlorun.HloError, match="assignment"):
        hlorun.compile(modules["003"], buffer_assignment=assignment)
    with pytest.raises(ValueError, match="one device"):
        hlorun.compile(modules["001"], buffer_assignment=assignment, replicas=2)
    inside = hlorun.compile(modules["001"], buffer_assignment=assignment)
    with pytest.raises(hlorun.HloArgumentError):
        inside.run_replicas([random_inputs(modules["001"], 0)])


@pytest.mark.parametrize("number", ["001", "003"])
def test_a_module_runs_inside_hlorun_s_own_assignment(
    modules: dict[str, hlorun.HloModule], number: str
) -> None:
    module = modules[number]
    inside = hlorun.compile(module, buffer_assignment=module.buffer_assignment())
    inputs = random_inputs(module, 1)
    got, want = inside(*inputs), hlorun.compile(module)(*inputs)
    flat_got = got if isinstance(got, tuple) else (got,)
    flat_want = want if isinstance(want, tuple) else (want,)
    for a, b in zip(flat_got, flat_want, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-4, atol=1e-5)
