"""Random operations with attributes of their own for a `Graph`: products, windows, indices, sorts, control flow."""

from __future__ import annotations

import math

import cases as c
import movement as m
import numpy as np
from graph import MOST, Dims, Graph, Node

SUMS = ["s8", "s32", "u8", "u32", "s64", "f16", "bf16", "f32", "f64", "c64"]


def dot(g: Graph) -> None:
    x = g.any(*SUMS, rank=1, most=4)
    rank = len(x.dims)
    roles = [g.rng.choice("bcf") for _ in range(rank)]
    batch = [d for d in range(rank) if roles[d] == "b"]
    sums = [d for d in range(rank) if roles[d] == "c"]
    g.rng.shuffle(batch)
    g.rng.shuffle(sums)
    free = g.dims(0, 2)
    tags = [("b", d) for d in batch] + [("c", d) for d in sums] + [("f", k) for k in range(len(free))]
    g.rng.shuffle(tags)
    if len(tags) > 5:
        return
    dims = tuple(free[k] if tag == "f" else x.dims[k] for tag, k in tags)
    out = tuple(
        [x.dims[d] for d in batch]
        + [x.dims[d] for d in range(rank) if roles[d] == "f"]
        + [free[k] for tag, k in tags if tag == "f"]
    )
    if math.prod(out) > MOST or math.prod(dims) > MOST:
        return
    y = g.like(x.dtype, dims)
    result = x.dtype
    if g.rng.random() < 0.25 and x.dtype in ("s8", "bf16", "f16"):
        result = "s32" if x.dtype == "s8" else "f32"
    at = {
        tag: [i for k in group for i, t in enumerate(tags) if t == (tag, k)]
        for tag, group in (("b", batch), ("c", sums))
    }
    more = [
        f"lhs_batch_dims={{{c.csv(batch)}}}, rhs_batch_dims={{{c.csv(at['b'])}}}" if batch else "",
        f"lhs_contracting_dims={{{c.csv(sums)}}}, rhs_contracting_dims={{{c.csv(at['c'])}}}",
    ]
    g.emit(result, out, f"dot({x.name}, {y.name}), {', '.join(t for t in more if t)}", x, y)


def window(
    g: Graph, dims: Dims, *, plain: bool = False, positive: bool = False, padded: bool = True
) -> tuple[str, Dims] | None:
    """A window over those dimensions and how many places it has."""
    low_pad = 0 if positive else -1
    rows: dict[str, list[str]] = {
        "size": [],
        "stride": [],
        "pad": [],
        "lhs_dilate": [],
        "rhs_dilate": [],
        "rhs_reversal": [],
    }
    out = []
    for n in dims:
        size, stride = g.rng.randint(1, 3), g.rng.choice([1, 1, 2, 3])
        low, high = (g.rng.randint(low_pad, 2), g.rng.randint(low_pad, 2)) if padded else (0, 0)
        base, wide = (1, 1) if plain else (g.rng.choice([1, 1, 2]), g.rng.choice([1, 1, 2]))
        spread = 0 if n == 0 else (n - 1) * base + 1
        if spread + low + high < 0:
            return None
        reach = (size - 1) * wide + 1
        rows["size"].append(str(size))
        rows["stride"].append(str(stride))
        rows["pad"].append(f"{low}_{high}")
        rows["lhs_dilate"].append(str(base))
        rows["rhs_dilate"].append(str(wide))
        rows["rhs_reversal"].append(str(g.rng.choice([0, 0, 1])))
        out.append(max(0, (spread + low + high - reach) // stride + 1) if spread + low + high >= reach else 0)
    if plain:
        del rows["lhs_dilate"], rows["rhs_dilate"]
    return " ".join(f"{k}={'x'.join(v)}" for k, v in rows.items()), tuple(out)


def strip(text: str, key: str) -> str:
    """Without one of the rows."""
    return " ".join(part for part in text.split() if not part.startswith(key + "="))


def reduce_window(g: Graph) -> None:
    x = g.any(rank=1, most=4)
    made = window(g, x.dims)
    if made is None or math.prod(made[1]) > MOST:
        return
    text, out = made
    name = m.combiner(g, x.dtype)
    z = m.initial(g, x, [], name)
    if "multiply" in name and x.dtype not in c.INTEGERS:
        return
    text = strip(text, "rhs_reversal")
    g.emit(x.dtype, out, f"reduce-window({x.name}, {z.name}), window={{{text}}}, to_apply={name}", x, z)


def select_and_scatter(g: Graph) -> None:
    x = g.any("s32", "f32", "bf16", "f64", rank=1, most=3)
    # Which of several equals a padded window selects is left open, and XLA:CPU itself differs.
    made = window(g, x.dims, plain=True, positive=True, padded=False)
    if made is None or 0 in made[1] or 0 in x.dims:
        return
    text, out = made
    u, z = g.like(x.dtype, out), g.like(x.dtype, ())
    s = f"{x.dtype}[]"
    way = g.rng.choice(["GE", "LE", "GT"])
    pick = g.combine(
        f"pick_{way}_{x.dtype}",
        f"x = {s} parameter(0)\ny = {s} parameter(1)\nz = pred[] compare(x, y), direction={way}",
    )
    put = g.combine(f"plain_add_{x.dtype}", f"x = {s} parameter(0)\ny = {s} parameter(1)\nz = {s} add(x, y)")
    text = strip(text, "rhs_reversal")
    call = (
        f"select-and-scatter({x.name}, {u.name}, {z.name}), window={{{text}}}, select={pick}, scatter={put}"
    )
    g.emit(x.dtype, x.dims, call, x, u, z)


def convolution(g: Graph) -> None:
    dtype = g.dtype("f32", "f32", "f32", "f64", "bf16", "f16", "s32", "s8", "c64")
    rank = g.rng.choice([0, 1, 1, 2, 2, 3])
    space = tuple(g.rng.choice([1, 2, 3, 5, 6]) for _ in range(rank))
    made = window(g, space)
    if made is None:
        return
    text, out_space = made
    sizes = tuple(int(k) for k in text.split()[0][5:].split("x")) if rank else ()
    groups, batch_groups = 1, 1
    kind = g.rng.random()
    if kind < 0.3:
        groups = g.rng.choice([2, 3])
    elif kind < 0.5:
        batch_groups = g.rng.choice([2, 3])
    inputs, outputs = g.rng.choice([1, 2, 3]) * groups, g.rng.choice([1, 2, 3]) * groups * batch_groups
    batch = g.rng.choice([1, 2, 3]) * batch_groups

    def arrange(first: tuple[str, int], second: tuple[str, int], dims: Dims) -> tuple[str, Dims]:
        tags = [first, second, *((str(k), n) for k, n in enumerate(dims))]
        g.rng.shuffle(tags)
        return "".join(t for t, _ in tags), tuple(n for _, n in tags)

    lhs_names, lhs = arrange(("b", batch), ("f", inputs), space)
    rhs_names, rhs = arrange(("i", inputs // groups), ("o", outputs), sizes)
    out_names, out = arrange(("b", batch // batch_groups), ("f", outputs), out_space)
    if math.prod(out) > MOST or math.prod(lhs) > MOST:
        return
    # Padding times infinity is what the library makes of it, so operands are finite.
    x, k = (g.parameter(dtype, dims, g.small(dtype, dims)) for dims in (lhs, rhs))
    more = [f"window={{{text}}}"] if rank else []
    more.append(f"dim_labels={lhs_names}_{rhs_names}->{out_names}")
    more += [f"feature_group_count={groups}"] if groups > 1 else []
    more += [f"batch_group_count={batch_groups}"] if batch_groups > 1 else []
    g.emit(dtype, out, f"convolution({x.name}, {k.name}), {', '.join(more)}", x, k)


def indices(g: Graph, dims: Dims, at: int, bounds: list[int]) -> Node:
    """An index array whose dimension `at` runs over `bounds`; some are out of range."""
    seed = c.Stream(g.rng.randrange(1 << 31))
    kind = g.dtype("s32", "s32", "s64", "u32", "s8", "u8")
    full = list(dims)
    if at < len(dims):
        assert full[at] == len(bounds)
    x = np.zeros(tuple(full), np.int64)
    for k, n in enumerate(bounds):
        take = (slice(None),) * at + ((k,) if at < len(dims) else ())
        part = x[take]
        low = 0 if kind.startswith("u") else -2
        x[take] = seed.integers(low, n + 3, part.shape) if part.shape else seed.integers(low, n + 3)
    return g.parameter(kind, tuple(full), x.astype(c.np_dtype(kind)))


def gather_numbers(g: Graph, x: Node) -> dict[str, object]:
    """The dimension numbers that gather and scatter share."""
    rank = len(x.dims)
    batching = [d for d in range(rank) if g.rng.random() < 0.2 and x.dims[d] > 0]
    rest = [d for d in range(rank) if d not in batching]
    mapped = [d for d in rest if g.rng.random() < 0.7]
    g.rng.shuffle(mapped)
    collapsed = [d for d in rest if g.rng.random() < 0.4 and x.dims[d] > 0]
    sizes = [
        1 if d in batching or d in collapsed else g.rng.randint(min(1, x.dims[d]), x.dims[d])
        for d in range(rank)
    ]
    window_dims = [sizes[d] for d in rest if d not in collapsed]
    batch = [x.dims[d] for d in batching] + list(g.dims(0, 2))
    order = list(range(len(batch)))
    g.rng.shuffle(order)
    batch = [batch[k] for k in order]
    places = [order.index(k) for k in range(len(batching))]
    at = g.rng.randint(0, len(batch))
    index_dims = [*batch[:at], len(mapped), *batch[at:]]
    implicit = len(mapped) == 1 and g.rng.random() < 0.4
    if implicit:
        index_dims, at = batch, len(batch)
    else:
        places = [p if p < at else p + 1 for p in places]
    total = len(batch) + len(window_dims)
    offset = sorted(g.rng.sample(range(total), len(window_dims)))
    out, w, b = [], iter(window_dims), iter(batch)
    for d in range(total):
        out.append(next(w) if d in offset else next(b))
    return {
        "batching": batching, "mapped": mapped, "collapsed": collapsed, "sizes": sizes, "index_dims": tuple(index_dims),
        "at": at, "offset": offset, "out": tuple(out), "places": places,
    }  # fmt: skip


def gather(g: Graph) -> None:
    x = g.any(rank=1, most=4)
    n = gather_numbers(g, x)
    if math.prod(n["out"]) > MOST or len(n["index_dims"]) > 4:
        return
    i = indices(g, n["index_dims"], n["at"], [x.dims[d] for d in n["mapped"]])
    more = [
        f"offset_dims={{{c.csv(n['offset'])}}}",
        f"collapsed_slice_dims={{{c.csv(n['collapsed'])}}}",
        f"start_index_map={{{c.csv(n['mapped'])}}}",
        f"index_vector_dim={n['at']}",
        f"slice_sizes={{{c.csv(n['sizes'])}}}",
    ]
    if n["batching"]:
        more += [
            f"operand_batching_dims={{{c.csv(n['batching'])}}}",
            f"start_indices_batching_dims={{{c.csv(n['places'])}}}",
        ]
    g.emit(x.dtype, n["out"], f"gather({x.name}, {i.name}), {', '.join(more)}", x, i)


def scatter(g: Graph) -> None:
    x = g.any(rank=1, most=4)
    n = gather_numbers(g, x)
    if math.prod(n["out"]) > MOST or len(n["index_dims"]) > 4:
        return
    if not n["mapped"]:
        # Without indices XLA keeps one of several updates, whatever the computation is.
        return
    i = indices(g, n["index_dims"], n["at"], [x.dims[d] for d in n["mapped"]])
    u = g.like(x.dtype, n["out"])
    more = [
        f"update_window_dims={{{c.csv(n['offset'])}}}",
        f"inserted_window_dims={{{c.csv(n['collapsed'])}}}",
        f"scatter_dims_to_operand_dims={{{c.csv(n['mapped'])}}}",
        f"index_vector_dim={n['at']}",
    ]
    if n["batching"]:
        more += [
            f"input_batching_dims={{{c.csv(n['batching'])}}}",
            f"scatter_indices_batching_dims={{{c.csv(n['places'])}}}",
        ]
    if g.rng.random() < 0.2 and x.dtype != "pred":
        y, v = g.like("s32", x.dims), g.like("s32", n["out"])
        a, b = f"{x.dtype}[]", "s32[]"
        name = g.combine(
            f"pair_{x.dtype}",
            f"x = {a} parameter(0)\ni = {b} parameter(1)\ny = {a} parameter(2)\nj = {b} parameter(3)\n"
            f"s = {a} add(x, y)\nt = {b} subtract(i, j)\nr = ({a}, {b}) tuple(s, t)",
        )
        shape = f"({g.shape(x.dtype, x.dims)}, {g.shape('s32', x.dims)})"
        names = (x.name, y.name, i.name, u.name, v.name)
        both = g.raw(shape, f"scatter({', '.join(names)}), {', '.join(more)}, to_apply={name}", *names)
        m.element(g, both, 0, x.dtype, x.dims)
        m.element(g, both, 1, "s32", x.dims)
        return
    name = m.combiner(g, x.dtype, scatter=True)
    g.emit(
        x.dtype, x.dims, f"scatter({x.name}, {i.name}, {u.name}), {', '.join(more)}, to_apply={name}", x, i, u
    )


def sort(g: Graph) -> None:
    x = g.any(*m.NUMBERS, rank=1, most=3)
    d = g.rng.randrange(len(x.dims))
    count = g.rng.choice([1, 1, 2, 3])
    others = [g.like(g.dtype("s32", "f32", "u8", "pred", "bf16"), x.dims) for _ in range(count - 1)]
    everything = [x, *others]
    way = g.rng.choice(["LT", "GT"])
    lines = "".join(
        f"a{k} = {n.dtype}[] parameter({2 * k})\nb{k} = {n.dtype}[] parameter({2 * k + 1})\n"
        for k, n in enumerate(everything)
    )
    kind = g.rng.choice(["plain", "total", "mod", "second"])
    if kind == "second" and (count < 2 or others[0].dtype == "pred"):
        kind = "plain"
    if x.dtype not in c.INTEGERS:
        # NaN is in no other order.
        kind = "total"
    elif kind == "total":
        kind = "plain"
    texts = {
        "plain": f"z = pred[] compare(a0, b0), direction={way}",
        "total": f"z = pred[] compare(a0, b0), direction={way}, type=TOTALORDER",
        "mod": f"k = {x.dtype}[] constant(3)\nu = {x.dtype}[] remainder(a0, k)\nv = {x.dtype}[] remainder(b0, k)\n"
        f"z = pred[] compare(u, v), direction={way}",
        "second": f"e = pred[] compare(a0, b0), direction=EQ\nf = pred[] compare(a0, b0), direction={way}\n"
        "h = pred[] compare(a1, b1), direction=LT\nz = pred[] select(e, h, f)",
    }
    name = g.combine(f"less_{kind}_{way}_" + "_".join(n.dtype for n in everything), lines + texts[kind])
    more = f"dimensions={{{d}}}, is_stable=true, to_apply={name}"
    names = [n.name for n in everything]
    if count == 1:
        g.emit(x.dtype, x.dims, f"sort({x.name}), {more}", x)
        return
    shape = "(" + ", ".join(g.shape(n.dtype, n.dims) for n in everything) + ")"
    all_of = g.raw(shape, f"sort({', '.join(names)}), {more}", *names)
    for k, n in enumerate(everything):
        m.element(g, all_of, k, n.dtype, n.dims)


def map_(g: Graph) -> None:
    x = g.any("s32", "u8", "f32", "f64", "s64")
    y = g.like(x.dtype, x.dims)
    s = f"{x.dtype}[]"
    name = g.combine(
        f"mapped_{x.dtype}",
        f"x = {s} parameter(0)\ny = {s} parameter(1)\nd = {s} subtract(x, y)\nm = {s} multiply(d, x)\n"
        "p = pred[] compare(x, y), direction=LT\n" + f"z = {s} select(p, m, d)",
    )
    at = c.csv(range(len(x.dims)))
    g.emit(x.dtype, x.dims, f"map({x.name}, {y.name}), dimensions={{{at}}}, to_apply={name}", x, y)


def topk(g: Graph) -> None:
    x = g.any("f32", "s32", "bf16", rank=1, most=2)
    if x.dims[-1] == 0:
        return
    k = g.rng.randint(1, x.dims[-1])
    dims = (*x.dims[:-1], k)
    shape = f"({g.shape(x.dtype, dims)}, {g.shape('s32', dims)})"
    both = g.raw(shape, f"topk({x.name}), k={k}, largest={g.rng.choice(['true', 'true', 'false'])}", x.name)
    m.element(g, both, 0, x.dtype, dims)
    m.element(g, both, 1, "s32", dims)


ALL = [
    (4, dot), (3, reduce_window), (2, select_and_scatter), (4, convolution), (4, gather), (4, scatter), (3, sort),
    (2, map_), (1, topk),
]  # fmt: skip
