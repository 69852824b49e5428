"""Lies about one instruction: another type, size, rank or layout of an array it declares, an element more or less of
its tuple, another value in its configuration. Of any opcode; every other lie is about a custom call, where there is one.
"""

from __future__ import annotations

import random
import re

ARRAY = re.compile(r"\b(pred|[suf]\d+\w*|bf16|c64|c128)\[([<=\d,]*)\](\{[\d,]*\})?")
WORD = re.compile(r"-?\w+")
TYPES = [
    "pred",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "u1",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "f8e4m3fn",
    "f8e5m2",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
]
SIZES = ["0", "1", "2", "3", "4", "5", "7", "8", "16", "64", "193", "4096"]


def _list(text: str, rng: random.Random) -> str:
    values = [value for value in text.split(",") if value]
    choice = rng.randrange(5)
    if choice == 0 and values:
        values.pop(rng.randrange(len(values)))
    elif choice == 1 or not values:
        values.insert(rng.randrange(len(values) + 1), rng.choice(SIZES))
    elif choice == 2:
        rng.shuffle(values)
    else:
        values[rng.randrange(len(values))] = rng.choice(SIZES)
    return ",".join(values)


def _array(line: str, rng: random.Random) -> str:
    found = list(ARRAY.finditer(line))
    if not found:
        return line
    at = rng.choice(found)
    ty, sizes, layout = at.groups()
    choice = rng.randrange(8)
    if choice < 2:
        new = f"{rng.choice(TYPES)}[{sizes}]{layout or ''}"
    elif choice == 2:
        new = f"{at.group()}, {at.group()}"
    elif choice == 3:
        return (line[: at.start()] + line[at.end() :]).replace("(, ", "(").replace(", )", ")")
    elif choice == 4 and layout:
        new = f"{ty}[{sizes}]{{{_list(layout[1:-1], rng)}}}"
    else:
        new = f"{ty}[{_list(sizes, rng)}]"
    return line[: at.start()] + new + line[at.end() :]


def _config(line: str, rng: random.Random) -> str:
    start = line.find("backend_config=")
    found = list(WORD.finditer(line, start + 15)) if start >= 0 else []
    if not found:
        return _array(line, rng)
    at = rng.choice(found)
    new = rng.choice([*SIZES, "-1", "9223372036854775807", "true", "false", rng.choice(found).group()])
    return line[: at.start()] + new + line[at.end() :]


def lie(text: str, rng: random.Random) -> str:
    """The text with one lie."""
    lines = text.split("\n")
    among = [at for at, line in enumerate(lines) if " = " in line]
    calls = [at for at in among if "custom_call_target" in lines[at]]
    if calls and rng.random() < 0.5:
        among = calls
    if not among:
        return text
    at = rng.choice(among)
    change = _config if rng.random() < 0.25 else _array
    lines[at] = change(lines[at], rng)
    return "\n".join(lines)
