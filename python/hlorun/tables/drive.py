"""All parts of the tables on the threads of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from hlorun._batch import Paths, find_files
from hlorun._hlorun import _batch_schema
from hlorun._names import UnknownWordError, hint
from hlorun.errors import HloUnsupportedError
from hlorun.report.result import Result
from hlorun.tables.parts import Options, Plan, plan, shard_of, state_of
from hlorun.tables.progress import Bar, bar
from hlorun.tables.write import Written, write_part

TABLES: tuple[str, ...] = tuple(_batch_schema()["tables"])
"""Names of all tables."""
MOST_FAILURES = 100
"""Failures that are kept with their messages; the tables have all of them."""


@dataclass(frozen=True)
class BatchTables(Result):
    """What a run of `hlorun.batch` with `out` has done.

    Attributes:
        out: The folder of the tables.
        files: Files that were asked for.
        skipped: Those that were in the tables already and have not changed.
        failed: Those of the rest that have an error in their row.
        bytes: Bytes of the files that were read.
        seconds: How long it took.
        failures: Path and message of the first that failed.

    Examples:
        >>> done = hlorun.batch("dumps", out="tables")
        >>> done.files, done.failed
        (2, 0)
    """

    out: str
    files: int
    skipped: int
    failed: int
    bytes: int
    seconds: float
    failures: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass
class Tally:
    """Adds up what became of the parts of a plan."""

    plan: Plan
    start: float = field(default_factory=perf_counter)
    files: int = 0
    bytes: int = 0
    failed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)

    def add(self, written: Written) -> None:
        """Count a part."""
        self.files += written.files
        self.bytes += written.bytes
        self.failed += len(written.failed)
        self.failures += written.failed[: MOST_FAILURES - len(self.failures)]

    def result(self) -> BatchTables:
        """What has been done so far."""
        return BatchTables(
            str(self.plan.folder),
            self.plan.files + self.plan.skipped,
            self.plan.skipped,
            self.failed,
            self.bytes,
            perf_counter() - self.start,
            tuple(self.failures),
        )


def prepare(
    paths: Paths,
    out: str | os.PathLike[str],
    options: Options,
    *,
    resume: bool,
    shard: tuple[int, int] | None,
    workers: int,
) -> Plan:
    """Find the files, and what of them is left to do.

    Raises:
        HloArgumentError: A table has no such name, the shard is none, or `out` holds other tables.
        HloUnsupportedError: The system has no `flock`, which keeps processes out of each other's way.
    """
    if find_spec("fcntl") is None:
        raise HloUnsupportedError("tables are written on Linux and macOS: this system has no flock")
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        known = f"tables are {', '.join(TABLES)}{hint(unknown[0], TABLES)}"
        raise UnknownWordError(f"there is no table {unknown[0]}: {known}")
    files = shard_of(sorted(state_of(find_files(paths)), key=lambda file: file.path), shard)
    return plan(Path(out), files, options, resume=resume, workers=workers)


def options_of(
    tables: Iterable[str] | None, *, run: bool, check: bool, seed: int, timeout: float | None
) -> Options:
    """The options of a batch; `modules`, which says what is done, is always among the tables."""
    wanted = TABLES if tables is None else tuple(tables)
    names = [name for name in TABLES if name in wanted or name == "modules"]
    names += [name for name in wanted if name not in TABLES]
    return Options(tuple(names), run, check, seed, timeout)


def write_tables(work: Plan, options: Options, *, workers: int, progress: bool | None) -> BatchTables:
    """Write the parts of a plan, each on a thread.

    Args:
        work: The parts.
        options: What the tables are made of.
        workers: Number of threads.
        progress: Whether to show a bar; None for one where stderr is a terminal.

    Returns:
        What has been done.
    """
    tally = Tally(work)
    stop = threading.Event()
    with bar(work.files, show=progress) as shown:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="hlorun-batch")
        tell = _teller(shown)
        try:
            waiting = {
                pool.submit(write_part, work.folder, part, options, tell=tell, stop=stop, share=workers)
                for part in work.parts
            }
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_EXCEPTION, timeout=1)
                for future in done:
                    tally.add(future.result())
        finally:
            # A part that is given up leaves nothing behind; the next run begins with it.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return tally.result()


def _teller(shown: Bar) -> Callable[[object], None]:
    lock = threading.Lock()

    def tell(_: object) -> None:
        with lock:
            shown.advance(1)

    return tell
