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
    "HloTimeoutError",
    "HloUnsupportedError",
    "HloVerifyError",
    "VerifyFinding",
]


class HloError(Exception):
    """What all errors of hlorun are.

    Attributes:
        message: What is wrong, in one sentence; ``str(error)`` adds where.

    Examples:
        >>> try:
        ...     hlorun.parse("nonsense")
        ... except hlorun.HloError as error:
        ...     print(error.message)
        expected '=' after the instruction's name, found the end of the text
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

    Examples:
        >>> try:
        ...     hlorun.parse("nonsense")
        ... except hlorun.HloParseError as error:
        ...     print(error.lineno, error.offset)
        1 9
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
    """One rule a module breaks.

    Attributes:
        message: What is wrong, in one sentence that names the instruction.
        instruction: The instruction or computation.
        filename: The file, or None for text from memory.
        lineno: The line, from 1; 0 when unknown.
        offset: The column in bytes, from 1; 0 when unknown.
        text: The line, cut to a window around the column.

    Examples:
        >>> try:
        ...     hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[3] add(p, p) }").verify()
        ... except hlorun.HloVerifyError as error:
        ...     print(error.errors[0].instruction, error.errors[0].lineno)
        a 1
    """

    message: str
    instruction: str
    filename: str | None = None
    lineno: int = 0
    offset: int = 0
    text: str = ""


class HloVerifyError(HloError):
    """A module that breaks rules of HLO.

    Attributes:
        errors: Every broken rule, in the order of the text.

    Examples:
        >>> try:
        ...     hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[3] add(p, p) }").verify()
        ... except hlorun.HloVerifyError as error:
        ...     print(len(error.errors))
        1
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

    Examples:
        >>> try:
        ...     hlorun.compile(hlorun.parse("ENTRY e { ROOT p = s1[2] parameter(0) }"))
        ... except hlorun.HloUnsupportedError as error:
        ...     print(error.instruction, "-", error.message)
        p - p: arrays of s1 do not run
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
    """A value that does not fit its parameter, or an option that does not fit the module.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> try:
        ...     hlorun.run(module, np.ones(3, np.float32))
        ... except hlorun.HloArgumentError as error:
        ...     print(error.message)
        argument 0 (p): expects f32[2] (float32), got an array of float32[3]
    """


class HloExecutionError(HloError):
    """A run that failed: memory ran out, the buffer assignment it ran in is wrong, or hlorun has a bug.

    Examples:
        >>> for_ever = hlorun.parse(
        ...     "c { s = s32[] parameter(0) ROOT t = pred[] constant(true) } "
        ...     "b { s = s32[] parameter(0) ROOT t = s32[] negate(s) } "
        ...     "ENTRY e { p = s32[] parameter(0) ROOT w = s32[] while(p), condition=c, body=b }"
        ... )
        >>> try:
        ...     hlorun.run(for_ever, np.int32(1), timeout=0.05)
        ... except hlorun.HloExecutionError as error:
        ...     print(error.message)
        the run was ended after its timeout of 0.05 s
    """


class HloTimeoutError(HloExecutionError, TimeoutError):
    """A run that was ended because it took longer than its `timeout`.

    Attributes:
        timeout: The seconds it had.

    Examples:
        >>> for_ever = hlorun.parse(
        ...     "c { s = s32[] parameter(0) ROOT t = pred[] constant(true) } "
        ...     "b { s = s32[] parameter(0) ROOT t = s32[] negate(s) } "
        ...     "ENTRY e { p = s32[] parameter(0) ROOT w = s32[] while(p), condition=c, body=b }"
        ... )
        >>> try:
        ...     hlorun.run(for_ever, np.int32(1), timeout=0.05)
        ... except hlorun.HloTimeoutError as error:
        ...     print(error.timeout)
        0.05
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
