"""JAX programs of large steps, for comparing estimates with measured times."""

from estimates import held_out, tuned
from estimates.registry import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "held_out", "tuned"]
