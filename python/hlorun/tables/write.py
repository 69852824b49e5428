"""One part of the tables: its files are read one after another, and their rows written as they come."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hlorun._hlorun import HloModule, _TableRows, load
from hlorun.errors import HloExecutionError, describe
from hlorun.tables.parts import File, Options, Part, as_text, hidden_name, metadata_of

FLUSH_BYTES = 16 << 20
"""Bytes of rows that are kept before they are written as a row group."""


class Stopped(Exception):
    """Whoever asked for the part wants it no more."""


@dataclass(frozen=True)
class Written:
    """What became of a part."""

    files: int
    bytes: int
    failed: tuple[tuple[str, str], ...]
    """Path and message of every file that failed."""


@dataclass
class _Facts:
    """What is known of a file beside its module; the keys are those of `_TableRows.add`."""

    path: str
    file_bytes: int
    modified_ns: int
    error_stage: str = ""
    error_kind: str = ""
    error_message: str = ""
    compile_seconds: float | None = None
    run_seconds: float | None = None
    output_nan: int | None = None
    output_inf: int | None = None

    def fail(self, stage: str, error: Exception) -> None:
        """Note an error; the first one counts."""
        if not self.error_stage:
            self.error_stage, self.error_kind = stage, type(error).__name__
            self.error_message = as_text(describe(error))


def write_part(
    folder: Path,
    part: Part,
    options: Options,
    *,
    tell: Callable[[File], None] | None = None,
    stop: threading.Event | None = None,
    broken: Mapping[str, str] | None = None,
    share: int = 1,
) -> Written:
    """Write a part of the tables; nothing where it is there already.

    Args:
        folder: Where the tables are.
        part: Its files.
        options: What the tables are made of.
        tell: Called after each file.
        stop: Set when the part is wanted no more.
        broken: Files that are not to be touched, with what is wrong with them.
        share: How many such calls this machine's memory is shared by.

    Returns:
        What became of the files.

    Raises:
        Stopped: `stop` was set; nothing is left behind.
        HloExecutionError: A file has no row, not even one of an error.
        OSError: The folder cannot be written to.
    """
    broken = dict(broken or {})
    if (folder / part.name).exists():
        # A worker that died later than its work, or another run at the same time.
        return Written(len(part.files), sum(file.bytes for file in part.files), ())
    while True:
        hidden = hidden_name(folder, part)
        hidden.mkdir()
        try:
            try:
                written = _write(hidden, part, options, tell, stop, broken, share)
            except _Broken as error:
                if error.path in broken:
                    # Not even the row of its error can be made.
                    raise HloExecutionError(f"{error.path}: {error.message}") from None
                # The rows of the part are no more to be trusted: again, without the file.
                broken[error.path] = error.message
                continue
            try:
                hidden.rename(folder / part.name)
            except OSError:
                # Another has written the same files.
                if not (folder / part.name / "modules.parquet").exists():
                    raise
            return written
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


class _Broken(Exception):
    """A file whose rows could not be made, which is a fault of hlorun."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path, self.message = path, message


def _write(
    hidden: Path,
    part: Part,
    options: Options,
    tell: Callable[[File], None] | None,
    stop: threading.Event | None,
    broken: Mapping[str, str],
    share: int,
) -> Written:
    rows = _TableRows(options.tables, hidden, metadata_of(options))
    with contextlib.ExitStack() as leaving:
        # Errors keep the frame of this call, and with it the files.
        leaving.callback(rows.abandon)
        failed = []
        for file in part.files:
            if stop is not None and stop.is_set():
                raise Stopped
            stored = file.as_stored()
            facts = _Facts(stored.path, stored.bytes, stored.modified_ns)
            if file.path in broken:
                facts.fail("read", HloExecutionError(broken[file.path]))
                module = None
            else:
                module = _module(file.path, facts, options, share)
            try:
                message = rows.add(module, vars(facts))
            except Exception as error:
                raise _Broken(file.path, describe(error)) from None
            if message:
                failed.append((stored.path, message))
            if tell is not None:
                tell(file)
            if rows.nbytes > FLUSH_BYTES:
                rows.write()
        rows.write()
        rows.close()
    return Written(len(part.files), sum(file.bytes for file in part.files), tuple(failed))


def _module(path: str, facts: _Facts, options: Options, share: int) -> HloModule | None:
    """The module of a file, verified and run where that is wanted; errors are noted."""
    stage = "read"
    module = None
    try:
        module = load(path)
        if options.check:
            stage = "verify"
            module.verify()
        if options.run:
            from hlorun.tables.run import run_once

            stage = "run"
            vars(facts).update(run_once(module, options, share))
    except Exception as error:
        facts.fail(stage, error)
    return module
