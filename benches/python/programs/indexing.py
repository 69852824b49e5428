"""Gathers, scatters, sums by segment, sorts, and what is made of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "gather, scatter, sort"


@program(GROUP)
def embedding_bag(draw: Draw) -> Made:
    rows, width = draw.size(1000, 50000), draw.size(4, 128)
    return lambda table, at: table[at].sum(1), (
        draw.normal(rows, width),
        draw.integers(rows, draw.size(100, 4000), draw.size(2, 20)),
    )


@program(GROUP)
def gather_short_rows(draw: Draw) -> Made:
    rows = draw.size(1000, 100000)
    return lambda x, at: x[at], (
        draw.normal(rows, draw.size(1, 6)),
        draw.integers(rows, draw.size(1000, 200000)),
    )


@program(GROUP)
def segment_sums(draw: Draw) -> Made:
    n, segments = draw.size(5000, 200000), draw.size(10, 5000)

    def f(x: Any, at: Any) -> Any:
        return jax.ops.segment_sum(x, at, segments)

    return f, (draw.normal(n, draw.size(1, 64)), draw.integers(segments, n))


@program(GROUP)
def segment_softmax(draw: Draw) -> Made:
    n, segments = draw.size(2000, 50000), draw.size(10, 2000)

    def f(x: Any, at: Any) -> Any:
        e = jnp.exp(x - jax.ops.segment_max(x, at, segments)[at])
        return e / jax.ops.segment_sum(e, at, segments)[at]

    return f, (draw.normal(n), draw.integers(segments, n))


@program(GROUP)
def histogram(draw: Draw) -> Made:
    n = draw.size(10000, 1000000)

    def f(x: Any) -> Any:
        return jnp.zeros(256, jnp.int32).at[jnp.clip(x * 32 + 128, 0, 255).astype(jnp.int32)].add(1)

    return f, (draw.normal(n),)


@program(GROUP)
def sort_values(draw: Draw) -> Made:
    return jnp.sort, (draw.normal(draw.size(1000, 1000000)),)


@program(GROUP)
def argsort_rows(draw: Draw) -> Made:
    return lambda x: jnp.argsort(x, -1), (draw.normal(draw.size(10, 1000), draw.size(20, 1000)),)


@program(GROUP)
def sort_integers_with_values(draw: Draw) -> Made:
    n = draw.size(1000, 300000)
    return lambda k, v: jax.lax.sort((k, v), num_keys=1), (draw.integers(1 << 30, n), draw.normal(n))


@program(GROUP)
def top_k(draw: Draw) -> Made:
    k = draw.size(1, 64)
    return lambda x: jax.lax.top_k(x, k), (draw.normal(draw.size(4, 200), draw.size(500, 30000)),)


@program(GROUP)
def top_p_filter(draw: Draw) -> Made:
    def f(x: Any) -> Any:
        order = jnp.sort(x, -1)[:, ::-1]
        mass = jnp.cumsum(jax.nn.softmax(order, -1), -1)
        last = jnp.take_along_axis(order, (mass < 0.9).sum(-1, keepdims=True), -1)
        return jnp.where(x < last, -jnp.inf, x)

    return f, (draw.normal(draw.size(1, 16), draw.size(1000, 50000)),)


@program(GROUP)
def non_maximum_suppression(draw: Draw) -> Made:
    n = draw.size(50, 400)

    def f(boxes: Any, scores: Any) -> Any:
        order = jnp.argsort(-scores)
        low, high = boxes[order, :2], boxes[order, :2] + boxes[order, 2:]
        cut = jnp.maximum(jnp.minimum(high[:, None], high[None]) - jnp.maximum(low[:, None], low[None]), 0)
        shared = cut.prod(-1)
        area = (high - low).prod(-1)
        overlaps = shared / (area[:, None] + area[None] - shared) > 0.5

        def step(i: Any, keep: Any) -> Any:
            return jnp.where(keep[i], keep & ~(overlaps[i] & (jnp.arange(n) > i)), keep)

        return jax.lax.fori_loop(0, n, step, jnp.ones(n, bool))

    return f, (draw.uniform(n, 4, low=0.1), draw.uniform(n))


@program(GROUP, tolerance=1e-2)
def k_means(draw: Draw) -> Made:
    n, k, d = draw.size(1000, 20000), draw.size(4, 32), draw.size(2, 16)

    def f(x: Any, centers: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            near = jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), -1)
            count = jax.ops.segment_sum(jnp.ones(n), near, k)
            return jax.ops.segment_sum(x, near, k) / jnp.maximum(count, 1)[:, None]

        return jax.lax.fori_loop(0, 3, step, centers)

    x = draw.normal(n, d)
    return f, (x, x[:k] * 1.01)


@program(GROUP)
def nearest_neighbours(draw: Draw) -> Made:
    n, m, d = draw.size(500, 5000), draw.size(10, 200), draw.size(3, 64)

    def f(x: Any, q: Any) -> Any:
        gap = (q * q).sum(-1)[:, None] - 2 * q @ x.T + (x * x).sum(-1)
        return jax.lax.top_k(-gap, 8)[0]

    return f, (draw.normal(n, d), draw.normal(m, d))


@program(GROUP)
def decision_trees(draw: Draw) -> Made:
    n, trees, depth, d = draw.size(200, 5000), draw.size(10, 100), 6, 16

    def f(x: Any, feature: Any, limit: Any, leaf: Any) -> Any:
        at = jnp.zeros((n, trees), jnp.int32)
        row, tree = jnp.arange(n)[:, None], jnp.arange(trees)[None]
        for _ in range(depth):
            at = 2 * at + 1 + (x[row, feature[tree, at]] > limit[tree, at])
        return leaf[tree, at - (2**depth - 1)].sum(-1)

    nodes = 2**depth - 1
    return f, (
        draw.normal(n, d),
        draw.integers(d, trees, nodes),
        draw.normal(trees, nodes),
        draw.normal(trees, nodes + 1),
    )


@program(GROUP, needs="jraph")
def jraph_graph_net(draw: Draw) -> Made:
    import jraph

    nodes, edges, d = draw.size(50, 1000), draw.size(200, 5000), draw.size(8, 64)
    graph = jraph.GraphsTuple(
        nodes=draw.normal(nodes, d),
        edges=draw.normal(edges, d),
        senders=draw.integers(nodes, edges),
        receivers=draw.integers(nodes, edges),
        n_node=np.array([nodes], np.int32),
        n_edge=np.array([edges], np.int32),
        globals=draw.normal(1, d),
    )
    weights = [draw.normal(4 * d, d, scale=d**-0.5), draw.normal(4 * d, d, scale=d**-0.5)]

    def f(graph: Any, weights: Any) -> Any:
        net = jraph.GraphNetwork(
            lambda e, s, r, g: jax.nn.relu(jnp.concatenate([e, s, r, g], -1) @ weights[0]),
            lambda n, s, r, g: jax.nn.relu(jnp.concatenate([n, s, r, g], -1) @ weights[1]),
        )
        made = net(net(graph))
        return made.nodes, made.edges

    return f, (graph, weights)


@program(GROUP)
def cumulative_sums(draw: Draw) -> Made:
    return lambda x: (jnp.cumsum(x, -1), jnp.cumsum(x, 0)), (
        draw.normal(draw.size(20, 2000), draw.size(20, 2000)),
    )


@program(GROUP)
def unique_counts(draw: Draw) -> Made:
    n = draw.size(1000, 50000)
    return lambda x: jnp.unique(x, return_counts=True, size=64, fill_value=-1), (draw.integers(64, n),)


@program(GROUP)
def short_extremes(draw: Draw) -> Made:
    n, k = draw.size(5000, 200000), draw.size(2, 10)
    return lambda x: (x.argmax(-1), x.max(-1), x.sum(-1)), (draw.normal(n, k),)
