"""What every command shares: errors, JSON, units."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from hlorun.report.units import seconds_text as seconds_text

if TYPE_CHECKING:
    from rich.console import Console

    from hlorun import HloModule

Dump = Annotated[
    Path,
    typer.Argument(
        metavar="DUMP",
        help="HLO text, proto or snapshot, plain or packed with gzip or zstd; - for stdin.",
    ),
]
Inputs = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="WORD|FILE",
        help="random, zeros, recorded (of a snapshot), an .npy or .npz file of arrays by parameter name, or "
        "FILE.npz,random for what the file does not have.",
    ),
]
Constants = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="WORD|FILE", help="Values of elided constants: random, zeros, or an .npz file."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Run also where the memory that is left does not seem to suffice.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
By = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--by", metavar="KEY", help="Sum up by source, op_name, loop, opcode, computation or instruction."
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
    """The module in a file, or in standard input where the path is `-`."""
    import hlorun

    if str(path) != "-":
        return hlorun.load(path)
    data = standard_input()
    if not data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return hlorun.parse(data, filename="<stdin>")
    # Only files are unpacked.
    with tempfile.NamedTemporaryFile(prefix="stdin-") as file:
        file.write(data)
        file.flush()
        return hlorun.load(file.name)


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
    """Turn what a user can act on into a message and exit status 1."""
    from hlorun.errors import HloError, describe

    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left, as `head` does; what Python still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except HloError as error:
        fail(str(error))
        raise typer.Exit(1) from None
    except OSError as error:
        fail(describe(error))
        raise typer.Exit(1) from None
    except MemoryError:
        fail(f"out of memory{f' with {path}' if path else ''}")
        raise typer.Exit(1) from None


def check_folder(path: Path) -> None:
    """Raise what writing a file would raise for want of its folder, before work is lost to it."""
    if not path.parent.is_dir():
        import errno

        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def print_json(value: Any) -> None:
    """Print one JSON document."""
    import json

    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def bytes_text(count: int | None) -> str:
    """Bytes in decimal units: 525.4 kB."""
    if count is None:
        return "?"
    if abs(count) < 1000:
        return f"{count} B"
    return f"{scaled(count)}B"


def scaled(number: float) -> str:
    """A number with an SI prefix and four digits: 492.1 G, 12.3 k."""
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= factor * 0.9995:
            return f"{number / factor:.4g} {prefix}"
    return f"{number:.4g} "


def plural(count: int, word: str) -> str:
    """`1 loop`, `18 loops`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
