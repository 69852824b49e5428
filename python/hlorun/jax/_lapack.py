"""The LAPACK that JAX's CPU uses.

Which of equally good vectors a factorization finds, and how it rounds, depends on the library: a program
should not tell hlorun from the CPU by them.
"""

from __future__ import annotations

import functools
import sys

from hlorun import _blas, _hlorun


@functools.cache
def _name_library() -> None:
    if (path := _blas.library_of_scipy()) is not None:
        _hlorun._set_blas_path(path)


def follow_jax() -> None:
    """Has hlorun call SciPy's LAPACK where JAX does in this process, and hlorun has called no other yet."""
    # JAX loads it when it lowers the first factorization. Before, hlorun would take the library for its own,
    # and its threads away.
    if "scipy.linalg.cython_lapack" in sys.modules:
        _name_library()
