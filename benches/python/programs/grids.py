"""Loops over grids and particles: waves, flows, spins, circuits of quantum bits, transport."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "loops over grids"


@program(GROUP)
def electromagnetic_waves(draw: Draw) -> Made:
    n, m, steps = draw.size(40, 400), draw.size(40, 400), draw.size(10, 80)

    def f(e: Any, hx: Any, hy: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            e, hx, hy = state
            hx = hx.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
            hy = hy.at[:-1].add(0.5 * (e[1:] - e[:-1]))
            curl = (hy[1:-1, 1:-1] - hy[:-2, 1:-1]) - (hx[1:-1, 1:-1] - hx[1:-1, :-2])
            return e.at[1:-1, 1:-1].add(0.5 * curl), hx, hy

        return jax.lax.fori_loop(0, steps, step, (e, hx, hy))

    return f, (draw.normal(n, m), draw.normal(n, m), draw.normal(n, m))


@program(GROUP)
def lattice_boltzmann(draw: Draw) -> Made:
    n, m, steps = draw.size(24, 200), draw.size(24, 200), draw.size(5, 20)
    moves = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
    directions = moves.astype(np.float32)
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)[:, None, None]

    def f(flow: Any) -> Any:
        def step(_: Any, flow: Any) -> Any:
            density = flow.sum(0)
            speed = jnp.einsum("qxy,qd->dxy", flow, directions) / density
            along = jnp.einsum("qd,dxy->qxy", directions, speed)
            rest = weights * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * (speed**2).sum(0))
            flow = flow - (flow - rest) * 0.6
            return jnp.stack([jnp.roll(flow[q], moves[q], (0, 1)) for q in range(9)])

        return jax.lax.fori_loop(0, steps, step, flow)

    return f, (draw.uniform(9, n, m, low=1.0, high=2.0),)


@program(GROUP)
def ising_checkerboard(draw: Draw) -> Made:
    n, steps = draw.size(32, 256, 2), draw.size(5, 40)

    def f(key: Any, spins: Any) -> Any:
        parity = jnp.add.outer(jnp.arange(n), jnp.arange(n)) % 2

        def step(i: Any, spins: Any) -> Any:
            for color in (0, 1):
                near = sum(jnp.roll(spins, shift, axis) for axis in (0, 1) for shift in (1, -1))
                chance = jax.random.uniform(jax.random.fold_in(key, i * 2 + color), spins.shape)
                flips = (parity == color) & (chance < jnp.exp(-0.8 * near * spins))
                spins = jnp.where(flips, -spins, spins)
            return spins

        return jax.lax.fori_loop(0, steps, step, spins)

    return f, (draw.key(), np.where(draw.normal(n, n) > 0, 1, -1).astype(np.float32))


@program(GROUP)
def smoothed_particles(draw: Draw) -> Made:
    n, steps = draw.size(50, 600), draw.size(2, 10)

    def f(x: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, v = state
            gap = x[:, None] - x[None]
            square = (gap**2).sum(-1)
            reach = 0.1
            near = square < reach * reach
            density = jnp.where(near, (reach * reach - square) ** 3, 0).sum(1) * 1e4
            pressure = density - 1
            slope = jnp.where(near & (square > 0), (reach - jnp.sqrt(square + 1e-9)) ** 2, 0)
            push = (pressure[:, None] + pressure[None]) / (2 * density[None] + 1e-3) * slope
            force = -push[..., None] * gap / (jnp.sqrt(square) + 1e-3)[..., None]
            v = v + 0.001 * force.sum(1)
            return x + 0.001 * v, v

        return jax.lax.fori_loop(0, steps, step, (x, v))

    return f, (draw.uniform(n, 3), draw.normal(n, 3, scale=0.01))


@program(GROUP)
def quantum_circuit(draw: Draw) -> Made:
    n = draw.size(8, 15)

    def f(angles: Any) -> Any:
        state = jnp.zeros((2,) * n, jnp.complex64).at[(0,) * n].set(1)
        for layer in range(2):
            for bit in range(n):
                half = angles[layer * n + bit] / 2
                c, s = jnp.cos(half), jnp.sin(half)
                if layer == 0:
                    turn = jnp.array([[c, -1j * s], [-1j * s, c]])
                else:
                    turn = jnp.array([[c, -s], [s, c]]).astype(jnp.complex64)
                state = jnp.moveaxis(jnp.tensordot(turn, state, ([1], [bit])), 0, bit)
            for bit in range(n - 1):
                phase = jnp.ones((2, 2), jnp.complex64).at[1, 1].set(-1)
                dims = [1] * n
                dims[bit] = dims[bit + 1] = 2
                state = state * phase.reshape(dims)
        return jnp.abs(state.reshape(-1)) ** 2

    return f, (draw.uniform(2 * n, high=3.0),)


@program(GROUP)
def sinkhorn(draw: Draw) -> Made:
    n, m, steps = draw.size(40, 400), draw.size(40, 400), draw.size(10, 60)

    def f(cost: Any) -> Any:
        kernel = -cost / 0.1

        def step(_: Any, state: Any) -> Any:
            _rows, columns = state
            rows = -jax.nn.logsumexp(kernel + columns[None], 1)
            return rows, -jax.nn.logsumexp(kernel + rows[:, None], 0)

        rows, columns = jax.lax.fori_loop(0, steps, step, (jnp.zeros(n), jnp.zeros(m)))
        return jnp.exp(kernel + rows[:, None] + columns[None])

    return f, (draw.uniform(n, m),)


@program(GROUP)
def option_trees(draw: Draw) -> Made:
    batch, n = draw.size(5, 60), draw.size(50, 300)

    def f(spot: Any, strike: Any) -> Any:
        up = jnp.exp(0.3 * jnp.sqrt(1 / n))
        p = (1 - 1 / up) / (up - 1 / up)
        at = jnp.arange(n + 1)

        def price(spot: Any, strike: Any) -> Any:
            def step(i: Any, value: Any) -> Any:
                held = p * jnp.roll(value, -1) + (1 - p) * value
                return jnp.maximum(held, strike - spot * up ** (2.0 * at - (n - 1 - i)))

            return jax.lax.fori_loop(0, n, step, jnp.maximum(strike - spot * up ** (2 * at - n), 0))[0]

        return jax.vmap(price)(spot, strike)

    return f, (draw.uniform(batch, low=80, high=120), draw.uniform(batch, low=80, high=120))


@program(GROUP)
def heston_paths(draw: Draw) -> Made:
    paths, steps = draw.size(1000, 20000), draw.size(10, 60)

    def f(key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            price, variance = state
            z = jax.random.normal(key, (2, paths))
            v = jnp.maximum(variance, 0)
            spread = jnp.sqrt(v * 0.01)
            price = price * jnp.exp(-0.5 * v * 0.01 + spread * z[0])
            change = 2 * (0.04 - v) * 0.01 + 0.3 * spread * (-0.7 * z[0] + 0.714 * z[1])
            return (price, variance + change), None

        start = (jnp.full(paths, 100.0), jnp.full(paths, 0.04))
        price = jax.lax.scan(step, start, jax.random.split(key, steps))[0][0]
        return jnp.maximum(price - 100, 0).mean()

    return f, (draw.key(),)
