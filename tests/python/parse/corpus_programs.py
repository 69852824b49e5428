"""Cases: control flow, models and programs for several devices."""

# mypy: disable-error-code="no-untyped-call,import-not-found,import-untyped"
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import ode
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from corpus_case import Case, spec


def control_flow() -> Iterator[Case]:
    """Loops, branches, calls and derivatives of them."""
    x = spec("float32", 4)

    def step(carry: Any, y: Any) -> Any:
        return carry * 0.9 + y, jnp.tanh(carry)

    yield Case("scan", lambda x, y: lax.scan(step, x, y), (x, spec("float32", 7, 4)))
    yield Case(
        "scan_reverse", lambda x, y: lax.scan(step, x, y, reverse=True, unroll=2), (x, spec("float32", 7, 4))
    )
    yield Case("scan_grad", jax.grad(lambda x, y: lax.scan(step, x, y)[0].sum()), (x, spec("float32", 7, 4)))
    yield Case(
        "scan_vmap",
        jax.vmap(lambda x, y: lax.scan(step, x, y)),
        (spec("float32", 3, 4), spec("float32", 3, 7, 4)),
    )
    yield Case(
        "scan_nested",
        lambda x, y: lax.scan(lambda c, y: (lax.scan(step, c, y)[0], y), x, y),
        (x, spec("float32", 5, 7, 4)),
    )
    yield Case(
        "while",
        lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)),
        (x,),
    )
    yield Case("while_dynamic", lambda x: lax.while_loop(lambda c: jnp.sum(c) < 10, lambda c: c * 2, x), (x,))
    yield Case("fori", lambda x: lax.fori_loop(0, 5, lambda i, c: c + i, x), (x,))
    yield Case("cond", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (spec("bool"), x))
    yield Case("cond_vmap", jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), (spec("bool", 4), x))
    yield Case("cond_grad", jax.grad(lambda x, p: lax.cond(p, jnp.sin, jnp.cos, x).sum()), (x, spec("bool")))
    yield Case(
        "switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan, lambda x: x], x), (spec("int32"), x)
    )
    yield Case("map", lambda x: lax.map(jnp.sin, x), (x,))
    yield Case("checkpoint", jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), (x,))
    yield Case("hessian", jax.hessian(lambda x: jnp.prod(jnp.sin(x))), (x,))
    yield Case("jacobian", jax.jacfwd(lambda x: jnp.outer(x, jnp.sin(x))), (x,))
    yield Case(
        "custom_root",
        lambda x: lax.custom_root(
            lambda y: y**2 - x.sum(),
            1.0,
            lambda f, y: lax.fori_loop(0, 5, lambda _, y: y - f(y), y),
            lambda g, y: y / g(1.0),
        ),
        (x,),
    )
    yield Case("optimization_barrier", lambda x: lax.optimization_barrier((x, x + 1)), (x,))
    yield Case("named_scope", lambda x: jax.named_scope("scope 'a' \"b\"")(jnp.sin)(x), (x,))
    yield Case("inner_jit", lambda x: jax.jit(jnp.sin, inline=False)(x) + jax.jit(jnp.sin)(x * 2), (x,))
    yield Case("donated", lambda x, y: (x + y, y * 2), (x, x), {"donate_argnums": (0, 1)})
    yield Case(
        "donated_tuple", lambda t: (t[0] + 1, t[1] * 2), ((x, x),), {"donate_argnums": 0, "keep_unused": True}
    )
    if hasattr(lax, "composite"):
        yield Case("composite", lax.composite(lambda x: jnp.sin(x) * 2, "my.composite"), (x,))
    yield Case("pure_callback", lambda x: jax.pure_callback(np.sin, x, x), (x,))
    yield Case("debug_print", lambda x: (jax.debug.print("x {}", x), x + 1)[1], (x,))
    yield Case("linear_transpose", lambda x: jax.linear_transpose(lambda y: jnp.cumsum(y) * 3, x)(x), (x,))
    yield Case("ode", lambda x: ode.odeint(lambda y, t: -y, x, jnp.linspace(0, 1, 3)), (x,))
    yield Case(
        "cost", lambda x: jnp.sin(x).sum(), (x,), {"compiler_options": {"xla_cpu_enable_fast_math": True}}
    )


def models() -> Iterator[Case]:
    """Small networks with their training steps."""

    def mlp(parameters: Any, x: Any) -> Any:
        for weight, bias in parameters:
            x = jnp.tanh(x @ weight + bias)
        return x

    layers = [(spec("float32", 8, 16), spec("float32", 16)), (spec("float32", 16, 4), spec("float32", 4))]
    x = spec("float32", 5, 8)
    yield Case("mlp", mlp, (layers, x))

    def update(parameters: Any, x: Any) -> Any:
        gradients = jax.grad(lambda p: (mlp(p, x) ** 2).mean())(parameters)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    yield Case("mlp_update", update, (layers, x), {"donate_argnums": 0})

    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    qkv = (spec("float32", 2, 6, 2, 4),) * 3
    yield Case("attention", attention, qkv)
    yield Case("attention_grad", jax.grad(lambda *a: attention(*a).sum(), argnums=(0, 1, 2)), qkv)

    def lstm(w: Any, x: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((3, 8))
        return lax.scan(cell, (zero, zero), x)[1].sum()

    yield Case("lstm", lstm, (spec("float32", 12, 32), spec("float32", 6, 3, 4)))
    yield Case("lstm_grad", jax.value_and_grad(lstm), (spec("float32", 12, 32), spec("float32", 6, 3, 4)))

    def batch_norm(x: Any, scale: Any) -> Any:
        mean = x.mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5) * scale

    yield Case(
        "batch_norm_grad",
        jax.grad(lambda x, s: batch_norm(x, s).sum()),
        (spec("bfloat16", 2, 4, 4, 3), spec("bfloat16", 3)),
    )


def parallel() -> Iterator[Case]:
    """Programs for several devices: collectives and sharded arrays."""
    devices = jax.devices()
    if len(devices) < 8:
        return
    mesh = Mesh(np.array(devices[:8]).reshape(4, 2), ("a", "b"))
    x = spec("float32", 8, 16)

    def mapped(name: str, function: Callable[..., Any], into: P, out: P) -> Case:
        return Case(
            f"shard_map_{name}",
            jax.shard_map(function, mesh=mesh, in_specs=into, out_specs=out, check_vma=False),
            (x,),
        )

    if not hasattr(jax, "shard_map"):
        return
    yield mapped("psum", lambda x: lax.psum(x, "a"), P("a", "b"), P(None, "b"))
    yield mapped("psum_both", lambda x: lax.psum((x, x * 2), ("a", "b")), P("a", "b"), P())
    yield mapped("pmax", lambda x: lax.pmax(x, "b"), P("a", "b"), P("a"))
    yield mapped("pmean", lambda x: lax.pmean(x, "b"), P("a", "b"), P("a"))
    yield mapped("all_gather", lambda x: lax.all_gather(x, "a"), P("a", "b"), P(None, None, "b"))
    yield mapped(
        "all_gather_tiled", lambda x: lax.all_gather(x, "b", axis=1, tiled=True), P("a", "b"), P("a")
    )
    yield mapped(
        "psum_scatter",
        lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True),
        P("a"),
        P("a", "b"),
    )
    yield mapped("all_to_all", lambda x: lax.all_to_all(x, "b", 0, 1, tiled=True), P("a", "b"), P("a", "b"))
    yield mapped(
        "ppermute",
        lambda x: lax.ppermute(x, "a", [(i, (i + 1) % 4) for i in range(4)]),
        P("a", "b"),
        P("a", "b"),
    )
    yield mapped("axis_index", lambda x: x + lax.axis_index("a"), P("a", "b"), P("a", "b"))
    yield mapped("pbroadcast", lambda x: lax.pbroadcast(x, "a", 0), P("a", "b"), P("a", "b"))
    yield mapped("grad", jax.grad(lambda x: lax.psum(jnp.sin(x), "a").sum()), P("a", "b"), P("a", "b"))
    for index, (into, out) in enumerate(
        (
            (P("a", "b"), P("b", "a")),
            (P("a"), P()),
            (P(("a", "b")), P(None, "b")),
            (P(None, "b"), P("a")),
            (P(), P("b")),
        )
    ):
        options = {"in_shardings": NamedSharding(mesh, into), "out_shardings": NamedSharding(mesh, out)}
        yield Case(f"sharded_{index}_reshard", lambda x: x * 2, (x,), options)
        yield Case(f"sharded_{index}_matmul", lambda x: x @ x.T, (x,), options)
        yield Case(f"sharded_{index}_mean", lambda x: (x - x.mean(0)) @ x.T, (x,), options)
        yield Case(
            f"sharded_{index}_tuple",
            lambda x: (x, {"s": x.sum(), "m": [x.max(), x + 1]}),
            (x,),
            {"in_shardings": options["in_shardings"]},
        )

        def constrained(x: Any, out: P = out) -> Any:
            return lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, out)) + 1

        yield Case(
            f"sharded_{index}_constrained", constrained, (x,), {"in_shardings": options["in_shardings"]}
        )
    one = Mesh(np.array(devices[:1]), ("a",))
    yield Case("sharded_single", lambda x: x * 2, (x,), {"in_shardings": NamedSharding(one, P("a"))})
