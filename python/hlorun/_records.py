"""Records that modules hand out: tuples whose parts have names."""

from __future__ import annotations

from typing import NamedTuple


class Alias(NamedTuple):
    """An output that lies in the memory of a parameter."""

    output_index: tuple[int, ...]
    """Which part of the result; `()` is all of it."""
    parameter_number: int
    """Which parameter of the entry computation."""
    parameter_index: tuple[int, ...]
    """Which part of that parameter."""
    kind: str
    """"may-alias" or "must-alias"."""


class Donor(NamedTuple):
    """A parameter that is given away with no output for it."""

    parameter_number: int
    """Which parameter of the entry computation."""
    parameter_index: tuple[int, ...]
    """Which part of that parameter."""


class ModuleWarning(NamedTuple):
    """Something in a text that hlorun does not know."""

    message: str
    """What it is."""
    text: str
    """The text itself."""


class StackFrame(NamedTuple):
    """A place in the program that made an instruction."""

    file: str
    """The source file."""
    function: str
    """The function."""
    line: int
    """The line, from 1."""
    column: int
    """The column, from 1; 0 when absent."""
