"""`hlorun show`: one screen on a module, a computation or an instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    Dump,
    Json,
    bytes_text,
    console,
    fail,
    load,
    plural,
    print_json,
    reporting_errors,
    scaled,
)
from hlorun.cli.names import names_in_dump, unknown
from hlorun.cli.screen import middles, row, short, table

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import HloComputation, HloInstruction


def show(
    dump: Dump,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[COMPUTATION | INSTRUCTION]",
            help="Show this instead of the module.",
            autocompletion=names_in_dump,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Sizes, opcodes, parameters, loops, custom calls and the largest values on one screen.

    Of a folder that --xla_dump_to named: its modules, stages and passes, and what is missing.
    """
    import hlorun
    from hlorun.report.summary import summarize

    with reporting_errors(dump):
        if dump.is_dir():
            from hlorun.cli.folder import show_folder

            if name is not None:
                fail(f"{dump} is a folder; name a file of it to see {name}")
                raise typer.Exit(2)
            if not show_folder(dump, as_json=json):
                raise typer.Exit(1)
            return
        module = load(dump)
        if name is None:
            summary = summarize(module)
            if json:
                print_json(summary)
            else:
                _module(summary)
            return
        if name not in module:
            unknown(module, name)
            raise typer.Exit(1)
        found = module[name]
        if json:
            print_json(_describe(found))
        elif isinstance(found, hlorun.HloComputation):
            _computation(found)
        else:
            _instruction(found)


def _module(summary: dict[str, Any]) -> None:
    out = console()
    width = out.width
    parameters, outputs, products = summary["parameters"], summary["outputs"], summary["products"]
    row(out, "module", short(summary["name"], width - 16))
    row(
        out,
        "size",
        f"{plural(summary['computations'], 'computation')}, {plural(summary['instructions'], 'instruction')} "
        f"({summary['entry_instructions']:,} in the entry), {bytes_text(summary['text_bytes'])} of text"
        + (", scheduled" if summary["is_scheduled"] else ""),
    )
    if summary["replica_count"] * summary["num_partitions"] > 1:
        replicas = plural(summary["replica_count"], "replica")
        row(out, "devices", f"{replicas} x {plural(summary['num_partitions'], 'partition')}")
    donated = ""
    if parameters["donated"]:
        donated = f", {parameters['donated']} donated ({bytes_text(parameters['donated_bytes'])})"
    row(out, "parameters", f"{parameters['count']}, {bytes_text(parameters['bytes'])}{donated}")
    row(out, "outputs", f"{outputs['count']}, {bytes_text(outputs['bytes'])}")
    if products["count"]:
        inside = ""
        if products["loop_flops"]:
            inside = f", {scaled(products['loop_flops'])}FLOP of them in loops"
        products_text = plural(products["count"], "matrix product")
        row(out, "work", f"{products_text}, {scaled(products['flops'])}FLOP per run{inside}")
    opcodes = summary["opcodes"]
    shown = [f"{name} {count:,}" for name, count in list(opcodes.items())[:24]]
    if len(opcodes) > 24:
        shown.append(f"and {len(opcodes) - 24} more opcodes")
    row(out, "opcodes", ", ".join(shown))
    if summary["custom_calls"]:
        calls = [f"{target} x {count}" for target, count in summary["custom_calls"].items()]
        row(out, "custom calls", ", ".join(calls))
    if summary["collectives"]:
        row(
            out,
            "collectives",
            ", ".join(
                f"{c['opcode']} x {c['count']} over {c['groups']} ({bytes_text(c['bytes'])})"
                for c in summary["collectives"]
            ),
        )
    _loop_table(out, summary["loops"])
    _values(out, "largest parameters", parameters["largest"][:5])
    _values(out, "largest values", summary["largest_values"][:5])


def _loop_table(out: Console, loops: list[dict[str, Any]]) -> None:
    """Loops that differ only in their names share a line."""
    if not loops:
        return
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for loop in loops:
        key = tuple(loop[k] for k in ("trip_count", "state_values", "state_bytes", "body_instructions"))
        groups.setdefault(key, []).append(loop)
    rows = []
    for same in list(groups.values())[:8]:
        first = same[0]
        trips = "unknown" if first["trip_count"] is None else f"{first['trip_count']:,}"
        names = ", ".join(loop["name"] for loop in same[:4]) + (", …" if len(same) > 4 else "")
        state = f"{plural(first['state_values'], 'value')}, {bytes_text(first['state_bytes'])}"
        rows.append([str(len(same)), trips, state, f"{first['body_instructions']:,}", names])
    if len(groups) > 8:
        rest = sum(len(same) for same in list(groups.values())[8:])
        rows.append([str(rest), "", "", "", "in other forms"])
    columns = [
        ("count", "right"),
        ("trips", "right"),
        ("state", "left"),
        ("body", "right"),
        ("names", "left"),
    ]
    table(out, f"loops ({len(loops)})", columns, rows)


def _values(out: Console, title: str, values: list[dict[str, Any]]) -> None:
    if not values:
        return
    origins = middles([value["op_name"] or value["opcode"] for value in values], 60)
    rows = [
        [bytes_text(value["bytes"]), short(value["shape"], 32), short(value["name"], 40), origin]
        for value, origin in zip(values, origins, strict=True)
    ]
    table(out, title, [("bytes", "right"), ("shape", "left"), ("name", "left"), ("from", "left")], rows)


def _describe(found: HloComputation | HloInstruction) -> dict[str, Any]:
    import hlorun

    if isinstance(found, hlorun.HloComputation):
        return {
            "name": found.name,
            "is_entry": found.is_entry,
            "parameters": [p.name for p in found.parameters],
            "root": found.root.name if found.root is not None else None,
            "instructions": [_describe(instruction) for instruction in found.instructions],
        }
    return {
        "name": found.name,
        "opcode": found.opcode,
        "computation": found.computation.name,
        "shape": str(found.shape),
        "bytes": found.shape.nbytes,
        "operands": [operand.name for operand in found.operands],
        "users": [user.name for user in found.users],
        "called_computations": [callee.name for callee in found.called_computations],
        "attributes": {key: _plain(value) for key, value in found.attributes.items()},
        "metadata": {key: found.metadata[key] for key in found.metadata},
        "backend_config": _plain(found.backend_config),
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return getattr(value, "name", None) or str(value)


def _computation(found: HloComputation) -> None:
    out = console()
    row(out, "computation", found.name + (" (entry)" if found.is_entry else ""))
    row(out, "parameters", str(len(found.parameters)))
    if found.root is not None:
        row(out, "returns", str(found.root.shape))
    for instruction in found.instructions:
        out.print(f"  {short(_line(instruction), out.width - 8)}", markup=False, no_wrap=True)


def _line(instruction: HloInstruction) -> str:
    """The instruction as the text has it, without what comes last and is longest."""
    text = instruction.text
    for key in (", metadata={", ", backend_config="):
        text = text.partition(key)[0]
    return text


def _instruction(found: HloInstruction) -> None:
    out = console()
    row(out, "instruction", found.name + (" (root)" if found.is_root else ""))
    row(out, "opcode", found.opcode)
    row(out, "computation", found.computation.name)
    row(out, "shape", f"{found.shape}, {bytes_text(found.shape.nbytes)}")
    if found.operands:
        table(
            out,
            f"operands ({len(found.operands)})",
            [("", "left"), ("shape", "left"), ("opcode", "left")],
            [[o.name, short(str(o.shape), 80), o.opcode] for o in found.operands],
        )
    if found.users:
        row(out, "users", ", ".join(user.name for user in found.users))
    for key, value in found.attributes.items():
        row(out, key, short(str(_plain(value)), 400))
    for key in found.metadata:
        row(out, key, short(str(found.metadata[key]), 400))
    for frame in found.metadata.stack_frames:
        row(out, "at", f"{frame[0]}:{frame[2]}:{frame[3]} in {frame[1]}")
    if found.backend_config is not None:
        row(out, "backend", short(str(found.backend_config), 400))
    if found.literal is not None:
        row(out, "value", short(str(found.literal), 400))
