"""`hlorun run`: run a dump and print what comes out."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    Dump,
    Json,
    bytes_text,
    check_folder,
    console,
    plural,
    print_json,
    reporting_errors,
    seconds_text,
)
from hlorun.cli.replicas import Devices

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import HloModule, Shape


def run(
    dump: Dump,
    inputs: Annotated[
        str, typer.Option(help="random, zeros, or an .npz file of arrays by parameter name.")
    ] = "random",
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Run this often; times are of each run.")] = 1,
    replicas: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=16384, help="Replicas that run together; with --mpi, one per rank."),
    ] = None,
    mpi: Annotated[bool, typer.Option("--mpi", help="Share the replicas among the ranks of mpirun.")] = False,
    threads: Annotated[Optional[int], typer.Option(min=1, help="Threads; all CPUs by default.")] = None,  # noqa: UP045
    out: Annotated[Optional[Path], typer.Option(help="Write the outputs to this .npz file.")] = None,  # noqa: UP045
    profile: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Run once more and write the time of every step here, as a Chrome trace (JSON)."),
    ] = None,
    json: Json = False,
) -> None:
    """Run a module and print its outputs, its times and its memory.

    Without inputs it makes reproducible random ones.
    """
    if profile is not None and (mpi or (replicas or 1) > 1):
        raise typer.BadParameter("a profile is of one replica", param_hint="--profile")
    with reporting_errors(dump):
        with Devices(replicas, mpi=mpi) as devices:
            quiet = json or devices.is_quiet
            report = _run(dump, inputs, seed, repeat, threads, out, profile, devices, quiet=quiet)
        if json and not devices.is_quiet:
            print_json(report)


def _run(
    dump: Path,
    source: str,
    seed: int,
    repeat: int,
    threads: int | None,
    out: Path | None,
    profile: Path | None,
    devices: Devices,
    *,
    quiet: bool,
) -> dict[str, Any]:
    import hlorun

    screen = console(stderr=False)

    def say(text: str) -> None:
        if not quiet:
            screen.print(text, markup=False, soft_wrap=True)

    for path in filter(None, (out, profile)):
        check_folder(path)
    times: dict[str, Any] = {}
    start = perf_counter()
    module = hlorun.load(dump)
    times["load"] = perf_counter() - start
    say(f"** Running {dump} **")
    say(f"Module {module.name}: {plural(module.instruction_count, 'instruction')}")
    start = perf_counter()
    executable = devices.compile(module, threads)
    times["compile"] = perf_counter() - start
    described = ""

    def make(replica: int) -> list[Any]:
        nonlocal described
        values, text = _inputs(module, source, seed + replica)
        described = described or text
        return values

    arguments = devices.arguments(make, differ=source == "random")
    if source == "random" and devices.replicas > 1:
        described += f"; replica R has seed {seed} + R"
    say(described)
    notes = _collectives(module, devices.replicas)
    if devices.group is not None:
        notes.append(
            f"{plural(devices.replicas, 'replica')} on {plural(devices.group.size, 'MPI rank')}; outputs "
            f"are those of rank {devices.group.rank}"
        )
    for note in notes:
        say(f"Note: {note}")
    say("Running HLO module with runner hlorun...")
    times["runs"] = []
    results: list[Any] = []
    is_watched = screen.is_terminal and not quiet and devices.group is None
    with screen.status("running") if is_watched else _nothing():
        for _ in range(repeat):
            results = []
            start = perf_counter()
            results = devices.run(executable, arguments)
            times["runs"].append(perf_counter() - start)
    say(f"... compiled and ran in {times['compile'] + times['runs'][0]:.6g}s.")
    names = _output_names(module)
    if devices.replicas > 1:
        names = [(name, f"{r}:{index}") for r in devices.local for name, index in names]
    outputs = [leaf for result in results for leaf in _flat(result)]
    rows = [_statistics(name, index, value) for (name, index), value in zip(names, outputs, strict=True)]
    if out is not None:
        out = devices.write(out, [_flat(result) for result in results])
    steps = None
    if profile is not None:
        from hlorun.report.profile import slowest, write_trace

        events = executable.profile(*arguments[0])[1]
        write_trace(profile, module.name, events)
        steps = slowest(events)
    report = {
        "module": module.name,
        "file": str(dump),
        "inputs": described,
        "replicas": devices.replicas,
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
        "outputs": rows,
        "out": str(out) if out is not None else None,
        "profile": str(profile) if profile is not None else None,
        "slowest_steps": steps,
    }
    if not quiet:
        _print(screen, report)
    return report


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


def _inputs(module: HloModule, source: str, seed: int) -> tuple[list[Any], str]:
    from hlorun import _inputs

    if not _entry(module).parameters and source in ("random", "zeros"):
        return [], "Inputs: none, the module has no parameters"
    if source == "random":
        arguments = _inputs.random_inputs(module, seed)
        return (
            arguments,
            f"Inputs: {plural(len(arguments), 'random array')}, seed {seed}: {_inputs.DESCRIPTION}",
        )
    if source == "zeros":
        arguments = _inputs.zero_inputs(module)
        return arguments, f"Inputs: {plural(len(arguments), 'array')} of zeros"
    arguments = _inputs.file_inputs(module, source)
    return arguments, f"Inputs: {plural(len(arguments), 'array')} from {source}"


def _collectives(module: HloModule, replicas: int) -> list[str]:
    """What collectives span."""
    from hlorun.report.summary import base_collective, group_text

    found: dict[tuple[str, str], int] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if (kind := base_collective(instruction.opcode)) is not None:
                key = (kind, group_text(instruction.attributes.get("replica_groups")))
                found[key] = found.get(key, 0) + 1
    who = f"{plural(replicas, 'replica')} that {'runs' if replicas == 1 else 'run'} here"
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
    if report["profile"]:
        _print_steps(screen, report["slowest_steps"])
        screen.print(f"Profile written to {report['profile']}; chrome://tracing shows it", markup=False)
    if report["out"]:
        screen.print(f"Outputs written to {report['out']}", markup=False)


def _print_steps(screen: Console, steps: list[dict[str, Any]]) -> None:
    from hlorun.cli.screen import short, table, tail

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
                tail(step["op_name"], 50),
            ]
            for step in steps
        ],
    )


def _size(shape: list[int]) -> int:
    product = 1
    for dim in shape:
        product *= dim
    return product
