"""The moment at which a search has to end."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from hlorun.errors import HloTimeoutError


class Deadline:
    """Counts the seconds that a whole search may take: its runs, and the work on what they computed."""

    def __init__(self, timeout: float | None) -> None:
        """Begin to count; None is for ever."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout is a number of seconds of at least 0, not {timeout:g}")
        self.timeout = timeout
        self._end = None if timeout is None else monotonic() + timeout

    def check(self) -> None:
        """Raise `HloTimeoutError` once it is over."""
        if self._end is not None and monotonic() >= self._end:
            raise self._over()

    def run(self, call: Callable[[float | None], Any]) -> Any:
        """What a run returns, which takes the seconds that are left for its timeout."""
        self.check()
        try:
            return call(None if self._end is None else max(0.0, self._end - monotonic()))
        except HloTimeoutError:
            # It knows only of the seconds that were left for it.
            raise self._over() from None

    def _over(self) -> HloTimeoutError:
        seconds = self.timeout or 0.0
        return HloTimeoutError(f"not done within the {seconds:g} seconds of `timeout`", timeout=seconds)
