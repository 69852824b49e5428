"""bf16, f16, f8, int8 and int4 programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn
from registry import Suite, ints, normal

suite = add = Suite("lowprecision")


def quantized_dense(x: Any, w: Any) -> Any:
    """int8 products in int32, scaled back."""
    sx, sw = jnp.abs(x).max() / 127, jnp.abs(w).max(0) / 127
    qx, qw = jnp.round(x / sx).astype(jnp.int8), jnp.round(w / sw).astype(jnp.int8)
    return jnp.matmul(qx, qw, preferred_element_type=jnp.int32) * (sx * sw)


def loss_scaled(w: Any, x: Any) -> Any:
    """Mixed precision: f16 inside, f32 weights."""

    def objective(p: Any) -> Any:
        return (jnp.tanh(x.astype(jnp.float16) @ p.astype(jnp.float16)).astype(jnp.float32) ** 2).mean() * 64

    return jax.grad(objective)(w) / 64


B, H = "bfloat16", "float16"
add(
    "bf16_elementwise",
    lambda x: (x * 3 + 1, jnp.exp(x), jnp.tanh(x), jnp.sqrt(jnp.abs(x))),
    normal(40, dtype=B),
)
add("bf16_matmul", lambda a, b: a @ b, normal(8, 16, dtype=B), normal(16, 6, dtype=B))
add(
    "bf16_matmul_f32",
    lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32),
    normal(8, 16, dtype=B),
    normal(16, 6, dtype=B),
    rel=1e-2,
)
add("bf16_sum", lambda x: (x.sum(0), x.mean(1), x.max(), x.var()), normal(9, 20, dtype=B))
add("bf16_softmax", lambda x: nn.softmax(x), normal(5, 9, dtype=B))
add("bf16_layer_norm", lambda x: nn.standardize(x), normal(5, 16, dtype=B), rel=5e-2)
add(
    "bf16_conv",
    lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
    normal(1, 3, 6, 6, dtype=B),
    normal(4, 3, 3, 3, dtype=B),
)
add("bf16_sort", lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3)[0]), normal(30, dtype=B))
add(
    "bf16_grad",
    jax.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).sum()),
    normal(6, 4, dtype=B),
    normal(5, 6, dtype=B),
    rel=5e-2,
)
add(
    "bf16_attention",
    lambda q, k, v: nn.softmax(q @ k.T / 2) @ v,
    normal(6, 4, dtype=B),
    normal(6, 4, dtype=B),
    normal(6, 4, dtype=B),
)
add(
    "bf16_scan",
    lambda x: lax.scan(lambda h, v: ((h * 0.5 + v).astype(h.dtype), h), jnp.bfloat16(0), x),
    normal(9, dtype=B),
)
add("f16_elementwise", lambda x: (x / 3, jnp.log(jnp.abs(x)), nn.sigmoid(x), x**2), normal(40, dtype=H))
add("f16_matmul", lambda a, b: a @ b, normal(8, 16, dtype=H), normal(16, 6, dtype=H))
add("f16_reduce", lambda x: (x.sum(1), x.prod(0), jnp.cumsum(x, 1)), normal(4, 9, dtype=H))
add("f16_loss_scale", loss_scaled, normal(6, 4), normal(5, 6), rel=2e-2)
add(
    "mixed_casts",
    lambda x: (x.astype(B), x.astype(H), x.astype(jnp.int8), x.astype(B).astype(jnp.float32)),
    normal(30, scale=5),
)
add(
    "f8_casts",
    lambda x: [
        x.astype(t).astype(jnp.float32)
        for t in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz, jnp.float8_e3m4)
    ],
    normal(40, scale=4),
)
add(
    "f8_matmul",
    lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32),
    normal(5, 8, dtype="float8_e4m3fn"),
    normal(8, 4, dtype="float8_e4m3fn"),
    rel=1e-3,
)
add(
    "f8_scaled",
    lambda a, b: (a.astype(jnp.float8_e4m3fn).astype(B) @ b.astype(jnp.float8_e5m2).astype(B)) * 0.5,
    normal(5, 8),
    normal(8, 4),
)
add(
    "int8_matmul",
    lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32),
    ints(6, 12, low=-128, high=128, dtype="int8"),
    ints(12, 5, low=-128, high=128, dtype="int8"),
)
add("int8_dense", quantized_dense, normal(5, 12), normal(12, 4), rel=1e-4)
add(
    "int4_unpack",
    lambda w, x: x @ w.astype(jnp.float32),
    ints(8, 6, low=-8, high=8, dtype="int4"),
    normal(3, 8),
)
add(
    "uint8_image",
    lambda x: (x.astype(jnp.float32) / 255, 255 - x, jnp.minimum(x, 100) + 20),
    ints(4, 5, 3, high=256, dtype="uint8"),
)
add(
    "int16_audio",
    lambda x: (x.astype(jnp.float32) / 32768, jnp.abs(x), x >> 3),
    ints(30, low=-32768, high=32768, dtype="int16"),
)
add(
    "scaled_dot",
    lambda a, b, s, t: lax.scaled_dot(a, b, lhs_scale=s, rhs_scale=t, preferred_element_type=jnp.float32),
    normal(4, 32, dtype="float8_e4m3fn"),
    normal(32, 4, dtype="float8_e4m3fn"),
    lambda r: np.ldexp(1.0, r.integers(-2, 3, (4, 2))).astype("float32").astype(jnp.float8_e8m0fnu),
    lambda r: np.ldexp(1.0, r.integers(-2, 3, (1, 4))).astype("float32").astype(jnp.float8_e8m0fnu),
    rel=2e-2,
)
