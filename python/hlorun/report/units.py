"""Numbers as people read them."""

from __future__ import annotations


def plural(count: int, word: str, many: str | None = None) -> str:
    """`1 loop`, `18 loops`; `many` is the plural where it is not the word with an s."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def seconds_text(seconds: float) -> str:
    """A duration: 12.3 ms."""
    # The limits are what three digits round up to.
    if seconds >= 999.5:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:
        return f"{seconds:.3g} s"
    if seconds >= 0.9995e-3:
        return f"{seconds * 1e3:.3g} ms"
    if 0 < seconds < 0.9995e-9:
        return f"{seconds * 1e9:.3g} ns"
    return f"{seconds * 1e6:.3g} µs"


def bytes_text(count: int | None) -> str:
    """Bytes in decimal units: 525.4 kB."""
    if count is None:
        return "?"
    if abs(count) < 1000:
        return f"{count} B"
    return f"{scaled(count)}B"


def scaled(number: float) -> str:
    """A number with an SI prefix and four digits: 492.1 G, 12.3 k."""
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= factor * 0.9995:
            return f"{number / factor:.4g} {prefix}"
    return f"{number:.4g} "
