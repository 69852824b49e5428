#!/usr/bin/env python3
"""Time loops over few elements of hlorun against XLA:CPU, in turn in one process.

  python benches/python/scalar_loops.py [--only PATTERN] [--seconds 0.6] [--json OUT] [--list] [--interpreted]

Every case is a JAX function whose time goes into a loop over scalars or small arrays, a computation that a
reduction, sort or map calls, or a differential equation solver. The HLO is that which JAX hands to XLA. Printed
per case: the medians of both and of hlorun's interpreter (`--interpreted`), and the ratio to XLA's, below 1 hlorun
is faster. Results are compared before they are timed. Needs jax, and diffrax for the solvers.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import numpy as np
from engines import outputs_of
from timing import DifferentResultsError, alternate, compare

import hlorun

Array = Any
CASES: list[Case] = []


@dataclass
class Case:
    """A function and its arguments."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 1e-4


def case(*arguments: Any, tolerance: float = 1e-4) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function to the cases."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(function.__name__, function, arguments, tolerance))
        return function

    return add


def normal(*dims: int) -> Array:
    """Standard normal f32."""
    return np.random.default_rng(0).standard_normal(dims, dtype=np.float32)


@case(np.int32(4000))
def collatz(n: Array) -> Array:
    """Steps of all numbers below n until they are 1."""

    def steps(m: Array) -> Array:
        def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
            x, count = state
            return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), count + 1

        return jax.lax.while_loop(lambda state: state[0] != 1, body, (m, jnp.int32(0)))[1]

    return jax.lax.fori_loop(1, n, lambda i, total: total + steps(i), jnp.int32(0))


@case(np.float32(7.0))
def newton(x: Array) -> Array:
    """Square roots of 100,000 numbers, each by Newton's method to convergence."""

    def root(i: Array, total: Array) -> Array:
        a = x + i.astype(jnp.float32)

        def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
            _, y = state
            return y, 0.5 * (y + a / y)

        def go_on(state: tuple[Array, Array]) -> Array:
            return jnp.abs(state[0] - state[1]) > 1e-3

        return total + jax.lax.while_loop(go_on, body, (jnp.float32(0), a))[1] * 1e-3

    return jax.lax.fori_loop(0, 100_000, root, jnp.float32(0))


@case(np.uint32(12345))
def congruential(seed: Array) -> Array:
    """A million steps of a linear congruential generator."""
    step = lambda _, x: x * np.uint32(1664525) + np.uint32(1013904223)  # noqa: E731
    return jax.lax.fori_loop(0, 1_000_000, step, seed)


@case(np.uint32(12345))
def xorshift(seed: Array) -> Array:
    """A million steps of xorshift, and how many of them are in the unit circle."""

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, inside = state
        x = x ^ (x << 13)
        x = x ^ (x >> 17)
        x = x ^ (x << 5)
        u = (x & 0xFFFF).astype(jnp.float32) / 65536.0
        v = (x >> 16).astype(jnp.float32) / 65536.0
        return x, inside + (u * u + v * v < 1.0)

    return jax.lax.fori_loop(0, 1_000_000, step, (seed, jnp.int32(0)))[1]


@case(np.array([1.0, 1.0, 1.0], np.float32), tolerance=float("inf"))
def lorenz(state: Array) -> Array:
    """60,000 steps of a Runge-Kutta method on a chaotic system of three equations."""

    def slope(s: Array) -> Array:
        x, y, z = s
        return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    def step(_: Array, s: Array) -> Array:
        h = 0.001
        k1 = slope(s)
        k2 = slope(s + 0.5 * h * k1)
        k3 = slope(s + 0.5 * h * k2)
        k4 = slope(s + h * k3)
        return s + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)

    return jax.lax.fori_loop(0, 15_000, step, state)


@case(np.eye(3, dtype=np.float32), np.array([0.1, 0.2, 0.05], np.float32))
def rigid_body(rotation: Array, omega: Array) -> Array:
    """A body that turns: a 3x3 product a step."""
    inertia = jnp.array([1.0, 2.0, 3.0], jnp.float32)

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        r, w = state
        h = 1e-4
        w = w + h * jnp.cross(inertia * w, w) / inertia
        a, b, c = w
        zero = jnp.zeros_like(a)
        skew = jnp.array([[zero, -c, b], [c, zero, -a], [-b, a, zero]])
        return r + h * (r @ skew), w

    return jax.lax.fori_loop(0, 20_000, step, (rotation, omega))


@case(normal(500, 2))
def kalman(observed: Array) -> Array:
    """A Kalman filter of four states and two observations."""
    f = jnp.eye(4) + 0.1 * jnp.eye(4, k=2)
    h = jnp.eye(2, 4)
    q, r = 0.01 * jnp.eye(4), 0.1 * jnp.eye(2)

    def step(carry: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], Array]:
        x, p = carry
        x, p = f @ x, f @ p @ f.T + q
        s = h @ p @ h.T + r
        determinant = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = jnp.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / determinant
        k = p @ h.T @ inverse
        x = x + k @ (z - h @ x)
        p = (jnp.eye(4) - k @ h) @ p
        return (x, p), x

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observed)[1]


@case(
    np.random.default_rng(1).integers(0, 4, 200).astype(np.int32),
    np.random.default_rng(2).integers(0, 4, 200).astype(np.int32),
)
def levenshtein(a: Array, b: Array) -> Array:
    """The edit distance of two strings, cell by cell."""
    n = b.shape[0]

    def row(i: Array, line: Array) -> Array:
        def cell(j: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            line, diagonal = state
            above = line[j + 1]
            cost = jnp.where(a[i] == b[j], 0, 1)
            best = jnp.minimum(jnp.minimum(above, line[j]) + 1, diagonal + cost)
            return line.at[j + 1].set(best), above

        first = line[0]
        return jax.lax.fori_loop(0, n, cell, (line.at[0].set(i + 1), first))[0]

    return jax.lax.fori_loop(0, a.shape[0], row, jnp.arange(n + 1, dtype=jnp.int32))[n]


@case(np.float32(0.3))
def bandit(start: Array) -> Array:
    """20,000 pulls of the best of 16 arms by an upper confidence bound."""

    def pull(t: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        counts, sums, x = state
        bound = sums / counts + jnp.sqrt(2.0 * jnp.log(t.astype(jnp.float32) + 2.0) / counts)
        arm = jnp.argmax(bound)
        x = 3.9 * x * (1.0 - x)
        reward = x + arm.astype(jnp.float32) * 0.01
        return counts.at[arm].add(1.0), sums.at[arm].add(reward), x

    return jax.lax.fori_loop(0, 20_000, pull, (jnp.ones(16), jnp.zeros(16), start))[0]


@case(normal(64, 4096), np.arange(64 * 4096, dtype=np.int32).reshape(64, 4096))
def general_reduce(x: Array, index: Array) -> Array:
    """The largest element and its place, by a combiner of pairs."""

    def combine(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    return jax.lax.reduce((x, index), (np.float32(-np.inf), np.int32(0)), combine, (1,))


@case(normal(50_000), normal(50_000))
def sort_by_comparator(x: Array, y: Array) -> Array:
    """Pairs by the sum of their elements' magnitudes."""
    key = jnp.abs(x) + jnp.abs(y)
    return jax.lax.sort((key, x, y), num_keys=2)


@case(normal(20_000))
def mapped(x: Array) -> Array:
    """A scalar function of each element, one after the other."""
    return jax.lax.map(lambda v: jnp.where(v > 0, jnp.sin(v), v * v - 1.0), x)


@case(normal(20_000))
def running(x: Array) -> Array:
    """A recurrence along a line."""

    def step(carry: tuple[Array, Array], v: Array) -> tuple[tuple[Array, Array], Array]:
        level, trend = carry
        new = 0.8 * v + 0.2 * (level + trend)
        return (new, 0.1 * (new - level) + 0.9 * trend), new + trend

    return jax.lax.scan(step, (jnp.float32(0), jnp.float32(0)), x)[1]


@case(np.array([0.01, 0.0, 0.02, 0.0], np.float32), tolerance=float("inf"))
def cart_pole(state: Array) -> Array:
    """20,000 steps of a pole on a cart with a linear policy."""

    def step(_: Array, s: Array) -> Array:
        x, dx, angle, turn = s
        force = jnp.where(angle + 0.3 * turn + 0.05 * x > 0, 10.0, -10.0)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + 0.05 * turn**2 * sine) / 1.1
        spin = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
        speed = push - 0.05 * spin * cosine / 1.1
        new = jnp.stack([x + 0.02 * dx, dx + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * spin])
        return jnp.where(jnp.abs(new[2]) > 0.2, state, new)

    return jax.lax.fori_loop(0, 20_000, step, state)


def diffrax_cases() -> None:
    """Solvers of diffrax, where it is installed."""
    try:
        import diffrax
    except ImportError:
        return

    @case(np.array([10.0, 5.0], np.float32), tolerance=1e-2)
    def lotka_volterra(start: Array) -> Array:
        """Adaptive steps of the method of Tsitouras."""

        def slope(_: Array, y: Array, __: Any) -> Array:
            prey, hunters = y
            return jnp.stack([1.1 * prey - 0.4 * prey * hunters, 0.1 * prey * hunters - 0.4 * hunters])

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            diffrax.Tsit5(),
            t0=0.0,
            t1=100.0,
            dt0=0.01,
            y0=start,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4),
            max_steps=4096,
        )
        return solution.ys


def measure(one: Case, seconds: float, interpreted: bool) -> dict[str, Any]:
    """Takes turns for some seconds."""
    compiled = jax.jit(one.function)
    module = hlorun.parse(compiled.lower(*one.arguments).as_text("hlo"))
    executable = hlorun.compile(module)
    slow = hlorun.compile(module, disable=["machine-code"])
    buffers = [jax.device_put(x) for x in one.arguments]
    calls: dict[str, Callable[[], Any]] = {
        "hlorun": lambda: executable(*one.arguments),
        "xla": lambda: jax.block_until_ready(compiled(*buffers)),
    }
    if interpreted:
        calls["interpreted"] = lambda: slow(*one.arguments)
    for _ in range(2):
        ours, theirs = outputs_of(calls["hlorun"]()), jax.tree.leaves(calls["xla"]())
        if one.tolerance < np.inf:
            try:
                compare(ours, theirs, one.tolerance)
            except DifferentResultsError as error:
                sys.exit(f"{one.name}: {error}")
    runs = alternate(calls, seconds, least=0.0, samples=7)
    found: dict[str, Any] = {name: 1e3 * statistics.median(times) for name, times in runs.items()}
    best = {name: min(times) for name, times in runs.items()}
    return {"name": one.name, **found, "ratio": best["hlorun"] / best["xla"]}


def main() -> None:
    """Measure and print a table."""
    diffrax_cases()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*")
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--interpreted", action="store_true")
    options = parser.parse_args()
    chosen = [one for one in CASES if fnmatch.fnmatch(one.name, options.only)]
    if options.list:
        print("\n".join(one.name for one in chosen))
        return
    print(f"{'case':20} {'hlorun ms':>10} {'XLA ms':>10} {'ratio':>7}")
    results = []
    for one in chosen:
        found = measure(one, options.seconds, options.interpreted)
        results.append(found)
        line = f"{one.name:20} {found['hlorun']:10.3f} {found['xla']:10.3f} {found['ratio']:7.2f}"
        if options.interpreted:
            line += f"   interpreted {found['interpreted']:10.3f}"
        print(line, flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
