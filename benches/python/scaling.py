"""How the time of each stage grows with the size of a module: `python benches/python/scaling.py [SHAPE...]`.

Modules of a dozen shapes are made in sizes n, 2n and 4n, and loaded, verified, compiled and printed.
A stage that takes more than `MOST` times as long for twice the size, beyond the first tenths of a
second, is not linear any more; the exit status is 1 then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise

import hlorun

MOST = 3.2
"""Most times as long for twice the size."""
NOTICED = 0.2
"""Seconds of the processor below which times say nothing."""

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def _entry(lines: list[str], before: str = "") -> str:
    lines = [*lines[:-1], f"ROOT {lines[-1]}"]
    return f"HloModule m\n{before}ENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def chain(n: int) -> str:
    """One elementwise chain."""
    return _entry(["x0 = f32[64] parameter(0)", *(f"x{k + 1} = f32[64] negate(x{k})" for k in range(n))])


def wide(n: int) -> str:
    """Independent values of one tuple."""
    values = [f"y{k} = f32[64] negate(x)" for k in range(n)]
    shapes, names = ", ".join(["f32[64]"] * n), ", ".join(f"y{k}" for k in range(n))
    return _entry(["x = f32[64] parameter(0)", *values, f"t = ({shapes}) tuple({names})"])


def parameters(n: int) -> str:
    """Many parameters, added up."""
    lines = [f"p{k} = f32[8] parameter({k})" for k in range(n)]
    sums = ["s0 = f32[8] negate(p0)", *(f"s{k} = f32[8] add(s{k - 1}, p{k})" for k in range(1, n))]
    return _entry([*lines, *sums])


def reductions(n: int) -> str:
    """Reductions that nothing joins to each other."""
    lines = ["x0 = f32[64] parameter(0)", "z = f32[] constant(0)"]
    for k in range(n):
        lines.append(f"r{k} = f32[] reduce(x{k}, z), dimensions={{0}}, to_apply=add")
        lines.append(f"x{k + 1} = f32[64] broadcast(r{k}), dimensions={{}}")
    return _entry(lines, ADD)


def products(n: int) -> str:
    """A chain of matrix products."""
    lines = ["x0 = f32[8,8] parameter(0)"]
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines += [f"x{k + 1} = f32[8,8] dot(x{k}, x{k}), {dims}" for k in range(n)]
    return _entry(lines)


def computations(n: int) -> str:
    """A computation of its own for every call."""
    made = [f"f{k} {{ a = f32[4] parameter(0)\n ROOT b = f32[4] sine(a) }}\n" for k in range(n)]
    calls = [f"x{k + 1} = f32[4] fusion(x{k}), kind=kLoop, calls=f{k}" for k in range(n)]
    return _entry(["x0 = f32[4] parameter(0)", *calls], "".join(made))


def reducers(n: int) -> str:
    """A reducer of its own for every reduction."""
    made = [ADD.replace("add {", f"add{k} {{") for k in range(n)]
    lines = ["x = f32[64] parameter(0)", "z0 = f32[] constant(0)"]
    lines += [f"z{k + 1} = f32[] reduce(x, z{k}), dimensions={{0}}, to_apply=add{k}" for k in range(n)]
    return _entry(lines, "".join(made))


def nested(n: int) -> str:
    """Calls within calls."""
    made = ["f0 { a = f32[4] parameter(0)\n ROOT b = f32[4] sine(a) }\n"]
    made += [
        f"f{k} {{ a = f32[4] parameter(0)\n b = f32[4] cosine(a)\n ROOT c = f32[4] call(b), to_apply=f{k - 1} }}\n"
        for k in range(1, n)
    ]
    return _entry(["x = f32[4] parameter(0)", f"y = f32[4] call(x), to_apply=f{n - 1}"], "".join(made))


def loops(n: int) -> str:
    """Many small loops."""
    made, lines = [], ["s0 = s32[] parameter(0)"]
    for k in range(n):
        made.append(
            f"c{k} {{ i = s32[] parameter(0)\n n = s32[] constant({k})\n"
            " ROOT l = pred[] compare(i, n), direction=LT }\n"
            f"b{k} {{ i = s32[] parameter(0)\n o = s32[] constant(1)\n ROOT j = s32[] add(i, o) }}\n"
        )
        lines.append(f"s{k + 1} = s32[] while(s{k}), condition=c{k}, body=b{k}")
    return _entry(lines, "".join(made))


def state(n: int) -> str:
    """One loop over a wide tuple."""
    shape = "(s32[], " + ", ".join(["f32[4]"] * n) + ")"
    parts = [f"x{k} = f32[4] get-tuple-element(s), index={k + 1}" for k in range(n)]
    steps = [f"y{k} = f32[4] cosine(x{k})" for k in range(n)]
    names = ", ".join(f"y{k}" for k in range(n))
    made = (
        f"c {{ s = {shape} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
        f" ROOT l = pred[] compare(i, n), direction=LT }}\nb {{ s = {shape} parameter(0)\n"
        " i = s32[] get-tuple-element(s), index=0\n o = s32[] constant(1)\n j = s32[] add(i, o)\n"
        + "\n".join([*parts, *steps])
        + f"\n ROOT t = {shape} tuple(j, {names}) }}\n"
    )
    return _entry([f"s = {shape} parameter(0)", f"w = {shape} while(s), condition=c, body=b"], made)


def branches(n: int) -> str:
    """One conditional of many branches."""
    made = [f"f{k} {{ a = f32[4] parameter(0)\n ROOT b = f32[4] sine(a) }}\n" for k in range(n)]
    names, operands = ", ".join(f"f{k}" for k in range(n)), ", ".join(["x"] * n)
    body = f"c = f32[4] conditional(i, {operands}), branch_computations={{{names}}}"
    return _entry(["i = s32[] parameter(0)", "x = f32[4] parameter(1)", body], "".join(made))


def updates(n: int) -> str:
    """Updates in place, one after the other."""
    lines = ["x0 = f32[4096] parameter(0)", "u = f32[16] parameter(1)"]
    for k in range(n):
        lines.append(f"i{k} = s32[] constant({k % 4000})")
        lines.append(f"x{k + 1} = f32[4096] dynamic-update-slice(x{k}, u, i{k})")
    return _entry(lines)


def joins(n: int) -> str:
    """One concatenate of many pieces of one array."""
    pieces = [f"s{k} = f32[4] slice(x), slice={{[{4 * k}:{4 * k + 4}]}}" for k in range(n)]
    names = ", ".join(f"s{k}" for k in reversed(range(n)))
    joined = f"c = f32[{4 * n}] concatenate({names}), dimensions={{0}}"
    return _entry([f"x = f32[{4 * n}] parameter(0)", *pieces, joined])


def users(n: int) -> str:
    """One value with many readers, all added up."""
    lines = ["x = f32[64] parameter(0)", "e = f32[64] exponential(x)", "s0 = f32[64] negate(e)"]
    lines += [f"s{k + 1} = f32[64] add(s{k}, e)" for k in range(n)]
    return _entry(lines)


def constants(n: int) -> str:
    """A constant for every step, which folds away."""
    lines = ["c0 = f32[4] constant({1, 2, 3, 4})"]
    for k in range(n):
        lines.append(f"d{k} = f32[4] constant({{{k}, 2, 3, 4}})")
        lines.append(f"c{k + 1} = f32[4] add(c{k}, d{k})")
    return _entry(lines)


SHAPES: list[tuple[Callable[[int], str], int]] = [
    (chain, 25_000),
    (wide, 12_000),
    (parameters, 8_000),
    (reductions, 8_000),
    (products, 8_000),
    (computations, 8_000),
    (reducers, 8_000),
    (nested, 8_000),
    (loops, 4_000),
    (state, 4_000),
    (branches, 4_000),
    (updates, 8_000),
    (joins, 8_000),
    (users, 25_000),
    (constants, 8_000),
]


def stages(text: str) -> dict[str, float]:
    """Seconds of the processor for each stage; of one that refuses the module, until it did."""
    times: dict[str, float] = {}

    def timed(name: str, work: Callable[[], object]) -> object:
        start = time.process_time()
        try:
            return work()
        except hlorun.HloUnsupportedError:
            return None
        finally:
            times[name] = time.process_time() - start

    module = hlorun.parse(text)
    timed("parse", lambda: hlorun.parse(text))
    timed("verify", module.verify)
    timed("compile", lambda: hlorun.compile(module))
    timed("print", module.to_string)
    timed("fingerprint", module.fingerprint)
    timed("assign", module.buffer_assignment)
    return times


def main(wanted: list[str]) -> int:
    """Print a line for each shape and stage; 1 when one grows too fast."""
    bad = 0
    for make, n in SHAPES:
        if wanted and make.__name__ not in wanted:
            continue
        grown = [stages(make(size)) for size in (n, 2 * n, 4 * n)]
        for stage in grown[0]:
            seconds = [times[stage] for times in grown]
            steps = pairwise(seconds)
            is_slow = any(b > NOTICED and b > MOST * a for a, b in steps)
            bad += is_slow
            if is_slow or seconds[-1] > NOTICED:
                row = "  ".join(f"{second:8.3f} s" for second in seconds)
                print(f"{make.__name__:14} {stage:12} {row}  {'GROWS' if is_slow else ''}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
