"""The tables of `hlorun.batch` on a Ray cluster.

    import hlorun.ray

    hlorun.ray.batch("/shared/dumps", out="/shared/tables")

Every worker must see the files and the folder under the same paths. Needs `pip install hlorun[ray]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from hlorun._batch import Paths
from hlorun.tables.drive import BatchTables, Tally, options_of, prepare
from hlorun.tables.parts import Options, Part, sweep
from hlorun.tables.progress import bar
from hlorun.tables.write import Written, write_part

__all__ = ["batch"]

RETRIES = 3
"""How often a part is begun again when its worker dies, before its files are looked at one by one."""


def _write(
    folder: str, part: Part, options: Options, broken: Mapping[str, str] | None, share: int
) -> Written:
    return write_part(Path(folder), part, options, broken=broken, share=share)


def batch(
    paths: Paths,
    *,
    out: str | os.PathLike[str],
    run: bool = False,
    check: bool = False,
    resume: bool = True,
    shard: tuple[int, int] | None = None,
    tables: Iterable[str] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> BatchTables:
    """Write the tables of many files, each part by a process of a Ray cluster.

    The call, the tables and what is skipped are those of `hlorun.batch(paths, out=out)`. A part whose
    worker dies is written again; nothing is lost, and nothing is there twice. Where the same part keeps
    killing its workers, its files are taken one by one, and the one that does it gets its error.

    The cluster is the one that is initialized, or that RAY_ADDRESS names, or a new one on this machine.

    Args:
        paths: A file, a directory (searched for `hlorun.batch`'s suffixes), or several of them.
        out: The folder of the tables.
        run: Run each module once, on one device with random inputs.
        check: Verify each module; with `run`, prove its plan, too.
        resume: Leave files alone that are in the tables and have not changed.
        shard: `(i, n)` for every nth file from the ith on.
        tables: The tables to write; all by default.
        seed: With `run`, of the random inputs.
        timeout: With `run`, the seconds after which each run is ended.
        workers: Most processes at work; as many as the cluster has CPUs by default.
        progress: Whether to show a bar on stderr; by default where that is a terminal.

    Returns:
        A `BatchTables`.

    Raises:
        ValueError: `workers` is less than 1.
        HloArgumentError: As `hlorun.batch`.
        ModuleNotFoundError: Ray is not installed.

    Examples:
        >>> hlorun.ray.batch("/shared/dumps", out="/shared/tables").failed
        2
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ModuleNotFoundError("this needs Ray: pip install 'hlorun[ray]'") from error
    if not ray.is_initialized():
        ray.init()
    most = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    options = options_of(tables, run=run, check=check, seed=seed, timeout=timeout)
    work = prepare(paths, out, options, resume=resume, shard=shard, workers=most)
    nodes = max(1, sum(bool(node["Alive"]) for node in ray.nodes()))
    share = -(-most // nodes)
    write = ray.remote(num_cpus=1, max_retries=RETRIES)(_write)
    folder = str(work.folder.absolute())
    tally = Tally(work)
    left: list[tuple[Part, Mapping[str, str] | None]] = [(part, None) for part in reversed(work.parts)]
    going: dict[Any, tuple[Part, Mapping[str, str] | None]] = {}
    with bar(work.files, show=progress) as shown:
        while left or going:
            while left and len(going) < most:
                part, broken = left.pop()
                going[write.remote(folder, part, options, broken, share)] = part, broken
            (done, *_), _ = ray.wait(list(going), num_returns=1)
            part, broken = going.pop(done)
            try:
                written = ray.get(done)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                if broken is not None:
                    # It dies without a look at the file: the fault is the worker's.
                    raise
                left += _smaller(part, error)
                continue
            tally.add(written)
            shown.advance(written.files)
    # What the dead have left.
    sweep(work.folder)
    return tally.result()


def _smaller(part: Part, error: Exception) -> list[tuple[Part, Mapping[str, str] | None]]:
    """What is left of a part that kills its workers: its halves, or the row of the file that does it."""
    if len(part.files) == 1:
        return [(part, {part.files[0].path: f"its worker died: {type(error).__name__}"})]
    half = len(part.files) // 2
    return [(Part(part.files[half:]), None), (Part(part.files[:half]), None)]
