#!/usr/bin/env python3
"""Peak memory and time of reading a file with hlorun and with jaxlib, each in a process of its own.

  python benches/python/memory_parse.py FILE… [--json]

Of the process, its peak resident size, and how much of that came after its imports; of hlorun with `load(path)`, and
with `parse(text)` of a `str` that is in memory already, which is all that jaxlib can do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHILD = """
import sys, time, json
how, path = sys.argv[1:]
if how == "jaxlib":
    from jaxlib import _hlo
else:
    import hlorun
def peak():
    # Unlike ru_maxrss, this begins anew with the program.
    return next(int(x.split()[1]) * 1024 for x in open("/proc/self/status") if x.startswith("VmHWM"))
before = peak()
text = None if how == "load" else open(path).read()
begin = time.perf_counter()
if how == "load":
    module = hlorun.load(path)
elif how == "parse":
    module = hlorun.parse(text)
else:
    module = _hlo.hlo_module_from_text(text)
seconds = time.perf_counter() - begin
print(json.dumps({"how": how, "seconds": seconds, "peak": peak(), "imports": before}))
"""


def measure(how: str, path: Path) -> dict[str, Any] | None:
    """One process; None when it does not read the file."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, how, str(path)], capture_output=True, text=True, check=False
    )
    if child.returncode:
        print(f"{how}: {(child.stderr.strip().splitlines() or ['died'])[-1][:200]}", file=sys.stderr)
        return None
    return dict(json.loads(child.stdout))


def plain(path: Path) -> Path:
    """The file, unpacked beside where temporary files go when it is packed."""
    if path.suffix not in (".zst", ".gz"):
        return path
    import tempfile

    import hlorun

    unpacked = Path(tempfile.mkdtemp()) / path.stem
    unpacked.write_bytes(hlorun.load(path).source)
    return unpacked


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for path in map(plain, arguments.files):
        size = path.stat().st_size
        for how in ("load", "parse", "jaxlib"):
            row = measure(how, path)
            if row is None:
                continue
            if arguments.json:
                print(json.dumps({"file": path.name, "bytes": size, **row}))
                continue
            print(
                f"{path.name[:30]:<30} {size / 1e6:8.1f} MB  {how:<7} {row['seconds']:8.3f} s  "
                f"peak {row['peak'] / 1e6:8.1f} MB  after imports {(row['peak'] - row['imports']) / 1e6:8.1f} MB"
            )


if __name__ == "__main__":
    main()
