"""`hlorun plan`: the module after a pass."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from hlorun._names import hint
from hlorun.cli.common import Dump, fail, load, reporting_errors


def plan(
    dump: Dump,
    after: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pass; without it, the last one.")
    ] = None,
    thunks: Annotated[
        bool,
        typer.Option(
            "--thunks", help="Print a summary and every step with what it reads and writes instead."
        ),
    ] = False,
) -> None:
    """Print the module as HLO after a pass; with --thunks, the steps."""
    import hlorun

    with reporting_errors(), tempfile.TemporaryDirectory() as folder:
        executable = hlorun.compile(load(dump), dump=folder)
        if thunks:
            typer.echo(f"{executable.explain()}\n{executable.listing()}".rstrip())
            return
        texts = {path.stem.partition("-")[2]: path for path in sorted(Path(folder).iterdir())}
        name = after if after is not None else list(texts)[-1]
        if name not in texts:
            near = hint(name, texts).removeprefix("; ")
            fail(f"no pass is called {name!r}; {near + ' ' if near else ''}there are {', '.join(texts)}")
            raise typer.Exit(2)
        typer.echo(texts[name].read_text().rstrip())
