"""Cases of `test_jax_plugin.py`: hlorun's own reader of StableHLO gives the bits of jaxlib's conversion."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp
import numpy as np

from hlorun._jax_plugin.compiling import READER
from streams import Stream

STREAM = Stream("stablehlo")
X = STREAM.normal((4, 6))
IMAGE = STREAM.normal((2, 8, 8, 3))


def compiled(reader: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The function as compiled by one reader alone."""
    os.environ[READER] = reader
    try:
        jax.clear_caches()
        # Another object, so that nothing of another reader is found again.
        return jax.jit(lambda *values: function(*values), **options).lower(*arguments).compile()
    finally:
        del os.environ[READER]


def same(function: Callable[..., Any], *arguments: Any) -> None:
    """Both readers give the same bits."""
    ours, theirs = (compiled(reader, function, *arguments)(*arguments) for reader in ("hlorun", "jaxlib"))
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    for one, other in pairs:
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def case_loops_and_branches_with_values_from_outside() -> None:
    def loops(x: Any, n: Any) -> Any:
        scale = jnp.tanh(x).sum()
        last, rows = jax.lax.scan(lambda c, row: (c * scale + row, c - 1), jnp.zeros(6), x)
        count = jax.lax.while_loop(lambda i: i < 10 + n, lambda i: i + n, n)
        nested = jax.lax.fori_loop(
            0, 3, lambda i, c: jax.lax.cond(i > 1, lambda: c * scale, lambda: c + x[i]), last
        )
        branch = jax.lax.switch(n, [lambda: last, lambda: nested * scale, lambda: x[3]])
        return last, rows, count, nested, branch

    for n in (1, 2):
        same(loops, X, n)


def case_gathers_scatters_and_sorts() -> None:
    index = np.array([[0, 2], [3, 1], [1, 1]])
    same(lambda x, i: x[i, i[::-1]], X, index)
    same(lambda x, i: x.at[i].add(0.5).at[0, i].multiply(3, unique_indices=False), X, index)
    same(lambda x, i: jax.vmap(lambda row, at: row.at[at].max(2.0)[at])(x[:3], i), X, index)
    same(lambda x: jnp.argsort(x, axis=0, descending=True), X)
    same(lambda x: jax.lax.sort((x, -x, x * 2), dimension=1, num_keys=2), X)
    same(lambda x: jax.lax.top_k(x, 3), X)


def case_products_convolutions_and_windows() -> None:
    kernel = STREAM.normal((3, 3, 3, 4))

    def net(image: Any, kernel: Any) -> Any:
        moved = jax.lax.conv_general_dilated(
            image, kernel, (2, 1), ((1, 2), (0, 1)), (1, 2), (2, 1), ("NHWC", "HWIO", "NHWC")
        )
        pooled = jax.lax.reduce_window(moved, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 1, 1), "SAME")
        return jax.nn.gelu(pooled, approximate=False).sum()

    same(jax.value_and_grad(net, (0, 1)), IMAGE, kernel)
    same(lambda a, b: jnp.einsum("bij,bkj->bik", a, b, precision="highest"), IMAGE[0], IMAGE[1])
    same(lambda x: jnp.cumsum(x, axis=1) + jnp.fft.irfft(jnp.fft.rfft(x)), X)


def case_constants_of_all_types() -> None:
    def constants(x: Any) -> Any:
        kinds = [bool, np.int8, np.uint16, np.int32, np.uint32, jnp.bfloat16, np.float16, np.complex64]
        kinds += [jnp.float8_e4m3fn, jnp.float8_e5m2]
        values = [np.array([[0, 1, 3], [1, 0, 2]]).astype(kind) for kind in kinds]
        splats = [jnp.full((3, 5), 1, kind) for kind in kinds]
        many = np.arange(40) % 3 == 0
        return values, splats, jnp.where(many, 1, 2), np.zeros((0, 3), np.float32), x * np.inf, x * np.nan

    same(constants, X)


def case_elementwise_functions() -> None:
    def functions(x: Any) -> Any:
        whole = (x * 100).astype(jnp.int32)
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
        shifted = (
            (bits >> 3) ^ (bits << 5) | ~bits,
            whole >> 2,
            jax.lax.population_count(bits),
            jax.lax.clz(bits),
        )
        floats = jnp.sin(x), jnp.arctan2(x, 2), jnp.cbrt(x), jnp.log1p(x * x), jax.lax.erf_inv(x / 9)
        rounded = jnp.round(x), jnp.floor(x), jnp.sign(x), jax.lax.reduce_precision(x, 5, 7), jnp.isfinite(x)
        compared = x > 0, whole == 3, jnp.clip(x, -1, 1), jnp.where(x.sum() > 0, x, -x), jnp.arccos(x / 9)
        wide = x + 1j * x[::-1]
        return shifted, floats, rounded, compared, wide * wide.conj(), jnp.exp(wide), jnp.abs(wide)

    same(functions, X)


def case_functions_of_constants() -> None:
    def functions(x: Any) -> Any:
        one, some = jnp.float32(0.37), np.array([1.7, 0.9, 0.37], np.float32)
        kinds = [jnp.log, jnp.exp, jnp.sqrt, jax.lax.rsqrt, jnp.sin, jnp.cos, jnp.tan, jnp.tanh]
        kinds += [jax.nn.sigmoid, jnp.log1p, jnp.expm1, jnp.cbrt]
        return [(kind(one * 2.1) + x, x[0, :3] * kind(jnp.asarray(some))) for kind in kinds]

    same(functions, X)


def case_sums_over_what_is_transposed() -> None:
    def sums(x: Any) -> Any:
        turned = jnp.einsum("bhwc,bhwd->bcd", x, x).transpose(0, 2, 1)
        return jnp.sum(turned / 3 + 1, (0, 1)), (x.transpose(3, 1, 2, 0) * 2).sum((0, 1)), turned.T

    same(sums, IMAGE)


def case_random_numbers_and_linear_algebra() -> None:
    key = jax.random.key_data(jax.random.key(3))
    same(lambda key: jax.random.normal(jax.random.wrap_key_data(key), (3, 4)), key)
    same(lambda key: jax.lax.rng_bit_generator(jnp.concatenate([key, key]), (5,)), key)
    square = X[:, :4] @ X[:, :4].T + 4 * np.eye(4, dtype=np.float32)
    same(lambda a: (jnp.linalg.cholesky(a), jnp.linalg.solve(a, a[:, :2]), jnp.linalg.qr(a)), square)
    same(lambda a: jnp.linalg.eigh(jnp.stack([a, 2 * a])), square)


def case_callbacks() -> None:
    def doubled(x: Any) -> Any:
        return jax.pure_callback(lambda x: np.asarray(x) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    same(lambda x: doubled(x).sum() + x, X)
    seen: list[float] = []
    call = compiled("hlorun", lambda x: jax.debug.callback(lambda x: seen.append(float(x)), x.sum()), X)
    call(X)
    jax.effects_barrier()
    assert seen == [float(np.float32(seen[0]))]


def case_donated_arguments_say_so_in_the_module() -> None:
    for reader in ("hlorun", "jaxlib"):
        program = compiled(reader, lambda x, y: (y, x + y), X, X, donate_argnums=(0, 1))
        assert "may-alias" in program.as_text(), reader
        program = compiled(reader, lambda x: x * 2, X, donate_argnums=0)
        assert "input_output_alias={ {}: (0, {}, may-alias) }" in program.as_text(), reader


def case_modules_say_where_they_come_from() -> None:
    text = compiled("hlorun", lambda x: jnp.sin(x) * 2, X).as_text()
    assert 'op_name="jit(<lambda>)/sin"' in text and "stablehlo.py" in text, text


def case_saved_executables_keep_large_constants() -> None:
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    table = STREAM.normal((5000,))
    program = compiled("hlorun", lambda x: table + x[0, 0], X)
    loaded = deserialize_and_load(*serialize(program))
    assert np.array_equal(loaded(X), table + X[0, 0])


def case_what_is_not_known_is_left_to_jaxlib() -> None:
    def approximate(x: Any) -> Any:
        return jax.lax.approx_max_k(x, 2)

    assert np.array_equal(jax.jit(approximate)(X)[0], np.sort(X)[:, ::-1][:, :2])
    try:
        compiled("hlorun", approximate, X)
    except jax.errors.JaxRuntimeError as error:
        assert "ApproxTopK" in str(error), error
    else:
        raise AssertionError("it was read")
