"""Collectives over one replica, ids, and the asynchronous pairs around them."""

from __future__ import annotations

from collections.abc import Iterator

import cases as c
import numpy as np
from cases import Case

GROUPS = ["replica_groups={}", "replica_groups={{0}}"]


def cases() -> Iterator[Case]:
    """Over one replica every collective is the identity, up to shape."""
    for opcode in ("partition-id", "replica-id"):
        yield Case(opcode, opcode, "u32", c.module(f"r = u32[] {opcode}()"))
    for dtype in ("f32", "s32", "bf16", "f16", "f64", "u8", "pred", "c64"):
        x = c.random(dtype, (4, 3), "collective")
        s = c.sh(dtype, (4, 3))
        op = "or" if dtype == "pred" else "add"
        plus = c.combiner("plus", op, dtype)
        p = f"p = {s} parameter(0)\nr = {s} "
        for n, groups in enumerate(GROUPS):
            text = c.module(p + f"all-reduce(p), {groups}, to_apply=plus", plus)
            yield Case(f"all-reduce-{dtype}-{n}", "all-reduce", dtype, text, [x], reference=lambda v: v)
            text = c.module(p + f"all-gather(p), {groups}, dimensions={{0}}")
            yield Case(f"all-gather-{dtype}-{n}", "all-gather", dtype, text, [x], reference=lambda v: v)
            text = c.module(p + f"reduce-scatter(p), {groups}, dimensions={{0}}, to_apply=plus", plus)
            yield Case(
                f"reduce-scatter-{dtype}-{n}", "reduce-scatter", dtype, text, [x], reference=lambda v: v
            )
            text = c.module(p + f"all-to-all(p), {groups}, dimensions={{0}}")
            # An array all-to-all must name its groups.
            if n == 1:
                yield Case(f"all-to-all-{dtype}-{n}", "all-to-all", dtype, text, [x], reference=lambda v: v)
            text = c.module(
                f"p = {s} parameter(0)\nt = ({s}) all-to-all(p), {groups}\nr = {s} get-tuple-element(t), index=0"
            )
            yield Case(f"all-to-all-tuple-{dtype}-{n}", "all-to-all", dtype, text, [x], reference=lambda v: v)
        text = c.module(p + "collective-permute(p), source_target_pairs={{0,0}}")
        yield Case(
            f"collective-permute-{dtype}", "collective-permute", dtype, text, [x], reference=lambda v: v
        )
        # No source: zeros.
        text = c.module(p + "collective-permute(p), source_target_pairs={}")
        yield Case(
            f"collective-permute-none-{dtype}",
            "collective-permute",
            dtype,
            text,
            [x],
            reference=np.zeros_like,
        )
        text = c.module(p + "collective-broadcast(p), replica_groups={{0}}")
        yield Case(
            f"collective-broadcast-{dtype}", "collective-broadcast", dtype, text, [x], reference=lambda v: v
        )
    yield from several()


def several() -> Iterator[Case]:
    """Several operands, channels, other reductions, ids of devices, start and done."""
    plus, most = c.combiner("plus", "add", "f32"), c.combiner("most", "maximum", "f32")
    x, y = c.random("f32", (3,), "x"), c.random("f32", (2, 2), "y")
    head = "p = f32[3] parameter(0)\nq = f32[2,2] parameter(1)\n"
    both = "(f32[3], f32[2,2])"
    plain = c.module(head + f"r = {both} tuple(p, q)")
    text = c.module(head + f"r = {both} all-reduce(p, q), replica_groups={{}}, to_apply=plus", plus)
    yield Case("all-reduce-two", "all-reduce", "f32", text, [x, y], oracle_text=plain)
    text = c.module(
        head
        + f"r = {both} all-reduce(p, q), channel_id=1, replica_groups={{{{0}}}}, use_global_device_ids=true, to_apply=most",
        most,
    )
    yield Case("all-reduce-channel", "all-reduce", "f32", text, [x, y], oracle_text=plain)
    text = c.module(head + f"r = {both} all-reduce(p, q), replica_groups=[1,1]<=[1], to_apply=most", most)
    yield Case("all-reduce-iota-groups", "all-reduce", "f32", text, [x, y], oracle_text=plain)
    one = c.module("p = f32[3] parameter(0)\nr = f32[3] copy(p)")
    text = c.module(
        "p = f32[3] parameter(0)\ns = f32[3] all-reduce-start(p), replica_groups={}, to_apply=plus\n"
        "r = f32[3] all-reduce-done(s)",
        plus,
    )
    yield Case("all-reduce-start", "all-reduce-start", "f32", text, [x], oracle_text=one)
    text = c.module(
        "p = f32[3] parameter(0)\ns = (f32[3], f32[3]) all-gather-start(p), replica_groups={}, dimensions={0}\n"
        "r = f32[3] all-gather-done(s)"
    )
    yield Case("all-gather-start", "all-gather-start", "f32", text, [x], oracle_text=one)
    text = c.module(
        "p = f32[3] parameter(0)\ns = (f32[3], f32[3]) collective-permute-start(p), source_target_pairs={{0,0}}\n"
        "r = f32[3] collective-permute-done(s)"
    )
    yield Case("collective-permute-start", "collective-permute-start", "f32", text, [x], oracle_text=one)
    text = c.module(
        "p = f32[4] parameter(0)\nq = f32[4] parameter(1)\na = s32[1] constant({1})\nb = s32[1] constant({2})\n"
        "d = s32[1] constant({0})\ne = s32[1] constant({2})\n"
        "r = f32[4] ragged-all-to-all(p, q, a, b, d, e), replica_groups={{0}}"
    )
    inputs = [c.random("f32", (4,), 1), c.random("f32", (4,), 2)]

    def ragged(p: c.Array, q: c.Array) -> c.Array:
        out = q.copy()
        out[0:2] = p[1:3]
        return out

    yield Case("ragged-all-to-all", "ragged-all-to-all", "f32", text, inputs, reference=ragged)
