"""Transformers: encoding, prefill, decoding, training, narrow types, mixtures of experts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "transformers"


def norm(x: Any) -> Any:
    """Layer normalization without weights."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Attention over [batch, position, head, width]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def block(x: Any, w: Any, heads: int, causal: bool) -> Any:
    """A layer: attention and two products."""
    b, t, d = x.shape
    q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(b, t, heads, -1), 3, -1)
    mask = jnp.tril(jnp.ones((t, t), bool)) if causal else None
    x = x + attend(q, k, v, mask).reshape(b, t, d) @ w["out"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def layer(draw: Draw, d: int) -> dict[str, Any]:
    """A layer's weights."""
    shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    return {name: draw.normal(*s, scale=s[0] ** -0.5) for name, s in shapes.items()}


def encoder(draw: Draw, causal: bool, dtype: Any = np.float32) -> Made:
    """Two layers over a few sentences."""
    d, t, b = draw.size(128, 512, 64), draw.size(32, 256, 8), draw.size(1, 4)
    weights = [{k: v.astype(dtype) for k, v in layer(draw, d).items()} for _ in range(2)]

    def f(x: Any, weights: Any) -> Any:
        for w in weights:
            x = block(x, w, d // 32, causal)
        return x

    return f, (draw.normal(b, t, d, dtype=dtype), weights)


@program(GROUP)
def encoder_f32(draw: Draw) -> Made:
    return encoder(draw, causal=False)


@program(GROUP)
def prefill_f32(draw: Draw) -> Made:
    return encoder(draw, causal=True)


@program(GROUP, tolerance=0.1)
def encoder_bf16(draw: Draw) -> Made:
    return encoder(draw, causal=False, dtype=jnp.bfloat16)


@program(GROUP)
def decode_step(draw: Draw) -> Made:
    d, past, layers = draw.size(256, 768, 64), draw.size(64, 512), 2

    def f(x: Any, weights: Any, keys: Any, values: Any, at: Any) -> Any:
        heads = d // 64
        seen = jnp.arange(past)[None, None, None] <= at
        for i, w in enumerate(weights):
            q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(1, 1, heads, -1), 3, -1)
            keys = jax.lax.dynamic_update_slice(keys, k[None], (i, 0, at, 0, 0))
            values = jax.lax.dynamic_update_slice(values, v[None], (i, 0, at, 0, 0))
            x = x + attend(q, keys[i], values[i], seen).reshape(1, 1, d) @ w["out"]
            x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
        return x, keys, values

    cache = draw.normal(layers, 1, past, d // 64, 64)
    weights = [layer(draw, d) for _ in range(layers)]
    return f, (draw.normal(1, 1, d), weights, cache, cache * 0.5, np.int32(past // 2))


@program(GROUP)
def training_step(draw: Draw) -> Made:
    d, t, b = draw.size(64, 256, 64), draw.size(32, 128, 8), draw.size(2, 8)

    def loss(weights: Any, tokens: Any) -> Any:
        x = weights["embed"][tokens[:, :-1]]
        for w in weights["layers"]:
            x = block(x, w, d // 32, causal=True)
        scores = jax.nn.log_softmax(norm(x) @ weights["embed"].T)
        return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()

    def f(weights: Any, tokens: Any) -> Any:
        slopes = jax.grad(loss)(weights, tokens)
        return jax.tree.map(lambda w, g: w - 1e-2 * g, weights, slopes)

    weights = {"embed": draw.normal(1000, d, scale=0.1), "layers": [layer(draw, d) for _ in range(2)]}
    return f, (weights, draw.integers(1000, b, t))


@program(GROUP)
def mixture_of_experts(draw: Draw) -> Made:
    d, experts, tokens = draw.size(64, 256, 32), draw.size(4, 16), draw.size(64, 512)

    def f(x: Any, router: Any, up: Any, down: Any) -> Any:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
        share = (jax.nn.one_hot(chosen, experts) * weights[..., None]).sum(1)
        y = jnp.einsum("ecd,edh->ech", jnp.broadcast_to(x, (experts, *x.shape)), up)
        return jnp.einsum("ech,ehd,ce->cd", jax.nn.silu(y), down, share)

    return f, (
        draw.normal(tokens, d),
        draw.normal(d, experts),
        draw.normal(experts, d, 2 * d, scale=d**-0.5),
        draw.normal(experts, 2 * d, d, scale=d**-0.5),
    )


@program(GROUP, tolerance=1e-2)
def int8_layer(draw: Draw) -> Made:
    d, t = draw.size(256, 1024, 64), draw.size(1, 64)

    def f(x: Any, w: Any, scale: Any) -> Any:
        top = jnp.abs(x).max(-1, keepdims=True) / 127
        q = jnp.round(x / top).astype(jnp.int8)
        y = jax.lax.dot(q, w, preferred_element_type=jnp.int32)
        return jax.nn.relu(y.astype(jnp.float32) * top * scale)

    w = draw.rng.integers(-127, 128, (d, 2 * d), dtype=np.int8)
    return f, (draw.normal(t, d), w, draw.uniform(2 * d))


@program(GROUP, needs="flax")
def flax_attention_training(draw: Draw) -> Made:
    import flax.linen as nn

    d, t, b = draw.size(64, 192, 32), draw.size(16, 96, 4), draw.size(1, 8)
    net = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=d)
    x = draw.normal(b, t, d)
    state = net.init(jax.random.PRNGKey(0), x)

    def f(state: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda s: (net.apply(s, x) ** 2).mean())(state)

    return f, (state, x)


@program(GROUP)
def rotary_grouped_query(draw: Draw) -> Made:
    t, heads = draw.size(32, 256, 8), 4 * draw.size(1, 4)

    def turn(x: Any) -> Any:
        angle = jnp.arange(t)[:, None] * 10000.0 ** (-jnp.arange(32) / 32)
        a, b = jnp.split(x, 2, -1)
        c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1)

    def f(q: Any, k: Any, v: Any) -> Any:
        k, v = (jnp.repeat(x, 4, 2) for x in (turn(k), v))
        return attend(turn(q), k, v, jnp.tril(jnp.ones((t, t), bool)))

    return f, (
        draw.normal(1, t, heads, 64),
        draw.normal(1, t, heads // 4, 64),
        draw.normal(1, t, heads // 4, 64),
    )
