"""`hlorun fmt`: print a module in one of XLA's dialects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from hlorun.cli.common import Dump, load, reporting_errors, words, write
from hlorun.cli.names import choose

PRESETS = ("default", "short_parsable", "canonical", "fingerprint")
"""What `--preset` takes."""
FORMS = ("text", "pb", "pbtxt")
"""What `--to` takes."""


def fmt(
    dump: Dump,
    preset: Annotated[
        str,
        typer.Option(
            help="default, short_parsable, canonical or fingerprint, as in XLA.",
            autocompletion=words(*PRESETS),
        ),
    ] = "default",
    long: Annotated[
        bool, typer.Option("--long", help="Operand shapes, as dumps before 2025 have them.")
    ] = False,
    to: Annotated[
        str,
        typer.Option(
            help="text, pb for an HloModuleProto, or pbtxt for the text of one.", autocompletion=words(*FORMS)
        ),
    ] = "text",
    out: Annotated[Optional[Path], typer.Option("--out", "-o", help="Write here.")] = None,  # noqa: UP045
) -> None:
    """Print a module again, in the dialect asked for, or write it as a proto.

    The presets canonical and fingerprint leave things out and are for comparing: what they print need not
    parse or run.
    """
    choose(to, FORMS, "--to")
    choose(preset, PRESETS, "--preset")
    with reporting_errors(dump):
        module = load(dump)
        if to == "pb":
            write(out, module.to_proto())
            return
        if to == "pbtxt":
            text = module.to_pbtxt()
        else:
            options = {"print_operand_shape": True} if long else {}
            text = module.to_string(preset, **options)
        if not text.endswith("\n"):
            text += "\n"
        write(out, text)
