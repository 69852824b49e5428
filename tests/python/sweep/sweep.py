"""Run random modules on hlorun and on XLA:CPU and print what differs: `python tests/python/sweep/sweep.py SECONDS [SEED]`.

Every disagreement is cut down to the first wrong array and what it is made from, and printed as a module with its
seed. XLA:CPU refuses some modules; they are counted. Needs jax and jaxlib. Exit 1 when anything differed.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent, HERE.parent / "ops"):
    sys.path.insert(0, str(folder))

import bitcasts
import cases as c
import emit
import numpy as np
from graph import Graph, Node, plain

import oracle

LOOSE = {"bf16": 2e-2, "f16": 2e-3, "f32": 1e-5, "c64": 1e-5, "f64": 1e-12, "c128": 1e-12}


def make(seed: int) -> Graph:
    """The graph of a seed."""
    g = Graph(random.Random(seed))
    for _ in range(g.rng.randint(1, 10)):
        emit.step(g)
    return g


def tolerance(dtype: str) -> c.Tolerance:
    """Of an array anywhere in a graph."""
    if dtype in LOOSE:
        return c.Tolerance(rel=LOOSE[dtype], abs=1e-30, zero_sign=False)
    return c.EXACT if dtype in c.INTEGERS or dtype == "pred" else c.Tolerance(rel=0.15, zero_sign=False)


def ours(text: str, inputs: list[c.Array]) -> list[c.Array]:
    """Results of hlorun."""
    import hlorun

    return c.flatten(hlorun.compile(hlorun.parse(text))(*inputs))


def wrong(g: Graph, nodes: list[Node], xla: oracle.Oracle) -> tuple[Node, str] | None:
    """The first array that differs, or what hlorun raises."""
    text = g.module(nodes)
    want = xla.run(plain(bitcasts.spell_out(text)), g.inputs)
    try:
        got = ours(text, g.inputs)
    except Exception as error:
        return nodes[-1], f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    for node, x, y in zip(nodes, got, want, strict=True):
        if x.dtype != y.dtype and x.dtype.itemsize == y.dtype.itemsize and x.dtype.kind in "iu":
            y = y.view(x.dtype)
        text = c.difference(x, y, tolerance(node.dtype))
        if text:
            return node, text
    return None


def shrink(g: Graph, node: Node, xla: oracle.Oracle) -> tuple[Node, str] | None:
    """The same of that node alone, and of the nodes it needs."""
    needed = set(g.needed([node.name]))
    below = [n for n in g.nodes if n.name in needed]
    for one in below:
        try:
            found = wrong(g, [one], xla)
        except oracle.Refused:
            continue
        if found:
            return found
    return None


def main() -> int:
    """Until time is up."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end = time.monotonic() + seconds
    xla = oracle.Oracle(60.0)
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    while time.monotonic() < end:
        try:
            g = make(seed)
        except Exception as error:
            print(f"seed {seed}: generator: {type(error).__name__}: {error}", flush=True)
            counts["generator"] += 1
            seed += 1
            continue
        if g.nodes:
            try:
                found = wrong(g, g.nodes, xla)
                if found:
                    counts["wrong"] += 1
                    small = shrink(g, found[0], xla) or found
                    print(f"=== seed {seed}: {small[1]}\n{g.module([small[0]])}", flush=True)
                    kept = g.needed([small[0].name])
                    for name, x in zip(g.parameters, g.inputs, strict=True):
                        if name in kept and x.size <= 40:
                            print(f"// {name} = {x.tolist()}")
                else:
                    counts["same"] += 1
            except oracle.Refused as error:
                counts["refused"] += 1
                refusals[str(error)[:160]] += 1
        seed += 1
    xla.close()
    print(dict(counts), "next seed", seed)
    for why, number in refusals.most_common(40):
        print(f"  refused {number}: {why}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
