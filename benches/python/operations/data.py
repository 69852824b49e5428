"""Operations that move, combine, order or multiply elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from operations.registry import ALL, FLOATS, INTEGERS, NUMBERS, WIDE, Made, Setting, operation

MOVES = "movement"
REDUCTIONS = "reductions"
INDEXED = "gather, scatter, sort"
PRODUCTS = "products and windows"
ALGEBRA = "linear algebra, FFT, random"


def over_one_axis(function: Callable[..., Any], low: float = -4.0) -> Callable[[Setting], Made]:
    """A case of an operation along a dimension the stream chooses."""

    def make(s: Setting) -> Made:
        dims = s.dims()
        axis = int(s.rng.integers(0, len(dims)))
        return s.laid_out(lambda x: function(x, axis), s.array(*dims, low=low))

    return make


def transpose(s: Setting) -> Made:
    dims = s.dims(rank=max(s.rank, 2))
    order = tuple(int(i) for i in s.rng.permutation(len(dims)))
    return lambda x: lax.transpose(x, order), (s.array(*dims),)


def broadcast(s: Setting) -> Made:
    dims = s.dims(rank=max(s.rank, 2))
    axis = int(s.rng.integers(0, len(dims)))
    return lambda x: jnp.broadcast_to(jnp.expand_dims(x, axis), dims), (
        s.array(*(n for i, n in enumerate(dims) if i != axis)),
    )


def reshape(s: Setting) -> Made:
    dims = s.dims()
    return s.laid_out(lambda x: lax.neg(x).reshape(-1), s.array(*dims))


def sliced(s: Setting) -> Made:
    dims = s.dims()
    first = [int(s.rng.integers(0, n // 3 + 1)) for n in dims]
    steps = [int(s.rng.integers(1, 3)) for _ in dims]
    return s.laid_out(lambda x: lax.slice(x, first, dims, steps), s.array(*dims))


def padded(s: Setting) -> Made:
    edges = [tuple(int(e) for e in s.rng.integers(0, 3, 3)) for _ in range(s.rank)]
    zero = np.zeros((), s.array().dtype)
    return s.laid_out(
        lambda x: lax.pad(x, zero, edges), s.array(*s.dims(elements=max(s.elements // 2**s.rank, 1)))
    )


def concatenate(x: Any, axis: int) -> Any:
    return jnp.concatenate(
        [x, x[tuple(slice(None, None, -1) if i == axis else slice(None) for i in range(x.ndim))]], axis
    )


def dynamic_slice(s: Setting) -> Made:
    dims = s.dims()
    sizes = [max(n // 2, 1) for n in dims]
    return lambda x, at: lax.dynamic_slice(x, [at] * len(dims), sizes), (s.array(*dims), np.int32(1))


def dynamic_update_slice(s: Setting) -> Made:
    dims = s.dims()
    sizes = [max(n // 2, 1) for n in dims]
    return lambda x, y, at: lax.dynamic_update_slice(x, y, [at] * len(dims)), (
        s.array(*dims),
        s.array(*sizes),
        np.int32(1),
    )


def iota(s: Setting) -> Made:
    dims = s.dims()
    return lambda x: lax.broadcasted_iota(x.dtype, dims, len(dims) - 1) + x, (s.array(),)


def general_reduce(s: Setting) -> Made:
    dims = s.dims(rank=2)

    def f(x: Any, y: Any) -> Any:
        def combine(a: Any, b: Any) -> Any:
            first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
            return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

        zero = jnp.zeros((), x.dtype)
        return lax.reduce((x, y), (zero - 100, zero), combine, (1,))

    return f, (s.array(*dims), s.array(*dims, low=0.0, high=0.1))


def mapped(s: Setting) -> Made:
    def f(x: Any) -> Any:
        return lax.map(lambda v: jnp.where(v > 0, v * v, v - 1), x)

    return f, (s.array(*s.dims(rank=1)),)


def gather_rows(s: Setting) -> Made:
    dims = s.dims(rank=2)
    count = max(1, min(s.elements // dims[1], 10**6))
    return lambda x, at: x[at], (s.array(*dims), s.places(dims[0], count))


def gather_elements(s: Setting) -> Made:
    dims = s.dims(rank=2)
    return lambda x, i, j: x[i, j], (
        s.array(*dims),
        s.places(dims[0], s.elements),
        s.places(dims[1], s.elements),
    )


def scatter_rows(s: Setting) -> Made:
    dims = s.dims(rank=2)
    count = max(1, min(s.elements // dims[1], 10**6))
    return lambda x, at, u: x.at[at].add(u), (
        s.array(*dims, low=0.0),
        s.places(dims[0], count),
        s.array(count, dims[1], low=0.0, high=0.01),
    )


def segment_extremes(s: Setting) -> Made:
    n = s.elements
    segments = max(1, int(n ** s.rng.uniform(0.1, 0.9)))
    return lambda x, at: jax.ops.segment_max(x, at, segments), (s.array(n), s.places(segments, n))


def sort(x: Any, axis: int) -> Any:
    return lax.sort(x, dimension=axis)


def argsort(x: Any, axis: int) -> Any:
    return jnp.argsort(x, axis)


def sort_two_keys(s: Setting) -> Made:
    dims = s.dims()
    return lambda x, y: lax.sort((x, y), num_keys=2), (s.array(*dims, dtype="s8"), s.array(*dims))


def top(s: Setting) -> Made:
    dims = s.dims(rank=2)
    k = int(s.rng.integers(1, min(dims[1], 50) + 1))
    return lambda x: lax.top_k(x, k), (s.array(*dims),)


def dot(s: Setting) -> Made:
    m, k, n = s.dims(rank=3)
    return lax.dot, (s.array(m, k, low=-1, high=1), s.array(k, n, low=-1, high=1))


def batched_dot(s: Setting) -> Made:
    batch, m, k = s.dims(rank=3)
    n = int(s.rng.integers(1, 17))
    return jnp.matmul, (s.array(batch, m, k, low=-1, high=1), s.array(batch, k, n, low=-1, high=1))


def batch_only_dot(s: Setting) -> Made:
    dims = s.dims(rank=2)
    return lambda x, y: jnp.einsum("ij,ij->i", x, y), (
        s.array(*dims, low=-1, high=1),
        s.array(*dims, low=-1, high=1),
    )


def convolution(s: Setting) -> Made:
    channels, batch = int(s.rng.integers(1, 33)), int(s.rng.integers(1, 5))
    side = max(1, int((s.elements / channels / batch) ** 0.5))
    outputs, stride = int(s.rng.integers(1, 33)), int(s.rng.integers(1, 3))

    def f(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return f, (
        s.array(batch, side, side, channels, low=-1, high=1),
        s.array(3, 3, channels, outputs, low=-1, high=1),
    )


def window_sums(s: Setting) -> Made:
    dims = s.dims()
    window = tuple(int(w) for w in s.rng.integers(1, 4, len(dims)))
    zero = s.array().dtype.type(0)
    return s.laid_out(
        lambda x: lax.reduce_window(x, zero, lax.add, window, (1,) * len(dims), "SAME"), s.array(*dims)
    )


def window_extremes_gradient(s: Setting) -> Made:
    side = max(2, int(s.elements**0.5) // 2 * 2)

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum()

    return jax.grad(pooled), (s.array(side, side),)


def matrices(s: Setting) -> Any:
    """A batch of symmetric positive definite matrices of the case's size."""
    n = int(np.clip(s.elements ** s.rng.uniform(0.1, 0.5), 2, 200))
    x = s.array(max(1, s.elements // n**2), n, n, low=-1, high=1)
    return (x @ x.swapaxes(-1, -2) / n + np.eye(n)).astype(x.dtype)


def solve_triangular(s: Setting) -> Made:
    a = matrices(s)
    b = s.array(*a.shape[:2], int(s.rng.integers(1, 9)))
    return lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), (np.tril(a), b)


def fourier(s: Setting) -> Made:
    dims = s.dims(rank=2)
    return jnp.fft.fft, (s.array(*dims),)


def real_fourier(s: Setting) -> Made:
    dims = s.dims(rank=2)
    return jnp.fft.rfft, (s.array(*dims),)


def random_bits(s: Setting) -> Made:
    return lambda key: jax.random.bits(key, (s.elements,)), (s.rng.integers(0, 2**32, 2, dtype=np.uint32),)


def generated_bits(s: Setting) -> Made:
    algorithm = lax.RandomAlgorithm.RNG_THREE_FRY
    return lambda key: lax.rng_bit_generator(key, (s.elements,), algorithm=algorithm), (
        s.rng.integers(0, 2**32, 4, dtype=np.uint32),
    )


def batch_norm(s: Setting) -> Made:
    dims = s.dims(rank=2)

    def f(x: Any) -> Any:
        mean = x.mean(0)
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(0) + 1e-3)

    return f, (s.array(*dims),)


def conditional(s: Setting) -> Made:
    dims = s.dims()
    return lambda p, x: lax.cond(p, lambda x: x + x, lambda x: x * x, x), (np.bool_(True), s.array(*dims))


def while_loop(s: Setting) -> Made:
    dims = s.dims()
    return lambda x: lax.fori_loop(0, 10, lambda i, x: x * 0.5 + 1, x), (s.array(*dims),)


for name, make, dtypes in (
    ("transpose", transpose, ALL),
    ("broadcast", broadcast, ALL),
    ("reshape", reshape, NUMBERS),
    ("slice", sliced, ALL),
    ("pad", padded, ALL),
    ("concatenate", over_one_axis(concatenate), ALL),
    ("reverse", over_one_axis(lambda x, axis: lax.rev(x, (axis,))), ALL),
    ("dynamic-slice", dynamic_slice, ALL),
    ("dynamic-update-slice", dynamic_update_slice, ALL),
    ("iota", iota, (*FLOATS, *INTEGERS)),
    ("conditional", conditional, NUMBERS),
    ("while", while_loop, WIDE),
):
    operation(name, MOVES, make, dtypes)

for name, make, dtypes in (
    ("reduce-add", over_one_axis(lambda x, axis: x.sum(axis), 0.0), (*FLOATS, "s32", "c64")),
    ("reduce-maximum", over_one_axis(lambda x, axis: x.max(axis)), (*FLOATS, *INTEGERS)),
    ("reduce-multiply", over_one_axis(lambda x, axis: (1 + x * 1e-6).prod(axis)), WIDE),
    ("reduce-or", over_one_axis(lambda x, axis: x.any(axis)), ("pred",)),
    ("reduce-all-add", lambda s: s.laid_out(jnp.sum, s.array(*s.dims(), low=0.0)), WIDE),
    ("argmax", over_one_axis(lambda x, axis: x.argmax(axis)), (*FLOATS, *INTEGERS)),
    ("cumulative-add", over_one_axis(lambda x, axis: lax.cumsum(x, axis), 0.0), (*WIDE, "s32")),
    ("cumulative-maximum", over_one_axis(lambda x, axis: lax.cummax(x, axis)), (*FLOATS, "s32")),
    ("batch-norm-training", batch_norm, WIDE),
    ("reduce-general", general_reduce, (*WIDE, "s32")),
):
    operation(name, REDUCTIONS, make, dtypes, tolerance=2e-3)

for name, make, dtypes, most in (
    ("gather-rows", gather_rows, ALL, 10**7),
    ("gather-elements", gather_elements, ALL, 10**6),
    ("scatter-add", scatter_rows, (*WIDE, "s32"), 10**6),
    ("segment-maximum", segment_extremes, (*WIDE, "s32"), 10**6),
    ("sort", over_one_axis(sort), (*FLOATS, *INTEGERS), 10**6),
    ("argsort", over_one_axis(argsort), (*FLOATS, *INTEGERS), 10**6),
    ("sort-two-keys", sort_two_keys, (*FLOATS, "s32"), 10**5),
    ("topk", top, (*FLOATS, "s32"), 10**6),
    ("map", mapped, ("f32", "s32"), 10**5),
):
    operation(name, INDEXED, make, dtypes, most, tolerance=1e-2)

for name, make, dtypes, most in (
    ("dot", dot, (*FLOATS, "s32", "s8", "c64"), 10**6),
    ("dot-batched", batched_dot, (*FLOATS, "s32", "c64"), 10**6),
    ("dot-batch-only", batch_only_dot, (*FLOATS, "s32", "c64"), 10**6),
    ("convolution", convolution, FLOATS, 10**6),
    ("reduce-window", window_sums, WIDE, 10**6),
    ("select-and-scatter", window_extremes_gradient, WIDE, 10**6),
):
    operation(name, PRODUCTS, make, dtypes, most, tolerance=2e-3)

for name, make, dtypes, most in (
    ("cholesky", lambda s: (lax.linalg.cholesky, (matrices(s),)), WIDE, 10**6),
    ("triangular-solve", solve_triangular, WIDE, 10**6),
    ("solve", lambda s: (jnp.linalg.inv, (matrices(s),)), WIDE, 10**5),
    ("fft", fourier, ("c64",), 10**6),
    ("rfft", real_fourier, WIDE, 10**6),
    ("threefry", random_bits, ("f32",), 10**6),
    ("rng-bit-generator", generated_bits, ("f32",), 10**6),
):
    operation(name, ALGEBRA, make, dtypes, most, tolerance=1e-3)
