"""rng-bit-generator, bit exact; rng and rng-get-and-update-state, which promise a distribution but no bits."""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import Case

STATES = {"rng_three_fry": (2,), "rng_philox": (2, 3), "rng_default": (2, 3)}
SIZES: list[tuple[int, ...]] = [(1,), (2,), (3,), (7,), (8,), (17,), (4, 3), (2, 3, 5), (), (0,)]


def cases() -> Iterator[Case]:
    """Algorithms × state sizes × result types × shapes."""
    for algorithm, lengths in STATES.items():
        for length in lengths:
            for n, dims in enumerate(SIZES):
                types = (
                    ["u32", "u64", "u16", "u8", "s32", "s64", "s8", "s16"]
                    if dims in ((7,), (4, 3))
                    else ["u32", "u64"]
                )
                for dtype in types:
                    state = np.frombuffer(c.Stream("state", length, n).bytes(8 * length), np.uint64)
                    text = c.module(
                        f"p = u64[{length}] parameter(0)\n"
                        f"r = (u64[{length}], {c.sh(dtype, dims)}) rng-bit-generator(p), algorithm={algorithm}"
                    )
                    name = f"rng-bit-generator-{algorithm}-{length}-{c.sh(dtype, dims)}"
                    yield Case(name, "rng-bit-generator", dtype, text, [state], c.Tolerance(bits=True))
            for value in (0, 1, 2**32 - 1, 2**64 - 1):
                state = np.full((length,), value, np.uint64)
                text = c.module(
                    f"p = u64[{length}] parameter(0)\n"
                    f"r = (u64[{length}], u32[9]) rng-bit-generator(p), algorithm={algorithm}"
                )
                name = f"rng-bit-generator-{algorithm}-{length}-from-{value}"
                yield Case(name, "rng-bit-generator", "u32", text, [state])
    yield from distributions()


def distributions() -> Iterator[Case]:
    """What any generator must satisfy, computed in the module itself: bounds, and a mean within six deviations."""
    plus = c.combiner("plus", "add", "f32")
    both = c.combiner("both", "and", "pred")
    for dtype in ("f32", "f64", "bf16", "f16"):
        text = c.module(
            f"a = {dtype}[] constant(2)\nb = {dtype}[] constant(3)\nx = {dtype}[4096] rng(a, b), distribution=rng_uniform\n"
            f"al = {dtype}[4096] broadcast(a), dimensions={{}}\nbl = {dtype}[4096] broadcast(b), dimensions={{}}\n"
            "g = pred[4096] compare(x, al), direction=GE\nl = pred[4096] compare(x, bl), direction=LE\n"
            "i = pred[4096] and(g, l)\nt = pred[] constant(true)\nin = pred[] reduce(i, t), dimensions={0}, to_apply=both\n"
            "f = f32[4096] convert(x)\nz = f32[] constant(0)\ns = f32[] reduce(f, z), dimensions={0}, to_apply=plus\n"
            "n = f32[] constant(4096)\nm = f32[] divide(s, n)\nh = f32[] constant(2.5)\nd = f32[] subtract(m, h)\n"
            "e = f32[] abs(d)\nk = f32[] constant(0.03)\nnear = pred[] compare(e, k), direction=LT\n"
            "r = (pred[], pred[]) tuple(in, near)",
            plus,
            both,
        )
        yield Case(f"rng-uniform-{dtype}", "rng", dtype, text, [])
    for dtype in ("f32", "f64"):
        text = c.module(
            f"a = {dtype}[] constant(1)\nb = {dtype}[] constant(2)\nx = {dtype}[4096] rng(a, b), distribution=rng_normal\n"
            "f = f32[4096] convert(x)\nz = f32[] constant(0)\ns = f32[] reduce(f, z), dimensions={0}, to_apply=plus\n"
            "n = f32[] constant(4096)\nm = f32[] divide(s, n)\nh = f32[] constant(1)\nd = f32[] subtract(m, h)\n"
            "e = f32[] abs(d)\nk = f32[] constant(0.2)\nr = pred[] compare(e, k), direction=LT",
            plus,
        )
        yield Case(f"rng-normal-{dtype}", "rng", dtype, text, [])
    for dtype in ("s32", "u32", "s64", "u8"):
        text = c.module(
            f"a = {dtype}[] constant(3)\nb = {dtype}[] constant(9)\nx = {dtype}[512] rng(a, b), distribution=rng_uniform\n"
            f"al = {dtype}[512] broadcast(a), dimensions={{}}\nbl = {dtype}[512] broadcast(b), dimensions={{}}\n"
            "g = pred[512] compare(x, al), direction=GE\nl = pred[512] compare(x, bl), direction=LT\n"
            "i = pred[512] and(g, l)\nt = pred[] constant(true)\nr = pred[] reduce(i, t), dimensions={0}, to_apply=both",
            both,
        )
        yield Case(f"rng-uniform-{dtype}", "rng", dtype, text, [], reference=lambda: np.asarray(True))
    # Two states of one generator differ by what was drawn between them.
    text = c.module(
        "a = u64[2] rng-get-and-update-state(), delta=4\nb = u64[2] rng-get-and-update-state(), delta=4\n"
        "g = pred[2] compare(a, b), direction=NE\nf = pred[] constant(false)\n"
        "r = pred[] reduce(g, f), dimensions={0}, to_apply=any",
        c.combiner("any", "or", "pred"),
    )
    name = "rng-get-and-update-state"
    # XLA:CPU's front door makes one of the two.
    yield Case(name, name, "u64", text, [], reference=lambda: np.asarray(True), prefer_reference=True)
