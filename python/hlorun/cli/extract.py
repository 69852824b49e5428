"""`hlorun extract`: a part of a module as a module."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from hlorun.cli.common import Dump, check_module_file, console, load, plural, reporting_errors, write
from hlorun.cli.names import names_in_dump, unknown


def extract(
    dump: Dump,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A computation or an instruction.", autocompletion=names_in_dump),
    ],
    depth: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Steps of operands to take along; what lies beyond becomes parameters."),
    ] = None,
    out: Annotated[Optional[Path], typer.Option("--out", "-o", help="Write here.")] = None,  # noqa: UP045
) -> None:
    """Print a computation, or an instruction with all it depends on, as a module that runs by itself."""
    import hlorun

    with reporting_errors(dump):
        module = load(dump)
        if name not in module:
            unknown(module, name)
            raise typer.Exit(1)
        made = hlorun.extract(module, name, depth)
        made.verify()
        if out is not None:
            check_module_file(out)
        if not write(out, str(made)):
            return
        entry = made.entry_computation
        parameters = len(entry.parameters) if entry is not None else 0
        console(stderr=True).print(
            f"{plural(made.instruction_count, 'instruction')}, {plural(parameters, 'parameter')}: {out}",
            markup=False,
            soft_wrap=True,
        )
