"""A module runs on as many devices as its header names, unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from test_cli import hlorun as command

PARTITIONS = """HloModule partitions, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[] parameter(0)
  id = u32[] partition-id()
  f = f32[] convert(id)
  y = f32[] add(x, f)
  ROOT r = f32[] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
}
"""
BOTH = """HloModule both, replica_count=2, num_partitions=3
ENTRY e {
  p = u32[] partition-id()
  r = u32[] replica-id()
  c = u32[] constant(10)
  m = u32[] multiply(r, c)
  ROOT s = u32[] add(m, p)
}
"""


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.txt"
    path.write_text(PARTITIONS)
    return path


def test_compile_takes_the_headers_counts() -> None:
    executable = hlorun.compile(hlorun.parse(BOTH))
    assert (executable.replicas, executable.partitions) == (2, 3)
    assert [int(x) for x in executable.run_replicas([[]] * 6)] == [0, 1, 2, 10, 11, 12]
    executable = hlorun.compile(hlorun.parse(BOTH), partitions=1)
    assert (executable.replicas, executable.partitions) == (2, 1)
    assert hlorun.compile(hlorun.parse(BOTH), replicas=1, partitions=1)() == 0


def test_arguments_of_one_device_are_refused() -> None:
    """They would be silently those of fewer devices than the module names."""
    module = hlorun.parse(PARTITIONS)
    executable = hlorun.compile(module)
    runs: list[Callable[[], Any]] = [
        lambda: executable(1.0),
        lambda: executable.run({"x": 1.0}),
        lambda: hlorun.run(module, 1.0),
    ]
    for run in runs:
        with pytest.raises(hlorun.HloArgumentError, match=r"compiled for 4 partitions.*run_replicas"):
            run()
    assert hlorun.compile(module, partitions=1)(1.0) == 1
    assert executable.run_replicas([[1.0]] * 4) == [10] * 4


def test_counts_of_a_header_are_verified() -> None:
    with pytest.raises(hlorun.HloVerifyError, match="num_partitions"):
        hlorun.compile(hlorun.parse(PARTITIONS.replace("=4", "=0")))
    with pytest.raises(ValueError, match="16384, not 1 times 99999"):
        hlorun.compile(hlorun.parse(PARTITIONS.replace("=4", "=99999")))


def test_an_observer_is_told_the_device() -> None:
    seen: dict[tuple[str, int], float] = {}
    executable = hlorun.compile(hlorun.parse(PARTITIONS))
    executable.run_replicas(
        [[float(d)] for d in range(4)],
        observer=lambda instruction, value, device: seen.update({(instruction.name, device): float(value)}),
    )
    assert [seen["y", device] for device in range(4)] == [0, 2, 4, 6]
    assert {value for (name, _), value in seen.items() if name == "r"} == {12}


def test_run(dump: Path) -> None:
    report = json.loads(command("run", dump, "--inputs", "zeros", "--json").stdout)
    assert [out["max"] for out in report["outputs"]] == [6] * 4
    assert (report["replicas"], report["partitions"]) == (1, 4)
    text = command("run", dump, "--partitions", "1").stdout
    assert "the module is for 4 partitions, this runs on 1 replica" in text
    dump.write_text(PARTITIONS.replace("{{0,1,2,3}}", "{{0,1,2,3},{4,5,6,7}}"))
    text = command("run", dump, "--replicas", "2").stdout
    assert "partition P of replica R has seed 0 + R * 4 + P" in text and "7:" in text
    assert "--partitions 1" in command("run", dump, "--profile", dump.parent / "p.json", status=1).stderr


def test_run_names_the_outputs_of_devices(dump: Path) -> None:
    out = dump.parent / "out.npz"
    command("run", dump, "--out", out)
    with np.load(out) as file:
        assert sorted(file.files) == [f"replica_0_partition_{p}_output_0" for p in range(4)]


def test_trace(dump: Path) -> None:
    report = json.loads(command("trace", dump, "--inputs", "zeros", "--json").stdout)
    (row,) = [row for row in report["values"] if row["name"] == "f"]
    assert (row["times"], row["min"], row["max"], row["mean"]) == (4, 0, 3, 1.5)
    report = json.loads(command("trace", dump, "--inputs", "zeros", "--partitions", "1", "--json").stdout)
    assert all(row["times"] == 1 for row in report["values"])
