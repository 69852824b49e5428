"""Where the matrix-product library lies, found without loading it."""

from __future__ import annotations

import os
from importlib.util import find_spec


def library_path() -> str | None:
    """The shared library of the installed scipy-openblas32, or None where there is none."""
    try:
        spec = find_spec("scipy_openblas32")
    except (ImportError, ValueError):
        return None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        # Without pathlib, which takes longer to import than all of hlorun.
        folder = os.path.join(root, "lib")  # noqa: PTH118
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208
        except OSError:
            continue
        for name in names:
            if name.startswith("libscipy_openblas") and name.endswith((".so", ".dylib", ".dll")):
                return os.path.join(folder, name)  # noqa: PTH118
    return None
