"""Programs over the four devices of the platform hlorun, held against the same on JAX's four of the CPU."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback, serialize_executable
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from streams import Stream

COUNT = 4


def equal(got, want, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tolerance, atol=tolerance)


def numbers(*dims):
    return Stream("jax plugin", *dims).normal(dims)


def meshes(*shape, names=("x", "y")):
    """The same mesh on both platforms."""
    for platform in ("hlorun", "cpu"):
        yield Mesh(np.array(jax.devices(platform)).reshape(shape), names[: len(shape)])


def both(make, *shape):
    """What `make` gives for the mesh of either platform."""
    ours, theirs = (make(mesh) for mesh in meshes(*shape))
    leaves, tree = jax.tree.flatten(ours)
    wanted, wanted_tree = jax.tree.flatten(theirs)
    assert tree == wanted_tree
    for a, b in zip(leaves, wanted, strict=True):
        assert a.sharding.is_equivalent_to(a.sharding, a.ndim) and len(a.devices()) == len(b.devices())
        assert getattr(a.sharding, "spec", None) == getattr(b.sharding, "spec", None)
        equal(a, b)


def case_devices():
    assert (
        [device.id for device in jax.devices()] == list(range(COUNT)) == [d.id for d in jax.local_devices()]
    )
    x = jax.device_put(np.ones(3), jax.devices()[2])
    assert (x + 1).devices() == {jax.devices()[2]}
    y = jax.device_put(x, jax.devices()[1])
    assert y.devices() == {jax.devices()[1]}
    equal(y, np.ones(3))
    with contextlib.suppress(ValueError):
        x + y
        raise AssertionError("arrays of two devices were added")


def case_pmap():
    x = numbers(COUNT, 3)
    equal(jax.pmap(lambda a: lax.psum(a, "i"), axis_name="i")(x), np.tile(x.sum(0), (COUNT, 1)))
    equal(jax.pmap(lambda a: a * lax.axis_index("i"), axis_name="i")(x), x * np.arange(COUNT)[:, None])
    equal(jax.pmap(lambda a: a + 1, devices=jax.devices()[:2])(x[:2]), x[:2] + 1)


def case_collectives_of_shard_map():
    x = numbers(8, 8)
    pairs = [(i, (i + 1) % COUNT) for i in range(COUNT)]
    bodies = {
        "psum": (lambda a: lax.psum(a, "x"), P()),
        "pmax": (lambda a: lax.pmax(a, "x"), P()),
        "all_gather": (lambda a: lax.all_gather(a, "x", tiled=True), P("x")),
        "psum_scatter": (lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), P("x")),
        "all_to_all": (lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x")),
        "ppermute": (lambda a: lax.ppermute(a, "x", pairs), P("x")),
        "axis_index": (lambda a: a + lax.axis_index("x"), P("x")),
    }
    for body, out in bodies.values():

        def run(mesh, body=body, out=out):
            return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=out))(x)

        both(run, COUNT)


def case_jit_with_shardings():
    x = numbers(8, 8)

    def f(a):
        return a @ a.T, jnp.sum(a), jnp.sort(a, axis=0), jnp.cumsum(a, axis=1)

    for spec in (P("x"), P(None, "x"), P("y", "x"), P(("x", "y")), P()):
        both(lambda mesh, spec=spec: jax.jit(f)(jax.device_put(x, NamedSharding(mesh, spec))), 2, 2)
    both(lambda mesh: jax.jit(lambda a: a @ a, out_shardings=NamedSharding(mesh, P("y")))(x), 2, 2)


def case_constraints_and_gradients():
    x, w = numbers(16, 8), numbers(8, 4)

    def step(mesh):
        @jax.jit
        def update(w, x):
            def loss(w):
                y = lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(mesh, P("x", "y")))
                return jnp.mean(y**2)

            return w - 0.1 * jax.grad(loss)(w)

        there = jax.device_put(w, NamedSharding(mesh, P(None, "y")))
        data = jax.device_put(x, NamedSharding(mesh, P("x")))
        for _ in range(3):
            there = update(there, data)
        return there

    both(step, 2, 2)


def case_some_devices_in_another_order():
    x = numbers(4, 2)
    chosen = [jax.devices()[3], jax.devices()[1]]
    mesh = Mesh(np.array(chosen), ("x",))
    y = jax.jit(lambda a: a * 2 + a.sum())(jax.device_put(x, NamedSharding(mesh, P("x"))))
    assert y.devices() == set(chosen)
    equal(y, x * 2 + x.sum())
    equal(y.addressable_shards[0].data, (x * 2 + x.sum())[:2])
    assert y.addressable_shards[0].device == chosen[0]


def case_a_mesh_of_one():
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    x = jax.device_put(numbers(4, 4), NamedSharding(mesh, P("x")))
    equal(jax.jit(lambda a: a @ a)(x), numbers(4, 4) @ numbers(4, 4))
    equal(jax.jit(jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(x), x)


def case_donation():
    sharding = NamedSharding(next(meshes(COUNT)), P("x"))
    x = jax.device_put(numbers(8), sharding)
    y = jax.jit(lambda a: a + 1, donate_argnums=0, out_shardings=sharding)(x)
    assert x.is_deleted()
    equal(y, numbers(8) + 1)


def case_callbacks():
    seen = []
    mesh = next(meshes(COUNT))

    def body(a):
        io_callback(lambda a: seen.append(float(np.sum(a))), None, a)
        return a

    jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(
        np.arange(8.0)
    ).block_until_ready()
    jax.effects_barrier()
    assert sorted(seen) == [1.0, 5.0, 9.0, 13.0], seen


def case_saved_executables():
    sharding = NamedSharding(next(meshes(COUNT)), P("x"))
    x = jax.device_put(numbers(8, 8), sharding)
    compiled = jax.jit(lambda a: a @ a.T).lower(x).compile()
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    equal(loaded(x), numbers(8, 8) @ numbers(8, 8).T, 1e-4)


def case_resharding():
    x = numbers(8, 8)
    mesh = next(meshes(2, 2))
    there = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
    for spec in (P("y", "x"), P(), P(("x", "y")), P(None, "y")):
        there = jax.device_put(there, NamedSharding(mesh, spec))
        equal(there, x)
