"""What somebody may have meant who wrote a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable

from hlorun.errors import HloArgumentError

MOST = 20_000
"""Names that are compared; more would keep the user waiting."""


class UnknownWordError(HloArgumentError):
    """A value that is none of the allowed words; the command line ends with status 2."""


def near(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names closest to one that is not among them, nearest first; none where none is close."""
    # Slow to import.
    from difflib import get_close_matches
    from itertools import islice

    candidates = list(dict.fromkeys(islice(names, MOST)))
    by_case = {candidate.lower(): candidate for candidate in candidates}
    if name.lower() in by_case:
        return [by_case[name.lower()]]
    return get_close_matches(name, candidates, count)


def hint(name: str, names: Iterable[str]) -> str:
    """`; did you mean a or b?`, or nothing."""
    found = near(name, names)
    return f"; did you mean {' or '.join(found)}?" if found else ""
