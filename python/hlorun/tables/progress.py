"""A bar on a terminal: how many of how many, how fast, how long still."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class Bar:
    """Shows nothing."""

    def advance(self, count: int) -> None:
        """Count files that are done."""


@contextmanager
def bar(total: int, *, show: bool | None = None) -> Iterator[Bar]:
    """A bar on stderr for as long as the block runs.

    Args:
        total: Number of files.
        show: Whether to show it; None for where stderr is a terminal and rich is installed.

    Raises:
        ModuleNotFoundError: It is to be shown, and rich is not installed.
    """
    has_rich = find_spec("rich") is not None
    if not (sys.stderr.isatty() and has_rich if show is None else show) or total == 0:
        yield Bar()
        return
    if not has_rich:
        raise ModuleNotFoundError("a bar needs rich: pip install 'hlorun[cli]'")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as progress:
        task = progress.add_task("files", total=total, rate="")

        class Shown(Bar):
            """Shows the files on the terminal."""

            def advance(self, count: int) -> None:
                """Count files that are done."""
                progress.advance(task, count)
                speed = progress.tasks[0].speed
                if speed is not None:
                    progress.update(task, rate=f"{speed:,.0f} files/s")

        yield Shown()
