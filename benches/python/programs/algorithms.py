"""Algorithms: graphs, bits, sorting networks, searches, populations, roots, mixtures, special functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from programs.registry import Draw, Made, program

GROUP = "algorithms"


@program(GROUP)
def bellman_ford(draw: Draw) -> Made:
    nodes, edges, steps = draw.size(100, 4000), draw.size(1000, 20000), draw.size(10, 60)

    def f(start: Any, end: Any, weight: Any) -> Any:
        def step(_: Any, distance: Any) -> Any:
            return distance.at[end].min(distance[start] + weight)

        return jax.lax.fori_loop(0, steps, step, jnp.full(nodes, jnp.inf).at[0].set(0))

    return f, (draw.integers(nodes, edges), draw.integers(nodes, edges), draw.uniform(edges))


@program(GROUP)
def union_find(draw: Draw) -> Made:
    nodes = draw.size(200, 8000)
    edges = nodes * 5 // 4

    def f(a: Any, b: Any) -> Any:
        def step(state: Any) -> Any:
            label, _ = state
            least = jnp.minimum(label[a], label[b])
            new = label.at[a].min(least).at[b].min(least)
            new = new[new]
            return new, (new != label).any()

        return jax.lax.while_loop(lambda c: c[1], step, (jnp.arange(nodes), True))[0]

    return f, (draw.integers(nodes, edges), draw.integers(nodes, edges))


@program(GROUP)
def page_rank(draw: Draw) -> Made:
    nodes, edges, steps = draw.size(200, 8000), draw.size(2000, 60000), draw.size(5, 40)

    def f(start: Any, end: Any) -> Any:
        degree = jnp.maximum(jnp.zeros(nodes).at[start].add(1.0), 1)

        def step(_: Any, rank: Any) -> Any:
            return 0.15 / nodes + 0.85 * jax.ops.segment_sum((rank / degree)[start], end, nodes)

        return jax.lax.fori_loop(0, steps, step, jnp.full(nodes, 1 / nodes))

    return f, (draw.integers(nodes, edges), draw.integers(nodes, edges))


@program(GROUP)
def graph_attention(draw: Draw) -> Made:
    nodes, edges = draw.size(100, 2000), draw.size(1000, 16000)
    d, width = draw.size(16, 128), draw.size(8, 64)

    def f(x: Any, w: Any, a: Any, b: Any, start: Any, end: Any) -> Any:
        h = x @ w
        score = jax.nn.leaky_relu((h @ a)[start] + (h @ b)[end], 0.2)
        weight = jnp.exp(score - jax.ops.segment_max(score, end, nodes)[end])
        total = jax.ops.segment_sum(weight, end, nodes)
        return jax.ops.segment_sum((weight / total[end])[:, None] * h[start], end, nodes)

    return f, (
        draw.normal(nodes, d),
        draw.normal(d, width, scale=d**-0.5),
        draw.normal(width),
        draw.normal(width),
        draw.integers(nodes, edges),
        draw.integers(nodes, edges),
    )


@program(GROUP)
def checksums(draw: Draw) -> Made:
    rows, length = draw.size(8, 256), draw.size(100, 1500)

    def f(x: Any) -> Any:
        def step(state: Any, byte: Any) -> Any:
            state = state ^ byte
            for _ in range(8):
                state = jnp.where(state & 1, (state >> 1) ^ jnp.uint32(0xEDB88320), state >> 1)
            return state, None

        start = jnp.full(rows, 0xFFFFFFFF, jnp.uint32)
        return ~jax.lax.scan(step, start, x.T.astype(jnp.uint32))[0]

    return f, (draw.integers(256, rows, length).astype(np.uint8),)


@program(GROUP)
def hamming_distances(draw: Draw) -> Made:
    n, m, words = draw.size(40, 500), draw.size(40, 500), draw.size(2, 32)

    def bits(n: int) -> Any:
        return draw.rng.integers(0, 2**32, (n, words), dtype=np.uint32)

    return lambda a, b: jax.lax.population_count(a[:, None] ^ b[None]).sum(-1), (bits(n), bits(m))


@program(GROUP)
def integer_divisions(draw: Draw) -> Made:
    n = draw.size(10000, 500000)
    return lambda a, b: (a // b, a % b, (a * 7 + 3) % 97), (
        draw.integers(2**31 - 1, n) - 2**30,
        draw.integers(999, n) + 1,
    )


@program(GROUP)
def othello_moves(draw: Draw) -> Made:
    boards = draw.size(50, 2000)

    def ray(mine: Any, other: Any, shift: int) -> Any:
        x = jnp.roll(mine, shift) & other
        for _ in range(5):
            x = x | (jnp.roll(x, shift) & other)
        return jnp.roll(x, shift)

    def moves(mine: Any, other: Any, empty: Any) -> Any:
        shifts = (1, -1, 10, -10, 9, -9, 11, -11)
        return sum((ray(mine, other, shift) & empty).astype(jnp.int32) for shift in shifts) > 0

    return lambda board: jax.vmap(moves)(board == 1, board == -1, board == 0), (
        draw.integers(3, boards, 100) - 1,
    )


@program(GROUP)
def sorting_network(draw: Draw) -> Made:
    levels = draw.size(7, 12)

    def f(x: Any) -> Any:
        at = jnp.arange(2**levels)
        for level in range(1, levels + 1):
            for stage in reversed(range(level)):
                other = at ^ (1 << stage)
                y = x[other]
                rises = (at & (1 << level)) == 0
                x = jnp.where(rises == (at < other), jnp.minimum(x, y), jnp.maximum(x, y))
        return x

    return f, (draw.normal(2**levels),)


@program(GROUP)
def search_and_interpolate(draw: Draw) -> Made:
    n, knots = draw.size(2000, 100000), draw.size(50, 5000)
    return lambda x, at, y: (jnp.interp(x, at, y), jnp.searchsorted(at, x)), (
        draw.uniform(n),
        np.sort(draw.uniform(knots)),
        draw.normal(knots),
    )


@program(GROUP)
def percentiles(draw: Draw) -> Made:
    return lambda x: jnp.percentile(x, jnp.array([5.0, 50.0, 95.0]), axis=0), (
        draw.normal(draw.size(50, 2000), draw.size(20, 500)),
    )


@program(GROUP)
def genetic_search(draw: Draw) -> Made:
    population, d, steps = draw.size(64, 1000), draw.size(5, 60), draw.size(5, 30)
    kept = population // 4

    def f(key: Any, x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            keys = jax.random.split(jax.random.fold_in(key, i), 3)
            best = x[jnp.argsort((x**2).sum(1))[:kept]]
            a = best[jax.random.randint(keys[0], (population,), 0, kept)]
            b = best[jax.random.randint(keys[1], (population,), 0, kept)]
            return jnp.where(jax.random.bernoulli(keys[2], 0.5, a.shape), a, b) * 0.99

        return jax.lax.fori_loop(0, steps, step, x)

    return f, (draw.key(), draw.normal(population, d))


@program(GROUP)
def stein_particles(draw: Draw) -> Made:
    n, d, steps = draw.size(40, 300), draw.size(2, 8), draw.size(5, 20)

    def f(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            gap = x[:, None] - x[None]
            kernel = jnp.exp(-(gap**2).sum(-1))
            return x + 0.1 * ((2 * kernel[..., None] * gap).sum(1) - kernel @ x) / n

        return jax.lax.fori_loop(0, steps, step, x)

    return f, (draw.normal(n, d),)


@program(GROUP)
def gaussian_mixture(draw: Draw) -> Made:
    n, d, k, steps = draw.size(200, 5000), draw.size(2, 16), draw.size(2, 12), draw.size(5, 20)

    def f(x: Any, mean: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            mean, variance, share = state
            score = -0.5 * (((x[:, None] - mean) ** 2) / variance).sum(-1)
            p = jax.nn.softmax(score - 0.5 * jnp.log(variance).sum(-1) + jnp.log(share), -1)
            count = p.sum(0)
            mean = (p.T @ x) / count[:, None]
            variance = (p.T @ (x**2)) / count[:, None] - mean**2 + 1e-3
            return mean, variance, count / count.sum()

        return jax.lax.fori_loop(0, steps, step, (mean, jnp.ones((k, d)), jnp.full(k, 1 / k)))

    return f, (draw.normal(n, d), draw.normal(k, d))


@program(GROUP)
def polynomial_roots(draw: Draw) -> Made:
    batch, degree = draw.size(10, 200), draw.size(3, 8)

    def f(coefficients: Any) -> Any:
        def roots(c: Any) -> Any:
            def step(_: Any, z: Any) -> Any:
                return z - jnp.polyval(c, z) / jnp.prod(z[:, None] - z[None] + jnp.eye(degree), 1)

            z = jax.lax.fori_loop(0, 50, step, (0.4 + 0.9j) ** jnp.arange(degree))
            return jnp.sort(jnp.abs(z))

        return jax.vmap(roots)(coefficients)

    ones = np.ones((batch, 1), np.float32)
    return f, (np.concatenate([ones, draw.normal(batch, degree)], 1),)


@program(GROUP)
def cube_roots_each_until_done(draw: Draw) -> Made:
    def root(x: Any) -> Any:
        def step(c: Any) -> Any:
            return c - (c * c * c - x) / (3 * c * c)

        return jax.lax.while_loop(lambda c: jnp.abs(c * c * c - x) > 1e-5 * x, step, x)

    return jax.vmap(root), (draw.uniform(draw.size(500, 20000), low=1, high=50),)


@program(GROUP)
def tridiagonal_solve(draw: Draw) -> Made:
    batch, n = draw.size(4, 100), draw.size(20, 300)
    return jax.lax.linalg.tridiagonal_solve, (
        draw.uniform(batch, n, high=0.1),
        draw.uniform(batch, n, low=2, high=3),
        draw.uniform(batch, n, high=0.1),
        draw.normal(batch, n, draw.size(1, 8)),
    )


@program(GROUP)
def singular_values(draw: Draw) -> Made:
    n = draw.size(10, 100)
    return lambda x: jnp.linalg.svd(x, full_matrices=False)[1], (draw.normal(2 * n, n),)


@program(GROUP, tolerance=1e-2)
def quasi_newton(draw: Draw) -> Made:
    from jax.scipy.optimize import minimize

    def valley(x: Any) -> Any:
        return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()

    return lambda x: minimize(valley, x, method="BFGS", options={"maxiter": 20}).x, (
        draw.normal(draw.size(3, 12), scale=0.1) + 1,
    )


@program(GROUP)
def tensor_network(draw: Draw) -> Made:
    i, j, k, m = draw.size(4, 10), draw.size(4, 10), draw.size(4, 10), draw.size(4, 10)
    return lambda a, b, c, e: jnp.einsum("aijk,bjlk,clim,dmab->cd", a, b, c, e), (
        draw.normal(4, i, j, k),
        draw.normal(5, j, 7, k),
        draw.normal(9, 7, i, m),
        draw.normal(11, m, 4, 5),
    )


@program(GROUP)
def long_convolution(draw: Draw) -> Made:
    n, k = draw.size(2000, 50000), draw.size(8, 128)
    return lambda x, k: (jnp.convolve(x, k, "same"), jnp.correlate(x, k, "valid")), (
        draw.normal(n),
        draw.normal(k),
    )


@program(GROUP)
def special_functions(draw: Draw) -> Made:
    def f(x: Any) -> Any:
        inverses = special.erfinv(x / 10), special.ndtri(x / 10)
        return special.gammaln(x), special.digamma(x), special.i0e(x), *inverses

    return f, (draw.uniform(draw.size(2000, 50000), low=0.1, high=9),)


@program(GROUP)
def incomplete_integrals(draw: Draw) -> Made:
    n = draw.size(300, 8000)
    return lambda a, b, x: (special.betainc(a, b, x), special.gammainc(a, x * 5)), (
        draw.uniform(n, low=0.5, high=5),
        draw.uniform(n, low=0.5, high=5),
        draw.uniform(n, low=0.01, high=0.99),
    )
