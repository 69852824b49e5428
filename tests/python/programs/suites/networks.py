"""Layers and forward passes: activations, norms, convolutions, recurrences, attention, embeddings."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn
from registry import Suite, ints, normal

suite = add = Suite("networks")
NHWC = ("NHWC", "HWIO", "NHWC")


def conv(x: jax.Array, k: jax.Array, stride: int = 1, padding: str = "SAME", **more: Any) -> jax.Array:
    """Two spatial dimensions, channels last."""
    return lax.conv_general_dilated(x, k, (stride, stride), padding, dimension_numbers=NHWC, **more)


def layer_norm(x: jax.Array, g: jax.Array, b: jax.Array) -> jax.Array:
    """Over the last dimension."""
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Heads in the middle: [batch, time, heads, depth]."""
    w = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(w.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(jnp.where(mask, w, -1e9), -1), v)


def lstm(x: jax.Array, w: jax.Array, u: jax.Array, b: jax.Array) -> Any:
    """One layer over time."""

    def step(s: Any, v: Any) -> Any:
        h, c = s
        i, f, g, o = jnp.split(v @ w + h @ u + b, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    n = u.shape[0]
    zero = jnp.zeros((x.shape[1], n))
    return lax.scan(step, (zero, zero), x)


def gru(x: jax.Array, w: jax.Array, u: jax.Array) -> Any:
    """One layer over time."""

    def step(h: Any, v: Any) -> Any:
        a, b = v @ w, h @ u
        z, r = nn.sigmoid(a[..., :4] + b[..., :4]), nn.sigmoid(a[..., 4:8] + b[..., 4:8])
        h = (1 - z) * jnp.tanh(a[..., 8:] + r * b[..., 8:]) + z * h
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], 4)), x)


def transformer(x: jax.Array, w: jax.Array, o: jax.Array, m: jax.Array, n: jax.Array) -> jax.Array:
    """One block: attention of two heads and a gated layer."""
    ones, zeros = jnp.ones(x.shape[-1]), jnp.zeros(x.shape[-1])
    b, t, d = x.shape
    q, k, v = jnp.split(layer_norm(x, ones, zeros) @ w, 3, -1)
    heads = [y.reshape(b, t, 2, d // 2) for y in (q, k, v)]
    x = x + attention(*heads).reshape(b, t, d) @ o
    return x + nn.gelu(layer_norm(x, ones, zeros) @ m) @ n


def resnet_block(x: jax.Array, a: jax.Array, b: jax.Array, p: jax.Array) -> jax.Array:
    """Two convolutions, a projection and a batch norm of the batch."""
    y = conv(x, a, 2)
    y = nn.relu((y - y.mean((0, 1, 2))) / jnp.sqrt(y.var((0, 1, 2)) + 1e-5))
    return nn.relu(conv(y, b) + conv(x, p, 2))


def rope(x: jax.Array) -> jax.Array:
    """Rotary positions."""
    t, d = x.shape[-2:]
    angle = jnp.arange(t)[:, None] / 100 ** (jnp.arange(0, d, 2) / d)
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack(
        [a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1
    ).reshape(x.shape)


def moe(x: jax.Array, g: jax.Array, w: jax.Array) -> jax.Array:
    """Two of four experts for each token."""
    top, index = lax.top_k(x @ g, 2)
    gate = nn.softmax(top, -1)
    each = jnp.einsum("td,edf->tef", x, w)
    chosen = jnp.take_along_axis(each, index[..., None], 1)
    return (chosen * gate[..., None]).sum(1)


add(
    "activations",
    lambda x: [
        f(x)
        for f in (nn.relu, nn.sigmoid, nn.softplus, nn.swish, nn.elu, nn.selu, nn.leaky_relu, nn.hard_tanh)
    ],
    normal(30),
)
add(
    "gelu_variants",
    lambda x: (nn.gelu(x), nn.gelu(x, approximate=False), nn.mish(x), nn.celu(x), nn.glu(x)),
    normal(30),
)
add("softmax", lambda x: (nn.softmax(x), nn.log_softmax(x, 0), nn.logsumexp(x)), normal(5, 9, scale=5))
add("one_hot", lambda i: nn.one_hot(i, 7), ints(9, high=7))
add("standardize", lambda x: nn.standardize(x), normal(5, 9))
add("dense", lambda x, w, b: nn.relu(x @ w + b), normal(6, 9), normal(9, 5), normal(5))
add(
    "mlp_3",
    lambda x, a, b, c: jnp.tanh(jnp.tanh(x @ a) @ b) @ c,
    normal(6, 9),
    normal(9, 16),
    normal(16, 16),
    normal(16, 3),
)
add("dense_large", lambda x, w: x @ w, normal(64, 96), normal(96, 48), rel=1e-5)
add("layer_norm", layer_norm, normal(5, 16), normal(16), normal(16))
add(
    "rms_norm",
    lambda x, g: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g,
    normal(5, 16),
    normal(16),
)
add(
    "group_norm",
    lambda x: nn.standardize(x.reshape(2, 5, 5, 2, 3), axis=(1, 2, 4)).reshape(x.shape),
    normal(2, 5, 5, 6),
)
add("conv_same", conv, normal(2, 8, 8, 3), normal(3, 3, 3, 4), cuda=True)
add("conv_stride", lambda x, k: conv(x, k, 2, "VALID"), normal(2, 9, 9, 3), normal(3, 3, 3, 4), cuda=True)
add(
    "conv_dilated",
    lambda x, k: conv(x, k, 1, "SAME", rhs_dilation=(2, 2)),
    normal(1, 8, 8, 2),
    normal(3, 3, 2, 3),
)
add(
    "conv_depthwise",
    lambda x, k: conv(x, k, feature_group_count=4),
    normal(1, 8, 8, 4),
    normal(3, 3, 1, 8),
    cuda=True,
)
add(
    "conv_transpose",
    lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"),
    normal(1, 5, 5, 3),
    normal(3, 3, 3, 2),
)
add(
    "conv_1d",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
    normal(2, 12, 3),
    normal(4, 3, 5),
)
add(
    "conv_causal",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), ((3, 0),), dimension_numbers=("NCH", "OIH", "NCH")),
    normal(2, 3, 12),
    normal(5, 3, 4),
)
add(
    "conv_3d",
    lambda x, k: lax.conv_general_dilated(x, k, (1, 1, 1), "VALID"),
    normal(1, 2, 4, 5, 6),
    normal(3, 2, 2, 2, 3),
    cuda=True,
)
add(
    "max_pool",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    normal(2, 6, 6, 3),
)
add(
    "resnet_block",
    resnet_block,
    normal(2, 8, 8, 4),
    normal(3, 3, 4, 8, scale=0.2),
    normal(3, 3, 8, 8, scale=0.2),
    normal(1, 1, 4, 8),
    rel=1e-4,
)
add(
    "lenet",
    lambda x, a, b, w: nn.log_softmax(
        nn.relu(conv(nn.relu(conv(x, a, 2)), b, 2)).reshape(x.shape[0], -1) @ w
    ),
    normal(2, 12, 12, 1),
    normal(5, 5, 1, 4, scale=0.3),
    normal(3, 3, 4, 6, scale=0.3),
    normal(54, 10, scale=0.2),
)
add(
    "rnn_tanh",
    lambda x, w, u: lax.scan(lambda h, v: (jnp.tanh(v @ w + h @ u),) * 2, jnp.zeros((3, 6)), x),
    normal(7, 3, 4),
    normal(4, 6, scale=0.4),
    normal(6, 6, scale=0.4),
)
add("lstm", lstm, normal(6, 2, 3), normal(3, 16, scale=0.5), normal(4, 16, scale=0.5), normal(16))
add("gru", gru, normal(6, 2, 3), normal(3, 12, scale=0.5), normal(4, 12, scale=0.5))
add(
    "bidirectional_rnn",
    lambda x, w: [
        lax.scan(lambda h, v: (jnp.tanh(v @ w + h),) * 2, jnp.zeros((2, 4)), x, reverse=r)[1]
        for r in (False, True)
    ],
    normal(6, 2, 3),
    normal(3, 4),
)
add("attention", attention, normal(2, 6, 2, 4), normal(2, 6, 2, 4), normal(2, 6, 2, 4))
add(
    "dot_product_attention",
    lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
    normal(2, 6, 2, 4),
    normal(2, 6, 2, 4),
    normal(2, 6, 2, 4),
)
add(
    "transformer_block",
    transformer,
    normal(2, 6, 8),
    normal(8, 24, scale=0.3),
    normal(8, 8, scale=0.3),
    normal(8, 16, scale=0.3),
    normal(16, 8, scale=0.3),
    rel=1e-4,
)
add("embedding_bag", lambda e, i: e[i].mean(1), normal(20, 6), ints(5, 4, high=20))
add("rotary", rope, normal(2, 7, 8))
add("mixture_of_experts", moe, normal(6, 5), normal(5, 4), normal(4, 5, 3))
add(
    "squeeze_excite",
    lambda x, a, b: x * nn.sigmoid(nn.relu(x.mean((1, 2)) @ a) @ b)[:, None, None],
    normal(2, 5, 5, 8),
    normal(8, 2),
    normal(2, 8),
)
add(
    "graph_conv",
    lambda x, s, d, w: nn.relu(jax.ops.segment_sum((x @ w)[s], d, 8)),
    normal(8, 5),
    ints(20, high=8),
    ints(20, high=8),
    normal(5, 4),
)
add(
    "image_resize",
    lambda x: (jax.image.resize(x, (1, 9, 7, 2), "bilinear"), jax.image.resize(x, (1, 3, 3, 2), "nearest")),
    normal(1, 5, 5, 2),
    rel=1e-4,
)
add("image_cubic", lambda x: jax.image.resize(x, (8, 10), "cubic"), normal(5, 6), rel=1e-4)
