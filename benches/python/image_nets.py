"""Image nets, written once in a few layers, as a JAX function and as an ONNX model with the same weights.

A net is a function of layers (`OnJax` or `OnOnnx`) and an image. Weights are drawn in the order in which layers ask for
them, so that a seed gives both the same ones. JAX's arrays have features last, those of ONNX first, as either is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Net = Callable[[Any, Any], Any]


class Weights:
    """Random weights: new ones, or given ones once more."""

    def __init__(self, seed: int, known: list[Any] | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.drawn: list[Any] = []
        self.known = iter(known) if known is not None else None

    def __call__(self, *shape: int, scale: float, mean: float = 0.0) -> Any:
        if self.known is not None:
            return next(self.known)
        x = self.rng.standard_normal(shape, np.float32) * np.float32(scale) + np.float32(mean)
        self.drawn.append(x)
        return x


class OnJax:
    """Layers as JAX functions."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def channels(self, x: Any) -> int:
        return int(x.shape[-1])

    def conv(self, x: Any, features: int, size: int, stride: int = 1, groups: int = 1, pad: int = -1) -> Any:
        import jax

        w, pad = self.kernel(self.channels(x), features, size, groups), size // 2 if pad < 0 else pad
        return jax.lax.conv_general_dilated(
            x, w, (stride,) * 2, [(pad, pad)] * 2, None, None, ("NHWC", "HWIO", "NHWC"), groups
        )

    def kernel(self, inputs: int, features: int, size: int, groups: int) -> Any:
        fan = size * size * inputs // groups
        return self.weights(size, size, inputs // groups, features, scale=math.sqrt(1.5 / fan))

    def doubled(self, x: Any, features: int) -> Any:
        """A transposed convolution of windows that touch."""
        import jax

        w = self.kernel(self.channels(x), features, 2, 1)
        return jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(self, x: Any) -> Any:
        """What a batch norm is when it does not learn."""
        c = self.channels(x)
        return x * self.weights(c, scale=0.1, mean=1) + self.weights(c, scale=0.1)

    def bias(self, x: Any) -> Any:
        return x + self.weights(self.channels(x), scale=0.1)

    def scale(self, x: Any) -> Any:
        return x * self.weights(self.channels(x), scale=0.1, mean=0.3)

    def layer_norm(self, x: Any) -> Any:
        import jax

        x = x - x.mean(-1, keepdims=True)
        return self.norm(x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)))

    def dense(self, x: Any, features: int) -> Any:
        c = self.channels(x)
        return self.bias(x @ self.weights(c, features, scale=c**-0.5))

    def act(self, x: Any, kind: str) -> Any:
        import jax

        if kind == "gelu":
            return jax.nn.gelu(x, approximate=False)
        return getattr(jax.nn, kind)(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def times(self, x: Any, y: Any) -> Any:
        return x * y[:, None, None, :]

    def concat(self, x: Any, y: Any) -> Any:
        import jax.numpy as jnp

        return jnp.concatenate([x, y], -1)

    def max_pool(self, x: Any, size: int, stride: int, pad: int) -> Any:
        import jax

        pads = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
        sizes, strides = (1, size, size, 1), (1, stride, stride, 1)
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, sizes, strides, pads)

    def mean(self, x: Any) -> Any:
        return x.mean((1, 2))

    def features_last(self, x: Any) -> Any:
        return x

    def features_first(self, x: Any) -> Any:
        return x


class OnOnnx(OnJax):
    """The same layers as nodes of ONNX; a value is its name."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.sizes: dict[str, int] = {}

    def node(self, op: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.sizes[name] = channels
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def channels(self, x: Any) -> int:
        return self.sizes[x]

    def like(self, op: str, x: str, *others: str, **attributes: Any) -> str:
        return self.node(op, [x, *others], self.channels(x), **attributes)

    def conv(self, x: Any, features: int, size: int, stride: int = 1, groups: int = 1, pad: int = -1) -> Any:
        w, pad = self.kernel(self.channels(x), features, size, groups), size // 2 if pad < 0 else pad
        inputs = [x, self.constant(w.transpose(3, 2, 0, 1))]
        shape: dict[str, Any] = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("Conv", inputs, features, group=groups, **shape)

    def doubled(self, x: Any, features: int) -> Any:
        w = self.kernel(self.channels(x), features, 2, 1)[::-1, ::-1]
        inputs = [x, self.constant(w.transpose(2, 3, 0, 1))]
        return self.node("ConvTranspose", inputs, features, kernel_shape=[2, 2], strides=[2, 2])

    def norm(self, x: Any) -> Any:
        c = self.channels(x)
        scale, bias = self.weights(c, scale=0.1, mean=1), self.weights(c, scale=0.1)
        values = [scale, bias, np.zeros(c, np.float32), np.ones(c, np.float32)]
        return self.like("BatchNormalization", x, *map(self.constant, values), epsilon=0.0)

    def bias(self, x: Any) -> Any:
        return self.like("Add", x, self.constant(self.weights(self.channels(x), scale=0.1)))

    def scale(self, x: Any) -> Any:
        return self.like("Mul", x, self.constant(self.weights(self.channels(x), scale=0.1, mean=0.3)))

    def layer_norm(self, x: Any) -> Any:
        c = self.channels(x)
        values = [self.weights(c, scale=0.1, mean=1), self.weights(c, scale=0.1)]
        return self.like("LayerNormalization", x, *map(self.constant, values), epsilon=1e-6)

    def dense(self, x: Any, features: int) -> Any:
        c = self.channels(x)
        w = self.constant(self.weights(c, features, scale=c**-0.5))
        return self.bias(self.node("MatMul", [x, w], features))

    def act(self, x: Any, kind: str) -> Any:
        if kind == "silu":
            return self.like("Mul", x, self.like("Sigmoid", x))
        if kind == "relu6":
            limits = [self.constant(np.float32(limit)) for limit in (0, 6)]
            return self.like("Clip", x, *limits)
        return self.like({"relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid"}[kind], x)

    def add(self, x: Any, y: Any) -> Any:
        return self.like("Add", x, y)

    def times(self, x: Any, y: Any) -> Any:
        return self.like("Mul", x, self.like("Unsqueeze", y, self.constant(np.array([2, 3]))))

    def concat(self, x: Any, y: Any) -> Any:
        return self.node("Concat", [x, y], self.channels(x) + self.channels(y), axis=1)

    def max_pool(self, x: Any, size: int, stride: int, pad: int) -> Any:
        return self.like("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean(self, x: Any) -> Any:
        return self.like("Flatten", self.like("GlobalAveragePool", x))

    def features_last(self, x: Any) -> Any:
        return self.like("Transpose", x, perm=[0, 2, 3, 1])

    def features_first(self, x: Any) -> Any:
        return self.like("Transpose", x, perm=[0, 3, 1, 2])


def onnx_model(net: Net, weights: Weights, image: tuple[int, ...]) -> bytes:
    """`net` for images of the shape `image`, features last, as ONNX that takes them first."""
    from onnx import TensorProto, checker, helper

    layers = OnOnnx(weights)
    layers.sizes["image"] = image[3]
    last = net(layers, "image")
    n, h, w, c = image
    given = helper.make_tensor_value_info("image", TensorProto.FLOAT, [n, c, h, w])
    rank = 4 if layers.nodes[-1].op_type == "Conv" else 2
    result = helper.make_tensor_value_info(last, TensorProto.FLOAT, [None] * rank)
    graph = helper.make_graph(layers.nodes, "net", [given], [result], layers.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    checker.check_model(model)
    return bytes(model.SerializeToString())


def resnet50(g: Any, x: Any) -> Any:
    def block(x: Any, width: int, stride: int) -> Any:
        y = g.act(g.norm(g.conv(x, width, 1)), "relu")
        y = g.act(g.norm(g.conv(y, width, 3, stride)), "relu")
        y = g.norm(g.conv(y, 4 * width, 1))
        if g.channels(x) != 4 * width:
            x = g.norm(g.conv(x, 4 * width, 1, stride))
        return g.act(g.add(x, y), "relu")

    x = g.max_pool(g.act(g.norm(g.conv(x, 64, 7, 2)), "relu"), 3, 2, 1)
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            x = block(x, width, 2 if i == 0 and width > 64 else 1)
    return g.dense(g.mean(x), 1000)


def inverted(
    g: Any, x: Any, features: int, size: int, stride: int, grow: int, act: str, squeeze: bool
) -> Any:
    """The block of MobileNetV2, and with `squeeze` that of EfficientNet."""
    inner = g.channels(x) * grow
    y = x if grow == 1 else g.act(g.norm(g.conv(x, inner, 1)), act)
    y = g.act(g.norm(g.conv(y, inner, size, stride, groups=inner)), act)
    if squeeze:
        gate = g.act(g.dense(g.mean(y), g.channels(x) // 4), act)
        y = g.times(y, g.act(g.dense(gate, inner), "sigmoid"))
    y = g.norm(g.conv(y, features, 1))
    return g.add(x, y) if stride == 1 and g.channels(x) == features else y


def mobilenet_v2(g: Any, x: Any) -> Any:
    x = g.act(g.norm(g.conv(x, 32, 3, 2)), "relu6")
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    for grow, features, count, stride in (*rows, (6, 320, 1, 1)):
        for i in range(count):
            x = inverted(g, x, features, 3, stride if i == 0 else 1, grow, "relu6", False)
    return g.dense(g.mean(g.act(g.norm(g.conv(x, 1280, 1)), "relu6")), 1000)


def efficientnet_b0(g: Any, x: Any) -> Any:
    x = g.act(g.norm(g.conv(x, 32, 3, 2)), "silu")
    rows = ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1))
    for grow, size, features, count, stride in (*rows, (6, 5, 192, 4, 2), (6, 3, 320, 1, 1)):
        for i in range(count):
            x = inverted(g, x, features, size, stride if i == 0 else 1, grow, "silu", True)
    return g.dense(g.mean(g.act(g.norm(g.conv(x, 1280, 1)), "silu")), 1000)


def convnext_tiny(g: Any, x: Any) -> Any:
    def patches(x: Any, features: int, size: int) -> Any:
        return g.norm(g.conv(x, features, size, size, pad=0))

    def between(x: Any) -> Any:
        return g.features_first(g.layer_norm(g.features_last(x)))

    for stage, (features, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        x = between(patches(x, features, 4)) if stage == 0 else patches(between(x), features, 2)
        for _ in range(count):
            y = g.layer_norm(g.features_last(g.norm(g.conv(x, features, 7, groups=features))))
            y = g.dense(g.act(g.dense(y, 4 * features), "gelu"), features)
            x = g.add(x, g.features_first(g.scale(y)))
    return g.dense(g.layer_norm(g.mean(x)), 1000)


def unet(g: Any, x: Any) -> Any:
    def twice(x: Any, features: int) -> Any:
        for _ in range(2):
            x = g.act(g.norm(g.conv(x, features, 3)), "relu")
        return x

    kept = []
    for features in (32, 64, 128, 256):
        kept.append(twice(x, features))
        x = g.max_pool(kept[-1], 2, 2, 0)
    x = twice(x, 512)
    for features in (256, 128, 64, 32):
        x = twice(g.concat(kept.pop(), g.norm(g.doubled(x, features))), features)
    return g.conv(x, 4, 1)


NETS: dict[str, tuple[Net, int]] = {
    "resnet50": (resnet50, 224),
    "mobilenet_v2": (mobilenet_v2, 224),
    "efficientnet_b0": (efficientnet_b0, 224),
    "convnext_tiny": (convnext_tiny, 224),
    "unet": (unet, 256),
}
