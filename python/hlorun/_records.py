"""Records that modules hand out: tuples whose parts have names."""

from __future__ import annotations

from typing import NamedTuple


class Alias(NamedTuple):
    r"""An output that lies in the memory of a parameter.

    Attributes:
        output_index: Which part of the result; `()` is all of it.
        parameter_number: Which parameter of the entry computation.
        parameter_index: Which part of that parameter.
        kind: "may-alias" or "must-alias".

    Examples:
        >>> head = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
        >>> module = hlorun.parse(f"{head}\nENTRY e {{ ROOT p = f32[2] parameter(0) }}")
        >>> module.input_output_alias[0].kind
        'may-alias'
    """

    output_index: tuple[int, ...]
    parameter_number: int
    parameter_index: tuple[int, ...]
    kind: str


class Donor(NamedTuple):
    r"""A parameter that is given away with no output for it.

    Attributes:
        parameter_number: Which parameter of the entry computation.
        parameter_index: Which part of that parameter; `()` is all of it.

    Examples:
        >>> text = "HloModule m, buffer_donor={ (0, {}) }\nENTRY e { ROOT p = f32[2] parameter(0) }"
        >>> hlorun.parse(text).buffer_donor[0].parameter_number
        0
    """

    parameter_number: int
    parameter_index: tuple[int, ...]


class ModuleWarning(NamedTuple):
    """Something in a text that hlorun does not know.

    Attributes:
        message: What it is.
        text: The text itself.

    Examples:
        >>> module = hlorun.parse("ENTRY e { ROOT p = f32[2] parameter(0), colour=red }")
        >>> module.warnings[0].message
        "unknown attribute 'colour'"
    """

    message: str
    text: str


class StackFrame(NamedTuple):
    """A place in the program that made an instruction.

    Attributes:
        file: The source file.
        function: The function.
        line: The line, from 1.
        column: The column, from 1; 0 when absent.

    Examples:
        >>> module = hlorun.parse("ENTRY e { ROOT p = f32[2] parameter(0) }")
        >>> [frame.line for frame in module["p"].metadata.stack_frames]
        []
    """

    file: str
    function: str
    line: int
    column: int
