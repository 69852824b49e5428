"""Many files through one function, where no single file ends the run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hlorun._hlorun import HloModule

T = TypeVar("T")

SUFFIXES = tuple(kind + packed for packed in ("", ".gz", ".zst") for kind in (".txt", ".hlo", ".hlo.pb"))
"""What files of a directory are read: HLO text and protos, plain or packed."""


@dataclass(frozen=True)
class BatchRecord(Generic[T]):
    """What became of one file."""

    path: Path
    """The file."""
    module: HloModule | None = None
    """The module, when no function was given."""
    value: T | None = None
    """What the function returned for the module."""
    error: Exception | None = None
    """Why there is neither: an `HloError`, an `OSError`, or what the function raised."""


def find_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files to read: those given, and below each directory those with one of `SUFFIXES`.

    A file is listed once, also when two paths lead to it.
    """
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
                if name.endswith(SUFFIXES):
                    found[Path(folder, name)] = None
    return list(found)


def batch(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    fn: Callable[[HloModule], Any] | None = None,
    workers: int | None = None,
) -> Iterator[BatchRecord[Any]]:
    """Load many files and yield a record for each, in order.

    Files are loaded, and `fn` called, on threads; loading and compiling and running release the
    interpreter lock. At most a few results per worker wait to be taken, so a million files need no
    more memory than a hundred.

    Args:
        paths: A file, a directory (searched for `SUFFIXES`), or several of them.
        fn: Called with each module; its result becomes `.value`. Without it `.module` is set.
        workers: Number of threads; the number of CPUs by default.

    Yields:
        One `BatchRecord` per file. A file that cannot be read or parsed, or for which `fn` raises,
        yields its exception as `.error`, and the next file is not affected.
    """
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

    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    files = iter(find_files(paths))
    count = workers or os.cpu_count() or 1
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
