"""What a benchmark ran on: processor, memory, versions."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Processor, cores this process may use, vector instructions, memory in GiB, system."""
    try:
        info = Path("/proc/cpuinfo").read_text()
        memory = Path("/proc/meminfo").read_text()
    except OSError:
        info = memory = ""
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    flags = re.search(r"^flags\s*:\s*(.*)$", info, re.M)
    total = re.search(r"^MemTotal:\s*(\d+) kB", memory, re.M)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = ("avx2", "avx512f", "avx512_bf16")
    return {
        "cpu": model.group(1) if model else platform.processor(),
        "cores": cores,
        "vectors": [f for f in wanted if flags and f in flags.group(1).split()],
        "memory_gib": round(int(total.group(1)) / 2**20, 1) if total else None,
        # What a builder adds to the number of its kernel says nothing of its speed.
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def versions() -> dict[str, str]:
    """Versions of Python and of what is compared."""
    found = {"python": platform.python_version()}
    for name in ("hlorun", "jax", "jaxlib", "numpy", "ml_dtypes"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
