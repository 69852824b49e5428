"""The custom calls that XLA:CPU itself runs, as JAX writes them: LAPACK through the foreign-function interface, TopK.

Signs and phases of eigenvectors and singular vectors are free, so those modules multiply the factors together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases as c
import numpy as np
from cases import Case, Tolerance

from families.linear_algebra import positive

LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}
CLOSE = {"f32": 5e-5, "c64": 5e-5, "f64": 1e-12, "c128": 1e-12}


def column(dims: tuple[int, ...]) -> tuple[int, ...]:
    """LAPACK's layout: the last two dimensions column-major, batches outside."""
    rank = len(dims)
    return (rank - 2, rank - 1, *reversed(range(rank - 2)))


def call(
    result: str, target: str, operands: str, layouts: list[str], config: str = "", more: str = ""
) -> str:
    """A typed-FFI custom call."""
    return (
        f'{result} custom-call({operands}), custom_call_target="{target}", '
        f"operand_layout_constraints={{{', '.join(layouts)}}}, {more}api_version=API_VERSION_TYPED_FFI, "
        f"backend_config={{{config}}}"
    )


def mat(dtype: str, dims: tuple[int, ...]) -> str:
    """A column-major matrix."""
    return c.sh(dtype, dims, column(dims))


def vec(dtype: str, dims: tuple[int, ...]) -> str:
    """A row-major array with its layout written."""
    return c.sh(dtype, dims, tuple(reversed(range(len(dims)))) if dims else None)


def lapack() -> Iterator[Case]:
    """Factorizations × types × sizes × batches."""
    for dtype, letter in LETTER.items():
        rel = Tolerance(rel=CLOSE[dtype], abs=CLOSE[dtype], zero_sign=False)
        for lead, m, n in (
            ((), 4, 4),
            ((), 5, 3),
            ((), 3, 5),
            ((2,), 4, 4),
            ((2, 2), 3, 2),
            ((), 1, 1),
            ((), 33, 17),
        ):
            dims, k = (*lead, m, n), min(m, n)
            label = c.sh(dtype, dims)
            a = mat(dtype, dims)
            x = c.random(dtype, dims, "lapack")
            pivots, info = vec("s32", (*lead, k)), vec("s32", lead)
            lu = call(
                f"({a}, {pivots}, {info})",
                f"lapack_{letter}getrf_ffi",
                "p",
                [a],
                "",
                "output_to_operand_aliasing={{0}: (0, {})}, ",
            )
            yield custom(f"getrf-{label}", dtype, f"p = {a} parameter(0)\nr = {lu}", [x], rel)
            tau = vec(dtype, (*lead, k))
            qr = call(f"({a}, {tau})", f"lapack_{letter}geqrf_ffi", "p", [a])
            yield custom(f"geqrf-{label}", dtype, f"p = {a} parameter(0)\nr = {qr}", [x], rel)
            if m >= n:
                name = "orgqr" if letter in "sd" else "ungqr"
                q = call(a, f"lapack_{letter}{name}_ffi", "h, t", [a, tau])
                text = (
                    f"p = {a} parameter(0)\nf = {qr}\nh = {a} get-tuple-element(f), index=0\n"
                    f"t = {tau} get-tuple-element(f), index=1\nr = {q}"
                )
                yield custom(f"{name}-{label}", dtype, text, [x], rel)
            yield svd(dtype, letter, lead, m, n, rel)
        for lead, n in (((), 4), ((3,), 3), ((), 1), ((), 17)):
            yield from symmetric(dtype, letter, lead, n, rel)
        for lead in ((), (2,)):
            for side in "LR":
                for uplo in "LU":
                    for trans in "NTC":
                        for diag in "NU":
                            yield trsm(dtype, letter, lead, side, uplo, trans, diag, rel)


def custom(
    name: str, dtype: str, text: str, inputs: list[c.Array], rel: Tolerance, *more: str, **rest: Any
) -> Case:
    """A custom-call case."""
    return Case(name, "custom-call", dtype, c.module(text, *more), inputs, rel, **rest)


def batches(rank: int) -> str:
    """Batch dimension attributes of a dot of two batched matrices."""
    if not rank:
        return ""
    at = c.csv(range(rank))
    return f"lhs_batch_dims={{{at}}}, rhs_batch_dims={{{at}}}, "


def conjugate(dtype: str, name: str, dims: tuple[int, ...], out: str) -> str:
    """Lines that give the conjugate of `name` as `out`."""
    if dtype not in c.COMPLEX:
        return f"{out} = {mat(dtype, dims)} copy({name})\n"
    part, a = mat(REAL[dtype], dims), mat(dtype, dims)
    return (
        f"{out}_re = {part} real({name})\n{out}_im = {part} imag({name})\n{out}_neg = {part} negate({out}_im)\n"
        f"{out} = {a} complex({out}_re, {out}_neg)\n"
    )


def scaled(dtype: str, name: str, values: str, dims: tuple[int, ...], out: str) -> str:
    """Lines that multiply the columns of `name` by the real `values`."""
    real = REAL[dtype]
    rank = len(dims)
    at = c.csv([*range(rank - 2), rank - 1])
    lines = f"{out}_b = {mat(real, dims)} broadcast({values}), dimensions={{{at}}}\n"
    if dtype in c.COMPLEX:
        lines += f"{out}_c = {mat(dtype, dims)} convert({out}_b)\n"
        return lines + f"{out} = {mat(dtype, dims)} multiply({name}, {out}_c)\n"
    return lines + f"{out} = {mat(dtype, dims)} multiply({name}, {out}_b)\n"


def svd(dtype: str, letter: str, lead: tuple[int, ...], m: int, n: int, rel: Tolerance) -> Case:
    """Singular values, and U S Vh put together again."""
    k = min(m, n)
    a, u, vh = mat(dtype, (*lead, m, n)), mat(dtype, (*lead, m, k)), mat(dtype, (*lead, k, n))
    s, info = vec(REAL[dtype], (*lead, k)), vec("s32", lead)
    rank = len(lead)
    made = call(f"({a}, {s}, {u}, {vh}, {info})", f"lapack_{letter}gesdd_ffi", "p", [a], "mode = 83 : ui8")
    text = (
        f"p = {a} parameter(0)\nf = {made}\ns = {s} get-tuple-element(f), index=1\nu = {u} get-tuple-element(f), index=2\n"
        f"v = {vh} get-tuple-element(f), index=3\ni = {info} get-tuple-element(f), index=4\n"
        + scaled(dtype, "u", "s", (*lead, m, k), "us")
        + f"w = {c.sh(dtype, (*lead, m, n))} dot(us, v), {batches(rank)}lhs_contracting_dims={{{rank + 1}}}, "
        f"rhs_contracting_dims={{{rank}}}\nr = ({s}, {c.sh(dtype, (*lead, m, n))}, {info}) tuple(s, w, i)"
    )
    return custom(
        f"gesdd-{c.sh(dtype, (*lead, m, n))}", dtype, text, [c.random(dtype, (*lead, m, n), "svd")], rel
    )


def symmetric(dtype: str, letter: str, lead: tuple[int, ...], n: int, rel: Tolerance) -> Iterator[Case]:
    """Cholesky, and eigenvalues with V W V^H put together again."""
    dims = (*lead, n, n)
    a, info = mat(dtype, dims), vec("s32", lead)
    x = positive(dtype, dims, "symmetric")
    rank = len(lead)
    index = mat("s32", dims)
    for uplo, side in (("76", "GE"), ("85", "LE")):
        made = call(f"({a}, {info})", f"lapack_{letter}potrf_ffi", "p", [a], f"uplo = {uplo} : ui8")
        zero = c.literal(dtype, 0)
        text = (
            f"p = {a} parameter(0)\nf = {made}\nq = {a} get-tuple-element(f), index=0\n"
            f"k = {info} get-tuple-element(f), index=1\ni = {index} iota(), iota_dimension={rank}\n"
            f"j = {index} iota(), iota_dimension={rank + 1}\nm = {mat('pred', dims)} compare(i, j), direction={side}\n"
            f"z = {dtype}[] constant({zero})\nb = {a} broadcast(z), dimensions={{}}\nl = {a} select(m, q, b)\n"
            f"r = ({a}, {info}) tuple(l, k)"
        )
        yield custom(f"potrf-{uplo}-{c.sh(dtype, dims)}", dtype, text, [x], rel)
    w = vec(REAL[dtype], (*lead, n))
    target = f"lapack_{letter}{'syevd' if letter in 'sd' else 'heevd'}_ffi"
    for uplo in ("76", "85"):
        made = call(f"({a}, {w}, {info})", target, "p", [a], f"mode = 86 : ui8, uplo = {uplo} : ui8")
        text = (
            f"p = {a} parameter(0)\nf = {made}\nv = {a} get-tuple-element(f), index=0\n"
            f"w = {w} get-tuple-element(f), index=1\n"
            + scaled(dtype, "v", "w", dims, "vw")
            + conjugate(dtype, "v", dims, "vc")
            + f"m = {c.sh(dtype, dims)} dot(vw, vc), {batches(rank)}lhs_contracting_dims={{{rank + 1}}}, "
            f"rhs_contracting_dims={{{rank + 1}}}\nr = ({w}, {c.sh(dtype, dims)}) tuple(w, m)"
        )
        yield custom(f"eigh-{uplo}-{c.sh(dtype, dims)}", dtype, text, [x], rel)


def trsm(
    dtype: str,
    letter: str,
    lead: tuple[int, ...],
    side: str,
    uplo: str,
    trans: str,
    diag: str,
    rel: Tolerance,
) -> Case:
    """One triangular solve of size 4 with 3 right sides; its letters are bytes."""
    dims = (*lead, 4, 3) if side == "L" else (*lead, 3, 4)
    a, b = mat(dtype, (*lead, 4, 4)), mat(dtype, dims)
    x = c.random(dtype, (*lead, 4, 4), "trsm", scale=1.0).copy()
    x[..., np.arange(4), np.arange(4)] += 4
    config = f"diag = {ord(diag)} : ui8, side = {ord(side)} : ui8, trans_x = {ord(trans)} : ui8, uplo = {ord(uplo)} : ui8"
    more = "output_to_operand_aliasing={{}: (1, {})}, "
    made = call(b, f"lapack_{letter}trsm_ffi", "p, q", [a, b], config, more)
    text = f"p = {a} parameter(0)\nq = {b} parameter(1)\nr = {made}"
    name = f"trsm-{side}{uplo}{trans}{diag}-{c.sh(dtype, (*lead, 4, 4))}"
    return custom(name, dtype, text, [x, c.random(dtype, dims, "right")], rel)


def topk() -> Iterator[Case]:
    """The TopK call of XLA:CPU: f32 and the like, one or two dimensions."""
    for dtype in ("f32",):
        for dims in ((9,), (3, 7), (4, 64)):
            for k in (1, 2, 5):
                out = (*dims[:-1], k)
                n = dims[-1]
                text = (
                    f"p = {vec(dtype, dims)} parameter(0)\n"
                    f'r = ({vec(dtype, out)}, {vec("s32", out)}) custom-call(p), custom_call_target="TopK", '
                    f"called_computations={{top_k_gt}}"
                )
                compare = (
                    f"a = {dtype}[] parameter(0)\nb = {dtype}[] parameter(1)\ni = s32[] parameter(2)\nj = s32[] parameter(3)\n"
                    "z = pred[] compare(a, b), direction=GT, type=TOTALORDER"
                )
                x = (
                    c.Stream("topk", dims, k)
                    .permutation(int(np.prod(dims)))
                    .reshape(dims)
                    .astype(c.np_dtype(dtype))
                )

                def reference(v: c.Array, k: int = k) -> tuple[c.Array, c.Array]:
                    order = np.argsort(-v, axis=-1, kind="stable")[..., :k]
                    return np.take_along_axis(v, order, -1), order.astype(np.int32)

                name = f"TopK-{c.sh(dtype, dims)}-{k}"
                assert n >= k
                more = c.computation("top_k_gt", compare)
                yield custom(name, dtype, text, [x], c.EXACT, more, reference=reference)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from lapack()
    yield from topk()
