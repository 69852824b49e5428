"""A flame graph of op_names: an SVG that needs nothing else."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from hlorun.report.profile import Event, steps_of
from hlorun.report.units import seconds_text

WIDTH, ROW, MARGIN = 1200, 18, 10
_LEAST = 0.3
"""Narrower boxes, in points, are left out: nobody sees them."""


@dataclass
class Frame:
    """A part of op_names with the seconds of all that is in it."""

    name: str
    seconds: float = 0.0
    frames: dict[str, Frame] = field(default_factory=dict)

    def add(self, path: Iterable[str], seconds: float) -> None:
        """Count a step whose names are `path`, the outermost first."""
        frame = self
        frame.seconds += seconds
        for name in path:
            frame = frame.frames.setdefault(name, Frame(name))
            frame.seconds += seconds


def path_of(op_name: str) -> list[str]:
    """The parts of an op_name: "a/b[ x=c/d ]" has two, since a "/" in brackets parts nothing."""
    parts, start, depth = [], 0, 0
    for place, letter in enumerate(op_name):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == "/" and depth <= 0:
            parts.append(op_name[start:place])
            start = place + 1
    parts.append(" ".join(op_name[start:].partition("[ ")[0].split()))
    return [part for part in parts if part]


def frames(name: str, events: list[Event]) -> Frame:
    """The times of a profile by op_name; a step without one stands under "no op_name".

    Args:
        name: What the whole is called.
        events: What `executable.profile` returned; all of one module.
    """
    whole = Frame(name)
    for instruction, kind, _, _, seconds in steps_of(events):
        op_name = instruction.metadata.op_name
        path = path_of(op_name) if op_name else ("no op_name", kind)
        whole.add([*path[:_DEEPEST], instruction.name], seconds)
    return whole


_DEEPEST = 200
"""Parts of an op_name that are frames of their own."""

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """Text as XML may hold it: most control characters are not allowed there, not even escaped."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _depth(frame: Frame, scale: float) -> int:
    deeper = [_depth(inner, scale) for inner in frame.frames.values() if inner.seconds * scale >= _LEAST]
    return 1 + max(deeper, default=0)


def _colour(name: str) -> str:
    """A warm colour that is the same for the same name."""
    number = zlib.crc32(name.encode())
    return f"hsl({number % 45 + 8},{70 + number // 45 % 20}%,{58 + number // 900 % 14}%)"


def _boxes(frame: Frame, at: tuple[float, int], scale: float, whole: float) -> Iterator[str]:
    x, level = at
    width, y = frame.seconds * scale, MARGIN + 24 + level * ROW
    share = 100 * frame.seconds / whole if whole else 0.0
    about = f"{frame.name}: {seconds_text(frame.seconds)}, {share:.1f} %"
    letters = int((width - 6) / 6.6)
    label = frame.name if len(frame.name) <= letters else frame.name[: max(letters - 1, 0)] + "…"
    text = f'<text x="{x + 3:.1f}" y="{y + 13}">{_xml(label)}</text>' if letters > 2 else ""
    yield (
        f'<g><title>{_xml(about)}</title><rect x="{x:.2f}" y="{y}" width="{max(width - 0.4, 0.1):.2f}" '
        f'height="{ROW - 1}" rx="1.5" fill="{_colour(frame.name)}"/>{text}</g>'
    )
    for inner in sorted(frame.frames.values(), key=lambda inner: -inner.seconds):
        if inner.seconds * scale >= _LEAST:
            yield from _boxes(inner, (x, level + 1), scale, whole)
        x += inner.seconds * scale


def flame_svg(name: str, events: list[Event]) -> str:
    """A flame graph of a profile, the whole on top: as wide as the time, as deep as the op_names.

    The last row are the instructions; the time of loops is that of the steps inside them. A pointer on a
    box shows its whole name, time and share. What is narrower than a third of a point is left out.

    Args:
        name: What the whole is called.
        events: What `executable.profile` returned.

    Returns:
        The text of an SVG file, which asks for no other.

    Examples:
        >>> module = hlorun.parse("ENTRY e { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }")
        >>> outputs, steps = hlorun.compile(module).profile(np.ones(2, np.float32))
        >>> flame_svg("add", steps)[:4]
        '<svg'
    """
    whole = frames(name, events)
    scale = (WIDTH - 2 * MARGIN) / whole.seconds if whole.seconds else 0.0
    height = 2 * MARGIN + 24 + _depth(whole, scale) * ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}">'
        "<style>text{font:11px ui-monospace,monospace;fill:#1a1a1a}.t{font:14px system-ui,sans-serif}"
        "g:hover rect{stroke:#1a1a1a}</style>"
        f'<rect width="{WIDTH}" height="{height}" fill="#fffdf8"/>'
        f'<text class="t" x="{MARGIN}" y="{MARGIN + 14}">Time by op_name: '
        f"{seconds_text(whole.seconds)}</text>"
    )
    boxes = _boxes(whole, (float(MARGIN), 0), scale, whole.seconds)
    return "\n".join([head, *boxes, "</svg>", ""])
