#!/usr/bin/env python3
"""Write a large HLO module: what parsing in linear time and memory is tested with.

  python benches/python/generate_module.py OUT.txt [--megabytes 200] [--seed 0]

The text is legal HLO for jaxlib and hlorun alike. A quarter of it each, roughly: `while` loops whose bodies are
unrolled LSTM steps, constants of about a megabyte, tuples of 10,000 elements, and fusions that call fusions.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

HEADER = "HloModule generated\n\n"
ADD = "%add (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %sum = f32[] add(%a, %b)\n}\n\n"
S = "f32[8,64]{1,0}"
STATE = f"(s32[], {S}, {S}, f32[64,256]{{1,0}})"


def lstm_loop(n: int, steps: int) -> tuple[str, list[str]]:
    """Computations of one loop, and the lines of the entry that run it."""
    m = f'metadata={{op_type="lstm" op_name="jit(step)/layer_{n}/while/body/lstm" source_file="model.py" source_line={n + 1}}}'
    body = [
        f"%body.{n} (state: {STATE}) -> {STATE} {{",
        f"  %s.{n} = {STATE} parameter(0)",
        f"  %i.{n} = s32[] get-tuple-element(%s.{n}), index=0",
        f"  %one.{n} = s32[] constant(1)",
        f"  %next.{n} = s32[] add(%i.{n}, %one.{n})",
        f"  %h.{n}.0 = {S} get-tuple-element(%s.{n}), index=1",
        f"  %c.{n}.0 = {S} get-tuple-element(%s.{n}), index=2",
        f"  %w.{n} = f32[64,256]{{1,0}} get-tuple-element(%s.{n}), index=3",
    ]
    for t in range(steps):
        k = f"{n}.{t}"
        gate = "slice={{[0:8], [{}:{}]}}"
        body.append(
            f"  %g.{k} = f32[8,256]{{1,0}} dot(%h.{k}, %w.{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {m}"
        )
        for q, name in enumerate("ifgo"):
            body.append(f"  %{name}s.{k} = {S} slice(%g.{k}), {gate.format(64 * q, 64 * q + 64)}, {m}")
            operation = "tanh" if name == "g" else "logistic"
            body.append(f"  %{name}a.{k} = {S} {operation}(%{name}s.{k}), {m}")
        body += [
            f"  %fc.{k} = {S} multiply(%fa.{k}, %c.{k}), {m}",
            f"  %ig.{k} = {S} multiply(%ia.{k}, %ga.{k}), {m}",
            f"  %c.{n}.{t + 1} = {S} add(%fc.{k}, %ig.{k}), {m}",
            f"  %tc.{k} = {S} tanh(%c.{n}.{t + 1}), {m}",
            f"  %h.{n}.{t + 1} = {S} multiply(%oa.{k}, %tc.{k}), {m}",
        ]
    body += [
        f"  ROOT %out.{n} = {STATE} tuple(%next.{n}, %h.{n}.{steps}, %c.{n}.{steps}, %w.{n})",
        "}\n",
        f"%condition.{n} (state: {STATE}) -> pred[] {{",
        f"  %cs.{n} = {STATE} parameter(0)",
        f"  %ci.{n} = s32[] get-tuple-element(%cs.{n}), index=0",
        f"  %limit.{n} = s32[] constant(10)",
        f"  ROOT %less.{n} = pred[] compare(%ci.{n}, %limit.{n}), direction=LT",
        "}\n\n",
    ]
    entry = [
        f"  %start.{n} = {STATE} tuple(%zero, %x, %x, %w)",
        f"  %loop.{n} = {STATE} while(%start.{n}), condition=%condition.{n}, body=%body.{n}",
    ]
    return "\n".join(body), entry


def constant(n: int, chance: random.Random) -> list[str]:
    """A constant of 100,000 floats, and its sum."""
    values = ", ".join(f"{chance.gauss(0, 1):.7g}" for _ in range(100_000))
    return [
        f"  %constant.{n} = f32[100000]{{0}} constant({{{values}}})",
        f"  %sum.{n} = f32[] reduce(%constant.{n}, %nothing), dimensions={{0}}, to_apply=%add",
    ]


def wide_tuple(n: int) -> list[str]:
    """A tuple of 10,000 elements, and one of them."""
    shape = ", ".join(["f32[]"] * 10_000)
    operands = ", ".join(["%nothing"] * 10_000)
    return [
        f"  %wide.{n} = ({shape}) tuple({operands})",
        f"  %part.{n} = f32[] get-tuple-element(%wide.{n}), index={n % 10_000}",
    ]


def fusions(n: int, depth: int) -> tuple[str, list[str]]:
    """`depth` fusions of which each calls the one before."""
    out = []
    for d in range(depth):
        inner = (
            f"{S} fusion(%p.{n}.{d}), kind=kLoop, calls=%fused.{n}.{d - 1}"
            if d
            else f"{S} exponential(%p.{n}.{d})"
        )
        out.append(
            f"%fused.{n}.{d} (p: {S}) -> {S} {{\n  %p.{n}.{d} = {S} parameter(0)\n"
            f"  %f.{n}.{d} = {inner}\n  ROOT %r.{n}.{d} = {S} negate(%f.{n}.{d})\n}}\n\n"
        )
    return "".join(out), [f"  %nest.{n} = {S} fusion(%x), kind=kLoop, calls=%fused.{n}.{depth - 1}"]


def pieces(size: int, seed: int) -> Iterator[str]:
    """The text in pieces, about `size` bytes in all."""
    chance = random.Random(seed)
    entry = [
        f"ENTRY %main (x: {S}, w: f32[64,256]) -> {S} {{",
        f"  %x = {S} parameter(0)",
        "  %w = f32[64,256]{1,0} parameter(1)",
        "  %zero = s32[] constant(0)",
        "  %nothing = f32[] constant(0)",
    ]
    yield HEADER + ADD
    written, n = [0, 0, 0, 0], 0
    while sum(written) < size:
        kind = written.index(min(written))
        if kind == 0:
            text, lines = lstm_loop(n, 100)
        elif kind == 1:
            text, lines = "", constant(n, chance)
        elif kind == 2:
            text, lines = "", wide_tuple(n)
        else:
            text, lines = fusions(n, 500)
        if text:
            yield text
        length = sum(len(line) + 1 for line in lines)
        entry += lines
        written[kind] += len(text) + length
        n += 1
    yield "\n".join(entry)
    yield f"\n  ROOT %result = {S} negate(%x)\n}}\n"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with arguments.out.open("w") as out:
        for piece in pieces(int(arguments.megabytes * 1e6), arguments.seed):
            out.write(piece)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
