"""scan, while_loop, fori_loop, cond, switch, map, associative_scan and programs built of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from registry import Suite, ints, normal, uniform, value

suite = add = Suite("control")


def sieve(n: jax.Array) -> jax.Array:
    """Primes below 64."""
    flags = jnp.ones(64, bool).at[:2].set(False)
    index = jnp.arange(64)

    def strike(i: Any, f: Any) -> Any:
        return jnp.where(f[i] & (index % i == 0) & (index > i), False, f)

    return lax.fori_loop(2, n, strike, flags)


def mandelbrot(width: jax.Array) -> jax.Array:
    """Escape times on a small grid."""
    x = jnp.linspace(-2, 0.6, 24)[None, :] * width
    y = jnp.linspace(-1.1, 1.1, 16)[:, None]

    def step(_: Any, s: Any) -> Any:
        re, im, n = s
        alive = re * re + im * im < 4
        new_re, new_im = re * re - im * im + x, 2 * re * im + y
        return jnp.where(alive, new_re, re), jnp.where(alive, new_im, im), n + alive

    start = (jnp.zeros((16, 24)), jnp.zeros((16, 24)), jnp.zeros((16, 24), jnp.int32))
    return lax.fori_loop(0, 12, step, start)[2]


def life(board: jax.Array) -> jax.Array:
    """Conway's game, six generations."""

    def step(b: Any, _: Any) -> Any:
        n = sum(jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        b = ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)
        return b, b.sum()

    return lax.scan(step, board, None, length=6)


def bisect(c: jax.Array) -> jax.Array:
    """Roots of x^3 + x = c."""

    def step(s: Any) -> Any:
        low, high, k = s
        mid = (low + high) / 2
        up = mid**3 + mid < c
        return jnp.where(up, mid, low), jnp.where(up, high, mid), k + 1

    return lax.while_loop(lambda s: s[2] < 30, step, (jnp.zeros_like(c), jnp.ones_like(c) * 5, 0))[0]


def edit_distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Levenshtein distance by rows."""
    n = b.shape[0]

    def row(previous: Any, x: Any) -> Any:
        def cell(left: Any, item: Any) -> Any:
            diagonal, up, y = item
            d = jnp.minimum(jnp.minimum(left + 1, up + 1), diagonal + (x != y))
            return d, d

        first = previous[0] + 1
        _, rest = lax.scan(cell, first, (previous[:-1], previous[1:], b))
        return jnp.concatenate([first[None], rest]), None

    return lax.scan(row, jnp.arange(n + 1), a)[0][-1]


def runge_kutta(y: jax.Array) -> jax.Array:
    """The Lorenz system, 20 steps."""

    def field(v: Any) -> Any:
        return jnp.stack([10 * (v[1] - v[0]), v[0] * (28 - v[2]) - v[1], v[0] * v[1] - 8 / 3 * v[2]])

    def step(v: Any, _: Any) -> Any:
        h = 0.005
        k1 = field(v)
        k2 = field(v + h / 2 * k1)
        k3 = field(v + h / 2 * k2)
        k4 = field(v + h * k3)
        v = v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return v, v

    return lax.scan(step, y, None, length=20)


def kalman(z: jax.Array) -> Any:
    """A one-dimensional filter."""

    def step(s: Any, m: Any) -> Any:
        x, p = s
        p = p + 0.1
        k = p / (p + 0.5)
        x, p = x + k * (m - x), (1 - k) * p
        return (x, p), (x, p)

    return lax.scan(step, (0.0, 1.0), z)[1]


def viterbi(start: jax.Array, move: jax.Array, emit: jax.Array) -> jax.Array:
    """The best path through a small hidden Markov model."""

    def forward(s: Any, e: Any) -> Any:
        scores = s[:, None] + move
        return scores.max(0) + e, scores.argmax(0)

    last, back = lax.scan(forward, start + emit[0], emit[1:])
    end = last.argmax()
    _, path = lax.scan(lambda s, b: (b[s], s), end, back, reverse=True)
    return path


def bubble(x: jax.Array) -> jax.Array:
    """Sorting by swaps in nested loops."""
    n = x.shape[0]

    def inner(j: Any, v: Any) -> Any:
        a, b = v[j], v[j + 1]
        return v.at[j].set(jnp.minimum(a, b)).at[j + 1].set(jnp.maximum(a, b))

    return lax.fori_loop(0, n, lambda i, v: lax.fori_loop(0, n - 1, inner, v), x)


add("fori_sum", lambda x: lax.fori_loop(0, 9, lambda i, s: s + x[i] * i, 0.0), normal(9))
add(
    "fori_dynamic_bounds",
    lambda x, n: lax.fori_loop(n, n + 3, lambda i, s: s * 0.5 + x[i], 0.0),
    normal(9),
    ints(high=5),
)
add(
    "while_collatz",
    lambda n: lax.while_loop(
        lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
    ),
    ints(low=20, high=30),
)
add(
    "while_gcd",
    lambda a, b: lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b)),
    ints(low=50, high=500),
    ints(low=50, high=500),
)
add("scan_cumsum", lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3), x), normal(7, 3))
add("scan_reverse", lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c), 1.0, x, reverse=True), normal(9))
add("scan_unrolled", lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c), 1.0, x, unroll=4), normal(10))
add(
    "scan_nested",
    lambda x: lax.scan(lambda c, r: lax.scan(lambda d, v: (d + v, d), c, r), 0.0, x),
    normal(4, 5),
)
add("scan_no_input", lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=5), normal(4))
add(
    "scan_pytree",
    lambda a, b: lax.scan(
        lambda c, v: ({"h": c["h"] + v[0], "n": c["n"] + 1}, v[1] * c["h"]),
        {"h": jnp.zeros(3), "n": 0},
        (a, b),
    ),
    normal(5, 3),
    normal(5, 3),
)
add("cond_true", lambda p, x: lax.cond(p > 0, lambda v: v * 2, lambda v: v - 1, x), value(1.0), normal(5))
add("cond_false", lambda p, x: lax.cond(p > 0, lambda v: v * 2, lambda v: v - 1, x), value(-1.0), normal(5))
add(
    "switch",
    lambda i, x: [lax.switch(i + k, [jnp.sin, jnp.cos, jnp.abs], x) for k in range(-1, 4)],
    ints(high=2),
    normal(5),
)
add("map_function", lambda x: lax.map(lambda v: jnp.outer(v, v).sum() + v[0], x), normal(6, 3))
add("map_batched", lambda x: lax.map(lambda v: jnp.sin(v).sum(), x, batch_size=2), normal(6, 3))
add(
    "associative_scan",
    lambda x: (lax.associative_scan(jnp.add, x), lax.associative_scan(jnp.maximum, x, reverse=True)),
    normal(13, 2),
)
add(
    "linear_recurrence",
    lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b)),
    uniform(11),
    normal(11),
)
add(
    "custom_reduce",
    lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + 0.0, (0,)),
    uniform(6, 4, low=0.5, high=1.5),
)
add(
    "reduce_window_custom",
    lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 2), (2, 1), ((1, 1), (0, 1))),
    normal(7, 6),
)
add("sieve", sieve, ints(low=8, high=9))
add("mandelbrot", mandelbrot, value(1.0))
add("game_of_life", life, ints(12, 12, high=2))
add("bisection", bisect, uniform(7, low=0.5, high=20))
add("edit_distance", edit_distance, ints(9, high=4), ints(7, high=4))
add("runge_kutta", runge_kutta, uniform(3, low=1, high=2), rel=1e-4)
add("kalman_filter", kalman, normal(15))
add("viterbi", viterbi, normal(4), normal(4, 4), normal(9, 4))
add("bubble_sort", bubble, normal(8))
add(
    "power_iteration",
    lambda a: lax.fori_loop(0, 20, lambda i, v: a @ v / jnp.linalg.norm(a @ v), jnp.ones(5)),
    uniform(5, 5),
    rel=1e-4,
)
add(
    "conjugate_gradient",
    lambda b: jax.scipy.sparse.linalg.cg(lambda v: 3 * v - jnp.roll(v, 1) - jnp.roll(v, -1), b, maxiter=20)[
        0
    ],
    normal(12),
    rel=1e-3,
)
add(
    "logistic_map_x64",
    lambda x: lax.scan(lambda v, _: (3.2 * v * (1 - v),) * 2, x, None, length=30),
    uniform(4, dtype="float64", low=0.2, high=0.8),
    x64=True,
)
