"""Random numbers and Monte Carlo."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from programs.registry import Draw, Made, program

GROUP = "random numbers"


@program(GROUP)
def uniform_numbers(draw: Draw) -> Made:
    n = draw.size(1000, 2000000)
    return lambda key: jax.random.uniform(key, (n,)), (draw.key(),)


@program(GROUP)
def normal_numbers(draw: Draw) -> Made:
    n = draw.size(1000, 1000000)
    return lambda key: jax.random.normal(key, (n,)), (draw.key(),)


@program(GROUP)
def gamma_numbers(draw: Draw) -> Made:
    n = draw.size(100, 5000)
    return lambda key, a: jax.random.gamma(key, a), (draw.key(), draw.uniform(n, low=0.5, high=5.0))


@program(GROUP)
def categorical_numbers(draw: Draw) -> Made:
    return jax.random.categorical, (draw.key(), draw.normal(draw.size(10, 2000), draw.size(10, 200)))


@program(GROUP)
def permutation(draw: Draw) -> Made:
    n = draw.size(100, 100000)
    return lambda key: jax.random.permutation(key, n), (draw.key(),)


@program(GROUP)
def dropout_layer(draw: Draw) -> Made:
    def f(key: Any, x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    return f, (draw.key(), draw.normal(draw.size(10, 1000), draw.size(64, 1024)))


@program(GROUP, tolerance=1e-2)
def option_price(draw: Draw) -> Made:
    paths, steps = draw.size(1000, 20000), draw.size(10, 60)

    def f(key: Any, start: Any) -> Any:
        moves = jax.random.normal(key, (steps, paths)) * 0.02
        prices = start * jnp.exp(jnp.cumsum(moves - 0.0002, 0))
        return jnp.maximum(prices.mean(0) - 100, 0).mean()

    return f, (draw.key(), jnp.float32(100.0))


@program(GROUP, tolerance=1e-2)
def area_of_circle(draw: Draw) -> Made:
    n = draw.size(100, 3000)

    def f(key: Any) -> Any:
        def step(total: Any, key: Any) -> Any:
            p = jax.random.uniform(key, (n, 2))
            return total + ((p * p).sum(-1) < 1).sum(), None

        return jax.lax.scan(step, 0, jax.random.split(key, 50))[0]

    return f, (draw.key(),)


@program(GROUP)
def folded_keys(draw: Draw) -> Made:
    n = draw.size(100, 20000)

    def f(key: Any) -> Any:
        return jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (2,)))(jnp.arange(n))

    return f, (draw.key(),)
