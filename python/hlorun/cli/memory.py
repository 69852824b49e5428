"""`hlorun memory`: what fills the memory of a buffer assignment, or of a module's plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    By,
    Json,
    bytes_text,
    console,
    load,
    only_file,
    plural,
    print_json,
    reporting_errors,
    standard_input,
    words,
)
from hlorun.cli.names import choose

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import BufferAssignment, HloModule


PLANS = ("hlorun", "xla")
# Endings of pictures, which say their format.
PICTURES = (".png", ".svg", ".pdf")
"""What `--plan` takes."""
MOST_FINDINGS = 40
"""Findings listed on the screen."""


def memory(
    dump: Annotated[
        Path,
        typer.Argument(metavar="DUMP | BUFFER-ASSIGNMENT", help="A module or an assignment, or a folder."),
    ],
    module: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[MODULE]", help="The module of an assignment, for op_names and the check."),
    ] = None,
    html: Annotated[Optional[Path], typer.Option(help="Write a page that works offline.")] = None,  # noqa: UP045
    png: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Draw a picture, .png, .svg or .pdf; needs matplotlib: pip install 'hlorun\\[plot]'."
        ),
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            help="Of a module alone: 'hlorun' for its own plan, 'xla' for XLA's rules.",
            autocompletion=words(*PLANS),
        ),
    ] = "hlorun",
    by: By = None,
    what_if: Annotated[
        bool,
        typer.Option(
            "--what-if",
            help="Of a module alone: what donating parameters, computing values again or another schedule "
            "would save, each planned anew by XLA's rules.",
        ),
    ] = False,
    as_dump: Annotated[bool, typer.Option("--as-dump", help="Print the assignment in XLA's format.")] = False,
    json: Json = False,
) -> None:
    """Peak, who is live then, what is wasted and what would help, in the terminal or as a picture.

    Files that XLA wrote beside the assignment are found and read too: its values, its live ranges, its
    usage report and its module. Exit status 1 when an assignment does not fit the module given with
    it, or the usage report says other bytes.
    """
    choose(plan, PLANS, "--plan")
    if png is not None and png.suffix not in PICTURES:
        raise typer.BadParameter(f"it ends in none of {', '.join(PICTURES)}", param_hint="--png")
    if what_if:
        others: dict[str, object] = {"MODULE": module, "--html": html, "--png": png, "--by": by}
        others |= {"--as-dump": as_dump or None, "--plan": plan if plan != PLANS[0] else None}
        given = [name for name, value in others.items() if value is not None]
        if given:
            message = f"it takes a module and --json, not {', '.join(given)}"
            raise typer.BadParameter(message, param_hint="--what-if")
    with reporting_errors(dump):
        if what_if:
            _what_if(dump, json=json)
            return
        assignment, loaded, title = _load(dump, module, plan)
        if as_dump:
            typer.echo(str(assignment), nl=False)
            return
        import hlorun
        from hlorun.report.memory import memory_by, memory_report

        report = memory_report(assignment, loaded, title=title)
        if loaded is not None and module is not None:
            report["findings"] = [f"{f.kind}: {f.message}" for f in assignment.check(loaded)]
        if report["unknown"] and (html is not None or png is not None):
            raise hlorun.HloArgumentError(f"no picture: it cannot be known {report['unknown']}")
        if html is not None:
            from hlorun.report.memory_html import memory_html

            html.write_text(memory_html(report), encoding="utf-8")
        if png is not None:
            from hlorun.report.memory_plot import memory_plot

            memory_plot(report, png)
        if by is not None:
            report |= {"by": by, "groups": memory_by(report, loaded, by)}
        if json:
            print_json(report)
        else:
            _show(report)
    if report.get("findings") or (report["usage"] and not report["usage"]["agrees"]):
        raise typer.Exit(1)


def _what_if(dump: Path, *, json: bool) -> None:
    import hlorun
    from hlorun.report.what_if import memory_what_if

    try:
        module = load(dump)
    except hlorun.HloParseError as error:
        if "buffer assignment" not in str(error):
            raise
        raise hlorun.HloArgumentError("--what-if takes a module, and this is a buffer assignment") from None
    found = memory_what_if(module)
    if json:
        print_json(found.to_dict())
        return
    console().print(str(found), markup=False, soft_wrap=True)
    if not found.changes:
        console().print("none of them saves anything", markup=False)


def _load(dump: Path, module: Path | None, plan: str) -> tuple[BufferAssignment, HloModule | None, str]:
    import hlorun

    if dump.is_dir():
        dump = _assignment_in(dump) or only_file(dump)
    if dump.name.endswith("-memory-usage-report.pb"):
        text = dump.with_suffix(".txt").name
        raise hlorun.HloArgumentError(
            f"usage reports are read as text, which XLA writes beside the proto: {text}"
        )
    try:
        if str(dump) == "-":
            assignment = hlorun.parse_buffer_assignment(standard_input(), filename="<stdin>")
        else:
            assignment = hlorun.load_buffer_assignment(dump)
    except hlorun.HloParseError as error:
        if module is not None:
            raise
        try:
            loaded = load(dump)
        except hlorun.HloParseError as other:
            # The one that got further knows better what the file was meant to be.
            raise (error if (error.lineno or 0) > (other.lineno or 0) else other) from None
        if plan == "xla":
            return loaded.buffer_assignment(), loaded, f"{loaded.name}, by XLA's rules"
        own = hlorun.compile(loaded).buffer_assignment()
        return own, loaded, f"{loaded.name}, hlorun's plan"
    beside = module or assignment.module_file
    loaded_module = load(Path(beside)) if beside is not None else None
    return assignment, loaded_module, loaded_module.name if loaded_module is not None else dump.name


def _assignment_in(folder: Path) -> Path | None:
    """The only buffer assignment in a folder; None where there is none."""
    from hlorun._scan import scan
    from hlorun.errors import HloArgumentError

    stages = [stage for module in scan(folder) for stage in module.stages]
    found = [stage.memory["buffer assignment"] for stage in stages if "buffer assignment" in stage.memory]
    if len(found) > 1:
        names = ", ".join(map(str, found[:6])) + (", …" if len(found) > 6 else "")
        raise HloArgumentError(f"{folder} holds {plural(len(found), 'buffer assignment')}; name one: {names}")
    return found[0] if found else None


def _show(report: dict[str, Any]) -> None:
    from hlorun.cli.screen import row

    out = console()
    peak, waste = report["peak"], report["waste"]
    row(out, "assignment", report["title"])
    total = plural(len(report["allocations"]), "allocation")
    row(
        out,
        "total",
        f"{bytes_text(report['total_bytes'])} in {total}, {plural(len(report['values']), 'value')}",
    )
    if report["unknown"]:
        row(out, "not known", report["unknown"])
    else:
        where = f" ({peak['instruction']})" if peak["instruction"] else ""
        moment = f"at moment {peak['moment']}{where} of {report['moments']:,}"
        row(out, "peak", f"{bytes_text(peak['bytes'])} live {moment}, {plural(peak['live_values'], 'value')}")
    if report["live_ranges_from"].endswith("module"):
        row(out, "", f"live ranges from {report['live_ranges_from']}")
    if peak["xla_moment"] is not None and peak["xla_moment"] != peak["moment"]:
        row(out, "", f"XLA names moment {peak['xla_moment']}, counting tuples whole and shared bytes twice")
    kinds = [
        f"{kind} {bytes_text(entry['bytes'])}" for kind, entry in report["kinds"].items() if entry["bytes"]
    ]
    row(out, "for", ", ".join(kinds))
    if report["usage"]:
        _usage(out, report["usage"])
    holes = f"holes {bytes_text(waste['fragmentation_bytes'])}, padding {bytes_text(waste['padding_bytes'])}"
    row(out, "wasted", f"{holes}, donations missed {bytes_text(waste['missed_donation_bytes'])}")
    live = sorted((v for v in report["values"] if v["at_peak"]), key=lambda v: -v["size"])
    title = "live at the peak, largest first"
    if report["unknown"]:
        live = sorted(report["values"], key=lambda v: -v["size"])
        title = "largest values; those with the same place share it"
    if "by" in report:
        _groups(out, report)
    else:
        _table(out, title, live[:16])
    if report["advice"]:
        out.print("what would help most", style="bold cyan")
        for entry in report["advice"][:5]:
            origin = " · ".join(filter(None, (entry["op_name"], entry["source"])))
            line = f"  {bytes_text(entry['saves_bytes']):>10}  {entry['what']}"
            out.print(
                line + (f"  {origin}" if origin else ""), markup=False, no_wrap=True, overflow="ellipsis"
            )
    findings = report.get("findings")
    if findings is not None:
        fits = "the assignment fits the module"
        row(out, "check", f"{plural(len(findings), 'finding')}:" if findings else fits)
        for finding in findings[:MOST_FINDINGS]:
            out.print(f"does not fit: {finding}", markup=False, style="red")
        if len(findings) > MOST_FINDINGS:
            out.print(f"… {len(findings) - MOST_FINDINGS:,} more; --json has all of them", markup=False)


def _groups(out: Console, report: dict[str, Any]) -> None:
    from hlorun.cli.screen import groups

    rows = [
        (item["key"], [bytes_text(item["bytes"]), f"{100 * item['share']:.1f} %", f"{item['values']:,}"])
        for item in report["groups"]
    ]
    title = "memory" if report["unknown"] else "live at the peak"
    groups(out, report["by"], title, ["bytes", "share", "values"], rows, 16)


def _usage(out: Console, usage: dict[str, Any]) -> None:
    from hlorun.cli.screen import row

    for space in usage["spaces"]:
        of = f"memory space {space['memory_space'] or space['color']}: {space['total_bytes']:,} B"
        said = f"{of} in {plural(space['allocations'], 'allocation')}"
        if space["total_bytes"] == space["assigned_bytes"]:
            row(out, "usage report", f"{said}, as the assignment says")
        else:
            row(out, "usage report", f"{said}, but the assignment's add up to {space['assigned_bytes']:,} B")


def _table(out: Console, title: str, values: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hlorun.cli.screen import middles, print_table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold cyan",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for heading in ("bytes", "kind", "moments", "name", "shape", "op_name", "source"):
        justify: Any = "right" if heading == "bytes" else "left"
        table.add_column(heading, justify=justify, no_wrap=True, overflow="ellipsis", ratio=None)
    origins = middles([v["op_name"] or v["opcode"] for v in values], 44)
    for v, shown in zip(values, origins, strict=True):
        moments = "" if v["start"] is None else f"{v['start']}-{v['end']}"
        shape = v["shape"] if len(v["shape"]) <= 34 else v["shape"][:33] + "…"
        cells = (bytes_text(v["size"]), v["kind"], moments, v["name"], shape, shown, v["source"])
        table.add_row(*map(Text, cells))
    print_table(out, table)
