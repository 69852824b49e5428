"""Which files become which part of the tables, and which parts are there.

A part is a folder `part-<digest>` with a Parquet file per table. It is written under a hidden name and
renamed when it is whole, so what is called so is complete. The digest is of its files, with sizes and
times: whoever writes a part again, a second worker or a second run, gives it the same name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hlorun._hlorun import _batch_schema, _copy_rows, _read_stored
from hlorun.errors import HloArgumentError

PART_BYTES = 64 << 20
"""Bytes of files in one part, about."""
PART_FILES = 1000
"""Most files in one part."""
PREFIX = "part-"
SCHEMA_KEY = "hlorun.schema_version"
OPTIONS_KEY = "hlorun.options"
"""Where the metadata of a table keeps what it was made with."""


@dataclass(frozen=True)
class File:
    """A file as it is now; sizes and times are 0 where there is none."""

    path: str
    bytes: int
    modified_ns: int

    def as_stored(self) -> File:
        """As the tables have it, whose texts are UTF-8 and whose times fit 64 bits."""
        most = (1 << 63) - 1
        return File(as_text(self.path), self.bytes, max(-most, min(self.modified_ns, most)))


def as_text(text: str) -> str:
    """Text with escapes for what is no Unicode, as bytes in names of files may be."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Options:
    """What the tables are made of; the same for all parts of a folder."""

    tables: tuple[str, ...]
    run: bool = False
    check: bool = False
    seed: int = 0
    timeout: float | None = None
    version: int = field(default_factory=lambda: int(_batch_schema()["version"]))

    def to_json(self) -> str:
        """As the metadata of the tables has it."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Part:
    """Files whose rows are written together."""

    files: tuple[File, ...]

    @property
    def name(self) -> str:
        """The name of its folder."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.path}\0{file.bytes}\0{file.modified_ns}\0".encode(errors="surrogateescape"))
        return PREFIX + digest.hexdigest()[:16]


@dataclass(frozen=True)
class Plan:
    """What a run has to do."""

    folder: Path
    parts: tuple[Part, ...]
    skipped: int
    """Files that are in the tables and have not changed."""

    @property
    def files(self) -> int:
        """Files to read."""
        return sum(len(part.files) for part in self.parts)


def state_of(paths: Iterable[str | os.PathLike[str]]) -> list[File]:
    """The files with absolute paths, each once."""
    found: dict[str, File] = {}
    for path in paths:
        # Of links the names count, not where they lead.
        name = os.path.abspath(path)  # noqa: PTH100
        try:
            state = Path(name).stat()
            found[name] = File(name, state.st_size, state.st_mtime_ns)
        except OSError:
            found[name] = File(name, 0, 0)
    return list(found.values())


def shard_of(files: list[File], shard: tuple[int, int] | None) -> list[File]:
    """The files of one shard: every nth, so that shards of a sorted folder are alike."""
    if shard is None:
        return files
    index, count = shard
    if not 0 <= index < count:
        raise HloArgumentError(f"a shard is (index, count) with 0 <= index < count, not {shard}")
    return files[index::count]


def plan(folder: Path, files: list[File], options: Options, *, resume: bool, workers: int) -> Plan:
    """Find what is left to do, and take rows of files that have changed out of the tables.

    Args:
        folder: Where the tables are; made where it is missing.
        files: Those asked for.
        options: What the tables are made of.
        resume: Whether files that are in the tables and have not changed are left alone.
        workers: How many share the work.

    Raises:
        HloArgumentError: The folder holds tables that were made with other options.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {file.path: file for file in (file.as_stored() for file in files)}
    with locked(folder):
        sweep(folder)
        done: set[str] = set()
        outdated: list[tuple[Path, Part]] = []
        for path in whole_parts(folder):
            stored, made_with = _stored(path)
            changed = {
                file.path
                for file in stored
                if file.path in wanted and not (resume and wanted[file.path] == file)
            }
            kept = tuple(file for file in stored if file.path not in changed)
            if kept and made_with != options.to_json():
                remedy = "make all of them again with resume=False, --no-resume"
                if not resume:
                    remedy = f"give all files that it has rows of, {kept[0].path} among them"
                raise HloArgumentError(
                    f"{folder} holds tables made {_difference(made_with, options.to_json())}: take another "
                    f"folder, or {remedy}"
                )
            if changed:
                outdated.append((path, Part(kept)))
            done.update(file.path for file in kept)
        for path, part in outdated:
            _rewrite(path, part)
    left = [file for file in files if file.as_stored().path not in done]
    return Plan(folder, tuple(_grouped(left, workers)), len(files) - len(left))


def _difference(stored: str, wanted: str) -> str:
    """What tables were made with, and are not to be made with now."""

    def text(value: Any) -> str:
        return ",".join(value) if isinstance(value, list) else str(value)

    old, new = (json.loads(options or "{}") for options in (stored, wanted))
    parts = [
        f"with {key} {text(old.get(key))}, not {text(value)}"
        for key, value in new.items()
        if old.get(key) != value
    ]
    return "; ".join(parts)


def _grouped(files: list[File], workers: int) -> Iterator[Part]:
    """Parts of about equal size: a few per worker, and none too large."""
    limit = min(PART_BYTES, max(1 << 20, sum(file.bytes for file in files) // (4 * workers)))
    group: list[File] = []
    size = 0
    for file in files:
        if group and (size + file.bytes > limit or len(group) >= PART_FILES):
            yield Part(tuple(group))
            group, size = [], 0
        group.append(file)
        size += file.bytes
    if group:
        yield Part(tuple(group))


def whole_parts(folder: Path) -> list[Path]:
    """The parts of a folder, by name."""
    return sorted(path for path in folder.glob(f"{PREFIX}*") if path.is_dir())


def _stored(part: Path) -> tuple[list[File], str]:
    """The files of a part, and what it was made with."""
    stored, metadata = _read_stored(part / "modules.parquet")
    return [File(*file) for file in stored], dict(metadata).get(OPTIONS_KEY, "")


def metadata_of(options: Options) -> list[tuple[str, str]]:
    """What every table says of itself."""
    return [(SCHEMA_KEY, str(options.version)), (OPTIONS_KEY, options.to_json())]


def _rewrite(path: Path, part: Part) -> None:
    """Put a part in the place of another that has rows of more files."""
    if part.files:
        kept = {file.path for file in part.files}
        hidden = hidden_name(path.parent, part)
        hidden.mkdir()
        try:
            for source in path.glob("*.parquet"):
                _copy_rows(source, hidden / source.name, kept)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        # Whoever is ended between the two makes the rows again, and has none of them twice.
        drop(path)
        hidden.rename(path.parent / part.name)
    else:
        drop(path)


def drop(path: Path) -> None:
    """Take a part away: at once for whoever looks, then its files."""
    gone = path.with_name(f".gone-{path.name}+{os.urandom(4).hex()}+{_who()}")
    path.rename(gone)
    shutil.rmtree(gone)


def hidden_name(folder: Path, part: Part) -> Path:
    """Where a part is written before it is whole."""
    return folder / f".{part.name}+{os.urandom(4).hex()}+{_who()}"


def _who() -> str:
    """This process, as the names of what it has not finished end."""
    return f"{os.getpid()}+{socket.gethostname()}"


def sweep(folder: Path) -> None:
    """Remove what processes of this machine have left that are no more."""
    for path in [*folder.glob(f".{PREFIX}*"), *folder.glob(".gone-*")]:
        *_, process, host = path.name.split("+", 3)
        if host == socket.gethostname() and process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)


_EXITING = 4
"""The flag `PF_EXITING` of Linux."""


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # One that ends, or that nobody has asked for its status since, answers, too; see proc_pid_stat(5).
    try:
        state, *_, flags = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:7]
    except (OSError, ValueError):
        return True
    return state not in {"Z", "X"} and not int(flags) & _EXITING


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only one that changes what is in the folder, parts that are being written aside."""
    import fcntl

    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
