"""grad, vmap, jvp, jacobians, custom derivatives, checkpointing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from registry import Suite, ints, normal, uniform

suite = add = Suite("transforms")


def rosenbrock(x: jax.Array) -> jax.Array:
    """A curved valley."""
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@jax.custom_vjp
def clipped(x: jax.Array) -> jax.Array:
    """Identity with a clipped gradient."""
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))


@jax.custom_jvp
def log1pexp(x: jax.Array) -> jax.Array:
    """Softplus with its own derivative."""
    return jnp.log1p(jnp.exp(x))


log1pexp.defjvp(lambda p, t: (log1pexp(p[0]), t[0] * jax.nn.sigmoid(p[0])))


def newton(x: jax.Array) -> jax.Array:
    """Square root by iteration, unrolled."""
    y = x
    for _ in range(5):
        y = 0.5 * (y + x / y)
    return y


add("grad_rosenbrock", jax.grad(rosenbrock), normal(8), rel=1e-4)
add("value_and_grad", jax.value_and_grad(rosenbrock), normal(5), rel=1e-4)
add("hessian", jax.hessian(rosenbrock), normal(5), rel=1e-4)
add("jacobian_forward", jax.jacfwd(lambda x: jnp.sin(x) * x[0]), normal(6))
add("jacobian_reverse", jax.jacrev(lambda x: jnp.cumprod(x)), normal(6))
add("jvp", lambda x, t: jax.jvp(jnp.tanh, (x,), (t,)), normal(9), normal(9))
add("vjp_matmul", lambda a, b, g: jax.vjp(jnp.matmul, a, b)[1](g), normal(4, 5), normal(5, 3), normal(4, 3))
add("hvp", lambda x, v: jax.jvp(jax.grad(rosenbrock), (x,), (v,)), normal(6), normal(6), rel=1e-4)
add("vmap_matvec", jax.vmap(jnp.dot, in_axes=(None, 0)), normal(4, 5), normal(7, 5))
add("vmap_twice", jax.vmap(jax.vmap(jnp.subtract, (None, 0)), (0, None)), normal(4), normal(5))
add("vmap_grad", jax.vmap(jax.grad(lambda x: jnp.sin(x).prod())), normal(5, 4))
add("vmap_gather", jax.vmap(lambda a, i: a[i]), normal(5, 9), ints(5, 3, high=9))
add("vmap_scatter", jax.vmap(lambda a, i: a.at[i].add(1.0)), normal(5, 9), ints(5, 3, high=9))
add(
    "vmap_dynamic_slice",
    jax.vmap(lambda a, i: lax.dynamic_slice(a, (i,), (3,))),
    normal(5, 9),
    ints(5, high=9),
)
add("vmap_sort", jax.vmap(lambda a: jnp.sort(a)[::-1], 1, 1), normal(7, 4))
add("vmap_conv", jax.vmap(lambda x, k: jnp.convolve(x, k, mode="same")), normal(4, 12), normal(4, 3))
add("vmap_cond", jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)), normal(8), normal(8))
add(
    "vmap_while",
    jax.vmap(lambda x: lax.while_loop(lambda v: v < 50, lambda v: v * 2 + 1, x)),
    uniform(8, low=1, high=30),
)
add("vmap_fft", jax.vmap(lambda x: jnp.abs(jnp.fft.rfft(x))), normal(4, 16))
add("grad_sort", jax.grad(lambda x: (jnp.sort(x) * jnp.arange(9.0)).sum()), normal(9))
add(
    "grad_max_pool",
    jax.grad(
        lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()
    ),
    normal(2, 6, 6, 3),
)
add(
    "grad_avg_pool",
    jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()),
    normal(1, 7, 7, 2),
)
add("grad_gather", jax.grad(lambda a, i: (a[i] ** 3).sum()), normal(6, 3), ints(9, high=6))
add(
    "grad_scatter",
    jax.grad(lambda v, i: (jnp.zeros((6, 3)).at[i].add(v) ** 2).sum()),
    normal(9, 3),
    ints(9, high=6),
)
add("grad_cumsum", jax.grad(lambda x: (jnp.cumsum(x) ** 2).sum()), normal(10))
add("grad_logsumexp", jax.grad(lambda x: jax.nn.logsumexp(x, axis=1).sum()), normal(4, 6))
add("grad_fft", jax.grad(lambda x: (jnp.abs(jnp.fft.rfft(x)) ** 2).sum()), normal(16))
add("grad_where", jax.grad(lambda x: jnp.where(x > 0, x**2, jnp.sin(x)).sum()), normal(12))
add("grad_norm", jax.grad(lambda x: jnp.linalg.norm(x, axis=1).sum()), normal(4, 5))
add("grad_scan", jax.grad(lambda x: lax.scan(lambda h, v: (jnp.tanh(h * 0.5 + v), h), 0.0, x)[0]), normal(12))
add("grad_remat", jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x))).sum())), normal(10))
add("grad_custom_vjp", jax.grad(lambda x: (clipped(x) ** 2).sum()), normal(10))
add("grad_custom_jvp", jax.grad(lambda x: log1pexp(x).sum()), normal(10))
add("stop_gradient", jax.grad(lambda x: (lax.stop_gradient(x) * x**2).sum()), normal(10))
add("grad_newton", jax.vmap(jax.grad(newton)), uniform(6, low=0.5, high=4))
add("third_derivative", jax.vmap(jax.grad(jax.grad(jax.grad(lambda x: jnp.sin(x) * x**3)))), normal(8))
add("linearize", lambda x, t: jax.linearize(lambda v: jnp.exp(v) * v, x)[1](t), normal(6), normal(6))
add(
    "grad_f64",
    jax.grad(lambda x: (jnp.exp(-(x**2)) * jnp.cos(3 * x)).sum()),
    normal(12, dtype="float64"),
    x64=True,
)
