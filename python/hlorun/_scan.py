"""Folders that `--xla_dump_to` fills: which module, stage and pass each file is of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlorun._hlorun import BufferAssignment, HloModule

_PACKED = r"(?:\.gz|\.zst)?"
_FILE = re.compile(r"module_(?P<number>\d+)(?:\.(?P<rest>.+))?$")
_PASS = re.compile(r"(?P<number>\d{4})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)(?:\.before_(?P<before>.+))?$")
_ON_MEMORY = r"-(?:buffer-assignment(?:-values)?|live-range|memory-usage-report)\.(?:txt|pb)"
_STAGE = re.compile(
    r"^(?:(?P<name>.+?)\.)?"
    r"(?P<stage>\d{4}\..+?\.after_.+?|before_optimizations|[^.]*(?:\.\d+)?[^.]*after_optimizations)"
    r"(?P<ending>\.txt|\.hlo|\.hlo\.pb(?:txt)?"
    rf"|{_ON_MEMORY})"
    rf"{_PACKED}$"
)
SUFFIXES = (".txt", ".hlo", ".pb", ".pbtxt")
"""How the names of HLO end, before .gz or .zst where it is packed."""
_SNAPSHOT = re.compile(rf"^(?:(?P<name>.+?)\.)?snapshot\.(?P<id>[-\w]+)\.pb{_PACKED}$")
_KINDS = (
    (re.compile(r"\.ll$"), "LLVM IR"),
    (re.compile(r"\.o$"), "machine code"),
    (re.compile(r"\.ptx$"), "GPU assembly"),
    (re.compile(r"debug_options$|\.(?:config|gpu_target_config|autotune_results)\.pbtxt$"), "options"),
    (re.compile(r"(?:compile_options|topology)\.pb$"), "options"),
    (re.compile(r"\.mlir$"), "MLIR"),
    (re.compile(r"thunk_sequence.*\.(?:txt|pb|pbtxt)$|thunks?\.txt$"), "thunks"),
    (re.compile(r"\.xplane\.pb$"), "profile"),
    (re.compile(r"\.(?:dot|html|svg)$"), "picture"),
)
_MEMORY = {
    "-buffer-assignment.txt": "buffer assignment",
    "-buffer-assignment-values.txt": "values",
    "-live-range.txt": "live ranges",
    "-memory-usage-report.txt": "usage report",
}


def holds_no_module(name: str) -> bool:
    """Whether XLA calls a file so that tells of memory, thunks, options or code."""
    bare = _unpacked(name)
    is_on_memory = re.search(f"{_ON_MEMORY}$", bare) is not None
    return is_on_memory or any(pattern.search(bare) for pattern, _ in _KINDS)


def looks_like_hlo(name: str) -> bool:
    """Whether a file of a folder is read: by the end of its name, unless XLA names other files so."""
    return has_suffix(name) and not holds_no_module(name)


def has_suffix(name: str) -> bool:
    """Whether a name ends as names of HLO do."""
    return _unpacked(name).endswith(SUFFIXES)


def _unpacked(name: str) -> str:
    return re.sub(rf"{_PACKED}$", "", name)


@dataclass
class DumpStage:
    """A module at one point of its compilation.

    Attributes:
        name: As the file names have it.
        pass_number: Position among the passes; None before and after optimizations.
        pipeline: The pipeline of the pass.
        after: The pass that ran.
        before: The pass that comes next.
        text: The file of the module as text, or None.
        proto: The file of the module as a proto, or None.
        memory: Files on memory: "buffer assignment", "values", "live ranges", "usage report".

    Examples:
        >>> stage = hlorun.scan("xla").modules[0].stages[0]
        >>> stage.name, stage.load().instruction_count
        ('before_optimizations', 1)
    """

    name: str
    pass_number: int | None = None
    pipeline: str = ""
    after: str = ""
    before: str = ""
    text: Path | None = None
    proto: Path | None = None
    memory: dict[str, Path] = field(default_factory=dict)

    def load(self) -> HloModule:
        """The module; of text where there is text.

        Returns:
            The module.

        Raises:
            FileNotFoundError: The dump has no module of this stage.
            HloParseError: The file holds no HLO.

        Examples:
            >>> hlorun.scan("xla").modules[0].stages[0].load().name
            'jit_f'
        """
        from hlorun._hlorun import load

        path = self.text or self.proto
        if path is None:
            raise FileNotFoundError(f"no module of stage {self.name}")
        return load(path)

    def buffer_assignment(self) -> BufferAssignment | None:
        """The buffer assignment with all its files; None where there is none.

        Raises:
            HloParseError: The file holds no buffer assignment.

        Examples:
            >>> hlorun.scan("xla").modules[0].stages[0].buffer_assignment() is None
            True
        """
        from hlorun._hlorun import load_buffer_assignment

        path = self.memory.get("buffer assignment")
        return load_buffer_assignment(path) if path is not None else None


@dataclass
class DumpModule:
    """All files of one module.

    Attributes:
        number: Its number in the process that dumped it.
        name: Its name.
        stages: A `DumpStage` before optimizations, then for each pass, then after.
        snapshots: Files of recorded runs.
        others: Files that are no HLO, by what they are.

    Examples:
        >>> module = hlorun.scan("xla").modules[0]
        >>> module.number, module.name, module.missing
        (1, 'jit_f', ['the module after optimizations'])
    """

    number: int
    name: str
    stages: list[DumpStage] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    others: dict[str, list[Path]] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        """What it was compiled for, "cpu" or "gpu"; "" where no file says."""
        for stage in reversed(self.stages):
            if stage.name.endswith("after_optimizations"):
                return stage.name.removesuffix("after_optimizations").strip("_.").rpartition("_")[2]
        return ""

    @property
    def missing(self) -> list[str]:
        """What a whole dump of a module has and this one has not."""
        found = []
        names = [stage.name for stage in self.stages]
        if "before_optimizations" not in names:
            found.append("the module before optimizations")
        last = self.stages[-1] if self.stages else None
        if last is None or not last.name.endswith("after_optimizations"):
            found.append("the module after optimizations")
        found += [
            f"the module of stage {stage.name}"
            for stage in self.stages
            if stage.text is None and stage.proto is None
        ]
        numbers = [stage.pass_number for stage in self.stages if stage.pass_number is not None]
        gaps = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
        if gaps:
            found.append(f"passes {', '.join(map(str, gaps[:8]))}{', …' if len(gaps) > 8 else ''}")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold.

        Examples:
            >>> hlorun.scan("xla").modules[0].to_dict()["name"]
            'jit_f'
        """
        made = _plain(asdict(self))
        return {**made, "platform": self.platform, "missing": self.missing}


@dataclass
class DumpFolder:
    """What a dump folder holds: iterable over its modules, with their number as its length.

    Attributes:
        path: The folder.
        modules: A `DumpModule` for each, by number and name.
        unknown: Files that belong to no module.

    Examples:
        >>> folder = hlorun.scan("xla")
        >>> len(folder), [module.name for module in folder]
        (1, ['jit_f'])
    """

    path: Path
    modules: list[DumpModule] = field(default_factory=list)
    unknown: list[Path] = field(default_factory=list)

    def __iter__(self) -> Iterator[DumpModule]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)

    def named(self, name: str) -> list[DumpModule]:
        """The modules of a name or number.

        Args:
            name: As in `name` or `number`, or "module_0001".

        Returns:
            None, one or several: a name may stand for more than one module.

        Examples:
            >>> [module.number for module in hlorun.scan("xla").named("jit_f")]
            [1]
        """
        return [m for m in self.modules if name in (m.name, str(m.number), f"module_{m.number:04}")]

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold.

        Examples:
            >>> sorted(hlorun.scan("xla").to_dict())
            ['modules', 'path', 'unknown']
        """
        return {
            "path": str(self.path),
            "modules": [module.to_dict() for module in self.modules],
            "unknown": [str(path) for path in self.unknown],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def scan(path: str | os.PathLike[str]) -> DumpFolder:
    """What a folder holds that XLA dumped to: modules, their stages and passes, and what is missing.

    Only names are looked at. Every file of the folder and of those in it is in the result once.

    Args:
        path: The folder that `--xla_dump_to` named.

    Returns:
        The modules by number and name; files of no module are in `unknown`.

    Raises:
        NotADirectoryError: The path is no folder.
        FileNotFoundError: There is nothing at the path.

    Examples:
        >>> [module.name for module in hlorun.scan("xla")]
        ['jit_f']
    """
    root = Path(path)
    if not root.is_dir():
        import errno

        kind = errno.ENOTDIR if root.exists() else errno.ENOENT
        raise OSError(kind, os.strerror(kind), str(root))
    folder = DumpFolder(root)
    modules: dict[tuple[Path, int, str], DumpModule] = {}
    rest: list[tuple[Path, int, str]] = []
    for directory, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            file = Path(directory, name)
            # XLA makes a folder per module for files that it writes while it runs.
            inside = next((part for part in file.relative_to(root).parts[:-1] if _FILE.match(part)), None)
            match = _FILE.match(name) or (_FILE.match(inside) if inside else None)
            if match is None:
                folder.unknown.append(file)
                continue
            number, tail = int(match["number"]), match["rest"] or ""
            if not _enter(modules, Path(directory), number, tail, file):
                rest.append((file, number, tail))
    for file, number, tail in rest:
        _enter_other(folder, modules, file, number, tail)
    folder.modules = sorted(modules.values(), key=lambda module: (module.number, module.name))
    for module in folder.modules:
        module.stages.sort(key=_order)
    return folder


def _order(stage: DumpStage) -> tuple[int, int, str]:
    if stage.pass_number is not None:
        return 1, stage.pass_number, stage.name
    return (0 if stage.name == "before_optimizations" else 2), 0, stage.name


def _enter(
    modules: dict[tuple[Path, int, str], DumpModule], directory: Path, number: int, tail: str, file: Path
) -> bool:
    """Whether the file is a module, a snapshot or one on memory, entered into its module."""
    match = _STAGE.match(tail)
    snapshot = _SNAPSHOT.match(tail) if match is None else None
    if match is None and snapshot is None:
        return False
    name = (match or snapshot)["name"] or ""  # type: ignore[index]
    module = modules.setdefault((directory, number, name), DumpModule(number, name))
    if match is None:
        module.snapshots.append(file)
        return True
    stage = next((stage for stage in module.stages if stage.name == match["stage"]), None)
    if stage is None:
        stage = DumpStage(match["stage"])
        if ran := _PASS.match(stage.name):
            stage.pass_number = int(ran["number"])
            stage.pipeline, stage.after, stage.before = ran["pipeline"], ran["after"], ran["before"] or ""
        module.stages.append(stage)
    ending = match["ending"]
    if ending in (".txt", ".hlo"):
        stage.text = file
    elif ending in (".hlo.pb", ".hlo.pbtxt"):
        stage.proto = file
    elif ending in _MEMORY:
        stage.memory[_MEMORY[ending]] = file
    else:
        module.others.setdefault(
            f"{ending.strip('-').rpartition('.')[0]} ({ending.rpartition('.')[2]})", []
        ).append(file)
    return True


def _enter_other(
    folder: DumpFolder,
    modules: dict[tuple[Path, int, str], DumpModule],
    file: Path,
    number: int,
    tail: str,
) -> None:
    """Enter a file that is no HLO into the module whose name it begins with."""
    owners = [
        module
        for (_, other, name), module in modules.items()
        if other == number and (tail == name or tail.startswith(name + "."))
    ]
    if not owners:
        folder.unknown.append(file)
        return
    kind = next((kind for pattern, kind in _KINDS if pattern.search(file.name)), "other")
    owner = max(owners, key=lambda module: len(module.name))
    owner.others.setdefault(kind, []).append(file)
