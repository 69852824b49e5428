"""The command line, as a user calls it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import dump_path

DUMP = str(dump_path("001"))


def hlorun(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "hlorun", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_run_prints_outputs_a_person_can_read() -> None:
    out = hlorun("run", DUMP).stdout
    assert "Running HLO module with runner hlorun..." in out
    assert "... compiled and ran in " in out
    assert "** Result with test runner hlorun **" in out
    assert "8 arrays, random, seed 0" in out
    assert "73.84" in out
    assert "bitcast.4" in out
    assert "Time: load" in out
    assert "Memory: arguments 507.5 kB" in out


def test_run_in_json() -> None:
    report = json.loads(hlorun("run", DUMP, "--json", "--repeat", "3", "--seed", "1").stdout)
    assert [o["name"] for o in report["outputs"]] == ["copy", "copy.1", "bitcast.3", "bitcast.4"]
    assert report["outputs"][0] == {
        "name": "copy",
        "index": "{0}",
        "shape": [],
        "dtype": "int32",
        "bytes": 4,
        "first": [32],
        "min": 32,
        "max": 32,
        "mean": 32.0,
    }
    assert len(report["seconds"]["runs"]) == 3
    assert report["bytes"]["argument_bytes"] == 507472


def test_run_is_reproducible_and_zeros_are_zeros() -> None:
    values = [
        json.loads(hlorun("run", DUMP, "--json", *more).stdout)["outputs"][3]["first"]
        for more in ([], ["--seed", "0"], ["--seed", "5"], ["--inputs", "zeros"])
    ]
    assert values[0] == values[1]
    assert values[0] != values[2]
    assert values[3] == [pytest.approx(32 * np.log(10), rel=1e-5)]


def test_run_says_what_collectives_span() -> None:
    out = hlorun("run", dump_path("003")).stdout
    assert "1 all-reduce over 1 group of 8: spans the 1 replica that runs here" in out


def test_run_of_several_replicas() -> None:
    report = json.loads(hlorun("run", dump_path("003"), "--replicas", "2", "--json").stdout)
    assert [row["index"] for row in report["outputs"]] == [f"{r}:{{{k}}}" for r in (0, 1) for k in range(6)]
    assert "spans the 2 replicas that run here" in report["notes"][0]


def test_run_refuses_what_is_no_npz(tmp_path: Path) -> None:
    garbage, single, objects = tmp_path / "garbage.npz", tmp_path / "single.npy", tmp_path / "objects.npz"
    garbage.write_text("no archive\n")
    np.save(single, np.ones(4, np.float32))
    np.savez(objects, arg_0=np.array([{}], dtype=object))
    for path, words in ((garbage, "is no .npy or .npz file"), (single, "one array"), (objects, "no array")):
        error = hlorun("run", DUMP, "--inputs", str(path), status=1).stderr
        assert path.name in error and words in error
        assert "Traceback" not in error


def test_run_reads_and_writes_npz(tmp_path: Path) -> None:
    module = tmp_path / "m.hlo"
    module.write_text(
        "HloModule m\n\nENTRY e {\n  x = bf16[2] parameter(0)\n  ROOT y = bf16[2] add(x, x)\n}\n"
    )
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    hlorun("run", module, "--out", first)
    renamed = tmp_path / "renamed.npz"
    with np.load(first) as file:
        np.savez(renamed, x=file["output_0"])
    hlorun("run", module, "--inputs", renamed, "--out", second)
    with np.load(first) as a, np.load(second) as b:
        assert a["output_0"].tobytes() != b["output_0"].tobytes()
    error = hlorun("run", module, "--inputs", second, status=1).stderr
    assert "no array for parameter 0, x bf16[2]" in error
    assert "output_0" in error


def test_show_fits_one_screen() -> None:
    out = hlorun("show", dump_path("004")).stdout
    assert len(out.splitlines()) <= 40
    for fact in (
        "512 computations, 8,217 instructions",
        "89, 452.7 MB, 76 donated",
        "492 GFLOP",
        "__cublas$gemm x 48",
        "all-reduce x 12 over 1 group of 8",
        "loops (18)",
        "f32[32000,1024]",
    ):
        assert fact in out, fact


def test_show_in_json() -> None:
    summary = json.loads(hlorun("show", dump_path("004"), "--json").stdout)
    assert len(summary["loops"]) == 18
    assert {loop["trip_count"] for loop in summary["loops"]} == {64}
    assert summary["products"] == {"count": 48, "flops": 492_042_190_848, "loop_flops": 463_856_467_968}
    assert sum(summary["opcodes"].values()) == summary["instructions"] == 8217


def test_show_of_a_part() -> None:
    out = hlorun("show", DUMP, "cublas-gemm.3").stdout
    assert "custom-call" in out
    assert "bitcast.1" in out
    assert "beta" in out
    out = hlorun("show", DUMP, "max_float_.106").stdout
    assert "ROOT" in out
    described = json.loads(hlorun("show", DUMP, "reduce.47", "--json").stdout)
    assert described["attributes"] == {"dimensions": [1], "to_apply": "minmax_func.35"}
    error = hlorun("show", DUMP, "cublas-gem.3", status=1).stderr
    assert "did you mean cublas-gemm.3" in error


def test_check(tmp_path: Path) -> None:
    good = hlorun("check", DUMP, dump_path("003")).stdout
    assert good.count(": ok, ") == 2
    bad = tmp_path / "bad.hlo"
    bad.write_text("HloModule m\n\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[3] add(x, x)\n}\n")
    done = hlorun("check", DUMP, bad, status=1)
    assert f"{bad}:5" in done.stderr
    assert ": ok, " in done.stdout
    reports = json.loads(hlorun("check", DUMP, bad, "--json", status=1).stdout)
    assert [r["ok"] for r in reports] == [True, False]
    assert reports[1]["findings"][0]["instruction"] == "y"


def test_fmt_round_trips(tmp_path: Path) -> None:
    for more in ([], ["--long"], ["--preset", "short_parsable"]):
        out = tmp_path / "out.hlo"
        hlorun("fmt", DUMP, *more, "--out", out)
        text = hlorun("fmt", out, *more).stdout
        assert text == out.read_text()
    assert "add(f32[] " in hlorun("fmt", DUMP, "--long").stdout
    assert "default" in hlorun("fmt", DUMP, "--preset", "nothing", status=2).stderr


def test_batch_writes_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    done = hlorun("batch", dump_path("001").parent, "--out", table, status=1)
    assert "5 files, 2 failed" in done.stdout
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["instructions"] for row in rows] == ["", "133", "", "157", "8217"]
    assert rows[0]["error"] == "HloParseError"
    assert "suffix" in hlorun("batch", DUMP, "--out", tmp_path / "table.txt", status=2).stderr


@pytest.mark.parametrize("command", ["run", "show", "fmt", "check"])
def test_failures_are_messages_with_a_status(command: str, tmp_path: Path) -> None:
    error = hlorun(command, tmp_path / "absent.txt", status=1).stderr
    assert error == f"error: {tmp_path / 'absent.txt'}: No such file or directory\n"
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    assert "empty.txt" in hlorun(command, empty, status=1).stderr


@pytest.mark.parametrize("command", [["show"], ["run"], ["trace"], ["diff", "--run"]])
def test_deep_tuples_are_no_traceback(command: list[str], tmp_path: Path) -> None:
    deep = tmp_path / "deep.hlo"
    deep.write_text(
        "HloModule m\nENTRY e { ROOT x = " + "(" * 5000 + "f32[]" + ")" * 5000 + " parameter(0) }"
    )
    files = [deep] * (1 + (command[0] == "diff"))
    done = hlorun(*command, *files, status=int(command != ["show"]))
    assert command == ["show"] or "tuples deeper than 256" in done.stdout + done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f'"{sys.executable}" -m hlorun fmt "{dump_path("004")}" | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("HloModule")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_version_and_help() -> None:
    assert hlorun("--version").stdout.startswith("hlorun 0.")
    out = hlorun("--help").stdout
    assert "run" in out


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, hlorun; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = {
        "ml_dtypes",
        "typer",
        "click",
        "rich",
        "pyarrow",
        "matplotlib",
        "mpi4py",
        "multiprocessing",
        "asyncio",
    }
    assert not loaded & heavy


def test_check_notes_custom_calls_that_nobody_can_run(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    path.write_text(
        "HloModule m\nENTRY e {\n  p = f32[4,4] parameter(0)\n"
        '  a = f32[4,4] custom-call(p), custom_call_target="mine"\n'
        '  b = f32[4,4] custom-call(a), custom_call_target="Sharding", sharding={replicated}\n'
        '  ROOT c = f32[4,4] custom-call(b), custom_call_target="mine"\n}\n'
    )
    assert "note: nobody can run 2 custom calls of 'mine' (a, c)" in hlorun("check", path).stdout
    (report,) = json.loads(hlorun("check", path, "--json").stdout)
    assert report["ok"] and len(report["notes"]) == 1
    elided = path.with_name("elided.txt")
    elided.write_text(
        "HloModule m\nENTRY e {\n  k = f32[4,4] constant({...})\n"
        '  ROOT c = f32[4,4] custom-call(k), custom_call_target="mine"\n}\n'
    )
    (report,) = json.loads(hlorun("check", elided, "--json").stdout)
    assert len(report["notes"]) == 2
    assert report["notes"][0].startswith("does not run as it is: 1 constant without values in the text (k ")
    assert "nobody can run 1 custom call of 'mine' (c)" in report["notes"][1]
    assert "note" not in hlorun("check", DUMP).stdout
