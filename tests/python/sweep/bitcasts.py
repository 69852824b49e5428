"""`bitcast` between layouts and element types, and what it means without layouts, for XLA:CPU's front door.

In: a `Graph`, or the text of a module. Out: one more instruction, or the same text in which every `bitcast` is
spelled out: transposed to its physical order, reshaped, converted by bits, and back.
"""

from __future__ import annotations

import math
import re

import cases as c
import movement
from graph import Graph

WIDE = [*(d for d in c.INTEGERS if c.BITS[d] >= 8), "f16", "bf16", "f32", "f64"]
DEFINITION = re.compile(r"^ *(?:ROOT )?([\w.-]+) = (\w+)\[([\d,]*)\](?:\{([\d,]*)\})? ", re.MULTILINE)
BITCAST = re.compile(
    r"^( *)(ROOT )?([\w.-]+) = \w+\[[\d,]*\](?:\{[\d,]*\})? bitcast\(([\w.-]+)\)$", re.MULTILINE
)


def bitcast(g: Graph) -> None:
    """Other dimensions, another layout and, half of the time, another element type."""
    x = g.any(*WIDE)
    to = g.dtype(*(d for d in c.INTEGERS if c.BITS[d] >= 8)) if g.rng.random() < 0.5 else x.dtype
    bits = math.prod(x.dims) * c.BITS[x.dtype]
    if bits == 0 or bits % c.BITS[to]:
        return
    kept = c.BITS[to] == c.BITS[x.dtype] and g.rng.random() < 0.4
    dims = x.dims if kept else movement.refactor(g, bits // c.BITS[to])
    g.emit(to, dims, f"bitcast({x.name})", x)


ALL = [(4, bitcast)]


def numbers(text: str | None) -> list[int]:
    return [int(n) for n in (text or "").split(",") if n]


def spell_out(text: str) -> str:
    """The text without `bitcast`; names in it are those of one module, each defined once."""
    shapes: dict[str, tuple[str, list[int], list[int]]] = {}
    for name, dtype, sizes, layout in DEFINITION.findall(text):
        dims = numbers(sizes)
        minor_to_major = numbers(layout) if layout else list(range(len(dims)))[::-1]
        shapes[name] = (dtype, dims, minor_to_major[::-1])

    def spelled(match: re.Match[str]) -> str:
        indent, root, name, operand = match.groups()
        (a, from_dims, from_order), (b, to_dims, to_order) = shapes[operand], shapes[name]
        bits = {dtype: c.BITS[dtype] for dtype in (a, b)}
        count, ratio = math.prod(from_dims), bits[b] // bits[a]
        wide = [count // ratio, ratio] if ratio > 1 else [count]
        narrow = [count, bits[a] // bits[b]] if bits[a] > bits[b] else wide[:1]
        inverse = [to_order.index(d) for d in range(len(to_order))]
        steps = [
            (
                a,
                [from_dims[d] for d in from_order],
                f"transpose({operand}), dimensions={{{c.csv(from_order)}}}",
            ),
            (a, wide, f"reshape({name}.0)"),
            (b, narrow, f"bitcast-convert({name}.1)" if a != b else f"copy({name}.1)"),
            (b, [to_dims[d] for d in to_order], f"reshape({name}.2)"),
        ]
        lines = [
            f"{indent}{name}.{k} = {c.sh(dtype, dims)} {op}" for k, (dtype, dims, op) in enumerate(steps)
        ]
        last = f"transpose({name}.3), dimensions={{{c.csv(inverse)}}}"
        lines.append(f"{indent}{root or ''}{name} = {c.sh(b, to_dims)} {last}")
        return "\n".join(lines)

    return BITCAST.sub(spelled, text)
