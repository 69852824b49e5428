"""Sequences: state spaces, alignments, hidden states, beams, advantages, gated nets, attention by blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "loops over sequences"


@program(GROUP)
def selective_scan(draw: Draw) -> Made:
    batch, steps, d, n = draw.size(1, 4), draw.size(40, 300), draw.size(16, 128, 8), draw.size(4, 16, 4)

    def f(x: Any, rate: Any, a: Any, b: Any, c: Any) -> Any:
        def step(h: Any, inputs: Any) -> Any:
            x, rate, b, c = inputs
            h = h * jnp.exp(rate[..., None] * a) + (rate * x)[..., None] * b[:, None, :]
            return h, jnp.einsum("bdn,bn->bd", h, c)

        inputs = tuple(v.swapaxes(0, 1) for v in (x, rate, b, c))
        return jax.lax.scan(step, jnp.zeros((batch, d, n)), inputs)[1]

    return f, (
        draw.normal(batch, steps, d),
        draw.uniform(batch, steps, d, high=0.1),
        -draw.uniform(d, n),
        draw.normal(batch, steps, n),
        draw.normal(batch, steps, n),
    )


@program(GROUP)
def associative_scan(draw: Draw) -> Made:
    dims = draw.size(1, 8), draw.size(50, 1000), draw.size(8, 128)

    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return lambda a, b: jax.lax.associative_scan(join, (a, b), axis=1)[1], (
        draw.uniform(*dims),
        draw.normal(*dims),
    )


@program(GROUP)
def attention_by_blocks(draw: Draw) -> Made:
    heads, queries, blocks, d = draw.size(1, 8), draw.size(16, 256), draw.size(2, 16), draw.size(16, 64, 16)

    def f(q: Any, k: Any, v: Any) -> Any:
        def step(state: Any, block: Any) -> Any:
            most, total, out = state
            k, v = block
            score = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(d)
            more = jnp.maximum(most, score.max(-1))
            p = jnp.exp(score - more[..., None])
            keep = jnp.exp(most - more)
            out = out * keep[..., None] + jnp.einsum("hqk,hkd->hqd", p, v)
            return (more, total * keep + p.sum(-1), out), None

        zero = jnp.zeros((heads, queries))
        start = (zero - 1e30, zero, jnp.zeros((heads, queries, d)))
        split = tuple(x.reshape(heads, blocks, 64, d).swapaxes(0, 1) for x in (k, v))
        _, total, out = jax.lax.scan(step, start, split)[0]
        return out / total[..., None]

    return f, (
        draw.normal(heads, queries, d),
        draw.normal(heads, 64 * blocks, d),
        draw.normal(heads, 64 * blocks, d),
    )


@program(GROUP, needs="optax")
def ctc_gradient(draw: Draw) -> Made:
    import optax

    batch, frames, letters = draw.size(1, 8), draw.size(40, 120), draw.size(10, 60)

    def f(logits: Any, labels: Any) -> Any:
        def loss(logits: Any) -> Any:
            return optax.ctc_loss(logits, jnp.zeros((batch, frames)), labels, jnp.zeros(labels.shape)).sum()

        return jax.grad(loss)(logits)

    return f, (
        draw.normal(batch, frames, letters),
        1 + draw.integers(letters - 1, batch, draw.size(5, 18)),
    )


@program(GROUP)
def time_warping(draw: Draw) -> Made:
    n, m = draw.size(20, 200), draw.size(20, 200)

    def f(x: Any, y: Any) -> Any:
        def row(previous: Any, costs: Any) -> Any:
            def cell(left: Any, inputs: Any) -> Any:
                cost, up, corner = inputs
                best = cost + jnp.minimum(jnp.minimum(up, corner), left)
                return best, best

            rest = jax.lax.scan(cell, jnp.inf, (costs, previous[1:], previous[:-1]))[1]
            return jnp.concatenate([jnp.array([jnp.inf]), rest]), None

        start = jnp.concatenate([jnp.zeros(1), jnp.full(m, jnp.inf)])
        return jax.lax.scan(row, start, jnp.abs(x[:, None] - y[None]))[0][-1]

    return f, (draw.normal(n), draw.normal(m))


@program(GROUP)
def forward_backward(draw: Draw) -> Made:
    states, kinds, steps = draw.size(8, 64), draw.size(10, 100), draw.size(50, 600)

    def f(move: Any, seen: Any, emit: Any) -> Any:
        chance = jnp.log(move)

        def forward(a: Any, x: Any) -> Any:
            a = jax.nn.logsumexp(a[:, None] + chance, 0) + emit[:, x]
            return a, a

        def backward(b: Any, x: Any) -> Any:
            b = jax.nn.logsumexp(chance + (b + emit[:, x])[None], 1)
            return b, b

        start = jnp.zeros(states)
        a = jax.lax.scan(forward, start, seen)[1]
        b = jax.lax.scan(backward, start, seen, reverse=True)[1]
        return jax.nn.softmax(a + b, -1)

    move = draw.uniform(states, states, low=0.01)
    return f, (
        move / move.sum(-1, keepdims=True),
        draw.integers(kinds, steps),
        draw.normal(states, kinds),
    )


@program(GROUP)
def beam_search(draw: Draw) -> Made:
    words, d, beams, steps = draw.size(200, 4000), draw.size(16, 96, 8), draw.size(2, 12), draw.size(10, 30)

    def f(words_table: Any, w: Any, h: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            h, score, word = state
            h = jnp.tanh(h @ w + words_table[word])
            total = (score[:, None] + jax.nn.log_softmax(h @ words_table.T)).reshape(-1)
            score, at = jax.lax.top_k(total, beams)
            return (h[at // words], score, at % words), at

        start = (h, jnp.zeros(beams), jnp.zeros(beams, jnp.int32))
        return jax.lax.scan(step, start, None, length=steps)[1]

    return f, (draw.normal(words, d, scale=0.2), draw.normal(d, d, scale=0.1), draw.normal(beams, d))


@program(GROUP)
def advantages(draw: Draw) -> Made:
    steps, batch = draw.size(32, 512), draw.size(8, 256)

    def f(reward: Any, value: Any, done: Any) -> Any:
        def step(later: Any, inputs: Any) -> Any:
            reward, value, following, done = inputs
            gain = reward + 0.99 * following * (1 - done) - value
            gain = gain + 0.99 * 0.95 * (1 - done) * later
            return gain, gain

        inputs = (reward, value[:-1], value[1:], done)
        gain = jax.lax.scan(step, jnp.zeros(batch), inputs, reverse=True)[1]
        return (gain - gain.mean()) / gain.std()

    return f, (
        draw.normal(steps, batch),
        draw.normal(steps + 1, batch),
        (draw.uniform(steps, batch) < 0.02).astype(np.float32),
    )


@program(GROUP)
def control_gradient(draw: Draw) -> Made:
    steps, rounds = draw.size(10, 80), draw.size(5, 30)

    def f(start: Any, controls: Any) -> Any:
        a = jnp.eye(4) + 0.1 * jnp.eye(4, k=2)
        b = 0.1 * jnp.eye(4, 2, k=-2)

        def step(x: Any, u: Any) -> Any:
            x = a @ x + b @ u + 0.01 * jnp.sin(x)
            return x, x

        def cost(controls: Any) -> Any:
            return (jax.lax.scan(step, start, controls)[1] ** 2).mean() + 0.1 * (controls**2).mean()

        return jax.lax.fori_loop(0, rounds, lambda _, u: u - 0.05 * jax.grad(cost)(u), controls)

    return f, (draw.normal(4), draw.normal(steps, 2))


@program(GROUP)
def gated_net_gradient(draw: Draw) -> Made:
    batch, steps = draw.size(2, 32), draw.size(10, 100)
    inputs, d = draw.size(8, 64, 8), draw.size(16, 96, 8)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        w, u, bias = weights

        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x @ w + h @ u + bias, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((batch, d))
        return ((jax.lax.scan(step, (zero, zero), x)[1] - y) ** 2).mean()

    weights = (draw.normal(inputs, 4 * d, scale=0.1), draw.normal(d, 4 * d, scale=0.1), draw.normal(4 * d))
    return jax.grad(loss), (weights, draw.normal(steps, batch, inputs), draw.normal(steps, batch, d))
