"""Many files through one function, where no single file ends the run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, overload

from hlorun.errors import HloArgumentError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hlorun._hlorun import HloModule
    from hlorun.tables.drive import BatchTables

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
"""A path, or several."""

T = TypeVar("T")


@dataclass(frozen=True)
class BatchRecord(Generic[T]):
    """What became of one file.

    Attributes:
        path: The file.
        module: The module, when no function was given.
        value: What the function returned for the module.
        error: Why there is neither: an `HloError`, an `OSError`, or what the function raised.

    Examples:
        >>> for record in hlorun.batch("dumps", fn=lambda module: module.instruction_count):
        ...     print(record.path.name[:3], record.value, record.error)
        001 133 None
        003 157 None
    """

    path: Path
    module: HloModule | None = None
    value: T | None = None
    error: Exception | None = None


def find_files(paths: Paths, left_out: list[Path] | None = None) -> list[Path]:
    """The files to read: those given, and below each directory those that look like HLO.

    A file is listed once, also when two paths lead to it.

    Args:
        paths: Files and directories.
        left_out: Gets the files below directories that XLA names as such on memory or thunks.
    """
    from hlorun._scan import has_suffix, looks_like_hlo

    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found: dict[Path, None] = {}
    for entry in map(Path, paths):
        if not entry.is_dir():
            found[entry] = None
            continue
        for folder, folders, names in os.walk(entry):
            folders.sort()
            for name in sorted(names):
                if looks_like_hlo(name):
                    found[Path(folder, name)] = None
                elif left_out is not None and has_suffix(name):
                    left_out.append(Path(folder, name))
    return list(found)


@overload
def batch(
    paths: Paths, fn: None = None, workers: int | None = None, *, out: None = None
) -> Iterator[BatchRecord[HloModule]]: ...
@overload
def batch(
    paths: Paths, fn: Callable[[HloModule], T], workers: int | None = None, *, out: None = None
) -> Iterator[BatchRecord[T]]: ...
@overload
def batch(
    paths: Paths,
    fn: None = None,
    workers: int | None = None,
    *,
    out: str | os.PathLike[str],
    run: bool = False,
    check: bool = False,
    resume: bool = True,
    shard: tuple[int, int] | None = None,
    tables: Iterable[str] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: bool | None = None,
) -> BatchTables: ...


def batch(
    paths: Paths,
    fn: Callable[[HloModule], Any] | None = None,
    workers: int | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    run: bool = False,
    check: bool = False,
    resume: bool = True,
    shard: tuple[int, int] | None = None,
    tables: Iterable[str] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    progress: bool | None = None,
) -> Iterator[BatchRecord[Any]] | BatchTables:
    """Load many files: yield a record for each, in order, or write tables of all of them to a folder.

    Files are loaded, and `fn` called, on threads; loading, compiling, running and the tables release the
    interpreter lock. At most a few results per worker wait to be taken or written, so a million files need
    no more memory than a hundred.

    With `out` the folder gets a Parquet file per part and table, `part-*/modules.parquet` and so on;
    `hlorun.batch_schema()` and docs/batch.md say what is in them. A part is there when it is whole, a run
    that was ended goes on where it was, and a file that has changed is read again.

    Args:
        paths: A file, a directory (searched for names that end in .txt, .hlo, .pb or .pbtxt, also packed,
            but for what XLA writes on memory, thunks and options beside a module), or several of them.
        fn: Called with each module; its result becomes `.value`. Without it `.module` is set.
        workers: Number of threads; the number of CPUs by default.
        out: The folder of the tables.
        run: With `out`, run each module once, on one device with random inputs.
        check: With `out`, verify each module; with `run`, prove its plan, too.
        resume: With `out`, leave files alone that are in the tables and have not changed.
        shard: With `out`, `(i, n)` for every nth file from the ith on, where n processes share the work.
        tables: With `out`, the tables to write; all by default. `modules` is always written.
        seed: With `run`, of the random inputs.
        timeout: With `run`, the seconds after which each run is ended.
        progress: With `out`, whether to show a bar on stderr; by default where that is a terminal.

    Returns:
        Without `out`, an iterator of one `BatchRecord` per file. A file that cannot be read or parsed, or
        for which `fn` raises, gives its exception as `.error`, and the next file is not affected.
        With `out`, a `BatchTables` that says how many files were read and which failed; an error of a
        file is in its row of the table `modules`.

    Raises:
        ValueError: `workers` is less than 1.
        HloArgumentError: `out` and `fn` are both given, `shard` is none, there is no such table, or the
            folder holds tables that were made with other options.
        HloUnsupportedError: With `out` on Windows, which has no `flock`.

    Examples:
        >>> done = hlorun.batch("dumps", out="tables")
        >>> done.files, done.failed
        (2, 0)
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    count = workers or os.cpu_count() or 1
    if out is None:
        return _records(paths, fn, count)
    if fn is not None:
        raise HloArgumentError("batch takes fn, for records, or out, for tables, not both")
    # NumPy is slow to import, and records do not need it.
    from hlorun.tables.drive import options_of, prepare, write_tables

    options = options_of(tables, run=run, check=check, seed=seed, timeout=timeout)
    work = prepare(paths, out, options, resume=resume, shard=shard, workers=count)
    return write_tables(work, options, workers=count, progress=progress)


def _records(paths: Paths, fn: Callable[[HloModule], Any] | None, count: int) -> Iterator[BatchRecord[Any]]:
    from concurrent.futures import ThreadPoolExecutor

    from hlorun._hlorun import load

    def process(path: Path) -> BatchRecord[Any]:
        try:
            module = load(path)
            if fn is None:
                return BatchRecord(path, module=module)
            return BatchRecord(path, value=fn(module))
        except Exception as error:
            return BatchRecord(path, error=error)

    files = iter(find_files(paths))
    pool = ThreadPoolExecutor(count, thread_name_prefix="hlorun-batch")
    waiting: deque[Future[BatchRecord[Any]]] = deque()
    try:
        for path in files:
            waiting.append(pool.submit(process, path))
            if len(waiting) > 2 * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def batch_schema() -> dict[str, Any]:
    """The tables of `hlorun.batch` and their columns.

    Returns:
        "version", a number; "tables", by name what each holds ("about") and its "columns" as (name, type,
        meaning); "opcodes", "element_types" and "features", what the numbers of the table `graphs` stand for.

    Examples:
        >>> list(hlorun.batch_schema()["tables"])[:2]
        ['modules', 'computations']
    """
    from hlorun._hlorun import _batch_schema

    return _batch_schema()
