"""jax.numpy over whole arrays: shapes, indexing, sorting, sets, logic, integers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from registry import Suite, bools, ints, normal, uniform

suite = add = Suite("arrays")

add("add_broadcast", lambda a, b: a[:, None] + b * 2, normal(5), normal(7))
add("where_chain", lambda c, a: jnp.where(c, a, jnp.where(a > 0, -a, a * a)), bools(4, 6), normal(4, 6))
add("transpose_reshape", lambda a: a.transpose(2, 0, 1).reshape(-1, 6)[::2, ::-1], normal(3, 4, 6))
add(
    "concatenate_stack",
    lambda a, b: (jnp.concatenate([a, b], 1), jnp.stack([a, a])),
    normal(3, 2),
    normal(3, 5),
)
add("split_roll", lambda a: [jnp.roll(p, 2, 0) for p in jnp.split(a, 3, 1)], normal(5, 6))
add(
    "pad_modes",
    lambda a: [jnp.pad(a, 2, mode=m) for m in ("constant", "edge", "reflect", "wrap")],
    normal(4, 5),
)
add("take_along", lambda a, i: jnp.take_along_axis(a, i, 1), normal(4, 6), ints(4, 3, high=6))
add("fancy_index", lambda a, i, j: a[i, :, j], normal(4, 5, 6), ints(3, high=4), ints(3, high=6))
add("negative_index", lambda a, i: (a[-2], a[i - 3], a[..., -1]), normal(5, 4), ints(2, high=3))
add(
    "boolean_mask_sum",
    lambda a, m: (jnp.where(m, a, 0).sum(1), jnp.mean(a, where=m)),
    normal(6, 7),
    bools(6, 7),
)
add("scatter_add", lambda a, i, v: a.at[i].add(v), normal(6, 3), ints(8, high=6), normal(8, 3))
add("scatter_set_unique", lambda a, v: a.at[jnp.array([3, 0, 5])].set(v), normal(6, 3), normal(3, 3))
add(
    "scatter_max_min",
    lambda a, i, v: (a.at[i].max(v), a.at[i].min(v)),
    normal(9),
    ints(20, high=9),
    normal(20),
)
add("scatter_mul", lambda a, i, v: a.at[i, 1].multiply(v), normal(6, 3), ints(5, high=6), normal(5))
add(
    "scatter_drop",
    lambda a, i, v: a.at[i].add(v, mode="drop"),
    normal(6),
    ints(9, low=-3, high=12),
    normal(9),
)
add("scatter_slice", lambda a, v: a.at[1:4, ::2].set(v), normal(6, 6), normal(3, 3))
add("gather_fill", lambda a, i: a.at[i].get(mode="fill", fill_value=7.0), normal(6), ints(9, low=0, high=12))
add(
    "dynamic_slices",
    lambda a, i: lax.dynamic_slice(a, (i[0], i[1]), (2, 3)),
    normal(6, 7),
    ints(2, low=-2, high=9),
)
add(
    "dynamic_update",
    lambda a, u, i: lax.dynamic_update_slice(a, u, (i, 1)),
    normal(6, 7),
    normal(2, 3),
    ints(high=9),
)
add("sort_axis", lambda a: (jnp.sort(a, 0), jnp.sort(a, 1), jnp.sort(a, None)), normal(6, 7))
add(
    "argsort_stable", lambda a: (jnp.argsort(a), jnp.argsort(a, descending=True)), ints(40, high=5), cuda=True
)
add("lexsort", lambda a, b: jnp.lexsort((a, b)), ints(30, high=4), ints(30, high=3))
add("top_k", lambda a: lax.top_k(a, 4), normal(5, 30), cuda=True)
add("top_k_ints", lambda a: lax.top_k(a, 3), ints(4, 20, high=9), cuda=True)
add("argmax_argmin", lambda a: (jnp.argmax(a, 1), jnp.argmin(a, 0), jnp.argmax(a)), normal(6, 7))
add("nan_reductions", lambda a: (jnp.nanmax(a, 0), jnp.nansum(a, 1), jnp.nanmean(a)), normal(5, 6))
add(
    "median_quantile",
    lambda a: (jnp.median(a, 0), jnp.quantile(a, 0.3), jnp.percentile(a, 75, axis=1)),
    normal(7, 6),
)
add(
    "cumulative",
    lambda a: (jnp.cumsum(a, 1), jnp.cumprod(a, 0), lax.cummax(a, 1), lax.cummin(a, 0)),
    normal(5, 8),
)
add("cumlogsumexp", lambda a: lax.cumlogsumexp(a, 1), normal(4, 9))
add("searchsorted", lambda a, v: jnp.searchsorted(jnp.sort(a), v), normal(20), normal(7))
add("digitize_bincount", lambda a: jnp.bincount(a, length=12), ints(50, high=12))
add("histogram", lambda a: jnp.histogram(a, bins=8, range=(-2, 2)), normal(60))
add("unique_sized", lambda a: jnp.unique(a, size=10, fill_value=-1), ints(30, high=8))
add("nonzero_sized", lambda a: jnp.nonzero(a, size=12, fill_value=-1), bools(4, 5))
add("diff_gradient", lambda a: (jnp.diff(a, 2), jnp.gradient(a)), normal(12))
add(
    "einsum_zoo",
    lambda a, b: (jnp.einsum("bij,bjk->ik", a, b), jnp.einsum("bii->b", a)),
    normal(3, 4, 4),
    normal(3, 4, 5),
)
add(
    "tensordot_kron",
    lambda a, b: (jnp.tensordot(a, b, 2), jnp.kron(a[0], b[:, :, 0])),
    normal(2, 3, 4),
    normal(3, 4, 2),
)
add("matmul_vectors", lambda a, b: (a @ b, b @ b, jnp.outer(b, b)), normal(5, 6), normal(6))
add(
    "meshgrid_tri",
    lambda a: (jnp.meshgrid(a, a[:3]), jnp.tril(jnp.outer(a, a), 1), jnp.triu(jnp.outer(a, a))),
    normal(5),
)
add("segment_sum", lambda a, i: jax.ops.segment_sum(a, i, 5), normal(20, 3), ints(20, high=5))
add(
    "segment_extremes",
    lambda a, i: (jax.ops.segment_max(a, i, 5), jax.ops.segment_min(a, i, 5)),
    normal(20),
    ints(20, high=5),
)
add(
    "segment_prod_sorted",
    lambda a, i: jax.ops.segment_prod(a, jnp.sort(i), 4, indices_are_sorted=True),
    normal(12),
    ints(12, high=4),
)
add(
    "int_arithmetic",
    lambda a, b: (a // b, a % b, a << 2, a >> 1, a ^ b, ~a),
    ints(20, low=-50, high=50),
    ints(20, low=1, high=7),
)
add(
    "int_division_signs",
    lambda a, b: (jnp.floor_divide(a, b), jnp.fmod(a, b), lax.div(a, b), lax.rem(a, b)),
    ints(30, low=-50, high=50),
    ints(30, low=-7, high=0),
)
add(
    "bit_tricks",
    lambda a: (lax.population_count(a), lax.clz(a), a & 0xFF, jnp.left_shift(a, 3)),
    ints(20, high=2**30, dtype="uint32"),
)
add("packbits", lambda a: (jnp.packbits(a), jnp.unpackbits(jnp.packbits(a))), bools(24))
add(
    "int8_wraps",
    lambda a, b: (a + b, a * b, a - b, -a),
    ints(30, low=-128, high=128, dtype="int8"),
    ints(30, low=-128, high=128, dtype="int8"),
)
add(
    "uint16_mixed",
    lambda a, b: (a + b, a * 3, a.astype(jnp.int8), a.astype(jnp.float32) / 7),
    ints(20, high=65536, dtype="uint16"),
    ints(20, high=256, dtype="uint8"),
)
add(
    "logic", lambda a, b: (a & b, a | ~b, jnp.logical_xor(a, b), a.all(0), b.any(1)), bools(4, 5), bools(4, 5)
)
add(
    "compare_all",
    lambda a, b: (a < b, a <= b, a == b, a != b, a >= b, jnp.isclose(a, b)),
    normal(12),
    normal(12),
)
add(
    "clip_round",
    lambda a: (jnp.clip(a, -0.5, 0.7), jnp.round(a * 5), jnp.floor(a), jnp.ceil(a), jnp.trunc(a * 3)),
    normal(20),
)
add("interp", lambda x, xp, fp: jnp.interp(x, jnp.sort(xp), fp), uniform(9), uniform(6), normal(6))
add(
    "polyval_convolve",
    lambda p, x: (jnp.polyval(p, x), jnp.convolve(p, x), jnp.correlate(x, p)),
    normal(4),
    normal(9),
)
add(
    "tile_repeat",
    lambda a: (
        jnp.tile(a, (2, 3)),
        jnp.repeat(a, 3, 1),
        jnp.repeat(a, jnp.array([1, 2]), 0, total_repeat_length=3),
    ),
    normal(2, 3),
)
add(
    "rot_flip",
    lambda a: (jnp.rot90(a), jnp.flip(a, 0), jnp.fliplr(a), jnp.moveaxis(a, 0, 1), jnp.squeeze(a[None])),
    normal(3, 5),
)
add(
    "multiply_high",
    lambda a, b: (lax.mulhi(a, a[::-1]), lax.mulhi(b, b[::-1])),
    ints(20, low=-(2**31), high=2**31, dtype="int32"),
    ints(20, high=2**32, dtype="uint32"),
)
