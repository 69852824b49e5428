"""Modules that parse but are not legal, and dumps that contradict themselves, in every report."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlorun
from conftest import dump_path
from hlorun._inputs import file_inputs
from hlorun.report.cost import costs
from hlorun.report.graph import to_dot
from hlorun.report.graph_page import to_html
from hlorun.report.memory import memory_report
from hlorun.report.summary import summarize
from test_cli import DUMP
from test_cli import hlorun as command

GEMM = ', custom_call_target="__cublas$gemm", backend_config='
LOOP = ", condition=c, body=b, backend_config="
ILLEGAL = [
    "convolution(), dim_labels=bf_io->bf",
    "convolution(p), dim_labels=bf_io->bf",
    "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot(p, p), lhs_contracting_dims={7}, rhs_contracting_dims={0}",
    f"custom-call(){GEMM}{{}}",
    f'custom-call(p){GEMM}{{"dot_dimension_numbers":[1]}}',
    f'custom-call(p){GEMM}{{"gemm_backend_config":3}}',
    f'custom-call(p){GEMM}{{"dot_dimension_numbers":{{"lhs_contracting_dimensions":["x",null,-3]}}}}',
    "while(), condition=c, body=b",
    f'while(t){LOOP}{{"known_trip_count":{{"n":1e999}}}}',
    f'while(t){LOOP}{{"known_trip_count":{{"n":[1]}}}}',
    f'while(t){LOOP}{{"known_trip_count":{{"n":"-5"}}}}',
    f'while(t){LOOP}{{"known_trip_count":{{"n":"{"9" * 400}"}}}}',
    "get-tuple-element(), index=0",
    "fusion(), kind=kLoop, calls=c",
    "conditional(), branch_computations={c, b}",
    "all-reduce(), replica_groups={{0,1},{2}}, to_apply=c",
]


def _module(instruction: str) -> hlorun.HloModule:
    return hlorun.parse(f"""HloModule m
c {{ s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }}
b {{ s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1)
  a = s32[] add(i, n)
  ROOT r = (s32[]) tuple(a) }}
ENTRY e {{ p = f32[2,3] parameter(0)
  i = s32[] constant(0)
  t = (s32[]) tuple(i)
  ROOT r = (s32[]) {instruction} }}
""")


@pytest.mark.parametrize("instruction", ILLEGAL)
def test_reports_of_illegal_modules(instruction: str) -> None:
    module = _module(instruction)
    for report in (summarize, costs, to_dot, to_html):
        try:
            json.dumps(report(module), allow_nan=False)
        except hlorun.HloError as error:
            assert str(error)


def test_trip_counts_that_cannot_be_are_not_believed() -> None:
    loops = [_module(text).entry_computation for text in ILLEGAL if 'n":' in text]
    assert [entry.root.trip_count for entry in loops if entry is not None and entry.root is not None] == [
        3
    ] * 4


def test_runs_are_counted_up_to_a_bound() -> None:
    text = "HloModule m\nc0 { p = f32[] parameter(0)\n ROOT n = f32[] negate(p) }\n"
    for level in range(1, 1100):
        text += f"c{level} {{ p = f32[] parameter(0)\n a = f32[] call(p), to_apply=c{level - 1}\n"
        text += f" ROOT q = f32[] call(a), to_apply=c{level - 1} }}\n"
    module = hlorun.parse(
        text + "ENTRY e { p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=c1099 }\n"
    )
    most = 10**18
    assert max(computation.runs or 0 for computation in module) == most
    assert costs(module)["run"]["flops"] == pytest.approx(most)


def test_live_ranges_that_end_before_they_begin() -> None:
    text = str(hlorun.load_buffer_assignment(dump_path("002")))
    changed = text.replace(" cublas-gemm.3{}:5-6\n", " cublas-gemm.3{}:6-5\n")
    assert changed != text
    report = memory_report(hlorun.parse_buffer_assignment(changed))
    (value,) = [v for v in report["values"] if v["name"] == "cublas-gemm.3"]
    assert (value["start"], value["end"]) == (6, 6)


def test_a_computation_is_shown_with_its_attributes() -> None:
    out = command("show", DUMP, "fused_computation.1").stdout
    assert "constant_9 = f32[] constant(0)\n" in out
    assert "broadcast.12 = f32[32,10]{1,0} broadcast(param_1.25), dimensions={0}\n" in out
    assert "  ROOT log.0 = " in out and "op_name" not in out
    assert "operands" not in command("show", DUMP, "constant_33").stdout


def test_memory_says_whether_an_assignment_fits(tmp_path: Path) -> None:
    assert "the assignment fits the module" in command("memory", dump_path("002"), DUMP).stdout
    out = command("memory", dump_path("000"), DUMP, status=1).stdout
    assert "does not fit: UnknownInstruction: " in out and "more; --json has all of them" in out
    report = json.loads(command("memory", dump_path("000"), DUMP, "--json", status=1).stdout)
    assert len(report["findings"]) > 100
    diff = command("diff", dump_path("000"), dump_path("002"), "--limit", "3", status=1).stdout
    assert "2,564,824 → 525,448 bytes" in diff and "more; --limit shows them" in diff
    assert "hlorun[plot]" in command("memory", "--help").stdout
    bad = tmp_path / "bad.txt"
    bad.write_text("HloModule m\nENTRY e { ROOT p = f32[] parametr(0) }\n\n}")
    assert "bad.txt: line 2, column 35: " in command("batch", bad, status=1).stderr


def test_inputs_of_broken_files(tmp_path: Path) -> None:
    module = hlorun.parse(
        "HloModule m\nENTRY e { x = f32[40] parameter(0)\n y = s32[3] parameter(1)\n"
        " ROOT t = (f32[40], s32[3]) tuple(x, y) }"
    )
    path = tmp_path / "inputs.npz"
    rng = random.Random(3)
    for save in (np.savez, np.savez_compressed):
        save(path, x=np.arange(40, dtype=np.float32), y=np.arange(3, dtype=np.int32))
        whole = path.read_bytes()
        assert len(file_inputs(module, str(path))) == 2
        for _ in range(300):
            broken = bytearray(whole)
            for _ in range(rng.choice([1, 1, 2, 5])):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            path.write_bytes(broken[: rng.choice([len(broken), rng.randrange(len(broken))])])
            with contextlib.suppress(hlorun.HloError, OSError, MemoryError):
                file_inputs(module, str(path))


def test_outputs_that_cannot_be_written_are_known_before_the_run(tmp_path: Path) -> None:
    for option in ("--out", "--profile"):
        done = command("run", DUMP, option, tmp_path / "absent" / "file", status=1)
        assert "No such file or directory" in done.stderr
        assert "Running" not in done.stdout
    error = command("batch", tmp_path / "absent.txt", status=1).stderr
    assert error.count("absent.txt") == 1


def test_constants_that_are_nan_are_named_as_such() -> None:
    out = command("trace", DUMP, "--only-odd").stdout
    assert "1 of 66 values" in out and "none but in constants" in out


def test_counts_and_indentations_that_cannot_be() -> None:
    module = hlorun.parse("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n")
    for count in (0, -1):
        wrong: list[dict[str, Any]] = [{"replicas": count}, {"partitions": count}, {"threads": count}]
        for options in wrong:
            with pytest.raises(ValueError, match="at least 1"):
                hlorun.compile(module, **options)
    for replicas in (16385, 1 << 40):
        with pytest.raises(ValueError, match="at most 16384"):
            hlorun.compile(module, replicas=replicas)
    with pytest.raises(ValueError, match="at most 1000"):
        module.to_string(indent_amount=1 << 40)


def test_tables_are_not_cut_in_a_pipe(tmp_path: Path) -> None:
    dump = tmp_path / "m.txt"
    name = "a_long_name_of_a_value_" * 9
    dump.write_text(
        f"HloModule m\nENTRY e {{ c = c64[1,2,3] parameter(0)\n {name} = c64[1,2,3] negate(c)\n"
        " z = f32[] constant(0)\n d = f32[] divide(z, z)\n n = f32[3] broadcast(d), dimensions={}\n"
        f" ROOT t = (c64[1,2,3], f32[3]) tuple({name}, n) }}"
    )
    out = command("run", dump).stdout
    assert f"{name}  [1,2,3]  complex64  " in out
    assert "3 nan  nan nan nan" in out
    assert name in command("memory", dump, "--plan", "xla").stdout


def test_nan_of_the_inputs_is_told(tmp_path: Path) -> None:
    dump, inputs = tmp_path / "m.txt", tmp_path / "x.npz"
    dump.write_text("HloModule m\nENTRY e { p = f32[3] parameter(0)\n ROOT r = f32[3] negate(p) }")
    np.savez(inputs, p=np.array([1, np.nan, np.inf], np.float32))
    assert "parameter 0 p holds 1 nan 1 inf" in command("trace", dump, "--inputs", inputs).stdout
    report = json.loads(command("trace", dump, "--inputs", inputs, "--json").stdout)
    assert report["odd_inputs"] == [{"number": 0, "name": "p", "nan": 1, "inf": 1}]
    for wrong in (np.array(["a", "b", "c"]), np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]")):
        np.savez(inputs, p=wrong)
        assert "expects f32[3]" in command("trace", dump, "--inputs", inputs, status=1).stderr
