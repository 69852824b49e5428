"""`hlorun nan`, `compare`, `bisect` and `reduce`: what went wrong, and where."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.cli.common import (
    Constants,
    Dump,
    Inputs,
    Json,
    Timeout,
    check_module_file,
    console,
    fail,
    load,
    print_json,
    reporting_errors,
)
from hlorun.cli.names import modules_in_folder

if TYPE_CHECKING:
    from hlorun import Bisection, HloModule

Seed = Annotated[int, typer.Option(min=0, help="Seed of random inputs.")]


def _given(module: HloModule, inputs: str | None, seed: int) -> list[Any]:
    from hlorun._inputs import describe_inputs

    values, described = describe_inputs(module, inputs, seed)
    console(stderr=True).print(described, markup=False, soft_wrap=True)
    return values


def _complete(module: HloModule, constants: str | None, seed: int) -> HloModule:
    """The module with values for the constants that its text leaves out."""
    from hlorun._inputs import describe_constants

    values, described = describe_constants(module, constants, seed)
    if described:
        console(stderr=True).print(described, markup=False, soft_wrap=True)
    return module.with_constants(values) if values else module


def _show(found: Any, json: bool) -> None:
    if json:
        print_json(found.to_dict())
    else:
        console().print(str(found), markup=False, soft_wrap=True)


def nan(
    dump: Dump,
    inputs: Inputs = None,
    seed: Seed = 0,
    constants: Constants = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run without fusion and name the instructions that make NaN or Inf from clean operands.

    Each with the element, the operands there, inside a loop the trip, and of several devices the device.
    Ctrl-C, or the end of --timeout, ends the search with what was found so far. Exit status 1 when there
    are any, or the search was ended.
    """
    import hlorun

    with reporting_errors(dump):
        module = _complete(load(dump), constants, seed)
        given = _given(module, inputs, seed)
        screen = console(stderr=True)
        with screen.status("running") if screen.is_terminal else nullcontext() as status:
            found = hlorun.find_nan(
                module,
                *given,
                timeout=timeout,
                until_interrupted=True,
                progress=status.update if status is not None else None,
            )
        _show(found, json)
    if found or not found.is_complete:
        raise typer.Exit(1)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="HLO text or proto.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="HLO text or proto.")],
    inputs: Inputs = None,
    seed: Seed = 0,
    constants: Constants = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run two modules on the same inputs and tell rounding from a difference of the programs.

    Both also run in f64: where the exact results agree, only rounding parts the others. Where B alone is
    for several devices, A runs on one, and the first value is named that does not lie on B's devices as
    it should. Exit status 1 when the programs differ.
    """
    import hlorun

    with reporting_errors():
        first, second = (_complete(load(path), constants, seed) for path in (a, b))
        given = _given(first, inputs, seed)
        found: hlorun.Comparison | hlorun.DeviceComparison
        devices = [module.num_partitions * module.replica_count for module in (first, second)]
        if devices[1] > 1 >= devices[0]:
            found = hlorun.compare_devices(first, second, *given, timeout=timeout)
        else:
            found = hlorun.compare(first, second, *given, timeout=timeout)
        _show(found, json)
    if found.verdict == "different":
        raise typer.Exit(1)


def bisect(
    target: Annotated[
        Path, typer.Argument(metavar="DUMP|DIR", help="A module, or a folder with one after each pass.")
    ],
    against: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="RIGHT", help="A module that is right: search the instructions."),
    ] = None,
    passes: Annotated[
        bool, typer.Option("--passes", help="Search the passes of hlorun, as without any option.")
    ] = False,
    module: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="MODULE",
            help="Of a folder with several: a module's name or number.",
            autocompletion=modules_in_folder,
        ),
    ] = None,
    inputs: Inputs = None,
    seed: Seed = 0,
    constants: Constants = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the instruction at fault here, as a module, and its operands beside it, as .npz.",
        ),
    ] = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Find the pass or the instruction from which on results differ.

    Of a folder with one module after each pass (--xla_dump_to, --xla_dump_hlo_pass_re=.*,
    --xla_dump_hlo_module_re=NAME), the first pass whose module means something else; of one module, the
    pass of hlorun that changes a bit; with --against, the instruction that computes something else.
    Exit status 1 when there is one.
    """
    import hlorun

    with reporting_errors():
        if passes and (against is not None or target.is_dir()):
            fail("--passes searches those of hlorun: give one module, without --against")
            raise typer.Exit(2)
        if against is not None and target.is_dir():
            raise typer.BadParameter("a folder is searched by its own stages", param_hint="--against")
        if constants is not None and target.is_dir():
            without = "passes rename constants; --xla_dump_large_constants writes them out"
            raise typer.BadParameter(without, param_hint="--constants")
        if module is not None and not target.is_dir():
            raise typer.BadParameter(f"{target} is no folder", param_hint="--module")
        if out is not None:
            check_module_file(out)
            _check_arrays(out.with_suffix(".npz"), inputs)
        if target.is_dir():
            from hlorun.find.bisection import only_module, stages_of

            chosen = only_module(target, module)
            values = _given(stages_of(chosen)[0].load(), inputs, seed)
            found = hlorun.bisect(chosen, *values, timeout=timeout)
        else:
            wrong = _complete(load(target), constants, seed)
            right = _complete(load(against), constants, seed) if against is not None else None
            values = _given(right or wrong, inputs, seed)
            found = hlorun.bisect(wrong, *values, against=right, timeout=timeout)
        _show(found, json)
        if out is not None:
            console(stderr=True).print(_write(found, out), markup=False, soft_wrap=True)
    if found.culprit is not None:
        raise typer.Exit(1)


def _check_arrays(path: Path, inputs: str | None) -> None:
    """Raise where operands would take the place of a file of another kind, or of the inputs."""
    from zipfile import is_zipfile

    import hlorun

    is_taken = path.exists() and not is_zipfile(path)
    if is_taken or (inputs is not None and Path(inputs.partition(",")[0]) == path):
        raise hlorun.HloArgumentError(
            f"the operands would go to {path}, which holds something else: give --out another name"
        )


def _write(found: Bisection, out: Path) -> str:
    """Write the instruction at fault and its operands; says what was written."""
    if found.module is None:
        return f"{out} is not written: no instruction is known to be at fault"
    out.write_text(str(found.module), encoding="utf-8")
    entry = found.module.entry_computation
    if entry is None or not entry.parameters:
        return f"{out} holds the instruction: hlorun run {out}"
    if not found.inputs:
        return f"{out} holds the instruction; what its operands hold is not known"
    path = out.with_suffix(".npz")
    _save(found.module, found.inputs, path)
    return f"{out} holds the instruction, {path} its operands: hlorun run {out} --inputs {path}"


def _save(module: HloModule, inputs: tuple[Any, ...], path: Path) -> None:
    """Write inputs for `hlorun run --inputs`, by parameter name."""
    from zipfile import ZipFile

    import numpy as np

    entry = module.entry_computation
    if inputs and entry is not None:
        names = [parameter.name for parameter in entry.parameters]
        # Not by np.savez, whose own arguments a parameter may be called like.
        with ZipFile(path, "w") as archive:
            for name, array in zip(names, inputs, strict=True):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def reduce(
    dump: Dump,
    check: Annotated[
        str,
        typer.Option(
            metavar="CMD",
            help="Ends with status 0 when the module in the file that is appended to it still shows the "
            "problem; {} stands for the file elsewhere in the command.",
        ),
    ],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", "-o", metavar="FILE", help="The smallest so far; DUMP.reduced.hlo by default."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds each check may take.")] = 60,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Checks that run at once.")] = 1,
    json: Json = False,
) -> None:
    """Make a module as small as it can be while a command still succeeds on it.

    The file --out always holds the smallest module so far; taken as DUMP again it goes on from there.
    """
    import hlorun

    target = out if out is not None else Path(f"{dump.name if str(dump) != '-' else 'stdin'}.reduced.hlo")
    command = _words(check)
    screen = console(stderr=True)

    def shows(module: HloModule) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "module.hlo")
            file.write_text(str(module), encoding="utf-8")
            words = [word.replace("{}", str(file)) for word in command]
            if words == command:
                words.append(str(file))
            try:
                ended = subprocess.run(words, capture_output=True, timeout=timeout, check=False)
            except subprocess.TimeoutExpired:
                return False
        return ended.returncode == 0

    with reporting_errors(dump):
        check_module_file(target)
        module = load(dump)
        try:
            found = hlorun.reduce(
                module,
                shows,
                out=target,
                progress=lambda text: screen.print(text, markup=False, soft_wrap=True),
                jobs=jobs,
            )
        except ValueError:
            fail(f"{check} does not succeed on {dump} itself: there is nothing to reduce")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            fail(f"interrupted; {target} holds the smallest so far")
            raise typer.Exit(130) from None
        target.write_text(str(found.module), encoding="utf-8")
        _show(found, json)
        if not json:
            console().print(str(target), markup=False, soft_wrap=True)


def _words(check: str) -> list[str]:
    """The words of a command, whose program is there."""
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise typer.BadParameter(f"{check}: {error}", param_hint="--check") from None
    if not words:
        raise typer.BadParameter("it is empty", param_hint="--check")
    if "{}" not in words[0] and shutil.which(words[0]) is None:
        raise typer.BadParameter(f"there is no program {words[0]}", param_hint="--check")
    return words
