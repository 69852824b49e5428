"""The command line. Commands import what they need when they run, so that `--help` is instant."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from hlorun.cli.batch import batch
from hlorun.cli.check import check
from hlorun.cli.cost import cost
from hlorun.cli.diff import diff
from hlorun.cli.extract import extract
from hlorun.cli.find import bisect, compare, nan, reduce
from hlorun.cli.fmt import fmt
from hlorun.cli.folder import passes
from hlorun.cli.graph import graph
from hlorun.cli.memory import memory
from hlorun.cli.plan import plan
from hlorun.cli.run import run
from hlorun.cli.show import show
from hlorun.cli.smith import mutate, smith
from hlorun.cli.trace import trace

__all__ = ["app", "main"]

app = typer.Typer(
    name="hlorun",
    help="Read XLA HLO text dumps and run them on the CPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    run, show, passes, plan, cost, memory, trace, nan, diff, compare, bisect, reduce, check, fmt, extract,
    graph, batch, smith, mutate,
):  # fmt: skip
    app.command()(_command)


def _version(wanted: bool) -> None:
    if wanted:
        from hlorun._hlorun import __version__

        typer.echo(f"hlorun {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Read XLA HLO text dumps and run them on the CPU."""
    words = ("", "0", "1", "shadow")
    if (check := os.environ.get("HLORUN_CHECK", "")) not in words:
        from hlorun.cli.common import fail

        fail(f"HLORUN_CHECK is 0, 1 or shadow, not {check!r}")
        raise typer.Exit(2)


def main() -> None:
    """Entry point of the `hlorun` command."""
    app(prog_name="hlorun")
