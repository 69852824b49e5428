"""How much memory is left to this process: of the machine, and of its control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes that can still be had before the kernel ends a process; None where it does not say.

    Memory that the kernel gives back when asked, such as cached files, counts as left.

    Args:
        root: Where `proc` and `sys` are, for tests.
    """
    machine = _numbers(root / "proc/meminfo", unit=1024).get("MemAvailable")
    left = [machine] if machine is not None else []
    left += _groups(root)
    return min(left, default=None)


def _groups(root: Path) -> Iterator[int]:
    """What is left in each control group this process is in, innermost first."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (group, *group.parents):
            limit, used = (_text(base / folder / name).strip() for name in names[:2])
            if limit.isdecimal() and used.isdecimal():
                cached = _numbers(base / folder / "memory.stat").get(names[2], 0)
                yield max(int(limit) - int(used) + cached, 0)


def _numbers(path: Path, unit: int = 1) -> dict[str, int]:
    """Lines of a name and a number."""
    found = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(" ")
        number = rest.split()[:1]
        if number and number[0].isdecimal():
            found[name.rstrip(":")] = int(number[0]) * unit
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
