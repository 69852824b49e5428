"""JAX programs of large steps, for comparing estimates with measured times."""

from estimates.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program"]
