"""Arrays in and out of a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import hlorun
from conftest import dump_path


def identity(shape: str) -> hlorun.Executable:
    """Returns its argument."""
    return hlorun.compile(hlorun.parse(f"HloModule m\n\nENTRY e {{\n  ROOT x = {shape} parameter(0)\n}}\n"))


def doubled(shape: str) -> hlorun.Executable:
    """Adds its argument to itself."""
    text = f"HloModule m\n\nENTRY e {{\n  x = {shape} parameter(0)\n  ROOT y = {shape} add(x, x)\n}}\n"
    return hlorun.compile(hlorun.parse(text))


def test_contiguous_arrays_are_read_in_place() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    x.setflags(write=False)
    y = doubled("f32[2,3]")(x)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2],
        np.arange(6, dtype=np.float32).reshape(3, 2).T,
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.broadcast_to(np.float32(3), (2, 3)),
        np.arange(6, dtype=np.float32).reshape(2, 3)[::-1],
        np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.float32, offset=1).reshape(2, 3),
    ],
    ids=["strided", "transposed", "column-major", "broadcast", "reversed", "unaligned"],
)
def test_other_arrays_are_copied(x: npt.NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(doubled("f32[2,3]")(x), 2 * x)


class Wrapped:
    def __init__(self, array: npt.NDArray[np.float32]) -> None:
        self.array = array

    def __array__(self, dtype: object = None, copy: object = None) -> npt.NDArray[np.float32]:
        return self.array


class OnlyDlpack:
    def __init__(self, array: npt.NDArray[np.float32]) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_every_array_protocol_comes_in() -> None:
    x = np.arange(6, dtype=np.float32)
    executable = doubled("f32[6]")
    for value in (x, Wrapped(x), OnlyDlpack(x), memoryview(x.data)):
        np.testing.assert_array_equal(executable(value), 2 * x)
    np.testing.assert_array_equal(doubled("u8[3]")(b"\1\2\3"), np.array([2, 4, 6], np.uint8))
    np.testing.assert_array_equal(doubled("u8[3]")(bytearray(b"\1\2\3")), np.array([2, 4, 6], np.uint8))


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("f32[]", 1.5),
        ("f32[]", 3),
        ("f64[]", 1e300),
        ("s32[]", -(2**31)),
        ("u64[]", 2**64 - 1),
        ("s8[]", 127),
        ("pred[]", True),
        ("c64[]", 1 + 2j),
        ("c128[]", 2.0),
        ("bf16[]", 1.5),
        ("f32[]", float("inf")),
    ],
)
def test_python_numbers_convert_where_they_fit(shape: str, value: complex) -> None:
    y = identity(shape)(value)
    assert y.shape == ()
    assert y == value


def test_numpy_scalars_are_arrays_of_rank_zero() -> None:
    assert identity("f32[]")(np.float32(1.5)) == np.float32(1.5)
    with pytest.raises(hlorun.HloArgumentError, match="float64"):
        identity("f32[]")(np.float64(1.5))


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", "complex128"]
)
def test_dtypes_pass_through(name: str) -> None:
    names = {
        "bool": "pred",
        "int8": "s8",
        "uint16": "u16",
        "int64": "s64",
        "float16": "f16",
        "float64": "f64",
        "complex64": "c64",
        "complex128": "c128",
    }
    x = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    y = identity(f"{names[name]}[2,3]")(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "name", ["int4", "uint4", "int2", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
)
def test_dtypes_of_ml_dtypes_pass_through(name: str) -> None:
    names = {
        "int4": "s4",
        "uint4": "u4",
        "int2": "s2",
        "bfloat16": "bf16",
        "float8_e4m3fn": "f8e4m3fn",
        "float8_e5m2": "f8e5m2",
        "float4_e2m1fn": "f4e2m1fn",
    }
    x = np.array([0, 1, 1, 0]).astype(getattr(ml_dtypes, name))
    y = identity(f"{names[name]}[4]")(x)
    assert y.dtype == x.dtype
    assert y.tobytes() == x.tobytes()


def test_results_own_aligned_writable_memory() -> None:
    executable = doubled("f32[1000]")
    results = [executable(np.full(1000, k, np.float32)) for k in range(5)]
    for k, y in enumerate(results):
        assert y.ctypes.data % 64 == 0
        assert y.flags.c_contiguous
        assert y.flags.writeable
        assert (y == 2 * k).all()
    del executable
    results[0] += 1
    assert (results[0] == 1).all()


def test_an_output_is_never_an_input() -> None:
    x = np.zeros(4, np.float32)
    y = identity("f32[4]")(x)
    y += 1
    assert (x == 0).all()


def test_tuples_nest_in_and_out() -> None:
    text = """HloModule m

ENTRY e {
  p = (f32[2], (s32[], f32[0,3])) parameter(0)
  a = f32[2] get-tuple-element(p), index=0
  q = (s32[], f32[0,3]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(q), index=0
  z = f32[0,3] get-tuple-element(q), index=1
  i = (s32[], f32[0,3]) tuple(n, z)
  none = () tuple()
  ROOT r = ((s32[], f32[0,3]), f32[2], ()) tuple(i, a, none)
}
"""
    executable = hlorun.compile(hlorun.parse(text))
    a, z = np.ones(2, np.float32), np.zeros((0, 3), np.float32)
    (n, empty), same, none = executable((a, (7, z)))
    assert (n == 7).all()
    assert empty.shape == (0, 3)
    assert (same == 1).all()
    assert none == ()
    with pytest.raises(hlorun.HloArgumentError, match=r"p\{1\}.*tuple of 2"):
        executable((a, (7, z, z)))
    with pytest.raises(hlorun.HloArgumentError, match=r"p\{0\}.*f32\[2\]"):
        executable((z, (7, z)))


def test_running_by_name(modules: dict[str, hlorun.HloModule]) -> None:
    module = modules["001"]
    assert module.entry_computation is not None
    values = {p.name: np.zeros(p.shape.dims, p.shape.dtype) for p in module.entry_computation.parameters}
    executable = hlorun.compile(module)
    got = executable.run(values)
    want = executable(*values.values())
    assert [x.tolist() for x in got] == [x.tolist() for x in want]


def test_run_takes_a_path_or_a_module(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n")
    assert hlorun.run(path, 2.0) == -2
    assert hlorun.run(str(path), 2.0) == -2
    assert hlorun.run(hlorun.load(path), 2.0) == -2


def test_every_run_gives_the_same_bits(modules: dict[str, hlorun.HloModule]) -> None:
    from hlorun._inputs import random_inputs

    inputs = random_inputs(modules["003"])
    executable = hlorun.compile(modules["003"])
    first = executable(*inputs)
    for _ in range(5):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, executable(*inputs), strict=True))


def test_results_agree_for_every_number_of_threads(modules: dict[str, hlorun.HloModule]) -> None:
    from hlorun._inputs import random_inputs

    inputs = random_inputs(modules["003"])
    one = hlorun.compile(modules["003"], threads=1)(*inputs)
    two = hlorun.compile(modules["003"], threads=2)(*inputs)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_one_executable_runs_on_many_threads(modules: dict[str, hlorun.HloModule]) -> None:
    from hlorun._inputs import random_inputs

    module = modules["001"]
    executable = hlorun.compile(module)
    inputs = [random_inputs(module, seed) for seed in range(8)]
    want = [[x.tolist() for x in executable(*values)] for values in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            got = list(pool.map(lambda values: [x.tolist() for x in executable(*values)], inputs))
            assert got == want


LOOP = """HloModule forever

condition {
  s = (s32[], f32[2000000]) parameter(0)
  ROOT go = pred[] constant(true)
}

body {
  s = (s32[], f32[2000000]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[2000000] get-tuple-element(s), index=1
  y = f32[2000000] add(x, x)
  ROOT t = (s32[], f32[2000000]) tuple(n, y)
}

ENTRY e {
  n = s32[] parameter(0)
  x = f32[2000000] parameter(1)
  s = (s32[], f32[2000000]) tuple(n, x)
  ROOT w = (s32[], f32[2000000]) while(s), condition=condition, body=body
}
"""


def test_a_long_run_can_be_interrupted() -> None:
    import _thread
    import signal

    executable = hlorun.compile(hlorun.parse(LOOP))
    # A shell that starts this in the background lets it ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executable(0, np.zeros(2_000_000, np.float32))
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


ENDLESS = """HloModule endless

condition {
  i = s32[] parameter(0)
  ROOT always = pred[] constant(true)
}

body {
  i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT next = s32[] add(i, one)
}

ENTRY e {
  start = s32[] parameter(0)
  ROOT w = s32[] while(start), condition=condition, body=body
}
"""


def test_a_small_program_that_never_ends_can_be_interrupted() -> None:
    import _thread
    import signal

    executable = hlorun.compile(hlorun.parse(ENDLESS))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executable(0)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_plan_is_explained(modules: dict[str, hlorun.HloModule]) -> None:
    executable = hlorun.compile(modules["003"])
    assert executable.memory["argument_bytes"] == executable.memory["output_bytes"] + 12 * (784 + 10) * 4
    assert executable.memory["temp_bytes"] > 0
    text = executable.explain()
    assert "all-reduce" in text
    assert "1 replica" in text
    assert executable.module.name == modules["003"].name


def test_what_cannot_be_done_is_named(modules: dict[str, hlorun.HloModule]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        hlorun.compile(modules["001"], threads=0)
    target = 'HloModule m\n\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] custom-call(x), custom_call_target="my_kernel"\n}\n'
    executable = hlorun.compile(hlorun.parse(target))
    with pytest.raises(hlorun.HloUnsupportedError, match="my_kernel") as caught:
        executable(np.zeros(2, np.float32))
    assert caught.value.instruction == "y"
    assert isinstance(caught.value, NotImplementedError)


def test_elided_constants_are_never_invented() -> None:
    module = hlorun.parse(
        "HloModule m\n\nENTRY e {\n  c = f32[100] constant({...})\n  ROOT y = f32[100] negate(c)\n}\n"
    )
    with pytest.raises(hlorun.HloUnsupportedError, match=r"\bc\b") as caught:
        hlorun.compile(module)
    assert caught.value.instruction == "c"


def test_dumps_agree_with_numpy(modules: dict[str, hlorun.HloModule]) -> None:
    """001 is two dense layers, a cross entropy and counts of right answers."""
    from hlorun._inputs import random_inputs

    module = modules["001"]
    image, label, b1, w1, b2, w2, right, loss = random_inputs(module, 3)
    assert module.filename == str(dump_path("001"))
    hidden = np.maximum(image.reshape(32, 784) @ w1 + b1, 0)
    logits = hidden @ w2 + b2
    entropy = np.log(np.exp(logits).sum(1)) - logits[np.arange(32), label]
    _, _, got_right, got_loss = hlorun.compile(module)(image, label, b1, w1, b2, w2, right, loss)
    np.testing.assert_allclose(got_right, right + (logits.argmax(1) == label).sum(), rtol=1e-6)
    np.testing.assert_allclose(got_loss, loss + entropy.sum(), rtol=1e-4)
