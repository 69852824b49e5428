"""`hlorun trace`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import dump_path
from test_cli import hlorun

BROKEN = """HloModule m
ENTRY e { p = f32[3] parameter(0)
  z = f32[] constant(-1)
  w = f32[3] broadcast(z), dimensions={}
  mask = f32[] constant(-inf)
  masks = f32[3] broadcast(mask), dimensions={}
  sum = f32[3] add(p, w), metadata={op_name="model/shift" source_file="model.py" source_line=7}
  bad = f32[3] log(sum), metadata={op_name="model/log" source_file="model.py" source_line=8}
  ROOT r = f32[3] maximum(bad, masks) }
"""


def traced(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hlorun("trace", *arguments, "--json").stdout)
    return found


def test_the_first_nan_is_found_where_it_is_made(tmp_path: Path) -> None:
    dump = tmp_path / "m.txt"
    dump.write_text(BROKEN)
    found = traced(dump)
    first = found["first_nan"]
    assert (first["name"], first["op_name"], first["source"]) == ("bad", "model/log", "model.py:8")
    # The mask is meant to be infinite.
    assert found["first_inf"] is None
    assert [row["name"] for row in found["values"]] == ["w", "masks", "sum", "bad", "r"]
    assert [row["name"] for row in traced(dump, "--only-odd")["values"]] == ["masks", "bad", "r"]
    assert [row["name"] for row in traced(dump, "--until", "sum")["values"]][-1] == "sum"
    assert [row["name"] for row in traced(dump, "--until-nan")["values"]][-1] == "bad"
    text = hlorun("trace", dump).stdout
    assert "first NaN" in text and "model.py:8" in text


def test_a_dump_in_numbers() -> None:
    found = traced(dump_path("001"))
    row = next(row for row in found["values"] if row["name"] == "fusion.3")
    assert row["min"] == 0 and row["max"] > 0 and row["shape"] == [32, 128] and row["times"] == 1
    assert (
        "no computation or instruction" in hlorun("trace", dump_path("001"), "--until", "x", status=1).stderr
    )
