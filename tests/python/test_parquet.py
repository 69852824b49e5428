"""Parquet files of tables, as pyarrow, polars and DuckDB read them, against the tables themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hlorun
from conftest import dump_path
from hlorun._hlorun import ArrowTable, _ParquetWriter, _TableRows
from streams import Stream

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
compute = pytest.importorskip("pyarrow.compute")

FACTS: dict[str, Any] = {
    "path": "dump",
    "file_bytes": 1,
    "modified_ns": -1,
    "error_stage": "",
    "error_kind": "",
    "error_message": "",
    "compile_seconds": None,
    "run_seconds": None,
    "output_nan": None,
    "output_inf": None,
}
TABLES = list(hlorun.batch_schema()["tables"])


def tables(modules: list[hlorun.HloModule | None]) -> dict[str, ArrowTable]:
    """All tables of modules; None is a file that is none."""
    rows = _TableRows(TABLES)
    for number, module in enumerate(modules):
        facts = {**FACTS, "path": f"dump{number}", "error_message": "" if module else "no module"}
        if number % 2:
            facts["run_seconds"], facts["output_nan"] = 0.5 * number, number
        rows.add(module, facts)
    return rows.take()


def random_module(seed: str) -> hlorun.HloModule:
    """A module of random shapes, names, metadata and constants."""
    stream = Stream(seed)
    lines = ["  x0 = f32[] parameter(0)"]
    for number in range(1, 1 + int(stream.integers(1, 400, 1)[0])):
        rank = int(stream.integers(0, 4, 1)[0])
        dims = ",".join(str(k) for k in stream.integers(1, 99, rank))
        name = "".join(chr(97 + k % 26) for k in stream.integers(0, 1 << 20, 1 + number % 70))
        line = f"  x{number} = f32[{dims}] broadcast(x0), dimensions={{}}"
        if number % 3:
            line += f', metadata={{op_name="{name}" source_file="{name[:3]}.py" source_line={number}}}'
        lines.append(line)
    last = f"  ROOT r = ({'f32[], ' * 2}f32[]) tuple(x0, x0, x0)"
    return hlorun.parse("HloModule random\n\nENTRY e {\n" + "\n".join([*lines, last]) + "\n}\n")


def write(path: Path, groups: list[ArrowTable]) -> None:
    """Write a file of row groups."""
    writer = _ParquetWriter(path, [(b"key", b"value")])
    for group in groups:
        writer.write(group)
    writer.close()


def expect_same(read: Any, made: Any, name: str) -> None:
    """Columns have the same values, whatever widths and dictionaries their types have."""
    read, made = (column.combine_chunks() for column in (read, made))
    if pyarrow.types.is_map(read.type):
        assert read.to_pylist() == made.to_pylist(), name
    else:
        assert made.cast(read.type).equals(read), name


@pytest.fixture(scope="module")
def groups() -> list[dict[str, ArrowTable]]:
    """Row groups: of several pages, of random modules, and of rows that are mostly empty."""
    dumps = [hlorun.load(dump_path(name)) for name in ("001", "003", "004", "004", "004")]
    random = [random_module(f"parquet {number}") for number in range(9)]
    return [tables(list(dumps)), tables([None, *random, None]), tables([None])]


@pytest.mark.parametrize("name", TABLES)
def test_pyarrow_reads_what_was_written(
    name: str, groups: list[dict[str, ArrowTable]], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    write(path, [group[name] for group in groups])
    read = parquet.read_table(path)
    made = pyarrow.Table.from_batches([pyarrow.record_batch(group[name]) for group in groups])
    assert read.column_names == made.column_names and read.num_rows == made.num_rows > 0
    for column in made.column_names:
        expect_same(read[column], made[column], column)
    metadata = parquet.ParquetFile(path).metadata
    assert metadata.metadata == {b"key": b"value"}
    assert metadata.num_row_groups == sum(group[name].num_rows > 0 for group in groups)


@pytest.mark.parametrize("name", TABLES)
def test_the_types_are_those_of_the_schema(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(path, [tables([])[name]])
    fields = parquet.read_schema(path)
    expected = {
        "string": "string",
        "string (dictionary)": "string",
        "list of int64": "list<element: int64>",
        "list of float": "list<element: float>",
        "list of string": "list<element: string>",
        "map of string to int64": "map<string, int64>",
    }
    columns = hlorun.batch_schema()["tables"][name]["columns"]
    found = [(field.name, re.sub(r" \('.*?'\)", "", str(field.type))) for field in fields]
    assert found == [(column, expected.get(kind, kind)) for column, kind, _ in columns]
    assert parquet.read_table(path).num_rows == 0


def test_extremes_are_those_of_the_values(groups: list[dict[str, ArrowTable]], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(path, [groups[1]["instructions"]])
    values = parquet.read_table(path)
    row_group = parquet.ParquetFile(path).metadata.row_group(0)
    checked = 0
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        if "." in chunk.path_in_schema:
            assert chunk.statistics is None
            continue
        column = values[chunk.path_in_schema]
        assert chunk.statistics.null_count == column.null_count
        if chunk.statistics.has_min_max:
            checked += 1
            ends = (chunk.statistics.min, chunk.statistics.max)
            assert ends == (compute.min(column).as_py(), compute.max(column).as_py()), chunk.path_in_schema
    assert checked > 15


@pytest.mark.parametrize("name", TABLES)
def test_polars_and_duckdb_read_the_same(
    name: str, groups: list[dict[str, ArrowTable]], tmp_path: Path
) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.parquet"
    write(path, [group[name] for group in groups])
    read = parquet.read_table(path)
    frame = polars.read_parquet(path)
    rows = duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table()
    for field in read.schema:
        expect_same(rows[field.name], read[field.name], field.name)
        # Polars has no maps, but lists of pairs.
        if not pyarrow.types.is_map(field.type):
            expect_same(read[field.name], pyarrow.table(frame)[field.name], field.name)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _ParquetWriter(tmp_path / "absent" / "x.parquet", [])
