"""`hlorun trace`: every intermediate of a run."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    By,
    Constants,
    Dump,
    Force,
    Inputs,
    Json,
    Partitions,
    Replicas,
    console,
    fail,
    load,
    plural,
    print_json,
    reporting_errors,
)
from hlorun.cli.names import names_in_dump, unknown
from hlorun.cli.replicas import Devices, require_memory
from hlorun.cli.screen import groups, middles, row, short, table


def trace(
    dump: Dump,
    inputs: Inputs = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    until: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="INSTRUCTION", help="Stop once this instruction has run.", autocompletion=names_in_dump
        ),
    ] = None,
    until_nan: Annotated[bool, typer.Option("--until-nan", help="Stop at the first NaN.")] = False,
    only_odd: Annotated[
        bool, typer.Option("--only-odd", help="List only values that are not all finite.")
    ] = False,
    by: By = None,
    replicas: Replicas = None,
    partitions: Partitions = None,
    constants: Constants = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run without fusion and print statistics of every intermediate, and where NaN and Inf first appear.

    Values of loops are of all trips together, and those of several devices of all devices; "times" says
    how many there were.
    """
    import hlorun
    from hlorun._inputs import describe_constants
    from hlorun.cli.run import device_inputs
    from hlorun.report.rollup import check
    from hlorun.report.trace import Trace, odd_inputs, values_by

    with reporting_errors(dump):
        if by is not None:
            check(by)
        module = load(dump)
        if until is not None:
            until = until.removeprefix("%")
            if until not in module or isinstance(module[until], hlorun.HloComputation):
                unknown(module, until)
                raise typer.Exit(1)
        devices = Devices(replicas, partitions)
        values, about_constants = describe_constants(module, constants, seed)
        executable = devices.compile(module, constants=values)
        if not force:
            require_memory(module, executable, devices)
        arguments, described = device_inputs(module, devices, inputs, seed)
        odd = odd_inputs(module, arguments)
        found = Trace(until, until_nan=until_nan)
        screen = console(stderr=True)
        if screen.is_terminal and not json:
            with screen.status("running"):
                found.run(lambda observer: devices.run(executable, arguments, observer=observer))
        else:
            found.run(lambda observer: devices.run(executable, arguments, observer=observer))
        rows = list(found.rows.values())
        if until is not None and all(item["name"] != until for item in rows):
            fail(f"{until} computes no value of its own in a run, or was never reached")
            raise typer.Exit(1)
        shown = [item for item in rows if item["nan"] or item["inf"]] if only_odd else rows
        summed = values_by(module, found.rows, by) if by is not None else None
        if summed is not None and only_odd:
            summed = [item for item in summed if item["nan"] or item["inf"]]
        if json:
            print_json(
                {
                    **({"by": by, "groups": summed} if summed is not None else {}),
                    "module": module.name,
                    "inputs": described,
                    "constants": about_constants,
                    "odd_inputs": odd,
                    "values": shown,
                    "first_nan": found.first.get("nan"),
                    "first_inf": found.first.get("inf"),
                }
            )
        else:
            for item in odd:
                described += f"; parameter {item['number']} {item['name']} holds {_odd(item)}"
            if about_constants:
                described += f"; elided constants: {about_constants}"
            _head(module.name, described)
            if summed is None:
                _values(shown, len(rows))
            else:
                _groups(by or "", summed)
            _first(shown, found.first)


def _number(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 10**6):
        return f"{value:.4g}"
    return str(value)


def _odd(item: dict[str, Any]) -> str:
    return " ".join(f"{item[kind]:,} {kind}" for kind in ("nan", "inf") if item[kind])


def _head(module: str, described: str) -> None:
    out = console()
    row(out, "module", module)
    row(out, "inputs", described.removeprefix("Inputs: "))


def _groups(by: str, summed: list[dict[str, Any]]) -> None:
    rows = [
        (
            item["key"],
            [f"{item[key]:,}" for key in ("values", "times")]
            + [_number(item["min"]), _number(item["max"]), _odd(item)],
        )
        for item in summed
    ]
    groups(console(), by, "values", ["values", "times", "min", "max", "odd"], rows, len(rows))


def _values(rows: list[dict[str, Any]], count: int) -> None:
    out = console()
    columns = [
        ("value", "left"),
        ("opcode", "left"),
        ("shape", "left"),
        ("times", "right"),
        ("min", "right"),
        ("mean", "right"),
        ("max", "right"),
        ("odd", "left"),
        ("from", "left"),
    ]
    cells = []
    for item, origin in zip(rows, middles([item["op_name"] for item in rows], 32), strict=True):
        index = "" if item["index"] is None else f"{{{item['index']}}}"
        odd = _odd(item)
        shape = f"{item['dtype']}[{','.join(map(str, item['shape']))}]"
        numbers = [_number(item[key]) for key in ("min", "mean", "max")]
        name = short(item["name"], 32) + index
        cells.append([name, item["opcode"], shape, f"{item['times']:,}", *numbers, odd, origin])
    if cells:
        title = (
            plural(count, "value") if len(cells) == count else f"{len(cells):,} of {plural(count, 'value')}"
        )
        table(out, f"{title}, in the order of the run", columns, cells)
    elif count:
        row(out, "values", f"none of {count:,} holds NaN or Inf")


def _first(rows: list[dict[str, Any]], first: dict[str, dict[str, Any]]) -> None:
    out = console()
    for kind, label in (("nan", "first NaN"), ("inf", "first Inf")):
        if (at := first.get(kind)) is None:
            is_constant = any(item[kind] for item in rows)
            row(out, label, "none but in constants of the text, as masks are" if is_constant else "none")
            continue
        text = f"{at['name']} ({at['opcode']} in {at['computation']}), {plural(at['count'], 'element')}"
        if at["time"] > 1:
            text += f", in its run {at['time']:,}"
        for part in (at["op_name"], at["source"]):
            if part:
                text += f", {part}"
        row(out, label, text)
