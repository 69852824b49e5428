"""The exceptions hlorun raises, one class per kind.

Every class takes its message as the only positional argument, so that instances pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "HloArgumentError",
    "HloError",
    "HloExecutionError",
    "HloParseError",
    "HloUnsupportedError",
    "HloVerifyError",
    "VerifyFinding",
]


class HloError(Exception):
    """What all errors of hlorun are.

    Attributes:
        message: What is wrong, in one sentence; ``str(error)`` adds where.
    """

    def __init__(self, rendered: str = "", *, message: str | None = None) -> None:
        super().__init__(rendered)
        self.message = rendered if message is None else message


class HloParseError(HloError, ValueError):
    """Text that is no HLO.

    Attributes:
        filename: The file, or None for text from memory.
        lineno: The line, from 1.
        offset: The column in bytes, from 1.
        text: The line, cut to a window around the column when it is long.
        notes: Hints, such as "did you mean ...".
    """

    def __init__(
        self,
        rendered: str = "",
        *,
        message: str | None = None,
        filename: str | None = None,
        lineno: int = 0,
        offset: int = 0,
        text: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(rendered, message=message)
        self.filename = filename
        self.lineno = lineno
        self.offset = offset
        self.text = text
        self.notes = tuple(notes)


class VerifyFinding(NamedTuple):
    """One rule a module breaks."""

    message: str
    """What is wrong, in one sentence that names the instruction."""
    instruction: str
    """The instruction or computation."""
    filename: str | None = None
    """The file, or None for text from memory."""
    lineno: int = 0
    """The line, from 1; 0 when unknown."""
    offset: int = 0
    """The column in bytes, from 1; 0 when unknown."""
    text: str = ""
    """The line, cut to a window around the column."""


class HloVerifyError(HloError):
    """A module that breaks rules of HLO.

    Attributes:
        errors: Every broken rule, in the order of the text.
    """

    def __init__(self, rendered: str = "", *, errors: Sequence[VerifyFinding] = ()) -> None:
        super().__init__(rendered, message=errors[0].message if errors else None)
        self.errors = tuple(errors)


class HloUnsupportedError(HloError, NotImplementedError):
    """Legal HLO that hlorun does not run.

    Attributes:
        instruction: The instruction, or "" when it is about the whole module.
        filename: The file, or None for text from memory.
        lineno: The line, from 1; 0 when unknown.
        offset: The column in bytes, from 1; 0 when unknown.
        text: The line, cut to a window around the column.
    """

    def __init__(
        self,
        rendered: str = "",
        *,
        message: str | None = None,
        instruction: str = "",
        filename: str | None = None,
        lineno: int = 0,
        offset: int = 0,
        text: str = "",
    ) -> None:
        super().__init__(rendered, message=message)
        self.instruction = instruction
        self.filename = filename
        self.lineno = lineno
        self.offset = offset
        self.text = text


class HloArgumentError(HloError, TypeError):
    """An argument that does not fit its parameter."""


class HloExecutionError(HloError):
    """A run that failed."""


class HloTimeoutError(HloExecutionError, TimeoutError):
    """A run that was ended because it took longer than its `timeout`.

    Attributes:
        timeout: The seconds it had.
    """

    def __init__(self, rendered: str = "", *, timeout: float = 0.0) -> None:
        super().__init__(rendered)
        self.timeout = timeout


def describe(error: Exception) -> str:
    """An error in one sentence: `absent.txt: No such file or directory`."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    message = str(getattr(error, "message", None) or error) or type(error).__name__
    if isinstance(error, HloParseError) and error.lineno:
        return f"line {error.lineno}, column {error.offset}: {message}"
    return message
