"""Programs that served to make the model of estimates."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from estimates.registry import Made, integers, normal, program, uniform

GROUP = "tuned"


@program(GROUP)
def mlp() -> Made:
    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        return jax.nn.relu(jax.nn.relu(x @ a) @ b) @ c

    return f, (normal(256, 784), normal(784, 1024, scale=0.03), normal(1024, 512, scale=0.03), normal(512, 10))


@program(GROUP)
def mlp_gradient() -> Made:
    def loss(w: Any, x: Any, y: Any) -> Any:
        h = jnp.tanh(x @ w[0])
        scores = jax.nn.log_softmax(h @ w[1])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def f(w: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.1 * g, w, jax.grad(loss)(w, x, y))

    return f, ((normal(784, 512, scale=0.03), normal(512, 10)), normal(512, 784), integers(10, 512))


@program(GROUP)
def transformer_block() -> Made:
    def norm(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def f(x: Any, qkv: Any, o: Any, up: Any, down: Any) -> Any:
        s, d = x.shape
        q, k, v = jnp.split(norm(x) @ qkv, 3, -1)
        q, k, v = (t.reshape(s, 8, d // 8).transpose(1, 0, 2) for t in (q, k, v))
        w = jax.nn.softmax(q @ k.transpose(0, 2, 1) * (d // 8) ** -0.5, -1)
        x = x + (w @ v).transpose(1, 0, 2).reshape(s, d) @ o
        return x + jax.nn.gelu(norm(x) @ up) @ down

    return f, (
        normal(512, 512),
        normal(512, 1536, scale=0.04),
        normal(512, 512, scale=0.04),
        normal(512, 2048, scale=0.04),
        normal(2048, 512, scale=0.02),
    )


@program(GROUP)
def attention_causal() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        s = q.shape[1]
        w = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
        w = jnp.where(jnp.tril(jnp.ones((s, s), bool)), w, -1e9)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(w, -1), v)

    return f, (normal(4, 1024, 64), normal(4, 1024, 64, seed=1), normal(4, 1024, 64, seed=2))


@program(GROUP)
def convnet() -> Made:
    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def f(x: Any, a: Any, b: Any) -> Any:
        y = jax.nn.relu(conv(x, a))
        y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jax.nn.relu(conv(y, b)).mean((1, 2))

    return f, (normal(16, 64, 64, 16), normal(3, 3, 16, 32, scale=0.1), normal(3, 3, 32, 64, scale=0.1))


@program(GROUP)
def convolution_nchw() -> Made:
    def f(x: Any, w: Any) -> Any:
        return lax.conv(x, w, (2, 2), "SAME")

    return f, (normal(8, 64, 56, 56), normal(128, 64, 3, 3, scale=0.05))


@program(GROUP)
def adam() -> Made:
    def f(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

    n = 1 << 21
    return f, (normal(n), normal(n, seed=1), normal(n, seed=2), uniform(n))


@program(GROUP)
def softmax_rows() -> Made:
    return lambda x: jax.nn.softmax(x, -1), (normal(2048, 1000),)


@program(GROUP)
def layer_norm() -> Made:
    def f(x: Any, scale: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias

    return f, (normal(4096, 768), normal(768), normal(768))


@program(GROUP)
def sum_columns() -> Made:
    return lambda x: x.sum(0), (normal(4096, 1024),)


@program(GROUP)
def sum_all() -> Made:
    return lambda x: jnp.sum(x * x), (normal(1 << 23),)


@program(GROUP)
def argmax_rows() -> Made:
    return lambda x: jnp.argmax(x, -1), (normal(2048, 1024),)


@program(GROUP)
def sort_vector() -> Made:
    return jnp.sort, (normal(1 << 18),)


@program(GROUP)
def argsort_rows() -> Made:
    return lambda x: jnp.argsort(x, -1), (normal(256, 1024),)


@program(GROUP)
def top_k_rows() -> Made:
    return lambda x: lax.top_k(x, 8), (normal(256, 4096),)


@program(GROUP)
def embedding() -> Made:
    return lambda table, at: table[at], (normal(50000, 128), integers(50000, 8192))


@program(GROUP)
def take_elements() -> Made:
    return lambda x, at: x[at], (normal(1 << 20), integers(1 << 20, 1 << 20))


@program(GROUP)
def segment_sum() -> Made:
    return lambda x, at: jax.ops.segment_sum(x, at, 1000), (normal(1 << 16, 32), integers(1000, 1 << 16))


@program(GROUP)
def histogram() -> Made:
    return lambda at: jnp.zeros(4096, jnp.int32).at[at].add(1), (integers(4096, 1 << 20),)


@program(GROUP)
def cumulative_sum() -> Made:
    return lambda x: jnp.cumsum(x, -1), (normal(1024, 1024),)


@program(GROUP)
def fft_batch() -> Made:
    return lambda x: jnp.abs(jnp.fft.fft(x)), (normal(512, 1024),)


@program(GROUP)
def fft_image() -> Made:
    return lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) * 0.5), (normal(512, 512),)


@program(GROUP)
def cholesky_solve() -> Made:
    def f(a: Any, b: Any) -> Any:
        return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)

    x = normal(512, 512)
    return f, (x @ x.T / 512 + jnp.eye(512), normal(512, 64))


@program(GROUP)
def random_normal() -> Made:
    return lambda key: jax.random.normal(key, (1 << 20,)), (jnp.array([1, 2], jnp.uint32),)


@program(GROUP)
def k_means_step() -> Made:
    def f(x: Any, c: Any) -> Any:
        near = jnp.argmin((x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1), 1)
        return jax.ops.segment_sum(x, near, 64) / jnp.maximum(jnp.bincount(near, length=64), 1)[:, None]

    return f, (normal(32768, 16), normal(64, 16, seed=1))


@program(GROUP)
def n_body() -> Made:
    def f(x: Any, m: Any) -> Any:
        d = x[None] - x[:, None]
        r = lax.rsqrt((d * d).sum(-1) + 1e-3)
        return (d * (m[None] * r * r * r)[..., None]).sum(1)

    return f, (normal(1024, 3), uniform(1024))


@program(GROUP)
def heat_steps() -> Made:
    def f(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
            return u + 0.1 * (around - 4 * u)

        return lax.fori_loop(0, 20, step, u)

    return f, (normal(1024, 1024),)


@program(GROUP)
def recurrent_scan() -> Made:
    def f(x: Any, w: Any, u: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(x @ w + h @ u)
            return h, h

        return lax.scan(step, jnp.zeros((128, 256), jnp.float32), x)

    return f, (normal(32, 128, 256), normal(256, 256, scale=0.06), normal(256, 256, scale=0.06, seed=1))


@program(GROUP)
def transcendentals() -> Made:
    return lambda x: jnp.sin(x) * jnp.exp(-x * x) + jnp.log1p(jnp.abs(x)), (normal(1 << 20),)


@program(GROUP)
def transpose_matrix() -> Made:
    return lambda x: x.T + 1.0, (normal(2048, 2048),)


@program(GROUP)
def product_f64() -> Made:
    def f(a: Any, b: Any) -> Any:
        return a @ b

    return f, (normal(384, 384).astype("float64"), normal(384, 384, seed=1).astype("float64"))


@program(GROUP)
def matrix_vector() -> Made:
    return lambda a, x: a @ x, (normal(4096, 2048), normal(2048))
