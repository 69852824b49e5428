"""Random elementwise and movement operations, slices, indices and reductions for a `Graph`."""

from __future__ import annotations

import math

import cases as c
import ml_dtypes
import numpy as np
from graph import FLOATS, MOST, Dims, Graph, Node

NUMBERS = [d for d in [*c.INTEGERS, "f16", "bf16", "f32", "f64"] if c.BITS[d] >= 4]
EXACT = ["pred", *(d for d in c.INTEGERS if c.BITS[d] >= 8)]


def unary(g: Graph) -> None:
    x = g.any()
    ops = ["copy"]
    if x.dtype == "pred":
        ops += ["not"]
    elif x.dtype in c.INTEGERS:
        ops += ["not", "negate", "popcnt", "count-leading-zeros"] + (
            ["abs", "sign"] if x.dtype in c.SIGNED else []
        )
    elif x.dtype in c.COMPLEX:
        ops += ["negate"]
    else:
        ops += ["negate", "abs", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz"]
    if x.dtype in FLOATS and g.rng.random() < 0.1:
        g.emit("pred", x.dims, f"is-finite({x.name})", x)
    elif x.dtype in c.COMPLEX and g.rng.random() < 0.5:
        g.emit("f32" if x.dtype == "c64" else "f64", x.dims, f"{g.rng.choice(['real', 'imag'])}({x.name})", x)
    else:
        g.emit(x.dtype, x.dims, f"{g.rng.choice(ops)}({x.name})", x)


def binary(g: Graph) -> None:
    x = g.any()
    y = g.like(x.dtype, x.dims)
    if x.dtype == "pred":
        ops = ["and", "or", "xor", "maximum", "minimum", "add", "multiply"]
    elif x.dtype in c.INTEGERS:
        ops = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor"]
        ops += ["shift-left", "shift-right-arithmetic", "shift-right-logical", "power"]
    elif x.dtype in c.COMPLEX:
        ops = ["add", "subtract", "multiply"]
    else:
        ops = ["add", "subtract", "multiply", "maximum", "minimum", "remainder"]
    if x.dtype in ("f32", "f64") and g.rng.random() < 0.1:
        g.emit({"f32": "c64", "f64": "c128"}[x.dtype], x.dims, f"complex({x.name}, {y.name})", x, y)
        return
    g.emit(x.dtype, x.dims, f"{g.rng.choice(ops)}({x.name}, {y.name})", x, y)


def compare(g: Graph) -> None:
    x = g.any()
    y = g.like(x.dtype, x.dims)
    direction = g.rng.choice(["EQ", "NE"] if x.dtype in c.COMPLEX else ["EQ", "NE", "LT", "LE", "GT", "GE"])
    kind = ", type=TOTALORDER" if x.dtype in FLOATS and g.rng.random() < 0.3 else ""
    g.emit("pred", x.dims, f"compare({x.name}, {y.name}), direction={direction}{kind}", x, y)


def select(g: Graph) -> None:
    x = g.any()
    y = g.like(x.dtype, x.dims)
    p = g.like("pred", () if g.rng.random() < 0.3 else x.dims)
    g.emit(x.dtype, x.dims, f"select({p.name}, {x.name}, {y.name})", p, x, y)


def clamp(g: Graph) -> None:
    x = g.any(*NUMBERS)
    low = g.like(x.dtype, () if g.rng.random() < 0.5 else x.dims)
    high = g.like(x.dtype, low.dims)
    g.emit(x.dtype, x.dims, f"clamp({low.name}, {x.name}, {high.name})", low, x, high)


def convert(g: Graph) -> None:
    x = g.any()
    to = g.dtype()
    if x.dtype in c.COMPLEX and to not in c.COMPLEX:
        to = "c128"
    g.emit(to, x.dims, f"convert({x.name})", x)


def bitcast_convert(g: Graph) -> None:
    x = g.any(*(d for d in [*c.INTEGERS, "f16", "bf16", "f32", "f64"] if c.BITS[d] >= 8))
    to = g.dtype(*(d for d in c.INTEGERS if c.BITS[d] >= 8))
    a, b = c.BITS[x.dtype], c.BITS[to]
    if a > b:
        g.emit(to, (*x.dims, a // b), f"bitcast-convert({x.name})", x)
    elif a == b:
        g.emit(to, x.dims, f"bitcast-convert({x.name})", x)
    elif len(x.dims) < 4:
        y = g.parameter(x.dtype, (*x.dims, b // a))
        g.emit(to, x.dims, f"bitcast-convert({y.name})", y)


def reduce_precision(g: Graph) -> None:
    x = g.any("f16", "f32", "f64")
    more = f"exponent_bits={g.rng.randint(2, 8)}, mantissa_bits={g.rng.randint(1, 10)}"
    g.emit(x.dtype, x.dims, f"reduce-precision({x.name}), {more}", x)


def transpose(g: Graph) -> None:
    x = g.any(rank=2)
    order = list(range(len(x.dims)))
    g.rng.shuffle(order)
    dims = tuple(x.dims[d] for d in order)
    g.emit(x.dtype, dims, f"transpose({x.name}), dimensions={{{c.csv(order)}}}", x)


def refactor(g: Graph, count: int) -> Dims:
    """Other sizes of the same product."""
    parts = []
    rest = count
    while rest > 1 and len(parts) < 3:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        parts.append(g.rng.choice(divisors))
        rest //= parts[-1]
    parts.append(rest)
    if g.rng.random() < 0.3:
        parts.append(1)
    g.rng.shuffle(parts)
    return tuple(parts)


def reshape(g: Graph) -> None:
    x = g.any()
    count = math.prod(x.dims)
    dims = refactor(g, count) if count else (0, *g.dims(0, 2))
    g.emit(x.dtype, dims, f"reshape({x.name})", x)


def broadcast(g: Graph) -> None:
    x = g.any(most=3)
    room = MOST // max(1, math.prod(x.dims))
    rank = len(x.dims) + g.rng.randint(0, 2)
    at = sorted(g.rng.sample(range(rank), len(x.dims)))
    if g.rng.random() < 0.25:
        g.rng.shuffle(at)
    dims = [0] * rank
    for d in range(rank):
        dims[d] = x.dims[at.index(d)] if d in at else g.rng.choice([1, 2, 3])
    if math.prod(dims) <= MOST and room > 0:
        g.emit(x.dtype, tuple(dims), f"broadcast({x.name}), dimensions={{{c.csv(at)}}}", x)


def reverse(g: Graph) -> None:
    x = g.any(rank=1)
    some = [d for d in range(len(x.dims)) if g.rng.random() < 0.6]
    g.emit(x.dtype, x.dims, f"reverse({x.name}), dimensions={{{c.csv(some)}}}", x)


def concatenate(g: Graph) -> None:
    x = g.any(rank=1)
    d = g.rng.randrange(len(x.dims))
    fits = [n for n in g.nodes if n.dtype == x.dtype and len(n.dims) == len(x.dims)]
    fits = [
        n for n in fits if all(a == b or k == d for k, (a, b) in enumerate(zip(n.dims, x.dims, strict=True)))
    ]
    parts = [x]
    for _ in range(g.rng.randint(0, 3)):
        if g.rng.random() < 0.6:
            parts.append(g.rng.choice(fits))
        else:
            size = g.rng.choice([0, 1, 2, 3])
            parts.append(g.parameter(x.dtype, tuple(size if k == d else n for k, n in enumerate(x.dims))))
    g.rng.shuffle(parts)
    total = sum(p.dims[d] for p in parts)
    dims = tuple(total if k == d else n for k, n in enumerate(x.dims))
    if math.prod(dims) <= 2 * MOST:
        text = f"concatenate({', '.join(p.name for p in parts)}), dimensions={{{d}}}"
        g.emit(x.dtype, dims, text, *parts)


def slices(g: Graph) -> None:
    x = g.any(rank=1)
    parts, sizes = [], []
    for n in x.dims:
        start = g.rng.randint(0, n) if g.rng.random() < 0.7 else 0
        limit = g.rng.randint(start, n) if g.rng.random() < 0.6 else n
        stride = g.rng.choice([1, 1, 2, 3])
        parts.append(
            f"[{start}:{limit}:{stride}]" if stride > 1 or g.rng.random() < 0.3 else f"[{start}:{limit}]"
        )
        sizes.append(-(-(limit - start) // stride))
    g.emit(x.dtype, tuple(sizes), f"slice({x.name}), slice={{{', '.join(parts)}}}", x)


def pad(g: Graph) -> None:
    x = g.any(rank=1)
    z = g.like(x.dtype, ())
    parts, sizes = [], []
    for n in x.dims:
        inner = g.rng.choice([0, 0, 1, 2])
        wide = n + inner * max(0, n - 1)
        low, high = g.rng.randint(-2, 2), g.rng.randint(-2, 2)
        if wide + low + high < 0:
            low = high = 0
        parts.append(f"{low}_{high}_{inner}" if inner or g.rng.random() < 0.5 else f"{low}_{high}")
        sizes.append(wide + low + high)
    if math.prod(sizes) <= MOST:
        g.emit(x.dtype, tuple(sizes), f"pad({x.name}, {z.name}), padding={'x'.join(parts)}", x, z)


INDICES = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]


def start(g: Graph, dtype: str, n: int) -> Node:
    value = g.rng.randint(-3, n + 3) if g.rng.random() < 0.8 else g.rng.choice([-128, 127, 100])
    return g.index(abs(value) if dtype.startswith("u") else value, dtype)


def dynamic_slice(g: Graph) -> None:
    x = g.any(rank=1)
    kind = g.dtype(*INDICES)
    starts = [start(g, kind, n) for n in x.dims]
    cut = tuple(g.rng.randint(0 if g.rng.random() < 0.1 else min(1, n), n) for n in x.dims)
    text = (
        f"dynamic-slice({x.name}, {', '.join(s.name for s in starts)}), dynamic_slice_sizes={{{c.csv(cut)}}}"
    )
    g.emit(x.dtype, cut, text, x, *starts)


def dynamic_update_slice(g: Graph) -> None:
    x = g.any(rank=1)
    kind = g.dtype(*INDICES)
    starts = [start(g, kind, n) for n in x.dims]
    cut = tuple(g.rng.randint(min(1, n), n) for n in x.dims)
    u = g.like(x.dtype, cut)
    text = f"dynamic-update-slice({x.name}, {u.name}, {', '.join(s.name for s in starts)})"
    g.emit(x.dtype, x.dims, text, x, u, *starts)


def iota(g: Graph) -> None:
    dims = g.dims(1)
    dtype = g.dtype(*(d for d in c.ALL if d not in ("pred", "s2", "u2", "f8e8m0fnu")))
    g.emit(dtype, dims, f"iota(), iota_dimension={g.rng.randrange(len(dims))}")


def combiner(g: Graph, dtype: str, *, scatter: bool = False) -> str:
    """A computation of two scalars; for scatters also what is not associative."""
    s = f"{dtype}[]"
    if dtype == "pred":
        ops = ["and", "or", "xor"]
    elif dtype in c.INTEGERS:
        ops = ["add", "multiply", "maximum", "minimum", "and", "or", "xor"]
    elif dtype in c.COMPLEX:
        ops = ["add", "multiply"]
    else:
        ops = ["add", "maximum", "minimum"]
    op = g.rng.choice(ops)
    kinds = ["plain"] * 5 + (
        ["second", "first", "minus", "constant", "affine"] if scatter else ["second_abs"]
    )
    kind = g.rng.choice(kinds)
    if dtype == "pred" or (dtype in c.COMPLEX and kind == "second_abs"):
        kind = "plain" if kind in ("minus", "affine", "second_abs", "constant") else kind
    if kind == "second_abs" and (dtype in c.UNSIGNED or op not in ("add", "maximum")):
        kind = "plain"
    name = f"{kind}_{op}_{dtype}"
    head = f"x = {s} parameter(0)\ny = {s} parameter(1)\n"
    texts = {
        "plain": f"z = {s} {op}(x, y)",
        "second": f"z = {s} copy(y)",
        "first": f"z = {s} copy(x)",
        "minus": f"z = {s} subtract(y, x)",
        "constant": f"z = {s} constant({c.literal(dtype, 3)})",
        "affine": f"k = {s} constant({c.literal(dtype, 2)})\nt = {s} multiply(x, k)\nz = {s} add(t, y)",
        "second_abs": f"z = {s} {op}(x, y)",
    }
    return g.combine(name, head + texts[kind])


NEUTRAL = {"add": 0, "or": 0, "xor": 0, "multiply": 1}


def initial(g: Graph, x: Node, some: list[int], name: str) -> Node:
    """Any value to start from; a neutral one where XLA may leave the combination out, for want of two elements."""
    if some and all(x.dims[d] >= 2 for d in some):
        return g.like(x.dtype, ())
    op = name.split("_")[1]
    value = x.dtype == "pred" and op in ("and", "minimum", "multiply")
    if op in ("maximum", "minimum", "and") and x.dtype != "pred":
        # The value itself.
        zeros = ", ".join(f"[0:{min(n, 1)}]" for n in x.dims)
        if 0 in x.dims:
            return g.like(x.dtype, ())
        if math.prod(x.dims) > 1:
            return limit(g, x.dtype, op)
        first = g.emit(
            x.dtype, tuple(1 for _ in x.dims), f"slice({x.name}), slice={{{zeros}}}", x, keep=False
        )
        return g.emit(x.dtype, (), f"reshape({first.name})", first, keep=False)
    return g.constant(x.dtype, (), np.asarray(value or NEUTRAL.get(op, 0)).astype(c.np_dtype(x.dtype)))


def limit(g: Graph, dtype: str, op: str) -> Node:
    """The neutral element of maximum, minimum and the like."""
    kind = c.np_dtype(dtype)
    if dtype in c.INTEGERS:
        info = ml_dtypes.iinfo(kind)
        value = {"maximum": info.min, "minimum": info.max, "and": -1 if dtype in c.SIGNED else info.max}[op]
    else:
        info = ml_dtypes.finfo(kind)
        value = info.min if op == "maximum" else info.max
    return g.constant(dtype, (), np.asarray(value).astype(kind))


def reduce(g: Graph) -> None:
    x = g.any()
    some = [d for d in range(len(x.dims)) if g.rng.random() < 0.55]
    left = tuple(n for d, n in enumerate(x.dims) if d not in some)
    at = f"dimensions={{{c.csv(some)}}}"
    if g.rng.random() < 0.3 and some and all(x.dims[d] >= 2 for d in some) and x.dtype in EXACT + ["f32"]:
        variadic_reduce(g, x, left, at)
        return
    name = combiner(g, x.dtype)
    z = initial(g, x, some, name)
    g.emit(x.dtype, left, f"reduce({x.name}, {z.name}), {at}, to_apply={name}", x, z)


def variadic_reduce(g: Graph, x: Node, left: Dims, at: str) -> None:
    """The greatest with its index, the least index of equals."""
    other = g.dtype("s32", "u8", "s64", "f32")
    y = g.like(other, x.dims)
    a, b = f"{x.dtype}[]", f"{other}[]"
    name = g.combine(
        f"arg_{x.dtype}_{other}",
        f"x = {a} parameter(0)\ni = {b} parameter(1)\ny = {a} parameter(2)\nj = {b} parameter(3)\n"
        "more = pred[] compare(x, y), direction=GT\nsame = pred[] compare(x, y), direction=EQ\n"
        "less = pred[] compare(i, j), direction=LT\nboth = pred[] and(same, less)\nfirst = pred[] or(more, both)\n"
        f"u = {a} select(first, x, y)\nv = {b} select(first, i, j)\nr = ({a}, {b}) tuple(u, v)",
    )
    z, w = g.like(x.dtype, ()), g.like(other, ())
    shape = f"({g.shape(x.dtype, left)}, {g.shape(other, left)})"
    both = g.raw(
        shape,
        f"reduce({x.name}, {y.name}, {z.name}, {w.name}), {at}, to_apply={name}",
        x.name,
        y.name,
        z.name,
        w.name,
    )
    element(g, both, 0, x.dtype, left)
    element(g, both, 1, other, left)


def element(g: Graph, of: str, index: int, dtype: str, dims: Dims, keep: bool = True) -> Node:
    """get-tuple-element"""
    node = Node(g.fresh(), dtype, dims, (of,))
    # The layout of an element is that of its tuple; left out it is the default, so it is copied from there.
    part = parts(g.lines[of])[index]
    g.lines[node.name] = f"{node.name} = {part} get-tuple-element({of}), index={index}"
    g.sources[node.name] = node.after
    if keep:
        g.nodes.append(node)
    return node


def parts(line: str) -> list[str]:
    """The shapes of a tuple-shaped instruction."""
    text = line.split(" = ", 1)[1]
    depth, start, found = 0, 1, []
    for at, ch in enumerate(text):
        depth += ch in "([{"
        depth -= ch in ")]}"
        if (ch == "," and depth == 1) or depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
        if depth == 0:
            return found
    return found


def opt_barrier(g: Graph) -> None:
    x, y = g.any(), g.any()
    shape = f"({of(g, x)}, {of(g, y)})"
    t = g.raw(shape, f"tuple({x.name}, {y.name})", x.name, y.name)
    b = g.raw(shape, f"opt-barrier({t})", t)
    element(g, b, 0, x.dtype, x.dims)
    element(g, b, 1, y.dtype, y.dims)


def of(g: Graph, node: Node) -> str:
    """The shape of an instruction as it is written."""
    return g.lines[node.name].split(" = ", 1)[1].split(" ", 1)[0]


ALL = [
    (3, unary),
    (5, binary),
    (2, compare),
    (3, select),
    (1, clamp),
    (3, convert),
    (1, bitcast_convert),
    (1, reduce_precision),
    (4, transpose),
    (4, reshape),
    (3, broadcast),
    (2, reverse),
    (3, concatenate),
    (3, slices),
    (3, pad),
    (3, dynamic_slice),
    (3, dynamic_update_slice),
    (1, iota),
    (5, reduce),
    (1, opt_barrier),
]
