"""How fast tables are made: `python tests/python/tools/batch_speed.py FOLDER [MEGABYTES] [WORKERS]`.

Copies of the dumps that are modules, each with another name inside, fill a folder; it prints megabytes of text per
second of wall time and of CPU time, and the most memory the process had.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from pathlib import Path

import hlorun

DUMPS = Path(__file__).parents[2] / "data" / "dumps"


def fill(folder: Path, size: int) -> int:
    """Make dumps of that many bytes in all; bytes of their texts."""
    folder.mkdir(parents=True, exist_ok=True)
    modules = [record.module for record in hlorun.batch(DUMPS) if record.module is not None]
    texts = [module.source for module in modules]
    total = number = 0
    while total < size:
        for text in texts:
            name = b"HloModule copy%d_" % number
            made = text.replace(b"HloModule ", name, 1)
            (folder / f"{number:06}.txt").write_bytes(made)
            total += len(made)
            number += 1
    return total


def main(folder: Path, megabytes: int = 200, workers: int = 2) -> None:
    """Measure once."""
    total = fill(folder / "dumps", megabytes * 10**6)
    out = folder / "tables"
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    done = hlorun.batch(folder / "dumps", out=out, workers=workers)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = sum(path.stat().st_size for path in out.glob("part-*/*"))
    print(
        f"{done.files} files, {total / 1e6:.0f} MB of text, {done.failed} failed, tables {size / 1e6:.0f} MB"
    )
    print(f"{total / seconds / 1e6:.0f} MB/s wall, {total / cpu / 1e6:.0f} MB/s of CPU time on one core")
    print(f"most memory {after.ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
