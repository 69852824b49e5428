"""`hlorun diff`: two modules, or their runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hlorun.cli.common import (
    Json,
    Partitions,
    Replicas,
    console,
    fail,
    load,
    only_file,
    plural,
    print_json,
    reporting_errors,
    standard_input,
)
from hlorun.cli.replicas import Devices
from hlorun.cli.screen import row, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from hlorun import Diff, Executable, HloModule, Place


def diff(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="HLO, a buffer assignment or a folder of HLO; - for stdin.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="As A.")],
    more: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MORE]...", help="Further modules: all of them ought to be one, as ranks are."
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Run both on the same inputs and compare values.")
    ] = False,
    inputs: Annotated[
        str,
        typer.Option(help="random, zeros, or an .npz file of arrays by parameter name or as arg_0, arg_1, …"),
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    rtol: Annotated[float, typer.Option(min=0, help="Relative tolerance.")] = 1e-5,
    atol: Annotated[float, typer.Option(min=0, help="Absolute tolerance.")] = 1e-6,
    replicas: Replicas = None,
    partitions: Partitions = None,
    limit: Annotated[int, typer.Option(min=1, help="Lines listed for each computation.")] = 20,
    json: Json = False,
) -> None:
    """Compare two modules, or with --run their outputs and the intermediates of the same name.

    Names and metadata do not count. Where one of them is a buffer-assignment dump, assignments are
    compared: a module stands for hlorun's own plan of it. Three or more are grouped into those that are the
    same, with the first instruction that is another and whether it matters. Of two folders the modules of
    the same name and stage are compared. Exit status 1 when they differ.
    """
    from hlorun.report.diff import compare_modules

    with reporting_errors():
        if more:
            _ranks([a, b, *more], json=json, run=run)
            return
        if a.is_dir() and b.is_dir() and not run:
            _folders(a, b, limit, json=json)
            return
        a, b = (only_file(path) if path.is_dir() else path for path in (a, b))
        if not run and (_is_assignment(a) or _is_assignment(b)):
            found = {"A": str(a), "B": str(b), **_compare_assignments(a, b)}
            if json:
                print_json(found)
            else:
                _assignments(found, limit)
            raise typer.Exit(0 if found["equal"] else 1)
        left, right = load(a), load(b)
        if run:
            devices = Devices(replicas, partitions)
            found = _compare_runs(left, right, devices, inputs, seed, rtol=rtol, atol=atol)
            found = {"A": str(a), "B": str(b), **found}
            same = found["equal"]
        else:
            found = {"A": str(a), "B": str(b), **compare_modules(left, right)}
            same = found["identical"]
        if json:
            print_json(found)
        elif run:
            _runs(found)
        else:
            _modules(found, limit)
    if not same:
        raise typer.Exit(1)


def _folders(a: Path, b: Path, limit: int, *, json: bool) -> None:
    from hlorun.cli.diff_folders import compare_folders, show_folders

    found = {"A": str(a), "B": str(b), **compare_folders(a, b)}
    if json:
        print_json(found)
    else:
        show_folders(found, limit)
    if not found["identical"]:
        raise typer.Exit(1)


def _ranks(paths: list[Path], *, json: bool, run: bool) -> None:
    from hlorun.report.ranks import EFFECTS, diff_ranks

    if run:
        raise typer.BadParameter("it takes exactly two modules", param_hint="--run")
    names = [str(path) for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        fail(f"{twice} is given twice")
        raise typer.Exit(2)
    found = diff_ranks({name: load(path) for name, path in zip(names, paths, strict=True)})
    if json:
        print_json(found.to_dict())
    else:
        out = console()
        left_out = plural(found.elided_constants, "constant")
        but = f", but for the values of {left_out} that a text leaves out" if found.elided_constants else ""
        first, *others = found.groups
        row(out, plural(len(first.names), "file"), f"the same{but}: {_names(first.names)}")
        for group in others:
            row(out, plural(len(group.names), "file"), _names(group.names))
            row(out, "", EFFECTS[group.effect])
            for label, side, place in (("has", "+", group.at), ("instead of", "-", group.instead_of)):
                if place is not None or group.effect == "collectives":
                    row(out, "", f"{label} {_instruction(group.difference, side, place)}")
    if found:
        raise typer.Exit(1)


def _instruction(difference: Diff | None, side: str, place: Place | None) -> str:
    """The text of an instruction that is only on one side, where the comparison has it."""
    if place is None or difference is None:
        return "nothing"
    changes = (change for found in difference.differences for change in found.get("changes", ()))
    wanted = (side, place.name)
    text = next((c["text"] for c in changes if (c["side"], c["name"]) == wanted), None)
    return f"{short(text, 200)}, in {place.computation}" if text else str(place)


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown}, … {len(names) - 8:,} more"


def _compare_runs(
    a: HloModule, b: HloModule, devices: Devices, inputs: str, seed: int, *, rtol: float, atol: float
) -> dict[str, Any]:
    import hlorun
    from hlorun._inputs import require_same_parameters
    from hlorun.cli.run import device_inputs
    from hlorun.report.diff import Observer, compare_runs

    require_same_parameters(a, b)

    first = devices.compile(a)
    wanted = str(devices)
    arguments, described = device_inputs(a, devices, inputs, seed)
    second = devices.compile(b)
    if str(devices) != wanted:
        raise hlorun.HloArgumentError(
            f"A runs on {wanted} and B on {devices}: --replicas and --partitions say for both"
        )

    def run(executable: Executable) -> Callable[[Observer], list[Any]]:
        return lambda observer: devices.run(executable, arguments, observer=observer)

    found = compare_runs(run(first), run(second), rtol=rtol, atol=atol)
    return {"inputs": described, "rtol": rtol, "atol": atol, **found}


def _is_assignment(path: Path) -> bool:
    import hlorun

    try:
        if str(path) == "-":
            hlorun.parse_buffer_assignment(standard_input())
        else:
            hlorun.load_buffer_assignment(path)
    except hlorun.HloParseError:
        return False
    return True


def _compare_assignments(a: Path, b: Path) -> dict[str, Any]:
    from hlorun.cli.memory import _load
    from hlorun.report.assignment_diff import diff_assignments

    return diff_assignments(_load(a, None, "hlorun")[0], _load(b, None, "hlorun")[0])


def _assignments(found: dict[str, Any], limit: int) -> None:
    out = console()
    if found["equal"]:
        out.print("The assignments put the same values in the same places.", markup=False)
        return
    for name, (x, y) in found["totals"].items():
        unit = "" if name in ("moments", "peak_moment", "allocations") else " bytes"
        values = f"{x:,}" if x == y else f"{x or 0:,} → {y or 0:,}"
        row(out, name.replace("_", " "), values + unit)

    def rest(entries: list[dict[str, Any]]) -> None:
        if len(entries) > limit:
            row(out, "", f"… {len(entries) - limit:,} more; --limit shows them")

    for key, label in (("only_in_a", "only in A"), ("only_in_b", "only in B")):
        for entry in found[key][:limit]:
            row(out, label, f"{entry['name']}, {entry['bytes']:,} bytes")
        rest(found[key])
    for entry in found["changed"][:limit]:
        pairs = {key: value for key, value in entry.items() if key not in ("name", "bytes")}
        row(out, short(entry["name"], 60), ", ".join(f"{key} {x} → {y}" for key, (x, y) in pairs.items()))
    rest(found["changed"])


def _modules(found: dict[str, Any], limit: int) -> None:
    out = console()
    if found["identical"]:
        elided = max(found["elided_constants"])
        but = (
            f", but for the values of {plural(elided, 'constant')} that the texts leave out" if elided else ""
        )
        out.print(f"The modules compute the same in the same way{but}.", markup=False)
        return
    for label in ("instructions", "computations"):
        x, y = found[label]
        row(out, label, f"{x:,}" if x == y else f"{x:,} and {y:,}")
    if found["opcodes"]:
        row(out, "opcodes", ", ".join(f"{name} {x} → {y}" for name, (x, y) in found["opcodes"].items()))
    for item in found["parameters"]:
        row(out, f"parameter {item['number']}", f"{item['A'] or 'absent'} → {item['B'] or 'absent'}")
    if found["output"]:
        row(out, "output", f"{short(found['output']['A'], 200)} → {short(found['output']['B'], 200)}")
    for key, (x, y) in found["header"].items():
        row(out, key, f"{short(x or 'absent', 200)} → {short(y or 'absent', 200)}")
    if not found["differences"] and not found["header"]:
        row(out, "instructions", "the same but for their order or their schedule")
    for item in found["patterns"][:limit]:
        count, verb = len(item["computations"]), "lost" if item["side"] == "-" else "got"
        what = item["callers"][0] if len(item["callers"]) == 1 else "computation"
        row(out, plural(count, what), f"{verb} {short(item['text'], 200)}")
    shown = {name for item in found["patterns"] for name in item["computations"]}
    for item in found["differences"]:
        if item["name"] in shown and len(shown) > limit:
            continue
        if "only_in" in item:
            row(
                out, item["name"], f"only in {item['only_in']}, {plural(item['instructions'], 'instruction')}"
            )
            continue
        other = "" if item["other"] == item["name"] else f", in B {item['other']}"
        row(out, item["name"], plural(len(item["changes"]), "line") + other)
        for change in item["changes"][:limit]:
            style = "red" if change["side"] == "-" else "green"
            out.print(
                f"  {change['side']} {short(change['text'], out.width - 6)}",
                style=style,
                markup=False,
                no_wrap=True,
            )
        if len(item["changes"]) > limit:
            out.print(f"  … {len(item['changes']) - limit:,} more lines; --limit shows them", markup=False)


def _gap(item: dict[str, Any]) -> str:
    if item["what"] != "values":
        return str(item["what"])
    place = f"[{','.join(map(str, item['index']))}]" if item["index"] else ""
    return (
        f"{item['elements']:,} of {plural(item['of'], 'element')} differ, most at {place or 'the scalar'}: "
        f"{item['A']} and {item['B']}"
    )


def _runs(found: dict[str, Any]) -> None:
    out = console()
    row(out, "inputs", found["inputs"].removeprefix("Inputs: "))
    row(out, "tolerance", f"rtol {found['rtol']:g}, atol {found['atol']:g}")
    if found["equal"]:
        row(out, "outputs", f"{plural(found['outputs'], 'output')}, all equal")
    for item in found["output_differences"]:
        row(out, f"output {item['output']}", _gap(item))
    kept = f", {found['not_kept']:,} were too large to keep" if found["not_kept"] else ""
    compared = plural(found["compared"], "intermediate")
    row(out, "compared", f"{compared} of the same name, {found['different']:,} differ{kept}")
    if found["first_difference"] is not None:
        _first(out, found["first_difference"])


def _first(out: Console, first: dict[str, Any]) -> None:
    text = f"{first['name']} ({first['opcode']} in {first['computation']})"
    if first["time"] > 1:
        text += f", in its execution {first['time']}"
    row(out, "diverges at", text)
    row(out, "", _gap(first))
    for part in (first["op_name"], first["source"]):
        if part:
            row(out, "", part)
