"""`hlorun check`: is it legal HLO?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hlorun.cli.common import (
    Json,
    describe_file,
    each_file,
    fail,
    load,
    plural,
    print_json,
    reporting_errors,
    words,
)
from hlorun.cli.names import choose

if TYPE_CHECKING:
    from hlorun import HloModule


FORMATS = ("text", "json", "github", "sarif")
"""What `--output-format` takes."""


def check(
    dumps: Annotated[
        list[Path],
        typer.Argument(
            metavar="DUMP|DIR...", help="HLO text, protos and snapshots; of a folder, all that are in it."
        ),
    ],
    output_format: Annotated[
        str,
        typer.Option(
            help="text, json, github (annotations of a workflow) or sarif (code scanning).",
            autocompletion=words(*FORMATS),
        ),
    ] = "text",
    json: Json = False,
) -> None:
    """Parse and verify; every broken rule with its line. Exit status 1 when a file has one.

    Custom calls of targets that hlorun does not know are noted, and are no error. A module that does not
    compile for another reason has that noted instead.
    """
    import hlorun

    reports: list[dict[str, Any]] = []
    bad = 0
    choose(output_format, FORMATS, "--output-format")
    as_text = output_format == "text" and not json
    with reporting_errors():
        for path in each_file(dumps):
            error: hlorun.HloError | OSError | None = None
            module = None
            try:
                module = load(path)
                module.verify()
            except (hlorun.HloError, OSError) as caught:
                error = caught
            bad += error is not None
            notes = _notes(module) if module is not None and error is None else []
            if not as_text:
                reports.append({**_report(path, module, error), "notes": notes})
            elif error is not None:
                text = str(error) if isinstance(error, hlorun.HloError) else describe_file(error)
                fail(text if str(path) in text else f"{path}: {text}")
            elif module is not None:
                typer.echo(f"{path}: ok, {plural(module.instruction_count, 'instruction')}")
                for note in notes:
                    typer.echo(f"  note: {note}")
        if output_format == "github" and not json:
            typer.echo("".join(f"{line}\n" for line in _github(reports)), nl=False)
        elif not as_text:
            print_json(_sarif(reports) if output_format == "sarif" and not json else reports)
    if bad:
        raise typer.Exit(1)


def _notes(module: HloModule) -> list[str]:
    """What a legal module has that does not run here."""
    import hlorun

    if not any(i.opcode == "custom-call" for c in module.computations for i in c.instructions):
        return []
    from hlorun._inputs import describe_constants

    notes = []
    constants: dict[str, Any] | None = None
    try:
        # Values of elided constants are no matter of custom calls, which they would hide.
        zeros, left_out = describe_constants(module, "zeros", 0)
        if left_out:
            constants = zeros
            notes.append(f"does not run as it is: {left_out.removesuffix(': zeros')}")
        executable = hlorun.compile(module, replicas=1, partitions=1, constants=constants)
        calls = executable.unknown_custom_calls()
    except hlorun.HloError as error:
        return [*notes, f"does not run: {error}"]
    by_target: dict[str, list[str]] = {}
    for call in calls:
        by_target.setdefault(call.custom_call_target or "", []).append(call.name)
    return notes + [
        f"nobody can run {plural(len(names), 'custom call')} of {target!r} "
        f"({', '.join(names[:4])}{', …' if len(names) > 4 else ''}); register_custom_call gives it a meaning"
        for target, names in sorted(by_target.items())
    ]


def _github(reports: list[dict[str, Any]]) -> Iterator[str]:
    """Findings as commands of GitHub's workflows, which show them beside the lines."""
    escapes = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
    within = escapes | str.maketrans({":": "%3A", ",": "%2C"})
    for report in reports:
        path = report["path"].translate(within)
        for finding in report["findings"]:
            place = f"file={path}"
            if finding.get("lineno"):
                place += f",line={finding['lineno']},col={finding.get('offset') or 1}"
            yield f"::error {place},title={report['error']}::{str(finding['message']).translate(escapes)}"
        for note in report["notes"]:
            yield f"::notice file={path}::{note.translate(escapes)}"


def _sarif(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Findings as a log of SARIF 2.1.0 (OASIS), which code scanning reads."""
    import hlorun

    results = []
    for report in reports:
        file = {"artifactLocation": {"uri": report["path"].replace("\\", "/")}}
        for finding in report["findings"]:
            place: dict[str, Any] = dict(file)
            if finding.get("lineno"):
                place["region"] = {"startLine": finding["lineno"], "startColumn": finding.get("offset") or 1}
            result = {"ruleId": report["error"], "level": "error", "message": {"text": finding["message"]}}
            results.append({**result, "locations": [{"physicalLocation": place}]})
        for note in report["notes"]:
            result = {"ruleId": "unsupported", "level": "note", "message": {"text": note}}
            results.append({**result, "locations": [{"physicalLocation": file}]})
    rules = [{"id": name} for name in sorted({str(result["ruleId"]) for result in results})]
    driver = {"name": "hlorun", "version": hlorun.__version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


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
