"""jax.random: keys, bits and distributions; the bits are exact."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import random
from registry import Suite, ints, key, normal, uniform


def orthogonal(k: jax.Array) -> jax.Array:
    """Q Q^T."""
    q = random.orthogonal(k, 4)
    return q @ q.T


suite = add = Suite("randomness")

add("split_fold", lambda k: (random.split(k, 3), random.fold_in(k, 7)), key(), cuda=True)
add(
    "bits",
    lambda k: (random.bits(k, (9,)), random.bits(k, (5,), "uint8"), random.bits(k, (5,), "uint16")),
    key(),
    cuda=True,
)
add("uniform", lambda k: random.uniform(k, (4, 5), minval=-1, maxval=2), key(), cuda=True)
add("normal", lambda k: random.normal(k, (4, 5)), key(), cuda=True, rel=1e-5)
add("randint", lambda k: random.randint(k, (20,), -5, 12), key(), cuda=True)
add("bernoulli", lambda k: random.bernoulli(k, 0.3, (20,)), key(), cuda=True)
add(
    "permutation",
    lambda k: (random.permutation(k, 20), random.permutation(k, jnp.arange(12).reshape(4, 3))),
    key(),
    cuda=True,
)
add(
    "choice",
    lambda k, p: (
        random.choice(k, 10, (6,)),
        random.choice(k, 8, (4,), False),
        random.choice(k, 6, (5,), p=p / p.sum()),
    ),
    key(),
    uniform(6),
)
add("categorical", lambda k, x: random.categorical(k, x, axis=-1), key(), normal(7, 5), cuda=True)
add(
    "exponential_gumbel",
    lambda k: (random.exponential(k, (9,)), random.gumbel(k, (9,)), random.laplace(k, (9,))),
    key(),
    rel=1e-4,
)
add(
    "cauchy_logistic",
    lambda k: (random.cauchy(k, (9,)), random.logistic(k, (9,)), random.rademacher(k, (9,))),
    key(),
    rel=1e-3,
)
add("truncated_normal", lambda k: random.truncated_normal(k, -1.0, 2.0, (12,)), key(), rel=1e-4)
add("gamma_beta", lambda k: (random.gamma(k, 2.5, (6,)), random.beta(k, 2.0, 3.0, (6,))), key(), rel=1e-3)
add("poisson", lambda k: random.poisson(k, 4.0, (12,)), key())
add("dirichlet", lambda k: random.dirichlet(k, jnp.array([1.0, 2.0, 3.0]), (4,)), key(), rel=1e-3)
add(
    "multivariate_normal",
    lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3) * 2, (5,)),
    key(),
    rel=1e-4,
)
add("orthogonal", orthogonal, key(), rel=1e-4)
add(
    "ball_and_maxwell",
    lambda k: (random.ball(k, 3, shape=(4,)), random.maxwell(k, (5,)), random.rayleigh(k, 1.0, (5,))),
    key(),
    rel=1e-3,
)
add(
    "dropout",
    lambda k, x: jnp.where(random.bernoulli(k, 0.8, x.shape), x / 0.8, 0),
    key(),
    normal(6, 7),
    cuda=True,
)
add(
    "typed_keys",
    lambda s: random.uniform(random.split(random.key(s), 2)[1], (5,)),
    ints(high=99),
)
add(
    "rbg_keys",
    lambda s: random.bits(random.key(s, impl="rbg"), (9,)),
    ints(high=99),
)
add(
    "unsafe_rbg",
    lambda s: random.normal(random.key(s, impl="unsafe_rbg"), (9,)),
    ints(high=99),
    rel=1e-5,
)
add("uniform_bf16", lambda k: random.uniform(k, (12,), dtype=jnp.bfloat16), key())
add("normal_f16", lambda k: random.normal(k, (12,), dtype=jnp.float16), key())
add(
    "uniform_f64",
    lambda k: (random.uniform(k, (6,), dtype="float64"), random.bits(k, (4,), "uint64")),
    key(),
    x64=True,
)
add("monte_carlo_pi", lambda k: (jnp.linalg.norm(random.uniform(k, (500, 2)), axis=1) < 1).mean() * 4, key())
add("random_walk", lambda k: jnp.cumsum(random.rademacher(k, (30,))), key())
add(
    "metropolis",
    lambda k: jax.lax.scan(
        lambda x, q: (
            (jnp.where(random.uniform(q) < jnp.exp(-0.5 * ((x + 0.5) ** 2 - x**2)), x + 0.5, x - 0.25),) * 2
        ),
        0.0,
        random.split(k, 20),
    ),
    key(),
    rel=1e-4,
)
