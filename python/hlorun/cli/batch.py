"""`hlorun batch`: a row per file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    Json,
    bytes_text,
    console,
    fail,
    plural,
    print_json,
    reporting_errors,
    seconds_text,
)
from hlorun.errors import describe

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
MOST_FAILURES = 10
"""Failed files that are listed on the screen."""


def batch(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR|DUMP...", help="Directories, searched through, and files.")
    ],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out",
            "-o",
            help="A table of the files, .csv, .jsonl or .parquet; or a folder, for tables of all that is in "
            "them. A .parquet table needs pyarrow: pip install 'hlorun\\[arrow]'.",
        ),
    ] = None,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Threads; all CPUs by default.")] = None,  # noqa: UP045
    verify: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(help="Verify each module; done by default, but not for tables in a folder."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="In a folder: run each module once, with random inputs.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="In a folder: as --verify; with --run, prove each plan, too."),
    ] = False,
    resume: Annotated[
        bool, typer.Option(help="In a folder: leave files alone that are in the tables and have not changed.")
    ] = True,
    shard: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="I/N", help="In a folder: every Nth file from the Ith on, counted from 0."),
    ] = None,
    tables: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME,NAME", help="In a folder: these tables only."),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="In a folder: on a Ray cluster, that of RAY_ADDRESS or a new one.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="With --run: seed of random inputs.")] = 0,
    timeout: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(min=0, help="With --run: seconds after which each run is ended."),
    ] = None,
    json: Json = False,
) -> None:
    """Parse many files: one row for each, also for those that fail, or tables of all that is in them.

    A folder of tables can be gone on with: what is in them and has not changed is not read again. Exit
    status 1 when a file fails.
    """
    if out is not None and (out.is_dir() or not out.suffix):
        if check and verify is False:
            raise typer.BadParameter("--check verifies each module", param_hint="--no-verify")
        check = check or bool(verify)
        options: dict[str, Any] = {"run": run, "check": check, "resume": resume, "workers": workers}
        options |= {"shard": _shard(shard), "seed": seed, "timeout": timeout}
        options["tables"] = None if tables is None else [name.strip() for name in tables.split(",")]
        bad = _folder(paths, out, options, ray=ray, json=json)
    else:
        given: dict[str, Any] = {"--run": run, "--check": check, "--no-resume": not resume, "--ray": ray}
        given |= {"--shard": shard, "--tables": tables, "--seed": seed, "--timeout": timeout}
        if (word := next((word for word, value in given.items() if value), None)) is not None:
            raise typer.BadParameter("this is for tables in a folder: --out FOLDER", param_hint=word)
        bad = _table(paths, out, workers, verify=verify is not False, json=json)
    if bad:
        raise typer.Exit(1)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()) or int(index) >= int(count):
        raise typer.BadParameter(
            f"a shard is I/N with I from 0 to N - 1, as 0/4, not {text}", param_hint="--shard"
        )
    return int(index), int(count)


def _folder(paths: list[Path], out: Path, options: dict[str, Any], *, ray: bool, json: bool) -> bool:
    """Write tables to a folder; whether a file failed."""
    import hlorun

    with reporting_errors():
        try:
            if ray:
                from hlorun.ray import batch as on_ray

                done = on_ray(paths, out=out, **options)
            else:
                done = hlorun.batch(paths, out=out, **options)
        except ModuleNotFoundError as error:
            fail(str(error))
            raise typer.Exit(1) from None
        is_empty = not done.files and options["shard"] is None
        if is_empty:
            fail(_nothing(paths))
        if json:
            print_json(done.to_dict())
        if json or is_empty:
            return is_empty or done.failed > 0
        for path, message in done.failures[:MOST_FAILURES]:
            fail(message if message.startswith(f"{path}: ") else f"{path}: {message}")
        if done.failed > MOST_FAILURES:
            fail(f"… {done.failed - MOST_FAILURES:,} more; error_message in {out}/part-*/modules.parquet")
        text = f"{plural(done.files, 'file')}, {done.failed:,} failed{_left_out(paths)}"
        if done.skipped:
            text += f", {done.skipped:,} done before"
        rate = f", {bytes_text(int(done.bytes / done.seconds))}/s" if done.seconds and done.bytes else ""
        console().print(
            f"{text}; {bytes_text(done.bytes)} in {seconds_text(done.seconds)}{rate}, tables in {out}",
            markup=False,
        )
    return done.failed > 0


def _table(paths: list[Path], out: Path | None, workers: int | None, *, verify: bool, json: bool) -> bool:
    """Print or write a row per file; whether one failed."""
    import hlorun

    def describe_module(module: HloModule) -> dict[str, Any]:
        from hlorun.report.summary import summarize

        if verify:
            module.verify()
        return summarize(module)

    write = _writer(out)
    with reporting_errors():
        rows = []
        screen = console(stderr=True)
        with screen.status("reading") if screen.is_terminal else _quiet():
            for record in hlorun.batch(paths, fn=describe_module, workers=workers):
                rows.append(_row(record.path, record.value, record.error))
                if record.error is not None and not json:
                    message = rows[-1]["message"]
                    is_named = message.startswith(f"{record.path}: ")
                    fail(message if is_named else f"{record.path}: {message}")
        if not rows:
            fail(_nothing(paths))
        elif write is not None:
            write(rows)
        bad = sum(not row["ok"] for row in rows)
        if json:
            print_json(rows)
        elif rows:
            written = f", table written to {out}" if out is not None else ""
            text = f"{plural(len(rows), 'file')}, {bad} failed{_left_out(paths)}"
            console().print(f"{text}{written}", markup=False)
    return bad > 0 or not rows


def _nothing(paths: list[Path]) -> str:
    return f"no HLO in {', '.join(map(str, paths))}{_left_out(paths)}"


def _left_out(paths: list[Path]) -> str:
    """How many files were not read because XLA names them as such on memory or thunks."""
    from hlorun._batch import find_files

    left_out: list[Path] = []
    find_files(paths, left_out)
    return f", {plural(len(left_out), 'file')} on memory or thunks left out" if left_out else ""


class _quiet:
    """No progress display."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _row(path: Path, summary: dict[str, Any] | None, error: Exception | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"path": str(path), "ok": error is None}
    if error is not None:
        row["error"] = type(error).__name__
        row["message"] = describe(error)
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
            message = f"a table is .csv, .jsonl or .parquet, not {suffix}; a folder has no suffix"
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
