"""Tables and labelled rows, as several commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlorun.cli.common import fail

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def unknown(module: Any, name: str) -> None:
    """Print that nothing is called so, and what is called nearly so."""
    from difflib import get_close_matches

    names = [c.name for c in module.computations]
    names += [i.name for c in module.computations for i in c.instructions]
    near = get_close_matches(name, names, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    fail(f"module {module.name} has no computation or instruction called {name}{hint}")


def short(text: str, width: int) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def tail(text: str, width: int) -> str:
    """The end of an op_name, which tells more than its beginning."""
    text = " ".join(text.split())
    return text if len(text) <= width else "…" + text[1 - width :]


def row(out: Console, label: str, text: str) -> None:
    """Print a label and a text, which may take several lines."""
    from textwrap import wrap

    from rich.text import Text

    indent = max(12, len(label)) + 2
    lines = wrap(text, max(out.width - indent, 20)) or [""]
    body = ("\n" + " " * indent).join(lines)
    out.print(Text.assemble((label.ljust(indent), "bold cyan"), body))


def table(out: Console, title: str, columns: list[tuple[str, str]], rows: list[list[str]]) -> None:
    """Print a table with a title; columns are (heading, "left" or "right")."""
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold cyan",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for heading, justify in columns:
        made.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True, style=None)
    for row in rows:
        made.add_row(*map(Text, row))
    print_table(out, made)


def print_table(out: Console, table: Table) -> None:
    """Print a table; into files and pipes in its full width, so that nothing is cut."""
    if out.is_terminal:
        out.print(table)
        return
    width = out.width
    wide = out.options.update(width=1 << 20)
    out.width = max(width, table.__rich_measure__(out, wide).maximum)
    out.print(table)
    out.width = width
