"""What the tools return: frozen records that print, and that turn into JSON and HTML."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any

from hlorun._hlorun import HloInstruction


def plain(value: Any) -> Any:
    """A value in the types of JSON; what has none, such as a module, by its name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(getattr(value, "name", value))


class Result:
    """A base of frozen dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, in the types of JSON; what has none, such as a module, by its name.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.Place.of(module["a"]).to_dict()["opcode"]
            'add'
        """
        made: dict[str, Any] = plain(self)
        return made

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        return _html(self.to_dict())


def _html(value: Any) -> str:
    if isinstance(value, dict):
        rows = "".join(f"<tr><th>{escape(str(key))}</th><td>{_html(v)}</td></tr>" for key, v in value.items())
        return f"<table>{rows}</table>"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        keys = list(value[0])
        head = "".join(f"<th>{escape(str(key))}</th>" for key in keys)
        body = "".join(
            "<tr>" + "".join(f"<td>{_html(item.get(key))}</td>" for key in keys) + "</tr>"
            for item in value[:100]
        )
        return f"<table><tr>{head}</tr>{body}</table>"
    return escape("" if value is None else str(value))


@dataclasses.dataclass(frozen=True)
class Place(Result):
    """Which instruction, and what of the user's program it comes from.

    Attributes:
        name: The instruction's name.
        opcode: Its opcode.
        computation: The computation it stands in.
        op_name: The framework's name for it; "" when absent.
        source: "file:line" of the program; "" when absent.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> str(hlorun.Place.of(module["a"]))
        'a (add in e)'
    """

    name: str
    opcode: str
    computation: str
    op_name: str
    source: str

    @staticmethod
    def of(instruction: HloInstruction) -> Place:
        """The place of an instruction.

        Args:
            instruction: The instruction.

        Returns:
            Its `Place`.

        Examples:
            >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
            >>> hlorun.Place.of(module["a"]).opcode
            'add'
        """
        metadata = instruction.metadata
        source = f"{metadata.source_file}:{metadata.source_line}" if metadata.source_file else ""
        return Place(
            instruction.name,
            instruction.opcode,
            instruction.computation.name,
            metadata.op_name,
            source,
        )

    def __str__(self) -> str:
        """As a person reads it."""
        parts = [f"{self.name} ({self.opcode} in {self.computation})"]
        return ", ".join([*parts, *(part for part in (self.op_name, self.source) if part)])
