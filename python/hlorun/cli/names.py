"""Names on the command line: what a shell offers for them, and what is said of one that is not known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hlorun._names import hint, near
from hlorun.cli.common import fail

if TYPE_CHECKING:
    from hlorun import HloModule

MOST_OFFERED = 200
"""Names that a shell is offered."""


def choose(word: str, known: tuple[str, ...], option: str) -> None:
    """End with status 2 where a word is none of those that an option takes."""
    if word not in known:
        message = f"{word!r} is none of {', '.join(known)}{hint(word, known)}"
        raise typer.BadParameter(message, param_hint=option)


def names_of(module: HloModule) -> Iterator[str]:
    """Every computation and instruction."""
    for computation in module:
        yield computation.name
    for instruction in module.instructions:
        yield instruction.name


def _given(ctx: typer.Context, *parameters: str) -> list[Path]:
    """Paths that stand before the word which is completed.

    Nothing is assigned to parameters where the last word is an option that waits for its value.
    """
    found = [*map(ctx.params.get, parameters), *map(Path, ctx.args)]
    return [path for path in found if isinstance(path, Path)]


def names_in_dump(ctx: typer.Context, incomplete: str) -> list[str]:
    """A completion by the names in the dump that the command is given before."""
    import hlorun

    dump = next((path for path in _given(ctx, "dump") if path.is_file()), None)
    try:
        module = hlorun.load(dump) if dump is not None else None
    except (hlorun.HloError, OSError):
        return []
    found: list[str] = []
    for name in names_of(module) if module is not None else ():
        if name.startswith(incomplete):
            found.append(name)
            if len(found) == MOST_OFFERED:
                break
    return found


def modules_in_folder(ctx: typer.Context, incomplete: str) -> list[str]:
    """A completion by the modules of the dump folder that the command is given before."""
    from hlorun._scan import scan

    folder = next((path for path in _given(ctx, "folder", "target") if path.is_dir()), None)
    if folder is None:
        return []
    return [module.name for module in scan(folder) if module.name.startswith(incomplete)]


def unknown(module: HloModule, name: str) -> None:
    """Print that nothing is called so, and what may have been meant: nearly the same name, or an opcode."""
    message = f"module {module.name} has no computation or instruction called {name}"
    found = near(name, names_of(module))
    opcodes = {instruction.opcode for instruction in module.instructions}
    opcode = name if name in opcodes else next(iter(near(name, opcodes, 1)), None)
    if opcode is not None and (name == opcode or not found):
        of_it = [instruction.name for instruction in module.find(opcode=opcode)]
        more = ", …" if len(of_it) > 4 else ""
        fail(f"{message}; of the opcode {opcode} there is {', '.join(of_it[:4])}{more}")
    else:
        fail(message + (f"; did you mean {' or '.join(found)}?" if found else ""))
