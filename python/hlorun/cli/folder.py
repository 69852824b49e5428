"""Dump folders on the screen: `hlorun show DIR`, `hlorun passes DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun._names import hint
from hlorun.cli.common import Json, bytes_text, console, fail, plural, print_json, reporting_errors, scaled
from hlorun.cli.names import modules_in_folder
from hlorun.cli.screen import row, short, table

if TYPE_CHECKING:
    from hlorun._scan import DumpFolder, DumpModule


def show_folder(path: Path, *, as_json: bool) -> bool:
    """Show what a folder holds, and open every module in it; whether all of them opened."""
    from hlorun._scan import scan

    folder = scan(path)
    if not len(folder):
        files = plural(len(folder.unknown), "file")
        fail(
            f"{path} has {files}, none with a name that XLA gives to a module (module_0001.jit_f.…); "
            "`hlorun show FILE` reads a file of any name, "
            "`hlorun batch DIR` reads those that end in .txt, .hlo, .pb or .pbtxt"
        )
        return False
    opened = {module.number: _open(module) for module in folder}
    errors = [error for facts in opened.values() for error in facts["errors"]]
    if as_json:
        print_json({**folder.to_dict(), "errors": errors})
    else:
        _print(folder, {id(module): opened[module.number] for module in folder}, errors)
    return not errors


def _open(module: DumpModule) -> dict[str, Any]:
    """Facts of the last stage, and why files do not open."""
    import hlorun

    facts: dict[str, Any] = {"instructions": None, "errors": [], "memory": ""}
    for stage in module.stages:
        for path in filter(None, (stage.text, stage.proto)):
            try:
                facts["instructions"] = hlorun.load(path).instruction_count
            except (hlorun.HloError, OSError) as error:
                facts["errors"].append({"path": str(path), "error": str(error)})
        try:
            assignment = stage.buffer_assignment()
        except (hlorun.HloError, OSError) as error:
            facts["errors"].append({"path": str(stage.memory["buffer assignment"]), "error": str(error)})
        else:
            facts["memory"] = (
                bytes_text(assignment.total_bytes) if assignment is not None else facts["memory"]
            )
    for path in module.snapshots:
        try:
            hlorun.load(path)
        except (hlorun.HloError, OSError) as error:
            facts["errors"].append({"path": str(path), "error": str(error)})
    return facts


def _print(folder: DumpFolder, opened: dict[int, dict[str, Any]], errors: list[dict[str, str]]) -> None:
    out = console()
    stages = sum(len(module.stages) for module in folder)
    row(out, "folder", str(folder.path))
    row(out, "holds", f"{plural(len(folder), 'module')} in {plural(stages, 'stage')}")
    rows = []
    for module in folder:
        facts = opened[id(module)]
        passes = sum(stage.pass_number is not None for stage in module.stages)
        others = ", ".join(f"{len(files):,} {kind}" for kind, files in sorted(module.others.items()))
        rows.append(
            [
                str(module.number),
                short(module.name, 40),
                module.platform,
                f"{passes:,}" if passes else "",
                f"{facts['instructions']:,}" if facts["instructions"] is not None else "?",
                facts["memory"],
                str(len(module.snapshots) or ""),
                others,
                ", ".join(module.missing),
            ]
        )
    headings = (
        "number",
        "module",
        "platform",
        "passes",
        "instructions",
        "memory",
        "snapshots",
        "other files",
        "missing",
    )
    right = ("number", "passes", "instructions", "memory", "snapshots")
    table(out, "modules", [(h, "right" if h in right else "left") for h in headings], rows)
    if folder.unknown:
        names = ", ".join(path.name for path in folder.unknown[:8])
        row(
            out,
            "other files",
            f"{len(folder.unknown):,} of no module: {names}{', …' * (len(folder.unknown) > 8)}",
        )
    for error in errors[:20]:
        fail(f"{error['path']}: {error['error']}")
    if len(errors) > 20:
        fail(f"… {len(errors) - 20:,} more files do not open; --json has all of them")


def passes(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that --xla_dump_to named.")],
    module: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[MODULE]",
            help="A module's name or number; all modules otherwise.",
            autocompletion=modules_in_folder,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also stages that changed nothing.")] = False,
    json: Json = False,
) -> None:
    """What each pass of a dump folder changed: instructions, fusions, computations, bytes and flops.

    Needs a dump with --xla_dump_hlo_pass_re=.*. Exit status 1 when a stage does not open or breaks rules
    of HLO.
    """
    with reporting_errors(folder):
        from hlorun._scan import scan
        from hlorun.report.passes import pass_table

        scanned = scan(folder)
        wanted = list(scanned) if module is None else scanned.named(module)
        if not wanted:
            if not list(scanned):
                fail(f"{folder}: no module that --xla_dump_to wrote")
                raise typer.Exit(1)
            have = ", ".join(f"{m.number} {m.name}" for m in list(scanned)[:8])
            near = hint(module or "", (m.name for m in scanned))
            fail(f"{folder} has no module {module or ''}{near or '; it has ' + have}")
            raise typer.Exit(1)
        found: list[dict[str, Any]] = [
            {"number": m.number, "module": m.name, "stages": pass_table(m)} for m in wanted
        ]
        if json:
            print_json(found)
        else:
            for entry in found:
                _print_passes(entry, everything=everything)
    if any(stage["error"] for entry in found for stage in entry["stages"]):
        raise typer.Exit(1)


def _print_passes(entry: dict[str, Any], *, everything: bool) -> None:
    out = console()
    rows = []
    previous: dict[str, Any] | None = None
    for stage in entry["stages"]:
        if stage["error"]:
            rows.append([stage["label"], stage["pipeline"], *[""] * 6, short(stage["error"], 60)])
            continue
        changed = previous is None or any(
            stage[key] != previous[key] for key in ("fingerprint", "instructions", "computations")
        )
        if changed or everything:
            counts = [
                _change(stage, previous, key)
                for key in ("instructions", "fusions", "computations", "collectives")
            ]
            amounts = [f"{scaled(stage['flops'])}FLOP", bytes_text(stage["bytes"])]
            rows.append([stage["label"], short(stage["pipeline"], 36), *counts, *amounts, ""])
        previous = stage
    title = f"module {entry['number']} {entry['module']}: {plural(len(entry['stages']), 'stage')}"
    headings = (
        "after",
        "pipeline",
        "instructions",
        "fusions",
        "computations",
        "collectives",
        "flops",
        "bytes",
        "error",
    )
    left = ("after", "pipeline", "error")
    table(out, title, [(h, "left" if h in left else "right") for h in headings], rows)


def _change(stage: dict[str, Any], previous: dict[str, Any] | None, key: str) -> str:
    value = f"{stage[key]:,}"
    if previous is None or stage[key] == previous[key]:
        return value
    return f"{value} ({stage[key] - previous[key]:+,})"
