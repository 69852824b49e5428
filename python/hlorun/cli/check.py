"""`hlorun check`: is it legal HLO?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hlorun.cli.common import Json, describe_error, fail, plural, print_json, reporting_errors


def check(
    dumps: Annotated[list[Path], typer.Argument(metavar="DUMP...", help="HLO text files.")],
    json: Json = False,
) -> None:
    """Parse and verify; every broken rule with its line. Exit status 1 when a file has one."""
    import hlorun

    reports = []
    bad = 0
    with reporting_errors():
        for path in dumps:
            error: Exception | None = None
            module = None
            try:
                module = hlorun.load(path)
                module.verify()
            except (hlorun.HloError, OSError) as caught:
                error = caught
            bad += error is not None
            if json:
                reports.append(_report(path, module, error))
            elif error is not None:
                text = str(error) if isinstance(error, hlorun.HloError) else describe_error(error)
                fail(text if str(path) in text else f"{path}: {text}")
            elif module is not None:
                typer.echo(f"{path}: ok, {plural(module.instruction_count, 'instruction')}")
        if json:
            print_json(reports)
    if bad:
        raise typer.Exit(1)


def _report(path: Path, module: object, error: Exception | None) -> dict[str, object]:
    import hlorun

    findings: list[dict[str, object]] = []
    if isinstance(error, hlorun.HloVerifyError):
        findings = [finding._asdict() for finding in error.errors]
    elif isinstance(error, hlorun.HloParseError):
        findings = [{"message": error.message, "lineno": error.lineno, "offset": error.offset}]
    elif error is not None:
        findings = [{"message": str(error)}]
    return {
        "path": str(path),
        "ok": error is None,
        "error": type(error).__name__ if error is not None else None,
        "findings": findings,
    }
