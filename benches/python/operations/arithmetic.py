"""Elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from operations.registry import ALL, FLOATS, INTEGERS, NUMBERS, WIDE, Made, Setting, operation

Function = Callable[..., Any]


def unary(function: Function, low: float = -4.0, high: float = 4.0) -> Callable[[Setting], Made]:
    """A case of one operand."""
    return lambda s: s.laid_out(function, s.array(*s.dims(), low=low, high=high))


def binary(function: Function, low: float = -4.0, high: float = 4.0) -> Callable[[Setting], Made]:
    """A case of two operands of one shape."""

    def make(s: Setting) -> Made:
        dims = s.dims()
        return s.laid_out(function, s.array(*dims, low=low, high=high), s.array(*dims, low=low, high=high))

    return make


def select(s: Setting) -> Made:
    dims = s.dims()
    return s.laid_out(lax.select, s.array(*dims, dtype="pred"), s.array(*dims), s.array(*dims))


def clamp(s: Setting) -> Made:
    one = s.array()
    return s.laid_out(lambda x: lax.clamp(one, x, one + one.dtype.type(1)), s.array(*s.dims()))


def convert(s: Setting) -> Made:
    target = {"f32": jnp.bfloat16, "bf16": jnp.float32, "f16": jnp.float32, "s32": jnp.float32}.get(
        s.dtype, jnp.int32
    )
    return s.laid_out(lambda x: x.astype(target), s.array(*s.dims(), low=0, high=100))


def broadcast_operands(s: Setting) -> Made:
    dims = s.dims(rank=2)
    return lambda x, r: x + r, (s.array(*dims), s.array(dims[1]))


def complex_parts(s: Setting) -> Made:
    dims = s.dims()
    f: Function = lambda x, y: lax.complex(x, y) * lax.complex(y, x)  # noqa: E731
    return s.laid_out(f, s.array(*dims), s.array(*dims))


CHEAP = "cheap elementwise"
MATH = "elementwise functions"

for name, function, dtypes in (
    ("abs", lax.abs, (*FLOATS, "s32", "s8", "c64")),
    ("negate", lax.neg, NUMBERS),
    ("sign", lax.sign, (*FLOATS, "s32", "s8")),
    ("floor", lax.floor, FLOATS),
    ("ceil", lax.ceil, FLOATS),
    ("round-nearest-even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS),
    ("round-nearest-afz", lax.round, FLOATS),
    ("is-finite", lax.is_finite, FLOATS),
    ("not", lax.bitwise_not, (*INTEGERS, "pred")),
    ("popcnt", lax.population_count, INTEGERS),
    ("count-leading-zeros", lax.clz, INTEGERS),
    ("real", lax.real, ("c64",)),
    ("imag", lax.imag, ("c64",)),
    ("reduce-precision", lambda x: lax.reduce_precision(x, 5, 10), ("f32", "bf16")),
):
    operation(name, CHEAP, unary(function), dtypes)

for name, function, dtypes in (
    ("add", lax.add, NUMBERS),
    ("subtract", lax.sub, NUMBERS),
    ("multiply", lax.mul, NUMBERS),
    ("maximum", lax.max, (*FLOATS, *INTEGERS, "pred")),
    ("minimum", lax.min, (*FLOATS, *INTEGERS, "pred")),
    ("and", lax.bitwise_and, (*INTEGERS, "pred")),
    ("or", lax.bitwise_or, (*INTEGERS, "pred")),
    ("xor", lax.bitwise_xor, (*INTEGERS, "pred")),
    ("compare", lax.lt, (*FLOATS, *INTEGERS)),
    ("compare-equal", lax.eq, ALL),
    ("shift-left", lambda x, y: lax.shift_left(x, y & 7), INTEGERS),
    ("shift-right-logical", lambda x, y: lax.shift_right_logical(x, y & 7), INTEGERS),
    ("shift-right-arithmetic", lambda x, y: lax.shift_right_arithmetic(x, y & 7), INTEGERS),
):
    operation(name, CHEAP, binary(function), dtypes)

operation("divide", MATH, binary(lax.div, 0.5), (*FLOATS, "c64"), tolerance=1e-3)
operation("divide-integers", MATH, binary(lambda x, y: lax.div(x, y | 1)), INTEGERS)
operation("remainder", MATH, binary(lax.rem, 0.5), WIDE, tolerance=1e-3)
operation("remainder-integers", MATH, binary(lambda x, y: lax.rem(x, y | 1)), INTEGERS)
operation("power", MATH, binary(lax.pow, 0.1), FLOATS, tolerance=1e-3)
operation("atan2", MATH, binary(lax.atan2), FLOATS)
operation("select", CHEAP, select, ALL)
operation("clamp", CHEAP, clamp, (*FLOATS, "s32"))
operation("convert", CHEAP, convert, ("f32", "bf16", "f16", "s32", "s8", "u8", "pred"))
operation("add-row", CHEAP, broadcast_operands, NUMBERS)
operation("complex", CHEAP, complex_parts, ("f32",))

for name, function, low, high, dtypes in (
    ("exponential", lax.exp, -4.0, 4.0, (*FLOATS, "c64")),
    ("exponential-minus-one", lax.expm1, -1.0, 1.0, FLOATS),
    ("log", lax.log, 0.1, 4.0, (*FLOATS, "c64")),
    ("log-plus-one", lax.log1p, -0.5, 4.0, FLOATS),
    ("logistic", lax.logistic, -4.0, 4.0, FLOATS),
    ("tanh", lax.tanh, -4.0, 4.0, (*FLOATS, "c64")),
    ("sine", lax.sin, -4.0, 4.0, FLOATS),
    ("cosine", lax.cos, -4.0, 4.0, FLOATS),
    ("tan", lax.tan, -1.2, 1.2, FLOATS),
    ("sqrt", lax.sqrt, 0.1, 4.0, (*FLOATS, "c64")),
    ("rsqrt", lax.rsqrt, 0.1, 4.0, FLOATS),
    ("cbrt", lax.cbrt, 0.1, 4.0, FLOATS),
    ("erf", lax.erf, -3.0, 3.0, FLOATS),
    ("erf-inverse", lax.erf_inv, -0.9, 0.9, FLOATS),
    ("asin", lax.asin, -0.9, 0.9, WIDE),
    ("log-gamma", lax.lgamma, 0.5, 8.0, WIDE),
    ("digamma", lax.digamma, 0.5, 8.0, WIDE),
):
    operation(name, MATH, unary(function, low, high), dtypes, tolerance=1e-3)
