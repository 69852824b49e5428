"""Buffer-assignment dumps from Python."""

from __future__ import annotations

import pytest

import hlorun
from conftest import dump_path


@pytest.mark.parametrize(
    ("number", "total", "allocations", "values", "peak"),
    [("000", 2_564_824, 68, 98, 69), ("002", 525_448, 38, 51, 6)],
)
def test_the_dumps(number: str, total: int, allocations: int, values: int, peak: int) -> None:
    assignment = hlorun.load_buffer_assignment(dump_path(number))
    assert assignment.total_bytes == total
    assert len(assignment.allocations) == allocations
    assert len(assignment.values) == values
    assert assignment.peak == peak
    assert assignment.live_range is not None
    assert assignment.live_range.peak_moment == peak
    assert sum(allocation.size for allocation in assignment.allocations) == total
    text = str(assignment)
    assert str(hlorun.parse_buffer_assignment(text)) == text


def test_records_say_what_the_text_says() -> None:
    assignment = hlorun.load_buffer_assignment(dump_path("002"))
    parameters = [a for a in assignment.allocations if a.parameter_number is not None]
    assert sorted(a.parameter_number for a in parameters if a.parameter_number is not None) == list(range(8))
    value = assignment.values[0]
    assert value.positions[0][0] == value.instruction
    assert value.instruction in value.from_instruction


def test_an_assignment_fits_its_module_and_no_other(modules: dict[str, hlorun.HloModule]) -> None:
    assignment = hlorun.load_buffer_assignment(dump_path("002"))
    assert assignment.check(modules["001"]) == ()
    moved = hlorun.parse_buffer_assignment(str(assignment).replace("size 401408", "size 401409", 1))
    findings = moved.check(modules["001"])
    assert findings
    assert any("401409" in finding.message for finding in findings)
    assert assignment.check(modules["003"])


def test_other_text_is_no_assignment() -> None:
    with pytest.raises(hlorun.HloParseError) as caught:
        hlorun.parse_buffer_assignment("HloModule m\n", filename="m.hlo")
    assert caught.value.lineno == 1
    assert caught.value.filename == "m.hlo"
