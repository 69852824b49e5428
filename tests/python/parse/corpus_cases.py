"""Functions over all of JAX, to be lowered and compiled: operations, transformations, dtypes."""

from __future__ import annotations

from collections.abc import Iterator

import corpus_operations
import corpus_programs
from corpus_case import Case

__all__ = ["Case", "all_cases"]


def all_cases() -> Iterator[Case]:
    """Every case; the names are unique."""
    families = (
        corpus_operations.unary,
        corpus_operations.binary,
        corpus_operations.reductions,
        corpus_operations.convolutions,
        corpus_operations.indexing,
        corpus_operations.dtypes,
        corpus_operations.linear_algebra,
        corpus_operations.random,
        corpus_programs.control_flow,
        corpus_programs.models,
        corpus_programs.parallel,
    )
    for family in families:
        yield from family()
