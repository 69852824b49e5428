"""What JAX and its programs expect of any backend: answers, errors, and whose memory an array has."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from streams import Stream


def equal(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-6)


def numbers(*dims):
    return Stream("jax plugin", *dims).normal(dims)


def refused(call, *texts):
    """Asserts that the call fails in the run or compilation, with a message that has every text."""
    try:
        call()
    except jax.errors.JaxRuntimeError as error:
        missing = [text for text in texts if text not in str(error)]
        assert not missing, f"{missing} not in: {error}"
    else:
        raise AssertionError("nothing was raised")


def case_an_array_is_donated_once():
    x = jnp.asarray(numbers(4))
    both = jax.jit(lambda a, b: (a + 1, b + 2), donate_argnums=(0, 1))
    refused(lambda: both(x, x), "INVALID_ARGUMENT", "donate the same buffer twice")
    one = jax.jit(lambda a, b: a + b, donate_argnums=0)
    refused(lambda: one(x, x), "INVALID_ARGUMENT", "previously donated")
    equal(x, numbers(4))
    equal(one(x, x + 1), numbers(4) * 2 + 1)
    assert x.is_deleted()


def case_copies_have_memory_of_their_own():
    x = jnp.asarray(numbers(16))
    (device,) = x.devices()
    alias = jax.device_put(x, device, may_alias=True)
    copy = jax.device_put(x, device, may_alias=False)
    assert alias.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    pointers = {array.unsafe_buffer_pointer() for array in (x, copy, *jax.jit(lambda a: (a, a))(x))}
    assert len(pointers) == 4
    x.delete()
    equal(copy, numbers(16))


def case_dlpack_of_our_own_arrays():
    x = jnp.asarray(numbers(6))
    (device,) = x.devices()
    for other, is_alias in (
        (jnp.from_dlpack(x), True),
        (jax.dlpack.from_dlpack(x, copy=False), True),
        (jnp.from_dlpack(x, device=device, copy=True), False),
        (jax.dlpack.from_dlpack(x, device=jax.sharding.SingleDeviceSharding(device)), True),
    ):
        assert other.devices() == {device}
        assert (other.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()) == is_alias
        equal(other, numbers(6))
    (cpu,) = jax.devices("cpu")
    assert jnp.from_dlpack(x, device=cpu).devices() == {cpu}
    assert jnp.from_dlpack(numbers(6), device=device).devices() == {device}


def case_compiler_options_are_looked_at():
    lowered = jax.jit(lambda x: x * 2).lower(1.0)
    equal(lowered.compile({"xla_embed_ir_in_executable": True})(2.0), 4)
    refused(lambda: lowered.compile({"no_such_option": 1}), "INVALID_ARGUMENT", "no_such_option")
    wrong = {"xla_embed_ir_in_executable": "perhaps"}
    refused(lambda: lowered.compile(wrong), "INVALID_ARGUMENT", "perhaps")


def case_costs_are_known_before_compilation():
    lowered = jax.jit(lambda x: jnp.sin(x) @ x).lower(numbers(8, 8))
    costs = lowered.cost_analysis()
    assert costs["flops"] == 2 * 8**3 and costs["transcendentals"] == 64
    assert costs == lowered.compile().cost_analysis()


def case_a_device_says_how_much_memory_it_has():
    x = jnp.asarray(numbers(1000))
    stats = x.device.memory_stats()
    assert stats["bytes_in_use"] >= x.nbytes
    # Not every system says how much memory there is.
    limit = stats.get("bytes_limit", 1 << 60)
    assert limit == stats.get("bytes_reservable_limit", 1 << 60) > stats["bytes_in_use"]
    assert stats["peak_bytes_in_use"] >= stats["bytes_in_use"]


def case_branches_by_platform():
    def branches(**named):
        return float(jax.jit(lambda x: lax.platform_dependent(x, **named))(1.0))

    ours, cpu, tpu = (lambda x, n=n: x + n for n in (1, 2, 3))
    assert branches(cpu=cpu, tpu=tpu) == 3
    assert branches(cpu=cpu, default=tpu) == 3
    assert branches(tpu=tpu, default=ours) == 2
    assert branches(cpu=cpu, hlorun=ours, default=tpu) == 2


def case_exports():
    def exported(*platforms):
        made = jax.export.export(jax.jit(jnp.sin), platforms=platforms or None)
        return made(jax.ShapeDtypeStruct((3,), np.float32))

    x = numbers(3)
    assert exported().platforms == ("hlorun",)
    for platforms in ((), ("cpu",), ("tpu", "cpu"), ("cpu", "hlorun")):
        equal(exported(*platforms).call(x), np.sin(x))
    try:
        exported("tpu").call(x)
    except ValueError as error:
        assert "'hlorun'" in str(error)
    else:
        raise AssertionError("what was exported for another platform ran")


def case_sparse_matrices():
    from jax.experimental import sparse

    dense = np.where(numbers(5, 7) > 0, numbers(5, 7), 0)
    matrix = sparse.BCSR.fromdense(dense)
    for right in (numbers(7), numbers(7, 3)):
        equal(matrix @ right, dense @ right)
        equal(jax.jit(lambda a, b: a @ b)(sparse.BCSR.fromdense(dense, nse=40), right), dense @ right)
    square = dense[:, :5] + 9 * np.eye(5, dtype=dense.dtype)
    rows = sparse.BCSR.fromdense(square)
    solved = sparse.linalg.spsolve(rows.data, rows.indices, rows.indptr, numbers(5))
    equal(solved, np.linalg.solve(square, numbers(5)))


def case_tridiagonal_systems():
    below, diagonal, above, right = numbers(3, 6), numbers(3, 6) / 4, numbers(3, 6) * 2, numbers(3, 6, 2)
    below[:, 0] = above[:, -1] = 0
    dense = diagonal[..., None] * np.eye(6) + np.stack(
        [np.diag(b[1:], -1) + np.diag(a[:-1], 1) for b, a in zip(below, above, strict=True)]
    )

    def solve(*system):
        return jax.jit(lambda *s: lax.linalg.tridiagonal_solve(*s, perturb_singular=True))(*system)

    equal(solve(below, diagonal, above, right), np.linalg.solve(dense, right))
    # Of a singular system, the solution is finite, and along what the matrix takes to zero.
    flat = np.zeros(2, np.float32)
    one = np.ones((2, 1), np.float32)
    found = np.asarray(solve(flat, np.array([1, 0], np.float32), flat, one))
    assert found[0, 0] == 1 and np.isfinite(found[1, 0]) and abs(found[1, 0]) > 1e6
    values, vectors = jax.scipy.linalg.eigh_tridiagonal(diagonal[0], above[0, :-1], eigvals_only=False)
    matrix = np.diag(diagonal[0]) + np.diag(above[0, :-1], 1) + np.diag(above[0, :-1], -1)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-4)


def case_what_a_callback_raises_is_no_wrong_argument():
    def bad(x):
        raise ValueError("the reason")

    import logging

    logging.disable(logging.ERROR)
    try:
        refused(lambda: jax.jit(lambda x: jax.pure_callback(bad, x, x))(1.0), "INTERNAL", "the reason")
    finally:
        logging.disable(logging.NOTSET)
