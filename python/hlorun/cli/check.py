"""`hlorun check`: is it legal HLO?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hlorun.cli.common import Json, fail, plural, print_json, reporting_errors
from hlorun.errors import describe

if TYPE_CHECKING:
    from hlorun import HloModule


def check(
    dumps: Annotated[list[Path], typer.Argument(metavar="DUMP...", help="HLO text files.")],
    json: Json = False,
) -> None:
    """Parse and verify; every broken rule with its line. Exit status 1 when a file has one.

    Custom calls of targets that hlorun does not know are noted, and are no error.
    """
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
            notes = _notes(module) if module is not None and error is None else []
            if json:
                reports.append({**_report(path, module, error), "notes": notes})
            elif error is not None:
                text = str(error) if isinstance(error, hlorun.HloError) else describe(error)
                fail(text if str(path) in text else f"{path}: {text}")
            elif module is not None:
                typer.echo(f"{path}: ok, {plural(module.instruction_count, 'instruction')}")
                for note in notes:
                    typer.echo(f"  note: {note}")
        if json:
            print_json(reports)
    if bad:
        raise typer.Exit(1)


def _notes(module: HloModule) -> list[str]:
    """What a legal module has that does not run here."""
    import hlorun

    if not any(i.opcode == "custom-call" for c in module.computations for i in c.instructions):
        return []
    try:
        calls = hlorun.compile(module, replicas=1, partitions=1).unknown_custom_calls()
    except hlorun.HloError as error:
        return [f"does not run: {error}"]
    by_target: dict[str, list[str]] = {}
    for call in calls:
        by_target.setdefault(call.custom_call_target or "", []).append(call.name)
    return [
        f"nobody can run {plural(len(names), 'custom call')} of {target!r} "
        f"({', '.join(names[:4])}{', …' if len(names) > 4 else ''}); register_custom_call gives it a meaning"
        for target, names in sorted(by_target.items())
    ]


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
