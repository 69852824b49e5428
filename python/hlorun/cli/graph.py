"""`hlorun graph`: a module as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hlorun.cli.common import (
    Dump,
    Inputs,
    Timeout,
    bytes_text,
    console,
    load,
    reporting_errors,
    write,
)

if TYPE_CHECKING:
    from hlorun import HloModule, NanReport


def graph(
    dump: Dump,
    html: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page that any browser shows, offline; - for standard output.",
        ),
    ] = None,
    dot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--dot", metavar="FILE", help="Write Graphviz's language; - for standard output."),
    ] = None,
    profile: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="A file of `hlorun run --profile`: the page shows its times."),
    ] = None,
    nan: Annotated[
        bool, typer.Option("--nan", help="Run, and mark what makes NaN or Inf and what carries them on.")
    ] = False,
    diff: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="OTHER",
            help="Mark what is added or changed since OTHER, an earlier module, as by `hlorun diff`.",
        ),
    ] = None,
    inputs: Inputs = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs, for --nan.")] = 0,
    timeout: Timeout = None,
) -> None:
    """Draw a module: groups by op_name, loops and fusions that open in place, search, neighbours, ways.

    Without --html and --dot the page is DUMP.html in the working directory.
    """
    import hlorun
    from hlorun.report.graph import to_dot
    from hlorun.report.graph_page import read_times, to_html

    if not nan and (inputs is not None or timeout is not None):
        raise typer.BadParameter("they are for the run of --nan", param_hint="--inputs, --timeout")
    with reporting_errors(dump):
        module = load(dump)
        if dot is not None and html is None and (nan or diff is not None):
            raise hlorun.HloArgumentError("--nan and --diff are for the page: --html FILE")
        if dot is None and html is None:
            html = Path(f"{dump.name if str(dump) != '-' else 'stdin'}.html")
        if dot is not None:
            _write(dot, to_dot(module))
        if html is not None:
            times = read_times(profile) if profile is not None else None
            found = _nan(module, inputs, seed, timeout) if nan else None
            difference = hlorun.diff(load(diff), module) if diff is not None else None
            _write(html, to_html(module, times, nan=found, diff=difference))


def _nan(module: HloModule, inputs: str | None, seed: int, timeout: float | None) -> NanReport:
    import hlorun
    from hlorun._inputs import describe_inputs

    values, described = describe_inputs(module, inputs, seed)
    console(stderr=True).print(described, markup=False, soft_wrap=True)
    return hlorun.find_nan(module, *values, timeout=timeout)


def _write(path: Path, text: str) -> None:
    if write(path, text):
        size = bytes_text(len(text.encode()))
        console(stderr=True).print(f"{path}: {size}", markup=False, soft_wrap=True)
