"""Numbers as people read them."""

from __future__ import annotations


def plural(count: int, word: str, many: str | None = None) -> str:
    """`1 loop`, `18 loops`; `many` is the plural where it is not the word with an s."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def seconds_text(seconds: float) -> str:
    """A duration: 12.3 ms."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
