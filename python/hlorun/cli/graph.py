"""`hlorun graph`: a module as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from hlorun.cli.common import Dump, bytes_text, console, load, reporting_errors


def graph(
    dump: Dump,
    html: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--html", metavar="FILE", help="Write a page that any browser shows, offline."),
    ] = None,
    dot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--dot", metavar="FILE", help="Write Graphviz's language; - for standard output."),
    ] = None,
    profile: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="A file of `hlorun run --profile`: the page shows its times."),
    ] = None,
) -> None:
    """Draw a module: groups by op_name, loops and fusions that open in place, search, neighbours, ways.

    Without an option the page is DUMP.html in the working directory.
    """
    from hlorun.report.graph import to_dot
    from hlorun.report.graph_page import read_times, to_html

    with reporting_errors(dump):
        module = load(dump)
        if dot is None and html is None:
            html = Path(f"{dump.name if str(dump) != '-' else 'stdin'}.html")
        if dot == Path("-"):
            sys.stdout.write(to_dot(module))
        elif dot is not None:
            _write(dot, to_dot(module))
        if html is not None:
            _write(html, to_html(module, read_times(profile) if profile is not None else None))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    size = bytes_text(len(text.encode()))
    console(stderr=True).print(f"{path}: {size}", markup=False, soft_wrap=True)
