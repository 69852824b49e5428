"""Convolution nets, inference and training."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "convolution nets"


def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    """An NHWC convolution with the borders kept."""
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def kernel(draw: Draw, height: int, inputs: int, outputs: int) -> Any:
    """Weights that keep the size of what goes through them."""
    return draw.normal(height, height, inputs, outputs, scale=(height * height * inputs) ** -0.5)


@program(GROUP)
def residual_block(draw: Draw) -> Made:
    c, side = draw.size(32, 128, 16), draw.size(14, 56, 2)

    def f(x: Any, v: Any, w: Any, scale: Any) -> Any:
        y = jax.nn.relu(conv(x, v) * scale[0] + scale[1])
        return jax.nn.relu(conv(y, w) * scale[2] + scale[3] + x)

    return f, (draw.normal(1, side, side, c), kernel(draw, 3, c, c), kernel(draw, 3, c, c), draw.normal(4, c))


@program(GROUP)
def bottleneck_nchw(draw: Draw) -> Made:
    c, side, batch = draw.size(64, 256, 32), draw.size(7, 28), draw.size(1, 8)

    def f(x: Any, a: Any, b: Any, d: Any) -> Any:
        def go(x: Any, w: Any) -> Any:
            return jax.lax.conv(x, w, (1, 1), "SAME")

        return jax.nn.relu(go(jax.nn.relu(go(jax.nn.relu(go(x, a)), b)), d) + x)

    small = c // 4
    return f, (
        draw.normal(batch, c, side, side),
        draw.normal(small, c, 1, 1, scale=c**-0.5),
        draw.normal(small, small, 3, 3, scale=small**-0.5 / 3),
        draw.normal(c, small, 1, 1, scale=small**-0.5),
    )


@program(GROUP)
def depthwise_separable(draw: Draw) -> Made:
    c, side = draw.size(32, 192, 16), draw.size(14, 56, 2)

    def f(x: Any, d: Any, w: Any) -> Any:
        y = jnp.clip(conv(x, d, groups=c), 0, 6)
        return jnp.clip(conv(y, w), 0, 6)

    return f, (draw.normal(1, side, side, c), draw.normal(3, 3, 1, c, scale=0.3), kernel(draw, 1, c, 2 * c))


@program(GROUP)
def grouped_with_squeeze(draw: Draw) -> Made:
    c, side = draw.size(64, 256, 32), draw.size(7, 28)

    def f(x: Any, w: Any, a: Any, b: Any) -> Any:
        y = jax.nn.silu(conv(x, w, groups=8))
        gate = jax.nn.sigmoid(jax.nn.silu(y.mean((1, 2)) @ a) @ b)
        return y * gate[:, None, None, :]

    return f, (
        draw.normal(2, side, side, c),
        kernel(draw, 3, c // 8, c),
        draw.normal(c, c // 4, scale=c**-0.5),
        draw.normal(c // 4, c, scale=c**-0.5),
    )


@program(GROUP)
def small_net_gradient(draw: Draw) -> Made:
    batch = draw.size(8, 64, 4)

    def loss(weights: Any, x: Any, labels: Any) -> Any:
        y = jax.nn.relu(conv(x, weights[0]))
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        y = jax.nn.relu(conv(y, weights[1], stride=2)).reshape(x.shape[0], -1)
        scores = jax.nn.log_softmax(y @ weights[2])
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def f(weights: Any, x: Any, labels: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x, labels)
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes)

    weights = [kernel(draw, 3, 3, 16), kernel(draw, 3, 16, 32), draw.normal(7 * 7 * 32, 10, scale=0.03)]
    return f, (weights, draw.normal(batch, 28, 28, 3), draw.integers(10, batch))


@program(GROUP, needs="flax")
def flax_classifier(draw: Draw) -> Made:
    import flax.linen as nn

    width, batch = draw.size(16, 48, 8), draw.size(1, 8)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for i in range(3):
                x = nn.Conv(width * 2**i, (3, 3), strides=(1 + i % 2, 1 + i % 2))(x)
                x = nn.gelu(nn.GroupNorm(num_groups=8)(x))
            return nn.Dense(100)(nn.avg_pool(x, (4, 4), (4, 4)).reshape(x.shape[0], -1))

    net, x = Net(), draw.normal(batch, 32, 32, 3)
    return net.apply, (net.init(jax.random.PRNGKey(0), x), x)


@program(GROUP, needs="keras")
def keras_mobilenet(draw: Draw) -> Made:
    import os

    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    side = 32 * draw.size(2, 4)
    model = keras.applications.MobileNetV2(input_shape=(side, side, 3), weights=None, classes=10, alpha=0.35)
    state = [[np.asarray(v) for v in vs] for vs in (model.trainable_variables, model.non_trainable_variables)]

    def f(trainable: Any, rest: Any, x: Any) -> Any:
        return model.stateless_call(trainable, rest, x)[0]

    return f, (*state, draw.uniform(1, side, side, 3))


@program(GROUP)
def u_net_step(draw: Draw) -> Made:
    c, side = draw.size(8, 32, 8), 8 * draw.size(4, 12)

    def f(x: Any, down: Any, middle: Any, up: Any) -> Any:
        a = jax.nn.silu(conv(x, down))
        b = jax.lax.reduce_window(a, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        b = jax.nn.silu(conv(b, middle))
        b = jnp.repeat(jnp.repeat(b, 2, 1), 2, 2)
        return conv(jnp.concatenate([a, b], -1), up)

    return f, (
        draw.normal(1, side, side, 3),
        kernel(draw, 3, 3, c),
        kernel(draw, 3, c, 2 * c),
        kernel(draw, 3, 3 * c, 3),
    )


@program(GROUP)
def convolution_1d_dilated(draw: Draw) -> Made:
    c, length = draw.size(16, 64, 8), draw.size(500, 8000)

    def f(x: Any, ws: Any) -> Any:
        for i in range(4):
            y = jax.lax.conv_general_dilated(
                x, ws[i], (1,), [(2 * 2**i, 0)], rhs_dilation=(2**i,), dimension_numbers=("NWC", "WIO", "NWC")
            )
            x = x + jnp.tanh(y)
        return x

    return f, (draw.normal(1, length, c), draw.normal(4, 3, c, c, scale=(3 * c) ** -0.5))
