"""jnp.linalg and jax.scipy.linalg. Signs and phases are free: factors are multiplied together again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
from jax.lax import linalg as ll
from registry import Suite, normal, spd

suite = add = Suite("linear")


def svd_product(a: Any) -> Any:
    """Values, and U S Vh."""
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s[..., None, :]) @ v


def full_svd(a: Any) -> Any:
    """Square orthogonal factors."""
    u, s, v = jnp.linalg.svd(a)
    return s, jnp.abs(u @ u.T), jnp.abs(v @ v.T)


def eigh_product(a: Any) -> Any:
    """Values, and V W V^H."""
    w, v = jnp.linalg.eigh(a)
    return w, (v * w[..., None, :]) @ jnp.conj(jnp.swapaxes(v, -1, -2))


def qr_product(a: Any) -> Any:
    """Q R, and Q^H Q."""
    q, r = jnp.linalg.qr(a)
    return q @ r, jnp.conj(jnp.swapaxes(q, -1, -2)) @ q


def lu_product(a: Any) -> Any:
    """P L U."""
    p, lo, up = sl.lu(a)
    return p @ lo @ up


def eig_product(a: Any) -> Any:
    """V W V^-1."""
    w, v = jnp.linalg.eig(a)
    return (v * w) @ jnp.linalg.inv(v)


def root_product(a: Any) -> Any:
    """The square root."""
    w, v = jnp.linalg.eigh(a)
    return (v * jnp.sqrt(w)) @ v.T


def hessenberg_product(a: Any) -> Any:
    """Q H Q^T."""
    h, q = sl.hessenberg(a, calc_q=True)
    return q @ h @ q.T


def schur_product(a: Any) -> Any:
    """Z T Z^T."""
    t, z = sl.schur(a)
    return z @ t @ z.T


def gaussian_process(x: Any, y: Any) -> Any:
    """The data term of the likelihood."""
    k = jnp.exp(-((x[:, None] - x) ** 2)) + 0.5 * jnp.eye(8)
    return y @ jnp.linalg.solve(k, y)


def complex_of(a: Any, b: Any) -> Any:
    """A Hermitian matrix."""
    z = a + 1j * b
    return z @ jnp.conj(z.T) + 5 * jnp.eye(a.shape[0])


L = {"rel": 2e-4}
add("cholesky", jnp.linalg.cholesky, spd(5), cuda=True, **L)
add("cholesky_batched", jnp.linalg.cholesky, spd(4, 3), cuda=True, **L)
add("cholesky_upper", lambda a: jnp.linalg.cholesky(a, upper=True), spd(5), **L)
add(
    "cholesky_complex",
    lambda a, b: jnp.linalg.cholesky(complex_of(a, b)),
    normal(4, 4),
    normal(4, 4),
    cuda=True,
    **L,
)
add("cho_solve", lambda a, b: sl.cho_solve(sl.cho_factor(a), b), spd(5), normal(5, 2), cuda=True, **L)
add("lu", lu_product, normal(5, 5), cuda=True, **L)
add("lu_factor", sl.lu_factor, normal(5, 5), cuda=True, **L)
add("lu_batched", lambda a: ll.lu(a), normal(3, 4, 4), cuda=True, **L)
add("solve", jnp.linalg.solve, spd(5), normal(5), cuda=True, **L)
add("solve_batched", jnp.linalg.solve, spd(4, 3), normal(3, 4, 2), cuda=True, **L)
add("inverse", jnp.linalg.inv, spd(5), cuda=True, **L)
add("determinant", lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)), spd(5), cuda=True, **L)
add("qr", qr_product, normal(6, 4), cuda=True, **L)
add("qr_wide", qr_product, normal(3, 5), **L)
add("qr_complete", lambda a: jnp.matmul(*jnp.linalg.qr(a, mode="complete")), normal(6, 3), cuda=True, **L)
add("qr_complex", lambda a, b: qr_product(a + 1j * b), normal(4, 3), normal(4, 3), **L)
add("svd", svd_product, normal(5, 4), cuda=True, **L)
add("svd_wide", svd_product, normal(3, 6), cuda=True, **L)
add("svd_batched", svd_product, normal(2, 4, 3), **L)
add("svd_full", full_svd, normal(5, 3), **L)
add("svd_values", lambda a: jnp.linalg.svd(a, compute_uv=False), normal(6, 4), cuda=True, **L)
add("eigh", eigh_product, spd(5), cuda=True, **L)
add("eigh_batched", eigh_product, spd(3, 4), cuda=True, **L)
add("eigh_complex", lambda a, b: eigh_product(complex_of(a, b)), normal(4, 4), normal(4, 4), cuda=True, **L)
add("eigvalsh", jnp.linalg.eigvalsh, spd(6), cuda=True, **L)
add("eigvals", lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), normal(5, 5), **L)
add("eig_product", eig_product, normal(4, 4), rel=1e-3)
add("pinv", jnp.linalg.pinv, normal(5, 3), **L)
add("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], normal(6, 3), normal(6), **L)
add("matrix_rank_cond", lambda a: (jnp.linalg.matrix_rank(a), jnp.linalg.cond(a)), normal(5, 3), **L)
add(
    "matrix_power",
    lambda a: (jnp.linalg.matrix_power(a, 5), jnp.linalg.multi_dot([a, a, a])),
    normal(4, 4, scale=0.5),
    **L,
)
add("norms", lambda a: [jnp.linalg.norm(a, o) for o in ("fro", "nuc", 1, 2, jnp.inf)], normal(4, 5), **L)
add(
    "triangular_solve",
    lambda a, b: (sl.solve_triangular(a, b, lower=True), sl.solve_triangular(a, b, trans=1)),
    spd(5),
    normal(5, 2),
    cuda=True,
    **L,
)
add(
    "triangular_right",
    lambda a, b: ll.triangular_solve(a, b, left_side=False, lower=True, unit_diagonal=True),
    spd(4),
    normal(3, 4),
    cuda=True,
    **L,
)
add("expm", lambda a: sl.expm(a * 0.3), normal(4, 4), **L)
add("sqrtm_spd", root_product, spd(4), **L)
add("hessenberg", hessenberg_product, normal(5, 5), **L)
add("schur", schur_product, normal(4, 4), **L)
add(
    "tridiagonal_solve",
    ll.tridiagonal_solve,
    normal(6),
    lambda r: r.uniform(4, 5, 6, "float32"),
    normal(6),
    normal(6, 2),
    **L,
)
add("block_toeplitz", lambda a: (sl.block_diag(a, a.T), sl.toeplitz(a[0], a[1])), normal(3, 3))
add("grad_cholesky", jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), spd(4), rel=1e-3)
add("grad_solve", jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()), spd(4), normal(4), rel=1e-3)
add("grad_logdet", jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), spd(4), rel=1e-3)
add("grad_eigh", jax.grad(lambda a: (jnp.linalg.eigh(a)[0] ** 2).sum()), spd(4), rel=1e-3)
add(
    "gaussian_process",
    gaussian_process,
    normal(8),
    normal(8),
    rel=1e-3,
)
add(
    "whitening",
    lambda x: x @ jnp.linalg.inv(jnp.linalg.cholesky(jnp.cov(x.T) + jnp.eye(4))).T,
    normal(12, 4),
    **L,
)
add("f64_solve", jnp.linalg.solve, spd(6, dtype="float64"), normal(6, dtype="float64"), x64=True, rel=1e-10)
add("f64_svd", svd_product, normal(5, 4, dtype="float64"), x64=True, cuda=True, rel=1e-10)
add("f64_eigh", eigh_product, spd(5, dtype="float64"), x64=True, cuda=True, rel=1e-10)
