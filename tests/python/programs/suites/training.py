"""Whole training steps with hand-written optimizers and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn
from registry import Suite, ints, normal, uniform

from suites.networks import conv, lstm, transformer

suite = add = Suite("training")
Params = Any


def mlp(p: Params, x: jax.Array) -> jax.Array:
    """Two layers."""
    return jnp.tanh(x @ p[0] + p[1]) @ p[2] + p[3]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over the batch."""
    return -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], 1).mean()


def loss(p: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Of the two layers."""
    return cross_entropy(mlp(p, x), y)


def sgd(p: Params, g: Params) -> Params:
    """Plain steps."""
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g)


def momentum(p: Params, g: Params) -> Params:
    """Nesterov from a zero buffer."""
    return jax.tree.map(lambda a, b: a - 0.1 * (b + 0.9 * b), p, g)


def adam(p: Params, g: Params) -> Params:
    """First step of Adam with decay."""

    def one(a: Any, b: Any) -> Any:
        m, v = 0.1 * b, 0.001 * b * b
        return a - 0.01 * ((m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-3) + 0.01 * a)

    return jax.tree.map(one, p, g)


def adagrad(p: Params, g: Params) -> Params:
    """From a small accumulator."""
    return jax.tree.map(lambda a, b: a - 0.1 * b * lax.rsqrt(b * b + 0.1), p, g)


def rmsprop(p: Params, g: Params) -> Params:
    """One step."""
    return jax.tree.map(lambda a, b: a - 0.01 * b / (jnp.sqrt(0.9 + 0.1 * b * b) + 1e-6), p, g)


def clipped(p: Params, g: Params) -> Params:
    """Steps of a bounded global norm."""
    norm = jnp.sqrt(sum((b**2).sum() for b in jax.tree.leaves(g)))
    return jax.tree.map(lambda a, b: a - 0.1 * b * jnp.minimum(1.0, 0.5 / norm), p, g)


def lion(p: Params, g: Params) -> Params:
    """Steps of one size in every coordinate."""
    return jax.tree.map(lambda a, b: a - 0.01 * jnp.sign(jnp.where(jnp.abs(b) < 1e-5, 0, b)), p, g)


def step(optimizer: Callable[[Params, Params], Params]) -> Callable[..., Any]:
    """A training step of the two layers."""

    def run(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
        p = [a, b, c, d]
        value, g = jax.value_and_grad(loss)(p, x, y)
        return value, optimizer(p, g)

    return run


def epochs(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    """Five steps in a scan."""

    def one(p: Any, _: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, x, y)
        return sgd(p, g), value

    return lax.scan(one, [a, b, c, d], None, length=5)


def cnn_step(k: Any, w: Any, x: Any, y: Any) -> Any:
    """A convolution, pooling, a dense layer."""

    def objective(p: Any) -> Any:
        h = nn.relu(conv(x, p[0]))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return cross_entropy(h.reshape(x.shape[0], -1) @ p[1], y)

    return jax.value_and_grad(objective)([k, w])


def lstm_step(w: Any, u: Any, b: Any, x: Any) -> Any:
    """Through time."""
    return jax.grad(lambda p: (lstm(x, *p)[1] ** 2).mean())((w, u, b))


def transformer_step(x: Any, w: Any, o: Any, m: Any, n: Any) -> Any:
    """Through a block."""
    return jax.grad(lambda p: (transformer(x, *p) ** 2).mean())((w, o, m, n))


def embedding_step(e: Any, w: Any, i: Any, y: Any) -> Any:
    """Gradients that are scatters."""
    return jax.grad(lambda p: cross_entropy(p[0][i].mean(1) @ p[1], y))((e, w))


def gan(d: Any, g: Any, z: Any, x: Any) -> Any:
    """Both losses' gradients."""

    def disc(w: Any, v: Any) -> Any:
        return nn.softplus(v @ w).mean()

    d_grad = jax.grad(lambda w: disc(w, z @ g) + disc(w, -x))(d)
    g_grad = jax.grad(lambda w: disc(d, -(z @ w)))(g)
    return d_grad, g_grad


def vae(x: Any, e: Any, d: Any, noise: Any) -> Any:
    """Evidence lower bound and gradients."""

    def objective(p: Any) -> Any:
        mean, log_var = jnp.split(x @ p[0], 2, -1)
        z = mean + jnp.exp(0.5 * log_var) * noise
        kl = -0.5 * (1 + log_var - mean**2 - jnp.exp(log_var)).sum(-1)
        return (((z @ p[1] - x) ** 2).sum(-1) + kl).mean()

    return jax.value_and_grad(objective)((e, d))


def ctc_like(x: Any) -> Any:
    """A forward algorithm over log-probabilities, and its gradient."""

    def objective(v: Any) -> Any:
        lp = nn.log_softmax(v, -1)

        def one(a: Any, row: Any) -> Any:
            shifted = jnp.concatenate([jnp.full((1,), -1e9), a[:-1]])
            return jnp.logaddexp(a, shifted) + row, None

        first = jnp.full(x.shape[1], -1e9).at[0].set(lp[0, 0])
        return -lax.scan(one, first, lp[1:])[0][-1]

    return jax.value_and_grad(objective)(x)


def quantize(w: Any) -> Any:
    """int8 and one scale."""
    s = jnp.abs(w).max() / 127
    return (w / s).round().clip(-127, 127).astype(jnp.int8), s


WEIGHTS = (
    normal(6, 8, scale=0.4),
    normal(8),
    normal(8, 4, scale=0.4),
    normal(4),
    normal(10, 6),
    ints(10, high=4),
)
for optimizer in (sgd, momentum, adam, adagrad, rmsprop, clipped, lion):
    add(f"step_{optimizer.__name__}", step(optimizer), *WEIGHTS, rel=1e-4)
add("epochs_scan", epochs, *WEIGHTS, rel=1e-4)
add(
    "losses",
    lambda a, b: (
        (a - b) ** 2,
        jnp.abs(a - b),
        nn.softplus(-a * b),
        jnp.where(jnp.abs(a - b) < 1, 0.5 * (a - b) ** 2, jnp.abs(a - b) - 0.5),
    ),
    normal(20),
    normal(20),
)
add(
    "cosine_similarity",
    lambda a, b: (a * b).sum(-1) / (jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1)),
    normal(6, 5),
    normal(6, 5),
)
add("contrastive", lambda a, b: cross_entropy(a @ b.T / 0.5, jnp.arange(6)), normal(6, 5), normal(6, 5))
add(
    "cnn_step",
    cnn_step,
    normal(3, 3, 1, 4, scale=0.4),
    normal(64, 5, scale=0.2),
    normal(3, 8, 8, 1),
    ints(3, high=5),
    rel=1e-4,
    cuda=True,
)
add(
    "lstm_step",
    lstm_step,
    normal(3, 16, scale=0.5),
    normal(4, 16, scale=0.5),
    normal(16),
    normal(5, 2, 3),
    rel=1e-4,
)
add(
    "transformer_step",
    transformer_step,
    normal(2, 5, 8),
    normal(8, 24, scale=0.3),
    normal(8, 8, scale=0.3),
    normal(8, 16, scale=0.3),
    normal(16, 8, scale=0.3),
    rel=2e-4,
)
add(
    "embedding_step",
    embedding_step,
    normal(12, 5),
    normal(5, 3),
    ints(6, 4, high=12),
    ints(6, high=3),
    rel=1e-4,
)
add("gan_step", gan, normal(5, 1), normal(3, 5), normal(7, 3), normal(7, 5), rel=1e-4)
add("vae_step", vae, normal(6, 7), normal(7, 4, scale=0.3), normal(2, 7), normal(6, 2), rel=1e-4)
add("forward_algorithm", ctc_like, normal(7, 4), rel=1e-4)
add(
    "logistic_regression_newton",
    lambda x, y: jnp.linalg.solve(
        jax.hessian(lambda w: nn.softplus(-(x @ w) * y).mean() + (w**2).sum())(jnp.zeros(4)), x.T @ y
    ),
    normal(20, 4),
    uniform(20),
    rel=1e-4,
)
add(
    "ema_schedule",
    lambda t, p, e: (e * 0.99 + p * 0.01, 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(t / 100, 1)))),
    uniform(high=150),
    normal(5),
    normal(5),
)
add(
    "quantize_weights",
    quantize,
    normal(8, 8),
)
