"""`hlorun.jax.jit` gives what `jax.jit` gives: values, types, trees, effects and errors."""

from __future__ import annotations

import doctest
import functools
import gc
import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest

import hlorun
from streams import Stream

jax: Any = pytest.importorskip("jax", reason="jax is not installed")
jnp: Any = import_module("jax.numpy")
lax: Any = import_module("jax.lax")
hj: Any = import_module("hlorun.jax")
callbacks: Any = import_module("hlorun.jax._callbacks")
stages: Any = import_module("hlorun.jax._stages")


def same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Two results have one structure, the same types, weak ones too, and close values."""
    leaves, tree = jax.tree.flatten(ours)
    wanted, wanted_tree = jax.tree.flatten(theirs)
    assert tree == wanted_tree
    for leaf, want in zip(leaves, wanted, strict=True):
        assert isinstance(leaf, jax.Array)
        assert jax.typeof(leaf) == jax.typeof(want)
        assert leaf.committed == want.committed
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf, want = jax.random.key_data(leaf), jax.random.key_data(want)
        wide = np.float64 if leaf.dtype == jnp.bfloat16 else leaf.dtype
        np.testing.assert_allclose(
            np.asarray(leaf).astype(wide), np.asarray(want).astype(wide), rtol=tolerance, atol=tolerance
        )


def both(f: Callable[..., Any], *args: Any, tolerance: float = 0.0, **options: Any) -> None:
    same(hj.jit(f, **options)(*args), jax.jit(f, **options)(*args), tolerance)


def numbers(*dims: int) -> Any:
    return jnp.asarray(Stream("jax", dims).normal(dims))


def matrix(n: int) -> Any:
    """Far from singular."""
    return numbers(n, n) + 3 * jnp.eye(n)


class Point(NamedTuple):
    x: Any
    y: Any


# What goes in and out


@pytest.mark.parametrize(
    "value",
    [1, 1.5, True, 2j, np.float32(2), np.int64(3), np.ones((2, 3)), np.arange(3), np.array("1", np.int8)],
    ids=repr,
)
def test_scalars_and_arrays_of_numpy_have_the_types_that_jax_gives_them(value: Any) -> None:
    both(lambda x: (x, x + 1), value)


def test_weak_types_stay_weak() -> None:
    result = hj.jit(lambda x: x * 2)(3)
    assert result.weak_type and (result + jnp.int8(1)).dtype == jnp.int8
    assert not hj.jit(lambda x: x * 2)(np.int32(3)).weak_type


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_that_does_not_fit_is_refused_before_and_after_it_is_planned(value: int) -> None:
    f = hj.jit(lambda x: x + 1)
    for number in (value, 1, value):
        if number == 1:
            assert f(number) == 2
        else:
            with pytest.raises(OverflowError):
                f(number)


def test_trees_come_out_as_they_went_in() -> None:
    tree = {"b": [1.0, (numbers(2),)], "a": Point(numbers(3), None), "c": ()}
    ours = hj.jit(lambda t, *, k: {"t": t, "k": [k, k + 1]})(tree, k=2)
    same(ours, jax.jit(lambda t, *, k: {"t": t, "k": [k, k + 1]})(tree, k=2))
    assert isinstance(ours["t"]["a"], Point) and ours["t"]["a"].y is None


def test_nothing_and_unused_things_may_go_in_and_out() -> None:
    both(lambda: ())
    both(lambda: jnp.arange(3))
    both(lambda x, y: (y, None), numbers(2), numbers(3))
    both(lambda x, y: y, numbers(2), numbers(3), keep_unused=True)
    both(lambda x: x[:0], numbers(2, 3))


def test_results_lie_in_the_memory_that_the_run_wrote() -> None:
    f = hj.jit(lambda x: x + 1)
    compiled = f.lower(numbers(1000)).compile()
    written: list[int] = []

    executable = compiled.executable

    def shown(*values: Any) -> Any:
        array = executable(*values)
        written.append(array.ctypes.data)
        return array

    compiled.executable = shown
    result = compiled(numbers(1000))
    assert written == [result.unsafe_buffer_pointer()]
    kept = np.asarray(result).copy()
    del compiled, f
    gc.collect()
    np.testing.assert_array_equal(np.asarray(result), kept)


def test_arguments_are_not_copied() -> None:
    x = numbers(1000)
    seen = []
    compiled = hj.jit(lambda x: x + 1).lower(x).compile()
    executable = compiled.executable

    def shown(*values: Any) -> Any:
        seen.append(values[0].ctypes.data)
        return executable(*values)

    compiled.executable = shown
    compiled(x)
    assert seen == [x.unsafe_buffer_pointer()]


def test_bfloat16_and_small_types() -> None:
    both(lambda x: (x * x).sum(), numbers(50).astype(jnp.bfloat16), tolerance=1e-2)
    for dtype in (jnp.float16, jnp.int8, jnp.uint16, jnp.bool_, jnp.int4, jnp.float8_e4m3fn, jnp.complex64):
        both(lambda x: (x, jnp.flip(x)), jnp.asarray([0, 1, 1, 0]).astype(dtype))


def test_64_bits_are_a_setting_of_their_own() -> None:
    f, g = hj.jit(lambda x: x + 1), jax.jit(lambda x: x + 1)
    for enabled in (False, True, False):
        with jax.enable_x64(enabled):
            same(f(np.float64(1)), g(np.float64(1)))
            same(f(1), g(1))


def test_keys_of_random_numbers() -> None:
    key = jax.random.key(3)
    both(jax.random.split, key)
    both(lambda k: (k, jax.random.fold_in(k, 1)), key)
    both(lambda k: jax.random.normal(k, (50,)), key, tolerance=1e-6)
    both(lambda k: jax.random.bits(k, (5,)), jax.random.key(1, impl="rbg"))
    both(lambda k: jax.random.bits(k, (5,)), jax.random.PRNGKey(1))


def test_committed_arguments_commit_the_result() -> None:
    committed = jax.device_put(numbers(3), jax.devices()[0])
    f = hj.jit(lambda x, y: x + y)
    for x in (committed, numbers(3), committed):
        same(f(x, 1.0), jax.jit(lambda x, y: x + y)(x, 1.0))


# Static arguments, donation, caches


def power(x: Any, n: int, *, scale: float = 1.0) -> Any:
    return scale * sum(x**k for k in range(n))


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1},
        {"static_argnames": "n"},
        {"static_argnums": -1},
        {"static_argnames": ("n", "scale")},
    ],
)
def test_static_arguments(options: dict[str, Any]) -> None:
    f, g = hj.jit(power, **options), jax.jit(power, **options)
    for n in (2, 3, 2):
        same(f(2.0, n), g(2.0, n))
        same(f(2.0, n, scale=3.0), g(2.0, n, scale=3.0))
        if "static_argnames" in options or options == {"static_argnums": 1}:
            same(f(2.0, n=n), g(2.0, n=n))


def test_equal_static_values_of_different_types_are_different() -> None:
    f, g = (jit(lambda n, x: x * n, static_argnums=0) for jit in (hj.jit, jax.jit))
    for n in (1, 1.0, True):
        same(f(n, jnp.int8(2)), g(n, jnp.int8(2)))


def test_a_static_argument_without_a_hash_is_refused_as_jax_does() -> None:
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        hj.jit(power, static_argnums=1)(1.0, [2])


def test_donated_arrays_are_gone_where_a_result_takes_their_place() -> None:
    f = hj.jit(lambda x, y: x + y[0], donate_argnums=0)
    x, y = numbers(3), numbers(2)
    f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        f(x, y)
    named = hj.jit(lambda x, y: x + y[0], donate_argnames="x")
    x = numbers(3)
    named(x, y=y)
    assert x.is_deleted()
    f(np.ones(3, np.float32), y)


def test_a_donated_array_that_fits_no_result_stays() -> None:
    x = numbers(3)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        hj.jit(lambda x: x.sum(), donate_argnums=0)(x)
    assert not x.is_deleted()


def test_a_function_is_traced_once_for_a_signature() -> None:
    traced = []

    def function(x: Any) -> Any:
        traced.append(x.shape)
        return x + 1

    f = hj.jit(function)
    for size in (2, 3, 2, 3):
        f(numbers(size))
    f(np.ones(2, np.float32))
    assert traced == [(2,), (3,)]
    f.clear_cache()
    f(numbers(2))
    assert traced == [(2,), (3,), (2,)]


def test_functions_that_lower_to_the_same_share_a_plan() -> None:
    x = numbers(7)

    def planned(f: Callable[..., Any], **options: Any) -> Any:
        return hj.jit(f, **options).lower(x).compile().executable

    assert planned(lambda x: x * 3) is planned(lambda y: y * 3)
    assert planned(lambda x: x * 3) is not planned(lambda x: x * 4)
    assert planned(lambda x: x + np.arange(7)) is not planned(lambda x: x + np.arange(7)[::-1])
    assert planned(lambda x: x * 3) is not planned(lambda x: x * 3, threads=1)


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_PLANS", 3)
    monkeypatch.setattr("hlorun.jax._transform.MOST_SIGNATURES", 2)
    plans = stages._Plans()
    monkeypatch.setattr(stages, "_PLANS", plans)
    f = hj.jit(lambda x: x + 1)
    for size in range(1, 6):
        assert f(numbers(size)).shape == (size,)
    assert len(plans._kept) == 3 and len(f._last[1]) == 2


# Programs


def test_the_gradient_of_a_small_net() -> None:
    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w, b in weights[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = weights[-1]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w + b) * y, axis=1))

    weights = [(numbers(6, 16), numbers(16)), (numbers(16, 4), numbers(4))]
    both(
        jax.value_and_grad(loss), weights, numbers(8, 6), jax.nn.one_hot(jnp.arange(8) % 4, 4), tolerance=2e-5
    )


def test_loops_and_branches() -> None:
    x = numbers(5)
    both(lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x), x, tolerance=1e-6)
    both(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1)), 10)
    both(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), True, x, tolerance=1e-6)
    both(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), 2, x, tolerance=1e-6)
    both(lambda x: lax.fori_loop(0, 4, lambda i, s: s.at[i].add(i), x), x, tolerance=1e-6)


def eigenvalues(x: Any) -> Any:
    return jnp.linalg.eigh(x + x.T)[0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.linalg.cholesky(x @ x.T),
        lambda x: jnp.linalg.qr(x),
        lambda x: jnp.linalg.svd(x, compute_uv=False),
        eigenvalues,
        lambda x: jnp.linalg.solve(x, x[0]),
        lambda x: jnp.linalg.det(x),
        lambda x: jnp.linalg.inv(x),
        lambda x: jax.scipy.linalg.expm(x / 10),
        lambda x: jnp.fft.fft2(x),
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x)),
        lambda x: (jnp.sort(x), jnp.argsort(x, axis=0), lax.top_k(x, 2)),
        lambda x: jnp.einsum("ij,kj->ik", x, x),
        lambda x: x.at[jnp.array([0, 2, 0])].add(1.0),
        lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME"),
        lambda x: jnp.cumsum(x, axis=1),
    ],
    ids=[
        "cholesky",
        "qr",
        "svd",
        "eigh",
        "solve",
        "det",
        "inv",
        "expm",
        "fft2",
        "rfft",
        "sort",
        "einsum",
        "scatter",
        "convolution",
        "cumsum",
    ],
)
def test_operations(f: Callable[..., Any]) -> None:
    both(f, matrix(6), tolerance=2e-4)


def test_numbers_of_static_arguments_count_as_those_of_jax() -> None:
    last = {"static_argnums": -1}
    f, g = (jit(lambda x, *rest: x * rest[-1], **last) for jit in (hj.jit, jax.jit))
    for numbers in ((5.0, 1), (5.0, 2), (2.0, 7.0, 3), (2.0, 7.0, 4)):
        assert float(f(*numbers)) == float(g(*numbers))
    second = hj.jit(lambda x, n: x * n, static_argnums=np.int64(1))
    assert float(second(2.0, 3)) == 6


# Under transformations of JAX, and stages


def test_under_a_transformation_it_is_a_part_of_what_calls_it() -> None:
    def g(x: Any) -> Any:
        return jnp.sin(x) * 2

    f = hj.jit(g)
    x = numbers(4)
    both(lambda x: f(x) + f(x[0]), x, tolerance=1e-6)
    same(jax.vmap(f)(x), jax.vmap(g)(x), 1e-6)
    same(jax.grad(lambda x: f(x).sum())(x), jax.grad(lambda x: g(x).sum())(x), 1e-6)
    same(hj.jit(jax.grad(lambda x: f(x).sum()))(x), jax.grad(lambda x: g(x).sum())(x), 1e-6)
    same(jax.jit(lambda x: f(3.0) + x)(x), jax.jit(lambda x: g(3.0) + x)(x), 1e-6)
    assert jax.eval_shape(f, x).shape == (4,)
    assert f.eval_shape(x).shape == (4,)
    with jax.disable_jit():
        same(f(x), g(x), 1e-6)


def test_methods_and_decorators() -> None:
    class Model:
        @functools.partial(hj.jit, static_argnums=0)
        def twice(self, x: Any) -> Any:
            """Doubles."""
            return 2 * x

        def _thrice(self, x: Any) -> Any:
            return 3 * x

        thrice = hj.jit(static_argnames=("self",))(_thrice)

    model = Model()
    assert model.twice(1.5) == 3 and model.thrice(1.0) == 3
    assert Model.twice.__name__ == "twice" and Model.twice.__doc__ == "Doubles."
    assert repr(Model.twice).startswith("<hlorun.jax.jit of <function")


def test_stages() -> None:
    f = hj.jit(lambda x, y: {"sum": x + y}, donate_argnums=0)
    lowered = f.lower(jax.ShapeDtypeStruct((3,), jnp.float32), 1.0)
    assert lowered.as_text().startswith("module @jit")
    assert lowered.as_text("hlo").startswith("HloModule jit")
    assert lowered.cost_analysis()["flops"] == 3
    assert lowered.out_info["sum"].shape == (3,)
    assert lowered.args_info[0][0].donated
    compiled = lowered.compile()
    assert isinstance(compiled.executable, hlorun.Executable)
    assert compiled.as_text() == lowered.as_text("hlo")
    assert compiled.cost_analysis() == lowered.cost_analysis()
    assert compiled.memory_analysis().output_size_in_bytes == 12
    assert compiled.in_tree == lowered.in_tree and compiled.out_tree == lowered.out_tree
    x = numbers(3)
    np.testing.assert_array_equal(np.asarray(compiled(x + 0, 1.0)["sum"]), np.asarray(x + 1))
    with pytest.raises(hlorun.HloArgumentError, match="argument 0: it was lowered for"):
        compiled(numbers(4), 1.0)
    with pytest.raises(hlorun.HloArgumentError, match="structure"):
        compiled(x)


def test_what_jax_lowered_compiles() -> None:
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    same(hj.compile(lowered)(2.0), lowered.compile()(2.0))
    same(hj.compile(hj.jit(lambda x: x + 1).lower(1.0))(2.0), lowered.compile()(2.0))
    with pytest.raises(TypeError, match=r"compile takes what jax\.jit\(f\)\.lower\(…\) returns, not a int"):
        hj.compile(3)


# Callbacks


def test_host_callbacks(capfd: pytest.CaptureFixture[str]) -> None:
    experimental = import_module("jax.experimental")
    seen = []

    def f(x: Any) -> Any:
        y = jax.pure_callback(lambda x: np.asarray(x) * 2, x, x)
        experimental.io_callback(lambda v: seen.append(float(v)), None, y.sum(), ordered=True)
        experimental.io_callback(lambda v: seen.append(float(v)), None, y.sum() + 1, ordered=True)
        jax.debug.print("sum {s}", s=y.sum())
        return y, jax.pure_callback(lambda x: (x, x + 1), (x, x), x)

    x = jnp.arange(3.0)
    both(f, x)
    assert seen == [6, 7, 6, 7]
    assert capfd.readouterr().out.count("sum 6.0") == 2


def test_callbacks_in_loops_and_under_vmap() -> None:
    def add(c: Any, v: Any) -> Any:
        return c + jax.pure_callback(lambda v: v * v, v, v), c

    both(lambda x: lax.scan(add, 0.0, x), jnp.arange(4.0))
    both(
        jax.vmap(lambda v: jax.pure_callback(lambda v: v * v, v, v, vmap_method="sequential")),
        jnp.arange(4.0),
    )


def test_callbacks_of_equal_functions_are_their_own_and_go_with_them() -> None:
    def made(k: int) -> Any:
        return hj.jit(lambda x: jax.pure_callback(lambda x: x + np.float32(k), x, x))

    jax.clear_caches()
    gc.collect()
    before = len(callbacks._FUNCTIONS)
    functions = [made(k) for k in range(3)]
    assert [float(f(jnp.float32(0))) for f in functions] == [0, 1, 2]
    assert len(callbacks._FUNCTIONS) == before + 3
    del functions
    jax.clear_caches()
    gc.collect()
    assert len(callbacks._FUNCTIONS) == before


def test_what_a_callback_raises_is_raised() -> None:
    def fail(x: Any) -> Any:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        hj.jit(lambda x: jax.pure_callback(fail, x, x))(1.0)


def test_a_module_with_callbacks_of_another_process_says_so() -> None:
    lowered = jax.jit(lambda x: jax.pure_callback(lambda x: x, x, x)).lower(np.float32(1))
    executable = hlorun.compile(hlorun.parse(lowered.as_text("hlo")))
    hj.jit(lambda x: jax.pure_callback(lambda x: x, x, x))(1.0)
    with pytest.raises(
        hlorun.HloUnsupportedError, match=r"calls a Python function of the process that lowered"
    ):
        executable(np.float32(1))


# What does not run


def test_mutable_references_are_refused() -> None:
    def f(ref: Any) -> Any:
        ref[...] += 1
        return ref[...]

    with pytest.raises(hlorun.HloUnsupportedError, match="mutable references"):
        hj.jit(f)(jax.new_ref(jnp.zeros(3)))


def test_what_is_no_array_is_refused_as_jax_does() -> None:
    with pytest.raises(TypeError, match="is not a valid JAX type"):
        hj.jit(lambda x: x)("text")
    with pytest.raises(TypeError):
        hj.jit(3)


def test_an_unknown_custom_call_is_named() -> None:
    call = jax.ffi.ffi_call("mine.unknown", jax.ShapeDtypeStruct((2,), jnp.float32))
    with pytest.raises(hlorun.HloUnsupportedError, match=r"mine\.unknown"):
        hj.jit(lambda x: call(x))(numbers(2))


def test_several_devices_are_refused() -> None:
    code = """
import jax, numpy as np, hlorun, hlorun.jax
jax.config.update("jax_num_cpu_devices", 2)
mesh = jax.make_mesh((2,), ("x",))
x = jax.device_put(np.ones(4, np.float32), jax.NamedSharding(mesh, jax.P("x")))
try:
    hlorun.jax.jit(lambda x: x + 1)(x)
except hlorun.HloUnsupportedError as error:
    print(error)
second = jax.device_put(np.ones(4, np.float32), jax.devices()[1])
print(hlorun.jax.jit(lambda x: x + 1)(second).devices())
with jax.default_device(jax.devices()[1]):
    print(hlorun.jax.jit(lambda x: x + 1)(1.0).devices())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused, *placed = done.stdout.splitlines()
    assert "over 2 devices" in refused
    assert placed == ["{CpuDevice(id=1)}"] * 2


def documented() -> dict[str, Any]:
    found = {}
    for name in hj.__all__:
        value = getattr(hj, name)
        found[name] = value
        if inspect.isclass(value):
            members = {
                f"{name}.{member}": f for member, f in vars(value).items() if not member.startswith("_")
            }
            found |= {name: f for name, f in members.items() if inspect.isfunction(f)}
    return found


@pytest.mark.parametrize("name", documented())
def test_public_names_say_what_they_take_and_their_examples_are_true(name: str) -> None:
    value = documented()[name]
    doc = inspect.getdoc(value)
    assert doc
    if inspect.isfunction(value):
        parameters = [parameter for parameter in inspect.signature(value).parameters if parameter != "self"]
        assert all(
            f" {parameter}: " in doc or f" *{parameter}: " in doc or f"**{parameter}: " in doc
            for parameter in parameters
        )
        assert "Examples:" in doc and ("Raises:" in doc or not parameters)
    names = {"hlorun": hlorun, "jax": jax, "jnp": jnp, "np": np}
    example = doctest.DocTestParser().get_doctest(doc, names, name, None, None)
    printed: list[str] = []
    assert doctest.DocTestRunner().run(example, out=printed.append).failed == 0, "".join(printed)


def test_without_jax_the_import_says_what_to_install() -> None:
    code = """
import sys, hlorun
assert "jax" not in sys.modules
sys.modules["jax"] = None
try:
    import hlorun.jax
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "hlorun.jax needs JAX 0.10: pip install 'jax==0.10.*'"
