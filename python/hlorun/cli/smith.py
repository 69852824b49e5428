"""`hlorun smith` and `mutate`: random legal modules, to hunt with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from hlorun.cli.common import Dump, check_module_file, fail, load, reporting_errors, write

if TYPE_CHECKING:
    from hlorun import HloModule

Seed = Annotated[int, typer.Option(min=0, help="Another seed, another module.")]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", "-o", metavar="FILE", help="Write the module here; printed by default."),
]


def smith(
    seed: Seed = 0,
    size: Annotated[int, typer.Option(min=1, max=1000, help="Number of operations, about.")] = 12,
    out: Out = None,
) -> None:
    """Make a random legal module; the same seed and size give the same one."""
    import hlorun

    with reporting_errors():
        _write(hlorun.smith(seed, size), out)


def mutate(dump: Dump, seed: Seed = 0, out: Out = None) -> None:
    """Exchange one to three words of a module so that it stays legal: numbers, types, opcodes, names."""
    import hlorun

    with reporting_errors(dump):
        module = load(dump)
        try:
            changed = hlorun.mutate(module, seed)
        except ValueError as error:
            fail(str(error))
            raise typer.Exit(1) from None
        _write(changed, out)


def _write(module: HloModule, out: Path | None) -> None:
    if out is not None:
        check_module_file(out)
    write(out, str(module))
