"""Many dumps as Parquet tables: `hlorun.batch(paths, out=folder)`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hlorun
from conftest import dump_path
from hlorun._hlorun import _copy_rows, _read_stored, _TableRows
from hlorun.cli import app
from hlorun.report.cost import costs
from hlorun.tables import drive, parts, write
from streams import Stream
from test_cli import hlorun as command

pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GOOD = """HloModule good

ENTRY e {
  x = f32[SIZE] parameter(0)
  ROOT y = f32[SIZE] add(x, x), metadata={op_name="double" source_file="a.py" source_line=SIZE}
}
"""


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    files = sorted(folder.glob(f"part-*/{table}.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def paths_in(folder: Path) -> list[str]:
    """The files that the tables have, as often as they have them."""
    return sorted(row["path"] for row in read(folder, "modules"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Modules of random sizes, and two files that are none."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    for number, size in enumerate(Stream("batch tables").integers(1, 9, 20)):
        (folder / f"{number:02}.hlo").write_text(GOOD.replace("SIZE", str(size)))
    (folder / "bad.txt").write_text("HloModule bad\n\nENTRY e {\n  x = f32[\n")
    (folder / "binary.txt").write_bytes(bytes(range(256)))
    return folder


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the dumps."""
    out = tmp_path_factory.mktemp("tables")
    done = hlorun.batch(dump_path("001").parent, out=out, workers=2)
    assert (done.files, done.failed, done.skipped) == (5, 2, 0)
    return out


def test_the_tables_have_the_columns_of_the_schema(dumps: Path) -> None:
    schema = hlorun.batch_schema()
    for name, about in schema["tables"].items():
        files = list(dumps.glob(f"part-*/{name}.parquet"))
        assert files
        for path in files:
            with parquet.ParquetFile(path) as file:
                file.read().validate(full=True)
                columns = {field.name: str(field.type) for field in file.schema_arrow}
                assert list(columns) == [column for column, _, _ in about["columns"]]
                for column, kind, meaning in about["columns"]:
                    first = {"list": "list", "map": "map"}.get(kind.split()[0], kind.split()[0])
                    assert columns[column].startswith(first), (column, columns[column])
                    assert meaning.endswith(".")
                assert int(file.metadata.metadata[b"hlorun.schema_version"]) == schema["version"]


def test_modules_say_what_the_tools_say(dumps: Path, modules: dict[str, hlorun.HloModule]) -> None:
    rows = {Path(row["path"]).name[:3]: row for row in read(dumps, "modules")}
    assert {number for number, row in rows.items() if row["error_kind"]} == {"000", "002"}
    assert "buffer assignment" in rows["000"]["error_message"]
    for number, module in modules.items():
        row, found, memory = rows[number], costs(module), module.memory_analysis()
        assert row["name"] == module.name and row["fingerprint"] == module.fingerprint()
        assert row["instructions"] == module.instruction_count and row["kind"] == "text"
        assert row["flops"] == found["xla"]["flops"]
        assert row["run_flops"] == pytest.approx(found["run"]["flops"])
        assert row["run_bytes_accessed"] == pytest.approx(found["run"]["bytes accessed"])
        assert row["unknown_custom_calls"] == found["unknown_custom_calls"]
        assert row["peak_bytes"] == memory.peak_memory_in_bytes
        summary = hlorun.summary(module)
        assert dict(row["opcodes"]) == summary.opcodes
        assert row["loops"] == len(summary.loops)
        # No collective of these is in a loop.
        sums = {c["opcode"]: c["bytes"] for c in summary.collectives}
        assert dict(row["collective_bytes"]) == sums


def test_instructions_and_edges_are_those_of_the_module(
    dumps: Path, modules: dict[str, hlorun.HloModule]
) -> None:
    module = modules["004"]
    rows = [row for row in read(dumps, "instructions") if "004_" in row["path"]]
    instructions = module.instructions
    assert [row["name"] for row in rows] == [i.name for i in instructions]
    names = {row["id"]: row["name"] for row in rows}
    edges: dict[str, list[str]] = {}
    control = 0
    for edge in read(dumps, "edges"):
        if "004_" in edge["path"] and edge["operand"] is None:
            control += 1
            before = module[names[edge["target"]]].attributes["control-predecessors"]
            assert names[edge["source"]] in [instruction.name for instruction in before]
        elif "004_" in edge["path"]:
            operands = edges.setdefault(names[edge["target"]], [])
            assert edge["operand"] == len(operands)
            operands.append(names[edge["source"]])
    lines = module.source.decode().splitlines()
    for row, instruction in zip(rows, instructions, strict=True):
        assert edges.get(row["name"], []) == [o.name for o in instruction.operands]
        assert row["opcode"] == instruction.opcode and row["shape"] == str(instruction.shape)
        assert row["trips"] == instruction.trip_count and row["runs"] == instruction.runs
        assert row["source_file"] == instruction.metadata.source_file
        layout = instruction.shape.layout
        assert row["minor_to_major"] == list(layout.minor_to_major if layout is not None else ())
        line = lines[row["line"] - 1]
        assert f"{row['name']} = " in line
        assert row["attributes"].split("=")[0] in line
        assert "metadata=" not in row["attributes"] and "backend_config=" not in row["attributes"]
    assert control > 0
    sample = next(row for row in rows if row["opcode"] == "reduce")
    assert sample["attributes"].startswith("dimensions={")
    costly = next(
        row for row in rows if row["opcode"] == "dot" or row["custom_call_target"] == "__cublas$gemm"
    )
    cost = module[costly["name"]].cost_analysis()
    assert (costly["flops"], costly["bytes_accessed"]) == (cost["flops"], cost["bytes accessed"])


def test_the_other_tables(dumps: Path, modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["003"]

    def rows(table: str) -> list[dict[str, Any]]:
        return [row for row in read(dumps, table) if "003_" in row["path"]]

    assert [row["name"] for row in rows("computations")] == [c.name for c in module]
    assert [row["runs"] for row in rows("computations")] == [c.runs for c in module]
    (collective,) = rows("collectives")
    assert (collective["groups"], collective["group_size"], collective["runs"]) == (1, 8, 1)
    assert collective["replica_groups"] == "{{0,1,2,3,4,5,6,7}}"
    calls = [i for i in module.instructions if i.opcode == "custom-call"]
    assert [row["target"] for row in rows("custom_calls")] == [i.custom_call_target for i in calls]
    values = [
        (a.index, value.instruction, value.index, value.size, value.offset)
        for a in module.buffer_assignment().allocations
        for value in a.values
    ]
    keys = ("allocation", "instruction", "index", "bytes", "offset")
    assert [tuple(row[key] for key in keys) for row in rows("buffers")] == values
    live = module.live_ranges()
    assert live is not None
    ranges = {(name, index.strip("{}")): (start, end) for name, index, start, end in live.buffer_live_ranges}
    for row in rows("buffers"):
        if row["live_from"] is not None:
            key = row["instruction"], row["index"].strip("{}")
            assert (row["live_from"], row["live_to"]) == ranges[key]


def test_graphs_are_arrays(dumps: Path, modules: dict[str, hlorun.HloModule]) -> None:
    schema = hlorun.batch_schema()
    names = schema["features"]
    found = {Path(graph.path).name[:3]: graph for graph in hlorun.graphs(dumps)}
    assert set(found) == {"001", "003", "004"}
    rows = {row["id"]: row["name"] for row in read(dumps, "instructions") if "001_" in row["path"]}
    graph, module = found["001"], modules["001"]
    assert graph.features.shape == (module.instruction_count, len(names))
    edges = sorted((rows[a], rows[b]) for a, b in graph.edge_index.T.tolist())
    assert edges == sorted((o.name, i.name) for i in module.instructions for o in i.operands)
    for node, name in rows.items():
        instruction = module[name]
        assert schema["opcodes"][graph.opcode[node]] == instruction.opcode
        value = dict(zip(names, graph.features[node].tolist(), strict=True))
        assert value["is_root"] == instruction.is_root and value["operands"] == len(instruction.operands)
        if instruction.shape.is_array:
            assert schema["element_types"][int(value["element_type"])] == instruction.shape.element_type
            dims = [*instruction.shape.dims, *[-1] * 6][:6]
            assert [value[f"dim_{k}"] for k in range(6)] == dims
    assert np.isfinite(graph.features).all()
    with pytest.raises(hlorun.HloArgumentError, match="no table of graphs"):
        next(hlorun.graphs(dumps.parent / "nothing"))


def test_polars_and_duckdb_read_them(dumps: Path) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.read_parquet(dumps / "part-*" / "instructions.parquet")
    assert frame.height == 133 + 157 + 8217
    assert frame.filter(polars.col("opcode") == "while")["trips"].unique().to_list() == [64]
    glob = dumps / "part-*" / "modules.parquet"
    query = f"SELECT sum(opcodes['while']), count(*) FILTER (error_kind = '') FROM '{glob}'"
    assert duckdb.sql(query).fetchall() == [(18, 3)]


LONG = 10_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a module whose columns have several pages, lists that go on from one to the next, and gaps."""
    folder = tmp_path_factory.mktemp("long")
    array, end = "f32[3,2]{1,0}", "n" * 120
    lines = [f"  i0_{end} = {array} parameter(0)"]
    for k in range(1, LONG):
        kind = ("negate", "while", "tuple", "cosine")[k % 7 % 4]
        operand, of = f"i{k - 1}_{end}", ""
        if kind == "tuple":
            lines.append(f"  t{k} = ({array}) tuple({operand})")
            kind, operand, of = "get-tuple-element", f"t{k}", ", index=0"
        elif kind == "while":
            of = ", condition=c, body=b"
        else:
            of = f", metadata={{source_line={k}}}"
        lines.append(f"  i{k}_{end} = {array} {kind}({operand}){of}")
    lines[-1] = lines[-1].replace("  i", "  ROOT i")
    called = (
        "c {\n  x = f32[3,2]{1,0} parameter(0)\n  ROOT p = pred[] constant(false)\n}\n"
        "b {\n  ROOT x = f32[3,2]{1,0} parameter(0)\n}\n"
    )
    text = "HloModule long\n" + called + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"
    (folder / "long.hlo").write_text(text)
    (folder / "none.hlo").write_text("HloModule none\nENTRY e {\n  ROOT t = () tuple()\n}\n")
    (folder / "tables").mkdir()
    part = parts.Part(tuple(parts.state_of([folder / "long.hlo", folder / "none.hlo"])))
    options = drive.options_of(None, run=False, check=False, seed=0, timeout=None)
    assert write.write_part(folder / "tables", part, options).failed == ()
    return folder


def test_every_page_is_read(long: Path) -> None:
    """Columns are those that Arrow gets, which go another way."""
    import pyarrow

    (part,) = parts.whole_parts(long / "tables")
    rows = parquet.read_table(part / "instructions.parquet")
    modules = [hlorun.load(long / name) for name in ("long.hlo", "none.hlo")]
    tables = [pyarrow.record_batch(module.to_arrow()) for module in modules]
    names = [name for name in rows.column_names if name != "path"]
    wanted = pyarrow.concat_tables(pyarrow.Table.from_batches([t]).select(names) for t in tables)
    for name in names:
        assert rows[name].to_pylist() == wanted[name].to_pylist(), name
    graph, empty = hlorun.graphs(long / "tables")
    assert len(graph.opcode) == modules[0].instruction_count and graph.features.size > 1 << 19
    features = hlorun.batch_schema()["features"]
    operands = graph.features[:, features.index("operands")]
    assert operands.tolist() == [len(i.operands) for i in modules[0].instructions]
    assert (len(empty.opcode), empty.edge_sources.size, empty.call_edges.shape) == (1, 0, (0, 2))


def test_numbers_may_be_far_apart(tmp_path: Path) -> None:
    """Sizes whose differences do not fit into 64 bits, and all differ."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    most = (1 << 63) - 1
    sizes = [int(size) for size in Stream("far apart").integers(0, most, 5000)]
    sizes[1000:1004] = [0, most, 0, most]
    lines = [f"  p{k} = s8[{size}]{{0}} parameter({k})" for k, size in enumerate(sizes)]
    lines[-1] = lines[-1].replace("  p", "  ROOT p")
    (tmp_path / "far.hlo").write_text("HloModule far\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n")
    hlorun.batch(tmp_path / "far.hlo", out=tmp_path / "out")
    assert [row["dims"] for row in read(tmp_path / "out", "instructions")] == [[size] for size in sizes]
    (file,) = (tmp_path / "out").glob("part-*/instructions.parquet")
    assert polars.read_parquet(file)["bytes"].to_list() == sizes
    assert duckdb.sql(f"SELECT bytes FROM '{file}'").fetchall() == [(size,) for size in sizes]


def test_all_readers_agree(long: Path) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    (part,) = parts.whole_parts(long / "tables")
    for table in hlorun.batch_schema()["tables"]:
        path = part / f"{table}.parquet"
        rows = parquet.read_table(path)
        frame = polars.read_parquet(path)
        relation = duckdb.read_parquet(str(path)).to_arrow_table()
        assert len(rows) == len(frame) == len(relation)
        for name in rows.column_names:
            if table == "modules" and name in ("opcodes", "collective_bytes"):
                continue
            wanted = rows[name].to_pylist()
            assert frame[name].to_list() == wanted, (table, name)
            assert relation[name].to_pylist() == wanted, (table, name)
    count = f"SELECT count(*) FROM '{part}/instructions.parquet' WHERE"
    module = hlorun.load(long / "long.hlo")
    trips = sum(i.opcode == "parameter" for i in module.instructions)
    for condition, rows_of in (
        (f"path = '{long}/none.hlo'", 1),
        ("id > 9000", module.instruction_count - 9_001),
        ("parameter_number IS NOT NULL", trips),
        ("flops >= 0", module.instruction_count + 1),
        ("name >= 'x'", sum(i.name >= "x" for i in module.instructions)),
    ):
        assert duckdb.sql(f"{count} {condition}").fetchall() == [(rows_of,)], condition


def test_rows_that_stay_are_copied_as_they_are(long: Path, dumps: Path, tmp_path: Path) -> None:
    for part in [*parts.whole_parts(long / "tables"), *parts.whole_parts(dumps)]:
        files, metadata = _read_stored(part / "modules.parquet")
        for kept in ({path for path, _, _ in files}, {files[0][0]}, {files[-1][0]}, {"none"}):
            for source in part.glob("*.parquet"):
                copy = tmp_path / source.name
                _copy_rows(source, copy, kept)
                before, after = parquet.read_table(source), parquet.read_table(copy)
                assert after.schema.equals(before.schema, check_metadata=True)
                rows = [row for row in before.to_pylist() if row["path"] in kept]
                assert repr(after.to_pylist()) == repr(rows), (source, kept)
        assert _read_stored(tmp_path / "modules.parquet") == ([], metadata)


def test_tables_need_no_pyarrow(files: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import hlorun; print(hlorun.batch(sys.argv[1], out=sys.argv[2]).skipped)"
    )
    command = [sys.executable, "-c", code, str(files), str(tmp_path / "out")]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout == "0\n"
    (files / "03.hlo").write_text(GOOD.replace("SIZE", "77"))
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout == "21\n"
    shapes = [row["shape"] for row in read(tmp_path / "out", "instructions")]
    assert len(shapes) == 40 and shapes.count("f32[77]") == 2


def test_errors_of_the_system_name_the_file(tmp_path: Path) -> None:
    rows = _TableRows(["modules"], tmp_path / "absent", [])
    with pytest.raises(FileNotFoundError) as absent:
        rows.close()
    path = tmp_path / "modules.parquet"
    path.symlink_to("/dev/full")
    rows = _TableRows(["modules"], tmp_path, [])
    with pytest.raises(OSError) as full:
        rows.close()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(OSError, match=r"torn\.parquet"):
        _read_stored(tmp_path / "torn.parquet")
    there = tmp_path / "absent" / "modules.parquet"
    for error, number, name in ((absent.value, errno.ENOENT, there), (full.value, errno.ENOSPC, path)):
        assert (error.errno, error.strerror) == (number, os.strerror(number))
        assert error.filename == str(name)


def test_a_bad_file_is_a_row(files: Path, tmp_path: Path) -> None:
    (files / "empty").mkdir()
    done = hlorun.batch([files, files / "absent.hlo"], out=tmp_path / "out", workers=3)
    assert (done.files, done.failed) == (23, 3)
    assert len(done.failures) == 3 and done.to_dict()["failed"] == 3
    rows = {Path(row["path"]).name: row for row in read(tmp_path / "out", "modules")}
    assert rows["absent.hlo"]["error_kind"] == "FileNotFoundError"
    assert rows["bad.txt"]["error_stage"] == "read" and "line 5" in rows["bad.txt"]["error_message"]
    assert len(rows) == 23 and len(read(tmp_path / "out", "instructions")) == 40


def test_what_is_done_and_unchanged_is_skipped(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    hlorun.batch(files, out=out, tables=["modules", "edges"])
    before = {path.name: path.stat().st_mtime_ns for path in parts.whole_parts(out)}
    again = hlorun.batch(files, out=out, tables=["modules", "edges"])
    assert (again.skipped, again.failed, again.bytes) == (22, 0, 0)
    assert {path.name: path.stat().st_mtime_ns for path in parts.whole_parts(out)} == before
    (files / "03.hlo").write_text(GOOD.replace("SIZE", "77"))
    (files / "new.hlo").write_text(GOOD.replace("SIZE", "78"))
    changed = hlorun.batch(files, out=out, tables=["modules", "edges"])
    assert (changed.files, changed.skipped) == (23, 21)
    assert paths_in(out) == sorted(str(path) for path in files.iterdir())
    assert len(read(out, "edges")) == 42
    every = hlorun.batch(files, out=out, tables=["modules", "edges"], resume=False)
    assert every.skipped == 0 and paths_in(out) == sorted(str(path) for path in files.iterdir())
    with pytest.raises(hlorun.HloArgumentError, match="take another folder"):
        hlorun.batch(files, out=out)
    some = sorted(files.iterdir())[1:]
    with pytest.raises(hlorun.HloArgumentError, match=r"give all files that it has rows of, .*00\.hlo among"):
        hlorun.batch(some, out=out, resume=False)
    assert not [path for path in out.iterdir() if path.name.startswith((".part", ".gone"))]


KILLED = """
import os, sys
from pathlib import Path
import hlorun
from hlorun.tables import drive, parts, write
parts.PART_FILES = 3
left = 8
rows = write._TableRows
class Killing:
    def __init__(self, *given):
        self.rows = rows(*given)
    def write(self):
        global left
        left -= 1
        if left == 0:
            os._exit(7)
        self.rows.write()
    def __getattr__(self, name):
        return getattr(self.rows, name)
write._TableRows = Killing
hlorun.batch(sys.argv[1], out=sys.argv[2], workers=2)
"""


def test_a_run_that_was_killed_goes_on(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, files, out], timeout=120)
    assert done.returncode == 7
    first = paths_in(out)
    assert 0 < len(first) < 22
    assert [path for path in out.iterdir() if path.name.startswith(".part")]
    rest = hlorun.batch(files, out=out)
    assert rest.skipped == len(first)
    assert paths_in(out) == sorted(str(path) for path in files.iterdir())
    assert not [path for path in out.iterdir() if path.name.startswith(".part")]


def test_shards_share_the_files(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    counts = [hlorun.batch(files, out=out, shard=(k, 3)).files for k in range(3)]
    assert counts == [8, 7, 7]
    assert paths_in(out) == sorted(str(path) for path in files.iterdir())
    assert hlorun.batch(files, out=out).skipped == 22
    for shard in ((3, 3), (-1, 2), (0, 0)):
        with pytest.raises(hlorun.HloArgumentError, match="shard"):
            hlorun.batch(files, out=out, shard=shard)


def test_rows_are_written_as_they_come(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    hlorun.batch(files, out=whole)
    monkeypatch.setattr(write, "FLUSH_BYTES", 1)
    hlorun.batch(files, out=pieces)
    (part,) = parts.whole_parts(pieces)
    with parquet.ParquetFile(part / "instructions.parquet") as file:
        assert file.num_row_groups == 20
    for table in hlorun.batch_schema()["tables"]:
        assert read(whole, table) == read(pieces, table)


def test_a_file_whose_rows_cannot_be_made(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, *given: Any) -> None:
            self.rows = _TableRows(*given)

        def add(self, module: Any, facts: dict[str, Any]) -> str:
            if module is not None and "07" in Path(facts["path"]).name:
                raise hlorun.HloExecutionError("a panic")
            return self.rows.add(module, facts)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.rows, name)

    monkeypatch.setattr(write, "_TableRows", Failing)
    done = hlorun.batch(files, out=tmp_path / "out")
    assert done.failed == 3
    (row,) = [row for row in read(tmp_path / "out", "modules") if "07" in Path(row["path"]).name]
    assert row["error_message"] == "a panic"


def test_runs_and_checks(files: Path, tmp_path: Path) -> None:
    (files / "wrong.hlo").write_text(GOOD.replace("[SIZE] add", "[3,SIZE] add").replace("SIZE", "2"))
    (files / "large.hlo").write_text(GOOD.replace("SIZE", str(10**13)))
    (files / "nan.hlo").write_text(
        "HloModule n\nENTRY e {\n  x = f32[4] parameter(0)\n  z = f32[4] subtract(x, x)\n"
        "  ROOT r = f32[4] divide(z, z)\n}\n"
    )
    hlorun.batch(files, out=tmp_path / "out", run=True, check=True, tables=["modules"], timeout=60)
    rows = {Path(row["path"]).name: row for row in read(tmp_path / "out", "modules")}
    assert (
        rows["wrong.hlo"]["error_stage"] == "verify" and rows["wrong.hlo"]["error_kind"] == "HloVerifyError"
    )
    assert rows["large.hlo"]["error_stage"] == "run" and rows["large.hlo"]["instructions"] == 2
    assert rows["nan.hlo"]["output_nan"] == 4 and rows["00.hlo"]["output_nan"] == 0
    assert rows["00.hlo"]["run_seconds"] > 0 and rows["bad.txt"]["run_seconds"] is None


def test_the_arguments(files: Path, tmp_path: Path) -> None:
    with pytest.raises(hlorun.HloArgumentError, match="no table nodes"):
        hlorun.batch(files, out=tmp_path / "out", tables=["nodes"])
    with pytest.raises(hlorun.HloArgumentError, match="not both"):
        hlorun.batch(files, lambda module: module, out=tmp_path / "out")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least 1"):
        hlorun.batch(files, out=tmp_path / "out", workers=0)


def test_the_command(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command("batch", files, "--out", out, "--shard", "0/2", "--tables", "modules,graphs", status=1)
    assert "11 files, 1 failed" in done.stdout and f"tables in {out}" in done.stdout
    assert "line 5" in done.stderr
    report = json.loads(
        command("batch", files, "--out", out, "--tables", "modules,graphs", "--json", status=1).stdout
    )
    assert (report["files"], report["skipped"], report["failed"]) == (22, 11, 1)
    assert "11 done before" not in done.stdout
    assert command("batch", files, "--out", out, "--tables", "modules,graphs").stdout.startswith(
        "22 files, 0"
    )
    assert "I/N" in command("batch", files, "--out", out, "--shard", "2/2", status=2).stderr
    assert "FOLDER" in command("batch", files, "--out", tmp_path / "t.csv", "--run", status=2).stderr
    assert "no table" in command("batch", files, "--out", out, "--tables", "nodes", status=2).stderr


def test_a_bar_counts_the_files(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hlorun.batch(files, out=tmp_path / "a")
    assert not capsys.readouterr().err
    hlorun.batch(files, out=tmp_path / "b", progress=True)
    assert "/22" in capsys.readouterr().err


def test_leftovers_of_the_living_stay(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    part = parts.Part((parts.File("a", 1, 1),))
    mine = parts.hidden_name(out, part)
    mine.mkdir()
    dead = Path(str(mine).replace(f"+{os.getpid()}+", "+999999999+"))
    dead.mkdir()
    hlorun.batch(files, out=out)
    assert mine.exists() and not dead.exists()


def test_names_that_are_no_unicode_and_times_far_away(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    text = "HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n"
    odd = os.fsdecode(bytes(dumps) + b"/odd\xff.txt")
    try:
        Path(odd).write_text(text)
    except OSError:
        pytest.skip("the file system wants Unicode")
    late = dumps / "late.txt"
    late.write_text(text)
    os.utime(late, (20_000_000_000, 20_000_000_000))
    for skipped in (0, 2):
        done = hlorun.batch(dumps, out=tmp_path / "tables")
        assert (done.files, done.failed, done.skipped) == (2, 0, skipped)


def test_a_circle_of_copies_ends(tmp_path: Path) -> None:
    path = tmp_path / "circle.txt"
    path.write_text("""HloModule m
c { p = (s32[]) parameter(0)
  a = s32[] copy(a)
  n = s32[] constant(3)
  ROOT lt = pred[] compare(a, n), direction=LT }
b { p = (s32[]) parameter(0)
  g = s32[] get-tuple-element(p), index=0
  ROOT t = (s32[]) tuple(g) }
ENTRY e { i = s32[] constant(0)
  s = (s32[]) tuple(i)
  ROOT w = (s32[]) while(s), condition=c, body=b }
""")
    module = hlorun.load(path)
    assert module["w"].trip_count is None
    assert hlorun.batch(path, out=tmp_path / "tables").files == 1


def test_a_system_without_flock_is_refused(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hlorun.tables.drive.find_spec", lambda name: None)
    with pytest.raises(hlorun.HloUnsupportedError, match="flock"):
        hlorun.batch(files, out=tmp_path / "tables")


def test_verify_in_a_folder_is_check(tmp_path: Path) -> None:
    illegal = tmp_path / "illegal.hlo"
    illegal.write_text("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[3] add(p, p) }")
    out = str(tmp_path / "out")
    assert CliRunner().invoke(app, ["batch", str(illegal), "--out", out]).exit_code == 0
    done = CliRunner().invoke(app, ["batch", str(illegal), "--out", out, "--verify", "--no-resume"])
    assert done.exit_code == 1
    (row,) = read(tmp_path / "out", "modules")
    assert row["error_stage"] == "verify"
    both = ["batch", str(illegal), "--out", out, "--check", "--no-verify"]
    assert CliRunner().invoke(app, both).exit_code == 2
