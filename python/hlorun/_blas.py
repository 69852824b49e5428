"""Where the matrix-product library lies, found without loading it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path


def library_path() -> str | None:
    """The shared library of the installed scipy-openblas32, or None where there is none."""
    try:
        spec = find_spec("scipy_openblas32")
    except (ImportError, ValueError):
        return None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(root) / "lib"
        try:
            names = sorted(name for name in os.listdir(folder) if name.startswith("libscipy_openblas"))
        except OSError:
            continue
        for name in names:
            if ".so" in name or name.endswith((".dylib", ".dll")):
                return str(folder / name)
    return None
