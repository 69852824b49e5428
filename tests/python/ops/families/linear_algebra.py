"""fft, cholesky, triangular-solve and the three batch-norm operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases as c
import numpy as np
import streams
from cases import Case, Tolerance

# The attribute is a single-precision number.
EPSILON = float(np.float32(0.001))


def ffts() -> Iterator[Case]:
    """All kinds, ranks 1 to 3, lengths with every sort of factor, batches."""
    close = {
        "c64": Tolerance(rel=4e-6, abs=1e-6, zero_sign=False),
        "c128": Tolerance(rel=1e-13, abs=1e-13, zero_sign=False),
    }
    for complex_type, real in (("c64", "f32"), ("c128", "f64")):
        lengths: list[tuple[tuple[int, ...], int]] = [
            ((n,), 1) for n in (1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 37, 64, 97)
        ]
        lengths += [
            ((3, 8), 1),
            ((2, 3, 5), 1),
            ((4, 6), 2),
            ((2, 3, 5), 2),
            ((19, 37), 1),
            ((35, 9), 2),
            ((2, 22, 17), 2),
            ((3, 4, 5), 3),
            ((2, 2, 3, 4), 3),
            ((0, 4), 1),
        ]
        for dims, rank in lengths:
            size = dims[-rank:]
            axes = tuple(range(-rank, 0))
            half = (*dims[:-1], dims[-1] // 2 + 1)
            kind = c.np_dtype(complex_type)
            real_kind = c.np_dtype(real)
            # The shapes and NumPy's function for each kind.
            table: dict[str, tuple[str, tuple[int, ...], str, tuple[int, ...], Any]] = {
                "FFT": (
                    complex_type,
                    dims,
                    complex_type,
                    dims,
                    lambda x, a=axes, k=kind: np.fft.fftn(x, axes=a).astype(k),
                ),
                "IFFT": (
                    complex_type,
                    dims,
                    complex_type,
                    dims,
                    lambda x, a=axes, k=kind: np.fft.ifftn(x, axes=a).astype(k),
                ),
                "RFFT": (
                    real,
                    dims,
                    complex_type,
                    half,
                    lambda x, a=axes, k=kind: np.fft.rfftn(x, axes=a).astype(k),
                ),
                "IRFFT": (
                    complex_type,
                    half,
                    real,
                    dims,
                    lambda x, a=axes, s=size, k=real_kind: np.fft.irfftn(x, s=s, axes=a).astype(k),
                ),
            }
            for name, (source, shape, target, out, reference) in table.items():
                if name == "IRFFT":
                    x = half_spectrum(c.random(complex_type, dims, "irfft"), axes)
                else:
                    x = c.random(source, shape, name)
                text = c.module(
                    f"p = {c.sh(source, shape)} parameter(0)\n"
                    f"r = {c.sh(target, out)} fft(p), fft_type={name}, fft_length={{{c.csv(size)}}}"
                )
                label = f"fft-{name}-{c.sh(complex_type, dims)}-{rank}"
                known = reference if 0 not in dims else None
                yield Case(label, "fft", source, text, [x], close[complex_type], reference=known)


def half_spectrum(x: c.Array, axes: tuple[int, ...]) -> c.Array:
    """Half of a spectrum such as real signals have: only such input of IRFFT has one right answer."""
    turned = np.roll(np.flip(x, axes), 1, axes)
    return np.asarray((x + np.conj(turned))[..., : x.shape[-1] // 2 + 1])


def positive(dtype: str, dims: tuple[int, ...], *key: object) -> c.Array:
    """Hermitian, far from singular."""
    stream = c.Stream("positive", dtype, dims, *key)
    return streams.positive(stream, dims, complex_=dtype in c.COMPLEX).astype(c.np_dtype(dtype))


def triangle(x: c.Array, lower: bool, unit: bool) -> c.Array:
    """What triangular-solve reads of its operand."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    wide = np.tril(wide) if lower else np.triu(wide)
    if unit:
        wide = wide * (1 - np.eye(x.shape[-1])) + np.eye(x.shape[-1])
    return wide


def solves() -> Iterator[Case]:
    """cholesky and triangular-solve in all their attributes."""
    close = {"f32": 2e-5, "c64": 2e-5, "f64": 1e-12, "c128": 1e-12, "bf16": 5e-2, "f16": 1e-2}
    for dtype in ("f32", "f64", "c64", "c128"):
        rel = Tolerance(rel=close[dtype], abs=1e-30, zero_sign=False)
        kind = c.np_dtype(dtype)
        for dims in ((1, 1), (4, 4), (7, 7), (2, 3, 3), (2, 2, 5, 5), (0, 0), (33, 33)):
            for lower in ("true", "false"):
                s = c.sh(dtype, dims)
                # The other triangle is not promised: take it away in the module.
                at = len(dims) - 2
                index = c.sh("s32", dims)
                side = "GE" if lower == "true" else "LE"
                text = c.module(
                    f"p = {s} parameter(0)\nq = {s} cholesky(p), lower={lower}\n"
                    f"i = {index} iota(), iota_dimension={at}\nj = {index} iota(), iota_dimension={at + 1}\n"
                    f"m = {c.sh('pred', dims)} compare(i, j), direction={side}\n"
                    f"z = {dtype}[] constant({c.literal(dtype, 0)})\nb = {s} broadcast(z), dimensions={{}}\n"
                    f"r = {s} select(m, q, b)"
                )

                def factor(x: c.Array, lower: str = lower, k: Any = kind) -> c.Array:
                    low = np.linalg.cholesky(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
                    return (low if lower == "true" else np.conj(np.swapaxes(low, -1, -2))).astype(k)

                x = positive(dtype, dims, "cholesky") if 0 not in dims else np.zeros(dims, kind)
                known = factor if 0 not in dims else None
                yield Case(f"cholesky-{s}-{lower}", "cholesky", dtype, text, [x], rel, reference=known)
        for left in ("true", "false"):
            for lower in ("true", "false"):
                for unit in ("true", "false"):
                    for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                        for lead in ((), (2,)):
                            yield solve(dtype, left, lower, unit, transpose, lead, rel)


def solve(
    dtype: str, left: str, lower: str, unit: str, form: str, lead: tuple[int, ...], rel: Tolerance
) -> Case:
    """One triangular-solve of size 4 with 3 right sides."""
    a = c.random(dtype, (*lead, 4, 4), "a", scale=1.0)
    diagonal = np.arange(4)
    a = a.copy()
    a[..., diagonal, diagonal] += 4
    dims = (*lead, 4, 3) if left == "true" else (*lead, 3, 4)
    b = c.random(dtype, dims, "b")
    text = c.module(
        f"p = {c.sh(dtype, a.shape)} parameter(0)\nq = {c.sh(dtype, dims)} parameter(1)\n"
        f"r = {c.sh(dtype, dims)} triangular-solve(p, q), left_side={left}, lower={lower}, unit_diagonal={unit}, "
        f"transpose_a={form}"
    )

    def reference(a: c.Array, b: c.Array) -> c.Array:
        m = triangle(a, lower == "true", unit == "true")
        if form != "NO_TRANSPOSE":
            m = np.swapaxes(m, -1, -2)
        if form == "ADJOINT":
            m = np.conj(m)
        wide = b.astype(m.dtype)
        if left == "true":
            return np.linalg.solve(m, wide).astype(b.dtype)
        x = np.linalg.solve(np.swapaxes(m, -1, -2), np.swapaxes(wide, -1, -2))
        return np.swapaxes(x, -1, -2).astype(b.dtype)

    label = f"{left[0]}{lower[0]}{unit[0]}-{form}-{c.sh(dtype, a.shape)}"
    return Case(
        f"triangular-solve-{label}", "triangular-solve", dtype, text, [a, b], rel, reference=reference
    )


def batch_norms() -> Iterator[Case]:
    """Training, inference, gradient; any feature dimension."""
    for dtype in ("f32", "f64", "bf16", "f16"):
        kind = c.np_dtype(dtype)
        for dims, feature in (((4, 3), 1), ((2, 3, 4, 2), 3), ((2, 3, 4), 1), ((3, 4), 0)):
            n = dims[feature]
            over = tuple(k for k in range(len(dims)) if k != feature)
            shape = tuple(n if k == feature else 1 for k in range(len(dims)))
            s, v = c.sh(dtype, dims), c.sh(dtype, (n,))
            attributes = f"epsilon=0.001, feature_index={feature}"
            x, scale, offset = (
                c.random(dtype, dims, "x"),
                c.random(dtype, (n,), "s"),
                c.random(dtype, (n,), "o"),
            )
            mean, variance = c.random(dtype, (n,), "m"), np.abs(c.random(dtype, (n,), "v"))
            close = c.sums(dtype, 8.0)

            def train(
                x: c.Array, s: c.Array, o: c.Array, over: Any = over, shape: Any = shape, k: Any = kind
            ) -> Any:
                x, s, o = (v.astype(np.float64) for v in (x, s, o))
                m, v = x.mean(over), x.var(over)
                y = (x - m.reshape(shape)) / np.sqrt(v.reshape(shape) + EPSILON) * s.reshape(
                    shape
                ) + o.reshape(shape)
                return y.astype(k), m.astype(k), v.astype(k)

            text = c.module(
                f"p = {s} parameter(0)\nq = {v} parameter(1)\no = {v} parameter(2)\n"
                f"r = ({s}, {v}, {v}) batch-norm-training(p, q, o), {attributes}"
            )
            label = f"{s}-{feature}"
            opcode = "batch-norm-training"
            yield Case(f"{opcode}-{label}", opcode, dtype, text, [x, scale, offset], close, reference=train)
            text = c.module(
                f"p = {s} parameter(0)\nq = {v} parameter(1)\no = {v} parameter(2)\nm = {v} parameter(3)\n"
                f"w = {v} parameter(4)\nr = {s} batch-norm-inference(p, q, o, m, w), {attributes}"
            )

            def infer(x: c.Array, *rest: c.Array, shape: Any = shape, k: Any = kind) -> Any:
                s, o, m, v = (r.astype(np.float64).reshape(shape) for r in rest)
                return ((x.astype(np.float64) - m) / np.sqrt(v + EPSILON) * s + o).astype(k)

            opcode = "batch-norm-inference"
            inputs = [x, scale, offset, mean, variance]
            yield Case(f"{opcode}-{label}", opcode, dtype, text, inputs, close, reference=infer)
            text = c.module(
                f"p = {s} parameter(0)\nq = {v} parameter(1)\nm = {v} parameter(2)\nw = {v} parameter(3)\n"
                f"g = {s} parameter(4)\nr = ({s}, {v}, {v}) batch-norm-grad(p, q, m, w, g), {attributes}"
            )

            def grad(
                x: c.Array,
                s: c.Array,
                m: c.Array,
                v: c.Array,
                g: c.Array,
                over: Any = over,
                shape: Any = shape,
                k: Any = kind,
            ) -> Any:
                x, g = x.astype(np.float64), g.astype(np.float64)
                s, m, v = (r.astype(np.float64).reshape(shape) for r in (s, m, v))
                count = x.size // s.size
                inverse = 1 / np.sqrt(v + EPSILON)
                d_scale = (g * (x - m) * inverse).sum(over)
                d_offset = g.sum(over)
                a = count * g - d_offset.reshape(shape)
                b = (x - m) * inverse**2 * (g * (x - m)).sum(over).reshape(shape)
                return (s * inverse / count * (a - b)).astype(k), d_scale.astype(k), d_offset.astype(k)

            opcode = "batch-norm-grad"
            inputs = [x, scale, mean, variance, c.random(dtype, dims, "g")]
            yield Case(f"{opcode}-{label}", opcode, dtype, text, inputs, close, reference=grad)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from ffts()
    yield from solves()
    yield from batch_norms()
