"""What every command shares: errors, JSON, units."""

from __future__ import annotations

import errno
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.report.units import bytes_text as bytes_text
from hlorun.report.units import plural as plural
from hlorun.report.units import scaled as scaled
from hlorun.report.units import seconds_text as seconds_text

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import HloModule


def words(*known: str) -> Callable[[str], list[str]]:
    """A completion by fixed words."""
    return lambda incomplete: [word for word in known if word.startswith(incomplete)]


def _keys(incomplete: str) -> list[str]:
    from hlorun.report.rollup import BY

    return words(*BY)(incomplete)


Dump = Annotated[
    Path,
    typer.Argument(
        metavar="DUMP",
        help="HLO text, proto or snapshot, plain or packed with gzip or zstd; - for stdin; a folder that "
        "holds one module.",
    ),
]
Inputs = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="WORD|FILE",
        help="random, zeros, recorded (of a snapshot), an .npy file of the one parameter, an .npz file of "
        "arrays by parameter name or as arg_0, arg_1, …, or FILE.npz,random for what the file does not have.",
        autocompletion=words("random", "zeros", "recorded"),
    ),
]
Constants = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="WORD|FILE",
        help="Values of elided constants: random, zeros, or an .npz file.",
        autocompletion=words("random", "zeros"),
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Run also where the memory that is left does not seem to suffice.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Timeout = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(min=0, help="Seconds the command may take; then it ends with exit status 1."),
]
By = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--by",
        metavar="KEY",
        help="Sum up by source, op_name, loop, opcode, computation or instruction.",
        autocompletion=_keys,
    ),
]
Replicas = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1, max=16384, help="Replicas that run together; as many as the module names by default."
    ),
]
Partitions = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1, max=16384, help="Partitions of each replica; as many as the module names by default."
    ),
]


@functools.cache
def standard_input() -> bytes:
    """All of standard input, which `-` names in place of a file."""
    return sys.stdin.buffer.read()


def load(path: Path) -> HloModule:
    """The module in a file, the only one in a folder, or that in standard input where the path is `-`."""
    import hlorun

    if str(path) != "-":
        return hlorun.load(only_file(path) if path.is_dir() else path)
    data = standard_input()
    if not data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return hlorun.parse(data, filename="<stdin>")
    # Only files are unpacked; Windows opens no file that is open already.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "stdin")
        file.write_bytes(data)
        return hlorun.load(file)


def write(path: Path | None, data: str | bytes) -> bool:
    """Writes `data` to a file, or to standard output for no file or `-`; whether it was a file."""
    data = data.encode() if isinstance(data, str) else data
    if path is not None and str(path) != "-":
        path.write_bytes(data)
        return True
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return False


def each_file(paths: list[Path]) -> Iterator[Path]:
    """The files given, and of each folder those that are HLO by their names.

    Raises:
        FileNotFoundError: A folder has none.
    """
    for path in paths:
        yield from [file for files in _modules_in(path) for file in files] if path.is_dir() else [path]


def _modules_in(folder: Path) -> list[list[Path]]:
    """Files of each module of a folder, in the order of its compilation; others are modules of their own."""
    from hlorun._scan import looks_like_hlo, scan

    scanned = scan(folder)
    dumped = [
        [*(stage.text or stage.proto for stage in module.stages), *module.snapshots] for module in scanned
    ]
    found = [[path for path in files if path is not None] for files in dumped]
    found += [[path] for path in scanned.unknown if looks_like_hlo(path.name)]
    found = [files for files in found if files]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no HLO in this folder", str(folder))
    return found


def only_file(folder: Path) -> Path:
    """The last stage of the only module in a folder, which is said on stderr."""
    from hlorun.errors import HloArgumentError

    modules = _modules_in(folder)
    if len(modules) > 1:
        names = ", ".join(str(files[-1]) for files in modules[:6]) + (", …" if len(modules) > 6 else "")
        raise HloArgumentError(
            f"{folder} holds {plural(len(modules), 'module')}; name the file of one: {names}"
        )
    (files,) = modules
    console(stderr=True).print(f"{folder}: reading {files[-1].name}", markup=False, soft_wrap=True)
    return files[-1]


def describe_file(error: OSError) -> str:
    """An error of a file in one sentence; of one that is missing, with what is called nearly so beside it."""
    from hlorun._names import hint
    from hlorun.errors import describe

    text = describe(error)
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, (str, os.PathLike)):
        path = Path(error.filename)
        with suppress(OSError):
            if not path.exists() and path.parent.is_dir():
                text += hint(path.name, (entry.name for entry in path.parent.iterdir()))
    return text


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough not to cut lines when there is none."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def fail(message: str) -> None:
    """Print an error to stderr."""
    console(stderr=True).print("error:", message, style=None, markup=False, soft_wrap=True)


@contextmanager
def reporting_errors(path: Path | None = None) -> Iterator[None]:
    """Turn what a user can act on into a message and exit status 1, or 2 where a word is unknown."""
    from hlorun._names import UnknownWordError
    from hlorun.errors import HloError

    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left, as `head` does; what Python still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except HloError as error:
        fail(str(error))
        raise typer.Exit(2 if isinstance(error, UnknownWordError) else 1) from None
    except OSError as error:
        fail(describe_file(error))
        raise typer.Exit(1) from None
    except MemoryError:
        fail(f"out of memory{f' with {path}' if path else ''}")
        raise typer.Exit(1) from None


def check_folder(path: Path) -> None:
    """Raise what writing to a path would raise that is a folder or has none, before work is lost to it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def check_module_file(path: Path) -> None:
    """Raise where the folder is missing, or the file holds something else than HLO, which would be lost.

    Raises:
        typer.BadParameter: The name is that of a file of arrays.
        HloArgumentError: The file is there and holds no HLO.
    """
    import hlorun

    check_folder(path)
    if path.suffix in (".npz", ".npy"):
        raise typer.BadParameter(
            f"{path} is the name of a file of arrays; give a module a name such as part.hlo",
            param_hint="--out",
        )
    if path.is_file() and path.stat().st_size:
        try:
            hlorun.load(path)
        except hlorun.HloError:
            raise hlorun.HloArgumentError(
                f"{path} holds no HLO and is left as it is: remove it, or name another file"
            ) from None


def print_json(value: Any) -> None:
    """Print one JSON document."""
    import json

    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
