"""Batches of small matrices, which are factored in the lanes of vectors: right, and as each matrix by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlorun
from streams import Stream

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
LETTERS = {"f32": "s", "f64": "d"}
NEAR = {"f32": 1e-4, "f64": 1e-12}
# Sizes around those of vectors, and one beyond the largest that is called small.
ORDERS = (1, 2, 3, 7, 16, 32, 33)
BATCHES = (1, 2, 5, 16, 21)


def run(text: str, *inputs: Array) -> list[Array]:
    made = hlorun.compile(hlorun.parse(text), check=True)(*inputs)
    return [np.asarray(x) for x in (made if isinstance(made, (list, tuple)) else [made])]


def definite(stream: Stream, dtype: str, batch: int, n: int) -> Array:
    """Symmetric matrices whose smallest eigenvalue is at least 1."""
    x = stream.normal((batch, n, n), np.float64)
    square = sum(x[:, :, None, k] * x[:, None, :, k] for k in range(n)) / n
    return np.asarray(square + np.eye(n)).astype(DTYPES[dtype])


def cholesky_text(dtype: str, batch: int, n: int, lower: bool, layout: str) -> str:
    shape = f"{dtype}[{batch},{n},{n}]"
    return f"""HloModule m
ENTRY e {{
  a = {shape}{{{layout}}} parameter(0)
  ROOT l = {shape}{{{layout}}} cholesky(a), lower={str(lower).lower()}
}}
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", ORDERS)
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(dtype: str, n: int, lower: bool) -> None:
    for batch, layout in zip(BATCHES, ("2,1,0", "1,2,0", "0,2,1", "0,1,2", "1,2,0"), strict=True):
        a = definite(Stream("cholesky", dtype, n, batch), dtype, batch, n)
        (factor,) = run(cholesky_text(dtype, batch, n, lower, layout), a)
        wide = factor.astype(np.float64)
        turned = wide.swapaxes(-1, -2)
        whole = wide @ turned if lower else turned @ wide
        np.testing.assert_allclose(whole, a, rtol=0, atol=NEAR[dtype] * np.abs(a).max())
        np.testing.assert_array_equal(factor, np.tril(factor) if lower else np.triu(factor))
        for at in range(batch):
            (alone,) = run(cholesky_text(dtype, 1, n, lower, "2,1,0"), a[at : at + 1])
            assert alone[0].tobytes() == factor[at].tobytes()


def test_a_matrix_that_has_no_factor_spoils_no_other() -> None:
    a = definite(Stream("spoiled"), "f32", 20, 5)
    a[7] = -a[7]
    a[19, 2, 2] = np.nan
    (factor,) = run(cholesky_text("f32", 20, 5, True, "2,1,0"), a)
    bad = np.isnan(factor).any((1, 2))
    assert bad.nonzero()[0].tolist() == [7, 19]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(dtype: str, left: bool, lower: bool, transpose: str, unit: bool) -> None:
    for batch, n, k in ((1, 3, 1), (4, 5, 3), (18, 8, 2), (33, 2, 32), (3, 32, 33), (2, 33, 4)):
        stream = Stream("solve", dtype, left, lower, transpose, unit, batch, n, k)
        a = definite(stream, dtype, batch, n) / (n if unit else 1)
        a = a.astype(DTYPES[dtype])
        dims = (batch, n, k) if left else (batch, k, n)
        b = stream.normal(dims, DTYPES[dtype])
        of = ",".join(map(str, dims))
        (x,) = run(
            f"""HloModule m
ENTRY e {{
  a = {dtype}[{batch},{n},{n}] parameter(0)
  b = {dtype}[{of}] parameter(1)
  ROOT x = {dtype}[{of}] triangular-solve(a, b), left_side={str(left).lower()},
    lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}
""",
            a,
            b,
        )
        part = (np.tril(a) if lower else np.triu(a)).astype(np.float64)
        if unit:
            part[:, range(n), range(n)] = 1
        part = part if transpose == "NO_TRANSPOSE" else part.swapaxes(-1, -2)
        back = part @ x if left else x @ part
        np.testing.assert_allclose(back, b, rtol=0, atol=NEAR[dtype] * 10 * max(1.0, np.abs(x).max()))


def called(target: str, dtype: str, operands: list[tuple[int, ...]], results: list[str]) -> str:
    """A module of one call over arrays stored column by column."""

    def shape(dims: tuple[int, ...]) -> str:
        order = [len(dims) - 2, len(dims) - 1, *range(len(dims) - 3, -1, -1)] if len(dims) > 2 else [1, 0]
        return f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}}}"

    lines = "\n".join(f"  p{i} = {shape(dims)} parameter({i})" for i, dims in enumerate(operands))
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    return f"""HloModule m
ENTRY e {{
{lines}
  ROOT r = ({shape(operands[0])}, {", ".join(results)}) custom-call({names}), custom_call_target="{target}",
    api_version=API_VERSION_TYPED_FFI, backend_config={{}}
}}
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 3), (4, 9), (32, 32), (33, 2)])
def test_lu(dtype: str, size: tuple[int, int]) -> None:
    (m, n), letter = size, LETTERS[dtype]
    least = min(m, n)
    for batch in BATCHES:
        a = Stream("lu", dtype, m, n, batch).normal((batch, m, n), DTYPES[dtype])
        results = [f"s32[{batch},{least}]", f"s32[{batch}]"]
        text = called(f"lapack_{letter}getrf_ffi", dtype, [(batch, m, n)], results)
        split, pivots, status = run(text, a)
        assert not status.any()
        wide = split.astype(np.float64)
        lower = np.tril(wide, -1)[:, :, :least] + np.eye(m, least)
        wanted = a.copy()
        for at in range(batch):
            for k, row in enumerate(pivots[at]):
                wanted[at, [k, row - 1]] = wanted[at, [row - 1, k]]
        np.testing.assert_allclose(lower @ np.triu(wide)[:, :least], wanted, rtol=0, atol=NEAR[dtype] * 10)
        assert np.abs(lower).max() <= 1


def test_a_singular_matrix_has_the_status_of_its_pivot() -> None:
    a = definite(Stream("singular"), "f32", 6, 4)
    a[3, :, 2] = 0
    a[3, 2, :] = 0
    text = called("lapack_sgetrf_ffi", "f32", [(6, 4, 4)], ["s32[6,4]", "s32[6]"])
    assert run(text, a)[2].tolist() == [0, 0, 0, 3, 0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (8, 3), (32, 32), (33, 2)])
def test_qr(dtype: str, size: tuple[int, int]) -> None:
    m, n = size
    for batch in BATCHES:
        a = Stream("qr", dtype, m, n, batch).normal((batch, m, n), DTYPES[dtype])
        a[0, 1:, 0] = 0
        check_qr(dtype, a)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("f64", 1e-200), ("f64", 1e-160), ("f64", 1e150), ("f32", 1e-36), ("f32", 1e-30), ("f32", 1e37)],
)
def test_qr_of_what_is_tiny_or_huge(dtype: str, scale: float) -> None:
    """Squares underflow, and reciprocals overflow, where no element does."""
    a = Stream("scaled", dtype, str(scale)).normal((5, 4, 3), np.float64) * scale
    check_qr(dtype, a.astype(DTYPES[dtype]), scale)


def check_qr(dtype: str, a: Array, scale: float = 1) -> None:
    """Q is orthogonal, and Q R is A."""
    (batch, m, n), letter = a.shape, LETTERS[dtype]
    results = [f"{dtype}[{batch},{n}]"]
    packed, taus = run(called(f"lapack_{letter}geqrf_ffi", dtype, [(batch, m, n)], results), a)
    (q,) = run(
        f"""HloModule m
ENTRY e {{
  p = {dtype}[{batch},{m},{n}]{{1,2,0}} parameter(0)
  t = {dtype}[{batch},{n}] parameter(1)
  ROOT r = {dtype}[{batch},{m},{n}]{{1,2,0}} custom-call(p, t),
    custom_call_target="lapack_{letter}orgqr_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={{}}
}}
""",
        packed,
        taus,
    )
    wide = q.astype(np.float64)
    upper = np.triu(packed.astype(np.float64))[:, :n] / scale
    np.testing.assert_allclose(wide @ upper, a.astype(np.float64) / scale, rtol=0, atol=NEAR[dtype] * 10)
    np.testing.assert_allclose(
        wide.swapaxes(-1, -2) @ wide, np.broadcast_to(np.eye(n), (batch, n, n)), rtol=0, atol=NEAR[dtype]
    )
