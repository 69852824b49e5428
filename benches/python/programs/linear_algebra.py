"""Linear algebra: batches of small factorizations and solves, iterations, filters, processes, sparse products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from programs.registry import Draw, Made, program

GROUP = "linear algebra"


@program(GROUP)
def batched_cholesky(draw: Draw) -> Made:
    return jnp.linalg.cholesky, (draw.positive_definite(draw.size(100, 2000), draw.size(3, 24)),)


@program(GROUP)
def batched_solve(draw: Draw) -> Made:
    n, batch = draw.size(3, 24), draw.size(100, 1000)
    return jnp.linalg.solve, (draw.positive_definite(batch, n), draw.normal(batch, n, 1))


@program(GROUP)
def batched_cholesky_solve(draw: Draw) -> Made:
    n, batch = draw.size(3, 16), draw.size(100, 1000)

    def f(a: Any, b: Any) -> Any:
        return jax.vmap(lambda a, b: jsl.cho_solve((jnp.linalg.cholesky(a), True), b))(a, b)

    return f, (draw.positive_definite(batch, n), draw.normal(batch, n))


@program(GROUP)
def batched_triangular_solve(draw: Draw) -> Made:
    n, batch, columns = draw.size(4, 24), draw.size(100, 1000), draw.size(1, 8)
    lower = np.tril(draw.positive_definite(batch, n))
    return lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True), (
        lower,
        draw.normal(batch, n, columns),
    )


@program(GROUP)
def batched_inverse_determinant(draw: Draw) -> Made:
    x = draw.positive_definite(draw.size(100, 1000), draw.size(3, 8))
    return lambda x: (jnp.linalg.inv(x), jnp.linalg.slogdet(x)[1]), (x,)


@program(GROUP)
def batched_qr(draw: Draw) -> Made:
    n = draw.size(3, 12)
    return lambda x: jnp.abs(jnp.linalg.qr(x)[1]), (draw.normal(draw.size(50, 500), 2 * n, n),)


@program(GROUP, tolerance=1e-2)
def batched_eigh(draw: Draw) -> Made:
    return jnp.linalg.eigvalsh, (draw.positive_definite(draw.size(50, 500), draw.size(3, 12)),)


@program(GROUP, tolerance=1e-2)
def conjugate_gradient(draw: Draw) -> Made:
    n = draw.size(50, 1000)

    def f(a: Any, b: Any) -> Any:
        return jax.scipy.sparse.linalg.cg(lambda v: a @ v, b, maxiter=30, tol=0.0)[0]

    return f, (draw.positive_definite(n), draw.normal(n))


@program(GROUP)
def matrix_exponential(draw: Draw) -> Made:
    n = draw.size(4, 64)
    return jsl.expm, (draw.normal(n, n, scale=0.3 * n**-0.5),)


@program(GROUP, tolerance=1e-2)
def kalman_filter(draw: Draw) -> Made:
    n, m, steps = draw.size(3, 8), draw.size(2, 3), draw.size(50, 500)

    def f(a: Any, c: Any, ys: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            x, p = state
            x, p = a @ x, a @ p @ a.T + 0.1 * jnp.eye(n)
            s = c @ p @ c.T + 0.5 * jnp.eye(m)
            gain = jnp.linalg.solve(s, c @ p).T
            x, p = x + gain @ (y - c @ x), (jnp.eye(n) - gain @ c) @ p
            return (x, p), x

        return jax.lax.scan(step, (jnp.zeros(n), jnp.eye(n)), ys)[1]

    turn = np.linalg.qr(draw.normal(n, n))[0].astype(np.float32) * np.float32(0.95)
    return f, (turn, draw.normal(m, n), draw.normal(steps, m))


@program(GROUP, tolerance=1e-2)
def gaussian_process(draw: Draw) -> Made:
    n, d = draw.size(50, 500), draw.size(1, 8)

    def loss(scale: Any, x: Any, y: Any) -> Any:
        square = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = jnp.exp(-0.5 * square * jnp.exp(scale)) + 0.1 * jnp.eye(n)
        factor = jnp.linalg.cholesky(k)
        z = jsl.solve_triangular(factor, y, lower=True)
        return 0.5 * z @ z + jnp.log(jnp.diag(factor)).sum()

    return jax.value_and_grad(loss), (np.float32(0.1), draw.normal(n, d), draw.normal(n))


@program(GROUP)
def sparse_product(draw: Draw) -> Made:
    n, k = draw.size(1000, 20000), draw.size(2, 16)

    def f(values: Any, columns: Any, x: Any) -> Any:
        for _ in range(3):
            x = (values * x[columns]).sum(-1)
        return x

    return f, (draw.normal(n, k, scale=k**-0.5), draw.integers(n, n, k), draw.normal(n))


@program(GROUP)
def coordinate_product(draw: Draw) -> Made:
    n, entries = draw.size(500, 5000), draw.size(5000, 100000)

    def f(values: Any, rows: Any, columns: Any, x: Any) -> Any:
        return jax.ops.segment_sum(values[:, None] * x[columns], rows, n)

    at = draw.integers(n, 2, entries)
    return f, (draw.normal(entries), np.sort(at[0]), at[1], draw.normal(n, draw.size(1, 32)))


@program(GROUP, tolerance=1e-2)
def admm_lasso(draw: Draw) -> Made:
    m, n = draw.size(50, 300), draw.size(20, 150)

    def f(a: Any, b: Any) -> Any:
        factor = jnp.linalg.cholesky(a.T @ a + jnp.eye(n))
        target = a.T @ b

        def step(_: Any, state: Any) -> Any:
            _x, z, u = state
            x = jsl.cho_solve((factor, True), target + z - u)
            z = jnp.sign(x + u) * jnp.maximum(jnp.abs(x + u) - 0.1, 0)
            return x, z, u + x - z

        zero = jnp.zeros(n)
        return jax.lax.fori_loop(0, 50, step, (zero, zero, zero))[1]

    return f, (draw.normal(m, n), draw.normal(m))


@program(GROUP)
def power_iteration(draw: Draw) -> Made:
    n = draw.size(20, 400)

    def f(a: Any, v: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            v = a @ v
            return v / jnp.linalg.norm(v)

        return jax.lax.fori_loop(0, 40, step, v)

    return f, (draw.positive_definite(n), draw.uniform(n))


@program(GROUP)
def rotations(draw: Draw) -> Made:
    n = draw.size(1000, 50000)

    def f(a: Any, b: Any, x: Any) -> Any:
        return jnp.einsum("nij,njk,nk->ni", a, b, x)

    return f, (draw.normal(n, 3, 3), draw.normal(n, 3, 3), draw.normal(n, 3))


@program(GROUP)
def pairwise_forces(draw: Draw) -> Made:
    n = draw.size(50, 600)

    def f(x: Any) -> Any:
        gap = x[:, None] - x[None]
        square = (gap * gap).sum(-1) + 0.01
        return (gap * (square**-1.5)[..., None]).sum(1)

    return f, (draw.normal(n, 3),)
