"""`hlorun cost`: operations and bytes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hlorun.cli.common import (
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
from hlorun.cli.screen import row, short, table, tail


def cost(
    dump: Dump,
    top: Annotated[int, typer.Option(min=0, help="Instructions listed, dearest first.")] = 12,
    json: Json = False,
) -> None:
    """FLOPs, transcendentals and bytes by XLA's cost analysis, in total and by instruction.

    XLA counts a loop as one trip; a second line counts all trips.
    """
    from hlorun.report.cost import costs

    with reporting_errors(dump):
        report = costs(load(dump))
        if json:
            print_json(report)
        else:
            _print(report, top)


def _line(costs: dict[str, float]) -> str:
    flops, size = costs["flops"], costs["bytes accessed"]
    text = (
        f"{scaled(flops)}FLOP, {scaled(costs['transcendentals']).strip()} transcendentals, "
        f"{bytes_text(int(size))} accessed"
    )
    return text + (f", {flops / size:.3g} FLOP/B" if size > 0 else "")


def _print(report: dict[str, Any], top: int) -> None:
    out = console()
    row(out, "module", report["module"])
    row(out, "XLA counts", _line(report["xla"]) + " (one trip of each loop)")
    row(out, "one run", _line(report["run"]) + " (all trips, where their number is known)")
    if report["unknown_custom_calls"]:
        row(out, "unknown", f"{plural(report['unknown_custom_calls'], 'custom call')}, -1 each to XLA")

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
                    tail(item["op_name"], 50),
                ]
                for item in rows[:top]
            ],
        )
