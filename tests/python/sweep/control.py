"""Random control flow around random computations for a `Graph`: fusion, call, async, conditional, while, tuples."""

from __future__ import annotations

import emit
import movement as m
import numpy as np
from graph import Graph, Node


def bare(node: Node) -> str:
    """The shape without a layout: sides of a call need not agree on one."""
    return m.c.sh(node.dtype, node.dims)


def tuple_of(nodes: list[Node]) -> str:
    """A tuple shape."""
    return f"({', '.join(bare(n) for n in nodes)})"


def child(g: Graph) -> Graph:
    """A graph for a computation that `g` calls."""
    return Graph(g.rng, g.depth + 1, g.prefix + "n", counter=g.counter, computations=g.computations)


def parameters(h: Graph, operands: list[Node]) -> None:
    """One parameter per operand."""
    for k, n in enumerate(operands):
        node = Node(h.fresh(), n.dtype, n.dims)
        h.lines[node.name] = f"{node.name} = {bare(n)} parameter({k})"
        h.sources[node.name] = ()
        h.nodes.append(node)


def state(h: Graph, operands: list[Node]) -> None:
    """One parameter that is a tuple of the operands."""
    t = h.raw(tuple_of(operands), "parameter(0)")
    for k, n in enumerate(operands):
        m.element(h, t, k, n.dtype, n.dims)


def finish(g: Graph, h: Graph, results: list[Node]) -> str:
    """The computation that returns a tuple of those."""
    name = g.fresh("comp")
    kept = [
        h.lines[n]
        for n in h.needed([r.name for r in results] + [n for n in h.lines if " parameter(" in h.lines[n]])
    ]
    kept.append(f"ROOT {name}_root = {tuple_of(results)} tuple({', '.join(r.name for r in results)})")
    g.computations[name] = f"{name} {{\n" + "".join(f"  {line}\n" for line in kept) + "}\n"
    return name


def grow(h: Graph) -> None:
    """A few random steps."""
    for _ in range(h.rng.randint(1, 4)):
        emit.step(h)


def some(g: Graph) -> list[Node]:
    """One to three operands."""
    return [g.any() for _ in range(g.rng.randint(1, 3))]


def take(g: Graph, of: str, results: list[Node]) -> None:
    """The elements of a tuple."""
    for k, n in enumerate(results):
        m.element(g, of, k, n.dtype, n.dims)


def called(g: Graph) -> None:
    """fusion, call or an async pair."""
    operands = some(g)
    h = child(g)
    parameters(h, operands)
    grow(h)
    results = g.rng.sample(h.nodes, min(len(h.nodes), g.rng.randint(1, 3)))
    name = finish(g, h, results)
    names = [o.name for o in operands]
    shape, args = tuple_of(results), ", ".join(names)
    way = g.rng.choice(["fusion", "fusion", "call", "async"])
    if way == "fusion":
        kind = g.rng.choice(["kLoop", "kInput", "kOutput", "kCustom"])
        got = g.raw(shape, f"fusion({args}), kind={kind}, calls={name}", *names)
    elif way == "call":
        got = g.raw(shape, f"call({args}), to_apply={name}", *names)
    else:
        whole = f"({tuple_of(operands)}, {shape}, u32[])"
        start = g.raw(whole, f"async-start({args}), calls={name}", *names)
        got = g.raw(shape, f"async-done({start})", start)
    take(g, got, results)


def conditional(g: Graph) -> None:
    """Branches over different operands, with results of the same shapes; each operand a tuple or an array."""
    wanted = [Node("", d, dims) for d, dims in {(n.dtype, n.dims): n for n in some(g)}]
    branches, operands = [], []
    for _ in range(g.rng.randint(2, 3)):
        own = some(g)
        h = child(g)
        state(h, own)
        grow(h)
        results = [h.like(w.dtype, w.dims) for w in wanted]
        branches.append(finish(g, h, results))
        operands.append(
            g.raw(tuple_of(own), f"tuple({', '.join(o.name for o in own)})", *(o.name for o in own))
        )
    if len(branches) == 2 and g.rng.random() < 0.6:
        at = g.like("pred", ())
        more = f"true_computation={branches[0]}, false_computation={branches[1]}"
    else:
        at = g.index(g.rng.randint(-1, len(branches)))
        more = f"branch_computations={{{', '.join(branches)}}}"
    args = [at.name, *operands]
    got = g.raw(tuple_of(wanted), f"conditional({', '.join(args)}), {more}", *args)
    take(g, got, wanted)


def trips(g: Graph, operands: list[Node]) -> str:
    """The condition that ends a loop after a few trips, counted by the first element of its state."""
    k = child(g)
    state(k, operands)
    limit = k.constant("s32", (), np.asarray(g.rng.choice([0, 1, 2, 3, 5]), np.int32))
    less = f"compare({k.nodes[0].name}, {limit.name}), direction=LT"
    test = g.fresh("cond")
    lines = [*k.lines.values(), f"ROOT {test}_root = pred[] {less}"]
    g.computations[test] = f"{test} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    return test


def loop(g: Graph) -> None:
    """A few trips over a tuple; the body may pass elements through, exchange or replace them."""
    count = g.constant("s32", (), np.asarray(0, np.int32))
    operands = [count, *some(g)]
    h = child(g)
    state(h, operands)
    i = h.nodes[0]
    h.nodes = h.nodes[1:] if h.rng.random() < 0.3 else h.nodes
    grow(h)
    one = h.constant("s32", (), np.asarray(1, np.int32))
    following = h.emit("s32", (), f"add({i.name}, {one.name})", i, one)
    results = [following, *(h.like(o.dtype, o.dims) for o in operands[1:])]
    body = finish(g, h, results)
    test = trips(g, operands)
    names = [o.name for o in operands]
    start = g.raw(tuple_of(operands), f"tuple({', '.join(names)})", *names)
    got = g.raw(tuple_of(operands), f"while({start}), condition={test}, body={body}", start)
    take(g, got, operands)


def places(g: Graph) -> None:
    """A few updates and slices of one array, each at a place computed from what was there before."""
    x = g.like(g.dtype("f32", "s32", "f64", "u8"), g.dims(1, 2))
    if not all(x.dims):
        return
    for _ in range(g.rng.randint(1, 3)):
        at = [place(g, x, n) for n in x.dims]
        names = ", ".join(a.name for a in at)
        cut = tuple(g.rng.randint(1, n) for n in x.dims)
        sizes = f"dynamic_slice_sizes={{{m.c.csv(cut)}}}"
        part = g.emit(x.dtype, cut, f"dynamic-slice({x.name}, {names}), {sizes}", x, *at)
        part = g.emit(x.dtype, cut, f"add({part.name}, {part.name})", part, part)
        if g.rng.random() < 0.5:
            at = [place(g, x, n) for n in x.dims]
            names = ", ".join(a.name for a in at)
        x = g.emit(x.dtype, x.dims, f"dynamic-update-slice({x.name}, {part.name}, {names})", x, part, *at)


def place(g: Graph, x: Node, extent: int) -> Node:
    """An index that is an element of `x`, now and then beyond its end."""
    zeros = [g.index(0) for _ in x.dims]
    one = ", ".join("1" for _ in x.dims)
    names = ", ".join(z.name for z in zeros)
    text = f"dynamic-slice({x.name}, {names}), dynamic_slice_sizes={{{one}}}"
    first = g.emit(x.dtype, (1,) * len(x.dims), text, x, *zeros)
    scalar = g.emit(x.dtype, (), f"reshape({first.name})", first)
    whole = g.emit("s32", (), f"convert({scalar.name})", scalar)
    limit = g.index(extent + g.rng.randint(-1, 1))
    low = g.index(g.rng.randint(-1, 0))
    return g.emit("s32", (), f"clamp({low.name}, {whole.name}, {limit.name})", low, whole, limit)


def swap(g: Graph) -> None:
    """A loop whose state elements of one shape change places, one of them updated."""
    first = g.any()
    count = g.constant("s32", (), np.asarray(0, np.int32))
    equals = [first, *(g.like(first.dtype, first.dims) for _ in range(g.rng.randint(1, 3)))]
    operands = [count, *equals]
    h = child(g)
    state(h, operands)
    own = h.nodes[:]
    if g.rng.random() < 0.7:
        grow(h)
    one = h.constant("s32", (), np.asarray(1, np.int32))
    following = h.emit("s32", (), f"add({own[0].name}, {one.name})", own[0], one)
    turned = own[1:]
    g.rng.shuffle(turned)
    if g.rng.random() < 0.6:
        turned[g.rng.randrange(len(turned))] = h.like(first.dtype, first.dims)
    body = finish(g, h, [following, *turned])
    test = trips(g, operands)
    names = [o.name for o in operands]
    start = g.raw(tuple_of(operands), f"tuple({', '.join(names)})", *names)
    got = g.raw(tuple_of(operands), f"while({start}), condition={test}, body={body}", start)
    take(g, got, operands)


ALL = [(4, called), (2, conditional), (3, loop), (2, swap), (2, places)]
