"""`hlorun cost`: operations and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    By,
    Dump,
    Json,
    bytes_text,
    console,
    load,
    plural,
    print_json,
    reporting_errors,
    scaled,
)
from hlorun.cli.screen import groups, middles, row, short, table

if TYPE_CHECKING:
    from hlorun import CostGroup


def cost(
    dump: Dump,
    top: Annotated[int, typer.Option(min=0, help="Instructions or groups listed, dearest first.")] = 12,
    by: By = None,
    roofline: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="DEVICE|FILE.json",
            help="Least time on a device, what bounds it: H100, H200, A100, L4, MI300X, v4, v5e, v5p, v6e, "
            "or a file; of this machine (this) an estimate. By source line unless --by says another.",
        ),
    ] = None,
    collectives: Annotated[
        bool,
        typer.Option(
            "--collectives",
            help="List what devices send each other and why; with --roofline, how long that takes.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """FLOPs, transcendentals and bytes by XLA's cost analysis, in total and by instruction.

    XLA counts a loop as one trip; a second line counts all trips. With --by, operations inside fusions
    count where they are, and bytes for the fusion.
    """
    from hlorun.report.cost import cost_groups, costs

    with reporting_errors(dump):
        module = load(dump)
        if collectives or roofline is not None:
            from hlorun.cli import roofline as screen

            if collectives:
                screen.collectives(module, roofline, top, json=json)
            else:
                screen.roofline(module, roofline or "", by or "source", top, json=json)
            return
        report = costs(module)
        found = cost_groups(module, by) if by is not None else ()
        if by is not None:
            report |= {"by": by, "groups": [group.to_dict() for group in found]}
        if json:
            print_json(report)
        else:
            _print(report, top, found)


def _line(costs: dict[str, float]) -> str:
    flops, size = costs["flops"], costs["bytes accessed"]
    text = (
        f"{scaled(flops)}FLOP, {scaled(costs['transcendentals']).strip()} transcendentals, "
        f"{bytes_text(int(size))} accessed"
    )
    return text + (f", {flops / size:.3g} FLOP/B" if size > 0 else "")


def _print_groups(report: dict[str, Any], found: Sequence[CostGroup], top: int) -> None:
    total = report["run"]["flops"]
    rows = [
        (
            group.key,
            [
                f"{scaled(group.flops)}FLOP",
                f"{100 * group.flops / total:.1f} %" if total else "",
                scaled(group.transcendentals).strip(),
                bytes_text(int(group.bytes_accessed)),
                f"{group.instructions:,}",
            ],
        )
        for group in found
    ]
    columns = ["flops", "share", "transcendentals", "bytes", "instructions"]
    groups(console(), report["by"], "all trips", columns, rows, top)


def _print(report: dict[str, Any], top: int, found: Sequence[CostGroup]) -> None:
    out = console()
    row(out, "module", report["module"])
    row(out, "XLA counts", _line(report["xla"]) + " (one trip of each loop)")
    row(out, "one run", _line(report["run"]) + " (all trips, where their number is known)")
    if report["unknown_custom_calls"]:
        row(out, "unknown", f"{plural(report['unknown_custom_calls'], 'custom call')}, -1 each to XLA")

    if "by" in report:
        _print_groups(report, found, top)
        return

    def cells(item: dict[str, Any], times: int) -> list[str]:
        return [
            f"{scaled(max(item['flops'], 0) * times)}FLOP",
            scaled(max(item["transcendentals"], 0) * times).strip(),
            bytes_text(int(max(item["bytes accessed"], 0) * times)),
        ]

    opcodes = sorted(
        report["opcodes"].items(), key=lambda item: (-item[1]["flops"], -item[1]["bytes accessed"])
    )
    columns = [("flops", "right"), ("transcendentals", "right"), ("bytes", "right")]
    table(
        out,
        f"by opcode, all trips ({len(opcodes)})",
        [("opcode", "left"), ("count", "right"), *columns],
        [[name, f"{item['count']:,.0f}", *cells(item, 1)] for name, item in opcodes[:12]],
    )
    rows = sorted(
        report["instructions"], key=lambda r: (-r["flops"] * r["runs"], -r["bytes accessed"] * r["runs"])
    )
    if rows[:top]:
        table(
            out,
            "dearest instructions, all trips",
            [*columns, ("runs", "right"), ("name", "left"), ("opcode", "left"), ("from", "left")],
            [
                [
                    *cells(item, item["runs"]),
                    f"{item['runs']:,}",
                    short(item["name"], 40),
                    item["opcode"],
                    origin,
                ]
                for item, origin in zip(
                    rows[:top], middles([item["op_name"] for item in rows[:top]], 50), strict=True
                )
            ],
        )
