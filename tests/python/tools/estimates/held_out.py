"""Programs held out while the model of estimates was made: their errors are those of new programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from estimates.registry import Made, integers, normal, program, uniform

GROUP = "held out"


@program(GROUP)
def gated_mlp() -> Made:
    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        return (jax.nn.silu(x @ a) * (x @ b)) @ c

    w = [normal(512, 1408, scale=0.04, seed=s) for s in (0, 1)]
    return f, (normal(384, 512), *w, normal(1408, 512, scale=0.03))


@program(GROUP)
def autoencoder_gradient() -> Made:
    def loss(w: Any, x: Any) -> Any:
        h = jax.nn.sigmoid(x @ w[0])
        return ((h @ w[1] - x) ** 2).mean()

    return jax.grad(loss), ((normal(1024, 256, scale=0.03), normal(256, 1024, scale=0.06)), normal(256, 1024))


@program(GROUP)
def flax_transformer() -> Made:
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
            return x + nn.Dense(256)(nn.gelu(nn.Dense(1024)(nn.LayerNorm()(x))))

    net, x = Block(), normal(4, 128, 256)
    return net.apply, (net.init(jax.random.PRNGKey(0), x), x)


@program(GROUP)
def attention_batched() -> Made:
    def f(q: Any, k: Any, v: Any) -> Any:
        w = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8, -1)
        return jnp.einsum("bhqk,bkhd->bqhd", w, v)

    return f, tuple(normal(8, 256, 8, 64, seed=s) for s in range(3))


@program(GROUP)
def flax_convnet() -> Made:
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (32, 64, 128):
                x = nn.relu(nn.GroupNorm(num_groups=8)(nn.Conv(width, (3, 3))(x)))
                x = nn.max_pool(x, (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    net, x = Net(), normal(16, 32, 32, 3)
    return net.apply, (net.init(jax.random.PRNGKey(0), x), x)


@program(GROUP)
def convolution_gradient() -> Made:
    def loss(w: Any, x: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (y * y).mean()

    return jax.grad(loss), (normal(3, 3, 32, 32, scale=0.06), normal(8, 32, 32, 32))


@program(GROUP)
def lamb_norms() -> Made:
    def f(p: Any, g: Any, m: Any) -> Any:
        m = 0.9 * m + g
        ratio = jnp.sqrt((p * p).sum()) / (jnp.sqrt((m * m).sum()) + 1e-6)
        return p - 0.01 * ratio * m, m

    return f, (normal(3 << 19), normal(3 << 19, seed=1), normal(3 << 19, seed=2))


@program(GROUP)
def log_softmax_loss() -> Made:
    def f(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), y[:, None], 1).mean()

    return f, (normal(512, 8192), integers(8192, 512))


@program(GROUP)
def batch_norm() -> Made:
    def f(x: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return jax.nn.relu((x - mean) * lax.rsqrt(var + 1e-3))

    return f, (normal(32, 28, 28, 64),)


@program(GROUP)
def variance_rows() -> Made:
    return lambda x: x.var(-1), (normal(8192, 256),)


@program(GROUP)
def max_middle() -> Made:
    return lambda x: x.max(1), (normal(64, 256, 128),)


@program(GROUP)
def log_sum_exp_columns() -> Made:
    return lambda x: jax.nn.logsumexp(x, 0), (normal(1024, 1024),)


@program(GROUP)
def sort_integers() -> Made:
    return jnp.sort, (integers(1 << 30, 1 << 17),)


@program(GROUP)
def sort_columns() -> Made:
    return lambda x: jnp.sort(x, 0), (normal(512, 512),)


@program(GROUP)
def top_k_long() -> Made:
    return lambda x: lax.top_k(x, 32), (normal(16, 32768),)


@program(GROUP)
def gather_rows_sum() -> Made:
    return lambda table, at: table[at].sum(1), (normal(20000, 64), integers(20000, 2048, 16))


@program(GROUP)
def bilinear_lookup() -> Made:
    def f(image: Any, y: Any, x: Any) -> Any:
        i, j = jnp.floor(y).astype(jnp.int32), jnp.floor(x).astype(jnp.int32)
        a, b = y - i, x - j
        top = image[i, j] * (1 - b) + image[i, j + 1] * b
        return top * (1 - a) + (image[i + 1, j] * (1 - b) + image[i + 1, j + 1] * b) * a

    n = 1 << 18
    return f, (normal(512, 512), uniform(n, high=510), uniform(n, high=510, seed=1))


@program(GROUP)
def scatter_rows() -> Made:
    return lambda x, at, u: x.at[at].set(u), (normal(16384, 64), integers(16384, 8192), normal(8192, 64, seed=1))


@program(GROUP)
def message_passing() -> Made:
    def f(x: Any, w: Any, source: Any, target: Any) -> Any:
        return jax.nn.relu(jax.ops.segment_sum((x @ w)[source], target, x.shape[0]))

    return f, (normal(4096, 64), normal(64, 64, scale=0.1), integers(4096, 32768), integers(4096, 32768, seed=1))


@program(GROUP)
def cumulative_product() -> Made:
    return lambda x: jnp.cumprod(x, 0), (uniform(1024, 512, low=0.9, high=1.1),)


@program(GROUP)
def spectral_filter() -> Made:
    def f(x: Any, h: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * h)

    return f, (normal(256, 4096), normal(2049))


@program(GROUP)
def qr_factors() -> Made:
    return lambda x: jnp.linalg.qr(x), (normal(256, 128),)


@program(GROUP)
def linear_solve() -> Made:
    return lambda a, b: jnp.linalg.solve(a, b), (normal(384, 384) + 20 * jnp.eye(384), normal(384, 32))


@program(GROUP)
def batched_cholesky() -> Made:
    x = normal(2048, 12, 12)
    return jnp.linalg.cholesky, (x @ x.swapaxes(-1, -2) / 12 + jnp.eye(12),)


@program(GROUP)
def dropout() -> Made:
    def f(key: Any, x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    return f, (jnp.array([3, 4], jnp.uint32), normal(1024, 1024))


@program(GROUP)
def monte_carlo() -> Made:
    def f(key: Any) -> Any:
        z = jax.random.normal(key, (1 << 19,))
        return jnp.maximum(100 * jnp.exp(0.2 * z - 0.02) - 100, 0).mean()

    return f, (jnp.array([5, 6], jnp.uint32),)


@program(GROUP)
def pairwise_distances() -> Made:
    def f(x: Any, y: Any) -> Any:
        return jnp.exp(-jnp.abs(x[:, None] - y[None]).sum(-1))

    return f, (normal(768, 8), normal(768, 8, seed=1))


@program(GROUP)
def wave_scan() -> Made:
    def f(u: Any, v: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            u, v = state
            p = jnp.pad(u, 1)
            v = v + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
            return (u + 0.1 * v, v), jnp.abs(u).max()

        return lax.scan(step, (u, v), None, length=30)

    return f, (normal(512, 512), normal(512, 512, seed=1))


@program(GROUP)
def gated_recurrent_scan() -> Made:
    def f(x: Any, w: Any, u: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z, r, c = jnp.split(x @ w, 3, -1)
            a, b, d = jnp.split(h @ u, 3, -1)
            z, r = jax.nn.sigmoid(z + a), jax.nn.sigmoid(r + b)
            h = (1 - z) * h + z * jnp.tanh(c + r * d)
            return h, h.mean()

        return lax.scan(step, jnp.zeros((64, 256), jnp.float32), x)

    return f, (normal(24, 64, 128), normal(128, 768, scale=0.08), normal(256, 768, scale=0.06))


@program(GROUP)
def special_functions() -> Made:
    return lambda x: lax.erf(x) + jnp.tanh(x) * jnp.cos(3 * x) + jnp.power(jnp.abs(x) + 1, 0.3), (
        normal(1 << 19),
    )


@program(GROUP)
def permuted_dimensions() -> Made:
    return lambda x: jnp.transpose(x, (2, 0, 1)) * 2, (normal(128, 128, 96),)


@program(GROUP)
def mandelbrot() -> Made:
    def f(x: Any, y: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            a, b, n = state
            keep = a * a + b * b < 4
            a, b = jnp.where(keep, a * a - b * b + x, a), jnp.where(keep, 2 * a * b + y, b)
            return a, b, n + keep.astype(jnp.int32)

        return lax.fori_loop(0, 40, step, (x * 0, y * 0, jnp.zeros(x.shape, jnp.int32)))[2]

    return f, (uniform(384, 384, low=-2, high=1), uniform(384, 384, low=-1.5, high=1.5, seed=1))


@program(GROUP)
def power_iteration() -> Made:
    def f(a: Any, x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            y = a @ x
            return y / jnp.linalg.norm(y)

        return lax.fori_loop(0, 25, step, x)

    return f, (normal(1024, 1024), normal(1024))
