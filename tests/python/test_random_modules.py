"""Any module gives results or a typed error: random well-typed modules, and texts with changed words."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hlorun
from hlorun import _smith
from hlorun._inputs import random_inputs

MOST_BYTES = 1 << 22
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=300, derandomize=True)


def run(text: str) -> bool:
    """Whether it ran. Anything but a result or a typed error escapes, and what a check of the plan found."""
    try:
        module = hlorun.parse(text)
        entry = module.entry_computation
        if entry is None or any(
            p.shape.nbytes is None or p.shape.nbytes > MOST_BYTES for p in entry.parameters
        ):
            return False
        executable = hlorun.compile(module)
        executable(*random_inputs(module))
    except hlorun.HloError as error:
        assert "fault of hlorun" not in str(error)
        return False
    return True


@RELAXED
@given(st.integers(0, 2**63))
def test_random_modules(seed: int) -> None:
    run(_smith.Generator(random.Random(seed)).module())


@RELAXED
@given(st.integers(0, 2**63))
def test_changed_modules(seed: int) -> None:
    rng = random.Random(seed)
    run(_smith.exchange(_smith.Generator(rng).module(), rng))


def test_most_random_modules_run() -> None:
    """The generator is not all errors: at least a third run."""
    ran = sum(run(_smith.Generator(random.Random(seed)).module()) for seed in range(200))
    assert ran >= 66, ran
