"""Programs as people write them with JAX and its ecosystem, by class; a seed decides their sizes and inputs."""

from programs import (
    algorithms,
    ecosystem,
    fourier,
    grids,
    images,
    indexing,
    linear_algebra,
    nets,
    numbers,
    reductions,
    sequences,
    small_loops,
    transformers,
)
from programs.registry import PROGRAMS, Draw, Program

__all__ = [
    "PROGRAMS",
    "Draw",
    "Program",
    "algorithms",
    "ecosystem",
    "fourier",
    "grids",
    "images",
    "indexing",
    "linear_algebra",
    "nets",
    "numbers",
    "reductions",
    "sequences",
    "small_loops",
    "transformers",
]
