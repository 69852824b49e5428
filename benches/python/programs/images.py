"""Images: filters, sizes, warps, pools, what draws them from rays, points and fields, and nets over their patches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "images"


@program(GROUP)
def warp_image(draw: Draw) -> Made:
    h, w = draw.size(40, 400), draw.size(40, 400)

    def f(x: Any, flow: Any) -> Any:
        rows, columns = jnp.mgrid[0:h, 0:w]
        at = [rows + flow[0], columns + flow[1]]
        return jax.scipy.ndimage.map_coordinates(x, at, 1, mode="nearest")

    return f, (draw.uniform(h, w), draw.normal(2, h, w))


@program(GROUP)
def bilateral_filter(draw: Draw) -> Made:
    h, w = draw.size(50, 400), draw.size(50, 400)

    def f(x: Any) -> Any:
        padded = jnp.pad(x, 3, mode="edge")
        total = jnp.zeros_like(x)
        weights = jnp.zeros_like(x)
        for i in range(7):
            for j in range(7):
                near = padded[i : i + h, j : j + w]
                weight = jnp.exp(-((i - 3) ** 2 + (j - 3) ** 2) / 8 - (near - x) ** 2 / 0.02)
                total += weight * near
                weights += weight
        return total / weights

    return f, (draw.uniform(h, w),)


@program(GROUP)
def median_filter(draw: Draw) -> Made:
    h, w = draw.size(30, 300), draw.size(30, 300)

    def f(x: Any) -> Any:
        padded = jnp.pad(x, 1, mode="reflect")
        near = [padded[i : i + h, j : j + w] for i in range(3) for j in range(3)]
        return jnp.median(jnp.stack(near, -1), -1)

    return f, (draw.uniform(h, w),)


@program(GROUP)
def equalize_bytes(draw: Draw) -> Made:
    def f(x: Any) -> Any:
        gray = (x.astype(jnp.uint16) * jnp.array([77, 150, 29], jnp.uint16)).sum(-1) >> 8
        counts = jnp.zeros(256, jnp.int32).at[gray.reshape(-1)].add(1)
        below = jnp.cumsum(counts)
        return (below[gray] * 255 // below[-1]).astype(jnp.uint8)

    return f, (draw.integers(256, draw.size(60, 600), draw.size(60, 600), 3).astype(np.uint8),)


@program(GROUP)
def resize_bicubic(draw: Draw) -> Made:
    batch, to = draw.size(1, 4), draw.size(64, 256)
    return lambda x: jax.image.resize(x, (batch, to, to, 3), "bicubic"), (
        draw.uniform(batch, draw.size(50, 200), draw.size(50, 200), 3),
    )


@program(GROUP)
def resize_linear(draw: Draw) -> Made:
    batch, n, channels = draw.size(1, 8), draw.size(8, 48), draw.size(8, 64)
    return lambda x: jax.image.resize(x, (batch, 2 * n, 2 * n, channels), "bilinear"), (
        draw.uniform(batch, n, n, channels),
    )


@program(GROUP)
def max_pool_gradient(draw: Draw) -> Made:
    n = draw.size(14, 80)

    def loss(x: Any) -> Any:
        most = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return (most**2).sum()

    return jax.grad(loss), (draw.normal(draw.size(1, 8), n, n, draw.size(8, 64)),)


@program(GROUP)
def average_pool_nchw(draw: Draw) -> Made:
    n = draw.size(14, 80)

    def f(x: Any) -> Any:
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME") / 9

    return f, (draw.normal(draw.size(1, 8), draw.size(8, 64), n, n),)


@program(GROUP)
def radiance_field(draw: Draw) -> Made:
    rays, samples, d = draw.size(50, 500), draw.size(16, 96), draw.size(16, 96, 8)

    def f(origin: Any, direction: Any, a: Any, b: Any, c: Any) -> Any:
        t = jnp.linspace(0.1, 4, samples)
        p = origin[:, None] + direction[:, None] * t[None, :, None]
        waves = p[..., None] * 2.0 ** jnp.arange(8)
        code = jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], -1).reshape(rays, samples, -1)
        h = jax.nn.relu(jax.nn.relu(code @ a) @ b) @ c
        opaque = 1 - jnp.exp(-jax.nn.softplus(h[..., 0]) * 0.06)
        passed = jnp.cumprod(1 - opaque + 1e-10, 1)
        weight = opaque * jnp.concatenate([jnp.ones_like(passed[:, :1]), passed[:, :-1]], 1)
        return (weight[..., None] * jax.nn.sigmoid(h[..., 1:])).sum(1)

    return f, (
        draw.normal(rays, 3),
        draw.normal(rays, 3),
        draw.normal(48, d, scale=0.1),
        draw.normal(d, d, scale=0.1),
        draw.normal(d, 4, scale=0.1),
    )


@program(GROUP)
def ray_march(draw: Draw) -> Made:
    rays, steps = draw.size(500, 10000), draw.size(20, 60)

    def distance(p: Any) -> Any:
        ball = jnp.linalg.norm(p, axis=-1) - 1
        q = jnp.abs(p - jnp.array([1.0, 0, 0])) - 0.5
        box = jnp.linalg.norm(jnp.maximum(q, 0), axis=-1) + jnp.minimum(q.max(-1), 0)
        return jnp.minimum(ball, box)

    def f(origin: Any, direction: Any) -> Any:
        def step(_: Any, t: Any) -> Any:
            return jnp.minimum(t + distance(origin + t[:, None] * direction), 20)

        t = jax.lax.fori_loop(0, steps, step, jnp.zeros(rays))
        before = origin + (t - 0.01)[:, None] * direction
        normal = jax.grad(lambda p: distance(p).sum())(before)
        return t, jnp.clip((normal * jnp.array([0.5, 0.5, 0.7])).sum(-1), 0, 1)

    direction = draw.normal(rays, 3, scale=0.3) + np.array([0, 0, 1], np.float32)
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return f, (draw.normal(rays, 3, scale=0.1) + np.array([0, 0, -4], np.float32), direction)


@program(GROUP)
def splat_points(draw: Draw) -> Made:
    points, n = draw.size(50, 400), draw.size(16, 80)

    def f(middle: Any, depth: Any, color: Any, size: Any) -> Any:
        order = jnp.argsort(depth)
        side = jnp.linspace(0, 1, n)
        pixels = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)

        def step(state: Any, point: Any) -> Any:
            passed, image = state
            middle, color, size = point
            opaque = 0.8 * jnp.exp(-((pixels - middle) ** 2).sum(-1) / (2 * size * size))
            return (passed * (1 - opaque), image + (passed * opaque)[:, None] * color), None

        start = (jnp.ones(n * n), jnp.zeros((n * n, 3)))
        return jax.lax.scan(step, start, (middle[order], color[order], size[order]))[0][1]

    return f, (
        draw.uniform(points, 2),
        draw.uniform(points),
        draw.uniform(points, 3),
        draw.uniform(points, low=0.02, high=0.12),
    )


@program(GROUP)
def shifted_windows(draw: Draw) -> Made:
    across, c = draw.size(2, 6), draw.size(32, 128, 16)
    side, heads = 7 * across, 4

    def f(x: Any, mix: Any, out: Any, up: Any, down: Any) -> Any:
        h = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        h = jnp.roll(h, (-3, -3), (1, 2)).reshape(-1, across, 7, across, 7, c)
        h = h.transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = (h @ mix).reshape(-1, 49, 3, heads, c // heads).transpose(2, 0, 3, 1, 4)
        weight = jax.nn.softmax(jnp.einsum("nhqd,nhkd->nhqk", q, k) / np.sqrt(c // heads), -1)
        h = jnp.einsum("nhqk,nhkd->nqhd", weight, v).reshape(-1, 49, c) @ out
        h = h.reshape(-1, across, across, 7, 7, c).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + jnp.roll(h, (3, 3), (1, 2))
        return x + jax.nn.gelu(x @ up, approximate=False) @ down

    return f, (
        draw.normal(draw.size(1, 2), side, side, c),
        draw.normal(c, 3 * c, scale=c**-0.5),
        draw.normal(c, c, scale=c**-0.5),
        draw.normal(c, 4 * c, scale=c**-0.5),
        draw.normal(4 * c, c, scale=c**-0.5),
    )


@program(GROUP)
def patch_mixer_gradient(draw: Draw) -> Made:
    batch, patches, c = draw.size(1, 16), draw.size(16, 64), draw.size(32, 192, 16)

    def loss(weights: Any, x: Any) -> Any:
        across, back, up, down = weights
        x = x + (jax.nn.gelu(x.swapaxes(1, 2) @ across) @ back).swapaxes(1, 2)
        x = x + jax.nn.gelu(x @ up) @ down
        return (x**2).mean()

    weights = (
        draw.normal(patches, 64, scale=0.1),
        draw.normal(64, patches, scale=0.1),
        draw.normal(c, 2 * c, scale=0.1),
        draw.normal(2 * c, c, scale=0.1),
    )
    return jax.grad(loss), (weights, draw.normal(batch, patches, c))


@program(GROUP)
def contrastive_gradient(draw: Draw) -> Made:
    n, d = draw.size(32, 512), draw.size(32, 256)

    def loss(a: Any, b: Any) -> Any:
        a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
        b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
        score = a @ b.T * 10
        return -(jnp.diag(jax.nn.log_softmax(score, 0)) + jnp.diag(jax.nn.log_softmax(score, 1))).mean()

    return jax.grad(loss, (0, 1)), (draw.normal(n, d), draw.normal(n, d))


@program(GROUP, tolerance=1e-2)
def auto_encoder_f16(draw: Draw) -> Made:
    pixels, width, code = 784, draw.size(64, 512), draw.size(8, 64)

    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        h = jax.nn.relu(x @ a)
        z = h @ b
        return jax.nn.sigmoid(z @ c), (z * z).mean(-1), jax.nn.softmax(h, -1)

    return f, (
        draw.normal(draw.size(8, 128), pixels, dtype=np.float16),
        draw.normal(pixels, width, scale=pixels**-0.5, dtype=np.float16),
        draw.normal(width, code, scale=width**-0.5, dtype=np.float16),
        draw.normal(code, pixels, scale=code**-0.5, dtype=np.float16),
    )
