"""Where the matrix-product library lies, found without loading it."""

from __future__ import annotations

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
            files = sorted(folder.iterdir())
        except OSError:
            continue
        for file in files:
            if file.name.startswith("libscipy_openblas") and file.suffix in (".so", ".dylib", ".dll"):
                return str(file)
    return None
