"""Sums, means and norms of bf16 and f16."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from programs.registry import Draw, Made, program

GROUP = "bf16 and f16 reductions"


def matrix(draw: Draw, dtype: Any) -> Any:
    """Some hundred thousand to some million numbers."""
    rows = draw.size(200, 4000)
    return draw.normal(rows, draw.size(128, 2048, 8), dtype=dtype)


@program(GROUP, tolerance=0.05)
def sum_rows_bf16(draw: Draw) -> Made:
    return lambda x: x.sum(-1), (matrix(draw, jnp.bfloat16),)


@program(GROUP, tolerance=0.05)
def sum_columns_bf16(draw: Draw) -> Made:
    return lambda x: x.sum(0), (matrix(draw, jnp.bfloat16),)


@program(GROUP, tolerance=0.05)
def mean_f16(draw: Draw) -> Made:
    return lambda x: x.mean(-1), (matrix(draw, jnp.float16),)


@program(GROUP, tolerance=0.05)
def sum_all_f16(draw: Draw) -> Made:
    return lambda x: jnp.sum(jnp.abs(x)), (draw.uniform(draw.size(100000, 4000000)).astype(jnp.float16) / 64,)


@program(GROUP, tolerance=0.05)
def layer_norm_bf16(draw: Draw) -> Made:
    def f(x: Any) -> Any:
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)

    return f, (matrix(draw, jnp.bfloat16),)


@program(GROUP, tolerance=0.05)
def rms_norm_bf16_native(draw: Draw) -> Made:
    def f(x: Any, w: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + jnp.bfloat16(1e-5)) * w

    x = matrix(draw, jnp.bfloat16)
    return f, (x, draw.normal(x.shape[1], dtype=jnp.bfloat16))


@program(GROUP, tolerance=0.05)
def softmax_f16(draw: Draw) -> Made:
    return lambda x: jax.nn.softmax(x, -1), (matrix(draw, jnp.float16),)


@program(GROUP, tolerance=0.05)
def variance_bf16(draw: Draw) -> Made:
    return lambda x: x.var(-1), (matrix(draw, jnp.bfloat16),)


@program(GROUP)
def extremes_bf16(draw: Draw) -> Made:
    return lambda x: (x.max(-1), x.min(0), x.argmax(-1)), (matrix(draw, jnp.bfloat16),)


@program(GROUP, tolerance=0.05)
def batch_norm_f16(draw: Draw) -> Made:
    def f(x: Any) -> Any:
        mean = x.mean((0, 1, 2))
        return jax.nn.relu((x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + jnp.float16(1e-3)))

    side = draw.size(14, 56, 2)
    return f, (draw.normal(4, side, side, draw.size(32, 128, 8), dtype=jnp.float16),)
