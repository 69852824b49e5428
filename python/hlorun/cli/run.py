"""`hlorun run`: run a dump and print what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Optional

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
    bytes_text,
    check_folder,
    console,
    load,
    plural,
    print_json,
    reporting_errors,
    seconds_text,
)
from hlorun.cli.replicas import Devices, devices_text, require_memory

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import HloModule, Shape


def run(
    dump: Dump,
    inputs: Inputs = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Run this often; times are of each run.")] = 1,
    replicas: Replicas = None,
    partitions: Partitions = None,
    mpi: Annotated[
        bool,
        typer.Option(
            "--mpi", help="Share the devices among the ranks of mpirun; one replica per rank by default."
        ),
    ] = False,
    threads: Annotated[Optional[int], typer.Option(min=1, help="Threads; all CPUs by default.")] = None,  # noqa: UP045
    timeout: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            min=0,
            help="Seconds each run may take; a longer one ends the command with exit status 1.",
        ),
    ] = None,
    constants: Constants = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Write the outputs to this .npz file: output_0 and so on, of several devices "
            "replica_0_output_0 or replica_0_partition_0_output_0."
        ),
    ] = None,
    save: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--save-inputs",
            help="Write the inputs of the first device, arg_0 and so on, to this .npz file, "
            "which --inputs takes.",
        ),
    ] = None,
    profile: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Run once more and write the time of every step here, as a Chrome trace (JSON)."),
    ] = None,
    flame: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE.svg", help="Run once more and draw where the time goes, a flame graph of op_names."
        ),
    ] = None,
    force: Force = False,
    by: By = None,
    json: Json = False,
) -> None:
    """Run a module and print its outputs, its times and its memory.

    Without --inputs, a snapshot runs with the inputs of its recorded run and is compared with its result;
    any other module gets reproducible random ones. A run that needs more memory than is left is refused.
    Exit status 1 when a recorded result is not met.
    """
    with reporting_errors(dump):
        with Devices(replicas, partitions, mpi=mpi) as devices:
            asked = _Asked(
                dump, inputs, seed, repeat, threads, timeout, constants, save, out, profile, flame, force, by
            )
            report = _run(asked, devices, quiet=json or devices.is_quiet)
        if json and not devices.is_quiet:
            print_json(report)
    if report["recorded"] and not report["recorded"]["agrees"]:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Asked:
    """What of the command line a run needs."""

    dump: Path
    inputs: str | None
    seed: int
    repeat: int
    threads: int | None
    timeout: float | None
    constants: str | None
    save: Path | None
    out: Path | None
    profile: Path | None
    flame: Path | None
    force: bool
    by: str | None

    @property
    def is_profiled(self) -> bool:
        """Whether the times of steps are wanted."""
        return any(asked is not None for asked in (self.profile, self.flame, self.by))


def _run(asked: _Asked, devices: Devices, *, quiet: bool) -> dict[str, Any]:
    import hlorun
    from hlorun import _inputs

    screen = console(stderr=False)

    def say(text: str) -> None:
        if not quiet:
            screen.print(text, markup=False, soft_wrap=True)

    for path in filter(None, (asked.out, asked.profile, asked.flame, asked.save)):
        check_folder(path)
    if asked.by is not None:
        from hlorun.report.rollup import check

        check(asked.by)
    times: dict[str, Any] = {}
    start = perf_counter()
    module = load(asked.dump)
    times["load"] = perf_counter() - start
    say(f"** Running {asked.dump} **")
    say(f"Module {module.name}: {plural(module.instruction_count, 'instruction')}")
    _entry(module)
    constants, about_constants = _inputs.describe_constants(module, asked.constants, asked.seed)
    if about_constants:
        say(f"Constants: {about_constants}")
    start = perf_counter()
    executable = devices.compile(module, asked.threads, constants)
    times["compile"] = perf_counter() - start
    if not asked.force:
        require_memory(module, executable, devices)
    if asked.is_profiled and devices.count > 1:
        raise hlorun.HloArgumentError(
            f"a profile is of one device, but this runs on {devices}: --replicas 1 --partitions 1 runs one"
        )
    arguments, described = device_inputs(module, devices, asked.inputs, asked.seed)
    say(described)
    if asked.save is not None and not devices.is_quiet:
        _inputs.save_inputs(module, arguments[0], asked.save)
        whose = f" of {devices.name(devices.local[0])}" if devices.count > 1 else ""
        say(f"Inputs{whose} written to {asked.save}")
    notes = _notes(module, devices)
    for note in notes:
        say(f"Note: {note}")
    say("Running HLO module with runner hlorun...")
    times["runs"] = []
    results: list[Any] = []
    is_watched = screen.is_terminal and not quiet and devices.group is None
    with screen.status("running") if is_watched else _nothing():
        for _ in range(asked.repeat):
            results = []
            start = perf_counter()
            results = devices.run(executable, arguments, timeout=asked.timeout)
            times["runs"].append(perf_counter() - start)
    say(f"... compiled and ran in {times['compile'] + times['runs'][0]:.6g}s.")
    out = asked.out
    if out is not None:
        out = devices.write(out, [_flat(result) for result in results])
    times_of_steps = _profiled(asked, module, executable, arguments[0]) if asked.is_profiled else {}
    report = {
        "module": module.name,
        "file": str(asked.dump),
        "inputs": described,
        "constants": about_constants,
        "recorded": _against_recorded(module, devices, asked.inputs, arguments[0], results),
        "replicas": devices.replicas,
        "partitions": devices.partitions,
        "notes": notes,
        "seconds": {
            **times,
            "median": sorted(times["runs"])[len(times["runs"]) // 2],
            "best": min(times["runs"]),
        },
        "bytes": {
            **executable.memory,
            "peak_rss": _peak_rss(),
        },
        "outputs": _outputs(module, devices, results),
        "out": str(out) if out is not None else None,
        "profile": str(asked.profile) if asked.profile is not None else None,
        "flame": str(asked.flame) if asked.flame is not None else None,
        "slowest_steps": times_of_steps.get("steps"),
        **times_of_steps.get("by", {}),
    }
    if not quiet:
        _print(screen, report)
    return report


def _profiled(asked: _Asked, module: HloModule, executable: Any, arguments: list[Any]) -> dict[str, Any]:
    """Where the time of one more run goes: "steps", and the groups that were asked for under "by"."""
    from hlorun.report.profile import slowest, times_by, write_trace

    events = executable.profile(*arguments, timeout=asked.timeout)[1]
    if asked.profile is not None:
        write_trace(asked.profile, module.name, events)
    if asked.flame is not None:
        from hlorun.report.flame import flame_svg

        asked.flame.write_text(flame_svg(module.name, events), encoding="utf-8")
    found: dict[str, Any] = {"steps": slowest(events)}
    if asked.by is not None:
        found["by"] = {"by": asked.by, "groups": times_by(module, events, asked.by)}
    return found


def device_inputs(
    module: HloModule, devices: Devices, source: str | None, seed: int
) -> tuple[list[list[Any]], str]:
    """Values for every device that runs here, and what they are in words."""
    from hlorun import _inputs

    source = source or _inputs.default_source(module)
    described = ""

    def make(device: int) -> list[Any]:
        nonlocal described
        values, text = _inputs.describe_inputs(module, source, seed + device)
        described = described or text
        return values

    arguments = devices.arguments(make, differ=source == "random")
    if source == "random" and devices.count > 1 and arguments[0]:
        who = "replica R" if devices.partitions == 1 else "partition P of replica R"
        number = "R" if devices.partitions == 1 else f"R * {devices.partitions} + P"
        described += f"; {who} has seed {seed} + {number}"
    return arguments, described


def _notes(module: HloModule, devices: Devices) -> list[str]:
    """What the outputs are outputs of, where that is not all the module says."""
    notes = _collectives(module, devices)
    stated = module.replica_count, module.num_partitions
    if devices.count < stated[0] * stated[1]:
        notes.append(f"the module is for {devices_text(*stated)}, this runs on {devices}")
    if devices.group is not None:
        notes.append(
            f"{devices} on {plural(devices.group.size, 'MPI rank')}; outputs "
            f"are those of rank {devices.group.rank}"
        )
    return notes


def _outputs(module: HloModule, devices: Devices, results: list[Any]) -> list[dict[str, Any]]:
    """Statistics of every array that came out, on each device."""
    names = _output_names(module)
    if devices.count > 1:
        names = [(name, f"{device}:{index}") for device in devices.local for name, index in names]
    leaves = [leaf for result in results for leaf in _flat(result)]
    return [_statistics(name, index, value) for (name, index), value in zip(names, leaves, strict=True)]


LABELS = {
    "argument_bytes": "arguments",
    "output_bytes": "outputs",
    "constant_bytes": "constants",
    "temp_bytes": "temporaries",
    "peak_rss": "whole process at most",
}


class _nothing:
    """No progress display."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _entry(module: HloModule) -> Any:
    entry = module.entry_computation
    if entry is None:
        import hlorun

        raise hlorun.HloUnsupportedError(f"module {module.name} has no entry computation to run")
    return entry


def _against_recorded(
    module: HloModule, devices: Devices, source: str | None, arguments: list[Any], results: list[Any]
) -> dict[str, Any] | None:
    """How far the outputs are from those of the recorded run; None where that was another run."""
    from hlorun import _inputs
    from hlorun.report.recorded import against_recorded

    is_recorded = (source or _inputs.default_source(module)) == "recorded"
    if module.result is None or not is_recorded or devices.count > 1:
        return None
    return against_recorded(module, _output_names(module), arguments, _flat(results[0]))


def _collectives(module: HloModule, devices: Devices) -> list[str]:
    """What collectives span."""
    from hlorun.report.summary import group_text

    found: dict[tuple[str, str], int] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if (kind := instruction.collective) is not None:
                key = (kind, group_text(instruction.attributes.get("replica_groups")))
                found[key] = found.get(key, 0) + 1
    who = f"{devices} that {'runs' if devices.count == 1 else 'run'} here"
    return [
        f"{plural(count, kind)} over {groups}: spans the {who}" for (kind, groups), count in found.items()
    ]


def _leaves(shape: Shape, index: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    if not shape.is_tuple:
        return [index]
    return [leaf for n, part in enumerate(shape.tuple_shapes) for leaf in _leaves(part, (*index, n))]


def _output_names(module: HloModule) -> list[tuple[str, str]]:
    """The instruction each output comes from, and its index in the result."""
    root = _entry(module).root
    names = []
    for leaf in _leaves(root.shape):
        source = root
        rest = leaf
        while rest and source.opcode == "tuple":
            source, rest = source.operands[rest[0]], rest[1:]
        names.append((source.name, "{" + ",".join(map(str, leaf)) + "}" if leaf else ""))
    return names


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _flat(part)]
    return [value]


def _number(value: Any) -> float | int | str | None:
    """A number as JSON has it; complex numbers as text."""
    if isinstance(value, complex):
        return f"{value:.6g}"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return value if isinstance(value, (int, bool)) else float(value)


def _statistics(name: str, index: str, value: Any) -> dict[str, Any]:
    import numpy as np

    row: dict[str, Any] = {"name": name, "index": index}
    if value is None:
        return {**row, "shape": [], "dtype": "token", "bytes": 0, "first": []}
    row |= {"shape": list(value.shape), "dtype": str(value.dtype), "bytes": value.nbytes}
    first = value.reshape(-1)[:6]
    if value.dtype.kind == "V" or (value.dtype.itemsize < 4 and value.dtype.kind not in "biu"):
        value, first = value.astype(np.float32), first.astype(np.float32)
    row["first"] = [_number(item) for item in first.tolist()]
    if value.size == 0:
        return row
    if value.dtype.kind == "f":
        finite = np.isfinite(value)
        if not finite.all():
            row["nan"] = int(np.isnan(value).sum())
            row["inf"] = int(np.isinf(value).sum())
            value = value[finite]
            if value.size == 0:
                return row
    if value.dtype.kind == "c":
        row["mean"] = _number(complex(value.mean()))
        return row
    row["min"], row["max"] = _number(value.min().item()), _number(value.max().item())
    row["mean"] = _number(float(value.mean(dtype=np.float64)))
    return row


def _peak_rss() -> int | None:
    """Most memory the process has held, in bytes."""
    try:
        import resource
        import sys
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print(screen: Console, report: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hlorun.cli.screen import print_table

    screen.print("\n** Result with test runner hlorun **", markup=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("output", "name", "shape", "dtype", "min", "mean", "max", "first values"):
        # What may be folded is made narrower first; the text in it is cut instead.
        table.add_column(
            heading,
            justify="right" if heading in ("min", "mean", "max") else "left",
            no_wrap=heading != "first values",
        )
    rows = report["outputs"]
    for number, row in enumerate(rows):
        more = " …" if (row["bytes"] and len(row["first"]) < _size(row["shape"])) else ""
        odd = "".join(f"{row[kind]:,} {kind}  " for kind in ("nan", "inf") if row.get(kind))
        cells = (
            row["index"] or str(number),
            row["name"],
            "[" + ",".join(map(str, row["shape"])) + "]",
            row["dtype"],
            _cell(row.get("min")),
            _cell(row.get("mean")),
            _cell(row.get("max")),
        )
        first = odd + " ".join(map(_cell, row["first"])) + more
        table.add_row(*map(Text, cells), Text(first, no_wrap=True, overflow="ellipsis"))
    print_table(screen, table)
    if report["recorded"]:
        _print_recorded(screen, report["recorded"])
    seconds, size = report["seconds"], report["bytes"]
    runs = f"run {seconds_text(seconds['median'])}"
    if len(seconds["runs"]) > 1:
        runs += f" (median of {len(seconds['runs'])}, best {seconds_text(seconds['best'])})"
    screen.print(
        f"\nTime: load {seconds_text(seconds['load'])}, compile {seconds_text(seconds['compile'])}, {runs}",
        markup=False,
    )
    parts = [f"{LABELS[key]} {bytes_text(value)}" for key, value in size.items()]
    screen.print("Memory: " + ", ".join(parts), markup=False)
    if "by" in report:
        _print_groups(screen, report)
    elif report["slowest_steps"] is not None:
        _print_steps(screen, report["slowest_steps"])
    if report["profile"]:
        screen.print(f"Profile written to {report['profile']}; chrome://tracing shows it", markup=False)
    if report["flame"]:
        screen.print(f"Flame graph written to {report['flame']}; any browser shows it", markup=False)
    if report["out"]:
        screen.print(f"Outputs written to {report['out']}", markup=False)


def _print_recorded(screen: Console, recorded: dict[str, Any]) -> None:
    rows = recorded["outputs"]
    equal = sum(row["equal"] for row in rows)
    where = f" on {recorded['platform']}" if recorded["platform"] else ""
    if recorded["agrees"]:
        rest = len(rows) - equal
        close = f", {rest:,} differ by rounding" if rest else ""
        text = (
            f"agrees with the result recorded{where}: {equal:,} of {plural(len(rows), 'output')} equal{close}"
        )
        screen.print(f"\nRecorded: {text}", markup=False)
        return
    for row in rows:
        if not row["agrees"]:
            apart = (
                "another shape or type" if row["largest"] is None else f"apart by up to {row['largest']:.6g}"
            )
            what = f"{row['name']}{row['index']}"
            screen.print(
                f"Recorded: output {what} differs from the result recorded{where}: {apart}", markup=False
            )


def _print_groups(screen: Console, report: dict[str, Any]) -> None:
    from hlorun.cli.screen import groups

    rows = [
        (item["key"], [seconds_text(item["seconds"]), f"{100 * item['share']:.1f} %", f"{item['steps']:,}"])
        for item in report["groups"]
    ]
    groups(screen, report["by"], "\ntime", ["time", "share", "steps"], rows, 16)


def _print_steps(screen: Console, steps: list[dict[str, Any]]) -> None:
    from hlorun.cli.screen import middles, short, table

    table(
        screen,
        "\nslowest steps",
        [("time", "right"), ("share", "right"), ("runs", "right")]
        + [(heading, "left") for heading in ("step", "name", "from")],
        [
            [
                seconds_text(step["seconds"]),
                f"{100 * step['share']:.1f} %",
                f"{step['runs']:,}",
                step["kind"],
                short(step["name"], 40),
                origin,
            ]
            for step, origin in zip(steps, middles([step["op_name"] for step in steps], 50), strict=True)
        ],
    )


def _size(shape: list[int]) -> int:
    product = 1
    for dim in shape:
        product *= dim
    return product
