"""Every operation as a function of JAX; a seed decides its size, type and layout."""

from operations import arithmetic, data
from operations.registry import OPERATIONS, Operation, Setting

__all__ = ["OPERATIONS", "Operation", "Setting", "arithmetic", "data"]
