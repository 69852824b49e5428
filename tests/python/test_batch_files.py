"""The Parquet files of `hlorun.batch`: large ones, copies, and damaged ones."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hlorun
from hlorun._hlorun import _copy_rows, _read_stored, _TableRows
from hlorun.tables import parts, write

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXT = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x), metadata={op_name="double"}
}
"""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables of two files with long names."""
    dumps = tmp_path / ("d" * 100)
    dumps.mkdir()
    for name in "ab":
        (dumps / f"{name}.hlo").write_text(TEXT)
    hlorun.batch(dumps, out=tmp_path / "tables")
    (part,) = parts.whole_parts(tmp_path / "tables")
    return part


def chunks(path: Path) -> list[dict[str, Any]]:
    """What a file of one row group says of its columns, their places aside."""
    with parquet.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        found = [group.column(column).to_dict() for column in range(group.num_columns)]
    aside = ("file_offset", "data_page_offset", "dictionary_page_offset")
    return [{key: value for key, value in chunk.items() if key not in aside} for chunk in found]


def test_dictionaries_of_many_words_and_columns_of_many_rows(tmp_path: Path) -> None:
    """More words than 16 bits count, and more rows than a page has."""
    count = 140_000
    lines = [f'  i{k} = s32[] parameter({k}), metadata={{op_name="o{k}"}}' for k in range(count)]
    lines[-1] = lines[-1].replace("  i", "  ROOT i")
    path = tmp_path / "large.hlo"
    path.write_text("HloModule large\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n")
    hlorun.batch(path, out=tmp_path / "out", tables=["instructions"])
    (part,) = parts.whole_parts(tmp_path / "out")
    rows = parquet.read_table(part / "instructions.parquet")
    wanted = pyarrow.Table.from_batches([pyarrow.record_batch(hlorun.load(path).to_arrow())])
    for name in rows.column_names:
        if name != "path":
            column = wanted[name]
            if pyarrow.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            assert rows[name].to_pylist() == column.to_pylist(), name
    assert rows["op_name"][count - 1].as_py() == f"o{count - 1}"
    _copy_rows(part / "instructions.parquet", tmp_path / "copy", {str(path)})
    assert parquet.read_table(tmp_path / "copy").equals(rows)


def test_row_groups_that_stay_are_copied_as_bytes(tables: Path, tmp_path: Path) -> None:
    files = {path for path, _, _ in _read_stored(tables / "modules.parquet")[0]}
    for source in tables.glob("*.parquet"):
        if parquet.read_metadata(source).num_rows > 0:
            _copy_rows(source, tmp_path / "copy", files)
            assert chunks(tmp_path / "copy") == chunks(source), source


def test_copies_have_the_statistics_of_fresh_files(tables: Path, tmp_path: Path) -> None:
    (kept, *_), _ = _read_stored(tables / "modules.parquet")
    for source in tables.glob("*.parquet"):
        if parquet.read_metadata(source).num_rows > 0:
            _copy_rows(source, tmp_path / "copy", {kept[0]})
            for old, new in zip(chunks(source), chunks(tmp_path / "copy"), strict=True):
                assert (old["statistics"] is None) == (new["statistics"] is None), (source, new)
                if new["path_in_schema"] == "path":
                    assert new["statistics"]["min"] == new["statistics"]["max"] == kept[0]


def test_damaged_tables_are_errors_that_name_them(tables: Path, tmp_path: Path) -> None:
    source = tables / "modules.parquet"
    rows = parquet.read_table(source)
    gap = pyarrow.array([rows["path"][0].as_py(), None])
    number = pyarrow.array([1, 2])
    for name, table in (
        ("gap", rows.set_column(0, "path", gap)),
        ("number", rows.set_column(0, "path", number)),
        ("none", rows.drop_columns(["path"])),
    ):
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(table, path, compression="lz4")
        with pytest.raises(OSError, match=rf"{name}\.parquet: .*damaged"):
            _read_stored(path)
        with pytest.raises(OSError, match=rf"{name}\.parquet: .*damaged"):
            _copy_rows(path, tmp_path / "copy", {gap[0].as_py()})
    parquet.write_table(rows, tmp_path / "snappy.parquet", compression="snappy")
    with pytest.raises(OSError, match=r"snappy\.parquet: .*packed with snappy, which hlorun does not read"):
        _read_stored(tmp_path / "snappy.parquet")
    data = source.read_bytes()
    (tmp_path / "torn.parquet").write_bytes(data[:4] + bytes(len(data) // 2) + data[len(data) // 2 + 4 :])
    with pytest.raises(OSError, match=r"torn\.parquet"):
        _copy_rows(tmp_path / "torn.parquet", tmp_path / "copy", {gap[0].as_py()})


def test_copying_says_which_file_is_at_fault(tables: Path, tmp_path: Path) -> None:
    source = tables / "modules.parquet"
    for old, new, at_fault, number in (
        (tmp_path / "absent", tmp_path / "copy", tmp_path / "absent", errno.ENOENT),
        (source, tmp_path / "no" / "copy", tmp_path / "no" / "copy", errno.ENOENT),
        (tmp_path, tmp_path / "copy", tmp_path, errno.EISDIR),
        (source, Path("/dev/full"), Path("/dev/full"), errno.ENOSPC),
    ):
        with pytest.raises(OSError) as error:
            _copy_rows(old, new, set())
        assert (error.value.errno, error.value.filename) == (number, str(at_fault))


def test_failed_parts_leave_nothing_open(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")

    monkeypatch.setattr(write, "FLUSH_BYTES", 0)
    part = parts.Part(tuple(parts.state_of(tmp_path.glob("d*/*.hlo"))))
    out = tmp_path / "out"
    out.mkdir()
    files = 0

    def tell(_: object) -> None:
        nonlocal files
        files += 1
        if files == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as error:
        write.write_part(out, part, parts.Options(("modules", "edges")), tell=tell)
    fds = Path("/proc/self/fd").iterdir()
    assert not [fd for fd in fds if fd.is_symlink() and str(out) in os.readlink(fd)]
    assert error.tb is not None and not list(out.iterdir())


def test_a_failed_copy_leaves_nothing(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(parts, "_copy_rows", fail)
    files = [parts.File(*file) for file in _read_stored(tables / "modules.parquet")[0]]
    with pytest.raises(OSError, match="full"):
        parts._rewrite(tables, parts.Part(tuple(files[:1])))
    assert [path.name for path in tables.parent.iterdir() if path.name != ".lock"] == [tables.name]


def test_closed_tables_take_no_rows(tmp_path: Path) -> None:
    rows = _TableRows(["modules"], tmp_path, [])
    rows.close()
    with pytest.raises(ValueError, match="closed"):
        rows.write()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks the system for the state of a process")
def test_what_a_process_left_that_nobody_waited_for_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        left = tmp_path / f".{parts.PREFIX}0+0+{ended.pid}+{socket.gethostname()}"
        own = tmp_path / f".{parts.PREFIX}0+0+{os.getpid()}+{socket.gethostname()}"
        left.mkdir()
        own.mkdir()
        parts.sweep(tmp_path)
    assert not left.exists() and own.exists()
