"""`hlorun batch`: a row per file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import Json, console, describe_error, fail, plural, print_json, reporting_errors

if TYPE_CHECKING:
    from hlorun import HloModule

COLUMNS = (
    "path",
    "ok",
    "error",
    "message",
    "module",
    "computations",
    "instructions",
    "parameters",
    "parameter_bytes",
    "output_bytes",
    "loops",
    "matrix_products",
    "flops",
    "custom_calls",
    "collectives",
)
"""Columns of the table."""


def batch(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR|DUMP...", help="Directories, searched through, and files.")
    ],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", "-o", help="Write a table: .csv, .jsonl, or .parquet (needs pyarrow)."),
    ] = None,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Threads; all CPUs by default.")] = None,  # noqa: UP045
    verify: Annotated[bool, typer.Option(help="Verify each module.")] = True,
    json: Json = False,
) -> None:
    """Parse and verify many files; one row for each, also for those that fail.

    Exit status 1 when a file fails.
    """
    import hlorun

    def describe(module: HloModule) -> dict[str, Any]:
        from hlorun.report.summary import summarize

        if verify:
            module.verify()
        return summarize(module)

    write = _writer(out)
    with reporting_errors():
        rows = []
        screen = console(stderr=True)
        with screen.status("reading") if screen.is_terminal else _quiet():
            for record in hlorun.batch(paths, fn=describe, workers=workers):
                rows.append(_row(record.path, record.value, record.error))
                if record.error is not None and not json:
                    message = rows[-1]["message"]
                    is_named = message.startswith(f"{record.path}: ")
                    fail(message if is_named else f"{record.path}: {message}")
        if write is not None:
            write(rows)
        bad = sum(not row["ok"] for row in rows)
        if json:
            print_json(rows)
        else:
            written = f", table written to {out}" if out is not None else ""
            console().print(f"{plural(len(rows), 'file')}, {bad} failed{written}", markup=False)
    if bad:
        raise typer.Exit(1)


class _quiet:
    """No progress display."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _row(path: Path, summary: dict[str, Any] | None, error: Exception | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"path": str(path), "ok": error is None}
    if error is not None:
        row["error"] = type(error).__name__
        row["message"] = describe_error(error)
    if summary is not None:
        row |= {
            "module": summary["name"],
            "computations": summary["computations"],
            "instructions": summary["instructions"],
            "parameters": summary["parameters"]["count"],
            "parameter_bytes": summary["parameters"]["bytes"],
            "output_bytes": summary["outputs"]["bytes"],
            "loops": len(summary["loops"]),
            "matrix_products": summary["products"]["count"],
            "flops": summary["products"]["flops"],
            "custom_calls": sum(summary["custom_calls"].values()),
            "collectives": sum(c["count"] for c in summary["collectives"]),
        }
    return row


def _writer(out: Path | None) -> Callable[[list[dict[str, Any]]], None] | None:
    """What writes the table; found before any work, so that a wrong name costs nothing."""
    if out is None:
        return None
    match out.suffix:
        case ".csv":
            return lambda rows: _write_csv(out, rows)
        case ".jsonl":
            return lambda rows: _write_jsonl(out, rows)
        case ".parquet":
            try:
                import pyarrow as arrow
                import pyarrow.parquet as parquet
            except ImportError:
                raise typer.BadParameter(
                    "a .parquet table needs pyarrow: pip install 'hlorun[arrow]'", param_hint="--out"
                ) from None
            return lambda rows: parquet.write_table(arrow.Table.from_pylist(rows), out)
        case suffix:
            message = f"a table is .csv, .jsonl or .parquet, not {suffix or 'without a suffix'}"
            raise typer.BadParameter(message, param_hint="--out")


def _write_csv(out: Path, rows: list[dict[str, Any]]) -> None:
    import csv

    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def _write_jsonl(out: Path, rows: list[dict[str, Any]]) -> None:
    import json

    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
