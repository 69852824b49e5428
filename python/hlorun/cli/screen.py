"""Tables and labelled rows, as several commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def short(text: str, width: int) -> str:
    """The beginning of a text, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def middles(texts: Sequence[str], width: int) -> list[str]:
    """Texts cut in the middle, so that those that differ still do: the cut leaves the first difference.

    Of an op_name that is too long, the options of its operation go first.
    """
    lines = [" ".join(text.split()) for text in texts]
    cut = {line: _cut(_without_options(line, width), width, None) for line in lines}
    by_look: dict[str, list[str]] = {}
    for line, look in cut.items():
        by_look.setdefault(look, []).append(line)
    for alike in by_look.values():
        if len(alike) > 1:
            columns = enumerate(zip(*alike, strict=False))
            first = next((place for place, letters in columns if len(set(letters)) > 1), min(map(len, alike)))
            cut |= {line: _cut(line, width, first) for line in alike}
    return [cut[line] for line in lines]


def _without_options(line: str, width: int) -> str:
    """`scan/dot_general[…]` for `scan/dot_general[ dimension_numbers=… ]`."""
    start = line.find("[ ")
    is_long = len(line) > width and start >= 0 and line.endswith("]")
    return f"{line[:start]}[…]" if is_long else line


def _cut(line: str, width: int, keep: int | None) -> str:
    """Beginning and end of a line, and what is around the place to keep."""
    if len(line) <= width:
        return line
    head = width // 3
    if keep is None:
        return f"{line[:head]}…{line[head + 1 - width :]}"
    around = width // 4
    start = max(keep - around // 2, head + 1)
    rest = width - head - around - 2
    return f"{line[:head]}…{line[start : start + around]}…{line[len(line) - rest :]}"


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


def groups(
    out: Console, by: str, title: str, columns: list[str], rows: list[tuple[str, list[str]]], top: int
) -> None:
    """Print sums by group: numbers first, then the name of the group, op_names and the like in short."""
    listed = rows[:top]
    names = middles([name for name, _ in listed], 72)
    more = f", the first {len(listed)} of {len(rows):,}" if len(listed) < len(rows) else ""
    cells = [[*numbers, name] for name, (_, numbers) in zip(names, listed, strict=True)]
    headings = [*((heading, "right") for heading in columns), (by, "left")]
    table(out, f"{title} by {by}{more}", headings, cells)


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
