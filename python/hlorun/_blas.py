"""Where the libraries of matrix products and factorizations lie, found without loading them."""

from __future__ import annotations

import os
from importlib.util import find_spec


def _library_in(package: str, *folders: str) -> str | None:
    """The OpenBLAS in the first of the folders beside or in a package that has one."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder in folders:
            # Without pathlib, which takes longer to import than all of hlorun.
            path = os.path.join(root, folder)  # noqa: PTH118
            try:
                names = sorted(os.listdir(path))  # noqa: PTH208
            except OSError:
                continue
            for name in names:
                if name.startswith("libscipy_openblas") and name.endswith((".so", ".dylib", ".dll")):
                    return os.path.join(path, name)  # noqa: PTH118
    return None


def library_path() -> str | None:
    """The shared library of the installed scipy-openblas32, or None where there is none."""
    return _library_in("scipy_openblas32", "lib")


def library_of_scipy() -> str | None:
    """The shared library that SciPy brings along, which JAX's CPU factors with; None where it brings none."""
    return _library_in("scipy", os.path.join(os.pardir, "scipy.libs"), ".dylibs")  # noqa: PTH118
