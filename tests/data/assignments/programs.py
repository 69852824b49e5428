import sys

name = sys.argv[1]
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

f32 = np.float32


def ones(*s):
    return jnp.asarray(np.linspace(-1, 1, int(np.prod(s)), dtype=f32).reshape(s))


P = {}


def prog(f):
    P[f.__name__] = f
    return f


@prog
def add():
    return jax.jit(lambda x, y: x + y), (ones(8), ones(8))


@prog
def mlp_grad():
    def loss(p, x, y):
        for w, b in p[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = p[-1]
        return jnp.mean((x @ w + b - y) ** 2)

    p = [(ones(16, 32), ones(32)), (ones(32, 32), ones(32)), (ones(32, 4), ones(4))]
    return jax.jit(jax.value_and_grad(loss)), (p, ones(8, 16), ones(8, 4))


@prog
def while_loop():
    return jax.jit(
        lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, jnp.sin(c[1]) @ c[1]), (0, x))
    ), (ones(8, 8),)


@prog
def scan():
    def f(x, ws):
        return lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, ws)

    return jax.jit(f), (ones(4, 8), ones(5, 8, 8))


@prog
def scan_grad():
    def f(x, ws):
        c, _ = lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, ws)
        return c.sum()

    return jax.jit(jax.grad(f, argnums=(0, 1))), (ones(4, 8), ones(5, 8, 8))


@prog
def cond():
    return jax.jit(
        lambda p, x: lax.cond(p, lambda x: (jnp.sort(x), x * 2), lambda x: (x, jnp.cumsum(x)), x)
    ), (True, ones(16))


@prog
def switch():
    return jax.jit(lambda i, x: lax.switch(i, [lambda x: x @ x, lambda x: jnp.exp(x), lambda x: x.T], x)), (
        1,
        ones(6, 6),
    )


@prog
def sort():
    return jax.jit(lambda x, y: lax.sort((x, y), num_keys=1)), (ones(100), ones(100))


@prog
def top_k():
    return jax.jit(lambda x: lax.top_k(x, 5)), (ones(4, 50),)


@prog
def conv():
    return jax.jit(
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    ), (ones(2, 16, 16, 3), ones(3, 3, 3, 8))


@prog
def random():
    return jax.jit(lambda k: jax.random.normal(k, (128,))), (jax.random.PRNGKey(0),)


@prog
def dropout_nested_loops():
    def f(x):
        def outer(i, c):
            return lax.fori_loop(0, i, lambda j, d: d * 1.01 + jnp.sin(d), c)

        return lax.fori_loop(0, 5, outer, x)

    return jax.jit(f), (ones(32),)


@prog
def cholesky():
    return jax.jit(lambda a: jnp.linalg.cholesky(a @ a.T + 10 * jnp.eye(6, dtype=f32))), (ones(6, 6),)


@prog
def solve():
    return jax.jit(jnp.linalg.solve), (ones(6, 6) + jnp.eye(6), ones(6, 2))


@prog
def donate():
    return jax.jit(lambda x, y: (x + y, (x * y).sum()), donate_argnums=(0,)), (ones(64, 64), ones(64, 64))


@prog
def adam():
    def step(p, m, v, g):
        m = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree_util.tree_map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        p = jax.tree_util.tree_map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), p, m, v)
        return p, m, v

    t = {"a": ones(20, 30), "b": ones(30), "c": (ones(3), ones(2, 2))}
    return jax.jit(step, donate_argnums=(0, 1, 2)), (
        t,
        jax.tree_util.tree_map(lambda x: x + 0, t),
        jax.tree_util.tree_map(jnp.abs, t),
        jax.tree_util.tree_map(lambda x: x * 2, t),
    )


@prog
def attention():
    def f(q, k, v):
        s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s), v)

    return jax.jit(f), (ones(2, 2, 16, 8),) * 3


@prog
def scatter_gather():
    return jax.jit(lambda x, i, u: (x.at[i].add(u), x[i])), (ones(20, 4), jnp.array([1, 2, 2]), ones(3, 4))


@prog
def fft():
    return jax.jit(lambda x: jnp.fft.rfft(x)), (ones(4, 32),)


@prog
def dus():
    return jax.jit(lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), donate_argnums=(0,)), (
        ones(30, 30),
        ones(4, 4),
        3,
    )


@prog
def bf16():
    return jax.jit(lambda x, y: (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)).astype(jnp.float32)), (
        ones(16, 32),
        ones(32, 8),
    )


@prog
def constants():
    c = np.arange(4096, dtype=f32).reshape(64, 64)
    return jax.jit(lambda x: (x @ c, jnp.asarray(c), x)), (ones(4, 64),)


@prog
def swap():
    return jax.jit(lambda a, b, c: (b, a, a, c + 1)), (ones(8), ones(8), ones(8))


@prog
def reduce_window():
    return jax.jit(
        jax.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID").sum())
    ), (ones(8, 8),)


@prog
def callback():
    return jax.jit(
        lambda x: jax.pure_callback(lambda v: np.sin(v), jax.ShapeDtypeStruct((8,), f32), x) + 1
    ), (ones(8),)


f, a = P[name]() if name != "list" else (None, None)
if name == "list":
    print(*P)
else:
    jax.block_until_ready(f(*a))
