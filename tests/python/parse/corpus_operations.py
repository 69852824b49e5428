"""Cases: JAX operations, one or a few at a time, over shapes and dtypes."""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from streams import Stream

from corpus_case import FLOATS, INTEGERS, NARROW, Case, constant_case, spec, words


def unary() -> Iterator[Case]:
    """Functions of one array."""
    names = words(
        """abs acos acosh asin asinh atan atanh cbrt ceil conj cos cosh cumsum cumprod cummax exp exp2 expm1
    floor imag invert isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal rint sign
    signbit sin sinc sinh sort argsort sqrt square tan tanh trunc deg2rad frexp modf nan_to_num ravel flip transpose
    fliplr roll diff unique_values median var std ptp nanmean mean sum prod max min argmax argmin any all
    count_nonzero logsumexp bitwise_count angle i0 trace tril triu diagonal"""
    )
    for name in names:
        special: dict[str, Callable[..., Any]] = {
            "logsumexp": jax.scipy.special.logsumexp,
            "cummax": functools.partial(lax.cummax, axis=0),
            "roll": functools.partial(jnp.roll, shift=2),
        }
        function = special.get(name) or getattr(jnp, name, None)
        if function is None:
            continue
        for dtype in (*FLOATS, "int32", "uint8", "complex64", "bool"):
            yield Case(f"unary_{name}_{dtype}", function, (spec(dtype, 3, 5),))
    for name in words(
        """digamma erf erfc erfinv expit gammaln gamma log_ndtr logit ndtr ndtri i0e i1 i1e entr spence
    bernoulli factorial"""
    ):
        for dtype in ("float32", "bfloat16"):
            if hasattr(jax.scipy.special, name):
                yield Case(f"special_{name}_{dtype}", getattr(jax.scipy.special, name), (spec(dtype, 7),))
    for name in words(
        """relu relu6 sigmoid softplus soft_sign silu swish log_sigmoid leaky_relu hard_sigmoid hard_silu elu
    celu selu gelu glu squareplus mish softmax log_softmax logsumexp standardize"""
    ):
        for dtype in ("float32", "float16"):
            function = getattr(jax.nn, name, None)
            if function is None:
                continue
            yield Case(f"nn_{name}_{dtype}", function, (spec(dtype, 4, 6),))
            gradient = jax.grad(lambda x, f=function: f(x).sum().astype(jnp.float32))
            yield Case(f"nn_{name}_{dtype}_grad", gradient, (spec(dtype, 4, 6),))


def binary() -> Iterator[Case]:
    """Functions of two arrays."""
    names = words(
        """add arctan2 bitwise_and bitwise_or bitwise_xor copysign divide divmod equal float_power floor_divide fmax
    fmin fmod gcd greater greater_equal heaviside hypot lcm ldexp left_shift less less_equal logaddexp logaddexp2
    logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal power remainder right_shift
    subtract true_divide dot vdot inner outer kron convolve correlate append isclose allclose cross polyval
    searchsorted digitize interp"""
    )
    for name in names:
        for dtype in ("float32", "int32", "bfloat16", "uint8", "complex64"):
            arguments: tuple[Any, ...] = (spec(dtype, 3), spec(dtype, 3))
            if name == "interp":
                arguments = (*arguments, spec(dtype, 3))
            if not hasattr(jnp, name):
                continue
            yield Case(f"binary_{name}_{dtype}", getattr(jnp, name), arguments)
    for dtype in (*FLOATS, *INTEGERS, "complex64", "complex128"):
        a, b = spec(dtype, 4, 8), spec(dtype, 8, 3)
        yield Case(f"matmul_{dtype}", jnp.matmul, (a, b))
        yield Case(
            f"einsum_{dtype}",
            lambda x, y: jnp.einsum("abi,acj->abcij", x, y),
            (spec(dtype, 2, 3, 4), spec(dtype, 2, 5, 6)),
        )
    for precision in (
        "highest",
        "high",
        "default",
        "bfloat16_3x",
        "F32_F32_F32",
        "BF16_BF16_F32",
        "TF32_TF32_F32",
    ):
        function = functools.partial(jnp.matmul, precision=precision)
        yield Case(f"matmul_{precision}", function, (spec("float32", 4, 8), spec("float32", 8, 3)))


def reductions() -> Iterator[Case]:
    """Reductions over axes, windows and segments."""
    for axis in (None, 0, 1, (0, 2), -1):
        for name in ("sum", "max", "prod", "argmin", "any", "mean", "var"):
            if name == "argmin" and isinstance(axis, tuple):
                continue
            tag = str(axis).replace(" ", "").strip("()").replace(",", "_")
            yield Case(
                f"reduce_{name}_{tag}",
                functools.partial(getattr(jnp, name), axis=axis),
                (spec("float32", 3, 4, 5),),
            )
    x = spec("float32", 1, 8, 8, 3)
    for padding in ("SAME", "VALID"):
        for name, init, operation in (
            ("max", -np.inf, lax.max),
            ("sum", 0.0, lax.add),
            ("min", np.inf, lax.min),
        ):
            pool = functools.partial(
                lax.reduce_window,
                init_value=init,
                computation=operation,
                window_dimensions=(1, 3, 2, 1),
                window_strides=(1, 2, 2, 1),
                padding=padding,
            )
            yield Case(f"window_{name}_{padding}", lambda x, pool=pool: pool(x), (x,))
            yield Case(
                f"window_{name}_{padding}_grad", jax.grad(lambda x, pool=pool: (pool(x) ** 2).sum()), (x,)
            )
    yield Case(
        "window_dilated",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), ((1, 0), (0, 1)), (2, 1), (1, 2)),
        (spec("float32", 5, 6),),
    )
    yield Case(
        "window_variadic",
        lambda x, i: lax.reduce_window(
            (x, i), (-np.inf, 0), lambda a, b: (jnp.maximum(a[0], b[0]), a[1] + b[1]), (2,), (1,), "VALID"
        ),
        (spec("float32", 9), spec("int32", 9)),
    )
    yield Case(
        "reduce_variadic",
        lambda x, i: lax.reduce(
            (x, i), (np.float32(0), np.int32(0)), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (0,)
        ),
        (spec("float32", 9, 2), spec("int32", 9, 2)),
    )
    for name in ("segment_sum", "segment_max", "segment_prod"):
        function = functools.partial(getattr(jax.ops, name), num_segments=3)
        yield Case(name, function, (spec("float32", 7), spec("int32", 7)))
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        for reverse in (False, True):
            yield Case(
                f"lax_{name}_{reverse}",
                functools.partial(getattr(lax, name), axis=1, reverse=reverse),
                (spec("float32", 3, 20),),
            )
    yield Case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), (spec("float32", 17),))


def convolutions() -> Iterator[Case]:
    """Convolutions of all kinds, and their gradients."""
    x, k = spec("float32", 2, 8, 9, 4), spec("float32", 3, 3, 4, 6)
    numbers = ("NHWC", "HWIO", "NHWC")
    variants: dict[str, dict[str, Any]] = {
        "same": {"padding": "SAME"},
        "valid": {"padding": "VALID"},
        "strided": {"padding": "SAME", "window_strides": (2, 1)},
        "padded": {"padding": ((1, 2), (0, 3))},
        "negative": {"padding": ((-1, 2), (0, 0))},
        "dilated": {"padding": "VALID", "rhs_dilation": (2, 1)},
        "transposed": {"padding": ((2, 2), (1, 2)), "lhs_dilation": (2, 3)},
        "highest": {"padding": "SAME", "precision": "highest"},
    }
    for name, options in variants.items():
        options = {"window_strides": (1, 1), "dimension_numbers": numbers, **options}
        function = functools.partial(lax.conv_general_dilated, **options)
        yield Case(f"conv_{name}", lambda x, k, f=function: f(x, k), (x, k))
        yield Case(
            f"conv_{name}_grad",
            jax.grad(lambda x, k, f=function: (f(x, k) ** 2).sum(), argnums=(0, 1)),
            (x, k),
        )
    yield Case(
        "conv_grouped",
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=2
        ),
        (x, spec("float32", 3, 3, 2, 6)),
    )
    yield Case(
        "conv_batch_grouped",
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=numbers, batch_group_count=2
        ),
        (x, k),
    )
    yield Case(
        "conv_1d",
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"),
        (spec("float32", 2, 4, 9), spec("float32", 6, 4, 3)),
    )
    yield Case(
        "conv_3d",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1, 1), "SAME"),
        (spec("bfloat16", 1, 2, 4, 5, 6), spec("bfloat16", 3, 2, 2, 2, 2)),
    )
    yield Case("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), (x, k))
    yield Case(
        "conv_int8",
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", preferred_element_type=jnp.int32),
        (spec("int8", 1, 2, 4, 5), spec("int8", 3, 2, 2, 2)),
    )


def indexing() -> Iterator[Case]:
    """Slices, gathers, scatters, sorts and shapes."""
    x, i = spec("float32", 6, 5), spec("int32", 4)
    yield Case("take", lambda x, i: jnp.take(x, i, axis=0), (x, i))
    yield Case("take_clip", lambda x, i: jnp.take(x, i, axis=1, mode="clip"), (x, i))
    yield Case("take_along", lambda x, i: jnp.take_along_axis(x, i[:, None], axis=0), (x, i))
    yield Case("index_2d", lambda x, i: x[i, i], (x, i))
    yield Case("index_none", lambda x, i: x[i][:, None, 1:4:2], (x, i))
    yield Case("index_negative", lambda x: x[::-1, ::-2], (x,))
    yield Case("mask", lambda x: jnp.where(x > 0, x, 0), (x,))
    for mode in ("add", "set", "multiply", "min", "max", "apply", "divide", "power"):
        if mode == "apply":
            yield Case("at_apply", lambda x, i: x.at[i].apply(jnp.sin), (x, i))
        else:
            yield Case(f"at_{mode}", lambda x, i, mode=mode: getattr(x.at[i], mode)(2.0), (x, i))
    for mode in ("drop", "clip", "promise_in_bounds", "fill"):
        yield Case(
            f"at_mode_{mode}",
            lambda x, i, mode=mode: x.at[i, 0].add(
                1.0, mode=mode, indices_are_sorted=True, unique_indices=True
            ),
            (x, i),
        )
        yield Case(
            f"get_mode_{mode}",
            lambda x, i, mode=mode: x.at[i, 0].get(mode=mode, indices_are_sorted=True),
            (x, i),
        )
    yield Case("gather_batched", lambda x, i: jax.vmap(lambda x, i: x[i])(x, i), (x, spec("int32", 6, 2)))
    yield Case("gather_grad", jax.grad(lambda x, i: (x[i] ** 2).sum()), (x, i))
    yield Case(
        "scatter_batched",
        lambda x, i: jax.vmap(lambda x, i: x.at[i].add(1.0))(x, i),
        (x, spec("int32", 6, 2)),
    )
    yield Case("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)), (x, i))
    yield Case(
        "dynamic_update_slice", lambda x, i: lax.dynamic_update_slice(x, x[:2, :3], (i[0], i[1])), (x, i)
    )
    yield Case("pad", lambda x: lax.pad(x, 0.0, ((1, 2, 0), (-1, 0, 3))), (x,))
    yield Case(
        "pad_modes",
        lambda x: [
            jnp.pad(x, 2, mode=m) for m in ("edge", "reflect", "wrap", "symmetric", "constant", "mean")
        ],
        (x,),
    )
    yield Case("concatenate", lambda x: jnp.concatenate([x, x, x[:1]], 0), (x,))
    yield Case("stack", lambda *x: jnp.stack(x, 1), (x,) * 7)
    yield Case("many_arguments", lambda *x: tuple(x[::-1]), (x,) * 23)
    yield Case("many_operands", lambda *x: jnp.concatenate(x), (x,) * 23)
    yield Case("split", lambda x: jnp.split(x, 3), (x,))
    yield Case("reshape", lambda x: x.reshape(2, 3, 5).transpose(2, 0, 1).reshape(-1), (x,))
    yield Case("tile", lambda x: jnp.tile(x, (2, 3)), (x,))
    yield Case("repeat", lambda x: jnp.repeat(x, 3, axis=1), (x,))
    yield Case("meshgrid", lambda x: jnp.meshgrid(x[0], x[1]), (x,))
    yield Case("one_hot", lambda i: jax.nn.one_hot(i, 7), (i,))
    yield Case("sort_multiple", lambda x, y: lax.sort((x, y), num_keys=2), (x, x))
    yield Case("sort_unstable", lambda x: lax.sort(x, is_stable=False), (x,))
    for dtype in ("int32", "complex64", "bool", "uint8", "bfloat16"):
        yield Case(f"sort_{dtype}", jnp.sort, (spec(dtype, 9),))
        yield Case(f"lexsort_{dtype}", lambda x: jnp.lexsort((x, x[::-1])), (spec(dtype, 9),))
    yield Case("top_k", lambda x: lax.top_k(x, 2), (x,))
    yield Case("top_k_int", lambda x: lax.top_k(x, 2), (spec("int32", 4, 9),))
    yield Case("approx_max_k", lambda x: lax.approx_max_k(x, 2), (x,))
    yield Case("searchsorted", jnp.searchsorted, (spec("float32", 9), x))
    yield Case("histogram", lambda x: jnp.histogram(x, 4), (x,))
    yield Case("bincount", lambda i: jnp.bincount(i, length=5), (i,))
    yield Case("percentile", lambda x: jnp.percentile(x, 30.0), (x,))
    yield Case("unique", lambda i: jnp.unique(i, size=3), (i,))
    yield Case("nonzero", lambda i: jnp.nonzero(i, size=3), (i,))
    yield Case("select_n", lambda x, i: lax.select_n(i, x, -x, x * 2), (x, spec("int32", 6, 5)))
    yield Case("clamp", lambda x: lax.clamp(-1.0, x, 1.0), (x,))
    yield Case("iota", lambda: lax.broadcasted_iota("int32", (3, 4, 5), 1), ())
    yield Case("empty", lambda x: x[:0], (x,))


def dtypes() -> Iterator[Case]:
    """Constants and conversions of every element type."""
    values = [0, 1, 0.1, 1.5, 2, 3.14159, 100, 1e-5, 7, 0.3333333, 12345.678]
    for dtype in (*FLOATS, *INTEGERS, "uint16", "uint64", *NARROW, "bool", "complex64", "complex128"):
        try:
            constant = np.asarray(values).astype(jnp.dtype(dtype))
        except (TypeError, ValueError):  # a type of a later year
            continue
        for count in (1, 3, 11):
            yield constant_case(f"constant_{dtype}_{count}", constant[:count])
        yield constant_case(f"constant_{dtype}_scalar", constant[2])
        yield constant_case(f"constant_{dtype}_matrix", constant[:6].reshape(2, 3))
        yield constant_case(f"constant_{dtype}_4d", constant[:8].reshape(2, 1, 2, 2))
        yield Case(f"convert_{dtype}", lambda x, dtype=dtype: x.astype(dtype), (spec("float32", 5),))
        yield Case(f"convert_from_{dtype}", lambda x: x.astype("float32") + 1, (spec(dtype, 5),))
        yield Case(f"parameter_{dtype}", lambda x: x[::2], (spec(dtype, 5),))
    specials = np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 1e-38, 1 / 3])
    for dtype in FLOATS:
        with np.errstate(all="ignore"):
            yield constant_case(f"specials_{dtype}", specials.astype(jnp.dtype(dtype)))
    stream = Stream("constants")
    for dtype in (*FLOATS, "complex64"):
        bulk = stream.normal((5, 7, 3), jnp.dtype(dtype))
        yield constant_case(f"bulk_{dtype}", bulk)
        spread = stream.magnitudes(-100, 100, 300).astype(jnp.dtype(dtype))
        yield constant_case(f"spread_{dtype}", spread)
    for exponent, mantissa in ((5, 10), (8, 7), (4, 3)):
        yield Case(
            f"reduce_precision_{exponent}_{mantissa}",
            lambda x, e=exponent, m=mantissa: lax.reduce_precision(x, e, m),
            (spec("float32", 3),),
        )
    yield Case("bitcast_convert", lambda x: lax.bitcast_convert_type(x, jnp.uint8), (spec("float32", 3),))


def linear_algebra() -> Iterator[Case]:
    """Decompositions, solves and transforms."""
    for dtype in ("float32", "float64", "complex64"):
        a = spec(dtype, 4, 4)
        for name in (
            "cholesky",
            "det",
            "eigh",
            "inv",
            "qr",
            "slogdet",
            "svd",
            "eigvalsh",
            "norm",
            "pinv",
            "matrix_rank",
            "expm",
            "lu",
            "eig",
        ):
            source = jax.scipy.linalg if name in ("expm", "lu") else jnp.linalg
            yield Case(f"linalg_{name}_{dtype}", getattr(source, name), (a,))
        yield Case(f"linalg_solve_{dtype}", jnp.linalg.solve, (a, a))
        yield Case(
            f"linalg_triangular_{dtype}",
            lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1),
            (a, a),
        )
        yield Case(
            f"linalg_triangular_unit_{dtype}",
            lambda a, b: lax.linalg.triangular_solve(a, b, unit_diagonal=True),
            (a, a),
        )
        yield Case(f"linalg_lstsq_{dtype}", jnp.linalg.lstsq, (a, spec(dtype, 4)))
        yield Case(f"linalg_cholesky_grad_{dtype}", lambda a: jax.vjp(jnp.linalg.cholesky, a)[1](a), (a,))
    for name in ("fft", "ifft", "fft2", "ifft2", "fftn"):
        yield Case(f"fft_{name}", getattr(jnp.fft, name), (spec("complex64", 4, 8),))
    for name in ("rfft", "rfft2", "rfftn", "hfft", "ihfft"):
        yield Case(f"fft_{name}", getattr(jnp.fft, name), (spec("float32", 4, 8),))
    for name in ("irfft", "irfft2"):
        yield Case(f"fft_{name}", getattr(jnp.fft, name), (spec("complex64", 4, 5),))


def random() -> Iterator[Case]:
    """Random numbers of every distribution and generator."""
    names = words(
        """uniform normal bernoulli beta cauchy exponential gamma gumbel laplace logistic poisson rademacher
    truncated_normal dirichlet categorical randint permutation bits ball chisquare geometric maxwell pareto rayleigh
    weibull_min t"""
    )
    for implementation in ("threefry2x32", "rbg", "unsafe_rbg"):
        for name in names:
            if implementation != "threefry2x32" and name not in ("uniform", "normal", "bits", "permutation"):
                continue

            def draw(seed: Any, name: str = name, implementation: str = implementation) -> Any:
                key = jax.random.key(seed, impl=implementation)
                function = getattr(jax.random, name)
                special: dict[str, tuple[Any, ...]] = {
                    "beta": (1.0, 2.0, (3,)),
                    "gamma": (2.0, (3,)),
                    "poisson": (2.0, (3,)),
                    "truncated_normal": (-1.0, 1.0, (3,)),
                    "dirichlet": (jnp.ones(3),),
                    "categorical": (jnp.zeros(4),),
                    "randint": ((3,), 0, 9),
                    "permutation": (9,),
                    "ball": (3,),
                    "chisquare": (2.0,),
                    "geometric": (0.5,),
                    "pareto": (1.0, (3,)),
                    "rayleigh": (1.0,),
                    "weibull_min": (1.0, 2.0, (3,)),
                    "t": (2.0, (3,)),
                    "bernoulli": (0.4, (3,)),
                }
                return function(key, *special.get(name, ((3,),)))

            yield Case(f"random_{name}_{implementation}", draw, (spec("int32"),))
    yield Case(
        "random_split",
        lambda s: jax.random.key_data(jax.random.split(jax.random.key(s), 5)),
        (spec("int32"),),
    )
    yield Case(
        "random_fold_in",
        lambda s: jax.random.key_data(jax.random.fold_in(jax.random.key(s), 5)),
        (spec("int32"),),
    )
